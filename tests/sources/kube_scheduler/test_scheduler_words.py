"""The native scheduler's sentence, its events, a pod's own conditions, the kubelet's refusals, and controllers that may not create."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.facts.decision import Decision
from steelyard.facts.preemption import Preemption
from steelyard.facts.refusal import Refusal
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kube_scheduler import read_pod_scheduling, read_scheduler_event
from steelyard.sources.shared.pods import parse_pod
from steelyard.sources.shared.scheduling_message import cause_of, parse_scheduling_message
from tests.sources.kube_api.kube_objects import CTX, at, gpus, pod, stamp, status_of

TAINT = "node(s) had untolerated taint {dedicated: a, b}"
FULL = (
    f"0/7 nodes are available: 3 {TAINT}, 4 Insufficient nvidia.com/gpu, 2 Insufficient cpu. "
    "preemption: 0/7 nodes are available: 3 Preemption is not helpful for scheduling, 4 No preemption victims found for incoming pod.."
)


def test_the_sentence_is_split_only_before_a_number_of_nodes() -> None:
    read = parse_scheduling_message(FULL)
    assert (read.nodes_total_count, read.prefilter, read.unread) == (7, None, False)
    assert read.reasons == {TAINT: 3, "Insufficient nvidia.com/gpu": 4, "Insufficient cpu": 2}
    assert read.preemption_reasons == {
        "Preemption is not helpful for scheduling": 3,
        "No preemption victims found for incoming pod": 4,
    }
    assert (read.cause, read.rule, read.resource) == ("capacity", "Insufficient nvidia.com/gpu", "nvidia.com/gpu")


@pytest.mark.parametrize(
    ("text", "total", "reasons", "prefilter", "afterwords"),
    [
        ("0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu.", 2, {"Insufficient nvidia.com/gpu": 2}, None, ()),
        ("0/5 nodes are available: waiting for a volume. not found", 5, {}, "waiting for a volume. not found", ()),
        (
            "0/5 nodes are available: 5 cannot allocate all claims. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never.",
            5, {"cannot allocate all claims": 5}, None, ("no_new_claims_to_deallocate",),
        ),
        ("0/5 nodes are available: 1 a, 1 a..", 5, {"a": 2}, None, ()),
        (
            "0/2 nodes are available: 2 3/8 CardInsufficientMemory, 5/8 CardTypeMismatch.", 2,
            {"3/8 CardInsufficientMemory, 5/8 CardTypeMismatch": 2}, None, (),
        ),
        ("0/0 nodes are available:", 0, {}, None, ()),
        ("no nodes available to schedule pods", 0, {}, "no nodes available to schedule pods", ()),
    ],
)  # fmt: skip
def test_each_form_of_the_sentence(
    text: str, total: int, reasons: dict[str, int], prefilter: str | None, afterwords: tuple[str, ...]
) -> None:
    read = parse_scheduling_message(text)
    assert (read.nodes_total_count, read.reasons, read.prefilter) == (total, reasons, prefilter)
    assert (read.afterwords, read.unread) == (afterwords, False)


def test_what_is_no_such_sentence_is_unread_and_costs_linear_time() -> None:
    assert parse_scheduling_message("").unread
    assert parse_scheduling_message("running binder plugin failed").unread
    assert len(parse_scheduling_message("0/9 nodes are available: " + "1 a, " * 500_000).reasons) == 1
    assert parse_scheduling_message("1/" * 500_000).unread


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Insufficient nvidia.com/gpu", "capacity"), ("Too many pods", "capacity"), ("cannot allocate all claims", "capacity"),
        ("node(s) had untolerated taint(s)", "placement"), ("node(s) didn't match Pod's node affinity/selector", "placement"),
        ("node(s) were unschedulable", "placement"), ("cannot align pod: x", "placement"),
        ("node(s) didn't match pod topology spread constraints", "placement"),
        ("3/8 CardInsufficientMemory, 5/8 CardTypeMismatch", "capacity"), ("1/8 AllocatedCardsInsufficientRequest", "fragmentation"),
        ("NodeUnfitPod", "placement"), ("optimistic rejection of PodGroup", "gang"), ("ElasticQuota exceeded", "quota"), ("something new", "other"),
    ],
)  # fmt: skip
def test_each_reason_has_its_cause(reason: str, cause: str) -> None:
    assert cause_of(reason) == cause


def event(reason: str, message: str, kind: str = "Pod", component: str = "default-scheduler", **more: Any) -> Any:
    return {
        "metadata": {"uid": "event-1"},
        "involvedObject": {"kind": kind, "namespace": "ns", "name": "p", "uid": "u-1"},
        "reason": reason,
        "message": message,
        "reportingComponent": component,
        "eventTime": stamp("09:00:00"),
        "series": {"count": 9, "lastObservedTime": stamp("09:40:00")},
        **more,
    }


def told(payload: dict[str, Any]) -> list[Any]:
    return list(read_scheduler_event(payload, CTX))


def test_a_failed_scheduling_is_not_now_with_its_cause_and_repeats() -> None:
    (found,) = told(event("FailedScheduling", FULL))
    assert isinstance(found, Decision)
    assert (found.verdict, found.cause, found.resource, found.nodes_count) == (
        "not_now",
        "capacity",
        "nvidia.com/gpu",
        7,
    )
    assert (found.count, found.first_at, found.occurred_at) == (9, at("09:00:00"), at("09:40:00"))
    assert json.loads(found.details)["reasons"][TAINT] == 3
    (unread,) = told(event("FailedScheduling", "running Bind plugin failed"))
    assert (unread.verdict, unread.cause, json.loads(unread.details)) == ("not_now", None, {"unread": True})


def test_a_scheduled_pod_has_its_node() -> None:
    (found,) = told(event("Scheduled", "Successfully assigned ns/p to node-7"))
    assert (found.verdict, found.node, found.details) == ("scheduled", "node-7", "{}")
    (unread,) = told(event("Scheduled", "it went well"))
    assert (unread.node, unread.details) == (None, '{"unread":true}')


@pytest.mark.parametrize(
    ("message", "preemptor", "node"),
    [
        ("Preempted by pod 12-ab on node n-1", ("12-ab", None, None), "n-1"),
        ("Preempted by other/hi on node n-1", (None, "other", "hi"), "n-1"),
        ("Preempted by a pod on node n-1", (None, None, None), "n-1"),
        ("Preempted by someone", (None, None, None), None),
    ],
)
def test_every_spelling_of_a_preemption(message: str, preemptor: tuple[str | None, ...], node: str | None) -> None:
    (found,) = told(event("Preempted", message, action="Preempting"))
    assert isinstance(found, Preemption)
    assert (found.preemptor_uid, found.preemptor_namespace, found.preemptor_name) == preemptor
    assert (found.node, found.victim_uid, found.cause) == (node, "u-1", "priority")


def test_the_related_object_names_the_preemptor() -> None:
    related = {"kind": "Pod", "namespace": "adhoc", "name": "hi", "uid": "u-9"}
    (found,) = told(event("Preempted", "Preempted by pod u-9 on node n-1", related=related))
    assert (found.preemptor_kind, found.preemptor_namespace, found.preemptor_name, found.preemptor_uid) == (
        "Pod", "adhoc", "hi", "u-9")  # fmt: skip


def test_kueues_namesake_about_a_workload_is_not_the_schedulers() -> None:
    assert told(event("Preempted", "Preempted to accommodate a workload", kind="Workload")) == []
    assert told(event("Pulled", "x")) == []


@pytest.mark.parametrize(
    ("reason", "message", "cause", "resource", "asked"),
    [
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 4, Available: 1, which is unexpected",
            "capacity", "nvidia.com/gpu", 4_000,
        ),
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected",
            "capacity", "nvidia.com/gpu", None,
        ),
        ("TopologyAffinityError", "Resources cannot be allocated with Topology locality", "placement", None, None),
        ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 500, used: 3900, capacity: 4000", "capacity", "cpu", 500_000),
        ("UnexpectedAdmissionError", "plugin died", "other", None, None),
    ],
)  # fmt: skip
def test_what_a_kubelet_turns_away_is_rejected(
    reason: str, message: str, cause: str, resource: str | None, asked: int | None
) -> None:
    (found,) = told(event(reason, message, component="kubelet", source={"host": "n-3"}))
    assert (found.verdict, found.cause, found.rule, found.node) == ("rejected", cause, reason, "n-3")
    assert (found.resource, found.asked_milli) == (resource, asked)
    rejected = pod(gpus("4"), status={"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"})
    (own,) = read_pod_scheduling(parse_pod(rejected), CTX)
    assert isinstance(own, Decision)
    assert (own.verdict, own.cause, own.resource, own.asked_milli, own.node) == (
        "rejected", cause, resource, asked, "n-1")  # fmt: skip


def test_row_35_a_pod_that_ran_before_its_kubelet_restarted_was_not_rejected() -> None:
    ran = status_of(terminated=("10:01:00", "10:05:00", 0))
    payload = pod(
        gpus("1"), status={"phase": "Failed", "reason": "UnexpectedAdmissionError", "containerStatuses": [ran]}
    )
    assert list(read_pod_scheduling(parse_pod(payload), CTX)) == []


QUOTA = (
    'Error creating: pods "web-6f-abcde" is forbidden: exceeded quota: gpu-quota, requested: cpu=2,requests.nvidia.com/gpu=4, '
    "used: cpu=9,requests.nvidia.com/gpu=6, limited: cpu=10,requests.nvidia.com/gpu=8"
)


def test_a_controller_that_may_not_create_is_one_refusal_of_its_object_however_often_it_asks() -> None:
    (found,) = told(event("FailedCreate", QUOTA, kind="ReplicaSet", component="replicaset-controller"))
    assert isinstance(found, Refusal)
    assert (found.refused_by, found.quota, found.resource) == ("quota", "gpu-quota", "nvidia.com/gpu")
    assert (found.asked_milli, found.used_milli, found.limit_milli) == (4_000, 6_000, 8_000)
    assert (found.owner, found.subject_name, found.count) == ("ReplicaSet p", None, 9)
    assert told(event("FailedCreate", "the network is down", kind="Job")) == []


def unscheduled(reason: str, message: str = "", **spec: Any) -> Any:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp("10:00:00"),
    }
    return parse_pod(pod(gpus("2"), node=None, spec=spec, status={"phase": "Pending", "conditions": [condition]}))


def test_row_32_a_gated_pod_waits_for_whoever_set_the_gate_and_not_for_the_scheduler() -> None:
    gates = [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}]
    (found,) = read_pod_scheduling(unscheduled("SchedulingGated", schedulingGates=gates), CTX)
    assert isinstance(found, Decision)
    assert (found.verdict, found.cause, found.decided_by) == ("not_now", "gate", "kueue")
    assert (found.rule, len(json.loads(found.details)["gates"])) == ("kueue.x-k8s.io/admission", 2)
    (other,) = read_pod_scheduling(unscheduled("SchedulingGated", schedulingGates=[{"name": "mine/x"}]), CTX)
    assert isinstance(other, Decision)
    assert (other.decided_by, other.rule) == (None, "mine/x")


def test_row_34_and_41_an_unschedulable_pod_says_why_itself_when_no_event_is_left() -> None:
    (found,) = read_pod_scheduling(unscheduled("Unschedulable", FULL, schedulerName="mine"), CTX)
    assert isinstance(found, Decision)
    assert (found.verdict, found.cause, found.decided_by, found.evidence) == (
        "not_now",
        "capacity",
        "mine",
        "condition",
    )
    assert (found.occurred_at, found.nodes_count) == (at("10:00:00"), 7)
    (again,) = read_pod_scheduling(unscheduled("Unschedulable", FULL.replace("4 Ins", "5 Ins")), CTX)
    assert found.natural_key != again.natural_key, "the stamp stays while the words change"
    (broken,) = read_pod_scheduling(unscheduled("SchedulerError", "context canceled"), CTX)
    assert isinstance(broken, Decision)
    assert broken.cause == "scheduler"


def test_a_placed_pod_decides_nothing_and_a_victim_tells_its_preemption() -> None:
    assert list(read_pod_scheduling(parse_pod(pod(gpus("1"))), CTX)) == []
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        "lastTransitionTime": stamp("10:20:00"),
    }
    payload = pod(gpus("1"), spec={"priority": -10}, status={"phase": "Failed", "conditions": [condition]})
    (found,) = read_pod_scheduling(parse_pod(payload), CTX)
    assert isinstance(found, Preemption)
    assert (found.decided_by, found.victim_priority, found.node, found.occurred_at) == (
        "kube-scheduler", -10, "n-1", at("10:20:00"))  # fmt: skip
    condition["status"] = "False"
    assert list(read_pod_scheduling(parse_pod(payload), CTX)) == []


def test_an_event_without_a_time_is_refused() -> None:
    payload = event("FailedScheduling", FULL)
    del payload["eventTime"], payload["series"]
    with pytest.raises(SourceMalformed):
        told(payload)


@pytest.mark.parametrize(
    "change",
    [{"message": {"a": 1}}, {"reason": ["x"]}, {"involvedObject": "p"}, {"related": [1]}, {"series": "x"}],
)
def test_a_hostile_event_is_read_as_far_as_it_goes(change: dict[str, Any]) -> None:
    for reason in ("FailedScheduling", "Preempted", "Scheduled", "FailedCreate", "UnexpectedAdmissionError"):
        told(event(reason, "x") | change)
