"""Over-use: the tolerance and the reasons for hard, each threshold from both sides, in Python and in SQL alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.definitions import over_use
from steelyard.definitions.over_use import (
    BYPASS,
    DEFAULTS,
    HARD_REASONS,
    RULES,
    OverUseThresholds,
    hard_reason,
    tolerance_mib,
)
from steelyard.primitives.instant import HOUR_US, MINUTE_US
from steelyard.store import Store


@pytest.mark.parametrize(
    ("granted", "processes", "tolerated"),
    [
        (0, 1, 600),
        (8_192, 1, 600),
        (12_000, 1, 600),
        (12_020, 1, 601),
        (80_000, 1, 4_000),
        (8_192, 2, 1_200),
        (8_192, 0, 600),
    ],
)
def test_the_larger_of_five_percent_and_600_mib_per_process_is_tolerated(
    granted: int, processes: int, tolerated: int
) -> None:
    assert tolerance_mib(granted, processes) == tolerated


@pytest.mark.parametrize(
    ("rule", "length_us", "soft", "excess_us", "reason"),
    [
        ("memory", 15 * MINUTE_US - 1, 1, 0, None),
        ("memory", 15 * MINUTE_US, 0, 0, "lasting"),
        ("compute", MINUTE_US, 2, HOUR_US - 1, None),
        ("compute", MINUTE_US, 3, 0, "repeated"),
        ("compute", MINUTE_US, 1, HOUR_US, "weekly_excess"),
        ("memory", 0, 9, 9 * HOUR_US, None),
        ("no_grant", 0, 0, 0, "bypass"),
        ("after_end", 0, 0, 0, "bypass"),
        ("outside_allocation", 0, 0, 0, "bypass"),
        ("tampered_grant", 0, 0, 0, "bypass"),
        ("exposed", HOUR_US, 9, 9 * HOUR_US, None),
    ],
)
def test_why_an_episode_is_hard(rule: str, length_us: int, soft: int, excess_us: int, reason: str | None) -> None:
    assert hard_reason(rule, length_us, soft, excess_us) == reason


def test_the_words_are_those_of_the_rules() -> None:
    assert set(RULES) > BYPASS
    assert over_use.VERSION in ("1",)
    assert {hard_reason(rule, HOUR_US, 3, HOUR_US) for rule in RULES} <= {*HARD_REASONS, None}


@given(
    st.sampled_from(RULES), st.integers(0, 40 * MINUTE_US), st.integers(0, 5), st.none() | st.integers(0, 2 * HOUR_US), st.integers(0, 100_000),
    st.integers(0, 8),
)  # fmt: skip
def test_sql_says_the_same(
    rule: str, length_us: int, soft: int, excess_us: int | None, granted: int, processes: int
) -> None:
    limits = OverUseThresholds()
    with Store.open_memory() as store:
        row = store.rows(
            "SELECT over_use_hard_reason(?, ?::BIGINT, ?::BIGINT, ?::BIGINT, ?, ?, ?), over_use_tolerance_mib(?::BIGINT, ?::BIGINT, ?, ?)",
            [
                rule, length_us, soft, excess_us, limits.soft_us, limits.repeated_count, limits.weekly_gpu_us, granted, processes,
                limits.memory_percent, limits.memory_process_mib,
            ],
        )[0]  # fmt: skip
    assert row == (hard_reason(rule, length_us, soft, excess_us or 0), tolerance_mib(granted, processes, DEFAULTS))
