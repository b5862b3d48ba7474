"""Amounts are exact both ways, whatever they are."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from steelyard.settlement.declared.changes import decimal_text
from steelyard.sources.money.amounts import scaled


@given(st.integers(-(10**17), 10**17), st.sampled_from([4, 6, 9]))
def test_an_amount_that_is_told_is_read_back_as_it_was(amount: int, digits: int) -> None:
    assert scaled(decimal_text(amount, digits), digits) == amount


@given(st.decimals(min_value=0, max_value=10**9, places=6))
def test_a_decimal_is_read_as_the_decimal_that_it_is(number: Decimal) -> None:
    assert scaled(format(number, "f"), 6) == number * 10**6


@given(st.text(max_size=30))
def test_any_text_is_an_amount_or_a_refusal(text: str) -> None:
    try:
        amount = scaled(text, 6)
    except ValueError as error:
        assert "expected" in str(error)
    else:
        assert Decimal(text) * 10**6 == amount
