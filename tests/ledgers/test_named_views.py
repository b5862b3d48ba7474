"""``dim.step`` and ``dim.outcome`` are views over numbers: they take the place of what an older file has there, and are there again after a backup of
tables alone."""

from __future__ import annotations

import pytest

from steelyard.ledgers.dimensions.registry import VIEWS
from steelyard.ledgers.posting import ensure_ledgers
from steelyard.store import Store
from tests.ledgers.wait_facts import condition, post, rows_of, workload


def kind_of(store: Store, name: str) -> list[tuple[str, ...]]:
    return store.rows(
        "SELECT table_type FROM information_schema.tables WHERE table_schema = 'dim' AND table_name = ?", [name]
    )


def test_steps_have_the_names_of_their_demands() -> None:
    with Store.open_memory() as store:
        store.append([workload(60), condition(30, "QuotaReserved")])
        post(store)
        steps = [(row["demand_id"], row["step"], row["basis"]) for row in rows_of(store, "dim.step", '"at"')]
    assert steps == [("w1", "created", "object"), ("w1", "reserved", "object")]


def test_outcomes_have_the_names_of_their_demands() -> None:
    with Store.open_memory() as store:
        store.append([workload(60, uid="w1", outcome="failed"), workload(60, uid="w2", outcome="succeeded")])
        post(store)
        ends = [(row["demand_id"], row["outcome"]) for row in rows_of(store, "dim.outcome", "demand_id")]
    assert ends == [("w1", "failed"), ("w2", "succeeded")]


@pytest.mark.parametrize("name", VIEWS)
def test_a_table_of_an_older_file_gives_way_to_the_view(name: str) -> None:
    with Store.open_memory() as store:
        post(store)
        store.execute(f"CREATE TABLE dim.older AS SELECT * FROM dim.{name}")
        store.execute(f"DROP VIEW dim.{name}")
        store.execute(f"ALTER TABLE dim.older RENAME TO {name}")
        assert kind_of(store, name) == [("BASE TABLE",)]
        post(store)
        assert kind_of(store, name) == [("VIEW",)]


@pytest.mark.parametrize("name", VIEWS)
def test_the_view_is_made_again_where_only_tables_came_back(name: str) -> None:
    with Store.open_memory() as store:
        post(store)
        store.execute(f"DROP VIEW dim.{name}")
        ensure_ledgers(store)
        assert kind_of(store, name) == [("VIEW",)]
