"""Periods, statements, disputes and budgets over HTTP: who sees what, who may close, and that closed things keep their ETag."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from steelyard.app.served import NoCollectors, Served
from steelyard.app.settings import Settings
from steelyard.app.settlement_desk import served_settlement
from steelyard.app.settlement_endpoints import settlement_endpoints
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from steelyard.surfaces.http_api import create
from tests.settlement.estate import at, micro, opened
from tests.surfaces.http_api.estate import World, problem


@pytest.fixture(scope="module")
def posted_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("posted")
    opened(directory).close()
    return directory


@pytest.fixture
def served(posted_directory: Path, tmp_path: Path) -> Iterator[World]:
    directory = Path(shutil.copytree(posted_directory, tmp_path / "data"))
    settings = Settings.model_validate({"money": {"approvers": {"budget": ["finance"]}, "formats": ["csv", "parquet"]}})
    clock = FixedClock(at("12-02"))
    with Store.open(directory) as store:
        found = Served(store, directory, settings, clock)
        endpoints = tuple(settlement_endpoints(served_settlement(store, directory, settings, clock), found.tokens))
        (tmp_path / "spool").mkdir()
        yield World(store, found, create(found.ports(NoCollectors(), tmp_path / "spool"), clock, endpoints))


def get(world: World, path: str, role: Any = "finance", tenant: str | None = None, **more: Any) -> httpx.Response:
    return world.ask("GET", f"/api/v1{path}", token=world.secret(role, tenant), **more)


def post(world: World, path: str, body: Any, role: Any = "finance", tenant: str | None = None) -> httpx.Response:
    return world.ask("POST", f"/api/v1{path}", token=world.secret(role, tenant), json=body)


def test_a_viewer_sees_its_own_statement_and_nobody_elses(served: World) -> None:
    found = get(served, "/statements?period=2026-11", "viewer", "team-b").json()
    assert [(each["tenant"], each["amount_micro"]) for each in found["statements"]] == [("team-b", micro(324))]
    assert "team-a" not in json.dumps(found)
    own = get(served, "/tenants/team-b/statement?period=2026-11", "viewer", "team-b")
    assert own.json()["statements"][0]["tenant"] == "team-b"
    for path in (
        "/tenants/team-a/statement",
        "/statements?tenant=team-a",
        "/statements/documents?tenant=team-a&format=csv",
    ):
        problem(get(served, path, "viewer", "team-b"), 403, "forbidden")
    theirs = get(served, "/statements?period=2026-11&tenant=team-a").json()["statements"][0]["lines"][0]["line_id"]
    problem(get(served, f"/statements/lines/{theirs}?period=2026-11", "viewer", "team-b"), 404, "not_found")
    assert get(served, f"/statements/lines/{theirs}?period=2026-11").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/periods",
        "/periods/2026-11",
        "/periods/2026-11/control",
        "/periods/2026-11/restatement",
        "/periods/2026-11/verification",
        "/notices",
    ],
)
@pytest.mark.parametrize(("role", "tenant"), [("viewer", "team-b"), ("agent", None)])
def test_what_concerns_everybody_is_not_for_viewers(served: World, path: str, role: str, tenant: str | None) -> None:
    problem(get(served, path, role, tenant), 403, "forbidden")


def test_finance_closes_under_the_name_of_its_token_and_nobody_else_does(served: World) -> None:
    problem(post(served, "/periods/2026-11/close", {}, "operator"), 403, "forbidden")
    problem(post(served, "/periods/2026-11/close", {}, "viewer", "team-a"), 403, "forbidden")
    problem(post(served, "/periods/2026-11/close", {"actor": "somebody"}), 403, "forbidden")
    assert get(served, "/periods/2026-11").json()["can_close"]
    closed = post(served, "/periods/2026-11/close", {})
    assert closed.status_code == 201, closed.text
    assert [each["number"] for each in closed.json()["statements"]] == ["2026-11-0001", "2026-11-0002"]
    assert served.store.rows("SELECT started_by, state FROM store.period") == [("finance/None", "closed")]
    assert get(served, "/periods/2026-11").json()["state"] == "closed"
    assert get(served, "/periods/2026-11/verification").json()["is_same"]


def test_the_token_whose_name_declared_the_prices_is_refused(served: World) -> None:
    served.store.execute("UPDATE fact.price_book SET declared_by = 'finance/None'")
    found = problem(post(served, "/periods/2026-11/close", {}), 422, "usage")
    assert "two people" in found["detail"]


def test_the_owner_over_the_local_socket_says_who_closes(served: World) -> None:
    refused = served.ask("POST", "/api/v1/periods/2026-11/close", local=True, json={"actor": "ann"})
    assert "two people" in problem(refused, 422, "usage")["detail"]
    assert served.ask("POST", "/api/v1/periods/2026-11/close", local=True, json={"actor": "bob"}).status_code == 201


def test_a_month_that_is_not_over_is_a_refusal_that_names_it(served: World) -> None:
    found = problem(post(served, "/periods/2026-12/close", {"accepted": {"late_sources": "x"}}), 422, "usage")
    assert "period_not_over" in found["detail"]


def test_a_closed_period_keeps_its_etag_and_is_not_sent_twice(served: World) -> None:
    post(served, "/periods/2026-11/close", {})
    for path in (
        "/statements?period=2026-11",
        "/periods/2026-11",
        "/periods/2026-11/control",
        "/tenants/team-a/statement?period=2026-11",
    ):
        first = get(served, path)
        again = get(served, path, headers={"If-None-Match": first.headers["etag"]})
        assert (first.status_code, again.status_code, again.content) == (200, 304, b""), path
        assert again.headers["etag"] == first.headers["etag"]
    other = get(served, "/statements?period=2026-11", headers={"If-None-Match": '"x", W/"y"'})
    assert other.status_code == 200


def test_documents_come_as_the_close_wrote_them(served: World) -> None:
    draft = get(served, "/statements/documents?period=2026-11&tenant=team-b&format=csv").json()["documents"]
    assert draft[0]["name"].startswith("draft-2026-11-team-b")
    folder = Path(post(served, "/periods/2026-11/close", {}).json()["folder"])
    found = get(served, "/statements/documents?period=2026-11&format=csv", "viewer", "team-b").json()["documents"]
    assert [each["name"] for each in found] == ["2026-11-0002-statement.csv"]
    assert base64.b64decode(found[0]["content"]) == (folder / "documents/2026-11-0002/statement.csv").read_bytes()
    problem(get(served, "/statements/documents?period=2026-11&format=exe"), 422, "usage")


def test_a_viewer_contests_its_own_line_and_finance_decides(served: World) -> None:
    post(served, "/periods/2026-11/close", {})
    lines = {
        each["tenant"]: each["lines"][0]["line_id"]
        for each in get(served, "/statements?period=2026-11").json()["statements"]
    }
    body = {"reason": "it was down", "owner": "desk", "deadline_at": "2026-12-20T00:00:00Z"}
    problem(post(served, "/disputes", {**body, "line": lines["team-a"]}, "viewer", "team-b"), 404, "not_found")
    opened = post(served, "/disputes", {**body, "line": lines["team-b"]}, "viewer", "team-b")
    assert opened.status_code == 201, opened.text
    dispute = opened.json()["dispute"]["dispute_id"]
    assert get(served, "/disputes", "viewer", "team-a").json() == {"disputes": []}
    problem(get(served, f"/disputes/{dispute}", "viewer", "team-a"), 404, "not_found")
    problem(
        post(served, f"/disputes/{dispute}/decision", {"decision": "accept", "reason": "x"}, "viewer", "team-b"),
        403,
        "forbidden",
    )
    problem(
        post(served, f"/disputes/{dispute}/decision", {"decision": "accept", "reason": "x"}, "operator"), 422, "usage"
    )
    decided = post(served, f"/disputes/{dispute}/decision", {"decision": "accept", "reason": "so it was"})
    assert decided.json()["dispute"]["correction_micro"] == -micro(324)
    trail = get(served, f"/disputes/{dispute}", "viewer", "team-b").json()["events"]
    assert [(each["actor"], each["action"]) for each in trail] == [
        ("viewer/team-b", "opened"),
        ("finance/None", "accepted"),
    ]


def test_budgets_are_proposed_approved_by_somebody_else_and_checked(served: World) -> None:
    body = {"tenant": "team-b", "period": "2026-11", "amount_micro": micro(300), "currency": "USD"}
    problem(post(served, "/budgets", body, "operator"), 403, "forbidden")
    assert post(served, "/budgets", body).json()["budget"]["state"] == "proposed"
    key = {"tenant": "team-b", "period": "2026-11", "version": 1}
    assert "somebody else" in problem(post(served, "/budgets/approval", key), 422, "usage")["detail"]
    problem(post(served, "/budgets/approval", key, "operator"), 422, "usage")
    other = served.served.tokens.create("second", "finance", None).secret
    approved = served.ask("POST", "/api/v1/budgets/approval", token=other, json=key)
    assert approved.json()["budget"]["approved_by"] == "second"
    told = get(served, "/budgets/check?period=2026-11", "viewer", "team-b").json()
    assert [(each["tenant"], each["verdict"]) for each in told["checks"]] == [("team-b", "critical")]
    assert get(served, "/budgets/check?period=2026-11", "viewer", "team-a").json()["exit_code"] == 3
    assert get(served, "/budgets", "viewer", "team-a").json() == {"budgets": []}
    assert get(served, "/approvals").json()["tables"][0]["rows"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/periods/2026-11/close", {"accepted": {"x": 5}}),
        ("/periods/2026-11/close", {"unknown": 1}),
        ("/disputes", {"line": "x"}),
        ("/budgets", {"tenant": "t", "period": "2026-11", "amount_micro": -1, "currency": "USD"}),
        ("/budgets", {"tenant": "t", "period": "2026-11", "amount_micro": 2**80, "currency": "USD"}),
        ("/budgets", {"tenant": "t", "period": "2026-11", "amount_micro": 1, "currency": "usd"}),
        ("/budgets", []),
    ],
)
def test_hostile_bodies_are_refused_and_nothing_is_written(served: World, path: str, body: Any) -> None:
    problem(post(served, path, body), 422, "usage")
    assert served.store.rows("SELECT (SELECT count(*) FROM store.period), (SELECT count(*) FROM store.budget)") == [
        (0, 0)
    ]


@pytest.mark.parametrize("label", ["..", "2026-13", "x" * 300, "%2e%2e%2fetc", "2026-11%00"])
def test_a_period_that_is_none_is_refused(served: World, label: str) -> None:
    response = get(served, f"/periods/{label}/control")
    assert response.status_code in (404, 422), response.text
