"""How one card's charge is split to the pods on it, in FOCUS's words: a ratio of the origin charge, and what it was computed from.

The trick to know: ratios are decimals of twelve places, floored, and what is missing to 1 goes in steps of the last place to the largest
remainders (ties: the earlier row), so the ratios of one origin sum to exactly 1 and none is off by a whole step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from steelyard.primitives.errors import InvariantError
from steelyard.settlement.focus_columns import RATIO_SCALE


@dataclass(frozen=True, slots=True)
class Share:
    """One allocated charge: its part of the origin and the GPU-time it was computed from."""

    ratio: Decimal
    quantity_gpu_us: int


def ratios(weights: Sequence[int]) -> Sequence[Decimal]:
    """The parts of positive weights in their sum, decimals of twelve places that sum to exactly 1. Raises InvariantError without any weight."""
    total = sum(weights)
    if total <= 0 or any(weight < 0 for weight in weights):
        raise InvariantError("a charge can only be split by weights that are not negative and not all 0")
    scale = 10**RATIO_SCALE
    floors = [weight * scale // total for weight in weights]
    rest = scale - sum(floors)
    by_remainder = sorted(range(len(weights)), key=lambda n: (-(weights[n] * scale % total), n))
    for n in by_remainder[:rest]:
        floors[n] += 1
    return [Decimal(f"{each}E-{RATIO_SCALE}") for each in floors]


def method_details(share: Share) -> str:
    """The JSON of ``AllocatedMethodDetails``: numbers as they are, and the exact GPU-time beside the rounded hours."""
    hours = round_hours(share.quantity_gpu_us)
    return (
        f'{{"Elements": [{{"AllocatedRatio": {share.ratio:f}, "UsageUnit": "GPU-Hours", "UsageQuantity": {hours:f}, '
        f'"x_GpuMicroseconds": {share.quantity_gpu_us}}}]}}'
    )


def round_hours(gpu_us: int) -> Decimal:
    """GPU-microseconds as GPU-hours with twelve places, half to even."""
    return Decimal(f"{round(Fraction(gpu_us * 10**12, 3_600_000_000))}E-12")
