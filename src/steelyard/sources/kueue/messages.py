"""What Kueue says of a workload, read by its grammar: why it waits, why it had to go, for whom.

``parse_waiting`` reads a reason and message of QuotaReserved=False (and of the event beside it), ``parse_eviction`` those of an eviction,
``parse_preemption`` both sides of a preemption. The trick to know: from v0.19 the reason says whether a workload can ever fit; before, all
reasons are ``Pending`` or ``Inadmissible``, and only the message tells "more than the queue can ever give" from "not now".

Sceptic's command: ``kubectl get workload WORKLOAD -o jsonpath='{.status.conditions}'``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from steelyard.sources.shared.resource_amounts import milli_of

MESSAGE_CHARACTERS_MAX: Final = 8_192
REASONS_MAX: Final = 512
PREVIOUSLY: Final = "Previously: "

RESERVED: Final = "reserved"
ADMITTED: Final = "admitted"
NOT_NOW: Final = "not_now"
NEVER_FITS: Final = "never_fits"
MISCONFIGURED: Final = "misconfigured"
REJECTED: Final = "rejected"
EVICTED: Final = "evicted"
DEACTIVATED: Final = "deactivated"
REQUEUED: Final = "requeued"

QUOTA: Final = "quota"
CAPACITY: Final = "capacity"
PLACEMENT: Final = "placement"
POLICY: Final = "policy"
CHECK: Final = "check"
GATE: Final = "gate"
OTHER: Final = "other"

WAITING_REASONS: Final[Mapping[str, tuple[str, str | None]]] = {
    "NoMatchingFlavor": (NEVER_FITS, PLACEMENT),
    "WaitingForQuota": (NOT_NOW, QUOTA),
    "ExceedsMaxQuota": (NEVER_FITS, QUOTA),
    "TopologyPlacementFailed": (NOT_NOW, PLACEMENT),
    "WaitingForPreemptedWorkloads": (NOT_NOW, QUOTA),
    "Misconfigured": (MISCONFIGURED, OTHER),
    "Suspended": (NOT_NOW, POLICY),
    "PendingEvaluation": (NOT_NOW, None),
    "WaitingForPodsReady": (NOT_NOW, POLICY),
    "AdmissionGated": (NOT_NOW, GATE),
    "OnHold": (NOT_NOW, POLICY),
}
"""Reasons that settle verdict and cause by themselves, from v0.19."""
OLD_REASONS: Final = frozenset({"Pending", "Inadmissible", "Waiting"})

_EVICTION_CAUSES: Final[Mapping[str, str]] = {
    "Preempted": QUOTA,
    "AdmissionCheck": CHECK,
    "ClusterQueueStopped": POLICY,
    "LocalQueueStopped": POLICY,
    "NodeFailures": CAPACITY,
    "FlavorMigration": POLICY,
    "MaximumExecutionTimeExceeded": POLICY,
    "RequeuingLimitExceeded": POLICY,
}
_PREEMPTION_WORDS: Final[Mapping[str, str]] = {
    "prioritization in the ClusterQueue": "priority",
    "reclamation within the cohort": "reclaim",
    "Fair Sharing within the cohort": "fair_sharing",
    "reclamation within the cohort while borrowing": "reclaim_while_borrowing",
}
_PREEMPTION_REASONS: Final[Mapping[str, str]] = {
    "InClusterQueue": "priority",
    "InCohortReclamation": "reclaim",
    "InCohortFairSharing": "fair_sharing",
    "InCohortReclaimWhileBorrowing": "reclaim_while_borrowing",
}

_NAME: Final = r"[^\s,;()]{1,316}"
_AMOUNT: Final = r"([0-9A-Za-z.+-]{1,40})"
_POD_SET: Final = "couldn't assign flavors to pod set "
_UNUSED: Final = re.compile(rf"insufficient unused quota for ({_NAME}) in flavor ({_NAME})(?:, {_AMOUNT} more needed)?")
_MAXIMUM: Final = re.compile(
    rf"insufficient quota for ({_NAME}) in flavor ({_NAME})(?:, previously considered podsets requests \({_AMOUNT}\) \+ "
    rf"current podset request \({_AMOUNT}\) > maximum capacity \({_AMOUNT}\))?"
)
_AFFINITY: Final = re.compile(rf"flavor ({_NAME}) doesn't match node affinity")
_TAINT: Final = re.compile(rf"untolerated taint ([^;]{{1,400}}?) in flavor ({_NAME})")
_UNAVAILABLE: Final = re.compile(rf"resource ({_NAME}) unavailable in ClusterQueue")
_TOPOLOGY: Final = re.compile(
    r"topology \"([^\"]{1,253})\" (?:doesn't allow to fit any of|allows to fit only [0-9]{1,9} out of) ([0-9]{1,9}) pod\(s\)"
)
_TAILS: Final = (
    ("pending_preemptions_count", re.compile(r"Pending the preemption of ([0-9]{1,9}) workload\(s\)")),
    ("failed_preemptions_count", re.compile(r"Preempting ([0-9]{1,9}) workload\(s\) failed, will retry\.?")),
    ("pending_migrations_count", re.compile(r"Pending the migration of ([0-9]{1,9}) workload\(s\)")),
)
_QUEUE: Final = re.compile(
    rf"(LocalQueue|ClusterQueue) ({_NAME}) (doesn't exist|is inactive|is stopped|is terminating or missing)"
)
_TIMEOUT: Final = re.compile(rf"Exceeded the PodsReady timeout(?: ({_NAME}))?")
_CHECK_STATE: Final = re.compile(r"AdmissionCheck in (Retry|Rejected) state")
_CHECK: Final = re.compile(r"\"([^\"\n]{1,316})\" \(([^\n]{0,600}?)\)(?=, \"|\Z)")
_VICTIM: Final = re.compile(
    r"Preempted to accommodate a workload \(UID: ([^\s,()]{0,64})(?:, JobUID: ([^\s,()]{0,64}))?\) due to ([^;]{1,200})"
)
_PREEMPTOR: Final = re.compile(
    rf"Preempted workload ([^\s,;()/]{{1,253}})/({_NAME}) \(UID: ([^\s,()]{{0,64}})\)(?: in ClusterQueue ({_NAME}))?"
)
_PRIORITY: Final = re.compile(r"-?[0-9]{1,10}")
_WAITED: Final = re.compile(
    rf"(?:Quota reserved in|Admitted by) ClusterQueue ({_NAME})(?:, wait time since (?:queued|reservation) was ([0-9]{{1,12}})(?:\.[0-9]{{1,9}})?s)?"
)


@dataclass(frozen=True, slots=True)
class Shortage:
    """One reason why one flavor will not do. ``impossible``: no waiting helps. Amounts in thousandths; asked = all pod sets so far."""

    words: str
    cause: str
    impossible: bool
    resource: str | None = None
    flavor: str | None = None
    asked_milli: int | None = None
    missing_milli: int | None = None
    limit_milli: int | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """What a message comes to. shortage: the first reason that bears the verdict. details: all that the grammar yields; ``unread``: the
    message, or a part of it, fits no known sentence."""

    verdict: str
    cause: str | None = None
    queue: str | None = None
    shortage: Shortage | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    unread: bool = False


@dataclass(frozen=True, slots=True)
class PreemptionWords:
    """One side's word for a preemption; what it does not tell is None. cause: as in ``facts.Preemption``."""

    cause: str
    victim_uid: str | None = None
    victim_namespace: str | None = None
    victim_name: str | None = None
    victim_queue: str | None = None
    victim_priority: int | None = None
    preemptor_uid: str | None = None
    preemptor_job_uid: str | None = None
    preemptor_queue: str | None = None
    preemptor_priority: int | None = None


def parse_waiting(reason: str | None, message: str | None) -> Words:
    """Why a workload has no quota. A reason of v0.19 or later settles the verdict, an older one leaves it to the message; where neither
    does, it is ``not_now`` without a cause, and ``unread``."""
    text = (message or "")[:MESSAGE_CHARACTERS_MAX].removeprefix(PREVIOUSLY)
    read = _waiting_words(text)
    settled = WAITING_REASONS.get(reason or "")
    if settled is None:
        return read if read is not None else Words(NOT_NOW, unread=True)
    if read is None:
        return Words(settled[0], settled[1], unread=bool(text) and settled[1] is not None)
    verdict, cause = settled
    shortages = read.details.get("_shortages", ())
    shortage = next((each for each in shortages if each.impossible == (verdict == NEVER_FITS)), None)
    shortage = shortage or (shortages[0] if shortages else None)
    return Words(verdict, cause, read.queue, shortage, read.details, read.unread)


def shown(words: Words) -> dict[str, Any]:
    """The details as they are stored."""
    found = {key: value for key, value in words.details.items() if not key.startswith("_")}
    if words.unread:
        found["unread"] = True
    return found


def _waiting_words(text: str) -> Words | None:
    """The verdict by the message alone; None where it is of no known form."""
    if _POD_SET in text:
        return _assignment(text)
    if (queue := _QUEUE.search(text)) is not None:
        kind, name, state = queue.groups()
        details = {"queue_kind": kind, "queue_name": name, "queue_state": state}
        cluster_queue = name if kind == "ClusterQueue" else None
        if state in ("is inactive", "is stopped"):
            return Words(NOT_NOW, POLICY, cluster_queue, details=details)
        return Words(MISCONFIGURED, OTHER, cluster_queue, details=details)
    if "has failed admission checks" in text:
        return Words(REJECTED, CHECK)
    if (
        _TIMEOUT.match(text)
        or _VICTIM.match(text)
        or text.startswith(("The workload is deactivated", "Evicted due to "))
    ):
        return Words(NOT_NOW, None, details={"after": EVICTED})
    if text.lower().startswith("waiting for all admitted workloads to be in"):
        return Words(NOT_NOW, POLICY)
    return None


def _assignment(text: str) -> Words:
    """``couldn't assign flavors to pod set <p>: <r>, <r>; couldn't assign ...``: it never fits where one pod set has no flavor left."""
    before, *parts = text.split(_POD_SET, 64)
    details: dict[str, Any] = {}
    for name, pattern in _TAILS:
        if (tail := pattern.search(text)) is not None:
            details[name] = int(tail.group(1))
    pod_sets: dict[str, list[str]] = {}
    shortages: list[Shortage] = []
    unread = bool(before.strip())
    never = False
    for part in parts:
        name, _colon, body = part.partition(": ")
        found, all_read = _shortages(body)
        unread = unread or not all_read
        pod_sets[name[:316]] = [each.words for each in found]
        shortages += found
        never = never or _is_hopeless(found)
    details |= {"pod_sets": pod_sets, "_shortages": tuple(shortages)}
    first = next((each for each in shortages if each.impossible == never), shortages[0] if shortages else None)
    verdict = NEVER_FITS if never else NOT_NOW
    return Words(verdict, first.cause if first else None, None, first, details, unread)


def _is_hopeless(shortages: list[Shortage]) -> bool:
    """Whether each flavor that is named, or the pod set as a whole, is impossible."""
    if any(each.impossible and each.flavor is None for each in shortages):
        return True
    flavors = {each.flavor for each in shortages}
    return bool(flavors) and flavors == {each.flavor for each in shortages if each.impossible}


def _shortages(body: str) -> tuple[list[Shortage], bool]:
    """The reasons in order, and whether all of the text was read. Each step goes forward, so the time is linear in the text."""
    found: list[Shortage] = []
    all_read = True
    at, end = 0, len(body)
    while at < end and len(found) < REASONS_MAX:
        if body[at] in " ,;.":
            at += 1
            continue
        tail = next((match for _name, pattern in _TAILS if (match := pattern.match(body, at))), None)
        if tail is not None:
            at = tail.end()
            continue
        match, shortage = _shortage(body, at)
        if match is None:
            all_read = False
            comma = body.find(", ", at)
            at = end if comma < 0 else comma + 2
        else:
            at = match.end()
            if shortage is not None:
                found.append(shortage)
    return found, all_read and at >= end


def _shortage(body: str, at: int) -> tuple[re.Match[str] | None, Shortage | None]:
    if (match := _UNUSED.match(body, at)) is not None:
        resource, flavor, missing = match.groups()
        return match, Shortage(match.group(), QUOTA, False, resource, flavor, missing_milli=_milli(missing))
    if (match := _MAXIMUM.match(body, at)) is not None:
        resource, flavor, earlier, current, limit = match.groups()
        parts = (_milli(earlier), _milli(current))
        asked = None if parts[0] is None or parts[1] is None else _held(parts[0] + parts[1])
        most = _milli(limit)
        missing_milli = _held(asked - most) if asked is not None and most is not None else None
        return match, Shortage(match.group(), QUOTA, True, resource, flavor, asked, missing_milli, most)
    if (match := _AFFINITY.match(body, at)) is not None:
        return match, Shortage(match.group(), PLACEMENT, True, flavor=match.group(1))
    if (match := _TAINT.match(body, at)) is not None:
        return match, Shortage(match.group(), PLACEMENT, True, flavor=match.group(2))
    if (match := _UNAVAILABLE.match(body, at)) is not None:
        return match, Shortage(match.group(), QUOTA, True, resource=match.group(1))
    if (match := _TOPOLOGY.match(body, at)) is not None:
        return match, Shortage(match.group(), PLACEMENT, False)
    return None, None


def _milli(text: str | None) -> int | None:
    try:
        return None if text is None else milli_of(text)
    except ValueError:
        return None


def _held(milli: int) -> int | None:
    """The amount where 64 bits hold it."""
    return milli if -(2**63) <= milli < 2**63 else None


def parse_eviction(reason: str, message: str | None) -> Words:
    """An eviction (``Preempted``, ``PodsReadyTimeout``, ...) or a deactivation (``DeactivatedDueTo...``), with the checks that it names."""
    text = (message or "")[:MESSAGE_CHARACTERS_MAX].removeprefix(PREVIOUSLY)
    verdict = DEACTIVATED if reason.startswith("Deactivated") else EVICTED
    underlying = reason.removeprefix("Deactivated").removeprefix("DueTo")
    details: dict[str, Any] = {}
    if checks := list(_checks(text)):
        details["checks"] = checks
    return Words(verdict, _EVICTION_CAUSES.get(underlying), details=details)


def parse_rejection(message: str | None) -> Words:
    """``Deactivated due to AdmissionCheck in Rejected state: "a" (why), "b" (why)``."""
    text = (message or "")[:MESSAGE_CHARACTERS_MAX].removeprefix(PREVIOUSLY)
    checks = list(_checks(text))
    return Words(REJECTED, CHECK, details={"checks": checks} if checks else {}, unread=not checks)


def _checks(text: str) -> Iterator[dict[str, str]]:
    state = _CHECK_STATE.search(text)
    if state is not None:
        for match in list(_CHECK.finditer(text, state.end()))[:64]:
            yield {"name": match.group(1), "state": state.group(1), "message": match.group(2)}


def parse_reservation(message: str | None) -> tuple[str | None, int | None]:
    """(cluster queue, seconds of waiting as Kueue counts them) of a reservation or an admission; None where it does not say. The seconds are a
    claim: after a second preemption they include the run before it."""
    match = _WAITED.match((message or "")[:MESSAGE_CHARACTERS_MAX])
    if match is None:
        return None, None
    return match.group(1), int(match.group(2)) if match.group(2) else None


def parse_preemption(message: str | None, reason: str | None = None) -> PreemptionWords | None:
    """Either side's sentence; None where it is neither. A UID ``UNKNOWN`` is None; any other stays as it is, whether or not an object has it."""
    text = (message or "")[:MESSAGE_CHARACTERS_MAX].removeprefix(PREVIOUSLY)
    tail = _tail(text)
    ranks = _priority(tail.get("preemptor effective priority")), _priority(tail.get("preemptee effective priority"))
    if (match := _VICTIM.match(text)) is not None:
        uid, job_uid, why = match.groups()
        cause = _PREEMPTION_WORDS.get(why.strip()) or _PREEMPTION_REASONS.get(reason or "") or "unknown"
        return PreemptionWords(
            cause,
            victim_queue=_last(tail.get("preemptee path")),
            victim_priority=ranks[1],
            preemptor_uid=_uid(uid),
            preemptor_job_uid=_uid(job_uid),
            preemptor_queue=_last(tail.get("preemptor path")),
            preemptor_priority=ranks[0],
        )
    if (match := _PREEMPTOR.match(text)) is not None:
        namespace, name, uid, queue = match.groups()
        return PreemptionWords(
            "unknown",
            victim_uid=_uid(uid),
            victim_namespace=namespace,
            victim_name=name,
            victim_queue=queue,
            victim_priority=ranks[1],
            preemptor_priority=ranks[0],
        )
    return None


def _tail(text: str) -> dict[str, str]:
    """The ``key: value`` parts after the sentence."""
    parts = (part.partition(": ") for part in text.split("; ", 16)[1:])
    return {key.strip(): value.strip() for key, _colon, value in parts}


def _priority(text: str | None) -> int | None:
    match = _PRIORITY.match(text or "")
    return int(match.group()) if match is not None else None


def _uid(text: str | None) -> str | None:
    return text if text and text != "UNKNOWN" else None


def _last(path: str | None) -> str | None:
    """The queue at the end of a path such as ``/cohort/queue``."""
    return (path or "").rstrip("/").rpartition("/")[2][:316] or None
