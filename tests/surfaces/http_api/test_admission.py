"""Every route asks who is there; every role gets what it is for and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from steelyard.primitives.errors import InvariantError
from steelyard.surfaces.http_api import Endpoint
from steelyard.surfaces.http_api.admission import LOCAL, Admit
from steelyard.surfaces.http_api.building import OPEN_PATHS, check_admission
from steelyard.surfaces.http_api.problems import json_response
from steelyard.surfaces.shared.service_ports import ROLES, Role
from tests.surfaces.http_api.estate import World, estate, problem, world

VIEWER, OPERATOR, FINANCE, ADMIN, AGENT = ROLES

# route -> roles that are let in; one that is missing here fails the test below
MATRIX: dict[tuple[str, str], set[Role]] = {
    ("GET", "/api/v1/answers/{q}"): {VIEWER, OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/why"): {VIEWER, OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/reconcile"): {VIEWER, OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/fragmentation"): {OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/fits"): {VIEWER, OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/rightsize"): {VIEWER, OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/why/{name}"): {VIEWER, OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/why/{namespace}/{name}"): {VIEWER, OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/findings"): {OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/devices"): {OPERATOR, FINANCE, ADMIN},
    ("POST", "/api/v1/import"): {OPERATOR, ADMIN},
    ("POST", "/api/v1/prices"): {FINANCE, ADMIN},
    ("GET", "/api/v1/prices"): {OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/prices/diff"): {OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/prices/unpriced"): {OPERATOR, FINANCE, ADMIN},
    ("POST", "/api/v1/tenancy"): {FINANCE, ADMIN},
    ("GET", "/api/v1/tenancy"): {OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/tenancy/check"): {OPERATOR, FINANCE, ADMIN},
    ("POST", "/api/v1/rates"): {FINANCE, ADMIN},
    ("GET", "/api/v1/rates"): {OPERATOR, FINANCE, ADMIN},
    ("POST", "/api/v1/tokens"): {ADMIN},
    ("GET", "/api/v1/collectors"): {OPERATOR, FINANCE, ADMIN},
    ("POST", "/api/v1/collect"): {OPERATOR, ADMIN},
    ("GET", "/api/v1/tokens"): {ADMIN},
    ("DELETE", "/api/v1/tokens/{token_id}"): {ADMIN},
    ("GET", "/api/v1/readyz"): {VIEWER, OPERATOR, FINANCE, ADMIN},
    ("GET", "/readyz"): {VIEWER, OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/metrics"): {OPERATOR, FINANCE, ADMIN},
    ("GET", "/metrics"): {OPERATOR, FINANCE, ADMIN},
    ("GET", "/api/v1/openapi.json"): {VIEWER, OPERATOR, FINANCE, ADMIN},
}
ASKED = {
    "/api/v1/answers/{q}": "/api/v1/answers/q1",
    "/api/v1/tokens/{token_id}": "/api/v1/tokens/none",
    "/api/v1/why/{name}": "/api/v1/why/none",
    "/api/v1/why/{namespace}/{name}": "/api/v1/why/team-a/none",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("estate"), estate()) as found:
        yield found


def routes(app: FastAPI) -> Iterator[tuple[str, APIRoute]]:
    for route in app.routes:
        assert isinstance(route, APIRoute), route
        for method in route.methods:
            yield method, route


def test_every_route_goes_through_the_one_dependency_or_is_listed_as_open(served: World) -> None:
    found = {(method, route.path): route for method, route in routes(served.app)}
    assert {path for _method, path in found.keys() - MATRIX.keys()} == OPEN_PATHS
    assert found.keys() >= MATRIX.keys()
    for key, roles in MATRIX.items():
        (admit,) = [d.call for d in found[key].dependant.dependencies if isinstance(d.call, Admit)]
        assert admit.roles == roles, key


@pytest.mark.parametrize("role", ROLES)
def test_a_role_gets_what_it_is_for_and_nothing_else(served: World, role: Role) -> None:
    token = served.secret(role, "team-a" if role == VIEWER else None)
    for (method, path), roles in MATRIX.items():
        response = served.ask(method, ASKED.get(path, path), token=token)
        if role in roles:
            assert response.status_code not in (401, 403), (path, response.text)
        else:
            assert role in problem(response, 403, "forbidden")["detail"]


def test_without_a_valid_token_nothing_is_told(served: World) -> None:
    good = served.secret("operator")
    revoked = served.served.tokens.create("old", "admin", None)
    served.served.tokens.revoke(revoked.token.token_id)
    name, middle, rest = good.split("_", 2)
    wrong: tuple[Any, ...] = (
        None,
        "",
        "Bearer",
        f"Basic {good}",
        good,
        f"Bearer {good}x",
        f"Bearer {good[:-1]}",
        f"Bearer {good.upper()}",
        f"Bearer {name}_{middle}_",
        f"Bearer {name}_{rest}",
        f"Bearer {name}__{rest}",
        f"Bearer {revoked.secret}",
        f"Bearer {'x' * 10_000}",
        "Bearer \xff\xfe",
        f"Bearer {served.served.tokens.listed()[0].token_id}",
    )
    for given in wrong:
        headers = [] if given is None else [("Authorization", given.encode("latin-1"))]
        for method, path in MATRIX:
            response = served.ask(method, ASKED.get(path, path) + "?limit=x", headers=dict(headers))
            found = problem(response, 401, "unauthenticated")
            assert response.headers["www-authenticate"].startswith("Bearer")
            assert set(found) == {"type", "title", "status", "detail"}
    assert served.ask("GET", "/api/v1/findings", headers={"Authorization": f"bearer   {good} "}).status_code == 200


def test_two_authorizations_are_none(served: World) -> None:
    import asyncio

    import httpx

    good = served.secret("admin")

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(served.app), base_url="http://test") as client:
            return await client.get("/metrics", headers=[("Authorization", f"Bearer {good}")] * 2)

    problem(asyncio.run(asked()), 401, "unauthenticated")


@pytest.mark.parametrize(
    "headers",
    [
        {LOCAL: "true"},
        {"x-forwarded-for": "127.0.0.1"},
        {"host": "localhost"},
        {"x-steelyard-local": "1"},
        {"forwarded": "for=unix"},
    ],
)
def test_no_header_makes_a_request_local(served: World, headers: dict[str, str]) -> None:
    problem(served.ask("GET", "/api/v1/tokens", headers=headers), 401, "unauthenticated")
    assert served.ask("GET", "/api/v1/tokens", local=True).status_code == 200


def test_only_whether_it_lives_is_open_and_it_tells_nothing_else(served: World) -> None:
    for path in OPEN_PATHS:
        assert served.ask("GET", path).json() == {"status": "ok"}


@pytest.mark.parametrize("roles", [frozenset(), frozenset({"admin"})])
def test_an_app_with_a_route_that_lets_everybody_in_is_not_handed_out(tmp_path: Any, roles: frozenset[Role]) -> None:
    extra = Endpoint("GET", "/extra", lambda: json_response({}), roles, "extra")
    if roles:
        with world(tmp_path, further=(extra,)) as found:
            problem(found.ask("GET", "/api/v1/extra"), 401, "unauthenticated")
            assert found.ask("GET", "/api/v1/extra", local=True).json() == {}
            found.app.add_api_route("/late", lambda: None)
            with pytest.raises(InvariantError, match="lets everybody in"):
                check_admission(found.app)
    else:
        with pytest.raises(InvariantError, match="lets everybody in"), world(tmp_path, further=(extra,)):
            pass


def test_tokens_are_made_listed_and_revoked_over_http_and_their_secrets_are_shown_once(served: World) -> None:
    made = served.ask("POST", "/api/v1/tokens", local=True, json={"name": "grafana", "role": "viewer", "tenant": "a"})
    assert made.status_code == 201
    secret, token = made.json()["secret"], made.json()["token"]
    assert served.ask("GET", "/api/v1/readyz", token=secret).status_code == 200
    listed = served.ask("GET", "/api/v1/tokens", local=True)
    assert token in listed.json()["tokens"]
    assert secret not in listed.text
    revoked = served.ask("DELETE", f"/api/v1/tokens/{token['id']}", local=True).json()
    assert revoked["revoked_at"]
    problem(served.ask("GET", "/api/v1/readyz", token=secret), 401, "unauthenticated")
    problem(served.ask("DELETE", "/api/v1/tokens/nobody", local=True), 404, "not_found")


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"name": "", "role": "admin"},
        {"name": "x", "role": "root"},
        {"name": "x", "role": "viewer"},
        {"name": "x", "role": "viewer", "tenant": " "},
        {"name": "x", "role": "admin", "tenant": "a"},
        {"name": "x", "role": "admin", "more": 1},
        {"name": ["x"], "role": "admin"},
        [],
        "text",
        None,
    ],
)
def test_a_token_that_cannot_be_is_refused_in_one_line(served: World, wanted: Any) -> None:
    before = len(served.served.tokens.listed())
    problem(served.ask("POST", "/api/v1/tokens", local=True, json=wanted), 422, "usage")
    assert len(served.served.tokens.listed()) == before
