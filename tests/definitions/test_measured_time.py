"""Measured minutes: the macro gives what the pure function gives, and both give what counting gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.definitions.grain import grain_start
from steelyard.definitions.measured_time import lit_minutes, measured_us
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import HOUR_US, MINUTE_US
from steelyard.store import Store

OFFSETS = st.integers(0, 60).map(lambda minute: minute * MINUTE_US) | st.integers(0, HOUR_US)
INTERVALS = st.integers(-1, 200).map(lambda n: n * 30_000_000) | st.integers(-(2**62), 2**62)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


@given(st.integers(0, 2**60 - 1), OFFSETS, OFFSETS, st.integers(-1000, 500_000).map(lambda n: n * HOUR_US))
@settings(deadline=None)
def test_measured_time_is_the_time_within_lit_minutes(store: Store, mask: int, a: int, b: int, hour: int) -> None:
    start, end = hour + min(a, b), hour + max(a, b)
    counted = sum(
        max(0, min(end, hour + (n + 1) * MINUTE_US) - max(start, hour + n * MINUTE_US))
        for n in range(60)
        if mask >> n & 1
    )
    assert measured_us(mask, hour, start, end) == counted
    sql = "SELECT measured_us(?::BIGINT, ?::BIGINT, ?::BIGINT, ?::BIGINT)"
    assert store.rows(sql, [mask, hour, start, end]) == [(counted,)]


@given(st.integers(0, 59), st.none() | INTERVALS)
@settings(deadline=None)
def test_a_sample_lights_its_own_minute_and_the_whole_minutes_it_stands_for(
    store: Store, minute: int, us: int | None
) -> None:
    here, spilled = lit_minutes(minute, us)
    lit = [n for n in range(120) if (here | spilled << 60) >> n & 1]
    assert lit == list(range(minute, minute + max(1, min(us or 0, HOUR_US) // MINUTE_US)))
    sql = "SELECT lit_minutes($1::BIGINT, $2::BIGINT), lit_minutes_of_next_hour($1::BIGINT, $2::BIGINT)"
    assert store.rows(sql, [minute, us]) == [(here, spilled)]


def test_an_instant_sample_lights_one_minute() -> None:
    assert lit_minutes(59, None) == (1 << 59, 0)


def test_a_stretch_beyond_its_hour_is_refused() -> None:
    with pytest.raises(InvariantError):
        measured_us(0, 0, 0, HOUR_US + 1)


@given(st.integers(-(10**16), 10**16), st.sampled_from([HOUR_US, HOUR_US // 2, HOUR_US // 4]))
@settings(deadline=None)
def test_the_grain_of_microseconds_is_the_grain_of_an_instant(store: Store, instant: int, grain_us: int) -> None:
    assert store.rows("SELECT grain_start_us(?::BIGINT, ?::BIGINT)", [instant, grain_us]) == [
        (grain_start(instant, grain_us),)
    ]
