"""What people type, as values: instants, durations, windows, dimensions, conditions. Every mistake is one clear line.

The command line uses these; any other surface that takes text from people does too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    DurationUs,
    Instant,
    Window,
    parse_instant,
)

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)
_DURATION: Final = re.compile(r"(\d{1,12})\s*(ms|s|m|h|d)\Z", re.ASCII)
_UNITS_US: Final = {"ms": 1_000, "s": SECOND_US, "m": MINUTE_US, "h": HOUR_US, "d": DAY_US}


def instant_of(text: str | None, option: str) -> Instant | None:
    """An RFC 3339 time with a zone; a bare date is its midnight in UTC. Raises UsageError for anything else."""
    if text is None:
        return None
    try:
        return _midnight(text) if _DATE.match(text) else parse_instant(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{option}: {error}") from None


def _midnight(text: str) -> Instant:
    try:
        return parse_instant(f"{text}T00:00:00Z")
    except ValueError:
        raise ValueError(
            _("expected a date such as 2026-11-30, found {text!r}, which is no day of the calendar").format(text=text)
        ) from None


def window_of(start: str | None, end: str | None) -> Window | None:
    """The window of ``--from`` and ``--to``; None where neither is given. Raises UsageError for half a window or an empty one."""
    first, last = instant_of(start, "--from"), instant_of(end, "--to")
    if first is None and last is None:
        return None
    if first is None or last is None:
        raise UsageError(_("--from and --to go together: both, or neither for all known time"))
    if last <= first:
        raise UsageError(_("--to must be later than --from: found {start} and {end}").format(start=start, end=end))
    return Window(first, last)


def duration_of(text: str | None, option: str) -> DurationUs | None:
    """A length of time such as ``30s``, ``5m`` or ``1h``. Raises UsageError for anything else."""
    if text is None:
        return None
    match = _DURATION.match(text.strip())
    if match is None:
        raise UsageError(
            _("{option}: expected a length of time such as 30s, 5m or 1h; found {text!r}").format(
                option=option, text=text[:60]
            )
        )
    return int(match.group(1)) * _UNITS_US[match.group(2)]


def names_of(texts: Iterable[str]) -> tuple[str, ...]:
    """The words of ``--by a,b --by c``, in order."""
    return tuple(word.strip() for text in texts for word in _text(text).split(",") if word.strip())


def conditions_of(texts: Iterable[str], named: Mapping[str, str | None]) -> dict[str, str]:
    """The conditions of ``--where key=value`` and of the options that name a dimension. Raises UsageError for one without ``=`` or twice."""
    found: dict[str, str] = {}
    pairs = [_text(text).partition("=") for text in texts]
    for key, equals, value in [*pairs, *((name, "=", _text(text)) for name, text in named.items() if text is not None)]:
        if not equals or not key.strip():
            raise UsageError(_("--where: expected dimension=value; found {text!r}").format(text=key[:80]))
        if found.get(key.strip(), value) != value:
            raise UsageError(_("two different conditions on {key}").format(key=key.strip()[:80]))
        found[key.strip()] = value
    return found


def _text(typed: str) -> str:
    """What was typed as text: bytes of the command line that are none are replaced, so that nothing behind this stumbles over them."""
    return typed.encode("utf-8", "replace").decode()
