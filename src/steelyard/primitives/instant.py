"""Instants and windows: UTC microseconds since the epoch as plain integers, half-open windows ``[start, end)``.

Every layer uses these. The trick to know: an instant is an ``int``, so arithmetic on it is exact and free; text is made of
it only at the edge (``format_instant``). ``AT_OBSERVATION`` stands for "the instant of the snapshot" in a fact whose reader
does not know that instant yet; the importer replaces it before anything is stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

Instant: TypeAlias = int
"""Microseconds since 1970-01-01T00:00:00Z."""

DurationUs: TypeAlias = int
"""A length of time in microseconds."""

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US

AT_OBSERVATION: Final[Instant] = -(2**62)
"""Sentinel of a reader: "at the instant of this snapshot". Never stored (the store refuses it)."""

INSTANT_MIN: Final[Instant] = -62_135_596_800 * SECOND_US  # 0001-01-01
INSTANT_MAX: Final[Instant] = 253_402_300_799 * SECOND_US  # 9999-12-31T23:59:59

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?\s*(?:([Zz])|([+-])(\d{2}):?(\d{2}))\Z",
    re.ASCII,
)

_EXPECTED: Final = "expected an RFC 3339 time with a zone, such as 2026-11-30T02:00:40Z"


def parse_instant(text: str) -> Instant:
    """An RFC 3339 stamp with a zone as an instant; digits beyond the microsecond are cut.

    Raises ValueError when the text is no such stamp, has no zone, or names no possible date.
    """
    match = _RFC3339.match(text.strip())
    if match is None:
        raise ValueError(f"{_EXPECTED}; found {text[:60]!r}")
    year, month, day, hour, minute, second = (int(part) for part in match.group(1, 2, 3, 4, 5, 6))
    micro = int((match.group(7) or "0").ljust(6, "0")[:6])
    leap = second == 60
    try:
        moment = datetime(year, month, day, hour, minute, 59 if leap else second, micro, tzinfo=UTC)
    except ValueError as error:
        raise ValueError(f"{_EXPECTED}; found {text[:60]!r} ({error})") from None
    offset = timedelta()
    if match.group(9):
        offset = timedelta(hours=int(match.group(10)), minutes=int(match.group(11)))
        if match.group(9) == "-":
            offset = -offset
    return from_datetime(moment) + (SECOND_US if leap else 0) - offset // timedelta(microseconds=1)


def from_datetime(moment: datetime) -> Instant:
    """An aware datetime as an instant. Raises ValueError for a naive one: a time without a zone is not an instant."""
    if moment.tzinfo is None:
        raise ValueError(f"a time without a zone is not an instant: {moment.isoformat()}")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def to_datetime(instant: Instant) -> datetime:
    """The instant as an aware UTC datetime."""
    return _EPOCH + timedelta(microseconds=instant)


def format_instant(instant: Instant) -> str:
    """RFC 3339 in UTC, fractional digits only where they are not zero: ``2026-11-30T02:00:40Z``."""
    moment = to_datetime(instant)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S") if moment.year >= 1000 else moment.isoformat()[:19]
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{text}{fraction}Z"


def second_after(instant: Instant) -> Instant:
    """The next whole second: the end of a window that still holds the instant, as a person would type it."""
    return min((instant // SECOND_US + 1) * SECOND_US, INSTANT_MAX)


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A half-open stretch of time ``[start, end)`` in UTC microseconds. ``end`` is never before ``start``."""

    start: Instant
    end: Instant

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(f"a window cannot end before it starts: {self}")

    @property
    def duration_us(self) -> DurationUs:
        """Length in microseconds."""
        return self.end - self.start

    def overlap_us(self, start: Instant, end: Instant) -> DurationUs:
        """Microseconds that ``[start, end)`` shares with this window; 0 where they do not meet."""
        return max(0, min(self.end, end) - max(self.start, start))

    def __str__(self) -> str:
        return f"[{format_instant(self.start)}, {format_instant(self.end)})"
