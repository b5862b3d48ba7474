"""What a pod's own status says about its scheduling: unschedulable and why, held by a gate, turned away by its kubelet, preempted.

``app`` calls ``read_pod_scheduling`` with a pod that is parsed once for all readers. The trick to know: while a scheduling gate stands, the wait
is that of whoever set the gate, and the scheduler has not looked at the pod; and the stamp of ``PodScheduled=False`` stays at the first
failure while its message may be newer, so equal stamps with different words are different sightings.

Sceptic's command: ``kubectl get pod POD -o jsonpath='{.status.conditions}'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.primitives.instant import Instant
from steelyard.sources.kube_scheduler.events import SOURCE
from steelyard.sources.kube_scheduler.kubelet_words import REJECTIONS, parse_rejection
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.decisions import decision_of_pod, is_of_volcano, preemption_of_pod
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import PodView, instant_of, list_of, mapping_of, text_of
from steelyard.sources.shared.scheduling_message import SCHEDULER, SchedulingMessage, parse_scheduling_message

GATES_MAX: Final = 32
PREEMPTED: Final = ("DisruptionTarget", "True", "PreemptionByScheduler")
_KUEUE: Final = "kueue.x-k8s.io/"


def read_pod_scheduling(view: PodView, ctx: ReadContext) -> Iterator[Fact]:
    """Decisions and a Preemption, by the pod's conditions and status; nothing for a pod that was placed and left alone."""
    for condition in view.conditions:
        kind, value = condition.get("type"), condition.get("status")
        if kind == "PodScheduled" and value == "False":
            at = instant_of(condition.get("lastTransitionTime"), [], "")
            yield from _waiting(view, condition, text_of(condition.get("reason")), at, ctx)
        elif (kind, value, condition.get("reason")) == PREEMPTED and not is_of_volcano(view, condition):
            at = instant_of(condition.get("lastTransitionTime"), [], "")
            yield preemption_of_pod(view, SOURCE, "kube-scheduler", "priority", at, condition, ctx)
    reason = view.status_reason
    if view.phase != "Failed" or reason is None or any(container.has_run for container in view.containers):
        return  # the reason of a pod that had run is its kubelet's restart
    if reason in REJECTIONS or reason.startswith("OutOf"):
        message = text_of(mapping_of(view.raw.get("status")).get("message")) or ""
        read = parse_rejection(reason, message)
        yield decision_of_pod(
            view,
            SOURCE,
            ctx,
            aspect="status",
            at=view.started_at or view.created_at,
            verdict="rejected",
            decided_by="kubelet",
            cause=read.cause,
            rule=reason,
            reason=reason,
            message=message,
            node=view.node,
            resource=read.resource,
            asked_milli=read.asked_milli,
            details={"available_milli": read.available_milli},
        )


def _waiting(
    view: PodView, condition: Mapping[str, Any], reason: str | None, at: Instant | None, ctx: ReadContext
) -> Iterator[Decision]:
    message = text_of(condition.get("message")) or ""
    if reason == "SchedulingGated":
        gates = [
            plain(name[:316])
            for gate in list_of(mapping_of(view.raw.get("spec")).get("schedulingGates"))[:GATES_MAX]
            if (name := text_of(gate.get("name")))
        ]
        by_kueue = any(gate.startswith(_KUEUE) for gate in gates)
        yield decision_of_pod(
            view,
            SOURCE,
            ctx,
            aspect="PodScheduled",
            at=at,
            verdict="not_now",
            decided_by="kueue" if by_kueue else None,
            cause="gate",
            rule=gates[0] if gates else None,
            reason=reason,
            message=message,
            details={"gates": gates or None},
        )
        return
    read = parse_scheduling_message(message)
    yield decision_of_pod(
        view,
        SOURCE,
        ctx,
        aspect="PodScheduled",
        at=at,
        verdict="not_now",
        decided_by=view.scheduler,
        cause=_cause(read, reason),
        rule=read.rule,
        reason=reason,
        message=message,
        resource=read.resource,
        nodes_count=read.nodes_total_count,
        details=read.details(),
    )


def _cause(read: SchedulingMessage, reason: str | None) -> str | None:
    """A scheduler that failed itself (``SchedulerError``) is its own cause; words that are no known sentence tell none."""
    if reason == "SchedulerError":
        return SCHEDULER
    return None if read.unread else read.cause
