"""When collectors and postings are due: plain arithmetic, always alike for the same name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steelyard.app.collectors.pace import START_SPREAD_US, PostingPace, Schedule
from steelyard.primitives.instant import SECOND_US

INTERVAL = 30 * SECOND_US
CAP = 600 * SECOND_US


def test_rounds_keep_to_their_slots_whatever_a_round_takes_and_do_not_drift() -> None:
    schedule = Schedule("a", INTERVAL)
    first = due = schedule.begin(1_000)
    assert 1_000 <= first < 1_000 + START_SPREAD_US
    for number in range(1, 200):
        found = schedule.after(due + 3 * SECOND_US, 0)
        assert found.skipped_count == 0
        assert 0 <= found.at - (first + number * INTERVAL) < INTERVAL // 20
        due = found.at


def test_a_round_that_overran_lets_slots_fall_out_and_counts_them() -> None:
    schedule = Schedule("a", INTERVAL)
    first = schedule.begin(0)
    found = schedule.after(first + 3 * INTERVAL + 1, 0)
    assert found.skipped_count == 3
    assert found.at >= first + 4 * INTERVAL


def test_pauses_after_failures_double_up_to_the_cap_and_a_success_ends_them() -> None:
    schedule = Schedule("a", INTERVAL, CAP)
    now = schedule.begin(0)
    for failures, wait in ((1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 600), (60, 600), (10**6, 600)):
        found = schedule.after(now, failures)
        assert wait * SECOND_US <= found.at - now <= wait * SECOND_US * 105 // 100
        now = found.at
    found = schedule.after(now + SECOND_US, 0)
    assert found.at - now <= INTERVAL * 105 // 100
    assert found.skipped_count == 0


def test_a_source_that_says_when_to_come_again_is_obeyed_within_the_cap() -> None:
    for asked, wait in ((200, 200), (5, 30), (10**9, 600)):
        schedule = Schedule("a", INTERVAL, CAP)
        now = schedule.begin(0)
        found = schedule.after(now, 1, asked * SECOND_US)
        assert wait * SECOND_US <= found.at - now <= wait * SECOND_US * 105 // 100


def test_collectors_of_one_interval_do_not_ask_all_at_once_and_each_asks_alike_each_time() -> None:
    starts = [Schedule(f"scrape/{number}", INTERVAL).begin(0) for number in range(50)]
    assert len(set(starts)) > 40
    assert starts == [Schedule(f"scrape/{number}", INTERVAL).begin(0) for number in range(50)]


@given(st.lists(st.tuples(st.integers(0, 10 * INTERVAL), st.integers(0, 3)), max_size=60))
def test_no_round_is_ever_due_in_the_past(steps: list[tuple[int, int]]) -> None:
    schedule = Schedule("a", INTERVAL)
    now = schedule.begin(0)
    for took, failures in steps:
        now += took
        found = schedule.after(now, failures)
        assert found.at >= now
        assert found.skipped_count >= 0
        now = found.at


@given(st.lists(st.tuples(st.integers(0, 100 * SECOND_US), st.integers(0, 60 * SECOND_US)), min_size=1, max_size=40))
def test_posting_takes_at_most_a_fifth_of_the_time(postings: list[tuple[int, int]]) -> None:
    pace = PostingPace(INTERVAL)
    now = began_first = 0
    assert pace.due(now) == now
    spent = 0
    last = None
    for waited, took in postings:
        now = max(now + waited, pace.due(now + waited))
        assert last is None or now - last >= INTERVAL
        last = now
        pace.posted(now, now + took)
        spent += took
        now += took
    assert spent * 5 <= pace.due(now) - began_first
