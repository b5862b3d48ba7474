"""Prices, the tenancy tree and rates over HTTP: who may declare, who is recorded, and that a file is taken whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.http_api.estate import World, estate, problem, world

BOOK = b"side,model,currency,price,per\ncharge,,USD,2.50,hour\ncost,,USD,0.75,hour\n"
TREE = b"by,match,department\nnamespace,canary-ours,research\n"
RATES = b"base_currency,quote_currency,rate,valid_from\nUSD,CNY,7.1,2026-01-01\n"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, estate()) as found:
        yield found


def post(served: World, path: str, body: bytes, role: Any = "finance", tenant: str | None = None) -> Any:
    return served.ask("POST", f"/api/v1{path}", token=served.secret(role, tenant), content=body)


def books(served: World) -> list[tuple[Any, ...]]:
    return served.store.rows("SELECT book, version, declared_by, reason FROM fact.price_book ORDER BY ALL")


def test_a_book_is_declared_under_the_name_of_the_token_and_prices_the_ledgers_at_once(served: World) -> None:
    assert served.store.rows("SELECT count(*) FROM ledger.charge") == [(0,)]
    response = post(served, "/prices?name=p.csv&reason=list%20of%202026&book=list", BOOK)
    assert response.status_code == 201, response.text
    report = response.json()
    assert (report["status"], report["version"], report["lines_count"]) == ("declared", 1, 2)
    assert books(served) == [("list", 1, "finance/None", "list of 2026")]
    assert served.store.rows("SELECT count(*) > 0, bool_and(unpriced_reason IS NULL) FROM ledger.cost") == [
        (True, True)
    ]


def test_the_owner_over_the_local_socket_is_recorded_as_the_machines_user(served: World) -> None:
    from steelyard.app.declaring import machine_user

    assert served.ask("POST", "/api/v1/prices", local=True, content=BOOK).status_code == 201
    assert books(served) == [("default", 1, machine_user(), None)]


def test_the_same_book_again_is_no_new_version_and_another_one_is(served: World) -> None:
    post(served, "/prices", BOOK)
    again = post(served, "/prices", BOOK)
    assert (again.status_code, again.json()["status"], again.json()["version"]) == (200, "unchanged", 1)
    dearer = post(served, "/prices", BOOK.replace(b"2.50", b"2.75"))
    assert (dearer.status_code, dearer.json()["version"]) == (201, 2)
    (change,) = dearer.json()["changes"]["rows"]
    assert change[3:] == ["price", "2.50", "2.75", 10.0]
    back = post(served, "/prices", BOOK)
    assert (back.status_code, back.json()["version"]) == (201, 3)


def test_a_dry_run_says_what_would_change_and_writes_nothing(served: World) -> None:
    for path, body in (("/prices", BOOK), ("/tenancy", TREE), ("/rates", RATES)):
        response = post(served, f"{path}?dry_run=true", body)
        assert (response.status_code, response.json()["status"]) == (200, "dry_run")
        assert response.json()["changes"]["rows"]
    assert books(served) == []
    assert served.store.rows(
        "SELECT (SELECT count(*) FROM fact.tenancy), (SELECT count(*) FROM fact.exchange_rate)"
    ) == [(0, 0)]


def test_a_book_with_mistakes_is_refused_whole_with_a_line_for_each(served: World) -> None:
    body = BOOK + b"charge,X,RMB,1,hour\ncharge,Y,USD,NaN,hour\n"
    found = problem(post(served, "/prices?name=p.csv", body), 422, "malformed")
    assert found["detail"].startswith("p.csv: nothing was taken, 2 mistakes: line 4: currency")
    assert [error.split(":")[0] for error in found["errors"]] == ["line 5"]
    assert books(served) == []
    assert served.store.rows("SELECT count(*) FROM fact.price") == [(0,)]


def test_bytes_that_are_no_text_are_refused(served: World) -> None:
    found = problem(post(served, "/prices", BOOK.replace(b"charge", "收".encode("gbk"))), 422, "malformed")
    assert "UTF-8" in found["detail"]


@pytest.mark.parametrize(("role", "tenant"), [("operator", None), ("viewer", "canary-ours"), ("agent", None)])
@pytest.mark.parametrize("path", ["/prices", "/tenancy", "/rates"])
def test_nobody_but_finance_and_admins_declares(served: World, path: str, role: str, tenant: str | None) -> None:
    problem(post(served, path, BOOK, role, tenant), 403, "forbidden")
    assert books(served) == []


def test_an_operator_does_not_declare_by_way_of_an_import_either(served: World) -> None:
    for role, status in (("operator", "refused"), ("admin", "imported")):
        response = served.ask("POST", "/api/v1/import?name=p.csv", token=served.secret(role), content=BOOK)  # type: ignore[arg-type]
        (file,) = response.json()["files"]
        assert (file["kind"], file["status"]) == ("price_book", status)
    assert [row[2] for row in books(served)] == ["admin/None"]


@pytest.mark.parametrize(
    "path", ["/prices", "/prices/diff", "/prices/unpriced", "/tenancy", "/tenancy/check", "/rates"]
)
def test_a_viewer_of_one_tenant_sees_nothing_of_what_is_declared(served: World, path: str) -> None:
    problem(served.get(path, token=served.secret("viewer", "canary-ours")), 403, "forbidden")


def test_what_is_declared_is_listed_as_of_an_instant(served: World) -> None:
    body = b"side,model,currency,price,per,valid_from,valid_to\ncharge,,USD,2,hour,,2026-02-01\ncharge,,USD,,hour,2026-02-01,\n"
    post(served, "/prices", body)
    for at, price in (("2026-01-31T23:59:59Z", "2.00"), ("2026-02-01T00:00:00Z", {"unknown": "stated as not known"})):
        (prices, _books) = served.get(f"/prices?at={at}").json()["tables"]
        names = [column["name"] for column in prices["columns"]]
        assert [dict(zip(names, row, strict=True))["price"] for row in prices["rows"]] == [price]


def test_namespaces_that_no_line_maps_are_told_with_their_pods(served: World) -> None:
    post(served, "/tenancy", TREE)
    (table,) = served.get("/tenancy/check").json()["tables"]
    assert [row[1] for row in table["rows"]] == ["canary-theirs"]
    (tree,) = served.get("/tenancy?at=2026-03-01T00:00:00Z").json()["tables"]
    assert [row[:4] for row in tree["rows"]] == [["namespace", None, "canary-ours", "research"]]


def test_what_no_line_prices_is_told_with_the_reason(served: World) -> None:
    post(served, "/prices", b"side,model,currency,price,per\ncharge,,USD,1,hour\ncost,NO-SUCH-MODEL,USD,1,hour\n")
    (table,) = served.get("/prices/unpriced").json()["tables"]
    assert {row[0] for row in table["rows"]} == {"cost"}
    assert all(row[4] == "no line names the card's model, or nobody tells it" and row[6] > 0 for row in table["rows"])


def test_a_corrected_rate_counts_from_its_day_and_the_wrong_one_cannot_come_back(served: World) -> None:
    post(served, "/rates", RATES)
    assert post(served, "/rates", RATES).json()["status"] == "unchanged"
    served.served._clock.instant += 1_000_000  # type: ignore[attr-defined]
    fixed = post(served, "/rates", RATES.replace(b"7.1", b"7.2"))
    assert fixed.status_code == 201
    (table,) = served.get("/rates").json()["tables"]
    assert [row[2] for row in table["rows"]] == ["7.20"]
    problem(post(served, "/rates", RATES), 422, "usage")


@pytest.mark.parametrize(
    "path",
    [
        "/prices?at=yesterday",
        "/prices?book=nope",
        "/prices/diff",
        "/prices/diff?newer=9",
        "/prices?from=2026-01-01",
        "/tenancy?at=1",
    ],
)
def test_what_cannot_be_asked_is_a_problem_document(served: World, path: str) -> None:
    response = served.get(path)
    assert response.status_code == 422
    assert response.json()["detail"]
