"""Pod groups, queues, events and victims of Volcano."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.facts.decision import Decision
from steelyard.facts.finding import Finding
from steelyard.facts.preemption import Preemption
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.sources.shared.pods import parse_pod
from steelyard.sources.volcano import read_volcano_event, read_volcano_pod
from steelyard.sources.volcano.gang_message import parse_gang_message
from tests.sources.kube_api.kube_objects import pod
from tests.sources.volcano.volcano_objects import (
    CTX,
    at,
    details,
    event,
    gang,
    of,
    pod_group,
    queue,
    read,
    stamp,
    unschedulable,
)

HALF = (
    "2/4 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 Running, 4 minAvailable; Pending: 2 Unschedulable. "
    "Origin reason is half-2: 0/2 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable."
)
SHORT = (
    "2/0 tasks in gang unschedulable: pod group is not ready, 2 minAvailable. "
    "Origin reason is: queue resource quota insufficient: insufficient nvidia.com/gpu"
)


def decided(*conditions: dict[str, Any], phase: str = "Pending") -> list[Decision]:
    return of(read(pod_group(phase, *conditions)), Decision)


@pytest.mark.parametrize(
    ("message", "reason", "cause", "rule", "resource"),
    [
        (HALF, "NotEnoughResources", "capacity", "Insufficient nvidia.com/gpu", "nvidia.com/gpu"),
        (SHORT, "NotEnoughResources", "quota", "queue resource quota insufficient", "nvidia.com/gpu"),
        ("resource in cluster is overused: overused", "NotEnoughResources", "capacity", "resource in cluster is overused", None),
        ("3/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 3 minAvailable", "NotEnoughTasks", "gang", "NotEnoughTasks", None),
        (
            "1/1 tasks in gang unschedulable: x. Origin reason is a-0: 0/3 nodes are unavailable: 3 node(s) had taints {a: b}.",
            "NotEnoughResources", "placement", "node(s) had taints {a: b}", None,
        ),
    ],
)  # fmt: skip
def test_why_a_gang_waits_is_the_origin_of_its_words(
    message: str, reason: str, cause: str, rule: str, resource: str | None
) -> None:
    (found,) = decided(unschedulable("09:00:00", message, reason))
    assert (found.verdict, found.cause, found.rule, found.resource) == ("not_now", cause, rule, resource)
    assert (found.occurred_at, found.subject_kind, found.queue) == (at("09:00:00"), "PodGroup", "q")


def test_the_gang_grammar_tells_tasks_counts_and_nodes() -> None:
    read_message = parse_gang_message(HALF)
    assert (read_message.unready_count, read_message.tasks_count, read_message.task) == (2, 4, "half-2")
    assert read_message.counts == {"Pending": 2, "Running": 2, "minAvailable": 4}
    assert read_message.scheduling is not None
    assert read_message.scheduling.reasons == {"Insufficient nvidia.com/gpu": 1, "node(s) were unschedulable": 1}
    assert parse_gang_message(SHORT).tasks_count == 0
    assert parse_gang_message("something else").unread
    assert parse_gang_message("9" * 70_000).unread


def test_an_old_unschedulable_does_not_outlive_the_newer_scheduled() -> None:
    scheduled = {"type": "Scheduled", "status": "True", "reason": "ready", "lastTransitionTime": stamp("09:30:00")}
    payload = pod_group("Running", unschedulable("09:00:00", HALF), scheduled, running=2)
    assert (gang(payload).phase_reason, gang(payload).phase_message) == ("ready", None)
    assert [each.verdict for each in of(read(payload), Decision)] == ["not_now", "scheduled"]


def test_row_28_a_gang_that_runs_in_part_is_degraded_and_keeps_what_it_was_given() -> None:
    found = gang(pod_group("Unknown", unschedulable("09:00:00", HALF), running=1))
    assert details(found)["standing"] == "running_degraded"
    assert (found.running_count, found.min_count, found.gpu_milli) == (1, 2, 2_000)
    assert found.admitted == '{"nvidia.com/gpu":2000}'
    short = gang(pod_group("Running", running=1))
    assert details(short)["standing"] == "running_degraded"


def test_only_a_pod_group_that_its_queue_let_in_takes_of_its_quota() -> None:
    pending, inqueue, done = (gang(pod_group(phase)) for phase in ("Pending", "Inqueue", "Completed"))
    assert (pending.cluster_queue, pending.admitted) == (None, "{}")
    assert (inqueue.cluster_queue, inqueue.admitted) == ("q", '{"nvidia.com/gpu":2000}')
    assert (done.cluster_queue, done.admitted) == ("q", "{}")


def test_a_pod_group_named_after_another_owner_is_said() -> None:
    uid = "d01ec7b3-38bd-4bc2-ad42-961499d04f1d"
    (found,) = of(read(pod_group("Inqueue", name=f"podgroup-{uid}")), Finding)
    assert (found.code, json.loads(found.evidence)["named_uid"]) == ("podgroup_name_mismatch", uid)
    own = pod_group("Inqueue", name=f"podgroup-{uid}")
    own["metadata"]["ownerReferences"][0]["uid"] = uid
    assert of(read(own), Finding) == []


def test_a_queue_tells_its_three_limits_and_what_is_allocated_in_thousandths() -> None:
    spec = {
        "weight": 4, "priority": 10, "parent": "root", "reclaimable": False, "dequeueStrategy": "traverse",
        "capability": {"nvidia.com/gpu": "12"}, "deserved": {"nvidia.com/gpu": "8"}, "guarantee": {"resource": {"nvidia.com/gpu": "4"}},
    }  # fmt: skip
    facts = read(queue(spec=spec, allocated={"nvidia.com/gpu": "2500m", "cpu": "3"}, state="Closing"))
    (found,) = of(facts, Queue)
    assert (found.queue, found.parent, found.state, found.weight_milli) == ("q", "root", "closing", 4_000)
    assert (found.strategy, found.priority, found.policies) == ("traverse", 10, '{"reclaimable":false}')
    gpu = next(each for each in of(facts, Quota) if each.resource == "nvidia.com/gpu")
    assert (gpu.capability_milli, gpu.deserved_milli, gpu.guarantee_milli) == (12_000, 8_000, 4_000)
    assert (gpu.used_milli, gpu.nominal_milli) == (2_500, None)


def test_row_30_what_a_queue_leaves_out_of_its_allocation_is_0_for_cards_and_unknown_for_shared_memory() -> None:
    capability = {"nvidia.com/gpu": "8", "volcano.sh/vgpu-memory": "81920"}
    rows = of(read(queue(spec={"capability": capability}, allocated={"cpu": "1"})), Quota)
    assert {row.resource: row.used_milli for row in rows} == {
        "cpu": 1_000,
        "nvidia.com/gpu": 0,
        "volcano.sh/vgpu-memory": None,
    }
    (row,) = of(read(queue(spec={"capability": {"nvidia.com/gpu": "8"}})), Quota)
    assert row.used_milli is None, "a status without an allocation tells nothing"


def test_a_quota_that_cannot_be_read_is_left_out_and_said() -> None:
    capability = {"nvidia.com/gpu": "NaN", "cpu": True, "memory": "1Gi", "a.b/gpu": "-1"}
    facts = read(queue(spec={"capability": capability, "deserved": {"nvidia.com/gpu": "many", "a.b/gpu": 2}}))
    assert [(row.resource, row.capability_milli, row.refused) for row in of(facts, Quota)] == [
        ("a.b/gpu", None, "capability"),
        ("cpu", None, "capability"),
        ("memory", 2**30 * 1000, None),
        ("nvidia.com/gpu", None, "capability,deserved"),
    ]
    (finding,) = of(facts, Finding)
    assert finding.code == "quantity_malformed"


def told(payload: dict[str, Any]) -> list[Any]:
    return list(read_volcano_event(payload, CTX))


@pytest.mark.parametrize(
    ("kind", "message", "cause"),
    [
        ("Pod", "Pod is evicted, because of preempt", "priority"),
        ("Pod", "Pod is evicted, because of reclaim", "reclaim"),
        ("PodGroup", "reclaim", "reclaim"),
        ("PodGroup", "gangpreempt", "priority"),
        ("Pod", "Pod is evicted", "unknown"),
    ],
)
def test_an_eviction_says_whether_it_was_a_preemption_or_took_quota_back(kind: str, message: str, cause: str) -> None:
    (found,) = told(event(kind, "Evict", message))
    assert isinstance(found, Preemption)
    assert (found.cause, found.victim_kind, found.decided_by) == (cause, kind, "volcano")
    assert (found.preemptor_name, found.evidence) == (None, "victim_event")


@pytest.mark.parametrize(
    "payload",
    [
        event("Pod", "Evict", "Pod is evicted, because of shuffle"),
        event("Pod", "Evict", "Pod is evicted, because of reclaim", component="kubelet"),
        event("Pod", "Scheduled", "Successfully assigned lab/x to n"),
        event("Job", "ExecuteAction", "Start to execute action SyncJob "),
        event("Job", "PluginError", "x"),
    ],
)
def test_events_that_decide_nothing_of_their_own_yield_nothing(payload: dict[str, Any]) -> None:
    assert told(payload) == []


def test_a_pod_groups_event_is_a_decision_with_its_repeats() -> None:
    (found,) = told(
        event("PodGroup", "Unschedulable", "queue resource quota insufficient: insufficient nvidia.com/gpu")
    )
    assert (found.verdict, found.cause, found.resource) == ("not_now", "quota", "nvidia.com/gpu")
    assert (found.count, found.first_at, found.occurred_at) == (4, at("09:00:00"), at("09:30:00"))


@pytest.mark.parametrize(
    ("reason", "message", "verdict", "by"),
    [
        ("ExecuteAction", "Start to execute action TerminateJob ", "evicted", "policy"),
        ("ExecuteAction", "Start to execute action RestartJob ", "requeued", "policy"),
        ("CommandIssued", "Start to execute command AbortJob, and clean it up", "deactivated", "operator"),
        ("CommandIssued", "Start to execute command ResumeJob, and clean it up", "requeued", "operator"),
    ],
)
def test_an_action_says_whether_a_policy_or_an_operator_took_it(
    reason: str, message: str, verdict: str, by: str
) -> None:
    (found,) = told(event("Job", reason, message, component="vc-controller-manager"))
    assert (found.verdict, details(found)["by"], found.decided_by) == (verdict, by, "vc-controller-manager")


def victim(ready: str | None, scheduler: str = "volcano", message: str = "volcano: preempting") -> dict[str, Any]:
    conditions = [
        {
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": message,
            "lastTransitionTime": stamp("10:44:00"),
        }
    ]  # fmt: skip
    if ready:
        conditions.append({"type": "Ready", "status": "False", "reason": "Evict", "message": ready})
    return pod(spec={"schedulerName": scheduler}, status={"phase": "Failed", "conditions": conditions})


@pytest.mark.parametrize(
    ("ready", "cause"),
    [
        ("Pod is evicted, because of reclaim", "reclaim"),
        ("Pod is evicted, because of preempt", "priority"),
        (None, "unknown"),
    ],
)
def test_a_victims_own_conditions_tell_the_action(ready: str | None, cause: str) -> None:
    (found,) = read_volcano_pod(parse_pod(victim(ready)), CTX)
    assert isinstance(found, Preemption)
    assert (found.cause, found.occurred_at, found.evidence) == (cause, at("10:44:00"), "condition")


def test_a_victim_of_the_native_scheduler_is_none_of_volcanos() -> None:
    payload = victim(None, "default-scheduler", "default-scheduler: preempting")
    assert list(read_volcano_pod(parse_pod(payload), CTX)) == []


@pytest.mark.parametrize("spec", [None, [], {"minResources": "x", "minMember": "two", "queue": 7}])
def test_a_hostile_pod_group_is_read_as_far_as_it_goes(spec: Any) -> None:
    payload = pod_group("Pending")
    payload["spec"] = spec
    payload["status"] = {"conditions": [1, {"type": "Unschedulable", "status": "True", "message": {"a": 1}}]}
    found = gang(payload)
    assert (found.queue, found.min_count) == ("default", None)
