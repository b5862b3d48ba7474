"""Events about pods as decisions, preemptions and refusals: the scheduler's, the kubelet's at admission, and controllers that may not create.

``app`` calls ``read_scheduler_event`` for every Event; whatever has another reason yields nothing. The trick to know: these reasons are the same
under every scheduler that is built on the native one, whatever it is called, so the component says who decided and is no filter; only
``Preempted`` has a namesake, Kueue's, which is about a Workload.

Sceptic's command: ``kubectl get events -A --field-selector involvedObject.kind=Pod``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.facts.preemption import Preemption
from steelyard.facts.refusal import Refusal
from steelyard.primitives.instant import SECOND_US
from steelyard.sources.kube_scheduler.kubelet_words import REJECTIONS, parse_rejection
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.decisions import TEXT_MAX, decision_of_event
from steelyard.sources.shared.event_view import EventView, parse_event
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.refusal_message import bare, parse_refusal
from steelyard.sources.shared.scheduling_message import parse_scheduling_message

SOURCE: Final = "kube_scheduler"

_ASSIGNED: Final = re.compile(r"Successfully assigned (?:[^\s/]{1,253}/)?[^\s]{1,253} to ([^\s]{1,253})")
_PREEMPTED: Final = re.compile(
    r"Preempted by (?:a pod|pod ([^\s]{1,253})|([^\s/]{1,253})/([^\s]{1,253}))(?: on node ([^\s]{1,253}))?"
)
_READ: Final = frozenset({"FailedScheduling", "Scheduled", "Preempted", "FailedCreate", *REJECTIONS})


def read_scheduler_event(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """A Decision (``scheduled``, ``not_now``, ``rejected``), a Preemption, a Refusal, or nothing. Raises SourceMalformed as ``parse_event``."""
    reason = payload.get("reason")
    if not isinstance(reason, str) or (reason not in _READ and not reason.startswith("OutOf")):
        return
    view = parse_event(payload)
    if reason == "FailedCreate":
        yield from _refusal(view, ctx)
    elif view.subject_kind != "Pod":
        return
    elif reason == "FailedScheduling":
        yield _unschedulable(view, ctx)
    elif reason == "Scheduled":
        found = _ASSIGNED.search(_text(view))
        node = found.group(1) if found else None
        yield decision_of_event(
            view, SOURCE, ctx, verdict="scheduled", node=node, details={"unread": found is None or None}
        )
    elif reason == "Preempted":
        yield _preemption(view, ctx)
    elif view.component == "kubelet":
        yield _rejected(view, ctx)


def _text(view: EventView) -> str:
    return (view.message or "")[:TEXT_MAX]


def _unschedulable(view: EventView, ctx: ReadContext) -> Decision:
    read = parse_scheduling_message(view.message or "")
    return decision_of_event(
        view,
        SOURCE,
        ctx,
        verdict="not_now",
        cause=None if read.unread else read.cause,
        rule=read.rule,
        resource=read.resource,
        nodes_count=read.nodes_total_count,
        details=read.details(),
    )


def _rejected(view: EventView, ctx: ReadContext) -> Decision:
    read = parse_rejection(view.reason or "", _text(view))
    return decision_of_event(
        view,
        SOURCE,
        ctx,
        verdict="rejected",
        cause=read.cause,
        rule=view.reason,
        node=view.host or view.instance,
        resource=read.resource,
        asked_milli=read.asked_milli,
        details={"available_milli": read.available_milli},
    )


def _preemption(view: EventView, ctx: ReadContext) -> Preemption:
    found = _PREEMPTED.search(_text(view))
    uid, namespace, name, node = found.groups() if found else (None, None, None, None)
    related = view.related
    victim = view.subject_uid or f"{view.subject_namespace}/{view.subject_name}"
    return Preemption(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=plain(f"{victim}/{view.occurred_at // SECOND_US}/victim_event"),
        occurred_at=view.occurred_at,
        observed_at=ctx.observed_at,
        decided_by="kube-scheduler",
        cause="priority",
        victim_kind="Pod",
        victim_uid=view.subject_uid,
        victim_namespace=view.subject_namespace,
        victim_name=view.subject_name,
        preemptor_kind=related.get("kind") or ("Pod" if uid or name else None),
        preemptor_uid=related.get("uid") or uid,
        preemptor_namespace=related.get("namespace") or namespace,
        preemptor_name=related.get("name") or name,
        node=node,
        message=plain(_text(view)) or None,
        evidence="victim_event",
    )


def _refusal(view: EventView, ctx: ReadContext) -> Iterator[Refusal]:
    """A controller that may not create: its words quote the API server's."""
    read = parse_refusal(_text(view))
    if read is None:
        return
    owner = f"{view.subject_kind} {view.subject_name}" if view.subject_kind and view.subject_name else None
    resource = read.resource
    yield Refusal(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=plain(view.key),
        occurred_at=view.occurred_at,
        observed_at=ctx.observed_at,
        refused_by=read.refused_by,
        verb="create",
        user=view.component,
        subject_kind="Pod" if read.subject in (None, "pods") else str(read.subject),
        namespace=view.subject_namespace,
        owner=owner,
        rule=read.rule,
        quota=read.quota,
        resource=bare(resource) if resource else None,
        asked_milli=read.asked.get(resource) if resource else None,
        used_milli=read.used.get(resource) if resource else None,
        limit_milli=read.limit.get(resource) if resource else None,
        message=plain(_text(view)) or None,
        count=view.count,
    )
