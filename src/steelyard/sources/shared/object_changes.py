"""A change of an object's state, from whoever tells of it, as a Transition: the object itself or a patch of its status in the audit log.

The trick to know: a change is named by what it says and its own stamp, so that one change that is told twice is one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from steelyard.facts.transition import Transition
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, list_of, text_of

MESSAGE_CHARACTERS_MAX: Final = 4_096
NAME_CHARACTERS_MAX: Final = 316

STATED: Final = "stated"
INFERRED: Final = "inferred"
OBSERVED: Final = "observed"


class ChangedObject(NamedTuple):
    """Whose changes they are."""

    kind: str
    group: str
    uid: str
    namespace: str | None
    name: str | None


class Change(NamedTuple):
    """One change as the object tells it. ``anchor``: what tells it from an equal change at another time, where it has no stamp."""

    aspect: str
    item: str | None
    value: str
    at: Instant | None
    basis: str = STATED
    reason: str | None = None
    message: str | None = None
    anchor: str = ""


def transition_of(change: Change, about: ChangedObject, source: str, ctx: ReadContext) -> Transition:
    """The fact of one change. A change without a stamp is dated at the sighting, ``observed``."""
    at, item, value = change.at, change.item, safe(change.value)
    reason = safe(change.reason) if change.reason else None
    message = plain(change.message[:MESSAGE_CHARACTERS_MAX]) if change.message else None
    when = change.anchor or (at if at is not None else "-")
    digest = _digest(change) if change.aspect == "condition" and (reason or message) else ""
    if item is None:
        key = f"{about.uid}/{change.aspect}/{value}/{when}/{digest}"
    else:
        item = safe(item)
        key = f"{about.uid}/{change.aspect}/{item}/{value}/{when}/{digest}"
    return Transition(
        cluster=ctx.cluster,
        source=source,
        natural_key=key,
        occurred_at=ctx.observed_at if at is None else at,
        observed_at=ctx.observed_at,
        object_kind=about.kind,
        object_group=about.group,
        object_uid=about.uid,
        namespace=about.namespace,
        object_name=about.name,
        aspect=change.aspect,
        item=item,
        value=value,
        reason=reason,
        message=message,
        time_basis=OBSERVED if at is None else change.basis,
    )


def safe(text: str) -> str:
    """Short text that columns can hold; nearly all is plain ASCII already."""
    if len(text) <= NAME_CHARACTERS_MAX and text.isascii() and "\0" not in text:
        return text
    return plain(text[:NAME_CHARACTERS_MAX])


def plain_name(value: object) -> str | None:
    """A name that a column can hold; None where it is none."""
    return safe(value) if isinstance(value, str) and value else None


def _digest(change: Change) -> str:
    text = f"{change.reason or ''}\0{change.message or ''}".encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:12]


def condition_changes(status: Mapping[str, Any], problems: list[str]) -> Iterator[Change]:
    """One change per condition of a status; a stamp that cannot be read is noted in ``problems``."""
    for condition in list_of(status.get("conditions")):
        name, value = text_of(condition.get("type")), text_of(condition.get("status"))
        if name is None or value is None:
            continue  # a Volcano job's conditions have no type: they are phases
        at = instant_of(condition.get("lastTransitionTime"), problems, f"{name[:80]}.lastTransitionTime")
        reason, message = text_of(condition.get("reason")), text_of(condition.get("message"))
        yield Change("condition", name, value, at, STATED, reason, message)


def check_changes(status: Mapping[str, Any], problems: list[str]) -> Iterator[Change]:
    """One change per admission check of a workload's status, as ``condition_changes``."""
    for check in list_of(status.get("admissionChecks")):
        name, value = text_of(check.get("name")), text_of(check.get("state"))
        if name is not None and value is not None:
            at = instant_of(check.get("lastTransitionTime"), problems, f"{name[:80]}.lastTransitionTime")
            yield Change("admission_check", name, value, at, STATED, None, text_of(check.get("message")))
