"""Who broke which rule: of each rule a case that breaks it, and cases beside it that do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.ledgers.breach import KINDS, RULES
from tests.ledgers.queue_facts import AUDITED, asked, posted, preemption, queue, quota
from tests.ledgers.wait_facts import at, condition, decision, rows_of

HOUR = 3600
STRICT, BEST = "StrictFIFO", "BestEffortFIFO"


def breaches(facts: Sequence[Fact]) -> list[tuple[Any, ...]]:
    """(rule, kind, victim, who was served, when)."""
    with posted(facts) as store:
        rows = rows_of(store, "ledger.breach", "broken_at, rule, victim_demand_id")
    return [(row["rule"], row["kind"], row["victim_demand_id"], row["demand_id"], row["broken_at"]) for row in rows]


@pytest.mark.parametrize(
    ("strategy", "facts", "expected"),
    [
        (STRICT, [*asked("w1", 0, None), *asked("w2", 10, 20)], [("fifo", "breach", "w1", "w2", 20)]),
        (STRICT, [*asked("w1", 0, None), *asked("w2", 10, 20, gpus=1)], [("fifo", "breach", "w1", "w2", 20)]),
        (STRICT, [*asked("w1", 0, 15), *asked("w2", 10, 20)], []),
        (STRICT, [*asked("w1", 0, 20), *asked("w2", 10, 20)], []),
        (BEST, [*asked("w1", 0, None), *asked("w2", 10, 20), quota()], [("fifo", "breach", "w1", "w2", 20)]),
        (None, [*asked("w1", 0, 90), *asked("w2", 10, 20, gpus=9)], [("fifo", "breach", "w1", "w2", 20)]),
        (BEST, [*asked("w1", 0, 90), *asked("w2", 10, 20, gpus=1)], [("fifo", "overtaking", "w1", "w2", 20)]),
        (BEST, [*asked("w1", 0, 90), *asked("w2", 10, 20, flavor="a100")], [("fifo", "overtaking", "w1", "w2", 20)]),
        (BEST, [*asked("w1", 0, 90), *asked("w2", 10, 20, cpu=1)], [("fifo", "overtaking", "w1", "w2", 20)]),
        (
            BEST,
            [*asked("w1", 0, None), *asked("w2", 10, 20), quota(), quota(flavor="a100")],
            [("fifo", "overtaking", "w1", "w2", 20)],
        ),
        (
            BEST,
            [*asked("w1", 0, 90), decision(5, "not_now", cause="placement"), *asked("w2", 10, 20)],
            [("fifo", "overtaking", "w1", "w2", 20)],
        ),
        (BEST, [*asked("w1", 0, None), decision(5, "never_fits", cause="quota"), *asked("w2", 10, 20)], []),
        (STRICT, [*asked("w1", 0, None), *asked("w2", 10, 20, cluster_queue="other")], []),
        (
            BEST,
            [*asked("w1", 0, 90), *asked("w2", 10, 20, gpus=1), *asked("w3", 11, 40)],
            [("fifo", "breach", "w1", "w3", 40)],
        ),
    ],
    ids=[
        "strict: the same size", "strict: a smaller one", "strict: in turn", "strict: at the same second", "best effort: no less",
        "best effort, not said: more", "best effort: a smaller one", "best effort: another flavor", "best effort: less of something else",
        "best effort: of which flavor is not known", "best effort: it waits for another reason", "best effort: it never fits",
        "another queue", "best effort: a later one is no smaller",
    ],
)  # fmt: skip
def test_who_asked_later_is_served_later(
    strategy: str | None, facts: list[Fact], expected: list[tuple[Any, ...]]
) -> None:
    assert breaches([queue(strategy=strategy), *facts]) == expected


@pytest.mark.parametrize(
    ("high", "low", "expected"),
    [
        ((10, None), (0, 20), [("priority", "breach", "w1", "w2", 20)]),
        ((10, 60), (50, 55), [("priority", "breach", "w1", "w2", 55)]),
        ((10, 15), (0, 20), []),
        ((30, 60), (0, 20), []),
    ],
    ids=["an earlier one of lower priority", "a later one", "in turn", "before it asked"],
)
def test_who_has_the_higher_priority_is_served_first(
    high: tuple[float, float | None], low: tuple[float, float], expected: list[tuple[Any, ...]]
) -> None:
    facts = [*asked("w1", *high, priority=100), *asked("w2", *low, priority=10), quota()]
    assert breaches([queue(strategy=BEST), *facts]) == expected


def test_a_higher_priority_may_pass_who_came_first() -> None:
    assert breaches([queue(strategy=STRICT), *asked("w1", 0, None), *asked("w2", 10, 20, priority=7)]) == []


def test_after_an_eviction_the_next_wait_is_audited_too() -> None:
    again = [condition(60, "Evicted", reason="Preempted"), condition(61, "QuotaReserved", "False")]
    facts = [
        *asked("w1", 0, 5, evictions='[{"reason":"Preempted","cause":"","count":1}]'),
        *again,
        *asked("w2", 50, 70),
    ]
    assert breaches([queue(strategy=STRICT), *facts]) == [("fifo", "breach", "w1", "w2", 70)]


def test_the_cost_is_the_victims_gpus_times_its_wait_from_then_on() -> None:
    facts = [queue(strategy=STRICT), *asked("w1", 0, 320), *asked("w2", 10, 20)]
    with posted(facts) as store:
        (row,) = rows_of(store, "ledger.breach", "broken_at")
    assert (row["ended_at"], row["cost_milli_us"]) == (320, 8000 * 300 * 1_000_000)


def test_a_breach_that_goes_on_is_open_and_grows() -> None:
    with posted([queue(strategy=STRICT), *asked("w1", 0, None), *asked("w2", 10, 20)]) as store:
        (row,) = rows_of(store, "ledger.breach", "broken_at")
    assert (row["ended_at"], row["known_to_at"], row["cost_milli_us"]) == (None, 1000, 8000 * 980 * 1_000_000)


LIMITED = {"nominal_milli": 16_000, "borrowing_limit_milli": 8_000}


@pytest.mark.parametrize(
    ("sightings", "expected"),
    [
        ([quota(100, reserved_milli=30_000, **LIMITED)], [("borrowing_limit", "breach", None, "w1", 100)]),
        ([quota(100, reserved_milli=24_000, **LIMITED)], []),
        ([quota(100, reserved_milli=30_000, nominal_milli=16_000)], []),
        (
            [quota(100, reserved_milli=30_000, nominal_milli=32_000, borrowing_limit_milli=0), quota(200, reserved_milli=30_000, **LIMITED)],
            [],
        ),
        (
            [quota(second, reserved_milli=milli, **LIMITED) for second, milli in ((100, 20_000), (200, 30_000), (300, 30_000))],
            [("borrowing_limit", "breach", None, "w1", 200)],
        ),
    ],
    ids=["above", "at the limit", "without a limit", "lowered beneath what was taken", "once"],
)  # fmt: skip
def test_a_queue_borrows_no_more_than_its_limit(sightings: list[Fact], expected: list[tuple[Any, ...]]) -> None:
    assert breaches([*asked("w1", 0, 50), *sightings]) == expected


def test_what_was_above_a_limit_costs_until_it_is_given_back() -> None:
    above, below = quota(100, reserved_milli=30_000, **LIMITED), quota(400, reserved_milli=16_000, **LIMITED)
    with posted([*asked("w1", 0, 50), above, below]) as store:
        (row,) = rows_of(store, "ledger.breach", "broken_at")
    assert (row["ended_at"], row["victim_gpu_milli"], row["cost_milli_us"]) == (400, 6_000, 6_000 * 300 * 1_000_000)


def preempted(
    policy: dict[str, Any], victim: int, preemptor: int, queues: tuple[str, str] = ("gpus", "gpus"), **more: Any
) -> list[Fact]:
    return [
        queue(queues[1], preemption=policy),
        queue(queues[0]) if queues[0] != queues[1] else queue("unrelated"),
        *asked("w1", 0, 5, priority=victim, cluster_queue=queues[0]),
        *asked("w2", 50, 70, priority=preemptor, cluster_queue=queues[1]),
        preemption(60, victim_queue=queues[0], preemptor_queue=queues[1], victim_priority=victim, preemptor_priority=preemptor, **more),
    ]  # fmt: skip


OTHERS = ("lent", "gpus")


@pytest.mark.parametrize(
    ("facts", "broken"),
    [
        (preempted({"withinClusterQueue": "Never"}, 1, 9), "withinClusterQueue: Never"),
        (preempted({"withinClusterQueue": "LowerPriority"}, 1, 9), None),
        (preempted({"withinClusterQueue": "LowerPriority"}, 9, 9), "withinClusterQueue: LowerPriority"),
        (preempted({"withinClusterQueue": "LowerOrNewerEqualPriority"}, 9, 9), "withinClusterQueue: LowerOrNewerEqualPriority"),
        (preempted({}, 9, 1), None),
        (preempted({"reclaimWithinCohort": "Never"}, 1, 9, OTHERS, cause="reclaim"), "reclaimWithinCohort: Never"),
        (preempted({"reclaimWithinCohort": "Any"}, 9, 1, OTHERS, cause="reclaim"), None),
        (preempted({"reclaimWithinCohort": "LowerPriority"}, 9, 9, OTHERS, cause="reclaim"), "reclaimWithinCohort: LowerPriority"),
        (
            preempted({"borrowWithinCohort": {"policy": "Never"}}, 1, 9, OTHERS, cause="reclaim_while_borrowing"),
            "borrowWithinCohort: Never",
        ),
        (
            preempted({"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 3}}, 5, 9, OTHERS, cause="reclaim_while_borrowing"),
            "borrowWithinCohort: maxPriorityThreshold 3",
        ),
        (
            preempted({"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 3}}, 2, 9, OTHERS, cause="reclaim_while_borrowing"),
            None,
        ),
        (preempted({}, 9, 9, decided_by="kube-scheduler"), "only lower priority gives way"),
        (preempted({}, 1, 9, decided_by="kube-scheduler"), None),
        (
            [
                queue("gpus", queue_kind="volcano_queue", policies={"reclaimable": False}), *asked("w1", 0, 5),
                preemption(60, by=None, decided_by="volcano", cause="reclaim", victim_queue="gpus"),
            ],
            "reclaimable: false",
        ),
    ],
)  # fmt: skip
def test_a_preemption_goes_by_the_policies_of_the_queues(facts: list[Fact], broken: str | None) -> None:
    with posted(facts) as store:
        rows = [row for row in rows_of(store, "ledger.breach", "broken_at") if row["rule"] == "preemption_policy"]
    assert [row["policy"] for row in rows] == ([broken] if broken else [])
    assert all((row["victim_demand_id"], row["broken_at"]) == ("w1", 60) for row in rows)


def test_a_policy_that_was_changed_afterwards_does_not_judge_what_was_before() -> None:
    facts = [
        queue(preemption={"withinClusterQueue": "LowerPriority"}),
        queue(seen=100, preemption={"withinClusterQueue": "Never"}),
    ]
    pair = [*asked("w1", 0, 5), *asked("w2", 50, 70)]
    word = {"victim_queue": "gpus", "preemptor_queue": "gpus", "victim_priority": 1, "preemptor_priority": 9}
    with posted([*facts, *pair, preemption(60, **word)]) as store:
        assert rows_of(store, "ledger.breach", "broken_at") == []


def shared_by_weight(weight_a: int, weight_b: int, used_a: int) -> list[Fact]:
    """Queue ``a`` is served above its quota at 50 while ``w1`` waits in ``b``, which uses nothing above its own."""
    day = {"interval_us": 86_400 * 1_000_000, "source": "trace"}
    sightings: list[Fact] = []
    for name, weight, used in (("a", weight_a, used_a), ("b", weight_b, 8_000)):
        sightings += [
            queue(name, parent="cohort", weight_milli=weight),
            quota(0, name, parent="cohort", nominal_milli=8_000, used_milli=used, **day),
        ]
    waits = asked("w1", 10, 900, gpus=2, cluster_queue="b")
    return [*sightings, *waits, *asked("w2", 20, 50, gpus=4, cluster_queue="a")]


@pytest.mark.parametrize(
    ("weights", "used_a", "is_broken"),
    [((1_000, 1_000), 16_000, True), ((9_000, 1_000), 16_000, False), ((1_000, 1_000), 0, False)],
    ids=["the larger share was served", "its weight allows it", "within its own quota"],
)
def test_a_cohort_is_shared_by_weight(weights: tuple[int, int], used_a: int, is_broken: bool) -> None:
    with posted(shared_by_weight(*weights, used_a)) as store:
        rows = [row for row in rows_of(store, "ledger.breach", "broken_at") if row["rule"] == "weight"]
    assert [(row["queue"], row["victim_demand_id"], row["demand_id"], row["broken_at"]) for row in rows] == (
        [("a", "w1", "w2", 50)] if is_broken else []
    )


def test_posting_the_same_facts_twice_breaks_nothing_twice() -> None:
    from steelyard.ledgers.posting import PostingParameters, post_ledgers
    from steelyard.primitives.clock import FixedClock

    with posted([queue(strategy=STRICT), *asked("w1", 0, 90), *asked("w2", 10, 20)]) as store:
        result = post_ledgers(store, PostingParameters(), clock=FixedClock(at(10**6)), ledgers=AUDITED)
        assert (result.changes["breach"].posted, result.changes["breach"].reversed) == (0, 0)
        rows = rows_of(store, "ledger.breach", "broken_at")
    assert {row["rule"] for row in rows} <= set(RULES)
    assert {row["kind"] for row in rows} <= set(KINDS)
