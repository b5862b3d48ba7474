"""Decisions and preemptions as facts, from an event that is parsed and from a pod's own words: one form for every system that decides about pods.

The trick to know: an event repeats under one uid and is dated at its last time; a condition keeps the stamp of its last flip while its words
change, so its words are part of its key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from steelyard.facts.decision import Decision
from steelyard.facts.preemption import Preemption
from steelyard.primitives.instant import SECOND_US, Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.event_view import EventView
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import PodView, text_of
from steelyard.sources.shared.resource_amounts import to_json

TEXT_MAX: Final = 4_096
VOLCANO: Final = "volcano"


def decision_of_event(
    view: EventView,
    source: str,
    ctx: ReadContext,
    *,
    verdict: str,
    cause: str | None = None,
    rule: str | None = None,
    node: str | None = None,
    resource: str | None = None,
    asked_milli: int | None = None,
    nodes_count: int | None = None,
    details: Mapping[str, Any] | None = None,
) -> Decision:
    """The decision that an event tells, dated at its last time."""
    return Decision(
        cluster=ctx.cluster,
        source=source,
        natural_key=plain(view.key),
        occurred_at=view.occurred_at,
        observed_at=ctx.observed_at,
        subject_kind=view.subject_kind or "",
        subject_uid=view.subject_uid,
        namespace=view.subject_namespace,
        subject_name=view.subject_name,
        decided_by=view.component,
        verdict=verdict,
        cause=cause,
        rule=rule,
        node=node,
        resource=resource,
        asked_milli=asked_milli,
        nodes_count=nodes_count,
        count=view.count,
        first_at=view.first_at,
        reason=view.reason,
        message=plain((view.message or "")[:TEXT_MAX]) or None,
        evidence="event",
        details=to_json(details or {}),
    )


def decision_of_pod(
    view: PodView,
    source: str,
    ctx: ReadContext,
    *,
    aspect: str,
    at: Instant | None,
    verdict: str,
    decided_by: str | None,
    cause: str | None,
    rule: str | None = None,
    reason: str | None = None,
    message: str | None = None,
    node: str | None = None,
    resource: str | None = None,
    asked_milli: int | None = None,
    nodes_count: int | None = None,
    details: Mapping[str, Any] | None = None,
) -> Decision:
    """A decision that a pod's object tells; without a stamp it is as of the sighting."""
    text = plain((message or "")[:TEXT_MAX])
    digest = hashlib.sha256(f"{reason}\0{text}".encode()).hexdigest()[:12]
    return Decision(
        cluster=ctx.cluster,
        source=source,
        natural_key=plain(f"{view.uid}/{aspect}/{'-' if at is None else at}/{digest}"),
        occurred_at=ctx.observed_at if at is None else at,
        observed_at=ctx.observed_at,
        subject_kind="Pod",
        subject_uid=view.uid,
        namespace=view.namespace,
        subject_name=view.name,
        decided_by=decided_by,
        verdict=verdict,
        cause=cause,
        rule=rule,
        node=node,
        resource=resource,
        asked_milli=asked_milli,
        nodes_count=nodes_count,
        reason=plain(reason[:316]) if reason else None,
        message=text or None,
        evidence="condition",
        details=to_json(details or {}),
    )


def is_of_volcano(view: PodView, condition: Mapping[str, Any]) -> bool:
    """Whether Volcano wrote the condition: it uses the native scheduler's reason, also where it takes quota back."""
    message = condition.get("message")
    return view.scheduler == VOLCANO or (isinstance(message, str) and message.startswith(f"{VOLCANO}:"))


def preemption_of_pod(
    view: PodView, source: str, by: str, cause: str, at: Instant | None, condition: Mapping[str, Any], ctx: ReadContext
) -> Preemption:
    """The preemption that a victim's own condition tells; who had to be let in does not stand there."""
    message = text_of(condition.get("message"))
    when = ctx.observed_at if at is None else at
    return Preemption(
        cluster=ctx.cluster,
        source=source,
        natural_key=plain(f"{view.uid}/{'-' if at is None else at // SECOND_US}/condition"),
        occurred_at=when,
        observed_at=ctx.observed_at,
        decided_by=by,
        cause=cause,
        victim_kind="Pod",
        victim_uid=view.uid,
        victim_namespace=view.namespace,
        victim_name=view.name,
        victim_priority=view.priority,
        node=view.node,
        message=plain(message[:TEXT_MAX]) if message else None,
        evidence="condition",
    )
