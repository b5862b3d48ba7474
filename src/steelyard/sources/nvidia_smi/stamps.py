"""The times that nvidia-smi prints. None carries a zone, so the setting ``smi_timezone`` names it (UTC by default).

A time that the zone has twice (the hour after a switch back) is taken as the first; one that it never had is moved as the zone
moves clocks. Sceptic's command: ``date`` on the node.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, from_datetime

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CTIME: Final = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\s{1,3}([A-Za-z]{3})\s{1,3}([0-9]{1,2})\s{1,3}([0-9]{2}):([0-9]{2}):([0-9]{2})\s{1,3}([0-9]{4})\s*\Z"
)
_SLASHED: Final = re.compile(
    r"([0-9]{4})[/-]([0-9]{2})[/-]([0-9]{2})\s([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?\s*\Z"
)
_COMPACT: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})\Z")


def local_instant(text: str, timezone: str) -> Instant:
    """A printed time as an instant: ``Tue Jul 14 09:00:44 2026``, ``2026/07/14 09:00:44.742`` or ``20260714 09:00:44``.

    Raises ValueError where the text is no such time, UsageError where the zone is not known to this machine.
    """
    cell = text.strip()
    if len(cell) > 40:
        raise ValueError(f"expected a time, found {cell[:60]!r}")
    named = _CTIME.match(cell)
    if named is not None:
        month, day, hour, minute, second, year = named.groups()
        if month.casefold() not in _MONTHS:
            raise ValueError(f"expected a month, found {month!r}")
        parts = (int(year), _MONTHS.index(month.casefold()) + 1, int(day), int(hour), int(minute), int(second), 0)
        return _in_zone(parts, timezone)
    digits = _SLASHED.match(cell) or _COMPACT.match(cell)
    if digits is None:
        raise ValueError(
            f"expected a time such as Tue Jul 14 09:00:44 2026 or 2026/07/14 09:00:44.742; found {cell[:60]!r}"
        )
    fraction = digits.group(7) if digits.re is _SLASHED else None
    year_month_day = tuple(int(part) for part in digits.groups()[:6])
    return _in_zone((*year_month_day, int((fraction or "0").ljust(6, "0"))), timezone)


def _in_zone(parts: tuple[int, ...], timezone: str) -> Instant:
    year, month, day, hour, minute, second, micro = parts
    try:
        zone = ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise UsageError(
            _("smi_timezone: expected a time zone such as UTC or Europe/Berlin, found {zone!r}").format(zone=timezone)
        ) from None
    try:
        return from_datetime(datetime(year, month, day, hour, minute, second, micro, tzinfo=zone))
    except (ValueError, OverflowError) as error:
        found = "{}-{:02}-{:02} {:02}:{:02}:{:02}".format(*parts)
        raise ValueError(f"expected a time of the calendar, found {found} ({error})") from None
