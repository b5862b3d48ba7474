"""Kubernetes quantities."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.sources.shared.quantity import parse_count, parse_quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", Fraction(1)),
        (8192, Fraction(8192)),
        ("5k", Fraction(5000)),
        ("1Gi", Fraction(2**30)),
        ("500m", Fraction(1, 2)),
        ("1e3", Fraction(1000)),
        ("1.5Mi", Fraction(3 * 2**19)),
        (0.1, Fraction(1, 10)),
    ],
)
def test_a_quantity_is_exact(text: object, expected: Fraction) -> None:
    assert parse_quantity(text) == expected


@pytest.mark.parametrize(
    "value", ["", "x", "1x", "1 Gi", True, None, float("nan"), float("inf"), [], "9" * 100, "1e999"]
)
def test_what_is_no_quantity_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        parse_quantity(value)


@pytest.mark.parametrize("value", ["-1", "500m", "1e30", 2**63])
def test_a_count_is_whole_and_fits(value: object) -> None:
    with pytest.raises(ValueError):
        parse_count(value)


@given(st.integers(0, 2**62))
def test_a_count_survives_its_text(value: int) -> None:
    assert parse_count(str(value)) == value
