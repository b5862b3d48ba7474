"""A RayJob and a RayCluster of KubeRay as a Gang: what their pods ask for, how the job ended, and how often it was tried again.

The trick to know: ``jobDeploymentStatus`` says that the job's Kubernetes side is over, ``jobStatus`` how Ray's side ended; older operators write
``Complete`` over a job that failed, so Ray's word decides.

Sceptic's command: ``kubectl get rayjob RAYJOB -o jsonpath='{.status.jobStatus} {.status.jobDeploymentStatus}'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.job_gang import (
    JobCondition,
    JobWords,
    PodPart,
    count_of,
    pod_spec,
    read_job_gang,
    retries_of,
)
from steelyard.sources.shared.object_identity import short
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, integer_of, list_of, mapping_of, text_of

SOURCE: Final = "ray"
GROUP: Final = "ray.io"
_OVER: Final = frozenset({"Complete", "Failed"})
_OUTCOMES: Final[Mapping[str, str]] = {"SUCCEEDED": "succeeded", "FAILED": "failed", "STOPPED": "aborted"}


def is_ray(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether the object is a RayJob or a RayCluster."""
    version = text_of(payload.get("apiVersion")) or ""
    return kind in ("RayJob", "RayCluster") and version.rpartition("/")[0] == GROUP


def read_ray(payload: Mapping[str, Any], kind: str, ctx: ReadContext) -> Iterator[Fact]:
    """One Gang. phase: as written (``jobDeploymentStatus``, a cluster's ``state``), ``pending`` before that. outcome: ``succeeded``, ``failed``,
    ``aborted`` (somebody stopped it), None while it lives and of a cluster. retry_count: failed attempts less the one that ended it.

    pods_count: the head, and the workers that are asked for now (autoscaling moves them). Finding ``job_malformed``. Raises SourceMalformed for an
    object without a name.
    """
    problems: list[str] = []
    spec, status = mapping_of(payload.get("spec")), mapping_of(payload.get("status"))
    words = _job(spec, status, problems) if kind == "RayJob" else _cluster(spec, status)
    yield from read_job_gang(payload, words, problems, SOURCE, ctx)


def _job(spec: Mapping[str, Any], status: Mapping[str, Any], problems: list[str]) -> JobWords:
    deployment, job = short(status.get("jobDeploymentStatus")), short(status.get("jobStatus"))
    outcome: str | None = None
    if deployment in _OVER or deployment is None:
        outcome = _OUTCOMES.get(job or "")
    if outcome is None and deployment == "Failed":
        outcome = "failed"
    if outcome == "succeeded" and deployment == "Failed":
        outcome = "failed"  # Ray's side was done, and the job as a whole was given up
    ended_at = instant_of(status.get("endTime"), problems, "status.endTime")
    failed = integer_of(status.get("failed"))
    retry_max = integer_of(spec.get("backoffLimit"))
    suspended = spec.get("suspend") is True
    message = text_of(status.get("message"))
    return JobWords(
        phase=deployment or job or ("suspended" if suspended else "pending"),
        parts=_parts(mapping_of(spec.get("rayClusterSpec"))),
        condition=JobCondition(
            ended_at, short(status.get("reason")) or job, plain(message[:4_096]) if message else None
        ),
        outcome=outcome,
        finished_at=ended_at if outcome is not None else None,
        active=not suspended,
        retry_count=retries_of(failed, outcome),
        retry_max=(0 if retry_max is None else retry_max) if spec else None,
        succeeded_count=integer_of(status.get("succeeded")),
        failed_count=failed,
        details={
            "job_status": job,
            "job_id": short(status.get("jobId")),
            "ray_cluster": short(status.get("rayClusterName")),
            "suspended": True if suspended else None,
        },
    )


def _cluster(spec: Mapping[str, Any], status: Mapping[str, Any]) -> JobWords:
    suspended = spec.get("suspend") is True
    return JobWords(
        phase=short(status.get("state")) or ("suspended" if suspended else "pending"),
        parts=_parts(spec),
        condition=JobCondition(None, short(status.get("reason")), None),
        active=not suspended,
        details={
            "workers_ready": integer_of(status.get("readyWorkerReplicas")),
            "workers_desired": integer_of(status.get("desiredWorkerReplicas")),
            "suspended": True if suspended else None,
        },
    )


def _parts(cluster: Mapping[str, Any]) -> list[PodPart]:
    """The head, and each group's workers; a group that is suspended has none."""
    head = cluster.get("headGroupSpec")
    if not isinstance(head, dict):
        return []
    parts = [PodPart("head", 1, pod_spec(head.get("template")))]
    for group in list_of(cluster.get("workerGroupSpecs")):
        least, most = count_of(group.get("minReplicas"), 0), count_of(group.get("maxReplicas"), 2**31)
        wanted = min(max(count_of(group.get("replicas"), least), least), most)
        if group.get("suspend") is True:
            wanted = 0
        count = wanted * count_of(group.get("numOfHosts"), 1)
        parts.append(PodPart(str(group.get("groupName"))[:80], count, pod_spec(group.get("template"))))
    return parts
