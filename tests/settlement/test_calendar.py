"""Fiscal calendars and the windows of their periods."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US, MINUTE_US, Window, format_instant, parse_instant
from steelyard.settlement.calendar import FiscalCalendar, Scheme
from steelyard.settlement.periods import PeriodRules, day_starts

CALENDARS = [
    FiscalCalendar(),
    FiscalCalendar(start_day=16),
    FiscalCalendar(start_month=4),
    FiscalCalendar(start_month=10, named_by_end=True),
    FiscalCalendar("445"),
    FiscalCalendar("544", start_month=2, start_day=1),
]


@pytest.mark.parametrize(
    ("calendar", "label", "start", "end"),
    [
        (FiscalCalendar(), "2026-11", date(2026, 11, 1), date(2026, 12, 1)),
        (FiscalCalendar(), "2026-12", date(2026, 12, 1), date(2027, 1, 1)),
        (FiscalCalendar(start_day=16), "2026-12", date(2026, 12, 16), date(2027, 1, 16)),
        (FiscalCalendar(start_month=4), "FY2026-P08", date(2026, 11, 1), date(2026, 12, 1)),
        (FiscalCalendar(start_month=4), "FY2026-P12", date(2027, 3, 1), date(2027, 4, 1)),
        (FiscalCalendar(start_month=4, named_by_end=True), "FY2027-P08", date(2026, 11, 1), date(2026, 12, 1)),
        (FiscalCalendar("445"), "FY2026-P01", date(2025, 12, 29), date(2026, 1, 26)),
        (FiscalCalendar("445"), "FY2026-P03", date(2026, 2, 23), date(2026, 3, 30)),
        (FiscalCalendar("454"), "FY2026-P02", date(2026, 1, 26), date(2026, 3, 2)),
        # 2026 has 53 weeks of this calendar: the twelfth period has six.
        (FiscalCalendar("445"), "FY2026-P12", date(2026, 11, 23), date(2027, 1, 4)),
    ],
)
def test_a_label_names_its_days(calendar: FiscalCalendar, label: str, start: date, end: date) -> None:
    assert calendar.days_of(label) == (start, end)
    assert calendar.label_of(start) == label
    assert calendar.label_of(end - timedelta(days=1)) == label
    assert calendar.label_of(end) == calendar.next_label(label) != label
    assert calendar.previous_label(calendar.next_label(label)) == label


@given(st.sampled_from(CALENDARS), st.dates(date(2000, 1, 1), date(2100, 1, 1)))
def test_every_day_lies_in_exactly_one_period(calendar: FiscalCalendar, day: date) -> None:
    start, end = calendar.days_of(calendar.label_of(day))
    assert start <= day < end
    assert calendar.days_of(calendar.next_label(calendar.label_of(day)))[0] == end


@pytest.mark.parametrize(
    "label", ["2026-13", "2026-00", "2026-1", "FY2026-P01", "20261", "2026-11 ", "٢٠٢٦-11", "9999-01", "../2026-11", ""]
)
def test_what_is_no_label_is_refused(label: str) -> None:
    with pytest.raises(UsageError, match="2026-11"):
        FiscalCalendar().days_of(label)


@pytest.mark.parametrize("scheme", ["month", "445"])
def test_a_calendar_month_is_no_label_of_a_shifted_calendar(scheme: Scheme) -> None:
    with pytest.raises(UsageError, match="FY2026-P11"):
        FiscalCalendar(scheme, start_month=4).days_of("2026-11")


@pytest.mark.parametrize(("month", "day"), [(0, 1), (13, 1), (1, 0), (1, 29)])
def test_a_year_starts_on_a_day_that_every_year_has(month: int, day: int) -> None:
    with pytest.raises(UsageError, match="1 to 28"):
        FiscalCalendar(start_month=month, start_day=day)


def test_a_period_begins_at_midnight_of_the_tenants_zone() -> None:
    rules = PeriodRules(tenant_zones={"team-cn": "Asia/Shanghai", "team-us": "America/New_York"})
    assert str(rules.window("2026-11")) == "[2026-11-01T00:00:00Z, 2026-12-01T00:00:00Z)"
    assert str(rules.window("2026-11", "team-cn")) == "[2026-10-31T16:00:00Z, 2026-11-30T16:00:00Z)"
    # Clocks are set back on 2026-11-01 in New York, after the month began.
    assert str(rules.window("2026-11", "team-us")) == "[2026-11-01T04:00:00Z, 2026-12-01T05:00:00Z)"
    assert str(rules.span("2026-11")) == "[2026-10-31T16:00:00Z, 2026-12-01T05:00:00Z)"
    assert rules.label_at(parse_instant("2026-10-31T17:00:00Z"), "team-cn") == "2026-11"
    assert rules.label_at(parse_instant("2026-10-31T17:00:00Z")) == "2026-10"


@pytest.mark.parametrize(
    ("zone", "grain_minutes", "wanted"),
    [
        ("Asia/Kolkata", 60, "grain_minutes = 30"),
        ("Asia/Kathmandu", 60, "grain_minutes = 15"),
        ("Asia/Kathmandu", 30, "grain_minutes = 15"),
    ],
)
def test_a_zone_that_the_grain_does_not_fit_is_refused_naming_the_grain(
    zone: str, grain_minutes: int, wanted: str
) -> None:
    rules = PeriodRules(time_zone=zone, grain_us=grain_minutes * MINUTE_US)
    with pytest.raises(UsageError, match=wanted):
        rules.window("2026-11")


@pytest.mark.parametrize(
    ("zone", "grain_minutes"), [("Asia/Kolkata", 30), ("Asia/Kathmandu", 15), ("Asia/Shanghai", 60)]
)
def test_a_zone_that_the_grain_fits_is_taken(zone: str, grain_minutes: int) -> None:
    assert (
        PeriodRules(time_zone=zone, grain_us=grain_minutes * MINUTE_US).window("2026-11").duration_us
        == 30 * 24 * HOUR_US
    )


def test_a_zone_of_no_grain_is_refused_without_naming_one() -> None:
    with pytest.raises(UsageError, match="no grain"):
        PeriodRules(FiscalCalendar(), "Africa/Monrovia").window("1960-06")


def test_a_zone_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="IANA"):
        PeriodRules(time_zone="Mars/Olympus").window("2026-11")


def test_days_are_those_of_the_zone() -> None:
    window = PeriodRules(time_zone="America/New_York").window("2026-11")
    starts = day_starts(window, "America/New_York")
    assert len(starts) == 30
    assert [format_instant(each) for each in starts[:2]] == ["2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"]


def test_the_periods_of_a_window_are_listed_oldest_first() -> None:
    window = Window(parse_instant("2026-10-30T00:00:00Z"), parse_instant("2027-01-01T00:00:00Z"))
    assert PeriodRules().labels(window) == ["2026-10", "2026-11", "2026-12"]
