"""A pod that Kueue preempted says so itself, after its workload is gone."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.preemption import Preemption
from steelyard.sources.kueue import read_kueue_pod
from steelyard.sources.shared.pods import parse_pod
from tests.sources.kube_api.kube_objects import CTX, at, pod, stamp

TEXT = (
    "Preempted to accommodate a workload (UID: u-9, JobUID: UNKNOWN) due to prioritization in the ClusterQueue; "
    "preemptor path: /research/team-b; preemptee path: /research/team-a"
)


def stopped(reason: str = "WorkloadEvictedDueToPreempted", message: Any = TEXT, **more: Any) -> list[Any]:
    condition = {
        "type": "TerminationTarget", "status": "True", "reason": reason, "message": message, "lastTransitionTime": stamp("10:30:00"), **more,
    }  # fmt: skip
    payload = pod(spec={"priority": 5}, status={"phase": "Failed", "conditions": [condition]})
    return list(read_kueue_pod(parse_pod(payload), CTX))


def test_a_pod_that_was_stopped_for_another_workload_is_a_victim_at_the_latest_then() -> None:
    (found,) = stopped()
    assert isinstance(found, Preemption)
    assert (found.decided_by, found.cause, found.victim_kind, found.victim_priority) == ("kueue", "priority", "Pod", 5)
    assert (found.occurred_at, found.time_basis, found.evidence) == (at("10:30:00"), "before", "condition")
    assert (found.preemptor_uid, found.preemptor_name, found.preemptor_queue) == ("u-9", None, "team-b")


@pytest.mark.parametrize("message", [None, "Preempted", {"a": 1}, TEXT.replace("u-9", "UNKNOWN")])
def test_a_preemptor_that_is_not_named_is_unknown(message: Any) -> None:
    (found,) = stopped(message=message)
    assert (found.preemptor_kind, found.preemptor_uid) == (None, None)


@pytest.mark.parametrize(
    "more",
    [
        {"reason": "WorkloadEvictedDueToPodsReadyTimeout"},
        {"status": "False"},
        {"type": "DisruptionTarget"},
        {"reason": ["x"]},
    ],
)
def test_another_end_is_no_preemption(more: dict[str, Any]) -> None:
    assert stopped(**more) == []
