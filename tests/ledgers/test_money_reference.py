"""The money ledgers by SQL equal the slow reference on random worlds, and in every one of them cost is conserved to the micro-unit."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from steelyard.definitions.money import LineKey
from steelyard.store import Store
from tests.ledgers.money_worlds import MoneyWorld, by_sql, world_of, worlds
from tests.ledgers.reference_money import Key, World, place_of, post_charge, post_cost, rate_of

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
"""To shrink a world takes minutes; it is small enough to be read as it is."""
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


@given(worlds())
@settings(deadline=None, max_examples=25, suppress_health_check=CHECKS, phases=PHASES)
def test_both_ledgers_equal_their_reference_and_cost_is_conserved_at_every_level(
    store: Store, world: MoneyWorld
) -> None:
    cost, charge = by_sql(store, world)
    seen = world_of(store, world)
    expected = post_cost(seen)
    assert cost == expected
    assert charge == post_charge(seen, expected)
    assert_conserved(seen, cost)


def assert_conserved(world: World, cost: dict[Key, Key]) -> None:
    """Amounts sum to the supply and money to what the supply costs: by card, node, cluster and account."""
    supplied: dict[Key, int] = defaultdict(int)
    for row in world.supply:
        if row["account"] == "supply":
            supplied[(*place_of(row), row["grain_at"])] += row["amount_gpu_us"]
    owed: dict[Key, int] = {}
    for (*place_key, grain_at), amount in supplied.items():
        place = next(row for row in world.places if place_of(row) == tuple(place_key))
        card = LineKey(None, place["cluster"], place["model"], place["unit_kind"], place["commitment"])
        price = rate_of(world, "cost", card, grain_at).price_micro
        if price is not None:
            owed[(*place_key, grain_at)] = price * amount // world.grain
    levels: dict[str, Callable[[Key], Any]] = {
        "card and grain": lambda key: key[:4],
        "card": lambda key: key[:3],
        "node": lambda key: key[2],
        "fleet": lambda key: None,
    }
    for level, of in levels.items():
        amounts: dict[Any, int] = defaultdict(int)
        money: dict[Any, int] = defaultdict(int)
        for key, amount in supplied.items():
            amounts[of(key)] -= amount
            money[of(key)] -= owed.get(key, 0)
        for key, (amount, _used, _upper, _path, _currency, micro, _id, _provisional, reason) in cost.items():
            amounts[of(key)] += amount
            money[of(key)] += micro or 0
            assert (micro is None) == (reason is not None)
        assert set(amounts.values()) <= {0}, level
        assert set(money.values()) <= {0}, level
    by_account = defaultdict(int)
    for key, value in cost.items():
        by_account[key[4]] += value[5] or 0
    assert sum(by_account.values()) == sum(owed.values())


@given(worlds(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=6, suppress_health_check=CHECKS, phases=PHASES)
def test_order_and_duplication_of_facts_and_where_windows_are_cut_change_nothing(
    store: Store, world: MoneyWorld, shuffle: random.Random
) -> None:
    rows = by_sql(store, world)
    facts = [*world.facts, *world.facts[: len(world.facts) // 2]]
    mixed = [list(part) for part in (facts, world.held, world.usage, world.states, world.excess, world.quotas)]
    for part in mixed:
        shuffle.shuffle(part)
    other = replace(
        world, facts=mixed[0], held=mixed[1], usage=mixed[2], states=mixed[3], excess=mixed[4], quotas=mixed[5], cut=0
    )
    assert by_sql(store, other) == rows
