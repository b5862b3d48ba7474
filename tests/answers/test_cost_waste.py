"""What was paid for and moved nothing: whose it is, what it cost, and no money in two rows."""

from __future__ import annotations

from typing import Any

from steelyard.answers.cost_lines import CostLine
from steelyard.answers.cost_waste import first_actions, waste_table
from steelyard.answers.state_lines import StateLine
from steelyard.facts.device_sample import DeviceSample
from steelyard.primitives.instant import HOUR_US, MINUTE_US
from tests.answers.cost_story import FIRST, ask, at, book, cards, figure, line, opened, pod, rows, watched

MICRO = 1_000_000


def record(card: str = "GPU-a", tenant: str | None = "a", account: str = "tenant", **more: Any) -> dict[str, Any]:
    return {
        "cluster": "default", "place_kind": "device", "place_id": card, "device_uuid": card, "node": "n1", "tenant": tenant, "account": account,
        "pod_uid": None if tenant is None else f"uid-{tenant}", "namespace": tenant, "pod": "p", "person": None, **more,
    }  # fmt: skip


def cost(
    hours: int, money: int, card: str = "GPU-a", account: str = "tenant", currency: str | None = "USD", **more: Any
) -> CostLine:
    amount = hours * HOUR_US
    found = record(card, **{"tenant": "a" if account == "tenant" else None, **more}, account=account)
    return CostLine(
        found,
        account,
        currency,
        amount_us=amount,
        priced_us=0 if currency is None else amount,
        cost_micro=money * MICRO,
    )


def state(name: str, hours: int, card: str = "GPU-a", cause: str | None = None, **more: Any) -> StateLine:
    return StateLine({**record(card, **more), "state": name, "cause": cause, "basis": "triple"}, hours * HOUR_US)


def wasted(states: list[StateLine], lines: list[CostLine]) -> list[dict[str, Any]]:
    table, left = waste_table(states, lines, lines)
    assert left == 0
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def test_held_waste_costs_what_its_place_cost_by_what_of_it_was() -> None:
    (found,) = wasted([state("held_idle", 3, cause="no_load")], [cost(10, 20), cost(10, 40, account="idle")])
    assert (found["waste"], found["owner"], found["cost"], found["gpu_hours"]) == ("held_idle:no_load", "a/p", 9, 3)
    assert (found["share_of_cost"], found["nodes"], found["cards"]) == (0.15, "n1", 1)
    assert found["next_action"] == "scale the engine down: it has no requests"


def test_the_dearest_stands_first_whatever_took_most_time() -> None:
    found = wasted(
        [state("held_idle", 9), state("suspected_hang", 1, "GPU-b", tenant="b")],
        [cost(10, 10), cost(10, 1_000, "GPU-b", tenant="b")],
    )
    assert [(row["waste"], row["cost"]) for row in found] == [("suspected_hang", 100), ("held_idle", 9)]


def test_accounts_of_nobodys_use_are_waste_and_idle_is_none() -> None:
    accounts = ("stranded", "out_of_service", "reserved_unused", "idle", "unobserved", "overhead", "platform_start")
    found = wasted(
        [],
        [cost(1, 7, account=account, tenant="own" if account == "reserved_unused" else None) for account in accounts],
    )
    assert {row["waste"]: (row["cost"], row["owner"]) for row in found} == {
        "stranded": (7, "n1"), "out_of_service": (7, "n1"), "reserved_unused": (7, "own"),
    }  # fmt: skip
    assert all(row["next_action"] for row in found)


def test_work_is_no_waste_and_time_without_a_price_is_in_no_row() -> None:
    lines = [cost(10, 10), cost(10, 0, "GPU-b", currency=None)]
    assert (
        wasted([state("memory_bound", 5), state("held_idle", 5, "GPU-b"), state("held_idle", 5, "GPU-c")], lines) == []
    )


def test_waste_of_two_currencies_is_not_added() -> None:
    found = wasted(
        [state("held_idle", 1), state("held_idle", 1, "GPU-b")], [cost(1, 5), cost(1, 8, "GPU-b", currency="CNY")]
    )
    assert [(row["currency"], row["cost"]) for row in found] == [("CNY", 8), ("USD", 5)]


def test_a_place_whose_price_changed_its_currency_is_in_no_row() -> None:
    assert wasted([state("held_idle", 1)], [cost(1, 5), cost(1, 8, currency="CNY")]) == []


def test_the_first_actions_name_what_it_costs_and_what_to_do() -> None:
    table, _left = waste_table([], [cost(1, 7, account="stranded")], [])
    assert first_actions(table, 3) == [
        "stranded of n1 cost 7.00 USD: move or resize holders (`steelyard fits`, `steelyard fragmentation`)"
    ]


def test_rows_that_are_not_listed_are_counted() -> None:
    lines = [cost(1, 1 + number, f"GPU-{number}", account="stranded", node=f"n{number}") for number in range(203)]
    table, left = waste_table([], lines, [])
    assert (len(table.rows), left, table.rows[0][5]) == (200, 3, 203)


def test_a_card_that_idles_is_told_with_its_owner_and_its_money() -> None:
    """Two hours of samples of a card that one pod holds: nothing moves in them."""
    start = at("11-05")
    samples = [
        DeviceSample(
            source="dcgm", natural_key=FIRST, device_uuid=FIRST, occurred_at=start + minute * MINUTE_US, observed_at=start + minute * MINUTE_US,
            interval_us=MINUTE_US, gr_active_ratio=0.0, sm_active_ratio=0.0, dram_active_ratio=0.0, memory_used_mib=500, power_watts=60.0,
        )
        for minute in range(1, 121)
    ]  # fmt: skip
    facts = [
        watched(),
        *cards(),
        *pod("team-a/train", "11-01", None, FIRST),
        *samples,
        *book(line("cost", "cost", 4_000_000)),
    ]
    store = opened(facts)
    result = ask(store, start="11-05", end="11-06", by=("namespace",))
    (found,) = rows(result, "waste")
    assert (found["waste"].partition(":")[0], found["owner"], found["tenant"]) == (
        "held_idle",
        "team-a/train",
        "team-a",
    )
    assert (found["gpu_hours"], found["cost"], found["currency"]) == (2, 8, "USD")
    assert any("held_idle" in action and "8.00 USD" in action for action in result.next_actions)
    assert figure(result, "gpu_hours_used") == 0
    assert figure(result, "gpu_hours_used_upper") == 22
    assert (figure(result, "cost_effective"), figure(result, "cost_effective_upper")) == (0, 88)
    (row,) = (row for row in rows(result, "costs") if row["namespace"] == "team-a")
    assert (row["effective_basis"], row["use_coverage_ratio"]) == ("showback", 2 / 24)
    seen = ask(store, start="11-05T00", end="11-05T02", by=("namespace",))
    (row,) = (row for row in rows(seen, "costs") if row["namespace"] == "team-a")
    assert (row["effective_basis"], row["cost_effective"], row["cost_allocated"]) == ("invoice", 0, 8)
    assert row["use_coverage_ratio"] == 119 / 120, "the sample of the last minute stands in the grain after it"
