"""``ingest/audit``: what an API server's audit webhook posts, stored before it is acknowledged.

The API server is told of it by ``--audit-webhook-config-file``; it sends a batch again that was not acknowledged, and what comes twice is
known by its audit id and stage.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.i18n import _
from steelyard.surfaces.http_api.admission import OPERATORS
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.problems import Problem, json_response
from steelyard.surfaces.shared.server_ports import AuditReceiver

AUDIT_BYTES_MAX: Final = 32 << 20
"""The API server cuts its batches at 10 MiB by default."""

_WINDOW_GZIP: Final = 31
_BODY: Final = {"content": {"application/json": {"schema": {"type": "object"}}}, "required": True}


class AuditParameters(BaseModel):
    """What the webhook's address may say."""

    model_config = ConfigDict(extra="forbid")

    cluster: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$")] | None = Field(
        None, description="Which cluster's API server it is; default: that of the settings."
    )
    timeout: str | None = Field(None, max_length=20, description="Sent by the API server; not used.")


def _expanded(body: bytes) -> bytes:
    """The content of a gzip within the bound of a plain body. Raises Problem: beyond it, and SourceMalformed where it is no whole gzip."""
    reader = zlib.decompressobj(_WINDOW_GZIP)
    try:
        content = reader.decompress(body, AUDIT_BYTES_MAX)
    except zlib.error as error:
        raise SourceMalformed(_("no readable gzip: {reason}").format(reason=error)) from None
    if not reader.eof and len(content) >= AUDIT_BYTES_MAX:
        raise Problem("too_large", _("the request's body is larger than {limit} bytes").format(limit=AUDIT_BYTES_MAX))
    if not reader.eof or reader.unused_data:
        raise SourceMalformed(_("no readable gzip: {reason}").format(reason=_("expected one whole stream")))
    return content


def audit_endpoints(receiver: AuditReceiver) -> Iterator[Endpoint]:
    """The one route."""

    async def take(request: Request, parameters: Annotated[AuditParameters, Query()]) -> Response:
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise Problem("unsupported", _("expected the content encoding gzip, or none"), status=415)
        body = await request.body()
        if encoding == "gzip":
            body = await run_in_threadpool(_expanded, body)
        taken = await run_in_threadpool(receiver.take_audit, body, parameters.cluster)
        return json_response(
            {"events_count": taken.facts_count, "new_count": taken.new_count, "refused_count": taken.refused_count}
        )

    yield Endpoint(
        "POST",
        "/ingest/audit",
        take,
        OPERATORS,
        "Take in audit events (audit.k8s.io/v1 EventList) from an API server's webhook",
        body_bytes_max=AUDIT_BYTES_MAX,
        request_body=_BODY,
    )
