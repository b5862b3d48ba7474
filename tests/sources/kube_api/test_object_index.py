"""News is told from repetition by version, whatever the order in which versions come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steelyard.sources.kube_api.object_index import ObjectIndex, version_of

VERSIONS = st.lists(st.integers(1, 50), min_size=1, max_size=30)


@given(VERSIONS)
def test_whatever_the_order_the_highest_version_counts_and_each_is_news_at_most_once(versions: list[int]) -> None:
    index = ObjectIndex(10)
    news = [version for version in versions if index.note("u", version, 0)]
    assert news == sorted(set(news))
    assert news[-1] == max(versions)


@given(VERSIONS, st.integers(1, 50))
def test_after_the_end_no_earlier_version_revives_an_object(versions: list[int], end: int) -> None:
    index = ObjectIndex(10)
    index.note("u", 1, 0)
    assert index.bury("u", max(end, 2))
    assert [version for version in versions if index.note("u", version, 0) and version <= max(end, 2)] == []


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_a_listing_ends_exactly_what_it_does_not_name(before: set[int], after: set[int]) -> None:
    index = ObjectIndex(100)
    for number in before:
        index.note(f"u{number}", 1, number)
    index.begin_listing(5)
    for number in after:
        index.note(f"u{number}", 1, 99)
    assert dict(index.end_listing()) == {f"u{number}": number for number in before - after}
    assert {number for number in range(21) if f"u{number}" in index} == after


def test_a_full_index_passes_on_what_it_cannot_remember_and_says_that_it_is_not_complete() -> None:
    index = ObjectIndex(1)
    index.begin_listing(1)
    assert [index.note(uid, 1, 0) for uid in ("a", "b", "b")] == [True, True, True]
    assert (len(index), index.is_complete) == (1, False)
    assert index.end_listing() == []


def test_a_spoilt_listing_ends_nothing_and_the_next_one_does() -> None:
    index = ObjectIndex(10)
    index.note("a", 1, 7)
    index.begin_listing(2)
    index.spoil()
    assert index.end_listing() == []
    index.begin_listing(3)
    assert index.end_listing() == [("a", 7)]


def test_a_list_is_the_last_word_and_may_name_what_was_deleted() -> None:
    index = ObjectIndex(10)
    index.note("a", 1, 0)
    index.bury("a", 3)
    assert not index.note("a", 2, 0)
    index.begin_listing(9)
    assert index.note("a", 2, 0)


def test_tombstones_are_bounded() -> None:
    index = ObjectIndex(10, tombstones_max=2)
    for number, uid in enumerate("abc", 1):
        index.bury(uid, number)
    assert not index.note("c", 1, 0)
    assert index.note("a", 1, 0), "forgotten by now"


def test_versions_that_are_no_numbers_are_only_ever_different() -> None:
    index = ObjectIndex(10)
    assert [index.note("u", version_of(text), 0) for text in ("x9", "x1", "x1")] == [True, True, False]
    assert version_of("0012") == 12
    assert version_of("9" * 30) == "9" * 30
    assert version_of("\u0663") == "\u0663"
