"""Durations as Go writes them: ``1h30m0s``, ``55m0s``, ``1.5s``, ``200ms``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from steelyard.primitives.instant import HOUR_US, MINUTE_US, SECOND_US, DurationUs

_PART: Final = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)(h|ms|m|s|us|µs|μs|ns)")
_UNIT: Final = {
    "h": Fraction(HOUR_US), "m": Fraction(MINUTE_US), "s": Fraction(SECOND_US), "ms": Fraction(1_000),
    "us": Fraction(1), "µs": Fraction(1), "μs": Fraction(1), "ns": Fraction(1, 1_000),
}  # fmt: skip
_CHARACTERS_MAX: Final = 64


def parse_go_duration(text: object) -> DurationUs | None:
    """Microseconds, floored; None where it is no such duration."""
    if not isinstance(text, str) or not 0 < len(text) <= _CHARACTERS_MAX:
        return None
    if text == "0":
        return 0
    place, total = 0, Fraction(0)
    while place < len(text):
        part = _PART.match(text, place)
        if part is None:
            return None
        total += Fraction(part.group(1)) * _UNIT[part.group(2)]
        place = part.end()
    whole = total.numerator // total.denominator
    return whole if whole < 2**63 else None
