"""What people type becomes values, and every mistake one clear line."""

from __future__ import annotations

import pytest

from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, SECOND_US, Window
from steelyard.surfaces.shared.options import conditions_of, duration_of, instant_of, names_of, window_of


def test_a_bare_date_is_its_midnight_in_utc() -> None:
    assert instant_of("1970-01-02", "--at") == DAY_US
    assert instant_of("1970-01-01T01:00:00+01:00", "--at") == 0
    assert instant_of(None, "--at") is None


@pytest.mark.parametrize(
    "text", ["yesterday", "2026-13-01", "2026-11-30T02:00:00", "", "2026-11-30T25:00:00Z", "２０２６-01-01"]
)
def test_what_is_no_instant_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--at: "):
        instant_of(text, "--at")


def test_a_date_of_no_calendar_is_shown_as_it_was_typed() -> None:
    with pytest.raises(UsageError, match=r"--at: expected a date such as 2026-11-30, found '2026-13-01'"):
        instant_of("2026-13-01", "--at")
    with pytest.raises(UsageError, match=r"--at: expected an RFC 3339 time .*; found '2026-11-30T25:00:00Z'"):
        instant_of("2026-11-30T25:00:00Z", "--at")


@pytest.mark.parametrize(
    ("text", "length"),
    [("30s", 30 * SECOND_US), ("5m", 5 * MINUTE_US), ("1 h", HOUR_US), ("250ms", 250_000), ("2d", 2 * DAY_US)],
)
def test_durations(text: str, length: int) -> None:
    assert duration_of(text, "--x") == length


@pytest.mark.parametrize("text", ["30", "s", "-5s", "1.5h", "9" * 30 + "s", "5 minutes"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--x: expected a length of time"):
        duration_of(text, "--x")


def test_windows_have_two_ends_in_order() -> None:
    assert window_of(None, None) is None
    assert window_of("1970-01-01", "1970-01-02") == Window(0, DAY_US)
    for ends in (("1970-01-01", None), (None, "1970-01-01")):
        with pytest.raises(UsageError, match="go together"):
            window_of(*ends)
    for end in ("1970-01-01", "1969-12-31"):
        with pytest.raises(UsageError, match="must be later"):
            window_of("1970-01-01", end)


def test_dimensions_come_by_comma_and_by_repetition() -> None:
    assert names_of(["a, b", "", "c,"]) == ("a", "b", "c")


def test_conditions_keep_what_follows_the_first_equals_sign() -> None:
    assert conditions_of(["a=b=c", "queue="], {"gpu": "x", "node": None}) == {"a": "b=c", "queue": "", "gpu": "x"}


@pytest.mark.parametrize(
    ("texts", "named", "message"),
    [
        (["tenant"], {}, "expected dimension=value"),
        (["=x"], {}, "expected dimension=value"),
        (["gpu=a"], {"gpu": "b"}, "two different conditions on gpu"),
    ],
)
def test_conditions_that_say_nothing_or_two_things_are_refused(
    texts: list[str], named: dict[str, str | None], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        conditions_of(texts, named)
