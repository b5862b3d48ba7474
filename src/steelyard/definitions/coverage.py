"""Coverage: how much of what should have been seen was seen. It stands beside every answer."""

from __future__ import annotations

from typing import Final

from steelyard.primitives.errors import InvariantError
from steelyard.primitives.unknown import Unknown

VERSION: Final = "1"
FORMULA: Final = "coverage = observed / expected, by time and by device"


def coverage_ratio(observed: int, expected: int) -> float | Unknown:
    """observed / expected, both in the same unit (microseconds, or devices). Unknown where nothing was expected.

    Raises InvariantError where more was observed than expected: the expectation is wrong then, and a cut would hide it.
    """
    if observed < 0 or expected < 0 or (observed > expected and expected > 0):
        raise InvariantError(f"observed {observed} of {expected} expected")
    if expected == 0:
        return Unknown("nothing was expected to be seen")
    return observed / expected
