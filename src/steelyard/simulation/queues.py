"""Kueue in the simulated cluster: two queues of one cohort, a workload for each batch job that was asked of them, with its wait before the pod, one
preemption by the rules and one reservation that nobody gives back.

The trick to know: the queue lets a job in when its cards are free (``Life``), in order of arrival, who fits first; so reservations never exceed the
whole cards, which are the quota. Where a job of one queue was asked to end, and its end let one of the other in, that was a reclaim: quotas are
shared out so that the first queue borrowed then and the other asked for no more than its own.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, Final

from steelyard.primitives.instant import SECOND_US, Instant, format_instant
from steelyard.simulation.demand import TENANTS
from steelyard.simulation.spec import SimulationSpec
from steelyard.simulation.truth import GroundTruth, Pod, Workload

COHORT: Final = "demo"
QUEUES: Final = ("batch-a", "batch-b")
RESOURCE: Final = "nvidia.com/gpu"
_API: Final = "kueue.x-k8s.io/v1beta2"
_NAMESPACE: Final = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
_LOW_PRIORITY: Final = -10


def queue_of(namespace: str) -> str:
    """The cluster queue of a tenant: the tenants share both by halves."""
    return QUEUES[TENANTS.index(namespace) * len(QUEUES) // len(TENANTS)]


def workloads(spec: SimulationSpec, requests: list[Pod], cards: int) -> tuple[list[Workload], dict[str, int]]:
    """One per request, in order of arrival, and the cards of each queue. Of those that were ended while they ran one is preempted, where the rules
    allow it of one; of those that ended one keeps its reservation, because nobody told Kueue of the end."""
    made = [(_workload_of(pod), pod) for pod in sorted(requests, key=lambda each: (each.asked_at or 0, each.uid))]
    found = [workload for workload, _ in made]
    levels = {name: _Level([each for each in made if each[0].queue == name]) for name in QUEUES}
    quotas = dict(zip(QUEUES, (cards // 2, cards - cards // 2), strict=True))
    quotas |= _preempt(made, levels, cards)
    _leak(spec, made, cards)
    return found, quotas


def _workload_of(pod: Pod) -> Workload:
    workload = Workload(
        uid=str(uuid.uuid5(_NAMESPACE, f"{pod.owner_uid}/workload")),
        namespace=pod.namespace,
        name=f"job-{pod.workload_name}",
        owner_uid=pod.owner_uid,
        owner_name=pod.workload_name,
        local_queue=pod.queue or "",
        queue=queue_of(pod.namespace),
        gpus=pod.gpus,
        created_at=pod.asked_at or pod.created_at,
        reserved_at=pod.created_at if pod.node is not None else None,
        removed_at=pod.removed_at,
    )
    if pod.ended_at is not None and pod.fate in ("succeeded", "failed"):
        workload.finished_at, workload.succeeded = pod.ended_at, pod.fate == "succeeded"
    return workload


class _Level:
    """How many cards are reserved over time."""

    def __init__(self, made: Iterable[tuple[Workload, Pod]]) -> None:
        steps: dict[Instant, int] = {}
        for workload, pod in made:
            if workload.reserved_at is not None:
                steps[workload.reserved_at] = steps.get(workload.reserved_at, 0) + workload.gpus
                end = pod.ended_at if pod.ended_at is not None else workload.removed_at
                if end is not None:
                    steps[end] = steps.get(end, 0) - workload.gpus
        self.instants = sorted(steps)
        self.cards = list(accumulate(steps[at] for at in self.instants))
        self.most_from = list(accumulate(reversed(self.cards), max))[::-1]

    def at(self, at: Instant) -> int:
        """Cards reserved then."""
        place = bisect_right(self.instants, at)
        return self.cards[place - 1] if place else 0

    def most_since(self, at: Instant) -> int:
        """The most at any time from then on."""
        place = bisect_right(self.instants, at)
        return max(self.at(at), self.most_from[place] if place < len(self.instants) else 0)


def _preempt(made: list[tuple[Workload, Pod]], levels: dict[str, _Level], cards: int) -> dict[str, int]:
    """Makes a reclaim of the first end that was one but for its name; the quotas that make it rightful. Empty: there is none."""
    let_in: dict[Instant, list[Workload]] = {}
    for workload, _ in made:
        if workload.reserved_at is not None:
            let_in.setdefault(workload.reserved_at, []).append(workload)
    for victim, pod in made:
        asked_at, ended_at = pod.deletion_asked_at, pod.ended_at
        if pod.fate != "deleted" or asked_at is None or ended_at is None:
            continue
        for preemptor in let_in.get(ended_at, ()):
            if preemptor.queue == victim.queue or preemptor.created_at >= asked_at:
                continue
            own = min(
                levels[victim.queue].at(asked_at) - 1,
                cards - levels[preemptor.queue].at(asked_at) - preemptor.gpus,
                cards // 2,
            )
            if own < 1:
                continue
            victim.priority, victim.preemptor_uid = _LOW_PRIORITY, preemptor.uid
            victim.preempted_at, victim.released_at, victim.removed_at = asked_at, ended_at, None
            return {victim.queue: own, preemptor.queue: cards - own}
    return {}


def _leak(spec: SimulationSpec, made: list[tuple[Workload, Pod]], cards: int) -> None:
    """Of those that ended, the first that could keep its cards beside all that was let in later."""
    everyone = _Level(made)
    preempted_at = max((each.released_at for each, _ in made if each.released_at is not None), default=spec.start_at)
    for workload, pod in made:
        ended_at = workload.finished_at
        if ended_at is None or ended_at <= preempted_at or not _is_seen_ended(spec, pod):
            continue
        if everyone.most_since(ended_at) + workload.gpus <= cards:
            workload.leaked_from_at, workload.finished_at, workload.removed_at, workload.succeeded = (
                ended_at,
                None,
                None,
                False,
            )
            return


def _is_seen_ended(spec: SimulationSpec, pod: Pod) -> bool:
    """Whether a listing shows the ended pod, so that its end can be dated."""
    keeps = None if pod.removed_at is None else pod.removed_at - (pod.ended_at or 0)
    return keeps is None or keeps > spec.snapshot_interval_seconds * SECOND_US


def queue_objects(truth: GroundTruth, at: Instant) -> list[dict[str, Any]]:
    """Queues, flavor and workloads as the API server has them then."""
    there = [each for each in truth.workloads if each.created_at <= at and not _reached(each.removed_at, at)]
    found: list[dict[str, Any]] = [
        _object("ResourceFlavor", "whole-cards", None, truth.start_at, {"nodeLabels": {"nvidia.com/gpu.sharing-strategy": "none"}})
    ]  # fmt: skip
    for name, share in truth.quotas.items():
        found.append(_cluster_queue(name, share, [each for each in there if each.queue == name], truth.start_at, at))
    for namespace, local, queue in sorted({(each.namespace, each.local_queue, each.queue) for each in truth.workloads}):
        found.append(_object("LocalQueue", local, namespace, truth.start_at, {"clusterQueue": queue}))
    return [*found, *(_workload(each, at) for each in there)]


def _cluster_queue(name: str, share: int, members: list[Workload], start: Instant, at: Instant) -> dict[str, Any]:
    held = sum(each.gpus for each in members if _holds(each, at))
    spec = {
        "cohortName": COHORT,
        "queueingStrategy": "BestEffortFIFO",
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
        "resourceGroups": [
            {
                "coveredResources": [RESOURCE],
                "flavors": [
                    {"name": "whole-cards", "resources": [{"name": RESOURCE, "nominalQuota": str(share)}]}
                ],
            }
        ],
    }  # fmt: skip
    used = [
        {
            "name": "whole-cards",
            "resources": [{"name": RESOURCE, "total": str(held), "borrowed": str(max(0, held - share))}],
        }
    ]
    waiting = sum(_waits(each, at) for each in members)
    status = {"flavorsReservation": used, "flavorsUsage": used, "pendingWorkloads": waiting}
    return _object("ClusterQueue", name, None, start, spec, status)


def _workload(workload: Workload, at: Instant) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {RESOURCE: str(workload.gpus)}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    status: dict[str, Any] = {"conditions": _conditions(workload, at)}
    if _holds(workload, at) or _reached(workload.finished_at, at):
        assignment = {
            "name": "main", "count": 1, "flavors": {RESOURCE: "whole-cards"}, "resourceUsage": {RESOURCE: str(workload.gpus)},
        }  # fmt: skip
        status["admission"] = {"clusterQueue": workload.queue, "podSetAssignments": [assignment]}
    if _reached(workload.preempted_at, at):
        status["schedulingStats"] = {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": workload.owner_name,
        "uid": workload.owner_uid,
        "controller": True,
    }
    spec = {"queueName": workload.local_queue, "priority": workload.priority, "active": True, "podSets": [pod_set]}
    found = _object("Workload", workload.name, workload.namespace, workload.created_at, spec, status)
    found["metadata"] |= {"uid": workload.uid, "ownerReferences": [owner]}
    return found


def _conditions(workload: Workload, at: Instant) -> list[dict[str, Any]]:
    if _waits(workload, at) and not _reached(workload.preempted_at, at):
        what = f"{RESOURCE} in flavor whole-cards, {workload.gpus} more needed"
        short = f"couldn't assign flavors to pod set main: insufficient unused quota for {what}"
        return [_condition("QuotaReserved", False, workload.created_at, "WaitingForQuota", short)]
    reserved = f"Quota reserved in ClusterQueue {workload.queue}"
    found = [
        _condition("QuotaReserved", True, workload.reserved_at, "QuotaReserved", reserved),
        _condition("Admitted", True, workload.reserved_at, "Admitted", "The workload is admitted"),
    ]
    if _reached(workload.preempted_at, at):
        other = next(name for name in QUEUES if name != workload.queue)
        text = (
            f"Preempted to accommodate a workload (UID: {workload.preemptor_uid}, JobUID: UNKNOWN) due to reclamation within the cohort; "
            f"preemptor path: /{COHORT}/{other}; preemptee path: /{COHORT}/{workload.queue}"
        )
        found += [
            _condition("Evicted", True, workload.preempted_at, "Preempted", text),
            _condition("Preempted", True, workload.preempted_at, "InCohortReclamation", text),
        ]
        if _reached(workload.released_at, at):
            found[0] = _condition("QuotaReserved", False, workload.released_at, "WaitingForQuota", text)
            found[1] = _condition(
                "Admitted", False, workload.released_at, "NoReservation", "The workload has no reservation"
            )
    if _reached(workload.finished_at, at):
        reason = "Succeeded" if workload.succeeded else "Failed"
        found.append(_condition("Finished", True, workload.finished_at, reason, "Job finished"))
    return found


def _condition(kind: str, holds: bool, since: Instant | None, reason: str, message: str) -> dict[str, Any]:
    stamp = format_instant((since or 0) - (since or 0) % SECOND_US)
    return {"type": kind, "status": str(holds), "lastTransitionTime": stamp, "reason": reason, "message": message}


def _object(
    kind: str,
    name: str,
    namespace: str | None,
    created: Instant,
    spec: dict[str, Any],
    status: dict[str, Any] | None = None,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "uid": str(uuid.uuid5(_NAMESPACE, f"{kind}/{namespace}/{name}")),
        "creationTimestamp": format_instant(created - created % SECOND_US),
    }
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec, "status": status or {}}


def _holds(workload: Workload, at: Instant) -> bool:
    """Whether its quota is reserved then."""
    return (
        _reached(workload.reserved_at, at)
        and not _reached(workload.released_at, at)
        and not _reached(workload.finished_at, at)
    )


def _waits(workload: Workload, at: Instant) -> bool:
    return not _reached(workload.reserved_at, at) or _reached(workload.released_at, at)


def _reached(instant: Instant | None, at: Instant) -> bool:
    return instant is not None and instant <= at
