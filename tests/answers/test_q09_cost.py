"""Q9 over stories that can be checked by hand."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from steelyard.answers.contract import Answer
from steelyard.answers.cost_lines import CostLine
from steelyard.answers.cost_series import CostSeries, cost_series
from steelyard.answers.cost_tables import beyond_capacity_us, effective_basis, unpriced_table, unpriced_us
from steelyard.definitions.money import MoneyPolicy
from steelyard.primitives.errors import UsageError
from steelyard.primitives.unknown import Unknown
from steelyard.store import Store
from steelyard.surfaces.http_api.exposition import Traffic, exposition
from steelyard.surfaces.shared.server_ports import Standing
from tests.answers.cost_story import (
    FIRST,
    SECOND,
    ask,
    at,
    book,
    cards,
    figure,
    line,
    opened,
    pod,
    rows,
    standard,
    story,
    table,
    tree,
    watched,
)

MONTH_H = 30 * 24


@cache
def mapped() -> Store:
    """The standard story with a tree that knows one of its namespaces."""
    return opened([*story(), *book(), *tree(("namespace", "team-a", {"team": "vision", "department": "ai"}))])


def by_name(result: Answer, dimension: str) -> dict[Any, dict[str, Any]]:
    return {row[dimension]: row for row in rows(result, "costs")}


def test_both_books_stand_side_by_side_by_namespace() -> None:
    found = by_name(ask(standard(), by=("namespace",)), "namespace")
    assert {name: (row["gpu_hours_granted"], row["cost_allocated"], row["charge"]) for name, row in found.items()} == {
        "team-a": (264, 264, 528),
        "team-b": (180, 180, 360),
        None: (0, 0, 0),
    }
    assert found[None]["cost_other"] == 2 * MONTH_H - 444
    assert {row["currency"] for row in found.values()} == {"USD"}


def test_accounts_add_up_to_what_the_supply_cost() -> None:
    result = ask(standard())
    accounts = rows(result, "accounts")
    assert {row["account"]: row["cost"] for row in accounts} == {"tenant": 444, "idle": 996}
    assert sum(row["cost"] for row in accounts) == figure(result, "cost_total") == 2 * MONTH_H
    assert sum(row["gpu_hours"] for row in accounts) == figure(result, "gpu_hours_supply") == 2 * MONTH_H
    assert (figure(result, "cost_residual_micro"), figure(result, "cost_residual_gpu_us")) == (0, 0)


def test_a_price_that_no_grain_divides_loses_no_millionth() -> None:
    odd = book(line("cost", "cost", 1_000_003, per="month"), line("charge", "charge", 7, per="day"))
    result = ask([*story(), *odd])
    assert figure(result, "cost_total") == Fraction(2 * 1_000_003, 1_000_000)
    assert figure(result, "cost_residual_micro") == 0


def test_a_book_that_lost_a_millionth_is_told() -> None:
    store = opened([*story(), *book()])
    store.execute(
        "UPDATE ledger.cost_entry SET cost_micro = cost_micro - 1 WHERE account = 'idle' AND grain_at = '2026-11-15 00:00:00'"
    )
    assert figure(ask(store), "cost_residual_micro") == 2
    store.execute("DELETE FROM ledger.cost_entry WHERE account = 'idle' AND grain_at = '2026-11-15 00:00:00'")
    assert figure(ask(store), "cost_residual_gpu_us") == 2 * 3_600_000_000 - 900_000_000


def test_without_a_price_book_gpu_hours_stand_and_money_is_unknown() -> None:
    result = ask(story(), by=("namespace",))
    assert figure(result, "gpu_hours_granted") == 444
    for name in ("cost_total", "cost_allocated", "cost_idle", "charge_total", "cost_residual_micro"):
        assert figure(result, name) == Unknown("no price book was imported")
    found = by_name(result, "namespace")
    assert found["team-a"]["gpu_hours_granted"] == 264
    assert found["team-a"]["cost_allocated"] == found["team-a"]["charge"] == Unknown("no price book was imported")
    assert result.next_actions == ["import a price book (`steelyard prices import FILE`)"]


def test_a_book_without_charges_has_costs_and_no_charge() -> None:
    result = ask([*story(), *book(line("cost", "cost", 1_000_000))])
    assert figure(result, "cost_total") == 2 * MONTH_H
    assert figure(result, "charge_total") == Unknown("unpriced: no price")
    assert figure(result, "gpu_hours_unpriced_charge") == 444


def test_what_no_line_names_is_unpriced_with_the_reason_and_stands_in_no_sum() -> None:
    facts = [*story(), *cards(("GPU-x",), "n2", model=None), *pod("team-c/odd", "11-01", "11-02", "GPU-x", node="n2")]
    result = ask(
        [*facts, *book(line("cost", "cost", 1_000_000, model="L40S"), line("charge", "charge", 1, model="L40S"))],
        by=("namespace",),
    )
    (cost, charge) = (row for row in rows(result, "unpriced"))
    assert (cost["side"], cost["reason"], cost["gpu_hours"], cost["nodes"]) == ("cost", "model unknown", MONTH_H, "n2")
    assert (charge["side"], charge["reason"], charge["gpu_hours"]) == ("charge", "model unknown", 24)
    found = {(row["namespace"], row["currency"]): row for row in rows(result, "costs")}
    assert found["team-c", None]["cost_allocated"] == Unknown("unpriced: model unknown")
    assert figure(result, "cost_total") == 2 * MONTH_H
    assert figure(result, "gpu_hours_unpriced_cost") == MONTH_H
    priced = next(each for each in result.figures if each.name == "cost_total")
    assert priced.coverage == pytest.approx(2 / 3)


def test_currencies_are_never_added() -> None:
    facts = [
        *story(),
        *cards(("GPU-x",), "n2", model="Tesla T4"),
        *pod("team-c/odd", "11-01", "11-02", "GPU-x", node="n2"),
    ]
    two = book(line("a", "cost", 1_000_000, model="L40S"), line("b", "cost", 5_000_000, model="T4", currency="CNY"))
    result = ask([*facts, *two], by=("account",))
    assert isinstance(figure(result, "cost_total"), Unknown)
    assert figure(result, "currency") == Unknown("several: CNY, USD")
    assert figure(ask(standard()), "currency") == "USD"
    assert "CNY, USD" in figure(result, "cost_total").reason
    found = {(row["account"], row["currency"]): row["cost_allocated"] for row in rows(result, "costs")}
    assert (found["tenant", "USD"], found["tenant", "CNY"]) == (444, 120)
    shares: dict[str, float] = {}
    for row in rows(result, "accounts"):
        shares[row["currency"]] = shares.get(row["currency"], 0) + row["share_of_cost"]
    assert shares == pytest.approx({"USD": 1, "CNY": 1})


def test_cost_and_charge_in_two_currencies_stand_in_two_rows() -> None:
    two = book(line("a", "cost", 1_000_000), line("b", "charge", 8_000_000, currency="CNY"))
    found = {row["currency"]: row for row in rows(ask([*story(), *two], where={"namespace": "team-b"}), "costs")}
    assert (found["USD"]["cost_allocated"], found["USD"]["charge"]) == (180, 0)
    assert (found["CNY"]["gpu_hours_granted"], found["CNY"]["gpu_hours_charged"], found["CNY"]["charge"]) == (
        0,
        180,
        8 * 180,
    )


@pytest.mark.parametrize(("policy", "shares"), [("proportional", (592, 404)), ("even", (498, 498))])
def test_idle_cost_is_laid_on_tenants_by_the_policy_and_sums_exactly(policy: Any, shares: tuple[int, int]) -> None:
    result = ask(standard(policy))
    found = by_name(result, "tenant")
    assert [round(found[name]["idle_share"]) for name in ("team-a", "team-b")] == list(shares)
    assert sum(row["idle_share"] for row in found.values()) == figure(result, "idle_shared") == 996
    assert figure(result, "cost_allocated") == 444, "it stands apart from the book"


def test_the_split_of_idle_cost_is_a_ratio_of_sums_and_no_mean_of_ratios() -> None:
    """team-a alone holds in the first ten days, so a mean of hourly ratios would give it more than 264/444."""
    result = ask([*story(), *book(line("cost", "cost", 1_000_000))], MoneyPolicy(idle_sharing="proportional"))
    assert by_name(result, "tenant")["team-a"]["idle_share"] == pytest.approx(996 * Fraction(264, 444), abs=1e-6)


def test_under_no_policy_idle_cost_stays_with_nobody() -> None:
    result = ask(standard())
    assert isinstance(figure(result, "idle_shared"), Unknown)
    assert all(row["idle_share"] is None for row in rows(result, "costs"))


def test_idle_cost_of_which_nobody_can_bear_a_part_stays_visible() -> None:
    result = ask([watched(), *cards(), *book()], MoneyPolicy(idle_sharing="proportional"))
    assert figure(result, "cost_idle") == 2 * MONTH_H
    assert figure(result, "idle_shared") == 0


def test_a_narrowed_question_gives_a_tenant_its_share_of_all_idle_cost() -> None:
    whole = by_name(ask(standard("even")), "tenant")["team-b"]
    own = ask(standard("even"), where={"tenant": "team-b"}, confined=True)
    assert by_name(own, "tenant") == {"team-b": whole}
    assert figure(own, "idle_shared") == 498


def test_a_meter_that_knows_no_fractions_counts_whole_cards() -> None:
    found = by_name(ask(standard()), "tenant")
    assert (found["team-a"]["gpu_hours_granted"], found["team-a"]["gpu_hours_whole_cards"]) == (264, 288)
    assert (found["team-b"]["gpu_hours_granted"], found["team-b"]["gpu_hours_whole_cards"]) == (180, 720)


@pytest.mark.parametrize("dimension", ["tenant", "account", "node", "gpu", "model", "cluster", "owner", "queue", "qos", "service", "unit_kind",
                                       "commitment", "team", "label:app", "pod"])  # fmt: skip
def test_every_grouping_adds_up_to_the_same(dimension: str) -> None:
    result = ask(mapped(), by=(dimension,))
    found = rows(result, "costs")
    assert (
        sum(row["cost_allocated"] + row["cost_other"] for row in found) == figure(result, "cost_total") == 2 * MONTH_H
    )
    assert sum(row["charge"] for row in found) == figure(result, "charge_total") == 888
    assert sum(row["gpu_hours_whole_cards"] for row in found) == 288 + 720


def test_groups_are_named_by_owner_service_and_label() -> None:
    store = standard()
    assert by_name(ask(store, by=("owner",)), "owner")["Job/train"]["cost_allocated"] == 240
    assert by_name(ask(store, by=("service",)), "service")["team-a/train"]["cost_allocated"] == 240
    assert by_name(ask(store, by=("label:app",)), "label:app")["chat"]["cost_allocated"] == 24
    assert by_name(ask(store, by=("unit_kind",)), "unit_kind")["vgpu"]["cost_allocated"] == 444


def test_a_reorganisation_splits_the_month_at_its_instant() -> None:
    moved = tree(
        ("namespace", "team-b", {"team": "old", "department": "x", "valid_to_at": at("11-11")}),
        ("namespace", "team-b", {"team": "new", "department": "x", "valid_from_at": at("11-11")}),
    )
    result = ask([*story(), *book(), *moved], by=("team",))
    assert {name: row["cost_allocated"] for name, row in by_name(result, "team").items()} == {
        "old": 60, "new": 120, "unmapped": 264, None: 0,
    }  # fmt: skip
    assert by_name(ask([*story(), *book(), *moved], by=("department",)), "department")["x"]["cost_allocated"] == 180


def test_without_a_tree_nobody_is_unmapped_and_the_answer_says_so() -> None:
    result = ask(standard(), by=("team",))
    assert set(by_name(result, "team")) == {None}
    assert any("no tenancy tree" in spot for spot in result.blind_spots)


def test_conditions_narrow_both_books() -> None:
    result = ask(standard(), where={"gpu": SECOND, "namespace": "team-a"})
    assert (figure(result, "cost_total"), figure(result, "charge_total"), figure(result, "gpu_hours_whole_cards")) == (
        24,
        48,
        48,
    )
    assert figure(ask(standard(), where={"gpu": FIRST}), "cost_total") == MONTH_H
    idle = ask(standard(), where={"account": "idle"})
    assert (figure(idle, "cost_total"), figure(idle, "cost_allocated"), figure(idle, "charge_total")) == (996, 0, 0)


def test_a_part_of_the_month_costs_its_part() -> None:
    result = ask(standard(), start="11-05", end="11-06", by=("namespace",))
    assert figure(result, "cost_total") == 48
    assert by_name(result, "namespace")["team-a"]["charge"] == 48


def test_a_window_that_cuts_a_grain_is_told_by_its_whole_grains() -> None:
    from steelyard.answers.q09_cost import CostSpec, answer
    from steelyard.primitives.instant import HOUR_US, Window

    store = standard()
    cut = answer(store, CostSpec(window=Window(at("11-05") + HOUR_US // 2, at("11-06") + HOUR_US // 2)))
    assert figure(cut, "cost_total") == 2 * 23
    assert any("whole grains only" in spot for spot in cut.blind_spots)


def test_outside_the_known_time_everything_is_unknown() -> None:
    result = ask(standard(), start="10-01", end="10-02")
    assert all(isinstance(each.value, Unknown) for each in result.figures)
    assert result.tables == ()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"by": ("colour",)}, "no dimension, label or annotation"),
        ({"where": {"gpu": "GPU-zzz"}}, "no card is called"),
        ({"where": {"tenant": "nobody"}}, "no tenant is called"),
        ({"start": "11-05", "end": "11-05"}, "must end after it starts"),
    ],
)
def test_what_cannot_be_asked_is_refused(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ask(standard(), **spec)


def test_explain_holds_the_statements_that_ran() -> None:
    explained = ask(standard(), explain=True).explain
    assert {"cost_lines", "charge_lines", "whole_cards", "cost_residual"} <= set(explained)
    assert "FROM ledger.cost" in explained["cost_lines"]
    assert table(ask(standard()), "costs").columns[0].name == "tenant"


def test_monitoring_is_told_the_last_day_by_account_and_what_has_no_price() -> None:
    found = cost_series(standard())
    assert found.costs == {("default", "idle", "USD"): 42_000_000, ("default", "tenant", "USD"): 6_000_000}
    assert found.unpriced == {}
    printed = exposition(Standing(costs=found), Traffic(), ()).decode()
    assert 'steelyard_cost_currency_units{cluster="default",account="idle",currency="USD"} 42.0\n' in printed
    assert "cost_unpriced" not in printed
    unpriced = cost_series(opened([*story(), *book(line("cost", "cost", 1_000_000, model="T4"))]))
    assert unpriced.costs == {}
    assert unpriced.unpriced["default", "cost", "model unknown"] == 48 * 3_600_000_000
    assert cost_series(opened([watched(), *cards()])) == CostSeries()


def test_what_is_held_where_no_capacity_is_known_is_unpriced_once_and_the_idle_below_0_is_told() -> None:
    record = {
        "cluster": "default",
        "pod_uid": None,
        "node": "n9",
        "model": None,
        "place_kind": "node",
        "place_id": "n9",
    }
    hour = 3_600_000_000
    held = CostLine(record, "tenant", amount_us=24 * hour, granted_us=24 * hour, reasons={("cost", "model unknown")})
    against = CostLine(record, "idle", amount_us=-24 * hour, reasons={("cost", "model unknown")})
    assert unpriced_us([held, against]) == beyond_capacity_us([held, against]) == 24 * hour
    taken = CostLine(record, "reserved_unused", amount_us=30 * hour)
    assert beyond_capacity_us([held, taken, against]) == 0, "what was moved to an owner is of a capacity that is known"
    table, _left = unpriced_table([held, against])
    assert [row[:2] + row[5:6] for row in table.rows] == [("cost", "model unknown", 24)]


@pytest.mark.parametrize(
    ("pathed", "unseen", "basis"),
    [(1_000, 50, "invoice"), (1_000, 51, "showback"), (999, 0, "showback"), (0, 0, "showback")],
)
def test_effective_cost_is_for_an_invoice_only_where_all_is_measured_alone_for_95_percent_of_the_time(
    pathed: int, unseen: int, basis: str
) -> None:
    seen = CostLine({}, "tenant", granted_us=1_000, pathed_us=pathed, used_us=100, used_upper_us=100 + unseen)
    assert effective_basis([seen]) == basis
    assert effective_basis([CostLine({}, "idle", amount_us=5)]) is None
