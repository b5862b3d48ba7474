import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.definitions.grain import GRAINS_US, check_grain, check_zone, grain_start, grains_of
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US, MINUTE_US, Window, parse_instant

NOVEMBER = Window(parse_instant("2026-11-01T00:00:00Z"), parse_instant("2026-12-01T00:00:00Z"))


@given(st.integers(-(10**15), 10**15), st.integers(0, 10 * HOUR_US), st.sampled_from(GRAINS_US))
def test_the_grains_of_a_window_are_the_window(start: int, length: int, grain_us: int) -> None:
    parts = list(grains_of(Window(start, start + length), grain_us))
    assert sum(part.duration_us for part in parts) == length
    assert all(grain_start(part.start, grain_us) == grain_start(part.end - 1, grain_us) for part in parts)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York"])
def test_a_zone_of_whole_hours_closes_at_an_hour(zone: str) -> None:
    check_zone(zone, NOVEMBER)


@pytest.mark.parametrize(
    ("zone", "minutes"), [("Asia/Kolkata", 30), ("Asia/Kathmandu", 15), ("Australia/Lord_Howe", 30)]
)
def test_another_zone_is_refused_and_the_grain_to_set_is_named(zone: str, minutes: int) -> None:
    year = Window(parse_instant("2026-01-01T00:00:00Z"), parse_instant("2027-01-01T00:00:00Z"))
    with pytest.raises(UsageError, match=f"set the grain to {minutes} minutes"):
        check_zone(zone, year)
    check_zone(zone, year, minutes * MINUTE_US)


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../../etc/passwd", "UTC\0"])
def test_a_zone_that_does_not_exist_is_refused(zone: str) -> None:
    with pytest.raises(UsageError):
        check_zone(zone, NOVEMBER)


def test_only_listed_grains_can_be_set() -> None:
    with pytest.raises(UsageError, match="60, 30, 15"):
        check_grain(7 * MINUTE_US)
