"""Reconcile over HTTP: who may ask, what is refused, and a viewer who sees its own tenant alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.surfaces.http_api.estate import OURS, THEIRS, World, estate, problem, world


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("estate"), estate()) as found:
        yield found


def pods(found: Any) -> set[str]:
    (table,) = [table for table in found["tables"] if table["name"] == "pods"]
    return {row[0] for row in table["rows"]}


def test_an_operator_sees_all_tenants(both: World) -> None:
    response = both.get("/reconcile", token=both.secret("operator"))
    assert response.status_code == 200, response.text
    assert response.json()["question"] == "reconcile"
    assert {OURS, THEIRS} <= pods(response.json())


def test_a_viewer_sees_its_own_pods_and_no_card(both: World) -> None:
    response = both.get("/reconcile", token=both.secret("viewer", OURS))
    assert response.status_code == 200, response.text
    found = response.json()
    assert pods(found) == {OURS}
    assert THEIRS not in response.text
    assert "cards" not in {table["name"] for table in found["tables"]}


@pytest.mark.parametrize("query", ["by=moon", "at=noon", "from=2026-03-01", "bogus=1", f"tenant={THEIRS}"])
def test_what_cannot_be_asked_is_a_problem(both: World, query: str) -> None:
    problem(both.get(f"/reconcile?{query}", token=both.secret("operator")), 422, "usage")


def test_nobody_without_a_token_is_let_in(both: World) -> None:
    problem(both.ask("GET", "/api/v1/reconcile"), 401, "unauthenticated")
