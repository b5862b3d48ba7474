"""Instants and windows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.instant import (
    HOUR_US,
    Window,
    format_instant,
    from_datetime,
    parse_instant,
    to_datetime,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:00:00.0000019Z", 1),
        ("1970-01-01T08:00:00+08:00", 0),
        ("1969-12-31T19:00:00-0500", 0),
        ("1970-01-01 00:00:00 Z", 0),
        ("2016-12-31T23:59:60Z", parse_instant("2017-01-01T00:00:00Z")),
    ],
)
def test_a_stamp_with_a_zone_is_an_instant(text: str, expected: int) -> None:
    assert parse_instant(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-30",
        "2026-11-30T02:00:40",
        "2026-13-01T00:00:00Z",
        "2026-11-30T25:00:00Z",
        "1e9",
        "now",
        "٢٠٢٦-11-30T02:00:40Z",
    ],
)
def test_what_is_no_stamp_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_instant(text)


@pytest.mark.parametrize("text", ["2026-13-01T00:00:00Z", "2026-11-30T25:00:00Z", "2026-02-30T00:00:00Z", "soon"])
def test_what_is_refused_is_shown_with_the_form_that_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match=rf"expected an RFC 3339 time with a zone, such as .*; found '{text}'"):
        parse_instant(text)


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)))  # noqa: DTZ001  (the zone is given beside)
def test_text_and_back_is_the_same_instant(moment: datetime) -> None:
    instant = from_datetime(moment)
    assert parse_instant(format_instant(instant)) == instant
    assert to_datetime(instant) == moment


def test_a_time_without_a_zone_is_not_an_instant() -> None:
    with pytest.raises(ValueError, match="without a zone"):
        from_datetime(datetime(2026, 1, 1))  # noqa: DTZ001  (that is the claim)


def test_a_window_is_half_open() -> None:
    hour = Window(0, HOUR_US)
    assert hour.overlap_us(-5, 0) == 0
    assert hour.overlap_us(HOUR_US, HOUR_US + 5) == 0
    assert hour.overlap_us(-5, 5) == 5
    assert hour.duration_us == HOUR_US


def test_a_window_cannot_end_before_it_starts() -> None:
    with pytest.raises(ValueError, match="cannot end before it starts"):
        Window(1, 0)
