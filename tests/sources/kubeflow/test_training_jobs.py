"""Training jobs of Kubeflow: their conditions tell their end, and only an MPIJob tells how often it was started anew."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.sources.kubeflow import is_training_job, read_training_job
from tests.sources.shared.job_objects import CTX, at, condition, gang_of, stamp, template, thing


def read(payload: dict[str, Any]) -> list[Fact]:
    assert is_training_job(payload["kind"], payload)
    return list(read_training_job(payload, payload["kind"], CTX))


def pytorch(*conditions: dict[str, Any], spec: Any = None, **status: Any) -> dict[str, Any]:
    replicas = {"Master": {"template": template("1")}, "Worker": {"replicas": 3, "template": template("8")}}
    body = {"pytorchReplicaSpecs": replicas, **(spec or {})}
    return thing("PyTorchJob", "kubeflow.org/v1", body, {"conditions": list(conditions), **status})


@pytest.mark.parametrize(
    ("conditions", "phase", "outcome"),
    [
        ((condition("Created"), condition("Succeeded")), "finished", "succeeded"),
        ((condition("Running", status="False"), condition("Failed", reason="PyTorchJobFailed")), "finished", "failed"),
        ((condition("Created"), condition("Restarting")), "restarting", None),
        ((condition("Created"), condition("Running")), "running", None),
        ((condition("Suspended"), condition("Running", status="False")), "suspended", None),
        ((condition("Created"),), "pending", None),
        ((), "pending", None),
    ],
)
def test_the_outcome_is_a_condition_that_ends_it(conditions: Any, phase: str, outcome: str | None) -> None:
    found = gang_of(read(pytorch(*conditions)))
    assert (found.phase, found.outcome) == (phase, outcome)
    assert found.finished_at == (at("09:00:00") if outcome else None)


def test_replicas_of_all_types_are_asked_for_together_and_their_pods_are_counted() -> None:
    counts = {"Master": {"active": 1}, "Worker": {"active": 2, "failed": 1}}
    policy = {"schedulingPolicy": {"queue": "vq", "minAvailable": 4, "priorityClass": "high"}, "backoffLimit": 5}
    found = gang_of(read(pytorch(condition("Running"), spec={"runPolicy": policy}, replicaStatuses=counts)))
    assert (found.pods_count, found.gpu_milli, found.min_count) == (4, 25_000, 4)
    assert (found.running_count, found.succeeded_count, found.failed_count) == (3, 0, 1)
    assert (found.queue, found.priority_class, found.retry_max) == ("vq", "high", 5)
    assert found.retry_count is None, "restarts of its pods are counted nowhere on the job"


def test_an_mpi_job_is_retried_as_often_as_its_launcher_failed_and_went_on() -> None:
    replicas = {"Launcher": {"template": template("0")}, "Worker": {"replicas": 2, "template": template("4")}}

    def mpi(failed: int, end: str) -> dict[str, Any]:
        status = {"conditions": [condition(end)], "replicaStatuses": {"Launcher": {"failed": failed}}}
        return thing("MPIJob", "kubeflow.org/v2beta1", {"mpiReplicaSpecs": replicas}, status)

    good, bad = gang_of(read(mpi(2, "Succeeded"))), gang_of(read(mpi(3, "Failed")))
    assert (good.outcome, good.retry_count, good.gpu_milli) == ("succeeded", 2, 8_000)
    assert (bad.outcome, bad.retry_count) == ("failed", 2)


def test_the_completion_s_own_stamp_is_the_end_and_a_suspended_job_is_inactive() -> None:
    found = gang_of(read(pytorch(condition("Succeeded"), completionTime=stamp("08:58:00"))))
    assert found.finished_at == at("08:58:00")
    assert not gang_of(read(pytorch(condition("Suspended"), spec={"runPolicy": {"suspend": True}}))).active


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        (None, None),
        ({"pytorchReplicaSpecs": {"Worker": [1], "\ud800": {"replicas": "x", "template": template("many")}}}, {"replicaStatuses": {"a": 1}}),
        ({"pytorchReplicaSpecs": [1]}, {"conditions": [{"type": "Failed", "status": True}], "replicaStatuses": [2]}),
    ],
)  # fmt: skip
def test_a_hostile_job_is_read_as_far_as_it_goes(spec: Any, status: Any) -> None:
    assert gang_of(read(thing("PyTorchJob", "kubeflow.org/v1", spec) | {"status": status})).outcome is None


def test_kinds_of_other_groups_are_not_read_here() -> None:
    assert not is_training_job("PyTorchJob", {"apiVersion": "example.com/v1"})
    assert not is_training_job("TrainJob", {"apiVersion": "kubeflow.org/v1"})
