"""Batch Jobs, JobSets and LeaderWorkerSets as gangs: their end by their condition, their retries by their counters."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kube_api.jobs import is_job, read_job
from tests.sources.shared.job_objects import CTX, at, codes, condition, details, gang_of, stamp, template, thing


def read(payload: dict[str, Any]) -> list[Fact]:
    assert is_job(payload["kind"], payload)
    return list(read_job(payload, payload["kind"], CTX))


def job(*conditions: dict[str, Any], spec: Any = None, **status: Any) -> dict[str, Any]:
    body = {"template": template(), **(spec or {})}
    return thing("Job", "batch/v1", body, {"conditions": list(conditions), **status})


def job_set(*conditions: dict[str, Any], spec: Any = None, **status: Any) -> dict[str, Any]:
    rows = [
        {"name": "driver", "template": {"spec": {"template": template("0")}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 3, "completions": 3, "template": template("4")}}},
    ]  # fmt: skip
    body = {"replicatedJobs": rows, **(spec or {})}
    return thing("JobSet", "jobset.x-k8s.io/v1alpha2", body, {"conditions": list(conditions), **status})


def test_row_42_a_job_that_failed_once_and_then_succeeded_is_a_success_with_one_retry() -> None:
    found = gang_of(read(job(condition("Complete"), succeeded=1, failed=1, completionTime=stamp("08:59:00"))))
    assert (found.outcome, found.retry_count, found.finished_at) == ("succeeded", 1, at("08:59:00"))
    assert (found.succeeded_count, found.failed_count, found.phase) == (1, 1, "finished")
    given_up = gang_of(read(job(condition("Failed", reason="BackoffLimitExceeded"), succeeded=1, failed=7)))
    assert (given_up.outcome, given_up.phase_reason, given_up.retry_count) == ("failed", "BackoffLimitExceeded", 6)
    assert given_up.finished_at == at("09:00:00")


@pytest.mark.parametrize(
    ("conditions", "status", "spec", "phase", "outcome", "active"),
    [
        ((), {"active": 2, "failed": 3}, {}, "running", None, True),
        ((), {}, {}, "pending", None, True),
        ((condition("Suspended"),), {}, {"suspend": True}, "suspended", None, False),
        ((condition("Complete", status="False"),), {"succeeded": 1}, {}, "pending", None, True),
        ((condition("FailureTarget"),), {"active": 1}, {}, "running", None, True),
        ((condition("SuccessCriteriaMet"), condition("Complete")), {"succeeded": 1}, {}, "finished", "succeeded", True),
    ],
)
def test_a_job_has_an_outcome_only_by_a_condition_that_holds_and_ends_it(
    conditions: Any, status: Any, spec: Any, phase: str, outcome: str | None, active: bool
) -> None:
    found = gang_of(read(job(*conditions, spec=spec, **status)))
    assert (found.phase, found.outcome, found.active) == (phase, outcome, active)
    assert (found.finished_at is None) == (outcome is None)


def test_a_job_that_says_both_ends_has_no_outcome_and_that_is_said() -> None:
    facts = read(job(condition("Complete"), condition("Failed")))
    assert (gang_of(facts).outcome, codes(facts)) == (None, ["job_malformed"])


@pytest.mark.parametrize(
    ("spec", "pods", "retry_max"),
    [
        ({}, 1, 6),
        ({"parallelism": 4}, 4, 6),
        ({"parallelism": 4, "completions": 2, "backoffLimit": 0}, 2, 0),
        ({"parallelism": 4, "completions": 9, "backoffLimitPerIndex": 1}, 4, None),
        ({"parallelism": 0}, 0, 6),
    ],
)
def test_a_job_asks_for_the_pods_that_it_runs_at_once(spec: Any, pods: int, retry_max: int | None) -> None:
    found = gang_of(read(job(spec=spec)))
    assert (found.pods_count, found.gpu_milli, found.retry_max) == (pods, pods * 1_000, retry_max)


def test_a_job_names_its_queue_by_kueue_s_label_or_volcano_s_annotation() -> None:
    owner = [{"kind": "JobSet", "name": "s", "uid": "u-0", "controller": True}]
    payload = thing("Job", "batch/v1", {}, labels={"kueue.x-k8s.io/queue-name": "lq"}, ownerReferences=owner)
    found = gang_of(read(payload))
    assert (found.queue, found.owner_kind, found.owner_uid) == ("lq", "JobSet", "u-0")
    assert (found.gpu_milli, found.pods_count) == (None, None), "no template, no demand"
    payload = thing("Job", "batch/v1", {}, annotations={"scheduling.volcano.sh/queue-name": "vq"})
    assert gang_of(read(payload)).queue == "vq"


def test_a_job_set_is_the_sum_of_its_jobs_and_counts_its_own_restarts() -> None:
    rows = [{"name": "workers", "succeeded": 1, "failed": 1, "ready": 0}]
    found = gang_of(
        read(job_set(condition("Completed"), restarts=2, replicatedJobsStatus=rows, spec={"failurePolicy": {"maxRestarts": 3}}))
    )  # fmt: skip
    assert (found.outcome, found.retry_count, found.retry_max) == ("succeeded", 2, 3)
    assert (found.pods_count, found.gpu_milli) == (7, 24_000)
    assert details(found)["jobs"] == {"workers": {"ready": 0, "succeeded": 1, "failed": 1}}
    failed = gang_of(read(job_set(condition("Failed", reason="FailedJobs"))))
    assert (failed.outcome, failed.phase_reason, failed.retry_count, failed.retry_max) == ("failed", "FailedJobs", 0, 0)
    running = gang_of(read(job_set(replicatedJobsStatus=[{"name": "workers", "active": 2}])))
    assert (running.phase, running.outcome) == ("running", None)
    assert gang_of(read(job_set(spec={"suspend": True}))).phase == "suspended"


def test_groups_of_a_leader_and_workers_have_no_end_of_their_own() -> None:
    spec = {
        "replicas": 2,
        "leaderWorkerTemplate": {"size": 3, "leaderTemplate": template("0"), "workerTemplate": template("8")},
    }
    payload = thing("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", spec, {"conditions": [condition("Available")]})
    found = gang_of(read(payload))
    assert (found.phase, found.outcome, found.pods_count, found.gpu_milli) == ("running", None, 6, 32_000)
    assert (found.min_count, details(found)["groups"]) == (3, 2)
    del spec["leaderWorkerTemplate"]["leaderTemplate"]  # type: ignore[attr-defined]
    alike = thing("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", spec)
    assert (gang_of(read(alike)).gpu_milli, gang_of(read(alike)).phase) == (48_000, "pending")


def test_a_job_of_another_group_is_not_read_here() -> None:
    assert not is_job("Job", {"apiVersion": "batch.volcano.sh/v1alpha1"})
    assert not is_job("Pod", {"apiVersion": "v1"})
    assert is_job("JobSet", {"apiVersion": "jobset.x-k8s.io/v1alpha2"})


@pytest.mark.parametrize(
    "change",
    [
        {"spec": None, "status": []}, {"spec": {"template": 3, "parallelism": "x"}, "status": {"conditions": {"a": 1}}},
        {"spec": {"template": template(2**70)}, "status": {"failed": 2**80, "conditions": [None, {"type": 3, "status": "True"}]}},
        {"spec": {"template": template("1"), "parallelism": 2**62}, "status": {"completionTime": "soon", "failed": -4}},
        {"apiVersion": "batch/\ud800"[:8], "status": {"conditions": [condition("Complete", reason="\ud800\x00")]}},
        {"kind": "Job", "metadata": {"name": "\ud800j", "labels": {"kueue.x-k8s.io/queue-name": 4}}},
    ],
)  # fmt: skip
def test_a_hostile_job_is_read_as_far_as_it_goes(change: Any) -> None:
    found = gang_of(read(thing("Job", "batch/v1", {"template": template()}) | change))
    assert found.pods_count is None or 0 <= found.pods_count <= 2**31
    assert found.retry_count is None or found.retry_count >= 0


def test_a_job_without_a_name_is_refused() -> None:
    with pytest.raises(SourceMalformed):
        read({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}})
