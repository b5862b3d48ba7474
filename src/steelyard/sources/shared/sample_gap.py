"""How far apart two samples may lie and the time between still counts as seen, where whoever imports declares how often things come.

What is declared is of listings and samples alike, and an hourly listing says nothing about samples that come each minute. The samples themselves do:
half as far again as usual is one that is late, further is one that is missing, and what was not sampled is unknown, never idle.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from steelyard.primitives.instant import AT_OBSERVATION, DurationUs, Instant

DISTANCES_MIN: Final = 5
"""So many distances tell what is usual; fewer are an accident."""


def sample_gap_max_us(
    instants_by_unit: Iterable[Iterable[Instant]], declared_us: DurationUs | None
) -> DurationUs | None:
    """``declared_us``, or 3/2 of the median distance of the samples of one card where that is less; None where nothing is declared.

    Instants in any order, repeated or not; ``AT_OBSERVATION`` is none.
    """
    if declared_us is None:
        return None
    distances = sorted(
        after - before
        for instants in instants_by_unit
        for before, after in pairwise(sorted(set(instants) - {AT_OBSERVATION}))
    )
    if len(distances) < DISTANCES_MIN:
        return declared_us
    return min(declared_us, distances[(len(distances) - 1) // 2] * 3 // 2)
