"""Kubernetes quantities: ``1``, ``8192``, ``5k``, ``1Gi``, ``500m``, ``1e3``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_QUANTITY: Final = re.compile(
    r"([+-]?\d{1,30}(?:\.\d{0,30})?|[+-]?\.\d{1,30})(?:([eE][+-]?\d{1,2})|(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|n|u))?\Z"
)
_SUFFIX: Final = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip


def parse_quantity(value: object) -> Fraction:
    """The quantity as an exact number. Raises ValueError for anything that is not one (including booleans and NaN)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return Fraction(str(value))
    match = _QUANTITY.match(value.strip()) if isinstance(value, str) and len(value) <= 64 else None
    if match is None:
        raise ValueError(f"expected a Kubernetes quantity such as 2, 500m or 8Gi; found {str(value)[:60]!r}")
    number, exponent, suffix = match.groups()
    scale = Fraction(10) ** int(exponent[1:]) if exponent else _SUFFIX.get(suffix or "", Fraction(1))
    return Fraction(number) * scale


def parse_count(value: object) -> int:
    """A whole, non-negative quantity. Raises ValueError otherwise. The usual form, a few digits, has a short way of its own."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    quantity = parse_quantity(value)
    if quantity.denominator != 1 or not 0 <= quantity < 2**63:
        raise ValueError(f"expected a whole count between 0 and 2^63; found {str(value)[:60]!r}")
    return int(quantity)
