"""The supply ledger by SQL equals the slow reference on random worlds, and its books close in every one of them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.store import Store
from tests.ledgers.reference_supply import post_supply
from tests.ledgers.supply_worlds import by_sql, world_of, worlds


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


def residuals(rows: dict[Any, tuple[int, int | None, int]]) -> list[tuple[int, int, int]]:
    """Supply less all accounts, per place and grain; in memory only where that is known of the supply and of all in it."""
    balance: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    told = {(key[0], key[1], key[3]) for key in rows if key[4] == "supply"}
    told -= {(key[0], key[1], key[3]) for key, amounts in rows.items() if amounts[1] is None}
    for (kind, place, _node, grain, account, *_), amounts in rows.items():
        sign = {"supply": 1, "overcommitted": 0}.get(account, -1)
        for n in range(3):
            if n != 1 or (kind, place, grain) in told:
                balance[kind, place, grain][n] += sign * (amounts[n] or 0)
    return [tuple(entry) for entry in balance.values()]  # type: ignore[misc]


def overdrawn(rows: dict[Any, tuple[int, int | None, int]]) -> list[Any]:
    """Accounts that are negative in the sum over a node and all its cards, or over all of the cluster; in memory where all of it is known."""
    sums: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    vague = set()
    for (kind, _place, node, grain, account, service, *_), amounts in rows.items():
        name = "out_of_service" if (account, service) == ("free", "down") else account
        for scope in ([] if kind == "cluster" else [node]) + ["everything"]:
            if amounts[1] is None:
                vague.add((scope, grain, name))
            for n in range(3):
                sums[scope, grain, name][n] += amounts[n] or 0
    return [key for key, (share, memory, cores) in sums.items() if min(share, cores, 0 if key in vague else memory) < 0]


def negatives(rows: dict[Any, tuple[int, int | None, int]]) -> list[Any]:
    """Keys of amounts below zero: lawful only where a place takes nothing but a transfer."""
    transfers = {"default", "n1", "n2"}
    return [
        key
        for key, amounts in rows.items()
        if min(amount or 0 for amount in amounts) < 0 and not (key[0] in ("node", "cluster") and key[1] in transfers)
    ]


@given(worlds())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_supply_equals_its_reference_and_closes(store: Store, world: Any) -> None:
    facts, held, grain = world
    rows = by_sql(store, facts, held, grain)
    assert rows == post_supply(world_of(store, grain, held))
    assert set(residuals(rows)) <= {(0, 0, 0)}
    assert negatives(rows) == []
    assert overdrawn(rows) == []


@given(worlds(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_order_and_duplication_change_nothing(store: Store, world: Any, shuffle: random.Random) -> None:
    facts, held, grain = world
    rows = by_sql(store, facts, held, grain)
    again = [*facts, *facts[: len(facts) // 2]]
    shuffle.shuffle(again)
    mixed = list(held)
    shuffle.shuffle(mixed)
    assert by_sql(store, again, mixed, grain) == rows
