"""GPU-time: how long times which share, in microseconds of one card, floored once.

The trick to know: whole seconds and the rest are multiplied apart, so the product fits 64 bits for any stretch that a ledger posts
(a month of a thousand cards) and the floor is the exact one.
"""

from __future__ import annotations

from typing import Final

from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import DurationUs

VERSION: Final = "1"
FORMULA: Final = "GPU-time = floor(duration in microseconds x share in ppm / 1,000,000)"


def gpu_time_us(duration_us: DurationUs, share_ppm: int) -> int:
    """GPU-microseconds of a share over a stretch. Raises InvariantError for a negative duration or share."""
    if duration_us < 0 or share_ppm < 0:
        raise InvariantError(f"GPU-time of a negative stretch or share: {duration_us} us, {share_ppm} ppm")
    return duration_us * share_ppm // 1_000_000
