"""The three effects sum to the difference, and each is what it says."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.definitions.cost_change import Change, Spent, decomposed


def spent(quantity: int, cost: int) -> Spent:
    return Spent(Fraction(quantity), Fraction(cost))


@pytest.mark.parametrize(
    ("before", "after", "effects", "cause"),
    [
        pytest.param({"a": spent(10, 10)}, {"a": spent(10, 15)}, (5, 0, 0), "price", id="a price rises"),
        pytest.param({"a": spent(10, 10)}, {"a": spent(15, 15)}, (0, 5, 0), "usage", id="more is used"),
        pytest.param(
            {"a": spent(10, 10), "b": spent(10, 30)}, {"a": spent(0, 0), "b": spent(20, 60)}, (0, 0, 20), "mix", id="dearer cards"
        ),
        pytest.param({"a": spent(10, 10)}, {"a": spent(20, 40)}, (20, 10, 0), "price", id="both"),
        pytest.param({}, {"a": spent(5, 10)}, (0, 10, 0), "usage", id="nothing was used before"),
        pytest.param({"a": spent(5, 10)}, {}, (0, -10, 0), "usage", id="nothing is used any more"),
        pytest.param({"a": spent(5, 10)}, {"a": spent(5, 10)}, (0, 0, 0), "none", id="nothing changed"),
        pytest.param({"a": spent(10, 10)}, {"b": spent(10, 30)}, (0, 0, 20), "mix", id="another card at another price"),
    ],
)  # fmt: skip
def test_what_changed_is_told(
    before: dict[str, Spent], after: dict[str, Spent], effects: tuple[int, int, int], cause: str
) -> None:
    change = decomposed(before, after)
    assert (change.price, change.usage, change.mix) == effects
    assert change.cause == cause


amounts = st.builds(spent, st.integers(0, 10**12), st.integers(0, 10**15))
spendings = st.dictionaries(st.sampled_from("abcd"), amounts)


@given(spendings, spendings)
def test_the_effects_sum_to_the_difference_exactly(before: dict[str, Spent], after: dict[str, Spent]) -> None:
    difference = sum(each.cost for each in after.values()) - sum(each.cost for each in before.values())
    assert decomposed(before, after).difference == difference


def test_the_largest_effect_is_the_cause_whatever_its_sign() -> None:
    assert Change(Fraction(1), Fraction(-3), Fraction(2)).cause == "usage"
