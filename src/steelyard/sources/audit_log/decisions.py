"""Audit events that decided about a pod: bound to a node, evicted through the API, preempted by a scheduler.

``AuditReader`` asks one ``AuditDecisions`` about each finished request. The trick to know: a preemption is two requests, a patch of the victim's
status and its deletion, so it is counted once: at the patch where its body says so, else at the deletion, which no scheduler does for anything
else.

Sceptic's command: ``jq -c 'select(.objectRef.resource=="pods" and .verb=="delete") | .user.username' audit.log``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.audit_event import AuditEvent
from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.facts.preemption import Preemption
from steelyard.primitives.instant import SECOND_US, Instant
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, list_of, mapping_of, text_of

VICTIMS_MAX: Final = 10_000
_VOLCANO_AGENT: Final = "vc-scheduler/"
_VOLCANO_ACCOUNT: Final = ":volcano-scheduler"
_NATIVE_AGENT: Final = "kube-scheduler/"
_NATIVE_USER: Final = "system:kube-scheduler"


class AuditDecisions:
    """Remembers whose preemption was told already, so that the deletion that follows is no second one. One per file, round or request."""

    def __init__(self) -> None:
        self._told: dict[tuple[str | None, str | None], Instant] = {}

    def of(self, event: Mapping[str, Any], fact: AuditEvent) -> Iterator[Fact]:
        """The Decision or Preemption behind an event that was carried out; nothing for any other. ``fact``: the same event, read."""
        code = fact.response_code
        if fact.stage != "ResponseComplete" or fact.resource != "pods" or code is None or not 200 <= code < 300:
            return
        if fact.verb == "create" and fact.subresource == "binding":
            yield _bound(event, fact)
        elif fact.verb == "create" and fact.subresource == "eviction":
            yield _decision(fact, "evicted", cause="policy", rule="EvictionByEvictionAPI")
        elif fact.subresource == "status" and fact.verb in ("patch", "update", "apply"):
            yield from self._disrupted(event, fact)
        elif fact.verb == "delete" and fact.subresource is None:
            yield from self._deleted(fact)

    def _disrupted(self, event: Mapping[str, Any], fact: AuditEvent) -> Iterator[Preemption]:
        for condition in list_of(mapping_of(mapping_of(event.get("requestObject")).get("status")).get("conditions")):
            if (condition.get("type"), condition.get("status")) != ("DisruptionTarget", "True"):
                continue
            if condition.get("reason") == "PreemptionByScheduler":
                at = instant_of(condition.get("lastTransitionTime"), [], "") or fact.occurred_at
                yield self._preemption(fact, at, _scheduler(fact) or "kube-scheduler", condition)

    def _deleted(self, fact: AuditEvent) -> Iterator[Preemption]:
        by = _scheduler(fact)
        if by is not None and self._told.pop((fact.namespace, fact.name), None) is None:
            yield self._preemption(fact, fact.occurred_at, by, {})

    def _preemption(self, fact: AuditEvent, at: Instant, by: str, condition: Mapping[str, Any]) -> Preemption:
        if condition:
            if len(self._told) >= VICTIMS_MAX:
                del self._told[next(iter(self._told))]  # its deletion came long ago
            self._told[fact.namespace, fact.name] = at
        message = text_of(condition.get("message"))
        victim = fact.uid or f"{fact.namespace}/{fact.name}"
        return Preemption(
            cluster=fact.cluster,
            source=fact.source,
            natural_key=f"{victim}/{at // SECOND_US}/audit",
            occurred_at=at,
            observed_at=fact.observed_at,
            decided_by=by,
            cause="priority" if by == "kube-scheduler" else "unknown",
            victim_kind="Pod",
            victim_uid=fact.uid,
            victim_namespace=fact.namespace,
            victim_name=fact.name,
            message=plain(message[:1_000]) if message else None,
            evidence="audit",
        )


def _scheduler(fact: AuditEvent) -> str | None:
    """Which scheduler asked, by its account or by the program's name; None where it was none."""
    user, agent = fact.user or "", fact.user_agent or ""
    if user.endswith(_VOLCANO_ACCOUNT) or agent.startswith(_VOLCANO_AGENT):
        return "volcano"
    return "kube-scheduler" if user == _NATIVE_USER or agent.startswith(_NATIVE_AGENT) else None


def _bound(event: Mapping[str, Any], fact: AuditEvent) -> Decision:
    target = mapping_of(mapping_of(event.get("requestObject")).get("target"))
    node = text_of(target.get("name"))
    return _decision(fact, "bound", node=plain(node[:316]) if node else None)


def _decision(
    fact: AuditEvent, verdict: str, *, cause: str | None = None, rule: str | None = None, node: str | None = None
) -> Decision:
    return Decision(
        cluster=fact.cluster,
        source=fact.source,
        natural_key=fact.audit_id,
        occurred_at=fact.occurred_at,
        observed_at=fact.observed_at,
        subject_kind="Pod",
        subject_uid=fact.uid,
        namespace=fact.namespace,
        subject_name=fact.name,
        decided_by=fact.impersonated_user or fact.user,
        verdict=verdict,
        cause=cause,
        rule=rule,
        node=node,
        evidence="audit",
    )
