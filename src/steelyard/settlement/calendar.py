"""Fiscal calendars: which days a period has, and which period a day lies in.

``periods`` lays these days into a time zone. The tricks to know: a period of months that begins in January is named by its month (``2026-11``), every
other one by its fiscal year and number (``FY2026-P08``), so that no label can be taken for a calendar month that it is not; and a year of weeks
begins on the Monday nearest to the day that is set, so it has 52 or 53 weeks, the last of which belongs to the twelfth period.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Final, Literal

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _

Scheme = Literal["month", "445", "454", "544"]
PERIODS: Final = 12
_LABEL: Final = re.compile(r"(?:FY)?(\d{4})-P?(\d{2})\Z", re.ASCII)
_YEARS: Final = range(1900, 2201)


@dataclass(frozen=True, slots=True)
class FiscalCalendar:
    """``scheme``: months, or quarters of 4, 4 and 5 weeks in the order that it names. start_month, start_day: where a fiscal year begins (with
    weeks: the Monday nearest to it). named_by_end: a year bears the number of the calendar year in which it ends.

    Raises UsageError for a month or a day that is none (a day is 1 to 28, so that every month has it).
    """

    scheme: Scheme = "month"
    start_month: int = 1
    start_day: int = 1
    named_by_end: bool = False

    def __post_init__(self) -> None:
        if not (1 <= self.start_month <= 12 and 1 <= self.start_day <= 28):
            raise UsageError(
                _("a fiscal year starts on a day 1 to 28 of a month 1 to 12; found month {month}, day {day}").format(
                    month=self.start_month, day=self.start_day
                )
            )

    @property
    def _is_plain(self) -> bool:
        return self.scheme == "month" and self.start_month == 1

    def days_of(self, label: str) -> tuple[date, date]:
        """The first day of a period and the first day after it. Raises UsageError for a label that is none of this calendar."""
        match = _LABEL.match(label)
        if match is not None and int(match[1]) in _YEARS and 1 <= int(match[2]) <= PERIODS:
            year, number = int(match[1]), int(match[2])
            if label == self._label(year, number):
                bounds = _bounds(self, self._start_year(year))
                return bounds[number - 1], bounds[number]
        raise UsageError(
            _("{label} is no period of the calendar: expected one such as {example}").format(
                label=repr(label[:40]), example=self._label(2026, 11)
            )
        )

    def label_of(self, day: date) -> str:
        """The period that a day lies in."""
        for year in (day.year + 1, day.year, day.year - 1):
            bounds = _bounds(self, year)
            if bounds[0] <= day < bounds[-1]:
                named = year + 1 if self.named_by_end and not self._is_plain else year
                return self._label(named, bisect_right(bounds, day))
        raise UsageError(_("no period of the calendar holds {day}").format(day=day.isoformat()))

    def next_label(self, label: str) -> str:
        """The period after this one."""
        return self.label_of(self.days_of(label)[1])

    def previous_label(self, label: str) -> str:
        """The period before this one."""
        return self.label_of(self.days_of(label)[0] - timedelta(days=1))

    def _start_year(self, named: int) -> int:
        return named - 1 if self.named_by_end and not self._is_plain else named

    def _label(self, year: int, number: int) -> str:
        return f"{year:04d}-{number:02d}" if self._is_plain else f"FY{year:04d}-P{number:02d}"


@cache
def _bounds(calendar: FiscalCalendar, year: int) -> tuple[date, ...]:
    """The thirteen days at which the periods of the fiscal year that starts in ``year`` begin and end."""
    if calendar.scheme == "month":
        months = [calendar.start_month - 1 + number for number in range(PERIODS + 1)]
        return tuple(date(year + month // 12, month % 12 + 1, calendar.start_day) for month in months)
    first, after = _monday(calendar, year), _monday(calendar, year + 1)
    weeks = [int(digit) for digit in calendar.scheme] * 4
    days = [first]
    for count in weeks[:-1]:
        days.append(days[-1] + timedelta(weeks=count))
    return (*days, after)


def _monday(calendar: FiscalCalendar, year: int) -> date:
    day = date(year, calendar.start_month, calendar.start_day)
    return day - timedelta(days=day.weekday()) + timedelta(days=7 if day.weekday() > 3 else 0)
