"""Money and quantities as a person of a language reads them: digits by the currency (JPY none, USD two), marks and order by the language.

The trick to know: what is shown is rounded half to even to the currency's own digits, each figure by itself; the exact decimals stand in CSV and
Parquet, and a total is rounded from the exact sum, never summed from what is shown.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Final

from steelyard.primitives.instant import HOUR_US

LOCALES: Final = {"en": "en_US", "zh": "zh_CN"}
_WIDE: Final = Context(prec=80)


def currency_digits(currency: str) -> int:
    """Decimal places that a currency is written with, such as 2 for CNY and 0 for JPY; 2 where the code is not known."""
    from babel.numbers import get_currency_precision

    return int(get_currency_precision(currency))


def rounded_money(micro: int, currency: str) -> Decimal:
    """Millionths of a currency in its own digits, half to even; never a negative zero."""
    digits = currency_digits(currency)
    return Decimal(f"{round(Fraction(micro * 10**digits, 10**6))}E-{digits}")


def money_text(micro: int, currency: str, language: str) -> str:
    """An amount with its currency, as ``CN¥54.00`` in English and ``¥54.00`` in Chinese."""
    return _formatted(rounded_money(micro, currency), currency, language)


def price_text(micro: int, currency: str, language: str) -> str:
    """A unit price in full: at least the currency's digits, as many more as it has."""
    digits = currency_digits(currency)
    while digits < 6 and micro * 10**digits % 10**6:
        digits += 1
    return _formatted(Decimal(f"{micro * 10**digits // 10**6}E-{digits}"), currency, language)


def _formatted(amount: Decimal, currency: str, language: str) -> str:
    from babel.numbers import format_currency

    with localcontext(_WIDE):
        return format_currency(amount, currency, locale=LOCALES.get(language, "en_US"), decimal_quantization=False)


def hours_text(gpu_us: int) -> str:
    """GPU-hours with three decimals, half to even."""
    with localcontext(_WIDE):
        return f"{Decimal(f'{round(Fraction(gpu_us * 1000, HOUR_US))}E-3'):,f}"
