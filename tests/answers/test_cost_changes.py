"""Days against the days before them: when one is an anomaly, and why it cost another amount."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from steelyard.answers.cost_changes import changes_part, whole_days
from steelyard.answers.cost_lines import DailyCost
from steelyard.answers.dimensions import Dimension
from steelyard.definitions.cost_change import ChangeRule
from steelyard.primitives.instant import DAY_US, HOUR_US, Window, format_instant
from tests.answers.cost_story import FIRST, SECOND, ask, at, book, cards, figure, line, pod, rows, standard, watched

BY = (Dimension("tenant", lambda record: record["tenant"]),)
START = at("11-01")
MICRO = 1_000_000


def spent(
    day: int, cost: int, hours: int = 10, tenant: str = "a", model: str = "T4", currency: str = "USD"
) -> DailyCost:
    record = {"tenant": tenant, "model": model, "unit_kind": "gpu", "commitment": None}
    return DailyCost(record, "tenant", currency, START + day * DAY_US, hours * HOUR_US, cost * MICRO)


def compared(found: list[DailyCost], days: int = 10, **rule: Any) -> list[dict[str, Any]]:
    part = changes_part(found, BY, Window(START, START + days * DAY_US), ChangeRule(**rule))
    (table,) = (each for each in part.tables if each.name == "changes")
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def day(number: int) -> str:
    return format_instant(START + number * DAY_US)


def test_a_day_that_costs_as_the_days_before_is_listed_last_and_is_no_anomaly() -> None:
    (last,) = compared([spent(number, 100) for number in range(10)])
    assert (last["day"], last["difference"], last["is_anomaly"], last["reason"]) == (
        day(9),
        0,
        False,
        "nothing changed",
    )


@pytest.mark.parametrize(
    ("cost", "hours", "reason", "effects"),
    [
        (200, 10, "prices changed", (100, 0, 0)),
        (200, 20, "usage changed", (0, 100, 0)),
        (300, 20, "prices changed", (100, 100, 0)),
        (0, 0, "usage changed", (0, -100, 0)),
    ],
)
def test_an_anomaly_has_its_reason_and_effects_that_sum_to_the_difference(
    cost: int, hours: int, reason: str, effects: tuple[int, int, int]
) -> None:
    (found,) = compared([*(spent(number, 100) for number in range(9)), spent(9, cost, hours)])
    assert (found["is_anomaly"], found["cost_before_mean"], found["reason"]) == (True, 100, reason)
    assert (found["price_effect"], found["usage_effect"], found["mix_effect"]) == effects
    assert found["difference"] == sum(effects) == cost - 100


def test_dearer_cards_in_place_of_cheap_ones_are_the_mix() -> None:
    before = [each for number in range(9) for each in (spent(number, 10), spent(number, 100, model="H100"))]
    (found,) = compared([*before, spent(9, 200, 20, model="H100")])
    assert (found["reason"], found["price_effect"], found["usage_effect"], found["mix_effect"]) == (
        "other cards were used",
        0,
        0,
        90,
    )


@pytest.mark.parametrize(
    ("cost", "rule", "is_anomaly"),
    [
        (125, {}, True),
        (124, {}, False),
        (75, {}, True),
        (125, {"ratio_ppm": 250_001}, False),
        (125, {"least_micro": 25 * MICRO}, True),
        (125, {"least_micro": 25 * MICRO + 1}, False),
    ],
)
def test_an_anomaly_passes_both_thresholds(cost: int, rule: dict[str, int], is_anomaly: bool) -> None:
    (found,) = compared([*(spent(number, 100) for number in range(9)), spent(9, cost)], **rule)
    assert found["is_anomaly"] is is_anomaly


def test_earlier_anomalies_are_listed_and_other_earlier_days_are_not() -> None:
    found = compared([spent(number, 300 if number == 5 else 100) for number in range(10)], ratio_ppm=MICRO)
    assert [(row["day"], row["is_anomaly"]) for row in found] == [(day(5), True), (day(9), False)]


def test_the_mean_is_of_the_days_before_and_of_no_more_than_the_rule_says() -> None:
    costs = [1_000, 1_000, *[100] * 7, 100]
    (last,) = (
        row for row in compared([spent(number, cost) for number, cost in enumerate(costs)]) if row["day"] == day(9)
    )
    assert last["cost_before_mean"] == 100
    (wide,) = (row for row in compared([spent(n, c) for n, c in enumerate(costs)], days=10) if row["day"] == day(9))
    assert wide["is_anomaly"] is False
    (nine,) = (row for row in _with_rule(costs, 9) if row["day"] == day(9))
    assert nine["cost_before_mean"] == Fraction(2_700, 9)


def _with_rule(costs: list[int], days: int) -> list[dict[str, Any]]:
    part = changes_part(
        [spent(n, c) for n, c in enumerate(costs)], BY, Window(START, START + 10 * DAY_US), ChangeRule(days=days)
    )
    table = part.tables[1]
    return [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]


def test_a_day_without_any_use_counts_as_none_in_the_mean() -> None:
    found = {row["day"]: row for row in compared([spent(number, 100) for number in (0, 2, 4)], days=5)}
    assert found[day(4)]["cost_before_mean"] == Fraction(200, 4)
    assert (found[day(3)]["cost"], found[day(3)]["cost_before_mean"], found[day(3)]["is_anomaly"]) == (
        0,
        Fraction(200, 3),
        True,
    )


def test_fewer_days_before_than_the_rule_asks_for_say_nothing() -> None:
    assert compared([spent(0, 1), spent(1, 1_000), spent(2, 5)], days=3) == []
    assert len(compared([spent(0, 1), spent(1, 1_000), spent(2, 5)], days=3, days_least=2)) == 1


def test_currencies_and_groups_are_compared_with_themselves_alone() -> None:
    found = [
        *(spent(number, 100) for number in range(10)),
        *(spent(number, 1_000, currency="CNY") for number in range(10)),
        *(spent(number, 5, tenant="b") for number in range(10)),
    ]
    assert {(row["tenant"], row["currency"]): row["difference"] for row in compared(found)} == {
        ("a", "USD"): 0, ("a", "CNY"): 0, ("b", "USD"): 0,
    }  # fmt: skip


def test_whole_days_are_those_that_the_window_holds_from_midnight_to_midnight() -> None:
    assert whole_days(Window(START + 1, START + 3 * DAY_US - 1)) == Window(START + DAY_US, START + 2 * DAY_US)
    assert whole_days(Window(START + 1, START + 2)).duration_us == 0


def test_the_answer_tells_a_price_that_rose_from_use_that_rose() -> None:
    """From the 29th a card-hour costs half as much again; from the 20th to the 22nd half of the second card is held beside what was."""
    rising = book(line("old", "cost", 1_000_000, to="11-29"), line("new", "cost", 1_500_000, from_="11-29"))
    facts = [
        watched(), *cards(), *pod("team-a/train", "11-01", None, FIRST), *pod("team-a/infer", "11-20", "11-22", SECOND, 512), *rising,
    ]  # fmt: skip
    result = ask(facts, by=("namespace",))
    found = {(row["namespace"], row["day"][:10]): row for row in rows(result, "changes")}
    rose, more = found["team-a", "2026-11-29"], found["team-a", "2026-11-20"]
    assert (rose["reason"], rose["price_effect"], rose["usage_effect"]) == ("prices changed", 12, 0)
    assert (more["reason"], more["usage_effect"], more["price_effect"]) == ("usage changed", 12, 0)
    assert any("prices changed" in action and "2026-11-29" in action for action in result.next_actions)


def test_days_sum_to_the_window_and_the_series_are_of_accounts() -> None:
    result = ask(standard(), by=("namespace",))
    assert sum(row["cost"] for row in rows(result, "daily")) == figure(result, "cost_total")
    assert sum(row["gpu_hours"] for row in rows(result, "daily")) == figure(result, "gpu_hours_supply")
    assert {each.name: sum(value for _at, value in each.points) for each in result.series} == {
        "cost_idle_usd": 996, "cost_tenant_usd": 444,
    }  # fmt: skip


def test_without_prices_there_are_no_days() -> None:
    result = ask([watched(), *cards()])
    assert (rows(result, "daily"), rows(result, "changes"), list(result.series)) == ([], [], [])
