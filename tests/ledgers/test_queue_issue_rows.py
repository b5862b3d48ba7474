"""The symptoms that people reported of queues, where the right answer needs time or several sources: row by row of docs/sources/queue-symptoms.md."""

from __future__ import annotations

import json
from typing import Any

from steelyard.facts.base import Fact
from steelyard.facts.gang import Gang
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.node import Node
from steelyard.facts.owner import Owner
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import HOLDING, QUOTA, WAIT
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.ledgers import facts_of
from tests.ledgers.wait_facts import at, condition, decision, evicted, lines, second_of, stamps, workload

CARDS = '{"nvidia.com/gpu":8000}'
SEEN = 5_000
RESERVED, ADMITTED = condition(60, "QuotaReserved"), condition(60, "Admitted")


class Posted:
    """What follows from facts after one posting of the books that queues stand on."""

    def __init__(self, *facts: Fact) -> None:
        with Store.open_memory() as store:
            store.append(facts)
            post_ledgers(store, PostingParameters(), clock=FixedClock(at(10**6)), ledgers=(HOLDING, WAIT, QUOTA))
            self.findings = {
                (row["code"], row["subject"]): json.loads(row["evidence"])
                for row in store.records("SELECT code, subject, evidence FROM ledger.finding")
            }
            self.leaks = store.records("SELECT * FROM dim.quota_leak ORDER BY demand_id")
            self.balance = store.records("SELECT * FROM dim.quota_now WHERE queue_kind <> 'pool'")

    def of(self, code: str) -> dict[str, Any]:
        return {subject: told for (found, subject), told in self.findings.items() if found == code}


def seen(fact: type[Any], key: str, **more: Any) -> Any:
    fields = {"source": "kueue", **stamps(more)}
    return fact(natural_key=key, occurred_at=at(SEEN), observed_at=at(SEEN), **fields)


def listing() -> SourceStatus:
    return seen(SourceStatus, "pods/cluster", source="kube_api", kind="pods", status="ok", complete=True)  # type: ignore[no-any-return]


def member(of: str, uid: str, gpus: int = 8, **more: Any) -> list[Fact]:
    """A pod of a workload; a scheduler placed it at once where nothing else is said."""
    fields: dict[str, Any] = {"scheduled_at": 61, "phase": "Running", "created_at": 60, "node": "n1", **more}
    return [
        seen(
            Request, uid, source="kube_api", pod_uid=uid, namespace="team-a", pod=uid, gpu_count=gpus, resource_names="nvidia.com/gpu", **fields
        ),
        seen(Owner, uid, source="kube_api", pod_uid=uid, namespace="team-a", annotations=json.dumps({"kueue.x-k8s.io/workload": of})),
    ]  # fmt: skip


def holder(uid: str = "w1", **more: Any) -> Gang:
    """A workload that is admitted and keeps 8 cards."""
    fields = {"phase": "admitted", "demand": CARDS, "admitted": CARDS, "flavors": '{"nvidia.com/gpu":"h100"}', **more}
    return workload(SEEN, uid, **fields)


def nominal(milli: int = 8_000, **more: Any) -> Quota:
    fields = {"queue_kind": "cluster_queue", "queue": "gpus", "resource": "nvidia.com/gpu", "flavor": "h100", **more}
    key = f"{fields['queue']}/{fields['flavor']}/nvidia.com/gpu"
    return seen(Quota, key, nominal_milli=milli, **fields)  # type: ignore[no-any-return]


def sample(metric: str, value: float, **labels: str) -> MetricSample:
    text = json.dumps(labels, sort_keys=True)
    return MetricSample(
        source="queue_metrics", natural_key=f"{metric}{text}", family="queue", metric=metric, value=value, labels=text,
        occurred_at=at(SEEN), observed_at=at(SEEN),
    )  # fmt: skip


def pod_group(uid: str, **more: Any) -> Gang:
    fields = {
        "object_kind": "PodGroup",
        "object_group": "scheduling.volcano.sh",
        "queue": "vq",
        "cluster_queue": None,
        "phase": "Running",
        **more,
    }
    return workload(SEEN, uid, **fields)


def test_row_14811_a_reservation_that_outlives_its_eviction_is_leaked_from_then_on() -> None:
    ended: dict[str, Any] = {"phase": "Failed", "last_container_end_at": 900}
    held = holder(evictions=evicted(1, "PodsReadyTimeout"), requeue_at=1_000)
    posted = Posted(held, RESERVED, ADMITTED, condition(1_200, "Evicted"), *member("w1", "p1", **ended), listing())
    told = posted.of("leaked_reservation")["workload team-a/w1"]
    assert (told["gpu"], told["leaked_seconds"]) == (8, SEEN - 1_200)
    alive = Posted(held, RESERVED, ADMITTED, condition(1_200, "Evicted"), *member("w1", "p1"), listing())
    assert alive.of("leaked_reservation") == {}


def test_row_10407_of_many_admitted_workloads_those_without_a_living_pod_are_told_apart() -> None:
    facts: list[Fact] = [listing()]
    for number in range(5):
        uid = f"w{number}"
        end: dict[str, Any] = {} if number < 2 else {"phase": "Failed", "last_container_end_at": 900}
        facts += [holder(uid), condition(60, "QuotaReserved", uid=uid), condition(60, "Admitted", uid=uid)]
        facts += member(uid, f"p{number}", **end)
    assert [row["demand_id"] for row in Posted(*facts).leaks] == ["w2", "w3", "w4"]


def test_row_11170_the_removal_of_gates_is_a_stage_of_its_own() -> None:
    pod = member("w1", "p1", created_at=1, scheduled_at=400)
    gate = {"uid": "p1", "object_kind": "Pod", "object_group": ""}
    shut = condition(1, "PodScheduled", "False", reason="SchedulingGated", **gate)
    let_go = condition(380, "PodScheduled", "False", reason="Unschedulable", observed_at=380, message="x", **{**gate})
    told = lines([holder(pods_count=1), RESERVED, ADMITTED, *pod, shut, let_go], "gate", "scheduler")
    assert [row[:4] for row in told] == [("gate", 60, 380, "ungated"), ("scheduler", 380, 400, "scheduled")]
    assert lines([holder(pods_count=1), RESERVED, ADMITTED, *pod], "gate") == []


def test_row_5243_what_is_admitted_and_fits_on_no_node_holds_quota_and_no_card() -> None:
    pod = member("w1", "p1", scheduled_at=None, phase="Pending", node=None)
    said = decision(70, "not_now", uid="p1", name="p1", subject_kind="Pod", cause="fragmentation", source="kube_api")
    quota = nominal(reserved_milli=8_000, used_milli=8_000)
    facts = [holder(pods_count=1), RESERVED, ADMITTED, *pod, said, listing(), quota]
    (row,) = Posted(*facts).balance
    assert (row["reserved_milli"], row["used_milli"], row["reserved_not_used_milli"]) == (8_000, 0, 8_000)
    with Store.open_memory() as store:
        store.append(facts)
        post_ledgers(store, PostingParameters(), clock=FixedClock(at(10**6)), ledgers=(WAIT,))
        waits = store.records("SELECT * FROM ledger.wait WHERE stage = 'scheduler'")
    assert [(each["cause"], each["ended_at"], each["gpu_milli"]) for each in waits] == [("fragmentation", None, 8_000)]


def test_row_2291_an_eviction_that_stands_still_has_a_dwell_time() -> None:
    stuck = [
        workload(SEEN, phase="evicted", evictions=evicted(1, "AdmissionCheck")),
        RESERVED,
        condition(70, "Evicted"),
    ]
    assert lines(stuck, "release_lag") == [("release_lag", 70, None, None, None)]
    with Store.open_memory() as store:
        store.append(stuck)
        post_ledgers(store, PostingParameters(), clock=FixedClock(at(10**6)), ledgers=(WAIT,))
        ((started, known),) = store.rows("SELECT started_at, known_to_at FROM ledger.wait WHERE stage = 'release_lag'")
    assert (second_of(known) or 0) - (second_of(started) or 0) == SEEN - 70
    moved = [*stuck, condition(80, "QuotaReserved", "False")]
    assert lines(moved, "release_lag") == [("release_lag", 70, 80, "released", None)]


def test_row_21_a_queue_s_metric_that_outlives_its_jobs_is_stale() -> None:
    queue = nominal(queue="vq", queue_kind="volcano_queue", flavor=None, capability_milli=16_000, used_milli=2_000)
    name, labels = "volcano_queue_allocated_scalar_resources", {"queue_name": "vq", "resource": "nvidia.com/gpu"}
    told = Posted(queue, pod_group("g1"), sample(name, 8, **labels)).of("stale_metric_series")
    assert told["queue vq/nvidia.com/gpu"]["metric_gpu"] == 8
    assert told["queue vq/nvidia.com/gpu"]["status_gpu"] == 2
    assert Posted(queue, pod_group("g1"), sample(name, 2, **labels)).of("stale_metric_series") == {}


def test_row_22_a_series_of_a_job_that_is_gone_is_dropped_and_said() -> None:
    name = "volcano_unschedule_task_count"
    facts = [nominal(), pod_group("g1"), sample(name, 3_000, job_id="team-a/gone"), sample(name, 2, job_id="team-a/g1")]
    assert list(Posted(*facts).of("stale_metric_series")) == ["job team-a/gone"]
    assert Posted(facts[0], *facts[2:]).of("stale_metric_series") == {}, "where no pod group was seen, none is missing"


def test_row_6586_flavors_that_promise_the_same_nodes_are_told() -> None:
    nodes = [
        seen(Node, name, source="kube_api", node=name, ready=True, labels='{"pool": "a"}') for name in ("n1", "n2")
    ]
    flavors = [
        seen(
            Queue,
            f"flavor/{name}",
            queue_kind="flavor",
            queue=name,
            policies=json.dumps({"nodeLabels": {"pool": pool}}),
        )
        for name, pool in (("h100", "a"), ("any", "a"), ("other", "b"))
    ]
    listed = seen(SourceStatus, "nodes/cluster", source="kube_api", kind="nodes", status="ok", complete=True)
    quotas = [nominal(16_000), nominal(16_000, flavor="any")]
    posted = Posted(*nodes, *flavors, *quotas, listed, listing())
    assert posted.of("overlapping_flavors") == {"flavors any, h100": {"nodes_count": 2, "nodes": "n1,n2"}}


def test_row_36_a_device_that_the_kubelet_lists_for_an_ended_pod_is_not_in_use() -> None:
    ended = facts_of.pod(60, phase="Succeeded", scheduled_at=1, last_container_end_at=40, gpu_count=1)
    listed = facts_of.grant(60, source="pod_resources", device_uuid=facts_of.CARD)
    (row,) = facts_of.holdings([facts_of.card(60), ended, listed, facts_of.listing(60)])
    assert (row["ended_at"], row["device_uuid"]) == (40, facts_of.CARD)
    running = facts_of.pod(60, scheduled_at=1, gpu_count=1)
    (row,) = facts_of.holdings([facts_of.card(60), running, listed, facts_of.listing(60)])
    assert row["ended_at"] is None
