"""``create``: the app over its ports, with the one dependency before every route and every error a problem document.

Called by ``app.serving``, once. Later work adds a module of endpoints and names it in ``_endpoints``: what it declares (path, roles, bounds) is
all that it has to know. The trick to know: the finished app is checked, and one that has a route without admission is never handed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any, Final

from fastapi import Depends, FastAPI, Response
from fastapi.routing import APIRoute

from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import InvariantError
from steelyard.surfaces.http_api.admission import Admit
from steelyard.surfaces.http_api.answers import answer_endpoints
from steelyard.surfaces.http_api.bounds import Bounds, Patience
from steelyard.surfaces.http_api.capacity import capacity_endpoints
from steelyard.surfaces.http_api.collection import collection_endpoints
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.exposition import Traffic
from steelyard.surfaces.http_api.health import health_endpoints
from steelyard.surfaces.http_api.imports import import_endpoints
from steelyard.surfaces.http_api.listings import listing_endpoints
from steelyard.surfaces.http_api.money import money_endpoints
from steelyard.surfaces.http_api.problems import add_problems
from steelyard.surfaces.http_api.reconciling import reconcile_endpoints
from steelyard.surfaces.http_api.stories import story_endpoints
from steelyard.surfaces.http_api.tokens import token_endpoints
from steelyard.surfaces.shared import problems
from steelyard.surfaces.shared.server_ports import ServerPorts

API: Final = "/api/v1"
OPEN_PATHS: Final = frozenset({f"{API}/healthz", "/healthz"})
"""Routes that ask nobody who he is: whether the process answers, and nothing else."""


def create(
    ports: ServerPorts, clock: Clock, further: Iterable[Endpoint] = (), patience: Patience | None = None
) -> FastAPI:
    """The app. ``further``: endpoints of other parts of the program, such as those that take samples in.

    Raises InvariantError where a route would let everybody in that is not one of ``OPEN_PATHS``.
    """
    app = FastAPI(
        title="Steelyard",
        version=version("steelyard"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=Response,
        responses={"default": _problem_schema()},
    )
    add_problems(app)
    traffic = Traffic()
    limits: dict[str, int] = {}
    for endpoint in (*_endpoints(ports, clock, traffic), *further):
        for path in (API + endpoint.path, *endpoint.aliases):
            _add(app, path, endpoint, ports)
            if endpoint.body_bytes_max is not None:
                limits[path] = endpoint.body_bytes_max
    app.add_middleware(Bounds, traffic=traffic, body_bytes_max=limits, patience=patience, uncounted=OPEN_PATHS)
    _describe(app)
    check_admission(app)
    return app


def _endpoints(ports: ServerPorts, clock: Clock, traffic: Traffic) -> Iterator[Endpoint]:
    yield from answer_endpoints(ports)
    yield from story_endpoints(ports)
    yield from reconcile_endpoints(ports)
    yield from capacity_endpoints(ports)
    yield from listing_endpoints(ports)
    yield from import_endpoints(ports)
    yield from money_endpoints(ports.money, ports.tokens)
    yield from token_endpoints(ports)
    yield from collection_endpoints(ports)
    yield from health_endpoints(ports, clock, traffic)


def _add(app: FastAPI, path: str, endpoint: Endpoint, ports: ServerPorts) -> None:
    more: dict[str, Any] = {"security": [{"bearer": []}]} if endpoint.roles else {}
    if endpoint.request_body is not None:
        more["requestBody"] = endpoint.request_body
    if endpoint.roles:
        more["x-roles"] = sorted(endpoint.roles)
    app.add_api_route(
        path,
        endpoint.call,
        methods=[endpoint.method],
        dependencies=[] if path in OPEN_PATHS else [Depends(Admit(ports.gate, endpoint.roles))],
        summary=endpoint.summary,
        openapi_extra=more,
        response_model=None,
        include_in_schema=path not in endpoint.aliases,
    )


def _describe(app: FastAPI) -> None:
    """Let the OpenAPI description say what a token is sent as."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        found = plain()
        found.setdefault("components", {})["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        return found

    app.openapi = described  # type: ignore[method-assign]  # the framework's documented way to extend its schema


def check_admission(app: FastAPI) -> None:
    """Every route has an ``Admit`` with at least one role before it, or is one of ``OPEN_PATHS``. Raises InvariantError."""
    for route in app.routes:
        if getattr(route, "path", None) in OPEN_PATHS:
            continue
        admits = [d.call for d in route.dependant.dependencies] if isinstance(route, APIRoute) else []
        if not any(isinstance(call, Admit) and call.roles for call in admits):
            raise InvariantError(f"a route that lets everybody in: {route}")


def _problem_schema() -> dict[str, Any]:
    members = {name: {"type": "string"} for name in ("type", "title", "detail")}
    schema = {
        "type": "object",
        "properties": {**members, "status": {"type": "integer"}},
        "required": [*members, "status"],
    }
    return {"description": "What went wrong (RFC 9457)", "content": {problems.MEDIA_TYPE: {"schema": schema}}}
