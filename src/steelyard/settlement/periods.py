"""Periods: the window that a label of the fiscal calendar has in a tenant's time zone.

Everything that settles asks here. The trick to know: ledgers are posted by grain, so a month can be cut exactly only where it begins and ends on a
grain; a zone in which it does not is refused, and the line names the grain to set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import (
    HOUR_US,
    MINUTE_US,
    DurationUs,
    Instant,
    Window,
    from_datetime,
    to_datetime,
)
from steelyard.settlement.calendar import FiscalCalendar

GRAINS_MINUTES: Final = (60, 30, 15)


@dataclass(frozen=True, slots=True)
class PeriodRules:
    """The calendar, the estate's time zone and those of tenants that have another."""

    calendar: FiscalCalendar = field(default_factory=FiscalCalendar)
    time_zone: str = "UTC"
    tenant_zones: Mapping[str, str] = field(default_factory=dict)
    grain_us: DurationUs = HOUR_US

    def zone_of(self, tenant: str | None) -> str:
        """The zone by which a tenant's periods begin and end; None: what is nobody's."""
        return self.tenant_zones.get(tenant, self.time_zone) if tenant is not None else self.time_zone

    def window(self, label: str, tenant: str | None = None) -> Window:
        """A period as this tenant has it. Raises UsageError for a label that is none and a zone that the grain does not fit."""
        return window_in(self.calendar.days_of(label), self.zone_of(tenant), self.grain_us)

    def windows(self, label: str) -> Mapping[str, Window]:
        """The windows of all tenants that have a zone of their own."""
        return {tenant: self.window(label, tenant) for tenant in sorted(self.tenant_zones)}

    def span(self, label: str) -> Window:
        """The smallest window that holds the period of everybody."""
        every = [self.window(label), *self.windows(label).values()]
        return Window(min(each.start for each in every), max(each.end for each in every))

    def label_at(self, instant: Instant, tenant: str | None = None) -> str:
        """The period that an instant lies in."""
        return self.calendar.label_of(_local_day(instant, self.zone_of(tenant)))

    def labels(self, window: Window) -> Sequence[str]:
        """All periods that a window touches, oldest first."""
        found = [self.label_at(window.start)]
        last = self.label_at(max(window.start, window.end - 1))
        while found[-1] != last:
            found.append(self.calendar.next_label(found[-1]))
        return found


def window_in(days: tuple[date, date], zone: str, grain_us: DurationUs) -> Window:
    """From midnight to midnight in a zone. Raises UsageError where either does not fall on a grain."""
    window = Window(_midnight(days[0], zone), _midnight(days[1], zone))
    if window.start % grain_us or window.end % grain_us:
        fitting = [
            each
            for each in GRAINS_MINUTES
            if not (window.start % (each * MINUTE_US) or window.end % (each * MINUTE_US))
        ]
        if not fitting:
            raise UsageError(
                _("midnight in {zone} falls on no grain that can be set: name another zone").format(zone=zone)
            )
        raise UsageError(
            _("midnight in {zone} does not fall on a grain of {found} minutes: set grain_minutes = {grain}").format(
                zone=zone, found=grain_us // MINUTE_US, grain=fitting[0]
            )
        )
    return window


def day_starts(window: Window, zone: str) -> Sequence[Instant]:
    """The midnights of a zone within a window, the window's start first."""
    day = _local_day(window.start, zone)
    found = [window.start]
    while (start := _midnight(day := day + timedelta(days=1), zone)) < window.end:
        found.append(start)
    return found


def _midnight(day: date, zone: str) -> Instant:
    return from_datetime(datetime.combine(day, time(), _zone(zone)))


def _local_day(instant: Instant, zone: str) -> date:
    return to_datetime(instant).astimezone(_zone(zone)).date()


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UsageError(
            _("{name} is no time zone of the IANA list, such as Asia/Shanghai").format(name=repr(name[:60]))
        ) from None
