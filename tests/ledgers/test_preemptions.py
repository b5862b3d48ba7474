"""One preemption is told by many words: they are one row, with what each of them knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from steelyard.facts.base import Fact
from steelyard.facts.owner import Owner
from tests.ledgers.facts_of import pod
from tests.ledgers.queue_facts import asked, posted, preemption
from tests.ledgers.wait_facts import WAIT_ONLY, at, rows_of

PAIR = [*asked("w1", 0, 5, priority=1), *asked("w2", 50, 70, priority=9)]


def preemptions(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    with posted([*PAIR, *facts], ledgers=WAIT_ONLY) as store:
        return rows_of(store, "dim.preemption", "preempted_at, victim_name")


def test_words_of_one_instant_are_one_preemption() -> None:
    facts = [
        preemption(60, by=None, cause="unknown", evidence="audit"),
        preemption(60.2, evidence="victim_event", victim_priority=3),
        preemption(63, by=None, evidence="condition"),
    ]
    (row,) = preemptions(facts)
    assert (row["preempted_at"], row["cause"], row["words_count"]) == (60, "priority", 3)
    assert (row["victim_demand_id"], row["preemptor_demand_id"], row["preemptor_name"]) == ("w1", "w2", "w2")
    assert (row["victim_priority"], row["preemptor_priority"]) == (3, 9), "the word's own, else the object's"
    assert row["evidence"] == "audit, condition, victim_event"


def test_two_preemptions_of_one_victim_stay_two() -> None:
    assert [row["preempted_at"] for row in preemptions([preemption(60), preemption(300)])] == [60, 300]


def test_a_word_that_was_overwritten_belongs_to_the_last_one_before_it() -> None:
    facts = [preemption(60, by=None), preemption(300, by=None), preemption(400, time_basis="before")]
    assert [(row["preempted_at"], row["preemptor_demand_id"]) for row in preemptions(facts)] == [
        (60, None),
        (300, "w2"),
    ]


def test_a_word_that_was_overwritten_stands_alone_where_no_other_is_dated() -> None:
    (row,) = preemptions([preemption(400, time_basis="before")])
    assert (row["preempted_at"], row["time_basis"]) == (400, "before")


def test_a_preemptor_that_is_known_is_believed_before_a_uid_that_nothing_has() -> None:
    facts = [preemption(60, by="zzz-of-nothing", evidence="victim_event"), preemption(60, evidence="preemptor_event")]
    (row,) = preemptions(facts)
    assert (row["preemptor_demand_id"], row["preemptor_uid"]) == ("w2", "w2")


def test_pods_that_are_requests_of_their_own_are_preempted_one_by_one() -> None:
    pods = [pod(1, f"p{n}", pod=f"w1-{n}", created_at=0) for n in range(3)]
    words = [preemption(60, victim=f"p{n}", victim_kind="Pod", by=None, decided_by="kube-scheduler") for n in range(3)]
    rows = preemptions([*pods, *words])
    assert [(row["victim_demand_id"], row["pods_count"]) for row in rows] == [("p0", 1), ("p1", 1), ("p2", 1)]


def test_the_order_in_which_words_arrive_changes_nothing() -> None:
    facts = [
        preemption(60, by="x", evidence="victim_event"),
        preemption(60, by="y", evidence="eviction_event"),
        preemption(61, by=None),
    ]
    assert preemptions(facts) == preemptions(facts[::-1])


def test_a_pod_that_was_stopped_belongs_to_its_workload_s_preemption_and_stands_alone_without_one() -> None:
    pods = [pod(20, "p1", created_at=0), pod(20, "p2", created_at=0)]
    stopped = {"by": None, "victim_kind": "Pod", "time_basis": "before", "cause": "unknown"}
    facts = [
        *pods,
        seen_owner("p1", "w1"),
        preemption(60),
        preemption(95, victim="p1", **stopped),
        preemption(95, victim="p2", **stopped),
    ]
    rows = [(row["victim_demand_id"], row["preempted_at"], row["words_count"]) for row in preemptions(facts)]
    assert rows == [("w1", 60, 2), ("p2", 95, 1)]


def test_two_witnesses_that_came_in_different_rounds_are_one() -> None:
    told = {"by": None, "evidence": "audit", "victim_kind": "Pod", "decided_by": "kube-scheduler"}
    patch, deletion = preemption(60, victim="p1", **told), preemption(61, victim="p1", **told)
    later = structs.replace(deletion, observed_at=at(900))
    (row,) = preemptions([pod(20, "p1", created_at=0), patch, later])
    assert (row["preempted_at"], row["words_count"], row["pods_count"]) == (60, 2, 1)


def seen_owner(uid: str, workload: str) -> Owner:
    return Owner(
        source="kube_api", natural_key=uid, pod_uid=uid, namespace="team-a", occurred_at=at(100), observed_at=at(100),
        annotations=f'{{"kueue.x-k8s.io/workload": "{workload}"}}',
    )  # fmt: skip
