"""Events of Volcano's scheduler and controllers as decisions and preemptions.

``app`` calls ``read_volcano_event`` for every Event; those of other components and reasons yield nothing. Its scheduler's ``FailedScheduling`` and
``Scheduled`` are the native ones and are read with those. The trick to know: an ``Evict`` says by which action, and only ``reclaim`` takes quota
back, while its condition calls everything a preemption; who had to be let in is recorded nowhere.

Sceptic's command: ``kubectl get events -A --field-selector source=volcano``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.facts.preemption import Preemption
from steelyard.primitives.instant import SECOND_US
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.decisions import TEXT_MAX, decision_of_event
from steelyard.sources.shared.event_view import EventView, parse_event
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.volcano.gang_message import SOURCE, parse_gang_message

_READ: Final = frozenset({"Unschedulable", "Scheduled", "Evict", "ExecuteAction", "CommandIssued", "PodGroupPending"})
_ACTION: Final = re.compile(r"Start to execute (?:action|command) (\w{1,40})")
_VERDICTS: Final = {
    "AbortJob": "deactivated",
    "TerminateJob": "evicted",
    "CompleteJob": "evicted",
    "RestartJob": "requeued",
    "RestartTask": "requeued",
    "RestartPod": "requeued",
    "RestartPartition": "requeued",
    "ResumeJob": "requeued",
}
ACTION_CAUSES: Final = {
    "preempt": "priority",
    "gangpreempt": "priority",
    "reclaim": "reclaim",
    "gangreclaim": "reclaim",
}
_EVICTED: Final = re.compile(r"because of (\w{1,40})")


def read_volcano_event(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """A Decision, a Preemption, or nothing. Raises SourceMalformed as ``parse_event``."""
    reason = payload.get("reason")
    if not isinstance(reason, str) or reason not in _READ:
        return
    view = parse_event(payload)
    if not (view.component or "").startswith(("volcano", "vc-")):
        return
    if reason == "Evict":
        yield from _evicted(view, ctx)
    elif reason in ("ExecuteAction", "CommandIssued"):
        yield from _action(view, ctx)
    elif view.subject_kind == "PodGroup" and reason == "Scheduled":
        yield decision_of_event(view, SOURCE, ctx, verdict="scheduled")
    elif reason != "Scheduled":
        yield _unschedulable(view, ctx)


def cause_of_action(action: str | None) -> str:
    """``priority``, ``reclaim``, or ``unknown`` for an action that moves pods for another purpose."""
    return ACTION_CAUSES.get(action or "", "unknown")


def action_of(message: str) -> str | None:
    """The action in ``Pod is evicted, because of reclaim``, or in a pod group's event, whose whole text it is."""
    found = _EVICTED.search(message[:TEXT_MAX])
    text = found.group(1) if found else message.strip()
    return text if 0 < len(text) <= 40 and text.isalnum() else None


def _unschedulable(view: EventView, ctx: ReadContext) -> Decision:
    read = parse_gang_message(view.message or "")
    return decision_of_event(
        view,
        SOURCE,
        ctx,
        verdict="not_now",
        cause=None if read.unread else read.cause(),
        rule=read.rule,
        resource=read.resource,
        nodes_count=read.nodes_count,
        details=read.details(),
    )


def _action(view: EventView, ctx: ReadContext) -> Iterator[Decision]:
    found = _ACTION.search((view.message or "")[:TEXT_MAX])
    action = found.group(1) if found else None
    verdict = _VERDICTS.get(action or "")
    if verdict is not None:
        by = "operator" if view.reason == "CommandIssued" else "policy"
        yield decision_of_event(view, SOURCE, ctx, verdict=verdict, cause="policy", rule=action, details={"by": by})


def _evicted(view: EventView, ctx: ReadContext) -> Iterator[Preemption]:
    if view.subject_kind not in ("Pod", "PodGroup"):
        return
    action = action_of(view.message or "")
    if action == "shuffle":
        return  # pods are moved together, for nobody
    victim = view.subject_uid or f"{view.subject_namespace}/{view.subject_name}"
    yield Preemption(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=plain(f"{victim}/{view.occurred_at // SECOND_US}/victim_event"),
        occurred_at=view.occurred_at,
        observed_at=ctx.observed_at,
        decided_by="volcano",
        cause=cause_of_action(action),
        victim_kind=view.subject_kind,
        victim_uid=view.subject_uid,
        victim_namespace=view.subject_namespace,
        victim_name=view.subject_name,
        message=plain((view.message or "")[:TEXT_MAX]) or None,
        evidence="victim_event",
    )
