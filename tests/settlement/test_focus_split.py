"""A charge split to pods: ratios that sum to exactly 1, details that the specification's schema takes."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.errors import InvariantError
from steelyard.settlement.focus_split import Share, method_details, ratios

WEIGHTS = st.lists(st.integers(0, 10**15), min_size=1, max_size=40).filter(any)


@given(WEIGHTS)
def test_ratios_sum_to_exactly_one(weights: list[int]) -> None:
    assert sum(Fraction(ratio) for ratio in ratios(weights)) == 1


@given(WEIGHTS)
def test_no_ratio_is_off_by_a_whole_step_of_the_last_place(weights: list[int]) -> None:
    for weight, ratio in zip(weights, ratios(weights), strict=True):
        assert abs(Fraction(ratio) - Fraction(weight, sum(weights))) < Fraction(1, 10**12)
        assert 0 <= ratio <= 1


def test_what_is_missing_goes_to_the_earlier_of_equals() -> None:
    assert [str(ratio) for ratio in ratios([1, 1, 1])] == ["0.333333333334", "0.333333333333", "0.333333333333"]


@pytest.mark.parametrize("weights", [[], [0], [0, 0], [2, -1]])
def test_nothing_is_split_without_a_weight(weights: list[int]) -> None:
    with pytest.raises(InvariantError):
        ratios(weights)


def test_the_details_keep_to_the_schema(shared: Path) -> None:
    schema = json.loads((shared / "cases/cost/focus_1_4_allocatedmethoddetails.schema.json").read_text("utf-8"))
    for ratio, quantity in zip(ratios([1, 2, 10**15]), (1, 2, 10**15), strict=True):
        jsonschema.validate(json.loads(method_details(Share(ratio, quantity))), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(method_details(Share(Decimal("1.5"), 1))), schema)
