"""What others were told wrong about the cost of GPUs, thread by thread, and what Q9 says of the same: each test names its thread.

Threads about how a grain is priced and booked are tests of the ledgers; these are about what a person reads.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from steelyard.answers.contract import Answer
from steelyard.definitions.money import MoneyPolicy
from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.primitives.instant import MINUTE_US
from steelyard.primitives.unknown import Unknown
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
    watched,
)

THREADS = (
    "opencost/opencost#3828", "opencost/opencost#3900", "opencost/opencost#2901", "opencost/opencost#1726", "opencost/opencost#2215",
    "kubecost/kubecost#1978", "opencost/opencost#3359 / PR #3393", "kubecost/cost-analyzer#5", "opencost/opencost PR #2987", "opencost/opencost#3725",
    "opencost/opencost#1841", "opencost/opencost#3823", "NVIDIA/dcgm-exporter#307 (#151,#201,#222)", "NVIDIA/dcgm-exporter#216",
    "Project-HAMi/HAMi-WebUI#64", "uiowa XDMoD wiki 76513483",
)  # fmt: skip


def samples(minutes: int = 60, **values: Any) -> list[Fact]:
    """A sample a minute of the first card in the first hour of the fifth."""
    return [
        DeviceSample(
            source="dcgm", natural_key=FIRST, device_uuid=FIRST, occurred_at=at("11-05") + minute * MINUTE_US,
            observed_at=at("11-05") + minute * MINUTE_US, interval_us=MINUTE_US, **values,
        )
        for minute in range(minutes)
    ]  # fmt: skip


def hour(facts: Sequence[Fact], **spec: Any) -> Answer:
    return ask(opened([watched(), *cards(), *facts, *book()]), start="11-05T00", end="11-05T01", **spec)


def by(result: Answer, dimension: str) -> dict[Any, dict[str, Any]]:
    return {row[dimension]: row for row in rows(result, "costs")}


def test_threads_that_are_named_here_are_those_of_the_list(shared: Path) -> None:
    with (shared / "cases" / "cost" / "gpu_cost_issues.csv").open(encoding="utf-8") as stream:
        known = {row["ref"] for row in csv.DictReader(stream)}
    assert set(THREADS) <= known


def test_opencost_3828_four_quarter_pods_are_one_gpu_hour_and_the_fraction_blind_sum_stands_beside_it() -> None:
    quarters = [each for n in range(4) for each in pod(f"team-a/p{n}", "11-01", None, FIRST, 256)]
    result = hour(quarters)
    assert (figure(result, "gpu_hours_granted"), figure(result, "gpu_hours_whole_cards")) == (1, 4)
    assert figure(result, "cost_allocated") + figure(result, "cost_idle") == figure(result, "cost_total") == 2


def test_opencost_3900_used_cost_follows_what_was_measured_and_allocated_cost_the_grant() -> None:
    held = pod("team-a/train", "11-01", None, FIRST)
    busy, idle = (
        hour([*held, *samples(gr_active_ratio=ratio, sm_active_ratio=ratio, dram_active_ratio=0.0)])
        for ratio in (0.5, 0.0)
    )
    assert figure(busy, "cost_allocated") == figure(idle, "cost_allocated") == 1
    assert (figure(busy, "cost_effective"), figure(idle, "cost_effective")) == (pytest.approx(0.5, abs=0.01), 0)


@pytest.mark.parametrize("dimension", ["tenant", "pod", "gpu", "node", "account"])
def test_opencost_2901_every_way_to_ask_yields_the_same_sum(dimension: str) -> None:
    result = ask(standard(), by=(dimension,))
    assert sum(row["cost_allocated"] + row["cost_other"] for row in rows(result, "costs")) == 1_440
    assert sum(row["cost"] for row in rows(result, "accounts")) == 1_440


@pytest.mark.parametrize(
    ("thread", "price", "reason"),
    [("opencost/opencost#1726", None, "price not known"), ("opencost/opencost#2215", "no line", "model unknown")],
)
def test_a_missing_price_is_unpriced_with_the_reason_and_never_0(thread: str, price: object, reason: str) -> None:
    assert thread in THREADS
    lines = [line("cost", "cost", None)] if price is None else [line("cost", "cost", 1, model="A100")]
    result = ask([*story(), *book(*lines)])
    assert figure(result, "cost_total") == Unknown(f"unpriced: {reason}")
    assert {row["reason"] for row in rows(result, "unpriced") if row["side"] == "cost"} == {reason}
    assert sum(row["gpu_hours"] for row in rows(result, "unpriced") if row["side"] == "cost") == 1_440


def test_kubecost_1978_and_opencost_3359_idle_is_supply_less_the_rest_and_an_oversold_card_has_none_below_0() -> None:
    oversold = [each for n in range(3) for each in pod(f"team-a/p{n}", "11-01", None, FIRST, 600)]
    result = hour(oversold)
    accounts = {row["account"]: row["cost"] for row in rows(result, "accounts")}
    assert accounts["idle"] >= 0
    assert sum(accounts.values()) == figure(result, "cost_total") == 2
    assert figure(result, "cost_residual_micro") == 0, "a mismatch would be told here and not clamped away"


def test_cost_analyzer_5_the_owner_of_a_dedicated_node_bears_what_idles_there() -> None:
    facts = [watched(), *cards(), *cards(("GPU-x",), "n2"), *book()]
    result = ask(opened(facts, MoneyPolicy(dedicated=(("n2", "team-own"),))), start="11-05", end="11-07")
    found = by(result, "tenant")
    assert found["team-own"]["cost_other"] == 48
    assert found[None]["cost_other"] == 2 * 48
    assert figure(result, "cost_reserved_unused") == 48
    own = ask(
        opened(facts, MoneyPolicy(dedicated=(("n2", "team-own"),))),
        start="11-05",
        end="11-07",
        where={"account": "reserved_unused"},
    )
    assert [(row["waste"], row["owner"], row["cost"]) for row in rows(own, "waste")] == [
        ("reserved_unused", "team-own", 48)
    ]


def test_opencost_pr_2987_a_card_that_is_shared_is_granted_once() -> None:
    halves = [each for n in range(2) for each in pod(f"team-{n}/p{n}", "11-01", None, FIRST, 512)]
    found = by(hour(halves), "tenant")
    assert [found[name]["gpu_hours_granted"] for name in ("team-0", "team-1")] == [0.5, 0.5]


def test_opencost_3725_what_stands_on_a_provisional_price_is_marked() -> None:
    result = ask([*story(), *book(line("spot", "cost", 1_000_000, provisional=True))])
    assert figure(result, "cost_provisional") == figure(result, "cost_total") == 1_440
    assert any("provisional" in spot for spot in result.blind_spots)
    assert figure(ask(standard()), "cost_provisional") == 0


def test_opencost_1841_a_month_takes_the_statements_of_a_day_and_sums_in_the_engine() -> None:
    class Counting:
        def __init__(self) -> None:
            self.store, self.rows = standard(), 0

        def records(self, sql: str, parameters: Any) -> Any:
            found = self.store.records(sql, parameters)
            self.rows += len(found)
            return found

        def columns(self, sql: str, parameters: Any) -> Any:
            found = self.store.columns(sql, parameters)
            if "date_trunc('day'" not in sql:  # by day on purpose
                self.rows += len(next(iter(found.values()), []))
            return found

    from steelyard.answers.q09_cost import CostSpec, answer
    from steelyard.primitives.instant import Window

    read = []
    for end in ("11-21", "12-01"):
        counting = Counting()
        result = answer(counting, CostSpec(window=Window(at("11-20"), at(end)), explain=True))
        read.append((counting.rows, set(result.explain)))
    assert read[0] == read[1]


def test_opencost_3823_clusters_of_the_same_names_are_kept_apart_and_idle_is_not_lost() -> None:
    other = [replace(each, cluster="east") for each in [watched(), *cards()]]
    result = ask(opened([*story(), *other, *book()]), start="11-05", end="11-06", by=("cluster",))
    found = by(result, "cluster")
    assert (found["default"]["cost_other"], found["east"]["cost_other"]) == (18, 48)
    assert figure(result, "cost_total") == 96


def test_dcgm_exporter_307_what_several_holders_used_together_is_nobodys_and_not_0() -> None:
    halves = [each for n in range(2) for each in pod(f"team-{n}/p{n}", "11-01", None, FIRST, 512)]
    result = hour([*halves, *samples(gr_active_ratio=0.9, sm_active_ratio=0.9, dram_active_ratio=0.1)], by=("tenant",))
    for row in (by(result, "tenant")["team-0"], by(result, "tenant")["team-1"]):
        assert isinstance(row["gpu_hours_used"], Unknown)
        assert isinstance(row["cost_effective"], Unknown)
        assert (row["cost_effective_upper"], row["effective_basis"], row["use_coverage_ratio"]) == (0.5, "showback", 0)


def test_dcgm_exporter_216_a_utilisation_of_0_without_profiling_is_no_use_of_0() -> None:
    result = hour([*pod("team-a/train", "11-01", None, FIRST), *samples(util_gpu_ratio=0.0)])
    assert isinstance(figure(result, "gpu_hours_used"), Unknown)
    assert figure(result, "gpu_hours_used_upper") == 1
    assert rows(result, "waste") == [] or figure(result, "cost_effective_upper") == 1


def test_hami_webui_64_the_card_and_the_grant_are_two_denominators() -> None:
    (row,) = (
        row for row in rows(hour(pod("team-a/p", "11-01", None, SECOND, 205), by=("pod",)), "costs") if row["pod"]
    )
    assert row["gpu_hours_granted"] == pytest.approx(0.2, abs=0.001)
    assert row["gpu_hours_whole_cards"] == 1


def test_xdmod_a_job_of_ten_days_costs_something_on_each_of_them_and_nothing_moves_when_it_ends() -> None:
    days = {
        row["day"][:10]: row["cost"]
        for row in rows(ask(standard(), by=("pod",)), "daily")
        if row["pod"] == "team-a/train"
    }
    assert days == {f"2026-11-{day:02}": 24 for day in range(1, 11)}
