"""How far apart samples may lie, where what is declared is meant for rarer things."""

from __future__ import annotations

import pytest

from steelyard.primitives.instant import AT_OBSERVATION, HOUR_US, MINUTE_US
from steelyard.sources.shared.sample_gap import sample_gap_max_us

MINUTES = [n * MINUTE_US for n in range(10)]


@pytest.mark.parametrize(
    ("units", "declared", "expected"),
    [
        ([MINUTES], HOUR_US, 90_000_000),
        ([MINUTES], None, None),
        ([MINUTES], MINUTE_US, MINUTE_US),
        ([MINUTES[:5]], HOUR_US, HOUR_US),
        ([MINUTES[:4], [at + 7 for at in MINUTES[:4]]], HOUR_US, 90_000_000),
        ([[*MINUTES[:4], *(at + 40 * MINUTE_US for at in MINUTES)]], HOUR_US, 90_000_000),
        ([[*MINUTES, *MINUTES]], HOUR_US, 90_000_000),
        ([[AT_OBSERVATION, *MINUTES]], HOUR_US, 90_000_000),
    ],
)
def test_the_gap_is_half_as_far_again_as_samples_of_one_card_usually_lie_and_never_more_than_declared(
    units: list[list[int]], declared: int | None, expected: int | None
) -> None:
    assert sample_gap_max_us(units, declared) == expected
