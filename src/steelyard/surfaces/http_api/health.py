"""``healthz`` (the process is alive), ``readyz`` (it can answer), ``metrics`` (our own), and the OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import Request, Response

from steelyard.primitives.clock import Clock
from steelyard.primitives.instant import Instant, format_instant
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.http_api.admission import ESTATE, EVERYBODY, principal_of
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.exposition import MEDIA_TYPE, Traffic, exposition
from steelyard.surfaces.http_api.problems import json_response
from steelyard.surfaces.shared.collect_text import collector_json
from steelyard.surfaces.shared.server_ports import ServerPorts, Standing


def health_endpoints(ports: ServerPorts, clock: Clock, traffic: Traffic) -> Iterator[Endpoint]:
    """All four. ``healthz`` says nothing but that the process answers, and is the one route that asks nobody who he is."""

    async def healthz() -> Response:
        return json_response({"status": "ok"})

    def readyz(request: Request) -> Response:
        ready = {"status": "ready", "now": format_instant(clock.now())}
        if (
            principal_of(request).role not in ESTATE
        ):  # how the estate stands, and what its sources are called, is not a tenant's
            return json_response(ready)
        collectors = [collector_json(status) for status in ports.collectors.status()]
        return json_response({**ready, **_standing(ports.health.standing()), "collectors": collectors})

    def metrics() -> Response:
        text = exposition(ports.health.standing(), traffic, ports.collectors.status())
        return Response(text, media_type=MEDIA_TYPE)

    async def openapi(request: Request) -> Response:
        return json_response(request.app.openapi())

    yield Endpoint("GET", "/healthz", healthz, frozenset(), "Whether the process answers", aliases=("/healthz",))
    yield Endpoint("GET", "/readyz", readyz, EVERYBODY, "Whether it can answer questions", aliases=("/readyz",))
    yield Endpoint("GET", "/metrics", metrics, ESTATE, "Metrics of its own", aliases=("/metrics",))
    yield Endpoint("GET", "/openapi.json", openapi, EVERYBODY, "This description")


def _standing(standing: Standing) -> dict[str, Any]:
    unknown = isinstance(standing.coverage, Unknown)
    return {
        "last_posting_at": _stamp(standing.posted_at),
        "as_of": _stamp(standing.as_of),
        "ledger_residual_gpu_us": standing.residual_gpu_us,
        "coverage": None if unknown else standing.coverage,
        **({"coverage_unknown": standing.coverage.reason} if isinstance(standing.coverage, Unknown) else {}),
    }


def _stamp(instant: Instant | None) -> str | None:
    return None if instant is None else format_instant(instant)
