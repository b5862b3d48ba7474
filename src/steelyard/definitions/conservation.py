"""The books must close: what is booked of a card at one moment never exceeds the card, and nothing is lost by rounding.

Where the shares on one card exceed it, each counts share / sum of shares, floored; the remainder of the floors is free and the
excess is booked as ``overcommitted``, visible beside the identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.definitions.share import WHOLE_PPM

VERSION: Final = "1"
FORMULA: Final = "supply = sum over (occupancy, service); shares above the card count share x capacity / sum, floored, remainder to free"


@dataclass(frozen=True, slots=True)
class Booked:
    """What the identity books: one share per holder in the order given, what is left, and the excess beside the identity. ppm."""

    shares_ppm: tuple[int, ...]
    free_ppm: int
    overcommitted_ppm: int


def booked_share_ppm(share_ppm: int, shares_sum_ppm: int, capacity_ppm: int = WHOLE_PPM) -> int:
    """What one holder counts for, given the sum of all shares at its place."""
    return share_ppm if shares_sum_ppm <= capacity_ppm else share_ppm * capacity_ppm // shares_sum_ppm


def book_shares(shares_ppm: Sequence[int], capacity_ppm: int = WHOLE_PPM) -> Booked:
    """All holders of a place at one moment: booked shares and free together are the capacity, exactly."""
    total = sum(shares_ppm)
    booked = tuple(booked_share_ppm(share, total, capacity_ppm) for share in shares_ppm)
    return Booked(booked, capacity_ppm - sum(booked), max(0, total - capacity_ppm))
