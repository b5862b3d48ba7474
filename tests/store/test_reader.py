"""Threads share one store: readers see what is committed and wait for nobody, writers queue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from steelyard.facts.node import Node
from steelyard.store import Store


def node(name: str) -> Node:
    return Node(source="test", natural_key=name, node=name, occurred_at=0, observed_at=0)


def names(store: Store) -> list[str]:
    return [name for (name,) in store.rows("SELECT node FROM fact.node ORDER BY node")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as opened:
        yield opened


def test_a_reader_sees_what_was_committed_when_it_opened_and_nothing_later(store: Store) -> None:
    store.append([node("a")])
    with store.transaction():
        store.append([node("b")])
        with store.reader() as during:
            assert names(during) == ["a"]
            store.execute("CREATE OR REPLACE TABLE dim.thing AS SELECT 1 AS one")
    with store.reader() as reader:
        store.append([node("c")])
        store.execute("CREATE OR REPLACE TABLE dim.thing AS SELECT 2 AS two")
        assert names(reader) == ["a", "b"]
        assert reader.rows("SELECT * FROM dim.thing") == [(1,)]
    with store.reader() as reader:
        assert names(reader) == ["a", "b", "c"]


def test_a_reader_refuses_every_write_and_leaves_the_store_open(store: Store) -> None:
    with store.reader() as reader, pytest.raises(duckdb.TransactionException, match="read-only"):
        reader.append([node("a")])
    assert names(store) == []
    store.append([node("b")])


def test_a_reader_has_the_macros_of_the_definitions(store: Store) -> None:
    with store.reader() as reader:
        macros = "SELECT count(*) FROM duckdb_functions() WHERE function_type = 'macro' AND NOT internal"
        assert reader.rows(macros) == store.rows(macros)
        assert reader.rows(macros)[0][0] > 0


def test_a_writer_of_another_thread_waits_for_the_transaction_and_a_reader_does_not(store: Store) -> None:
    inside, seen, go = threading.Event(), threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        with store.transaction():
            store.append([node("first")])
            inside.set()
            assert go.wait(60)
            order.append("first")

    def second() -> None:
        assert inside.wait(60)
        seen.set()
        store.append([node("second")])
        order.append("second")

    writers = [threading.Thread(target=work) for work in (first, second)]
    for writer in writers:
        writer.start()
    assert seen.wait(60)
    with store.reader() as reader:  # the first transaction is open, and it does not hold this up
        assert names(reader) == []
    go.set()
    for writer in writers:
        writer.join(60)
    assert order == ["first", "second"]
    assert names(store) == ["first", "second"]


@pytest.mark.parametrize(
    "look",
    [
        names,
        lambda store: [row["node"] for row in store.records("SELECT node FROM fact.node")],
        lambda store: store.columns("SELECT node FROM fact.node")["node"],
    ],
)
def test_a_statement_outside_any_transaction_is_no_part_of_another_threads(
    store: Store, look: Callable[[Store], list[str]]
) -> None:
    inside, asked = threading.Event(), threading.Event()
    found: list[list[str]] = []

    def taken_back() -> None:
        with pytest.raises(ZeroDivisionError), store.transaction():
            store.append([node("never")])
            inside.set()
            assert asked.wait(60)
            for _again in range(20):
                store.rows("SELECT node FROM fact.node")
            raise ZeroDivisionError

    def outside() -> None:
        assert inside.wait(60)
        asked.set()
        found.append(look(store))

    threads = [threading.Thread(target=work) for work in (taken_back, outside)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [[]]
