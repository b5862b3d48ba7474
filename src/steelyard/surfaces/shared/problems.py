"""Errors on the wire: problem documents of RFC 9457, from our errors and back to the very same.

The server writes them (``document_of``), a command that talks to it reads them (``error_of``) and ends as if it had done the work itself.
The trick to know: the last word of ``type`` is the kind, and the kind alone decides which error it becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.primitives.errors import (
    NotFound,
    SourceMalformed,
    SourceUnavailable,
    SourceUnsupported,
    SteelyardError,
    StoreFailed,
    StoreLocked,
    UsageError,
)
from steelyard.primitives.i18n import _

MEDIA_TYPE: Final = "application/problem+json"
_PREFIX: Final = "urn:steelyard:problem:"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem: the HTTP status it has unless told otherwise, and its title."""

    status: int
    title: str


KINDS: Final[Mapping[str, Kind]] = {
    "usage": Kind(422, "The request cannot be carried out as written"),
    "malformed": Kind(422, "Something in it cannot be read"),
    "unsupported": Kind(422, "A form that is not supported"),
    "locked": Kind(503, "The data directory is in use"),
    "unavailable": Kind(503, "Not available now"),
    "busy": Kind(503, "Too much at once"),
    "bad_request": Kind(400, "No readable HTTP request"),
    "unauthenticated": Kind(401, "No valid token"),
    "forbidden": Kind(403, "Not for this role"),
    "not_found": Kind(404, "Nothing here"),
    "method_not_allowed": Kind(405, "Not with this method"),
    "conflict": Kind(409, "Another does the same just now"),
    "timeout": Kind(408, "The request came too slowly"),
    "too_large": Kind(413, "Larger than is taken"),
    "headers_too_large": Kind(431, "Header fields larger than are taken"),
    "internal": Kind(500, "A mistake of this program"),
    "no_space": Kind(507, "No space for it"),
    "store_failed": Kind(500, "The store cannot be read or written"),
}
"""Every kind of problem that this program ever answers with."""

_OF_ERRORS: Final[tuple[tuple[type[SteelyardError], str], ...]] = (
    (NotFound, "not_found"),
    (UsageError, "usage"),
    (StoreLocked, "locked"),
    (StoreFailed, "store_failed"),
    (SourceUnavailable, "unavailable"),
    (SourceUnsupported, "unsupported"),
    (SourceMalformed, "malformed"),
)
_PASSES: Final = frozenset({"unavailable", "busy", "internal", "timeout", "no_space"})


def kind_of(error: SteelyardError) -> str:
    """The kind that an error of ours is on the wire."""
    return next((kind for cls, kind in _OF_ERRORS if isinstance(error, cls)), "usage")


def document(kind: str, detail: str, *, status: int | None = None, **more: Any) -> dict[str, Any]:
    """A problem document. ``detail`` is one line for people; ``more`` are members of the kind's own."""
    known = KINDS[kind]
    return {"type": _PREFIX + kind, "title": known.title, "status": status or known.status, "detail": detail, **more}


def document_of(error: SteelyardError) -> dict[str, Any]:
    """The problem document of an error of ours."""
    more: dict[str, Any] = {}
    if isinstance(error, SourceMalformed):
        more = {"line": error.line, "excerpt": error.excerpt}
        if error.others:
            more["errors"] = list(error.others)
    elif isinstance(error, SourceUnavailable) and error.retry_after_seconds is not None:
        more = {"retry_after_seconds": error.retry_after_seconds}
    return document(kind_of(error), str(error), **more)


def error_of(found: Any, status: int) -> SteelyardError:
    """The error behind an answer with ``status`` and a JSON body; whatever the body is, an error comes out."""
    if not isinstance(found, dict) or not isinstance(found.get("detail"), str):
        return SourceUnavailable(_("the server answered with status {status} and no reason").format(status=status))
    kind, detail = str(found.get("type")).removeprefix(_PREFIX), found["detail"]
    if kind == "malformed":
        line = found.get("line")
        others = found.get("errors")
        return SourceMalformed(
            detail,
            line if isinstance(line, int) else 0,
            str(found.get("excerpt") or ""),
            [str(other) for other in others] if isinstance(others, list) else (),
        )
    if kind in _PASSES:
        wait = found.get("retry_after_seconds")
        return SourceUnavailable(detail, float(wait) if isinstance(wait, int | float) else None)
    plain: Mapping[str, Callable[[str], SteelyardError]] = {
        "not_found": NotFound, "locked": StoreLocked, "unsupported": SourceUnsupported, "store_failed": StoreFailed,
    }  # fmt: skip
    return plain.get(kind, UsageError)(detail)
