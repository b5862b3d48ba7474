"""A Kubernetes event as a fact, from either of its two encodings.

``app`` calls ``read_event`` per Event object. The trick to know: the old recorder fills ``count`` and first/lastTimestamp, the new one
``eventTime`` and ``series`` and leaves the old fields null; ``events.k8s.io`` shows the old ones under ``deprecated*`` names. The last
time that any of them tells is when the event occurred last.

Sceptic's command: ``kubectl get events -A -o json`` (and ``kubectl get events.events.k8s.io -A -o json``).
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.event import Event
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import instant_of, integer_of, mapping_of, text_of

SOURCE: Final = "kube_api"
MESSAGE_CHARACTERS_MAX: Final = 16_384

_ENCODE: Final = msgspec.json.Encoder(order="sorted").encode


def read_event(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """One Event of kind ``kubernetes``: occurred_at = its last time, first_at = its first, count = how often (1 where not said).

    severity: ``Normal`` or ``Warning`` as written. node: the reporting host, else the node it is about. details: action, related object,
    field path, reporting instance, API version of the subject. Raises SourceMalformed where no time at all can be read.
    """
    metadata, series = mapping_of(payload.get("metadata")), mapping_of(payload.get("series"))
    subject = mapping_of(payload.get("involvedObject")) or mapping_of(payload.get("regarding"))
    source = mapping_of(payload.get("source")) or mapping_of(payload.get("deprecatedSource"))
    problems: list[str] = []
    first, last = _times(payload, series, metadata, problems)
    if last is None:
        said = "; ".join(problems[:3]) or "none of eventTime, series, lastTimestamp and firstTimestamp is there"
        raise SourceMalformed(f"expected a time in an Event: {said}", excerpt=reprlib.repr(payload))
    kind, name = text_of(subject.get("kind")), text_of(subject.get("name"))
    instance = text_of(payload.get("reportingInstance"))
    component = text_of(payload.get("reportingComponent")) or text_of(payload.get("reportingController"))
    component = component or text_of(source.get("component"))
    key = text_of(metadata.get("uid")) or _own_key(metadata, subject, payload)
    message = text_of(payload.get("message")) or text_of(payload.get("note"))
    yield Event(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=key,
        occurred_at=last,
        observed_at=ctx.observed_at,
        kind="kubernetes",
        reason=text_of(payload.get("reason")),
        message=message[:MESSAGE_CHARACTERS_MAX] if message else None,
        component=component,
        severity=text_of(payload.get("type")),
        count=_count(payload, series),
        first_at=first,
        node=_node(source, kind, name, component, instance),
        subject_kind=kind,
        subject_namespace=text_of(subject.get("namespace")),
        subject_name=name,
        subject_uid=text_of(subject.get("uid")),
        details=_details(payload, subject, instance),
    )
    if problems:
        text = "; ".join(problems[:3])
        yield ctx.finding(SOURCE, "stamp_malformed", f"event {key}", text, evidence={"problems": problems})


def _times(
    payload: Mapping[str, Any], series: Mapping[str, Any], metadata: Mapping[str, Any], problems: list[str]
) -> tuple[int | None, int | None]:
    first: list[int] = []
    last: list[int] = []
    for names, into in (
        (("eventTime", "firstTimestamp", "deprecatedFirstTimestamp"), first),
        (("lastTimestamp", "deprecatedLastTimestamp"), last),
    ):
        for name in names:
            at = instant_of(payload.get(name), problems, name)
            if at is not None:
                into.append(at)
    observed = instant_of(series.get("lastObservedTime"), problems, "series.lastObservedTime")
    if observed is not None:
        last.append(observed)
    if not first and not last:
        created = instant_of(metadata.get("creationTimestamp"), problems, "metadata.creationTimestamp")
        first = [] if created is None else [created]
    return min(first, default=None), max(first + last, default=None)


def _count(payload: Mapping[str, Any], series: Mapping[str, Any]) -> int:
    for value in (series.get("count"), payload.get("count"), payload.get("deprecatedCount")):
        count = integer_of(value)
        if count is not None and count > 0:
            return count
    return 1


def _node(
    source: Mapping[str, Any], kind: str | None, name: str | None, component: str | None, instance: str | None
) -> str | None:
    host = text_of(source.get("host"))
    if host is not None:
        return host
    if kind == "Node":
        return name
    return instance if component == "kubelet" else None


def _own_key(metadata: Mapping[str, Any], subject: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
    """A key made of the event's own fields, where it has no uid."""
    place = subject.get("namespace"), subject.get("kind"), subject.get("name"), payload.get("reason")
    parts = [text_of(metadata.get("namespace")), text_of(metadata.get("name")), *(text_of(part) for part in place)]
    return "/".join(part or "-" for part in parts)[:1_024]


def _details(payload: Mapping[str, Any], subject: Mapping[str, Any], instance: str | None) -> str:
    related = {key: text for key, value in mapping_of(payload.get("related")).items() if (text := text_of(value))}
    found = {
        "action": text_of(payload.get("action")),
        "api_version": text_of(subject.get("apiVersion")),
        "field_path": text_of(subject.get("fieldPath")),
        "related": related if len(related) <= 16 else None,
        "reporting_instance": instance,
    }
    try:
        return _ENCODE({key: value for key, value in found.items() if value}).decode()
    except UnicodeEncodeError:
        return "{}"
