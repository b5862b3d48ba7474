"""A Kubernetes event parsed once, from either of its two encodings, in the shape that every reader of events needs.

The trick to know: the old recorder fills ``count`` and first/lastTimestamp, the new one ``eventTime`` and ``series`` and leaves the old fields
null; ``events.k8s.io`` shows the old ones under ``deprecated*`` names. The last time that any of them tells is when the event occurred last.

Sceptic's command: ``kubectl get events -A -o json`` (and ``kubectl get events.events.k8s.io -A -o json``).
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.pods import instant_of, integer_of, mapping_of, text_of


@dataclass(frozen=True, slots=True)
class EventView:
    """One event. key: its uid, else one made of its own fields. occurred_at: its last time, first_at: its first. count: how often, 1 where it
    does not say. component: who says it. host: the machine that it was said on, None where it does not say. subject_*: what it is
    about; related: the other object, where there is one. problems: stamps that cannot be read."""

    key: str
    reason: str | None
    message: str | None
    action: str | None
    severity: str | None
    component: str | None
    instance: str | None
    host: str | None
    count: int
    first_at: Instant | None
    occurred_at: Instant
    subject: Mapping[str, Any]
    subject_kind: str | None
    subject_namespace: str | None
    subject_name: str | None
    subject_uid: str | None
    related: Mapping[str, str]
    problems: Sequence[str] = ()

    @property
    def subject_group(self) -> str:
        """The API group of what it is about; empty: the core group, or not said."""
        version = text_of(self.subject.get("apiVersion"))
        return version.rpartition("/")[0] if version else ""


def parse_event(payload: Mapping[str, Any]) -> EventView:
    """An Event object as an EventView. Raises SourceMalformed where no time at all can be read."""
    metadata, series = mapping_of(payload.get("metadata")), mapping_of(payload.get("series"))
    subject = mapping_of(payload.get("involvedObject")) or mapping_of(payload.get("regarding"))
    source = mapping_of(payload.get("source")) or mapping_of(payload.get("deprecatedSource"))
    problems: list[str] = []
    first, last = _times(payload, series, metadata, problems)
    if last is None:
        said = "; ".join(problems[:3]) or "none of eventTime, series, lastTimestamp and firstTimestamp is there"
        raise SourceMalformed(f"expected a time in an Event: {said}", excerpt=reprlib.repr(payload))
    component = text_of(payload.get("reportingComponent")) or text_of(payload.get("reportingController"))
    return EventView(
        key=text_of(metadata.get("uid")) or _own_key(metadata, subject, payload),
        reason=text_of(payload.get("reason")),
        message=text_of(payload.get("message")) or text_of(payload.get("note")),
        action=text_of(payload.get("action")),
        severity=text_of(payload.get("type")),
        component=component or text_of(source.get("component")),
        instance=text_of(payload.get("reportingInstance")),
        host=text_of(source.get("host")),
        count=_count(payload, series),
        first_at=first,
        occurred_at=last,
        subject=subject,
        subject_kind=text_of(subject.get("kind")),
        subject_namespace=text_of(subject.get("namespace")),
        subject_name=text_of(subject.get("name")),
        subject_uid=text_of(subject.get("uid")),
        related={key: text for key, value in mapping_of(payload.get("related")).items() if (text := text_of(value))},
        problems=problems,
    )


def _times(
    payload: Mapping[str, Any], series: Mapping[str, Any], metadata: Mapping[str, Any], problems: list[str]
) -> tuple[Instant | None, Instant | None]:
    first: list[Instant] = []
    last: list[Instant] = []
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


def _own_key(metadata: Mapping[str, Any], subject: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
    """A key made of the event's own fields, where it has no uid."""
    place = subject.get("namespace"), subject.get("kind"), subject.get("name"), payload.get("reason")
    parts = [text_of(metadata.get("namespace")), text_of(metadata.get("name")), *(text_of(part) for part in place)]
    return "/".join(part or "-" for part in parts)[:1_024]
