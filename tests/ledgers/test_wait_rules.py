"""Waits, rule by rule: hand-made cases in seconds."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.definitions.queue_wait import ENDS, STAGES, STEPS, UNKNOWN_REASONS
from steelyard.facts.base import Fact
from steelyard.facts.container import Container
from steelyard.facts.gang import Gang
from steelyard.facts.owner import Owner
from steelyard.facts.request import Request
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.transition import Transition
from steelyard.store import Store
from tests.ledgers.wait_facts import (
    at,
    condition,
    decision,
    evicted,
    lines,
    post,
    rows_of,
    segments,
    stamps,
    told,
    workload,
)


def pod(seen: float, uid: str = "p1", **more: Any) -> Request:
    fields: dict[str, Any] = {
        "namespace": "team-a",
        "pod": uid,
        "phase": "Running",
        "created_at": 0,
        "gpu_count": 1,
        **more,
    }
    fields = {name: at(value) if name.endswith("_at") else value for name, value in fields.items()}
    return Request(
        source=fields.pop("source", "kube_api"),
        natural_key=uid,
        pod_uid=uid,
        occurred_at=at(seen),
        observed_at=at(seen),
        **fields,
    )


def owner(uid: str = "p1", seen: float = 100, **more: Any) -> Owner:
    return Owner(
        source="kube_api",
        natural_key=uid,
        pod_uid=uid,
        namespace="team-a",
        occurred_at=at(seen),
        observed_at=at(seen),
        **more,
    )


def container(seen: float, restarts: int, name: str = "main", started_at: float | None = 0) -> Container:
    return Container(
        source="kube_api", natural_key=f"p1/{name}", occurred_at=at(seen), observed_at=at(seen), pod_uid="p1", container=name,
        restart_count=restarts, started_at=None if started_at is None else at(started_at),
    )  # fmt: skip


def of_owner(uid: str, **more: Any) -> Owner:
    return owner(uid, 500, **{"owner_kind": "ReplicaSet", "owner_name": "serve", "owner_uid": "o1", **more})


def sighting(second: float, kind: str = "workload", uid: str = "w1") -> Sighting:
    return Sighting(
        source="kube_api", natural_key=uid, object_kind=kind, object_uid=uid, occurred_at=at(second), observed_at=at(second)
    )  # fmt: skip


def listed(second: float, scope: str = "cluster", kind: str = "workloads.kueue.x-k8s.io", **more: Any) -> SourceStatus:
    return SourceStatus(
        source="kube_api", natural_key=f"{kind}/{scope}", occurred_at=at(second), observed_at=at(second), kind=kind,
        scope=scope, complete=True, **stamps(more),
    )  # fmt: skip


def gated(uid: str = "p1", reason: str = "SchedulingGated", seen: float = 1) -> Transition:
    return condition(
        0,
        "PodScheduled",
        "False",
        uid=uid,
        object_kind="Pod",
        object_group="",
        reason=reason,
        observed_at=seen,
        message=reason,
    )


def vcjob(seen: float, uid: str = "j1", **more: Any) -> Gang:
    return workload(
        seen,
        uid,
        object_kind="Job",
        object_group="batch.volcano.sh",
        queue="prod",
        cluster_queue=None,
        **{"phase": "Running", **more},
    )


QUEUE_LABEL = '{"kueue.x-k8s.io/queue-name": "team-a-batch"}'
MANAGED = '{"kueue.x-k8s.io/queue-name": "team-a-batch", "kueue.x-k8s.io/managed": "true"}'


def pod_group(seen: float, uid: str = "g1", **more: Any) -> Gang:
    return workload(
        seen, uid, object_kind="PodGroup", object_group="scheduling.volcano.sh", queue="prod", cluster_queue=None,
        **{"phase": "Running", **more},
    )  # fmt: skip


def gated_members(count: int, **more: Any) -> list[Fact]:
    """Pods of workload ``w1`` that were seen behind a gate."""
    facts: list[Fact] = []
    for uid in (f"p{number}" for number in range(count)):
        fields = {"created_at": 1, "phase": "Pending", **more}
        facts += [pod(900, uid, **fields), owner(uid, annotations='{"kueue.x-k8s.io/workload": "w1"}'), gated(uid)]
    return facts


RESERVED = condition(60, "QuotaReserved")

CASES: dict[str, tuple[list[Fact], list[tuple[Any, ...]]]] = {
    "a first refusal keeps its stamp and is no release": (
        [workload(100), condition(1, "QuotaReserved", "False", reason="WaitingForQuota"), RESERVED],
        [("queue", 0, 60, "reserved", None)],
    ),
    "a reservation stamped before the creation ended the wait, nobody knows when": (
        [workload(100, created=10, phase="admitted"), condition(9, "QuotaReserved"), condition(9, "Admitted")],
        [("queue", 10, 10, "reserved", "end_not_stamped")],
    ),
    "a run that ended is not given up because its stamps lie before the creation": (
        [
            workload(100, created=10, phase="finished"),
            *(condition(9, item) for item in ("QuotaReserved", "Admitted")), condition(60, "Finished"),
        ],
        [("queue", 10, 10, "reserved", "end_not_stamped")],
    ),
    "a job of Volcano that ran before its creation waits no more": (
        [vcjob(100, created_at=10, phase="Running"), told(9, "j1", "Running")],
        [("queue", 10, 10, "running", "end_not_stamped")],
    ),
    "who waits still is open at its last sighting": ([workload(100)], [("queue", 0, None, None, None)]),
    "a check lies between reservation and admission": (
        [workload(100), RESERVED, condition(83, "Admitted")],
        [("queue", 0, 60, "reserved", None), ("admission_check", 60, 83, "admitted", None)],
    ),
    "a reservation that waits for a check is no wait in the queue": (
        [workload(100, phase="reserved"), RESERVED],
        [("queue", 0, 60, "reserved", None), ("admission_check", 60, None, None, None)],
    ),
    "what is counted and not among the steps may hide in a wait": (
        [workload(100, evictions=evicted(2)), RESERVED],
        [("queue", 0, 60, "reserved", "evictions_not_seen")],
    ),
    "a requeue that is told says that there was an eviction": (
        [workload(100), RESERVED, condition(20, "Requeued", reason="Preempted")],
        [("queue", 0, 60, "reserved", "evictions_not_seen")],
    ),
    "a run before the stamp that is left shortens the bound": (
        [workload(100, past_run_us=25_000_000), RESERVED],
        [("queue", 0, 35, "reserved", "evictions_not_seen")],
    ),
    "an eviction proves a reservation that nobody saw": (
        [workload(100, evictions=evicted(1)), condition(30, "Evicted", reason="Preempted"), condition(31, "QuotaReserved", "False")],
        [("queue", 0, 30, "reserved", "reservation_not_seen"), ("release_lag", 30, 31, "released", None), ("queue", 31, None, None, None)],
    ),
    "who is deactivated waits no more": (
        [
            workload(100, evictions=evicted(1), active=False), RESERVED, condition(70, "Evicted", reason="DeactivatedDueToAdmissionCheck"),
            condition(71, "QuotaReserved", "False"),
        ],
        [("queue", 0, 60, "reserved", None), ("release_lag", 70, 71, "released", None)],
    ),
    "deactivated while it waited": (
        [workload(100, evictions=evicted(1), active=False), condition(70, "Evicted", reason="Deactivated")],
        [("queue", 0, 70, "evicted", None)],
    ),
    "who keeps its quota after the eviction does not wait": (
        [
            workload(100, evictions=evicted(1), requeue_at=80),
            RESERVED,
            condition(60, "Admitted"),
            condition(70, "Evicted", reason="PodsReadyTimeout"),
        ],
        [("queue", 0, 60, "reserved", None), ("release_lag", 70, None, None, None)],
    ),
    "a back-off that is over ends where it was said to": (
        [
            workload(75, evictions=evicted(1), requeue_at=90), workload(100, evictions=evicted(1)), RESERVED,
            condition(70, "Evicted", reason="PodsReadyTimeout"), condition(72, "QuotaReserved", "False"),
        ],
        [
            ("queue", 0, 60, "reserved", None), ("release_lag", 70, 72, "released", None), ("backoff", 72, 90, "requeued", None),
            ("queue", 90, None, None, None),
        ],
    ),
    "two reservations without a release between them hide a wait": (
        [workload(100, evictions=evicted(1)), RESERVED, condition(80, "QuotaReserved")],
        [("queue", 0, 60, "reserved", None), ("queue", 60, 80, "reserved", "release_not_seen")],
    ),
    "the audit log's word and an event's are the object's change": (
        [
            workload(100), RESERVED, condition(60, "QuotaReserved", uid="name:team-a/w1", source="audit_log"),
            decision(61.2, "reserved", uid="somebody else's"),
        ],
        [("queue", 0, 60, "reserved", None)],
    ),
    "who is deleted while it waits has given up": (
        [workload(100, deletion_at=40)], [("queue", 0, 40, "abandoned", None)]
    ),
    "who a watch finds gone has given up": (
        [workload(30), sighting(45), sighting(45, "workload_gone")],
        [("queue", 0, 45, "abandoned", None)],
    ),
    "who a watch missed when it came back had given up some time after it was last seen": (
        [workload(20), sighting(30), sighting(45, "workload_gone")],
        [("queue", 0, 30, "abandoned", None)],
    ),
    "who a later list no longer names has given up after its last sighting": (
        [workload(20), listed(20), sighting(30), listed(30), listed(50)],
        [("queue", 0, 30, "abandoned", None)],
    ),
    "a list of its namespace misses it too": (
        [workload(20), listed(50, "namespace/team-a")],
        [("queue", 0, 20, "abandoned", None)],
    ),
    "lists that do not reach it say nothing of it": (
        [workload(20), listed(50, "namespace/team-b"), listed(60, kind="podgroups.scheduling.volcano.sh")],
        [("queue", 0, None, None, None)],
    ),
    "a Volcano job that a later list does not name has given up": (
        [vcjob(20, phase="Pending"), listed(50, kind="jobs.batch.volcano.sh")],
        [("queue", 0, 20, "abandoned", None)],
    ),
    "who is misconfigured does not wait": (
        [workload(100), decision(5, "misconfigured", evidence="condition")], []
    ),
    "a Volcano job waits until it first runs": (
        [vcjob(100), told(50, "j1", "Running"), told(90, "j1", "Completed")], [("queue", 0, 50, "running", None)]
    ),
    "a Volcano job that was restarted tells no wait": (
        [vcjob(100, retry_count=2), told(50, "j1", "Running")], [("queue", 0, 50, "running", "restarted")]
    ),
    "unless it ran when it was seen before": (
        [vcjob(60), vcjob(100, retry_count=2), told(50, "j1", "Running"), told(90, "j1", "Running")], [("queue", 0, 50, "running", None)]
    ),
    "a job's pod group is no demand of its own": (
        [vcjob(100), pod_group(100, owner_uid="j1"), told(50, "j1", "Running")], [("queue", 0, 50, "running", None)]
    ),
    "a pod group alone waits until its phase is seen, which is a bound": (
        [pod_group(100), told(70, "g1", "Running", "PodGroup", "scheduling.volcano.sh", time_basis="observed")],
        [("queue", 0, 70, "running", "end_not_stamped")],
    ),
    "or until as many of its pods as it needs are placed": (
        [
            pod_group(100, min_count=2),
            *(pod(100, f"p{n}", scheduled_at=40 + n) for n in range(3)),
            *(owner(f"p{n}", annotations='{"scheduling.k8s.io/group-name": "g1"}') for n in range(3)),
        ],
        [("queue", 0, 41, "scheduled", None)],
    ),
    "a pod group that is left without the pods that it may have keeps quota and waits for nothing": (
        [pod_group(1000, phase="Inqueue"), listed(1000, kind="pods")], []
    ),
    "one that may have pods since a moment ago waits for them": (
        [pod_group(500, phase="Inqueue"), listed(500, kind="pods")], [("queue", 0, None, None, None)]
    ),
    "where pods were not listed none can be missed": (
        [pod_group(1000, phase="Inqueue")], [("queue", 0, None, None, None)]
    ),
    "one that has pods waits for their nodes": (
        [
            pod_group(1000, phase="Inqueue"), listed(1000, kind="pods"), pod(1000, phase="Pending"),
            owner(annotations='{"scheduling.k8s.io/group-name": "g1"}'),
        ],
        [("queue", 0, None, None, None)],
    ),
    "a pod waits for its scheduler and then starts": (
        [pod(100, scheduled_at=7, first_container_at=20)],
        [("scheduler", 0, 7, "scheduled", None), ("starting", 7, 20, "running", None)],
    ),
    "a pod that runs without a stamp of its scheduling has a bound": (
        [pod(100, first_container_at=20)], [("scheduler", 0, 20, "scheduled", "end_not_stamped")]
    ),
    "a pod that the kubelet refused had its node": (
        [pod(100, phase="Failed", rejected=True, node="n1", scheduled_at=7, started_at=8)], [("scheduler", 0, 7, "scheduled", None)]
    ),
    "whose stamps are lost it had by the time it was seen to be over, which is a bound": (
        [pod(100, phase="Failed", rejected=True, node="n1")], [("scheduler", 0, 100, "scheduled", "end_not_stamped")]
    ),
    "a pod that was over before it had a node has given up": (
        [pod(100, phase="Failed")], [("scheduler", 0, 100, "abandoned", None)]
    ),
    "what its owner makes next is its next attempt, whatever its name": (
        [
            *(pod(500, f"p{n}", phase="Failed", rejected=True, node="n1", created_at=10 * n, scheduled_at=10 * n + 1, started_at=10 * n + 2)
              for n in range(3)),
            pod(500, "p3", created_at=40, phase="Pending"), *(of_owner(f"p{n}") for n in range(4)),
        ],
        [("scheduler", 0, 1, "scheduled", None), ("scheduler", 10, 11, "scheduled", None), ("scheduler", 20, 21, "scheduled", None),
         ("scheduler", 40, None, None, None)],
    ),
    "a pod that restarted once still tells its first start": (
        [pod(100, scheduled_at=7, first_container_at=20), container(100, 1)],
        [("scheduler", 0, 7, "scheduled", None), ("starting", 7, 20, "running", None)],
    ),
    "of one that restarted more often only a bound is left": (
        [pod(100, scheduled_at=7, first_container_at=60), container(100, 2)],
        [("scheduler", 0, 7, "scheduled", None), ("starting", 7, 60, "running", "restarted")],
    ),
    "unless another of its containers did not": (
        [pod(100, scheduled_at=7, first_container_at=20), container(100, 5), container(100, 0, "init")],
        [("scheduler", 0, 7, "scheduled", None), ("starting", 7, 20, "running", None)],
    ),
    "a container that never ran tells no start": (
        [pod(100, scheduled_at=7, first_container_at=60), container(100, 5), container(100, 0, "idle", started_at=None)],
        [("scheduler", 0, 7, "scheduled", None), ("starting", 7, 60, "running", "restarted")],
    ),
    "or its first start was seen before": (
        [pod(50, scheduled_at=7, first_container_at=20), pod(100, scheduled_at=7, first_container_at=60), container(50, 0), container(100, 2)],
        [("scheduler", 0, 7, "scheduled", None), ("starting", 7, 20, "running", None)],
    ),
    "a workload that only events tell of waited as long as they claim": (
        [
            decision(60, "reserved", uid="w9", queue="gpus", details='{"waited_claimed_seconds": 45}'), decision(61, "admitted", uid="w9"),
            decision(90, "evicted", uid="w9", reason="EvictedDueToPreempted"), decision(120, "reserved", uid="w9"),
        ],
        [("queue", 15, 60, "reserved", "creation_not_seen"), ("admission_check", 60, 61, "admitted", None),
         ("queue", 90, 120, "reserved", "release_not_seen")],
    ),
    "or an unknown time, where they claim nothing": (
        [decision(60, "reserved", uid=None)], [("queue", 60, 60, "reserved", "creation_not_seen")]
    ),
    "an event under another's uid is no workload of its own": (
        [workload(100), decision(60, "reserved", uid="w7")], [("queue", 0, 60, "reserved", None)]
    ),
    "nor is one that the audit log tells of": (
        [condition(60, "QuotaReserved", uid="name:team-a/w1", source="audit_log"), decision(60.4, "reserved", uid="w1")],
        [("queue", 60, 60, "reserved", "creation_not_seen")],
    ),
    "a gated pod does not wait for its scheduler": (
        [pod(100, phase="Pending"), gated()], [("gate", 0, None, None, None)]
    ),
    "when a gate was lifted is not in the pod": (
        [pod(100, scheduled_at=30), gated()], [("gate", 0, 30, "scheduled", "gate_not_seen")]
    ),
    "a watch sees a gate lifted, which is a bound": (
        [pod(100, scheduled_at=30), gated(), gated(reason="Unschedulable", seen=12)],
        [("gate", 0, 12, "ungated", "end_not_stamped"), ("scheduler", 12, 30, "scheduled", "end_not_stamped")],
    ),
    "a pod of Kueue whose workload nobody saw tells no wait": (
        [pod(100, scheduled_at=30), owner(labels='{"kueue.x-k8s.io/managed": "true"}')],
        [("queue", 0, 30, "scheduled", "workload_not_seen")],
    ),
    "nor one that names a queue where workloads were never listed": (
        [pod(100, scheduled_at=30), owner(labels=QUEUE_LABEL)], [("queue", 0, 30, "scheduled", "workload_not_seen")]
    ),
    "where they were listed and none is its own it waits for its scheduler": (
        [pod(100, scheduled_at=30), owner(labels=QUEUE_LABEL), listed(100)], [("scheduler", 0, 30, "scheduled", None)]
    ),
    "but not where Kueue marked it as its own": (
        [pod(100, scheduled_at=30), owner(labels=MANAGED), listed(100)],
        [("queue", 0, 30, "scheduled", "workload_not_seen")],
    ),
    "whoever schedules it": (
        [pod(100, scheduled_at=30, scheduler="hami-scheduler"), owner(labels='{"app": "x"}')], [("scheduler", 0, 30, "scheduled", None)]
    ),
    "pods of a workload are placed after each admission": (
        [
            workload(100, phase="admitted"), RESERVED, condition(60, "Admitted"),
            *(pod(100, f"p{n}", created_at=61, scheduled_at=65 + n) for n in range(2)),
            *(owner(f"p{n}", annotations='{"kueue.x-k8s.io/workload": "w1"}') for n in range(2)),
        ],
        [("queue", 0, 60, "reserved", None), ("scheduler", 60, 66, "scheduled", None)],
    ),
    "a workload that is admitted and cannot be placed waits for a scheduler": (
        [
            workload(100, phase="admitted"), RESERVED, condition(60, "Admitted"), pod(100, created_at=61, phase="Pending"),
            owner(owner_kind="Job", owner_name="train", owner_uid="o1"), workload(100, phase="admitted", owner_uid="o1"),
        ],
        [("queue", 0, 60, "reserved", None), ("scheduler", 60, None, None, None)],
    ),
    "minutes between an admission and the removal of the gates are no scheduler's": (
        [
            workload(900, phase="admitted"), RESERVED, condition(60, "Admitted"), *gated_members(2, scheduled_at=400),
            *(gated(f"p{n}", reason="Unschedulable", seen=300 + n) for n in range(2)),
        ],
        [
            ("queue", 0, 60, "reserved", None), ("gate", 60, 301, "ungated", "end_not_stamped"),
            ("scheduler", 301, 400, "scheduled", "end_not_stamped"),
        ],
    ),
    "a gate that nobody saw opened parts the wait at no known instant": (
        [workload(900, phase="admitted"), RESERVED, condition(60, "Admitted"), *gated_members(2, scheduled_at=400)],
        [("queue", 0, 60, "reserved", None), ("gate", 60, 400, "scheduled", "gate_not_seen")],
    ),
    "an admitted workload whose pods stand at their gates still does": (
        [workload(900, phase="admitted"), RESERVED, condition(60, "Admitted"), *gated_members(2)],
        [("queue", 0, 60, "reserved", None), ("gate", 60, None, None, None)],
    ),
    "retries of one owner under one name are one demand": (
        [
            pod(50, "p1", pod="web-0", scheduled_at=7, phase="Failed", last_container_end_at=40),
            pod(100, "p2", pod="web-0", created_at=41, scheduled_at=44),
            *(owner(uid, owner_kind="StatefulSet", owner_name="web", owner_uid="o1") for uid in ("p1", "p2")),
        ],
        [("scheduler", 0, 7, "scheduled", None), ("scheduler", 41, 44, "scheduled", None)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_waits(name: str) -> None:
    facts, expected = CASES[name]
    assert lines(facts) == expected


def test_a_stamp_before_the_creation_is_told() -> None:
    with Store.open_memory() as store:
        store.append([workload(100, created=10, phase="admitted"), condition(9, "QuotaReserved")])
        post(store)
        rows = store.rows("SELECT subject FROM ledger.finding WHERE code = 'stamp_before_creation'")
    assert rows == [("workload team-a/w1",)]


def test_who_waits_is_known_to_as_far_as_a_watch_of_its_kind_reached() -> None:
    reach = {"observed_from_at": 20, "observed_to_at": 80}
    for kind, known_to in (("workloads.kueue.x-k8s.io", 80), ("pods", 30)):
        rows = segments([workload(30), listed(80, kind=kind, **reach)])
        assert [(row["known_to_at"], row["ended_at"]) for row in rows] == [(known_to, None)]


def test_the_last_word_within_a_wait_says_why() -> None:
    facts = [
        workload(100),
        decision(10, "never_fits", cause="quota"),
        decision(20, "not_now", cause="capacity"),
        decision(90, "not_now", cause="policy"),
        RESERVED,
    ]
    assert [(row["cause"], row["fit"]) for row in segments(facts)] == [("capacity", "not_now")]


def test_segments_number_the_waits_of_a_demand_and_amounts_come_with_them() -> None:
    facts = [
        workload(200, evictions=evicted(1)),
        RESERVED,
        condition(70, "Evicted", reason="Preempted"),
        condition(80, "QuotaReserved", "False"),
        condition(95, "QuotaReserved"),
    ]
    rows = segments(facts)
    assert [(row["stage"], row["segment"]) for row in rows] == [("queue", 0), ("release_lag", 0), ("queue", 1)]
    assert {(row["queue"], row["gpu_milli"], row["demand_kind"], row["basis"]) for row in rows} == {
        ("gpus", 8000, "workload", "object")
    }


def attempts_of(facts: list[Fact]) -> list[tuple[Any, ...]]:
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        return [(row["demand_id"], row["attempts"]) for row in rows_of(store, "dim.demand", "demand_id")]


REFUSED: dict[str, Any] = {"phase": "Failed", "rejected": True, "node": "n1"}
INDEX = '{"batch.kubernetes.io/job-completion-index": "%d"}'


@pytest.mark.parametrize(
    ("facts", "demands"),
    [
        pytest.param(
            [
                *(pod(500, uid, created_at=0, started_at=2, **REFUSED) for uid in ("a1", "b1")),
                *(pod(500, uid, created_at=2, started_at=5, **REFUSED) for uid in ("a2", "b2")),
                *(pod(500, uid, created_at=9) for uid in ("a3", "b3")),
                *(of_owner(uid) for uid in ("a1", "a2", "a3", "b1", "b2", "b3")),
            ],
            [("a1", 3), ("b1", 3)],
            id="two replicas are two demands",
        ),
        pytest.param(
            [pod(900, "a1", started_at=2, **REFUSED), pod(900, "a2", created_at=700), of_owner("a1"), of_owner("a2")],
            [("a1", 1), ("a2", 1)],
            id="what is made much later is no attempt of it",
        ),
        pytest.param(
            [pod(900, "a1", started_at=2, **REFUSED), pod(900, "a2", created_at=1), of_owner("a1"), of_owner("a2")],
            [("a1", 1), ("a2", 1)],
            id="nor what was there already",
        ),
        pytest.param(
            [
                pod(900, "a1", started_at=2, **REFUSED), pod(900, "b1", created_at=3), pod(900, "a2", created_at=4),
                *(of_owner(uid, owner_kind="Job", annotations=INDEX % (uid[0] == "b")) for uid in ("a1", "a2", "b1")),
            ],
            [("a1", 2), ("b1", 1)],
            id="an index of a job is tried again under its index",
        ),
        pytest.param(
            [
                *(pod(40_000, f"p{n:03}", created_at=100 * n, started_at=100 * n + 1, **REFUSED) for n in range(300)),
                *(of_owner(f"p{n:03}") for n in range(300)),
            ],
            [("p000", 300)],
            id="however often it is refused",
        ),
    ],
)  # fmt: skip
def test_attempts_after_a_refusal_are_one_demand(facts: list[Fact], demands: list[tuple[str, int]]) -> None:
    assert attempts_of(facts) == demands


def test_retries_are_counted_and_the_first_names_the_demand() -> None:
    facts, _expected = CASES["retries of one owner under one name are one demand"]
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        assert [
            (row["demand_id"], row["attempts"], row["created_at"]) for row in rows_of(store, "dim.demand", "demand_id")
        ] == [("p1", 2, 0)]


def test_the_words_of_the_ledger_are_those_of_the_definition() -> None:
    with Store.open_memory() as store:
        for number, (facts, _expected) in enumerate(CASES.values()):
            cluster = {"cluster": f"c{number}"}
            store.append(
                [
                    type(fact)(**{name: getattr(fact, name) for name in fact.__struct_fields__} | cluster)
                    for fact in facts
                ]
            )  # type: ignore[arg-type]
        post(store)
        stages, reasons, ends = (
            {row[0] for row in store.rows(f"SELECT DISTINCT {column} FROM ledger.wait WHERE {column} IS NOT NULL")}
            for column in ("stage", "unknown_reason", "ended_by")
        )
        endless = store.rows("SELECT count(*) FROM ledger.wait WHERE (ended_at IS NULL) <> (ended_by IS NULL)")
        steps = {row[0] for row in store.rows("SELECT DISTINCT step FROM dim.step")}
    assert stages == set(STAGES)
    assert reasons <= set(UNKNOWN_REASONS)
    assert steps == set(STEPS)
    assert ends == set(ENDS)
    assert endless == [(0,)]


def test_every_demand_has_a_number_of_its_own() -> None:
    with Store.open_memory() as store:
        strangers = [condition(30, "QuotaReserved", uid=f"name:team-a/{name}") for name in ("other", "third")]
        store.append([workload(60), workload(60, uid="w2"), *strangers, pod(100), pod(100, "p2")])
        post(store)
        numbers = [row["demand_no"] for row in rows_of(store, "dim.demand", "demand_id")]
    assert (len(numbers), len(set(numbers))) == (6, 6)
