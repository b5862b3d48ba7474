"""A Kubernetes event as a fact.

``app`` calls ``read_event`` per Event object; ``sources/shared/event_view`` reads both encodings.

Sceptic's command: ``kubectl get events -A -o json`` (and ``kubectl get events.events.k8s.io -A -o json``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.event import Event
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.event_view import EventView, parse_event
from steelyard.sources.shared.pods import text_of

SOURCE: Final = "kube_api"
MESSAGE_CHARACTERS_MAX: Final = 16_384

_ENCODE: Final = msgspec.json.Encoder(order="sorted").encode


def read_event(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """One Event of kind ``kubernetes``: occurred_at = its last time, first_at = its first, count = how often (1 where not said).

    severity: ``Normal`` or ``Warning`` as written. node: the reporting host, else the node it is about. details: action, related object,
    field path, reporting instance, API version of the subject. Raises SourceMalformed where no time at all can be read.
    """
    view = parse_event(payload)
    yield Event(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=view.key,
        occurred_at=view.occurred_at,
        observed_at=ctx.observed_at,
        kind="kubernetes",
        reason=view.reason,
        message=view.message[:MESSAGE_CHARACTERS_MAX] if view.message else None,
        component=view.component,
        severity=view.severity,
        count=view.count,
        first_at=view.first_at,
        node=_node(view),
        subject_kind=view.subject_kind,
        subject_namespace=view.subject_namespace,
        subject_name=view.subject_name,
        subject_uid=view.subject_uid,
        details=_details(view),
    )
    if view.problems:
        text = "; ".join(view.problems[:3])
        yield ctx.finding(
            SOURCE, "stamp_malformed", f"event {view.key}", text, evidence={"problems": list(view.problems)}
        )


def _node(view: EventView) -> str | None:
    if view.host is not None:
        return view.host
    if view.subject_kind == "Node":
        return view.subject_name
    return view.instance if view.component == "kubelet" else None


def _details(view: EventView) -> str:
    found = {
        "action": view.action,
        "api_version": text_of(view.subject.get("apiVersion")),
        "field_path": text_of(view.subject.get("fieldPath")),
        "related": view.related if len(view.related) <= 16 else None,
        "reporting_instance": view.instance,
    }
    try:
        return _ENCODE({key: value for key, value in found.items() if value}).decode()
    except UnicodeEncodeError:
        return "{}"
