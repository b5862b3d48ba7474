"""How a pod ended, by the order of its witnesses."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.request import Request
from steelyard.primitives.instant import parse_instant
from tests.sources.kube_api.kube_objects import gpus, only, pod, read, stamp, status_of

KILLED = status_of(terminated=("10:01:00", "10:05:00", 137))
OOM = status_of(terminated=("10:01:00", "10:05:00", 137))
OOM["state"]["terminated"]["reason"] = "OOMKilled"


def condition(kind: str, reason: str, message: str = "", status: str = "True") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp("10:04:00"),
    }


KUEUE = condition("TerminationTarget", "WorkloadEvictedDueToPreempted")
SCHEDULER = condition("DisruptionTarget", "PreemptionByScheduler", "default-scheduler: preempting")
VOLCANO = condition("DisruptionTarget", "PreemptionByScheduler", "volcano: preempting")
KUBELET = condition("DisruptionTarget", "TerminationByKubelet")


def ended(*conditions: dict[str, Any], phase: str = "Failed", container: Any = KILLED, **status: Any) -> Request:
    statuses = [] if container is None else [container]
    payload = pod(
        gpus("1"), status={"phase": phase, "conditions": list(conditions), "containerStatuses": statuses, **status}
    )
    return only(read(payload), Request)


@pytest.mark.parametrize(
    ("conditions", "outcome", "by", "cause"),
    [
        ([KUEUE], "preempted", "kueue", "Preempted"),
        ([KUEUE, SCHEDULER], "preempted", "kueue", "Preempted"),
        ([condition("TerminationTarget", "WorkloadEvictedDueToPodsReadyTimeout")], "evicted", "kueue", "PodsReadyTimeout"),
        ([SCHEDULER], "preempted", "kube-scheduler", "priority"),
        ([VOLCANO], "preempted", "volcano", "unknown"),
        ([VOLCANO, condition("Ready", "Evict", "Pod is evicted, because of reclaim", "False")], "preempted", "volcano", "reclaim"),
        ([VOLCANO, condition("Ready", "Evict", "Pod is evicted, because of preempt", "False")], "preempted", "volcano", "priority"),
        ([condition("DisruptionTarget", "EvictionByEvictionAPI")], "evicted", "eviction_api", "EvictionByEvictionAPI"),
        ([condition("DisruptionTarget", "DeletionByTaintManager")], "failed", "node_controller", "DeletionByTaintManager"),
        ([KUBELET], "failed", "kubelet", "TerminationByKubelet"),
        ([condition("DisruptionTarget", "PreemptionByScheduler", status="False")], "failed", None, None),
    ],
)  # fmt: skip
def test_row_43_and_26_exit_137_belongs_to_whoever_said_so_first(
    conditions: list[dict[str, Any]], outcome: str, by: str | None, cause: str | None
) -> None:
    found = ended(*conditions)
    assert (found.outcome, found.outcome_by, found.outcome_cause, found.exit_code) == (outcome, by, cause, 137)


def test_a_preemption_is_no_failure_and_has_no_failures_owner() -> None:
    found = ended(KUEUE, container=OOM)
    assert (found.outcome, found.failure_class, found.failure_owner) == ("preempted", None, None)
    assert found.outcome_evidence == "TerminationTarget/WorkloadEvictedDueToPreempted"


@pytest.mark.parametrize(
    ("found", "failure_class", "owner"),
    [
        (ended(container=OOM), "host_oom", "application"),
        (ended(KUBELET, reason="Evicted"), "node", "infrastructure"),
        (ended(container=status_of(terminated=("10:01:00", "10:05:00", 1))), "application", "application"),
        (ended(container=None, reason="UnexpectedAdmissionError"), "admission", "infrastructure"),
        (ended(reason="DeadlineExceeded"), "platform_action", "application"),
        (ended(), "unknown", None),
        (ended(container=status_of(terminated=("10:01:00", "10:05:00", 143))), "unknown", None),
        (ended(container=None), "unknown", None),
    ],
)
def test_whose_failure_it_was(found: Request, failure_class: str, owner: str | None) -> None:
    assert (found.outcome, found.failure_class, found.failure_owner) == ("failed", failure_class, owner)


def test_row_37_an_evicted_pod_without_any_event_says_so_itself() -> None:
    found = ended(reason="Evicted", message="The node was low on resource: memory.")
    assert (found.outcome_by, found.failure_class, found.outcome_evidence) == (
        "kubelet", "node", "status.reason Evicted")  # fmt: skip


def test_row_35_exit_0_stays_a_success_when_a_kubelets_restart_overwrites_the_phase() -> None:
    done = status_of(terminated=("10:01:00", "10:05:00", 0))
    found = ended(container=done, reason="UnexpectedAdmissionError")
    assert (found.outcome, found.exit_code, found.failure_class) == ("succeeded", 0, None)
    assert found.outcome_evidence == "exit 0 before the phase was overwritten by UnexpectedAdmissionError"
    evicted = ended(KUBELET, container=done, reason="Evicted")
    assert evicted.outcome == "failed", "a graceful exit during an eviction is no success"


@pytest.mark.parametrize(
    ("phase", "metadata", "outcome"),
    [
        ("Pending", {}, "pending"),
        ("Running", {}, "running"),
        ("Unknown", {}, "unknown"),
        ("Running", {"deletionTimestamp": "2027-03-05T10:30:00Z"}, "terminating"),
        ("Succeeded", {}, "succeeded"),
    ],
)
def test_a_pod_that_has_not_failed(phase: str, metadata: dict[str, Any], outcome: str) -> None:
    payload = pod(gpus("1"), metadata=metadata, status={"phase": phase})
    assert only(read(payload), Request).outcome == outcome


def test_a_pod_that_is_told_to_go_says_by_whom_while_it_still_runs() -> None:
    payload = pod(gpus("1"), metadata={"deletionTimestamp": stamp("10:30:00")}, status={"conditions": [SCHEDULER]})
    found = only(read(payload), Request)
    assert (found.outcome, found.outcome_by) == ("terminating", "kube-scheduler")
    assert found.deletion_at == parse_instant(stamp("10:30:00"))
