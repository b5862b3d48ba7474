"""What changed of an object and when: its conditions, its phase, the states of its admission checks, its requeues.

``app`` calls ``read_transitions`` for every object of a kind in ``TRANSITION_KINDS``, from files and from a watch alike. The trick to know:
each version of an object tells only the last change of each condition, so the history is the union over all versions that were seen; a
change is named by what it says and its own stamp, so that the union has each change once. A phase without a stamp is named by the newest
stamp that its object had: it may be told again under a newer one, and equal phases in a row are one.

Sceptic's command: ``kubectl get workload WORKLOAD -o jsonpath='{.status.conditions}'``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant, format_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.object_changes import (
    INFERRED,
    OBSERVED,
    STATED,
    Change,
    ChangedObject,
    check_changes,
    condition_changes,
    plain_name,
    safe,
    transition_of,
)
from steelyard.sources.shared.pods import instant_of, integer_of, list_of, mapping_of, text_of

SOURCE: Final = "kube_api"
CHANGES_MAX: Final = 256
"""More conditions than that no controller writes; what is beyond is counted in a finding."""

TRANSITION_KINDS: Final[Mapping[str, frozenset[str]]] = {
    "Pod": frozenset({""}),
    "Node": frozenset({""}),
    "Job": frozenset({"batch", "batch.volcano.sh"}),
    "JobSet": frozenset({"jobset.x-k8s.io"}),
    "Workload": frozenset({"kueue.x-k8s.io"}),
    "ClusterQueue": frozenset({"kueue.x-k8s.io"}),
    "LocalQueue": frozenset({"kueue.x-k8s.io"}),
    "AdmissionCheck": frozenset({"kueue.x-k8s.io"}),
    "PodGroup": frozenset({"scheduling.volcano.sh"}),
    "Queue": frozenset({"scheduling.volcano.sh"}),
    "RayJob": frozenset({"ray.io"}),
    "RayCluster": frozenset({"ray.io"}),
    "RayService": frozenset({"ray.io"}),
    "PyTorchJob": frozenset({"kubeflow.org"}),
    "MPIJob": frozenset({"kubeflow.org"}),
}
"""Kinds whose changes are facts, with the groups that a kind of that name counts in."""

_RUNNING: Final = "Running"
_TERMINAL: Final = ("Succeeded", "Failed")


def group_of(payload: Mapping[str, Any]) -> str:
    """The group in an object's apiVersion; the core group, and an object that does not say, is empty."""
    version = payload.get("apiVersion")
    return version.rpartition("/")[0] if isinstance(version, str) else ""


def has_transitions(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether changes of this object are facts."""
    return group_of(payload) in TRANSITION_KINDS.get(kind, ())


def read_transitions(payload: Mapping[str, Any], kind: str, ctx: ReadContext) -> Iterator[Fact]:
    """One Transition per change that the object tells of.

    Unknown: an unreadable stamp leaves the change with time_basis ``observed`` and a finding ``stamp_malformed``. Raises SourceMalformed for
    an object without uid and name.
    """
    metadata, status = mapping_of(payload.get("metadata")), mapping_of(payload.get("status"))
    name, namespace, uid = (plain_name(metadata.get(key)) for key in ("name", "namespace", "uid"))
    uid = uid or (f"name:{namespace or 'default'}/{name}" if name else None)
    if uid is None:
        raise SourceMalformed(f"expected metadata.name in a {kind[:80]}, found none", excerpt=reprlib.repr(metadata))
    problems: list[str] = []
    changes = [*_phases(kind, payload, metadata, status, problems), *condition_changes(status, problems)]
    if kind != "Pod":
        changes += check_changes(status, problems)
        changes += _requeues(status, problems)
    about = ChangedObject(kind, safe(group_of(payload)), uid, namespace, name)
    for change in changes[:CHANGES_MAX]:
        yield transition_of(change, about, SOURCE, ctx)
    subject = f"{kind.lower()} {namespace + '/' if namespace else ''}{name or uid}"
    if problems:
        text = "; ".join(problems[:3])
        yield ctx.finding(SOURCE, "stamp_malformed", subject, text, evidence={"problems": problems[:20]})
    if len(changes) > CHANGES_MAX:
        text = f"{len(changes)} conditions; the first {CHANGES_MAX} are kept"
        yield ctx.finding(SOURCE, "conditions_too_many", subject, text, evidence={"count": len(changes)})


def _requeues(status: Mapping[str, Any], problems: list[str]) -> Iterator[Change]:
    """A workload's count of requeues; when it rose is not said, only until when it waits."""
    requeue = mapping_of(status.get("requeueState"))
    count = integer_of(requeue.get("count"))
    if count is not None:
        until = instant_of(requeue.get("requeueAt"), problems, "requeueState.requeueAt")
        anchor = format_instant(until) if until is not None else "-"
        yield Change("requeue", None, str(count), None, OBSERVED, None, f"until {anchor}" if until else None, anchor)


def _phases(
    kind: str,
    payload: Mapping[str, Any],
    metadata: Mapping[str, Any],
    status: Mapping[str, Any],
    problems: list[str],
) -> Iterator[Change]:
    if kind == "Pod":
        yield from _pod_phase(metadata, status)
    elif kind == "Job" and group_of(payload) == "batch.volcano.sh":
        yield from _volcano_job_phases(status, problems)
    elif kind in ("PodGroup", "Queue"):
        phase = text_of(status.get("phase")) or text_of(status.get("state"))
        if phase is not None:
            yield Change("phase", None, phase, None, OBSERVED, anchor=_newest_stamp(metadata, status))
    elif kind == "RayCluster":
        times = mapping_of(status.get("stateTransitionTimes"))
        for state, value in list(times.items())[:CHANGES_MAX]:
            at = instant_of(value, problems, f"stateTransitionTimes.{str(state)[:80]}")
            if isinstance(state, str) and state and at is not None:
                yield Change("phase", None, state, at)
    elif kind == "RayJob":
        yield from _ray_job_phase(metadata, status, problems)


def _pod_phase(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Change]:
    """A pod's phase never returns to an earlier one, so its name alone tells the change; its instant is taken from the pod's other stamps."""
    phase = text_of(status.get("phase"))
    if phase is None:
        return
    ignored: list[str] = []  # read_pod reports them
    at: Instant | None = None
    if phase == "Pending":
        at = instant_of(metadata.get("creationTimestamp"), ignored, phase)
    elif phase == _RUNNING:
        at = min(_container_stamps(status, "startedAt", ignored), default=None)
    elif phase in _TERMINAL:
        at = max(_container_stamps(status, "finishedAt", ignored), default=None)
    reason, message = text_of(status.get("reason")), text_of(status.get("message"))
    yield Change("phase", None, phase, at, INFERRED, reason, message, anchor="once")


def _container_stamps(status: Mapping[str, Any], key: str, ignored: list[str]) -> Iterator[Instant]:
    for row in list_of(status.get("containerStatuses")):
        for when in ("state", "lastState"):
            for state in mapping_of(row.get(when)).values():
                if isinstance(state, dict) and (at := instant_of(state.get(key), ignored, key)) is not None:
                    yield at


def _volcano_job_phases(status: Mapping[str, Any], problems: list[str]) -> Iterator[Change]:
    """The present state first, with its reason, then the last time of each other phase: an equal change is told once, with its reason."""
    state = mapping_of(status.get("state"))
    rows = [(state, "phase"), *((row, "status") for row in list_of(status.get("conditions")))]
    told: set[tuple[str, Instant | None]] = set()
    for row, key in rows:
        phase = text_of(row.get(key))
        if phase is None or "type" in row:
            continue
        at = instant_of(row.get("lastTransitionTime"), problems, f"{phase[:80]}.lastTransitionTime")
        if (phase, at) not in told:
            told.add((phase, at))
            yield Change("phase", None, phase, at, STATED, text_of(row.get("reason")), text_of(row.get("message")))


def _ray_job_phase(metadata: Mapping[str, Any], status: Mapping[str, Any], problems: list[str]) -> Iterator[Change]:
    """The deployment's status is the phase; what Ray itself says of the job is its reason."""
    phase = text_of(status.get("jobDeploymentStatus"))
    if phase is not None:
        end = instant_of(status.get("endTime"), problems, "status.endTime") if phase in ("Complete", "Failed") else None
        anchor = "" if end is not None else f"{integer_of(status.get('failed')) or 0} failed"
        job, message = text_of(status.get("jobStatus")), text_of(status.get("message"))
        yield Change("phase", None, phase, end, STATED, job, message, anchor)


def _newest_stamp(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """What sets a phase without a stamp apart from the same phase at another time: the newest stamp that the object had by then."""
    ignored: list[str] = []
    stamps = [
        instant_of(condition.get("lastTransitionTime"), ignored, "") for condition in list_of(status.get("conditions"))
    ]
    stamps.append(instant_of(metadata.get("creationTimestamp"), ignored, ""))
    known = [each for each in stamps if each is not None]
    return format_instant(max(known)) if known else "-"
