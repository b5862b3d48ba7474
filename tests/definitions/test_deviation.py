"""The verdict over five figures: the first pair that does not go together names the row, and what is not known contradicts nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.definitions.deviation import DEVIATING, VERDICTS, tolerance_mib, verdict

FIGURE = st.none() | st.integers(0, 100_000)


@pytest.mark.parametrize(
    ("figures", "more", "expected"),
    [
        ((8_192, 8_192, 8_192, 6_000, 6_500), {}, "agrees"),
        ((2_000, 30_000, 30_000, 100, 100), {}, "grant_larger_than_request"),
        ((8_000, 10_240, None, None, 5_000), {"rounded": True}, "not_counted"),
        ((8_192, 8_192, 30_480, 100, 100), {}, "limit_not_in_force"),
        ((16_384, 16_384, 16_384, 24_576, 24_576), {}, "limit_not_in_force"),
        ((16_384, 16_384, 16_384, 17_203, 17_203), {}, "agrees"),
        ((8_192, 8_192, 8_193, 100, 100), {}, "agrees"),
        ((8_192, 8_192, 8_192, 8_000, 450), {}, "counted_above_device"),
        ((8_192, 8_192, 8_192, 100, 701), {}, "counted_below_device"),
        ((8_192, 8_192, 8_192, 100, 700), {}, "agrees"),
        ((40_000, 40_000, 40_000, 28_500, 30_000), {}, "agrees"),
        ((40_000, 40_000, 40_000, 28_499, 30_000), {}, "counted_below_device"),
        ((8_192, 8_192, None, None, None), {}, "use_unknown"),
        ((8_192, 8_192, None, None, 300), {}, "not_counted"),
        ((None, None, None, 4_000, None), {"held": False}, "not_held"),
    ],
)
def test_the_first_pair_that_does_not_go_together_names_the_row(
    figures: tuple[int | None, ...], more: dict[str, bool], expected: str
) -> None:
    assert verdict(*figures, **more) == expected


@given(FIGURE, FIGURE, FIGURE, FIGURE, FIGURE, st.booleans())
def test_a_figure_that_is_not_known_never_makes_a_row_deviate(
    requested: int | None,
    granted: int | None,
    enforced: int | None,
    counted: int | None,
    device: int | None,
    rounded: bool,
) -> None:
    found = verdict(requested, granted, enforced, counted, device, rounded=rounded)
    assert found in VERDICTS
    if found not in DEVIATING:
        for place in range(5):
            fewer = [requested, granted, enforced, counted, device]
            fewer[place] = None
            assert verdict(*fewer, rounded=rounded) not in DEVIATING


@given(st.integers(0, 10**9))
def test_the_tolerance_is_five_percent_and_never_less_than_a_context(device: int) -> None:
    assert tolerance_mib(device) == max(600, device / 20)
