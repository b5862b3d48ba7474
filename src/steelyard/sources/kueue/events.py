"""Kueue's events as decisions, preemptions and refusals, from either encoding.

``app`` calls ``read_event`` per Event. The trick to know: the reasons are everyday words
(``Pending``, ``Admitted``, ``Preempted``), so an event is Kueue's only where its component or its subject says so; and an event may name a uid that
no object has, which is kept as it stands.

Sceptic's command: ``kubectl get events -A --field-selector involvedObject.kind=Workload``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.facts.preemption import Preemption
from steelyard.primitives.instant import format_instant
from steelyard.sources.kueue import messages
from steelyard.sources.kueue.conditions import SECOND_US, TEXT_MAX, columns_of, refusal_of
from steelyard.sources.kueue.messages import OLD_REASONS, WAITING_REASONS, PreemptionWords, Words
from steelyard.sources.kueue.workload_view import GROUP, SOURCE, name_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.event_view import EventView, parse_event
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import mapping_of

VICTIM_EVENT: Final = "victim_event"
EVICTION_EVENT: Final = "eviction_event"
PREEMPTOR_EVENT: Final = "preemptor_event"
_EVICTED: Final = "EvictedDueTo"
_MISCONFIGURED: Final = frozenset({"ErrWorkloadCompose", "JobNestingTooDeep", "WorkloadPriorityClassNotFound"})


def is_kueues(payload: Mapping[str, Any]) -> bool:
    """Whether Kueue sent the event, or it is about an object of Kueue's."""
    subject = mapping_of(payload.get("involvedObject")) or mapping_of(payload.get("regarding"))
    if str(subject.get("apiVersion", "")).startswith(f"{GROUP}/"):
        return True
    source = mapping_of(payload.get("source")) or mapping_of(payload.get("deprecatedSource"))
    names = (payload.get("reportingComponent"), payload.get("reportingController"), source.get("component"))
    return any(
        (isinstance(name, str) and name.startswith("kueue-")) or str(name).endswith("-kueue-controller")
        for name in names
    )


def read_event(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """The facts of one event: none where it is not Kueue's or decides nothing (``CreatedWorkload``, ``Started``, ``Deleted``). Raises
    SourceMalformed where no time at all can be read."""
    view = parse_event(payload) if is_kueues(payload) else None
    if view is None or view.reason is None:
        return
    reason = view.reason[:316]
    message = plain(view.message[: messages.MESSAGE_CHARACTERS_MAX]) if view.message else None
    if reason == "Preempted":
        yield from _preemption(view, message, VICTIM_EVENT, ctx)
        return
    if reason == "PreemptedWorkload":
        yield from _preemption(view, message, PREEMPTOR_EVENT, ctx)
        return
    words, details = _words(reason, message, view.subject_kind)
    if words is None:
        return
    rule = reason.removeprefix(_EVICTED) if reason.startswith(_EVICTED) else reason
    yield Decision(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=plain(view.key),
        occurred_at=view.occurred_at,
        observed_at=ctx.observed_at,
        subject_kind=name_of(view.subject_kind) or "Workload",
        subject_uid=name_of(view.subject_uid),
        namespace=name_of(view.subject_namespace),
        subject_name=name_of(view.subject_name),
        decided_by=name_of(view.component),
        **columns_of(words, plain(rule), message, **details),
        queue=words.queue,
        count=view.count,
        first_at=view.first_at,
        evidence="event",
    )
    yield from _beside(view, reason, words, message, ctx)


def _words(reason: str, message: str | None, subject_kind: str | None) -> tuple[Words | None, dict[str, object]]:
    """What an event decides, and what only events tell of it. ``Suspended`` is a workload's wait, of a job an everyday word."""
    if reason in ("QuotaReserved", "Admitted"):
        queue, seconds = messages.parse_reservation(message)
        verdict = messages.RESERVED if reason == "QuotaReserved" else messages.ADMITTED
        considered = (message or "").partition("; Flavors considered: ")[2][:1_000] or None
        details: dict[str, object] = {"waited_claimed_seconds": seconds, "flavors_considered": considered}
        return Words(verdict, queue=queue, unread=queue is None), details
    if (reason in WAITING_REASONS or reason in OLD_REASONS) and subject_kind == "Workload":
        return messages.parse_waiting(reason, message), {}
    if reason == "SecondPassFailed":
        return Words(messages.NOT_NOW, messages.PLACEMENT), {}
    if reason.startswith(_EVICTED):
        return messages.parse_eviction(reason.removeprefix(_EVICTED), message), {}
    if reason == "AdmissionCheckRejected":
        return messages.parse_rejection(message), {}
    if reason == "MaximumExecutionTimeExceeded":
        return Words(messages.DEACTIVATED, messages.POLICY), {}
    if reason in _MISCONFIGURED:
        return Words(messages.MISCONFIGURED, messages.OTHER), {}
    return None, {}


def _beside(view: EventView, reason: str, words: Words, message: str | None, ctx: ReadContext) -> Iterator[Fact]:
    """The refusal or preemption that a decision is as well."""
    if reason.startswith(f"{_EVICTED}Preempted"):
        yield from _preemption(view, message, EVICTION_EVENT, ctx)
    refused_by = {messages.REJECTED: "admission_check", messages.MISCONFIGURED: "misconfigured"}.get(words.verdict)
    if refused_by is not None:
        checks = words.details.get("checks") or [{}]
        rule = checks[0].get("name") if refused_by == "admission_check" else plain(reason)
        namespace, name = name_of(view.subject_namespace), name_of(view.subject_name)
        uid = name_of(view.subject_uid) or f"name:{namespace or 'default'}/{name}"
        about = (name_of(view.subject_kind) or "Workload", uid, namespace, name)
        yield refusal_of(refused_by, rule, message, about, None, view.occurred_at, ctx)


def _preemption(view: EventView, message: str | None, evidence: str, ctx: ReadContext) -> Iterator[Fact]:
    """A preemption by the event of one side; its subject is the victim, or of ``PreemptedWorkload`` the preemptor."""
    words = messages.parse_preemption(message)
    if words is None and evidence != VICTIM_EVENT:
        return
    words = words or PreemptionWords("unknown")
    uid, namespace, name = name_of(view.subject_uid), name_of(view.subject_namespace), name_of(view.subject_name)
    of_preemptor = evidence == PREEMPTOR_EVENT
    victim = words.victim_uid if of_preemptor else uid
    place = (words.victim_namespace, words.victim_name) if of_preemptor else (namespace, name)
    key = victim or f"name:{place[0] or 'default'}/{place[1]}"
    second = format_instant(view.occurred_at - view.occurred_at % SECOND_US)
    yield Preemption(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{key}/{second}/{evidence}",
        occurred_at=view.occurred_at,
        observed_at=ctx.observed_at,
        decided_by=SOURCE,
        cause=words.cause,
        victim_kind="Workload",
        victim_uid=victim,
        victim_namespace=place[0],
        victim_name=place[1],
        victim_queue=words.victim_queue,
        victim_priority=words.victim_priority,
        preemptor_kind="Workload",
        preemptor_uid=uid if of_preemptor else words.preemptor_uid,
        preemptor_job_uid=words.preemptor_job_uid,
        preemptor_namespace=namespace if of_preemptor else None,
        preemptor_name=name if of_preemptor else None,
        preemptor_queue=words.preemptor_queue,
        preemptor_priority=words.preemptor_priority,
        message=message[:TEXT_MAX] if message else None,
        evidence=evidence,
    )
