"""A Workload as a Gang, and what its conditions say as decisions, preemptions and refusals.

``app`` calls ``read_workload`` per object, from files and from a watch alike. The trick to know: an admission stays on the object after its end, so
what a finished workload holds is nothing; and what a live one holds is its usage less the pods that it gave back.

Sceptic's command: ``kubectl get workload WORKLOAD -o yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.gang import Gang
from steelyard.primitives.instant import format_instant
from steelyard.sources.kueue.conditions import read_conditions
from steelyard.sources.kueue.workload_view import (
    GROUP,
    SOURCE,
    Assignment,
    PodSet,
    WorkloadView,
    after_reclaim,
    asked_for,
    parse_workload,
)
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.resource_amounts import gpu_milli_of, is_accelerator, summed, to_json

OUTCOMES: Final[Mapping[str, str]] = {
    "Succeeded": "succeeded",
    "Failed": "failed",
    "OutOfSync": "out_of_sync",
    "OwnerNotFound": "owner_not_found",
    "WorkloadSliceReplaced": "replaced",
}


def read_workload(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """One Gang; per condition and check that decides something a Decision, a Preemption, a Refusal; findings.

    Unknown: amounts that cannot be read are left out and a finding ``workload_malformed`` says so; gpu_milli is then None. A finding
    ``finished_reason_unknown`` says that an outcome is None for that. Raises SourceMalformed where the object has no name.
    """
    view = parse_workload(payload)
    problems = view.problems
    held = [after_reclaim(view, each, problems) for each in view.assignments]
    yield _gang(view, held, ctx)
    yield from read_conditions(view, ctx)
    yield from _unknown_end(view, ctx)
    if problems:
        text = "; ".join(problems[:3])
        evidence = {"problems": problems[:20], "count": len(problems)}
        yield ctx.finding(SOURCE, "workload_malformed", view.subject, text, evidence=evidence)


def _gang(view: WorkloadView, held: list[Mapping[str, int]], ctx: ReadContext) -> Gang:
    asked = asked_for(view)
    phase, condition = _phase(view)
    counts = [each.count for each in view.pod_sets if each.count is not None]
    has_counts = bool(counts) and len(counts) == len(view.pod_sets)
    finished = view.condition("Finished") if view.is_finished else None
    return Gang(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=view.uid if view.has_uid else f"name:Workload/{view.namespace}/{view.name}",
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        object_kind="Workload",
        object_group=GROUP,
        object_uid=view.uid,
        namespace=view.namespace,
        object_name=view.name,
        owner_kind=view.controller.get("kind"),
        owner_name=view.controller.get("name"),
        owner_uid=view.controller.get("uid"),
        members=_members(view),
        queue=view.queue,
        cluster_queue=view.cluster_queue,
        priority=view.priority,
        priority_class=view.priority_class,
        created_at=view.created_at,
        deletion_at=view.deletion_at,
        finished_at=finished.at if finished is not None else None,
        pods_count=sum(counts) if has_counts else None,
        min_count=_min_count(view) if has_counts else None,
        gpu_milli=gpu_milli_of(asked) if asked is not None else None,
        demand=to_json(view.requested if view.requested is not None else asked or {}),
        admitted="{}" if view.is_finished else to_json(summed(held, view.problems, "admission")),
        flavors=to_json(_flavors(view.assignments)),
        phase=phase,
        phase_reason=condition.reason if condition is not None else None,
        phase_message=condition.message[:4_096] if condition is not None and condition.message else None,
        outcome=OUTCOMES.get(finished.reason or "") if finished is not None else None,
        active=view.active,
        requeue_count=view.requeue_count,
        requeue_at=view.requeue_at,
        evictions=_json_list(view.evictions),
        past_run_us=view.past_run_us,
        details=to_json(_details(view)),
    )


def _phase(view: WorkloadView) -> tuple[str, Any]:
    """The phase, and the condition that tells it; ``evicted`` until the next reservation, whether or not the quota is given back by then."""
    for name, phase in (
        ("Finished", "finished"),
        ("Evicted", "evicted"),
        ("Admitted", "admitted"),
        ("QuotaReserved", "reserved"),
    ):
        if view.is_true(name):
            return phase, view.condition(name)
    return "pending", view.condition("QuotaReserved")


def _min_count(view: WorkloadView) -> int | None:
    """How many pods must run at once, where partial admission is allowed."""
    if all(each.min_count is None for each in view.pod_sets):
        return None
    return sum(each.count or 0 if each.min_count is None else each.min_count for each in view.pod_sets)


def _flavors(assignments: Any) -> dict[str, str]:
    """Resource -> flavor; where pod sets got different ones, all of them, sorted and joined by commas."""
    found: dict[str, set[str]] = {}
    for assignment in assignments:
        for resource, flavor in assignment.flavors.items():
            found.setdefault(resource, set()).add(flavor)
    return {resource: ",".join(sorted(flavors)) for resource, flavors in found.items()}


def _members(view: WorkloadView) -> str:
    """All owners where there are several (the pods of a pod group), else nothing beyond the owner itself."""
    return _json_list(view.owners) if view.owners_count > 1 else "[]"


def _json_list(rows: Any) -> str:
    wrapped = to_json({"_": list(rows)})
    return wrapped[len('{"_":') : -1]


def _details(view: WorkloadView) -> dict[str, Any]:
    nodes: dict[str, int] = {}
    for assignment in view.assignments:
        if assignment.placement is not None and assignment.placement.is_by_node:
            for node, count in assignment.placement.pods.items():
                nodes[node] = nodes.get(node, 0) + count
    by_name = {each.name: each for each in view.assignments}
    return {
        "job_uid": view.job_uid,
        "priority_class_kind": view.priority_class_kind,
        "pod_sets": [_pod_set(each, by_name.get(each.name), view) for each in view.pod_sets] or None,
        "conditions": {
            each.type: [each.status, format_instant(each.at) if each.at is not None else None]
            for each in view.conditions.values()
        }
        or None,
        "assigned": summed([each.usage for each in view.assignments], view.problems, "admission") or None,
        "nodes": nodes or None,
        "checks": [{"name": each.name, "state": each.state, "message": each.message} for each in view.checks] or None,
        "run_seconds_max": view.run_seconds_max,
        "unhealthy_nodes": list(view.unhealthy_nodes) or None,
        "preemption_gates": list(view.gates) or None,
        "owners_count": view.owners_count if view.owners_count > 1 else None,
        **view.clusters,
    }


def _pod_set(pod_set: PodSet, assignment: Assignment | None, view: WorkloadView) -> dict[str, Any]:
    found: dict[str, Any] = {"name": pod_set.name, "count": pod_set.count}
    if pod_set.min_count is not None:
        found["min_count"] = pod_set.min_count
    if pod_set.per_pod:
        found["per_pod"] = {name: milli for name, milli in pod_set.per_pod.items() if is_accelerator(name)}
    if pod_set.topology:
        found["topology"] = dict(pod_set.topology)
    if assignment is not None:
        found |= {"assigned_count": assignment.count, "flavors": dict(assignment.flavors)}
        if assignment.placement is not None and not assignment.placement.is_by_node:
            found["domains"] = dict(assignment.placement.pods)
    if pod_set.name in view.reclaimable:
        found["reclaimable"] = view.reclaimable[pod_set.name]
    return found


def _unknown_end(view: WorkloadView, ctx: ReadContext) -> Iterator[Fact]:
    finished = view.condition("Finished")
    if finished is not None and finished.is_true and finished.reason not in OUTCOMES:
        text = f"it finished for a reason that is in no table: {finished.reason}"
        yield ctx.finding(SOURCE, "finished_reason_unknown", view.subject, text, evidence={"reason": finished.reason})
