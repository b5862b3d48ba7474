"""Money by currency and language: digits, marks, exactness."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.surfaces.reports.money_text import hours_text, money_text, price_text, rounded_money


@pytest.mark.parametrize(
    ("micro", "currency", "language", "text"),
    [
        (54_005_000, "CNY", "en", "CN¥54.00"),
        (54_015_000, "CNY", "zh", "¥54.02"),
        (-1_234_567_890_123, "USD", "en", "-$1,234,567.89"),
        (54_500_000, "JPY", "en", "¥54"),
        (55_500_000, "JPY", "zh", "JP¥56"),
        (54_005_000, "KWD", "en", "KWD54.005"),
        (1_500_000, "XYZ", "en", "XYZ1.50"),
        (-1, "CNY", "en", "CN¥0.00"),
        (0, "USD", "zh", "US$0.00"),
        (10**35, "CNY", "zh", "¥100,000,000,000,000,000,000,000,000,000.00"),
    ],
)
def test_an_amount_has_the_digits_of_its_currency_and_the_mark_of_the_language(
    micro: int, currency: str, language: str, text: str
) -> None:
    assert money_text(micro, currency, language) == text


@pytest.mark.parametrize(
    ("micro", "currency", "text"),
    [
        (24_000_000, "CNY", "CN¥24.00"),
        (6_999_999, "USD", "$6.999999"),
        (700_500_000, "JPY", "¥700.5"),
        (1, "JPY", "¥0.000001"),
    ],
)
def test_a_unit_price_is_never_rounded(micro: int, currency: str, text: str) -> None:
    assert price_text(micro, currency, "en") == text


@given(st.integers(-(10**40), 10**40), st.sampled_from(["CNY", "JPY", "KWD"]))
def test_rounding_is_off_by_half_a_step_at_most(micro: int, currency: str) -> None:
    shown = rounded_money(micro, currency)
    step = Fraction(1, 10 ** -int(shown.as_tuple().exponent))
    assert abs(Fraction(shown) - Fraction(micro, 10**6)) <= step / 2
    assert not (shown == 0 and shown.is_signed())


@given(st.integers(0, 10**18))
def test_hours_have_three_decimals(gpu_us: int) -> None:
    shown = Fraction(Decimal(hours_text(gpu_us).replace(",", "")))
    assert abs(shown - Fraction(gpu_us, 3_600_000_000)) <= Fraction(1, 2000)
