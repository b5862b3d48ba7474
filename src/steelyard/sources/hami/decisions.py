"""What HAMi's scheduler decided about pods, as decisions; and pods that ask for its resources but never reach it.

``app`` calls ``read_hami_event`` for every Event and ``read_pod_decision`` for every Pod. The trick to know: from 2.7 each reason comes as an event
of its own, so several decisions may be one refusal, and their nodes must not be summed; and a pod that names another scheduler is not HAMi's to
place, so it waits for ever or, worse, gets a whole card that nobody accounts.

Sceptic's command: ``kubectl get events -A --field-selector reason=FilteringFailed``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.sources.hami.events import BIND_FAILED, REFUSED, SCHEDULED, SchedulingOutcome, parse_scheduling_event
from steelyard.sources.hami.vendors import SOURCE
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.decisions import decision_of_event, decision_of_pod
from steelyard.sources.shared.event_view import parse_event
from steelyard.sources.shared.pods import PodView
from steelyard.sources.shared.scheduling_message import CARD_CAUSES, OTHER, SCHEDULER, weightiest

RESOURCES: Final = ("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores")
"""What only HAMi understands; ``nvidia.com/gpu`` alone is any device plugin's."""

_REASONS: Final = frozenset({"FilteringSucceed", "FilteringFailed", "BindingSucceed", "BindingFailed"})
_ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_NATIVE: Final = "default-scheduler"
_FOREIGN: Final = frozenset({_NATIVE, "volcano"})
"""HAMi's scheduler may be called anything, these two are certainly others."""


def read_hami_event(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """One Decision: ``reserved`` (a node was filtered and the cards written on the pod), ``bound``, or ``not_now`` with the cause of its
    weightiest reason code; nothing for other events and for pods that ask for no card. Raises SourceMalformed as ``parse_event``."""
    reason = payload.get("reason")
    if not isinstance(reason, str) or reason not in _REASONS:
        return
    view = parse_event(payload)
    outcome = parse_scheduling_event(reason, view.message or "", view.component or "")
    if outcome is None:
        return
    refused = outcome.outcome in (REFUSED, BIND_FAILED)
    yield decision_of_event(
        view,
        SOURCE,
        ctx,
        verdict="not_now" if refused else "bound" if reason == "BindingSucceed" else "reserved",
        cause=_cause(outcome) if refused else None,
        rule=_rule(outcome) if refused else None,
        node=outcome.node if outcome.outcome in (SCHEDULED, BIND_FAILED) else None,
        nodes_count=outcome.nodes_total_count,
        details=_details(outcome),
    )


def read_pod_decision(view: PodView, ctx: ReadContext) -> Iterator[Decision]:
    """``misconfigured`` for a living pod that asks for memory or cores of a card, names another scheduler, and got no allocation."""
    if view.phase in _ENDED or _ALLOCATED in view.annotations or (view.scheduler or _NATIVE) not in _FOREIGN:
        return
    named = sorted({name for each in view.containers for name in RESOURCES if name in each.resources})
    if named:
        yield decision_of_pod(
            view,
            SOURCE,
            ctx,
            aspect="schedulerName",
            at=view.created_at,
            verdict="misconfigured",
            decided_by=None,
            cause=SCHEDULER,
            rule="schedulerName",
            message=f"it asks for {', '.join(named)} and names {view.scheduler or _NATIVE}: HAMi's scheduler never sees it",
            resource=named[0],
            details={"scheduler": view.scheduler or _NATIVE, "resources": named},
        )


def _cause(outcome: SchedulingOutcome) -> str | None:
    if outcome.outcome == BIND_FAILED:
        return SCHEDULER
    if outcome.reasons:
        return weightiest(CARD_CAUSES.get(code, OTHER) for code in outcome.reasons)
    return outcome.waiting_cause


def _rule(outcome: SchedulingOutcome) -> str | None:
    """The reason code of the weightiest cause that most nodes stand under."""
    cause = _cause(outcome)
    told = [(-len(nodes), code) for code, nodes in outcome.reasons.items() if CARD_CAUSES.get(code, OTHER) == cause]
    return min(told)[1] if told else None


def _details(outcome: SchedulingOutcome) -> Mapping[str, Any]:
    return {
        "reasons": {code: len(nodes) for code, nodes in outcome.reasons.items()} or None,
        "nodes": {code: list(nodes[:16]) for code, nodes in outcome.reasons.items()} or None,
        "not_fit_nodes_count": outcome.not_fit_nodes_count,
        "retryable": outcome.retryable,
        "lock_expiry_seconds": outcome.lock_expiry_seconds,
        "grammar": outcome.grammar,
        "unread": outcome.message_unread or None,
    }
