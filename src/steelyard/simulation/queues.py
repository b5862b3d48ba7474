"""Kueue in the simulated cluster: two queues of one cohort, a workload for each batch job on whole cards, with its wait before the pod, one
preemption and one reservation that nobody gives back.

The trick to know: a job's pod is made when its workload is admitted, so what the truth has of pods stays as it is; the wait lies before it.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

from steelyard.primitives.instant import SECOND_US, Instant, format_instant
from steelyard.simulation.demand import JOB, TENANTS
from steelyard.simulation.spec import SimulationSpec
from steelyard.simulation.truth import WHOLE, GroundTruth, Pod, Workload

COHORT: Final = "demo"
QUEUES: Final = ("batch-a", "batch-b")
RESOURCE: Final = "nvidia.com/gpu"
_API: Final = "kueue.x-k8s.io/v1beta2"
_NAMESPACE: Final = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
_WAITS_SECONDS: Final = (4, 20, 95, 600, 2_400, 7_200)


def queue_of(namespace: str) -> str:
    """The cluster queue of a tenant: the tenants share both by halves."""
    return QUEUES[TENANTS.index(namespace) * len(QUEUES) // len(TENANTS)]


def workloads(spec: SimulationSpec, pods: list[Pod]) -> list[Workload]:
    """One per batch job on whole cards, in order of its pod. Of those whose pod was deleted while it ran the first was preempted; of those that
    ended the first keeps its reservation, because nobody told Kueue of the end."""
    rng = spec.stream("queues")
    found: list[Workload] = []
    has_preempted = has_leaked = False
    for pod in sorted(pods, key=lambda each: (each.created_at, each.uid)):
        if pod.kind != WHOLE or pod.workload_kind != JOB:
            continue
        wait = rng.choice(_WAITS_SECONDS) * SECOND_US
        workload = Workload(
            uid=str(uuid.uuid5(_NAMESPACE, f"{pod.owner_uid}/workload")),
            namespace=pod.namespace,
            name=f"job-{pod.workload_name}",
            owner_uid=pod.owner_uid,
            owner_name=pod.workload_name,
            local_queue=pod.queue,
            queue=queue_of(pod.namespace),
            gpus=pod.gpus,
            created_at=pod.created_at - wait,
            reserved_at=pod.created_at,
            removed_at=pod.removed_at,
        )
        if pod.ended_at is not None and pod.deletion_asked_at is not None and pod.fate == "deleted":
            if not has_preempted:
                workload.preempted_at, workload.released_at = pod.deletion_asked_at, pod.ended_at
                workload.removed_at, has_preempted = None, True
        elif pod.ended_at is not None and pod.fate in ("succeeded", "failed"):
            if not has_leaked and _is_seen_ended(spec, pod):
                workload.leaked_from_at, workload.removed_at, has_leaked = pod.ended_at, None, True
            else:
                workload.finished_at, workload.succeeded = pod.ended_at, pod.fate == "succeeded"
        found.append(workload)
    return found


def _is_seen_ended(spec: SimulationSpec, pod: Pod) -> bool:
    """Whether a listing shows the ended pod, so that its end can be dated."""
    keeps = None if pod.removed_at is None else pod.removed_at - (pod.ended_at or 0)
    return keeps is None or keeps > spec.snapshot_interval_seconds * SECOND_US


def queue_objects(truth: GroundTruth, at: Instant) -> list[dict[str, Any]]:
    """Queues, flavor and workloads as the API server has them then."""
    there = [each for each in truth.workloads if each.created_at <= at and not _reached(each.removed_at, at)]
    cards = sum(len(node.devices) for node in truth.nodes if node.kind == WHOLE)
    shares = truth.quotas or dict(zip(QUEUES, (cards // 2, cards - cards // 2), strict=True))
    found: list[dict[str, Any]] = [
        _object("ResourceFlavor", "whole-cards", None, truth.start_at, {"nodeLabels": {"nvidia.com/gpu.sharing-strategy": "none"}})
    ]  # fmt: skip
    for name, share in shares.items():
        found.append(_cluster_queue(name, share, [each for each in there if each.queue == name], truth.start_at, at))
    for namespace, local, queue in sorted({(each.namespace, each.local_queue, each.queue) for each in truth.workloads}):
        found.append(_object("LocalQueue", local, namespace, truth.start_at, {"clusterQueue": queue}))
    return [*found, *(_workload(each, truth, at) for each in there)]


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


def _workload(workload: Workload, truth: GroundTruth, at: Instant) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {RESOURCE: str(workload.gpus)}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    status: dict[str, Any] = {"conditions": _conditions(workload, truth, at)}
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
    spec = {"queueName": workload.local_queue, "priority": 0, "active": True, "podSets": [pod_set]}
    found = _object("Workload", workload.name, workload.namespace, workload.created_at, spec, status)
    found["metadata"] |= {"uid": workload.uid, "ownerReferences": [owner]}
    return found


def _conditions(workload: Workload, truth: GroundTruth, at: Instant) -> list[dict[str, Any]]:
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
        preemptor = next(
            (each.uid for each in truth.workloads if each.reserved_at >= (workload.preempted_at or 0)), "UNKNOWN"
        )
        text = f"Preempted to accommodate a workload (UID: {preemptor}, JobUID: UNKNOWN) due to reclamation within the cohort"
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
        workload.reserved_at <= at and not _reached(workload.released_at, at) and not _reached(workload.finished_at, at)
    )


def _waits(workload: Workload, at: Instant) -> bool:
    return at < workload.reserved_at or _reached(workload.released_at, at)


def _reached(instant: Instant | None, at: Instant) -> bool:
    return instant is not None and instant <= at
