"""A batch Job, a JobSet and a LeaderWorkerSet as a Gang: what each runs at once, how it ended, and how often it was started anew.

The trick to know: the controller counts failed pods of a job that succeeds in the end, so ``status.failed`` is no outcome; the condition
``Complete`` or ``Failed`` is. A LeaderWorkerSet never ends by itself, so it has no outcome.

Sceptic's command: ``kubectl get job JOB -o jsonpath='{.status}'``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.sources.kube_api.transitions import group_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.job_gang import (
    PARTS_MAX,
    JobCondition,
    JobWords,
    PodPart,
    count_of,
    ended_by,
    holding_conditions,
    pod_spec,
    read_job_gang,
    retries_of,
)
from steelyard.sources.shared.pods import instant_of, integer_of, list_of, mapping_of

SOURCE: Final = "kube_api"
BACKOFF_LIMIT_DEFAULT: Final = 6
"""Of a batch Job that does not say, and whose indexes have no limit of their own."""


def is_job(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether the object is a job of Kubernetes' own or of its job sets."""
    return (group_of(payload), kind) in _READERS


def read_job(payload: Mapping[str, Any], kind: str, ctx: ReadContext) -> Iterator[Fact]:
    """One Gang. phase: ``suspended``, ``pending``, ``running``, ``finished``. outcome: ``succeeded``, ``failed``, None while it lives
    (and always of a LeaderWorkerSet). retry_count: of a Job its failed pods less the one that ended it, of a JobSet
    its restarts. pods_count: those at once.

    Finding ``job_malformed``. Raises SourceMalformed for an object without a name.
    """
    problems: list[str] = []
    words = _READERS[group_of(payload), kind](
        mapping_of(payload.get("spec")), mapping_of(payload.get("status")), problems
    )
    yield from read_job_gang(payload, words, problems, SOURCE, ctx)


def _batch_job(spec: Mapping[str, Any], status: Mapping[str, Any], problems: list[str]) -> JobWords:
    conditions = holding_conditions(status, problems)
    outcome, condition = ended_by(conditions, "Complete", "Failed", problems)
    failed = integer_of(status.get("failed"))
    completed_at = instant_of(status.get("completionTime"), problems, "status.completionTime")
    if failed is None and status:
        failed = 0  # the API leaves a zero out
    suspended = spec.get("suspend") is True
    pods = spec.get("template")
    return JobWords(
        phase=_phase(condition is not None, suspended, bool(integer_of(status.get("active")))),
        parts=[PodPart("template", _at_once(spec), pod_spec(pods))] if isinstance(pods, dict) else (),
        condition=condition or conditions.get("Suspended"),
        outcome=outcome,
        finished_at=_end(condition, completed_at if outcome == "succeeded" else None),
        active=not suspended,
        retry_count=retries_of(failed, outcome),
        retry_max=_backoff_limit(spec),
        running_count=integer_of(status.get("active")),
        succeeded_count=integer_of(status.get("succeeded")),
        failed_count=failed,
        details={
            "parallelism": integer_of(spec.get("parallelism")),
            "completions": integer_of(spec.get("completions")),
            "suspended": True if suspended else None,
        },
    )


def _at_once(spec: Mapping[str, Any]) -> int:
    """How many pods a batch Job runs at once: its parallelism, and no more than it has completions to make."""
    parallel = count_of(spec.get("parallelism"), 1)
    completions = integer_of(spec.get("completions"))
    return parallel if completions is None else min(parallel, max(0, completions))


def _backoff_limit(spec: Mapping[str, Any]) -> int | None:
    limit = integer_of(spec.get("backoffLimit"))
    return limit if limit is not None or "backoffLimitPerIndex" in spec else BACKOFF_LIMIT_DEFAULT


def _job_set(spec: Mapping[str, Any], status: Mapping[str, Any], problems: list[str]) -> JobWords:
    conditions = holding_conditions(status, problems)
    outcome, condition = ended_by(conditions, "Completed", "Failed", problems)
    parts = []
    for row in list_of(spec.get("replicatedJobs")):
        job = pod_spec(row.get("template"))
        count = count_of(row.get("replicas"), 1) * _at_once(job)
        parts.append(PodPart(str(row.get("name"))[:80], count, pod_spec(job.get("template"))))
    rows = list_of(status.get("replicatedJobsStatus"))[:PARTS_MAX]
    suspended = spec.get("suspend") is True
    policy = mapping_of(spec.get("failurePolicy"))
    return JobWords(
        phase=_phase(condition is not None, suspended, any(integer_of(row.get("active")) for row in rows)),
        parts=parts,
        condition=condition or conditions.get("Suspended"),
        outcome=outcome,
        finished_at=_end(condition, None),
        active=not suspended,
        retry_count=(integer_of(status.get("restarts")) or 0) if status else None,
        retry_max=count_of(policy.get("maxRestarts"), 0) if spec else None,
        details={"jobs": _job_counts(rows[:64]) or None, "suspended": True if suspended else None},
    )


def _job_counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Of each kind of job in a set how many stand where."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        counts = {key: integer_of(row.get(key)) for key in ("ready", "active", "succeeded", "failed", "suspended")}
        found[str(row.get("name"))[:80]] = {key: count for key, count in counts.items() if count is not None}
    return found


def _leader_worker_set(spec: Mapping[str, Any], status: Mapping[str, Any], problems: list[str]) -> JobWords:
    """Groups of one leader and ``size - 1`` workers."""
    template = mapping_of(spec.get("leaderWorkerTemplate"))
    groups, size = count_of(spec.get("replicas"), 1), count_of(template.get("size"), 1)
    worker = template.get("workerTemplate")
    parts = []
    if isinstance(worker, dict):
        leader = template.get("leaderTemplate")
        parts = [
            PodPart("leader", groups * min(1, size), pod_spec(leader if isinstance(leader, dict) else worker)),
            PodPart("worker", groups * max(0, size - 1), pod_spec(worker)),
        ]
    ready = integer_of(status.get("readyReplicas"))
    conditions = holding_conditions(status, problems)
    return JobWords(
        phase="running" if ready or "Available" in conditions else "pending",
        parts=parts,
        condition=conditions.get("Available") or conditions.get("Progressing"),
        min_count=size,
        details={"groups": groups, "group_size": size, "groups_ready": ready},
    )


def _phase(ended: bool, suspended: bool, running: bool) -> str:
    if ended:
        return "finished"
    if suspended:
        return "suspended"
    return "running" if running else "pending"


def _end(condition: JobCondition | None, stated: Any) -> Any:
    if condition is None:
        return None
    return stated if stated is not None else condition.at


_READERS: Final[Mapping[tuple[str, str], Callable[[Mapping[str, Any], Mapping[str, Any], list[str]], JobWords]]] = {
    ("batch", "Job"): _batch_job,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
}
