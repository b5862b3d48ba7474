"""The grain: the stretch that one posting stands for, and whether a time zone's days can be made of whole grains.

Postings are per device and grain (an hour by default), so that any tenant's time zone can close its month exactly. A zone whose
offset is no multiple of the grain is refused, naming the grain to set.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, DurationUs, Instant, Window, to_datetime

VERSION: Final = "1"
FORMULA: Final = "grain start = the last whole multiple of the grain since 1970-01-01T00:00:00Z"

GRAINS_US: Final[tuple[DurationUs, ...]] = (HOUR_US, 30 * MINUTE_US, 15 * MINUTE_US)
"""The grains that may be set, coarsest first."""


def grain_start(instant: Instant, grain_us: DurationUs = HOUR_US) -> Instant:
    """The start of the grain that the instant lies in (also before 1970)."""
    return instant - instant % grain_us


def grains_of(window: Window, grain_us: DurationUs = HOUR_US) -> Iterator[Window]:
    """The parts of a window, one per grain it touches, in order; together they are the window."""
    start = window.start
    while start < window.end:
        end = min(grain_start(start, grain_us) + grain_us, window.end)
        yield Window(start, end)
        start = end


def check_grain(grain_us: DurationUs) -> None:
    """Raises UsageError where the grain is none of those that may be set."""
    if grain_us not in GRAINS_US:
        minutes = ", ".join(str(allowed // MINUTE_US) for allowed in GRAINS_US)
        raise UsageError(
            _("a grain of {found} minutes cannot be set: it must be one of {allowed}").format(
                found=grain_us / MINUTE_US, allowed=minutes
            )
        )


def check_zone(zone: str, window: Window, grain_us: DurationUs = HOUR_US) -> None:
    """Raises UsageError where the zone does not exist, or has an offset within the window that is no multiple of the grain.

    The message names the coarsest grain that fits. Offsets are looked up once a day (no zone keeps an offset for less).
    """
    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(_("no time zone {zone} is known here").format(zone=repr(zone)[:80])) from error
    offsets = {_offset_us(info, instant) for instant in (*range(window.start, window.end, DAY_US), window.end)}
    if all(offset % grain_us == 0 for offset in offsets):
        return
    fitting = [grain for grain in GRAINS_US if all(offset % grain == 0 for offset in offsets)]
    if not fitting:
        raise UsageError(_("the days of {zone} fit no grain that can be set").format(zone=zone))
    raise UsageError(
        _(
            "the days of {zone} cannot be closed at a grain of {grain} minutes: set the grain to {fitting} minutes"
        ).format(zone=zone, grain=grain_us // MINUTE_US, fitting=fitting[0] // MINUTE_US)
    )


def _offset_us(info: ZoneInfo, instant: Instant) -> int:
    offset = to_datetime(instant).astimezone(info).utcoffset() or timedelta()
    return offset // timedelta(microseconds=1)
