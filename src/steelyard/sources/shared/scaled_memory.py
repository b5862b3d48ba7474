"""Physical memory of a card whose register shows schedulable memory: the layers multiply it by a factor that the register omits."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from steelyard.definitions.models import memory_mib_of

SCALING_MAX: Final = 100
SCALING_LABEL_SUFFIX: Final = "device-memory-scaling"
_MODEL_TOLERANCE_PERCENT: Final = 3


def scaling_of(text: object) -> Fraction:
    """A memory scaling factor such as ``1.5``, exact. Raises ValueError where it is no number in (0, 100]."""
    written = str(text).strip()
    if len(written) > 24 or not written.replace(".", "", 1).isdecimal() or not written.isascii():
        raise ValueError(f"expected a memory scaling factor such as 1.5; found {written[:40]!r}")
    scaling = Fraction(written)
    if not 0 < scaling <= SCALING_MAX:
        raise ValueError(f"expected a memory scaling factor in (0, {SCALING_MAX}]; found {written[:40]!r}")
    return scaling


def scaling_label(labels: Mapping[str, str]) -> str | None:
    """The value of the node label whose key ends with ``device-memory-scaling``; the first by key where there are several."""
    return next((labels[key] for key in sorted(labels) if key.endswith(SCALING_LABEL_SUFFIX)), None)


def physical_memory_mib(schedulable_mib: int, model: str | None, scaling: Fraction | None) -> int | None:
    """Physical MiB behind the schedulable ones; None where the register says 0.

    A known factor divides (the layer cut the product down to whole MiB, so the quotient is rounded up). Without one a listed
    model whose memory is more than 3 % smaller decides; else the register is taken at its word.
    """
    if schedulable_mib <= 0:
        return None
    if scaling is not None:
        return -((-schedulable_mib * scaling.denominator) // scaling.numerator)
    listed = memory_mib_of(model) if model is not None else None
    if isinstance(listed, int) and schedulable_mib * 100 > listed * (100 + _MODEL_TOLERANCE_PERCENT):
        return listed
    return schedulable_mib
