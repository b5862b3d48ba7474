"""What a million tokens, a job and a million samples cost, where facts say what was done; and a service's cost by its callers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from steelyard.answers.contract import Answer
from steelyard.definitions.money import MoneyPolicy
from steelyard.definitions.token_split import TokenWeights
from steelyard.facts.base import Fact
from steelyard.facts.gang import Gang
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.service_use import ServiceUse
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
    watched,
)

RATE = "steelyard.io/samples-per-second"


def use(
    caller: str | None, prompt: int | None, completion: int | None, cached: int | None = None, **more: Any
) -> ServiceUse:
    start = at(more.pop("start", "11-05"))
    return ServiceUse(
        source="service_use", natural_key=f"{caller}/{prompt}/{start}", service=more.pop("service", "team-b/chat"), caller=caller, started_at=start,
        ended_at=start + 1, prompt_tokens=prompt, cached_tokens=cached, completion_tokens=completion, occurred_at=start, observed_at=start, **more,
    )  # fmt: skip


def served(*uses: ServiceUse, prices: list[Fact] | None = None, policy: MoneyPolicy | None = None) -> Answer:
    """The first card serves all month: it costs 720 and is charged at 1,440."""
    chat = pod("team-b/chat-1", "11-01", None, FIRST, workload=("Deployment", "chat"))
    return ask([watched(), *cards(), *chat, *uses, *(prices or book())], policy)


def units(result: Answer) -> dict[str, dict[str, Any]]:
    return {row["unit"]: row for row in rows(result, "unit_costs")}


def test_a_million_tokens_cost_what_the_service_cost_its_idle_time_too() -> None:
    result = served(use("search", 1_000_000, 500_000), use("docs", 500_000, 0))
    found = units(result)["million_tokens"]
    assert (found["subject"], found["quantity"], found["cost"], found["charge"]) == (
        "team-b/chat",
        2_000_000,
        720,
        1_440,
    )
    assert (found["cost_per_unit"], found["charge_per_unit"]) == (360, 720)
    assert figure(result, "cost_per_million_tokens") == 360


def counter(metric: str, day: str, value: float, pod: str = "chat-1", engine: str = "0") -> MetricSample:
    return MetricSample(
        source="scrape", natural_key=f'{metric}{{"engine":"{engine}"}}{pod}', family="engine", metric=metric, kind="counter", value=value,
        namespace="team-b", pod=pod, occurred_at=at(day), observed_at=at(day),
    )  # fmt: skip


def by_engines(
    *samples: MetricSample, end: str | None = None, begin: str = "11-01", uses: Sequence[Fact] = ()
) -> Answer:
    chat = pod("team-b/chat-1", begin, end, FIRST, workload=("Deployment", "chat"))
    return ask([watched(), *cards(), *chat, *samples, *uses, *book()])


PROMPT, DONE = "vllm:prompt_tokens_total", "vllm:generation_tokens_total"


def test_engines_tell_the_tokens_where_no_gateway_does_and_a_counter_that_fell_began_anew() -> None:
    prompts = [
        counter(PROMPT, day, value)
        for day, value in (("11-02", 700_000), ("11-20", 900_000), ("11-21", 100_000), ("11-30T23", 1_100_000))
    ]
    done = [counter(DONE, "11-02", 10), counter(DONE, "11-30T23", 500_000)]
    found = units(by_engines(*prompts, *done))
    # the pod began on the first: 700,000 + 200,000 before, 100,000 + 1,000,000 after the engine began anew; decoded 500,000
    assert found["million_tokens"]["quantity"] == 2_500_000
    assert (found["million_tokens"]["cost"], found["million_tokens"]["cost_per_unit"]) == (720, 288)
    assert (found["million_prefill_tokens"]["quantity"], found["million_decode_tokens"]["quantity"]) == (
        2_000_000,
        500_000,
    )
    assert found["million_tokens"]["basis"] == "engine 99.86%"
    assert figure(by_engines(*prompts, *done), "cost_per_million_tokens") == 288


def test_what_an_engine_counted_before_the_window_is_none_of_it() -> None:
    samples = [
        counter(PROMPT, day, value) for day, value in (("10-31", 5), ("11-01", 700_000), ("11-30T23", 1_000_000))
    ]
    done = [counter(DONE, "11-01", 9), counter(DONE, "11-30T23", 9)]
    result = by_engines(*samples, *done, begin="10-20")
    assert units(result)["million_tokens"]["quantity"] == 300_000


def test_engines_that_were_seen_for_a_part_of_the_time_tell_no_cost_of_a_token() -> None:
    for samples in (
        [
            counter(PROMPT, "11-02", 1),
            counter(PROMPT, "11-30T23", 9),
            counter(DONE, "11-02", 1),
            counter(DONE, "11-20", 9),
        ],
        [counter(PROMPT, "11-02", 1), counter(PROMPT, "11-30T23", 9)],
    ):
        found = units(by_engines(*samples))["million_tokens"]
        assert isinstance(found["quantity"], Unknown)
        assert isinstance(found["cost_per_unit"], Unknown)
        assert found["cost"] == 720


def test_a_gateway_is_believed_before_the_engines() -> None:
    samples = [counter(PROMPT, "11-30T23", 9), counter(DONE, "11-30T23", 9)]
    found = units(by_engines(*samples, uses=[use("search", 1_000_000, 500_000)]))["million_tokens"]
    assert (found["quantity"], found["basis"]) == (1_500_000, "gateway")


def test_prefill_and_decode_stand_apart_and_sum_to_the_service() -> None:
    found = units(served(use("search", 1_000_000, 500_000)))
    prefill, decode = found["million_prefill_tokens"], found["million_decode_tokens"]
    assert (prefill["quantity"], prefill["cost"], prefill["cost_per_unit"]) == (1_000_000, 240, 240)
    assert (decode["quantity"], decode["cost"], decode["cost_per_unit"]) == (500_000, 480, 960)
    assert prefill["charge"] + decode["charge"] == 1_440


def test_callers_bear_what_their_tokens_weigh_to_the_millionth() -> None:
    result = served(use("a", 100, 0, 0), use("b", 100, 100, 0), use("c", 300, 0, 300), use("d", 7, 1, 0))
    found = {row["caller"]: row for row in rows(result, "callers")}
    whole = 100 + 500 + 30 + 11
    assert {name: row["share_of_tokens"] for name, row in found.items()} == pytest.approx(
        {"a": 100 / whole, "b": 500 / whole, "c": 30 / whole, "d": 11 / whole}
    )
    assert sum(row["cost"] for row in found.values()) == 720
    assert sum(row["charge"] for row in found.values()) == 1_440
    assert found["c"]["cached_tokens"] == 300


def test_a_caller_that_is_not_named_or_not_counted_is_unattributed() -> None:
    result = served(use("a", 100, 0), use(None, 300, 0))
    assert {row["caller"]: row["cost"] for row in rows(result, "callers")} == {"a": 180, "unattributed": 540}


@pytest.mark.parametrize("untold", [use("b", None, 100), use("b", 100, None), use(None, None, 100), use("a", None, 7)])
def test_tokens_that_one_row_does_not_tell_are_not_0_and_leave_all_of_the_service_unattributed(
    untold: ServiceUse,
) -> None:
    result = served(use("a", 100, 0), untold)
    (row,) = rows(result, "callers")
    assert (row["caller"], row["cost"], row["charge"]) == ("unattributed", 720, 1_440)
    assert row["prompt_tokens" if untold.prompt_tokens is None else "completion_tokens"] == Unknown(
        "not told by the gateway"
    )
    reason = Unknown("1 rows of the gateway do not tell their tokens")
    assert figure(result, "cost_per_million_tokens") == reason
    (unit,) = rows(result, "unit_costs")
    assert (unit["unit"], unit["quantity"], unit["cost"], unit["cost_per_unit"]) == (
        "million_tokens",
        reason,
        720,
        reason,
    )


def test_a_log_that_was_exported_again_replaces_the_row_and_is_not_added_to_it() -> None:
    first = use("a", 100, 0)
    again = msgspec.structs.replace(first, completion_tokens=50, observed_at=first.observed_at + 1)
    for order in ((first, again), (again, first)):
        (row,) = rows(served(*order, use("b", 100, 0)), "callers")[:1]
        assert (row["prompt_tokens"], row["completion_tokens"], row["cost"]) == (100, 50, 540)


def test_the_weights_of_tokens_are_the_sites_to_set() -> None:
    even = MoneyPolicy(token_weights=TokenWeights(decode_ppm=1_000_000))
    result = served(use("a", 100, 0), use("b", 0, 100), policy=even)
    assert [row["cost"] for row in rows(result, "callers")] == [360, 360]


def test_the_tenant_of_a_caller_counts_before_its_key() -> None:
    result = served(use("key-1", 100, 0, tenant="a"), use("key-2", 100, 0, tenant="a"))
    assert [(row["caller"], row["cost"]) for row in rows(result, "callers")] == [("a", 720)]


def test_tokens_outside_the_window_and_of_services_that_cost_nothing_here_are_none() -> None:
    result = served(use("a", 100, 0, start="12-01"), use("a", 100, 0, service="team-z/other"))
    assert rows(result, "callers") == []
    assert isinstance(figure(result, "cost_per_million_tokens"), Unknown)


def test_a_side_without_a_price_has_no_cost_per_unit_and_not_0() -> None:
    result = served(use("a", 1_000_000, 0), prices=book(line("charge", "charge", 1_000_000)))
    found = units(result)["million_tokens"]
    assert (found["cost"], found["cost_per_unit"], found["charge_per_unit"]) == (None, None, 720)
    assert isinstance(figure(result, "cost_per_million_tokens"), Unknown)
    assert [row["cost"] for row in rows(result, "callers")] == [None]


def job(name: str, created: str, finished: str | None, outcome: str | None, day: str = "12-01") -> Gang:
    return Gang(
        source="kube_api", natural_key=f"job-{name}", object_uid=f"job-{name}", object_kind="Job", object_group="batch", namespace="team-a",
        object_name=name, created_at=at(created), finished_at=None if finished is None else at(finished), phase="finished" if finished else "running",
        outcome=outcome, occurred_at=at(day), observed_at=at(day),
    )  # fmt: skip


def worked(*extra: Fact) -> Answer:
    """Three jobs of 24, 48 and 72 hours on the first card."""
    spans = {"one": ("11-03", "11-04"), "two": ("11-05", "11-07"), "three": ("11-10", "11-13")}
    pods = [
        each
        for name, (start, end) in spans.items()
        for each in pod(f"team-a/{name}-0", start, end, FIRST, workload=("Job", name))
    ]
    return ask([watched(), *cards(), *pods, *extra, *book()])


def test_a_job_costs_what_it_held_and_failed_ones_are_paid_for_too() -> None:
    result = worked(
        job("one", "11-03", "11-04", "succeeded"),
        job("two", "11-05", "11-07", "failed"),
        job("three", "11-10", None, None),
    )
    found = {row["subject"]: row for row in rows(result, "unit_costs")}
    assert {name: (row["cost"], row["outcome"]) for name, row in found.items()} == {
        "team-a/Job/one": (24, "succeeded"), "team-a/Job/two": (48, "failed"),
    }  # fmt: skip
    assert figure(result, "cost_per_job") == 36
    assert figure(result, "cost_per_succeeded_job") == 72


def test_a_job_of_which_a_part_lies_outside_the_window_is_none_of_them() -> None:
    spans = pod("team-a/one-0", "11-03", "11-06", FIRST, workload=("Job", "one"))
    facts = [watched(), *cards(), *spans, job("one", "11-03", "11-06", "succeeded"), *book()]
    assert isinstance(figure(ask(facts, start="11-04"), "cost_per_job"), Unknown)


def test_without_a_success_no_success_has_a_price() -> None:
    result = worked(job("one", "11-03", "11-04", "failed"))
    assert figure(result, "cost_per_job") == 24
    assert figure(result, "cost_per_succeeded_job") == Unknown("no job is known to have succeeded in the window")


def trained(word: str, second: bool = False) -> Answer:
    tags = f'{{"{RATE}": "{word}"}}'
    pods = pod("team-a/train-0", "11-03", "11-04", FIRST, workload=("Job", "train"), annotations=tags)
    if second:
        pods += pod("team-a/train-1", "11-03", "11-04", SECOND, workload=("Job", "train"), annotations=tags)
    return ask([watched(), *cards(), *pods, *book()])


def test_samples_are_what_pods_say_of_their_speed_times_how_long_they_ran() -> None:
    result = trained("100")
    found = units(result)["million_samples"]
    assert (found["quantity"], found["cost"]) == (100 * 86_400, 24)
    assert found["cost_per_unit"] == figure(result, "cost_per_million_samples") == Fraction(24 * 1_000_000, 8_640_000)


def test_pods_that_run_at_the_same_time_do_their_workloads_samples_once() -> None:
    found = units(trained("100", second=True))["million_samples"]
    assert (found["quantity"], found["cost"]) == (100 * 86_400, 48)


@pytest.mark.parametrize("word", ["fast", "1e400", "-1", "NaN"])
def test_a_speed_that_is_no_number_makes_the_unit_unknown(word: str) -> None:
    found = units(trained(word))["million_samples"]
    assert found["cost_per_unit"] == Unknown("what its pods say of it is no number")


def test_without_facts_of_what_was_done_units_are_unknown_with_the_reason() -> None:
    result = ask(standard())
    assert rows(result, "unit_costs") == []
    for name in ("cost_per_million_tokens", "cost_per_job", "cost_per_succeeded_job", "cost_per_million_samples"):
        assert isinstance(figure(result, name), Unknown)


def test_two_currencies_have_no_common_unit_cost() -> None:
    two = book(line("a", "cost", 1_000_000, to="11-15"), line("b", "cost", 1_000_000, currency="CNY", from_="11-15"))
    result = ask(
        opened(
            [
                watched(),
                *cards(),
                *pod("team-b/chat-1", "11-01", None, FIRST, workload=("Deployment", "chat")),
                use("a", 10, 0),
                *two,
            ]
        )
    )
    assert "CNY, USD" in figure(result, "cost_per_million_tokens").reason
    assert {row["currency"] for row in rows(result, "callers")} == {"CNY", "USD"}
