"""What changed of an object and when: its conditions, its phase, the states of its admission checks, its requeues.

``app`` calls ``read_transitions`` for every object of a kind in ``TRANSITION_KINDS``, from files and from a watch alike. The trick to know:
each version of an object tells only the last change of each condition, so the history is the union over all versions that were seen; a
change is named by what it says and its own stamp, so that the union has each change once. A phase without a stamp is named by the newest
stamp that its object had: it may be told again under a newer one, and equal phases in a row are one.

Sceptic's command: ``kubectl get workload WORKLOAD -o jsonpath='{.status.conditions}'``.
"""

from __future__ import annotations

import hashlib
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from steelyard.facts.base import Fact
from steelyard.facts.transition import Transition
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant, format_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, integer_of, list_of, mapping_of, text_of

SOURCE: Final = "kube_api"
MESSAGE_CHARACTERS_MAX: Final = 4_096
NAME_CHARACTERS_MAX: Final = 316
CHANGES_MAX: Final = 256
"""More conditions than that no controller writes; what is beyond is counted in a finding."""

STATED: Final = "stated"
INFERRED: Final = "inferred"
OBSERVED: Final = "observed"

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
}
"""Kinds whose changes are facts, with the groups that a kind of that name counts in."""

_RUNNING: Final = "Running"
_TERMINAL: Final = ("Succeeded", "Failed")


class _About(NamedTuple):
    """Whose changes they are."""

    kind: str
    group: str
    uid: str
    namespace: str | None
    name: str | None


class _Change(NamedTuple):
    """One change as the object tells it. ``anchor``: what tells it from an equal change at another time, where it has no stamp."""

    aspect: str
    item: str | None
    value: str
    at: Instant | None
    basis: str = STATED
    reason: str | None = None
    message: str | None = None
    anchor: str = ""


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
    name, namespace, uid = (_plain(metadata.get(key)) for key in ("name", "namespace", "uid"))
    uid = uid or (f"name:{namespace or 'default'}/{name}" if name else None)
    if uid is None:
        raise SourceMalformed(f"expected metadata.name in a {kind[:80]}, found none", excerpt=reprlib.repr(metadata))
    problems: list[str] = []
    changes = [*_phases(kind, payload, metadata, status, problems), *_conditions(status, problems)]
    changes += _admission_checks(status, problems)
    changes += _requeues(status, problems)
    about = _About(kind, _safe(group_of(payload)), uid, namespace, name)
    for change in changes[:CHANGES_MAX]:
        yield _transition(change, about, ctx)
    subject = f"{kind.lower()} {namespace + '/' if namespace else ''}{name or uid}"
    if problems:
        text = "; ".join(problems[:3])
        yield ctx.finding(SOURCE, "stamp_malformed", subject, text, evidence={"problems": problems[:20]})
    if len(changes) > CHANGES_MAX:
        text = f"{len(changes)} conditions; the first {CHANGES_MAX} are kept"
        yield ctx.finding(SOURCE, "conditions_too_many", subject, text, evidence={"count": len(changes)})


def _transition(change: _Change, about: _About, ctx: ReadContext) -> Transition:
    at, item, value = change.at, change.item, _safe(change.value)
    reason = _safe(change.reason) if change.reason else None
    message = plain(change.message[:MESSAGE_CHARACTERS_MAX]) if change.message else None
    when = change.anchor or (at if at is not None else "-")
    digest = _digest(change) if change.aspect == "condition" and (reason or message) else ""
    if item is None:
        key = f"{about.uid}/{change.aspect}/{value}/{when}/{digest}"
    else:
        item = _safe(item)
        key = f"{about.uid}/{change.aspect}/{item}/{value}/{when}/{digest}"
    return Transition(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=key,
        occurred_at=ctx.observed_at if at is None else at,
        observed_at=ctx.observed_at,
        object_kind=about.kind,
        object_group=about.group,
        object_uid=about.uid,
        namespace=about.namespace,
        object_name=about.name,
        aspect=change.aspect,
        item=item,
        value=value,
        reason=reason,
        message=message,
        time_basis=OBSERVED if at is None else change.basis,
    )


def _safe(text: str) -> str:
    """Short text that columns can hold; nearly all is plain ASCII already."""
    if len(text) <= NAME_CHARACTERS_MAX and text.isascii() and "\0" not in text:
        return text
    return plain(text[:NAME_CHARACTERS_MAX])


def _plain(value: object) -> str | None:
    return _safe(value) if isinstance(value, str) and value else None


def _digest(change: _Change) -> str:
    text = f"{change.reason or ''}\0{change.message or ''}".encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:12]


def _conditions(status: Mapping[str, Any], problems: list[str]) -> Iterator[_Change]:
    for condition in list_of(status.get("conditions")):
        name, value = text_of(condition.get("type")), text_of(condition.get("status"))
        if name is None or value is None:
            continue  # a Volcano job's conditions have no type: they are phases
        at = instant_of(condition.get("lastTransitionTime"), problems, f"{name[:80]}.lastTransitionTime")
        reason, message = text_of(condition.get("reason")), text_of(condition.get("message"))
        yield _Change("condition", name, value, at, STATED, reason, message)


def _admission_checks(status: Mapping[str, Any], problems: list[str]) -> Iterator[_Change]:
    for check in list_of(status.get("admissionChecks")):
        name, value = text_of(check.get("name")), text_of(check.get("state"))
        if name is not None and value is not None:
            at = instant_of(check.get("lastTransitionTime"), problems, f"{name[:80]}.lastTransitionTime")
            yield _Change("admission_check", name, value, at, STATED, None, text_of(check.get("message")))


def _requeues(status: Mapping[str, Any], problems: list[str]) -> Iterator[_Change]:
    """A workload's count of requeues; when it rose is not said, only until when it waits."""
    requeue = mapping_of(status.get("requeueState"))
    count = integer_of(requeue.get("count"))
    if count is not None:
        until = instant_of(requeue.get("requeueAt"), problems, "requeueState.requeueAt")
        anchor = format_instant(until) if until is not None else "-"
        yield _Change("requeue", None, str(count), None, OBSERVED, None, f"until {anchor}" if until else None, anchor)


def _phases(
    kind: str,
    payload: Mapping[str, Any],
    metadata: Mapping[str, Any],
    status: Mapping[str, Any],
    problems: list[str],
) -> Iterator[_Change]:
    if kind == "Pod":
        yield from _pod_phase(metadata, status)
    elif kind == "Job" and group_of(payload) == "batch.volcano.sh":
        yield from _volcano_job_phases(status, problems)
    elif kind in ("PodGroup", "Queue"):
        phase = text_of(status.get("phase")) or text_of(status.get("state"))
        if phase is not None:
            yield _Change("phase", None, phase, None, OBSERVED, anchor=_newest_stamp(metadata, status))
    elif kind == "RayCluster":
        times = mapping_of(status.get("stateTransitionTimes"))
        for state, value in list(times.items())[:CHANGES_MAX]:
            at = instant_of(value, problems, f"stateTransitionTimes.{str(state)[:80]}")
            if isinstance(state, str) and state and at is not None:
                yield _Change("phase", None, state, at)
    elif kind == "RayJob":
        yield from _ray_job_phase(metadata, status, problems)


def _pod_phase(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[_Change]:
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
    yield _Change("phase", None, phase, at, INFERRED, reason, message, anchor="once")


def _container_stamps(status: Mapping[str, Any], key: str, ignored: list[str]) -> Iterator[Instant]:
    for row in list_of(status.get("containerStatuses")):
        for when in ("state", "lastState"):
            for state in mapping_of(row.get(when)).values():
                if isinstance(state, dict) and (at := instant_of(state.get(key), ignored, key)) is not None:
                    yield at


def _volcano_job_phases(status: Mapping[str, Any], problems: list[str]) -> Iterator[_Change]:
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
            yield _Change("phase", None, phase, at, STATED, text_of(row.get("reason")), text_of(row.get("message")))


def _ray_job_phase(metadata: Mapping[str, Any], status: Mapping[str, Any], problems: list[str]) -> Iterator[_Change]:
    """The deployment's status is the phase; what Ray itself says of the job is its reason."""
    phase = text_of(status.get("jobDeploymentStatus"))
    if phase is not None:
        end = instant_of(status.get("endTime"), problems, "status.endTime") if phase in ("Complete", "Failed") else None
        anchor = "" if end is not None else f"{integer_of(status.get('failed')) or 0} failed"
        job, message = text_of(status.get("jobStatus")), text_of(status.get("message"))
        yield _Change("phase", None, phase, end, STATED, job, message, anchor)


def _newest_stamp(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """What sets a phase without a stamp apart from the same phase at another time: the newest stamp that the object had by then."""
    ignored: list[str] = []
    stamps = [
        instant_of(condition.get("lastTransitionTime"), ignored, "") for condition in list_of(status.get("conditions"))
    ]
    stamps.append(instant_of(metadata.get("creationTimestamp"), ignored, ""))
    known = [each for each in stamps if each is not None]
    return format_instant(max(known)) if known else "-"
