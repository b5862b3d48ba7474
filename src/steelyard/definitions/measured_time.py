"""Measured time: for how much of a stretch a card was measured, from one bit per minute of an hour.

A card is *up* in the minutes in which it was measured; in all others nothing is known of its service. Sixty bits of one integer keep an
hour, so that a month of one-minute samples becomes one small number per card and hour in a single pass.
"""

from __future__ import annotations

from typing import Final

from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import HOUR_US, MINUTE_US, DurationUs, Instant

VERSION: Final = "1"
FORMULA: Final = (
    "measured = the parts of a stretch that lie in minutes with a sample; a sample stands for its own minute, "
    "or for its interval in whole minutes where that is longer, an hour at most"
)


def lit_minutes(minute_no: int, interval_us: DurationUs | None) -> tuple[int, int]:
    """The minutes that one sample lights, as bits of its own hour and of the next. ``minute_no``: the minute of its instant, 0 to 59."""
    minutes = 1 if interval_us is None else max(1, min(interval_us, HOUR_US) // MINUTE_US)
    bits = ((1 << minutes) - 1) << minute_no
    return bits & ((1 << 60) - 1), bits >> 60


def measured_us(minutes_mask: int, hour: Instant, start: Instant, end: Instant) -> DurationUs:
    """Microseconds of ``[start, end)``, which lies within the hour that begins at ``hour``, in minutes whose bit is set.

    Raises InvariantError for a stretch that leaves the hour.
    """
    if not hour <= start <= end <= hour + HOUR_US:
        raise InvariantError(f"a stretch beyond its hour: {start} to {end}, hour {hour}")
    return _measured_until(minutes_mask, end - hour) - _measured_until(minutes_mask, start - hour)


def _measured_until(minutes_mask: int, offset_us: DurationUs) -> DurationUs:
    whole, part = divmod(offset_us, MINUTE_US)
    return (minutes_mask & ((1 << whole) - 1)).bit_count() * MINUTE_US + (minutes_mask >> whole & 1) * part
