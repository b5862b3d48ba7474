"""A Volcano job: what it asked for, how it ended by its pods, whether its restarts were failures, and what of its wait can still be told.

The trick to know: its conditions are no history, since a phase that comes again overwrites its earlier stamp; its ``runningDuration`` counts from
the creation, so it contains the wait; its ``retryCount`` rises when an operator resumes it too; and its counters may be missing on a
completed job, while ``taskStatusCount`` is right.

Sceptic's command: ``kubectl get jobs.batch.volcano.sh -A -o yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.gang import Gang
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.object_identity import identity_of, short
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, integer_of, list_of, mapping_of, text_of
from steelyard.sources.shared.resource_amounts import gpu_milli_of, scaled, summed, template_amounts, to_json
from steelyard.sources.volcano.durations import parse_go_duration
from steelyard.sources.volcano.gang_message import SOURCE

JOB_GROUP: Final = "batch.volcano.sh"
QUEUE_DEFAULT: Final = "default"
RETRY_MAX_DEFAULT: Final = 3
TASKS_MAX: Final = 1_024
ENDED: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
_RESTARTS: Final = frozenset({"RestartJob", "RestartTask", "RestartPod", "RestartPartition"})
_FAILURES: Final = frozenset({"PodFailed", "TaskFailed", "*"})


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Pods by phase over all tasks, None where the status does not count them."""

    pending: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None


def read_job(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """One Gang. outcome: ``succeeded``, ``succeeded_with_failed_pods``, ``failed``, ``terminated`` (whether by a failure or by a preemption,
    its pods tell), ``aborted``; None while it lives.

    details: ``standing``, ``failure_retries_at_most``, ``operator_resumes_at_least``, ``queue_wait_us`` or ``queue_wait_unknown_reason``,
    ``last_attempt_wait_us``, ``run_us``, ``running_duration_us`` with ``running_duration_includes_wait``. Finding ``quantity_malformed``.
    """
    problems: list[str] = []
    who = identity_of(payload, "Job", problems)
    spec, status = mapping_of(payload.get("spec")), mapping_of(payload.get("status"))
    state = mapping_of(status.get("state"))
    tasks = list_of(spec.get("tasks"))
    counts = _counts(status)
    phase = short(state.get("phase")) or "Pending"
    stamps = _stamps(status, state, problems)
    demand = _demand(tasks[:TASKS_MAX], problems)
    minimum = integer_of(spec.get("minAvailable")) or integer_of(status.get("minAvailable"))
    retries = integer_of(status.get("retryCount"))
    ended = stamps.get(phase) if phase in ENDED else None
    message = text_of(state.get("message"))
    details = {
        "standing": _standing(phase, counts, minimum),
        "version": integer_of(status.get("version")),
        **_retries(spec, tasks, stamps, retries),
        **_waits(who.created_at, stamps, phase, retries, ended),
    }
    duration = parse_go_duration(status.get("runningDuration"))
    if duration is not None:
        details |= {"running_duration_us": duration, "running_duration_includes_wait": True}
    yield Gang(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=who.uid,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        object_kind="Job",
        object_group=JOB_GROUP,
        object_uid=who.uid,
        namespace=who.namespace or "default",
        object_name=who.name,
        owner_kind=who.owner_kind,
        owner_name=who.owner_name,
        owner_uid=who.owner_uid,
        queue=short(spec.get("queue")) or QUEUE_DEFAULT,
        priority_class=short(spec.get("priorityClassName")),
        created_at=who.created_at,
        deletion_at=who.deletion_at,
        finished_at=ended,
        pods_count=sum(_replicas(task) for task in tasks) if tasks else None,
        min_count=minimum,
        gpu_milli=gpu_milli_of(demand) if tasks and not problems else None,
        demand=to_json(demand),
        phase=phase,
        phase_reason=short(state.get("reason")),
        phase_message=plain(message[:4_096]) if message else None,
        outcome=_outcome(phase, counts),
        retry_count=retries,
        retry_max=integer_of(spec.get("maxRetry")) if "maxRetry" in spec else RETRY_MAX_DEFAULT,
        running_count=counts.running,
        succeeded_count=counts.succeeded,
        failed_count=counts.failed,
        pending_count=counts.pending,
        details=to_json(details),
    )
    if problems or len(tasks) > TASKS_MAX:
        problems += [f"{len(tasks)} tasks; the first {TASKS_MAX} are counted"] if len(tasks) > TASKS_MAX else []
        text = "; ".join(problems[:3])
        subject = f"job {who.namespace}/{who.name}"
        yield ctx.finding(SOURCE, "quantity_malformed", subject, text, evidence={"problems": problems[:20]})


def _replicas(task: Mapping[str, Any]) -> int:
    """How many pods a task has; 1 where it does not say, as Volcano's webhook fills it in."""
    count = integer_of(task.get("replicas"))
    return 1 if count is None else min(max(0, count), 2**31)


def _demand(tasks: Sequence[Mapping[str, Any]], problems: list[str]) -> dict[str, int]:
    parts = []
    for task in tasks:
        spec = mapping_of(mapping_of(task.get("template")).get("spec"))
        where = f"tasks.{str(task.get('name'))[:80]}"
        parts.append(scaled(template_amounts(spec, problems, where), _replicas(task), problems, where))
    return summed(parts, problems, "tasks")


def _counts(status: Mapping[str, Any]) -> TaskCounts:
    """By ``taskStatusCount``; only where it is missing by the job's own counters."""
    tasks = mapping_of(status.get("taskStatusCount"))
    if not tasks:
        named = ("pending", "running", "succeeded", "failed")
        return TaskCounts(*(integer_of(status.get(name)) for name in named))
    total: dict[str, int] = {}
    for task in list(tasks.values())[:TASKS_MAX]:
        for phase, value in list(mapping_of(mapping_of(task).get("phase")).items())[:16]:
            count = integer_of(value)
            if count is not None and 0 <= count < 2**31:
                total[str(phase)] = total.get(str(phase), 0) + count
    return TaskCounts(*(total.get(name, 0) for name in ("Pending", "Running", "Succeeded", "Failed")))


def _stamps(status: Mapping[str, Any], state: Mapping[str, Any], problems: list[str]) -> dict[str, Instant]:
    """The last time of each phase that is still told."""
    stamps: dict[str, Instant] = {}
    rows = [*((row, "status") for row in list_of(status.get("conditions"))[:64]), (state, "phase")]
    for row, key in rows:
        phase = short(row.get(key))
        at = instant_of(row.get("lastTransitionTime"), problems, f"{phase}.lastTransitionTime")
        if phase is not None and at is not None:
            stamps[phase] = max(at, stamps.get(phase, at))
    return stamps


def _standing(phase: str, counts: TaskCounts, minimum: int | None) -> str:
    """Where it stands: a job that says Running while fewer pods run than it needs is ``running_degraded``."""
    if phase != "Running":
        return phase.lower()
    running, done = counts.running, counts.succeeded or 0
    if running is not None and minimum is not None and running + done < minimum:
        return "running_degraded"
    return "running"


def _outcome(phase: str, counts: TaskCounts) -> str | None:
    if phase == "Completed":
        if not counts.failed:
            return "succeeded"
        return "succeeded_with_failed_pods" if counts.succeeded else "failed"
    return {"Failed": "failed", "Terminated": "terminated", "Aborted": "aborted"}.get(phase)


def _retries(
    spec: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], stamps: Mapping[str, Instant], retries: int | None
) -> dict[str, Any]:
    """How many of the restarts can have been failures: all where a policy restarts on one, else none."""
    policies = [*list_of(spec.get("policies"))]
    for task in tasks[:TASKS_MAX]:
        policies += list_of(task.get("policies"))
    on_failure = any(_restarts_on_failure(policy) for policy in policies)
    found: dict[str, Any] = {"failure_retries_at_most": (retries or 0) if on_failure else 0}
    if retries and not on_failure:
        found["failure_retries_why"] = "no policy restarts on a failed pod or task"
    if "Aborted" in stamps or "Aborting" in stamps:
        found["operator_resumes_at_least"] = 1 if retries and max(stamps, key=lambda key: stamps[key]) in _LIVE else 0
    return found


_LIVE: Final = frozenset({"Pending", "Running", "Restarting", "Completing", "Completed"})
"""Phases that a job reaches after an abort only where somebody resumed it."""


def _restarts_on_failure(policy: Mapping[str, Any]) -> bool:
    if policy.get("action") not in _RESTARTS:
        return False
    listed = policy.get("events")
    events = {each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str)}
    events |= {text for text in (text_of(policy.get("event")),) if text}
    return bool(events & _FAILURES) or policy.get("exitCode") is not None


def _waits(
    created: Instant | None, stamps: Mapping[str, Instant], phase: str, retries: int | None, ended: Instant | None
) -> dict[str, Any]:
    """The first wait where nothing has overwritten its stamps, else why it is lost and what the last attempt still tells."""
    running, pending = stamps.get("Running"), stamps.get("Pending")
    if retries:
        found: dict[str, Any] = {
            "queue_wait_unknown_reason": "conditions overwritten by suspend and resume"
            if "Aborted" in stamps or "Aborting" in stamps
            else "earlier Pending and Running overwritten by restarts"
        }
        if running is not None and pending is not None and running >= pending:
            found["last_attempt_wait_us"] = running - pending
        return found
    if running is None or created is None or running < created:
        return {}
    found = {"queue_wait_us": running - created}
    if ended is not None and phase in ("Completed", "Failed") and ended >= running:
        found["run_us"] = ended - running
    return found
