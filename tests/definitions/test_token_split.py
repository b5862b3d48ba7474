"""Tokens become weights, and amounts are divided by them without losing a millionth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.definitions.token_split import (
    TokenUse,
    TokenWeights,
    WeightedTokens,
    divided,
    weighted_tokens,
    weights_by_caller,
)
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.unknown import Unknown


@pytest.mark.parametrize(
    ("tokens", "weight"),
    [
        ((100, None, 0), WeightedTokens(100_000_000, 0)),
        ((100, 0, 10), WeightedTokens(100_000_000, 40_000_000)),
        ((100, 100, 0), WeightedTokens(10_000_000, 0)),
        ((0, None, 0), WeightedTokens(0, 0)),
    ],
)
def test_a_decoded_token_weighs_more_than_a_prompt_token_and_a_cached_one_less(
    tokens: tuple[int, int | None, int], weight: WeightedTokens
) -> None:
    assert weighted_tokens(*tokens) == weight


@pytest.mark.parametrize("tokens", [(None, None, 5), (5, None, None), (None, 1, None), (100, 101, 0), (100, -1, 0)])
def test_tokens_that_are_partly_told_or_contradict_themselves_have_no_weight_and_not_the_weight_0(
    tokens: tuple[int | None, ...],
) -> None:
    assert isinstance(weighted_tokens(*tokens), Unknown)


def test_weights_are_the_sites_to_set() -> None:
    found = weighted_tokens(10, 5, 2, TokenWeights(decode_ppm=1_000_000, cached_ppm=1_000_000))
    assert isinstance(found, WeightedTokens)
    assert (found.prefill, found.decode, found.total) == (10_000_000, 2_000_000, 12_000_000)


def test_a_service_with_a_row_that_is_not_told_is_split_to_nobody() -> None:
    assert isinstance(weights_by_caller([TokenUse("a", 100, None, 0), TokenUse("b", None, None, 5)]), Unknown)


def test_cached_tokens_count_as_cached_only_where_every_caller_tells_them() -> None:
    alike = [TokenUse("a", 100, 100, 0), TokenUse("b", 100, None, 0)]
    assert weights_by_caller(alike) == {"a": WeightedTokens(100_000_000, 0), "b": WeightedTokens(100_000_000, 0)}
    told = [TokenUse("a", 100, 100, 0), TokenUse("b", 100, 0, 0)]
    assert weights_by_caller(told) == {"a": WeightedTokens(10_000_000, 0), "b": WeightedTokens(100_000_000, 0)}


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), *[st.integers(0, 10**9)] * 2), max_size=12))
def test_weights_by_caller_sum_to_the_weight_of_all_rows_with_those_without_a_name_last(
    rows: list[tuple[str | None, int, int]],
) -> None:
    found = weights_by_caller(TokenUse(caller, prompt, None, completion) for caller, prompt, completion in rows)
    assert not isinstance(found, Unknown)
    assert sum(each.total for each in found.values()) == sum(p * 1_000_000 + c * 4_000_000 for _name, p, c in rows)
    assert set(found) == {caller for caller, _p, _c in rows}
    assert None not in list(found)[:-1]


@given(st.integers(-(10**15), 10**15), st.lists(st.integers(0, 10**12), min_size=1, max_size=20))
def test_the_parts_sum_to_the_whole_and_lie_within_one_of_their_share(whole: int, weights: list[int]) -> None:
    if not sum(weights):
        with pytest.raises(InvariantError):
            divided(whole, weights)
        return
    parts = divided(whole, weights)
    assert sum(parts) == whole
    assert all(
        abs(part * sum(weights) - whole * weight) <= sum(weights) for part, weight in zip(parts, weights, strict=True)
    )


def test_what_is_left_goes_to_the_largest_remainder_and_of_two_alike_to_the_first() -> None:
    assert divided(10, [1, 1, 1]) == [4, 3, 3]
    assert divided(100, [999, 1]) == [100, 0]
    assert divided(5, [1, 0]) == [5, 0]
