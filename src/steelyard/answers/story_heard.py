"""Requests of which no object was seen: events, decisions and refusals alone tell of them.

``story`` calls ``heard`` for a name that no request has. The trick to know: an event names its object by kind, namespace and name, so each such
name is one request, whatever uids it had; all that only an object tells (how many cards, since when, in which queue) stays unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.answers.reading import Reading, Record
from steelyard.answers.story_names import Named, ambiguous

KINDS: Final = {"pod": "Pod", "workload": "Workload", "pod_group": "PodGroup", "job": "Job"}
WAITING: Final = frozenset({"not_now", "never_fits", "rejected", "misconfigured", "deactivated"})
"""Last verdicts after which it was not placed."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A request of hearsay: what its name stands for, the request, its objects by uid, and its wait where its last word was a refusal."""

    who: Named
    demand: Record
    subjects: Sequence[Record]
    wait: Record | None


def heard(reading: Reading, typed: str, kind: str | None, cluster: str | None, tenant: str | None) -> Heard | None:
    """The one thing of that name that events alone tell of; None where there is none. Raises UsageError where there are several."""
    namespace, slash, name = typed.strip().rpartition("/")
    rows = reading.run(
        "story_heard",
        typed=typed.strip(),
        plain=name,
        namespace=namespace if slash else None,
        kind=None if kind is None else KINDS.get(kind, kind),
        cluster=cluster,
        tenant=tenant,
    )
    if not rows:
        return None
    found: dict[tuple[str, str, str, str], list[Record]] = {}
    for row in rows:
        found.setdefault((row["cluster"], row["kind"], row["namespace"] or "", row["name"]), []).append(row)
    if len(found) > 1:
        raise ambiguous(typed, [(at, _kind(which), space, called) for at, which, space, called in sorted(found)])
    ((key, told),) = found.items()
    demand = _demand(key, told)
    subjects = [
        {"kind": key[1], "uid": row["uid"], "namespace": key[2], "name": key[3], "demand_id": demand["demand_id"]}
        for row in told
        if row["uid"] is not None
    ]
    who = Named(key[0], demand["demand_kind"], key[2], key[3], (demand["demand_id"],))
    return Heard(who, demand, subjects, _wait(demand))


def _kind(kind: str) -> str:
    return next((name for name, known in KINDS.items() if known == kind), kind.lower())


def _demand(key: tuple[str, str, str, str], told: Sequence[Record]) -> Record:
    """A request of which nothing is known but its name, and when it was told of."""
    _cluster, kind, namespace, name = key
    last = max(told, key=lambda row: (row["last_us"], row["verdict"] or ""))
    verdicts = [row for row in told if row["verdict"] is not None]
    verdict = max(verdicts, key=lambda row: (row["verdict_us"], row["verdict"]))["verdict"] if verdicts else None
    unknown = (
        "queue", "local_queue", "person", "person_basis", "priority", "gpu_milli", "pods_count", "created_us", "ended_us", "end_kind",
        "scheduler", "phase", "attempts",
    )  # fmt: skip
    return {
        **dict.fromkeys(unknown),
        "demand_id": f"{kind}/{namespace}/{name}",
        "demand_kind": _kind(kind),
        "namespace": namespace,
        "name": name,
        "workload_kind": kind,
        "workload_name": name,
        "tenant": last["tenant"],
        "is_kueue_pod": False,
        "first_seen_us": min(row["first_us"] for row in told),
        "last_seen_us": last["last_us"],
        "heard_verdict": verdict or "event",
    }


def _wait(demand: Record) -> Record | None:
    if demand["heard_verdict"] not in WAITING:
        return None
    return {
        "demand_id": demand["demand_id"],
        "stage": "scheduler" if demand["demand_kind"] == "pod" else "queue",
        "started_us": demand["first_seen_us"],
        "queue": None,
        "demand_kind": demand["demand_kind"],
        "unknown_reason": "creation_not_seen",
    }
