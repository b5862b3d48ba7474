"""The product-limit estimate against the plain one in exact fractions, and against cases worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.definitions.kaplan_meier import (
    NO_WAITS,
    NOT_REACHED,
    Ends,
    cumulative_incidence,
    kaplan_meier,
    kaplan_meier_quantile,
)
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.unknown import Unknown, known

WAIT = st.tuples(st.integers(0, 12), st.sampled_from(("scheduled", "abandoned", "waiting")))
P = st.fractions(Fraction(1, 20), Fraction(19, 20), max_denominator=40)


def ends(waits: list[tuple[int, str]], weight: int = 1) -> list[Ends]:
    """Each wait by itself: times may repeat and come in any order."""
    return [
        Ends(time, weight * (end == "scheduled"), weight * (end == "abandoned"), weight * (end == "waiting"))
        for time, end in waits
    ]


def survival(waits: list[tuple[int, str]], at: int) -> Fraction:
    """By the book: the product, over the times of events up to ``at``, of the part of those still waiting that was not scheduled then."""
    product = Fraction(1)
    for time in sorted({time for time, end in waits if end == "scheduled" and time <= at}):
        waiting = [end for other, end in waits if other >= time]
        product *= 1 - Fraction(waits.count((time, "scheduled")), len(waiting))
    return product


def quantile(waits: list[tuple[int, str]], p: Fraction) -> int | None:
    return next(
        (
            time
            for time in sorted({time for time, end in waits if end == "scheduled"})
            if survival(waits, time) <= 1 - p
        ),
        None,
    )


@given(st.lists(WAIT, min_size=1, max_size=30), P)
def test_a_quantile_is_the_one_of_exact_fractions(waits: list[tuple[int, str]], p: Fraction) -> None:
    assert known(kaplan_meier_quantile(ends(waits), float(p))) == quantile(waits, p)


@given(st.lists(WAIT, max_size=20), st.integers(1, 8_000))
def test_a_weight_that_all_share_changes_nothing(waits: list[tuple[int, str]], weight: int) -> None:
    heavy, light = kaplan_meier(ends(waits, weight)), kaplan_meier(ends(waits))
    assert [time for time, _part in heavy] == [time for time, _part in light]
    assert [part for _time, part in heavy] == pytest.approx([part for _time, part in light])


@given(st.lists(st.tuples(WAIT, st.integers(1, 4)), max_size=12), P)
def test_a_weight_counts_as_so_many_equal_waits(waits: list[tuple[tuple[int, str], int]], p: Fraction) -> None:
    weighted = [each for wait, weight in waits for each in ends([wait], weight)]
    repeated = [wait for wait, weight in waits for _each in range(weight)]
    assert known(kaplan_meier_quantile(weighted, float(p))) == quantile(repeated, p)


@given(st.lists(WAIT, max_size=30))
def test_what_was_scheduled_abandoned_and_waits_still_is_all(waits: list[tuple[int, str]]) -> None:
    plain, scheduled, abandoned = Fraction(1), Fraction(0), Fraction(0)
    expected = []
    for time in sorted({time for time, end in waits if end != "waiting"}):
        at_risk = sum(other >= time for other, _end in waits)
        scheduled += plain * Fraction(waits.count((time, "scheduled")), at_risk)
        abandoned += plain * Fraction(waits.count((time, "abandoned")), at_risk)
        plain *= 1 - Fraction(waits.count((time, "scheduled")) + waits.count((time, "abandoned")), at_risk)
        assert scheduled + abandoned + plain == 1
        expected.append((time, float(scheduled), float(abandoned)))
    found = [(each.time_us, each.scheduled, each.abandoned) for each in cumulative_incidence(ends(waits))]
    assert [row[0] for row in found] == [row[0] for row in expected]
    assert [cell for row in found for cell in row[1:]] == pytest.approx([cell for row in expected for cell in row[1:]])


def test_one_of_twenty_is_five_percent_whatever_floating_point_says() -> None:
    waits = [(time, "scheduled") for time in range(1, 21)]
    assert kaplan_meier_quantile(ends(waits), 0.95) == 19
    assert kaplan_meier_quantile(ends(waits), 0.05) == 1


def test_events_come_before_censorings_of_the_same_time() -> None:
    assert kaplan_meier(ends([(5, "scheduled"), (5, "waiting")])) == [(5, 0.5)]


def test_a_quantile_that_is_not_reached_is_unknown_and_not_the_longest_wait() -> None:
    waits = [(time, "scheduled") for time in (10, 30, 300, 1140, 1800)] + [(3600, "waiting"), (9000, "abandoned")]
    assert kaplan_meier_quantile(ends(waits), 0.5) == 1140
    assert kaplan_meier_quantile(ends(waits), 0.95) == Unknown(NOT_REACHED)
    assert kaplan_meier(ends(waits))[-1][1] == pytest.approx(2 / 7)


def test_without_waits_there_is_nothing_to_estimate() -> None:
    assert kaplan_meier_quantile([], 0.5) == Unknown(NO_WAITS)
    assert cumulative_incidence([]) == []


@pytest.mark.parametrize("wrong", [Ends(-1, 1), Ends(1, -1), Ends(1, 0, -1), Ends(1, 0, 0, -1)])
def test_negative_times_and_counts_are_refused(wrong: Ends) -> None:
    with pytest.raises(InvariantError):
        kaplan_meier([wrong])


@pytest.mark.parametrize("p", [0.0, 1.0, 95.0])
def test_p_lies_between_nothing_and_all(p: float) -> None:
    with pytest.raises(InvariantError):
        kaplan_meier_quantile([Ends(1, 1)], p)
