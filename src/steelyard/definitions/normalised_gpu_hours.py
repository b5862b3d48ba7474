"""Normalised GPU-time (D6): GPU-time weighed by the card's model, so that hours of different cards can stand side by side.

A weight is in parts per million of the reference model (1,000,000 = the reference). Plain and normalised figures are always shown
side by side; a model without a weight counts as 1 only where the settings say so, else it is Unknown.
"""

from __future__ import annotations

from typing import Final

from steelyard.primitives.instant import HOUR_US
from steelyard.primitives.unknown import Unknown

VERSION: Final = "1"
FORMULA: Final = "normalised GPU-hours = share x hours x weight(model), reference model = 1"

REFERENCE_WEIGHT_PPM: Final = 1_000_000


def normalised_gpu_time_us(gpu_time_us: int, weight_ppm: int | None) -> int | Unknown:
    """GPU-microseconds of the reference model, floored. Unknown where the model has no weight."""
    if weight_ppm is None:
        return Unknown("the model has no weight")
    return gpu_time_us * weight_ppm // REFERENCE_WEIGHT_PPM


def gpu_hours(gpu_time_us: int) -> float:
    """GPU-microseconds as hours, for people. Sum first, convert last."""
    return gpu_time_us / HOUR_US
