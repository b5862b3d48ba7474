"""Cells of declared money as exact integers: amounts in millionths, rates in thousand-millionths, parts per million, instants.

Decimal arithmetic on the text alone, never through a binary fraction. The trick to know: whatever could be read in two ways (a comma, an
exponent, a time without a zone) is refused, and the refusal says what would have been understood.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from steelyard.primitives.currency import CURRENCIES
from steelyard.primitives.instant import Instant, from_datetime, parse_instant

_DECIMAL: Final = re.compile(r"(-?)(\d{1,18})(?:\.(\d{1,30}))?\Z", re.ASCII)
_GROUPED: Final = re.compile(r"-?\d{1,3}(?:[,.' \u00a0\u202f_]\d{3})+(?:[.,]\d+)?\Z|-?\d+,\d+\Z")
_WHOLE: Final = re.compile(r"\d{1,18}\Z", re.ASCII)
_DAY: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})\Z", re.ASCII)
_SHOWN: Final = 40


def scaled(text: str, digits: int) -> int:
    """A decimal such as ``2.50`` times ten to the ``digits``, exactly.

    Raises ValueError for a thousands separator, a comma, an exponent, a currency sign, no number at all, or more decimals than ``digits`` that
    are not 0: nothing is rounded in silence.
    """
    match = _DECIMAL.match(text)
    if match is None:
        if _GROUPED.match(text):
            raise ValueError(f"expected a decimal point and no thousands separators, as in 1234.50; found {_cut(text)}")
        raise ValueError(f"expected a plain decimal such as 2.50; found {_cut(text)}")
    sign, whole, fraction = match.group(1), match.group(2), match.group(3) or ""
    if fraction[digits:].strip("0"):
        raise ValueError(f"expected at most {digits} decimals; found {_cut(text)}")
    amount: int = int(whole) * 10**digits + int(fraction[:digits].ljust(digits, "0") or 0)
    return -amount if sign else amount


def positive_or_zero(text: str, digits: int, most: int) -> int:
    """As ``scaled``, for what cannot be below 0 nor above ``most`` whole units."""
    amount = scaled(text, digits)
    if amount < 0:
        raise ValueError(f"expected no negative number; found {_cut(text)}")
    if amount > most * 10**digits:
        raise ValueError(f"expected at most {most}; found {_cut(text)}")
    return amount


def whole(text: str) -> int:
    """A count such as ``1200``. Raises ValueError for anything else."""
    if _WHOLE.match(text) is None:
        raise ValueError(f"expected a whole number; found {_cut(text)}")
    return int(text)


def currency(text: str) -> str:
    """The code in capitals. Raises ValueError for what is no code of ISO 4217."""
    code = text.upper()
    if code not in CURRENCIES:
        raise ValueError(f"expected a currency code of ISO 4217 such as USD, EUR or CNY; found {_cut(text)}")
    return code


def instant(text: str, zone: str | None = None) -> Instant:
    """A time with a zone, or a day: its midnight in ``zone`` (IANA), without one in UTC.

    Raises ValueError for a time without a zone, a day that is none and a zone that is none.
    """
    match = _DAY.match(text)
    if match is None:
        try:
            return parse_instant(text)
        except ValueError:
            raise ValueError(
                "expected a day such as 2026-01-01 or a time with a zone such as 2026-01-01T00:00:00+08:00; "
                f"found {_cut(text)}"
            ) from None
    year, month, day = (int(part) for part in match.groups())
    try:
        return from_datetime(datetime(year, month, day, tzinfo=time_zone(zone)))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"no such day: {_cut(text)} ({error})") from None


def time_zone(name: str | None) -> ZoneInfo:
    """The zone of that name, None = UTC. Raises ValueError where the IANA list has none."""
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"expected a time zone of the IANA list such as Asia/Shanghai; found {_cut(name or '')}"
        ) from None


def _cut(text: str) -> str:
    return repr(text[:_SHOWN])
