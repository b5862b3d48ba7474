"""Jobs and clusters of Ray: Ray's own word decides how a job ended, the groups of its cluster what it asks for."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.sources.ray import is_ray, read_ray
from tests.sources.shared.job_objects import CTX, at, codes, details, gang_of, stamp, template, thing

CLUSTER = {
    "headGroupSpec": {"template": template("0")},
    "workerGroupSpecs": [
        {"groupName": "a", "replicas": 2, "numOfHosts": 2, "template": template("4")},
        {"groupName": "b", "minReplicas": 1, "maxReplicas": 5, "template": template("1")},
        {"groupName": "c", "replicas": 9, "suspend": True, "template": template("8")},
    ],
}


def read(payload: dict[str, Any]) -> list[Fact]:
    assert is_ray(payload["kind"], payload)
    return list(read_ray(payload, payload["kind"], CTX))


def job(spec: Any = None, **status: Any) -> dict[str, Any]:
    return thing("RayJob", "ray.io/v1", {"rayClusterSpec": CLUSTER, **(spec or {})}, status)


@pytest.mark.parametrize(
    ("deployment", "ray", "outcome"),
    [
        ("Complete", "SUCCEEDED", "succeeded"),
        ("Complete", "FAILED", "failed"),
        ("Failed", "FAILED", "failed"),
        ("Failed", "RUNNING", "failed"),
        ("Failed", None, "failed"),
        ("Failed", "SUCCEEDED", "failed"),
        ("Complete", "STOPPED", "aborted"),
        ("Running", "RUNNING", None),
        ("Running", "SUCCEEDED", None),
        ("Retrying", "FAILED", None),
        ("Suspended", "STOPPED", None),
        (None, "SUCCEEDED", "succeeded"),
        (None, "PENDING", None),
    ],
)
def test_the_outcome_is_ray_s_word_once_the_deployment_is_over(
    deployment: str | None, ray: str | None, outcome: str | None
) -> None:
    found = gang_of(read(job(jobDeploymentStatus=deployment, jobStatus=ray, endTime=stamp("09:00:00"))))
    assert (found.outcome, found.phase) == (outcome, deployment or ray)
    assert found.finished_at == (None if outcome is None else at("09:00:00"))


def test_failed_attempts_are_retries_but_for_the_one_that_ended_it() -> None:
    good = gang_of(
        read(job({"backoffLimit": 3}, jobDeploymentStatus="Complete", jobStatus="SUCCEEDED", succeeded=1, failed=2))
    )
    assert (good.retry_count, good.retry_max, good.succeeded_count) == (2, 3, 1)
    bad = gang_of(
        read(job(jobDeploymentStatus="Failed", jobStatus="FAILED", failed=1, reason="AppFailed", message="exit 1"))
    )
    assert (bad.retry_count, bad.retry_max, bad.phase_reason, bad.phase_message) == (0, 0, "AppFailed", "exit 1")
    assert gang_of(read(job(jobDeploymentStatus="Running"))).retry_count is None


def test_a_job_asks_for_the_head_and_the_workers_of_its_groups() -> None:
    found = gang_of(read(job(jobDeploymentStatus="Running", rayClusterName="j-x1", jobId="j-1")))
    assert (found.pods_count, found.gpu_milli) == (1 + 4 + 1, 17_000)
    assert (details(found)["ray_cluster"], details(found)["job_id"]) == ("j-x1", "j-1")
    selected = thing("RayJob", "ray.io/v1", {"clusterSelector": {"ray.io/cluster": "shared"}})
    assert (gang_of(read(selected)).gpu_milli, gang_of(read(selected)).phase) == (None, "pending")


def test_a_cluster_has_no_outcome_and_its_state_as_written() -> None:
    payload = thing("RayCluster", "ray.io/v1", CLUSTER, {"state": "ready", "readyWorkerReplicas": 3})
    found = gang_of(read(payload))
    assert (found.phase, found.outcome, found.gpu_milli, details(found)["workers_ready"]) == ("ready", None, 17_000, 3)
    suspended = thing(
        "RayCluster", "ray.io/v1", {**CLUSTER, "suspend": True}, labels={"kueue.x-k8s.io/queue-name": "lq"}
    )
    assert (gang_of(read(suspended)).phase, gang_of(read(suspended)).active) == ("suspended", False)
    assert gang_of(read(suspended)).queue == "lq"


def test_autoscaled_groups_stay_between_their_bounds() -> None:
    groups = [{"groupName": "a", "replicas": 9, "minReplicas": 1, "maxReplicas": 4, "template": template("1")}]
    payload = thing("RayCluster", "ray.io/v1", {"headGroupSpec": {}, "workerGroupSpecs": groups})
    assert gang_of(read(payload)).pods_count == 5


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        (None, []), ({"rayClusterSpec": [1]}, {"jobStatus": 3, "failed": "x", "endTime": []}),
        ({"rayClusterSpec": {"headGroupSpec": {"template": 1}, "workerGroupSpecs": [None, {"replicas": 2**70, "numOfHosts": 2**31}]}}, {}),
        ({"rayClusterSpec": CLUSTER}, {"message": "\ud800", "reason": {"a": 1}, "jobDeploymentStatus": "\x00" * 900}),
    ],
)  # fmt: skip
def test_a_hostile_job_is_read_as_far_as_it_goes(spec: Any, status: Any) -> None:
    found = gang_of(read(thing("RayJob", "ray.io/v1", spec) | {"status": status}))
    assert found.object_name == "j" and len(found.phase) <= 316


def test_a_stamp_that_cannot_be_read_is_said() -> None:
    assert codes(read(job(endTime="yesterday"))) == ["job_malformed"]
    assert not is_ray("RayJob", {"apiVersion": "example.com/v1"})
