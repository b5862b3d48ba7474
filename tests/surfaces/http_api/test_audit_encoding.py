"""An audit webhook's body may be gzipped, within the bound of a plain one."""

from __future__ import annotations

import asyncio
import gzip

import httpx
import pytest
from fastapi import FastAPI

from steelyard.surfaces.http_api import audit_webhook
from steelyard.surfaces.http_api.audit_webhook import audit_endpoints
from steelyard.surfaces.http_api.problems import add_problems
from steelyard.surfaces.shared.server_ports import Taken

EVENTS = b'{"kind": "EventList", "items": []}'


class _Receiver:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def take_audit(self, body: bytes, cluster: str | None) -> Taken:
        self.bodies.append(body)
        return Taken(0, 0, 0)


async def posted(body: bytes, encoding: str) -> tuple[int, list[bytes]]:
    """The status, and what reached the receiver."""
    receiver, app = _Receiver(), FastAPI()
    add_problems(app)
    for endpoint in audit_endpoints(receiver):
        app.add_api_route(endpoint.path, endpoint.call, methods=[endpoint.method], response_model=None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://t") as client:
        answer = await client.post("/ingest/audit", content=body, headers={"Content-Encoding": encoding})
    return answer.status_code, receiver.bodies


@pytest.mark.parametrize(
    ("body", "encoding", "status", "reached"),
    [
        (EVENTS, "identity", 200, [EVENTS]),
        (gzip.compress(EVENTS, mtime=0), "gzip", 200, [EVENTS]),
        (gzip.compress(EVENTS, mtime=0), "GZIP", 200, [EVENTS]),
        (EVENTS, "gzip", 422, []),
        (gzip.compress(EVENTS, mtime=0)[:-3], "gzip", 422, []),
        (gzip.compress(b"x" * 2000, mtime=0), "gzip", 413, []),
        (EVENTS, "br", 415, []),
    ],
)
def test_an_audit_body_is_expanded_within_its_bound_or_refused(
    body: bytes, encoding: str, status: int, reached: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_webhook, "AUDIT_BYTES_MAX", 1000)
    assert asyncio.run(posted(body, encoding)) == (status, reached)
