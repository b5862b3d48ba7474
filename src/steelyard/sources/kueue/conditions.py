"""A workload's conditions and checks as decisions, preemptions and refusals.

The trick to know: a condition keeps only its last flip. An eviction that was overwritten at the next reservation stays as ``Previously: ...``
under the stamp of that reservation, so it is told as having been *before*; and the words of a waiting workload may change under an old stamp.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.facts.preemption import Preemption
from steelyard.facts.refusal import Refusal
from steelyard.primitives.instant import Instant, format_instant
from steelyard.sources.kueue import messages
from steelyard.sources.kueue.messages import PREVIOUSLY, Words, shown
from steelyard.sources.kueue.workload_view import SOURCE, Check, Condition, WorkloadView
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.resource_amounts import to_json

CONDITION: Final = "condition"
STATED: Final = "stated"
BEFORE: Final = "before"
TEXT_MAX: Final = 4_096
SECOND_US: Final = 1_000_000


def read_conditions(view: WorkloadView, ctx: ReadContext) -> Iterator[Fact]:
    """What the conditions decide, each at its own stamp; where that cannot be read, at the sighting."""
    for condition in view.conditions.values():
        words = _words(condition)
        if words is not None:
            yield _decision(condition.type, condition.reason, condition.message, condition.at, words, view, ctx)
        if condition.type == "QuotaReserved" and words is not None and words.verdict == messages.MISCONFIGURED:
            yield _refusal("misconfigured", condition.reason, condition.message, condition.at, view, ctx)
    yield from _checks(view, ctx)
    yield from _preemptions(view, ctx)


def _words(condition: Condition) -> Words | None:
    """What a condition decides; None where it decides nothing, or only repeats another."""
    name, reason, message = condition.type, condition.reason or "", condition.message
    if name == "QuotaReserved":
        if not condition.is_true:
            return messages.parse_waiting(reason, message)
        return Words(messages.RESERVED, queue=messages.parse_reservation(message)[0])
    if name == "Admitted":
        if condition.is_true:
            return Words(messages.ADMITTED)
        if reason == "PendingDelayedTopologyRequests":
            return Words(messages.NOT_NOW, messages.PLACEMENT)
        return (
            Words(messages.NOT_NOW, messages.CHECK)
            if "UnsatisfiedAdmissionChecks" in reason or reason in _OLD_CHECKS
            else None
        )
    if name == "Evicted" and condition.is_true:
        return messages.parse_eviction(reason, message)
    if name == "Requeued" and condition.is_true:
        return Words(messages.REQUEUED)
    if name == "BlockedOnPreemptionGates" and condition.is_true:
        return Words(messages.NOT_NOW, messages.GATE)
    return None


_OLD_CHECKS: Final = frozenset({"UnsatisfiedChecks", "NoReservationUnsatisfiedChecks"})


def _decision(
    name: str,
    reason: str | None,
    message: str | None,
    at: Instant | None,
    words: Words,
    view: WorkloadView,
    ctx: ReadContext,
) -> Decision:
    digest = hashlib.sha256(f"{reason or ''}\0{message or ''}".encode("utf-8", "replace")).hexdigest()[:12]
    when = format_instant(at) if at is not None else "-"
    return Decision(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{view.uid}/{name}/{when}/{digest}",
        occurred_at=ctx.observed_at if at is None else at,
        observed_at=ctx.observed_at,
        subject_kind="Workload",
        subject_uid=view.uid if view.has_uid else None,
        namespace=view.namespace,
        subject_name=view.name,
        decided_by=SOURCE,
        **columns_of(words, reason, message),
        queue=words.queue or view.cluster_queue,
        first_at=at,
        evidence=CONDITION,
    )


def columns_of(words: Words, reason: str | None, message: str | None, **details: Any) -> dict[str, Any]:
    """The columns of a Decision that a message fills, whoever carries it."""
    shortage = words.shortage
    return {
        "verdict": words.verdict,
        "cause": words.cause,
        "rule": reason,
        "resource": shortage.resource if shortage else None,
        "flavor": shortage.flavor if shortage else None,
        "asked_milli": shortage.asked_milli if shortage else None,
        "missing_milli": shortage.missing_milli if shortage else None,
        "limit_milli": shortage.limit_milli if shortage else None,
        "reason": reason,
        "message": message[:TEXT_MAX] if message else None,
        "details": to_json({**shown(words), **details}),
    }


def _refusal(
    refused_by: str, rule: str | None, message: str | None, at: Instant | None, view: WorkloadView, ctx: ReadContext
) -> Refusal:
    about = ("Workload", view.uid, view.namespace, view.name)
    return refusal_of(refused_by, rule, message, about, _owner(view.controller), at, ctx)


def refusal_of(
    refused_by: str,
    rule: str | None,
    message: str | None,
    about: tuple[str, str, str | None, str | None],
    owner: str | None,
    at: Instant | None,
    ctx: ReadContext,
) -> Refusal:
    """The refusal of a workload, under one key whether its object or an event tells of it: both are one refused demand. about: kind, uid,
    namespace and name."""
    kind, uid, namespace, name = about
    return Refusal(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{uid}/{refused_by}",
        occurred_at=ctx.observed_at if at is None else at,
        observed_at=ctx.observed_at,
        refused_by=refused_by,
        verb="admit",
        subject_kind=kind,
        namespace=namespace,
        subject_name=name,
        owner=owner,
        rule=rule,
        message=message[:TEXT_MAX] if message else None,
    )


def _owner(controller: Mapping[str, str]) -> str | None:
    kind, name = controller.get("kind"), controller.get("name")
    return f"{kind} {name}" if kind and name else None


def _checks(view: WorkloadView, ctx: ReadContext) -> Iterator[Fact]:
    """A check that says no, as long as it does, and the eviction that keeps its words when the check itself is reset."""
    rejected: Check | None = None
    for check in view.checks:
        if check.state == "Rejected":
            rejected = rejected or check
            words = Words(messages.REJECTED, messages.CHECK, details={"check": check.name})
            yield _decision(f"check:{check.name}", check.state, check.message, check.at, words, view, ctx)
        elif check.state == "Retry":
            words = Words(messages.NOT_NOW, messages.CHECK, details={"check": check.name})
            yield _decision(f"check:{check.name}", check.state, check.message, check.at, words, view, ctx)
    evicted = view.condition("Evicted")
    if evicted is not None and evicted.is_true and evicted.reason == "DeactivatedDueToAdmissionCheck":
        named = messages.parse_rejection(evicted.message).details.get("checks", [])
        rule = named[0]["name"] if named else None
        yield _refusal("admission_check", rule, evicted.message, evicted.at, view, ctx)
    elif rejected is not None:
        yield _refusal("admission_check", rejected.name, rejected.message, rejected.at, view, ctx)


def _preemptions(view: WorkloadView, ctx: ReadContext) -> Iterator[Fact]:
    """The last preemption that the object still tells of: by Preempted, else by Evicted; overwritten ones as having been before."""
    for name in ("Preempted", "Evicted"):
        condition = view.condition(name)
        if condition is None or (name == "Evicted" and condition.is_true and condition.reason != "Preempted"):
            continue
        words = messages.parse_preemption(condition.message, condition.reason)
        if words is None:
            continue
        overwritten = not condition.is_true or (condition.message or "").startswith(PREVIOUSLY)
        at = ctx.observed_at if condition.at is None else condition.at
        second = format_instant(condition.at - condition.at % SECOND_US) if condition.at is not None else "-"
        yield Preemption(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=f"{view.uid}/{second}/{CONDITION}",
            occurred_at=at,
            observed_at=ctx.observed_at,
            decided_by=SOURCE,
            cause=words.cause,
            victim_kind="Workload",
            victim_uid=view.uid if view.has_uid else None,
            victim_namespace=view.namespace,
            victim_name=view.name,
            victim_queue=words.victim_queue or view.cluster_queue,
            preemptor_kind="Workload",
            preemptor_uid=words.preemptor_uid,
            preemptor_job_uid=words.preemptor_job_uid,
            preemptor_queue=words.preemptor_queue,
            message=condition.message[:TEXT_MAX] if condition.message else None,
            evidence=CONDITION,
            time_basis=BEFORE if overwritten else STATED,
        )
        return
