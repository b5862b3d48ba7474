"""``dim.step`` is a view over numbers: it takes the place of what an older file has there, and is there again after a backup of tables alone."""

from __future__ import annotations

from steelyard.ledgers.posting import ensure_ledgers
from steelyard.store import Store
from tests.ledgers.wait_facts import condition, post, rows_of, workload


def kind_of_step(store: Store) -> list[tuple[str, ...]]:
    return store.rows(
        "SELECT table_type FROM information_schema.tables WHERE table_schema = 'dim' AND table_name = 'step'"
    )


def test_steps_have_the_names_of_their_demands() -> None:
    with Store.open_memory() as store:
        store.append([workload(60), condition(30, "QuotaReserved")])
        post(store)
        steps = [(row["demand_id"], row["step"], row["basis"]) for row in rows_of(store, "dim.step", '"at"')]
    assert steps == [("w1", "created", "object"), ("w1", "reserved", "object")]


def test_a_table_of_an_older_file_gives_way_to_the_view() -> None:
    with Store.open_memory() as store:
        post(store)
        store.execute("CREATE TABLE dim.older AS SELECT * FROM dim.step")
        store.execute("DROP VIEW dim.step")
        store.execute("ALTER TABLE dim.older RENAME TO step")
        assert kind_of_step(store) == [("BASE TABLE",)]
        post(store)
        assert kind_of_step(store) == [("VIEW",)]


def test_the_view_is_made_again_where_only_tables_came_back() -> None:
    with Store.open_memory() as store:
        post(store)
        store.execute("DROP VIEW dim.step")
        ensure_ledgers(store)
        assert kind_of_step(store) == [("VIEW",)]
