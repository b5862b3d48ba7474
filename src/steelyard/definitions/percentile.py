"""Percentiles, each method under its own name, because two methods give two numbers.

``linear`` interpolates between the two neighbouring raw values (the default); ``nearest_rank`` is the smallest value that at least
that part of the values does not exceed. From a histogram comes the bucket that holds the quantile, with its two edges, never a false
precision between them. Quantiles are never averaged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.errors import InvariantError
from steelyard.primitives.unknown import Unknown

VERSION: Final = "1"
FORMULA: Final = (
    "linear interpolation on raw values at rank p x (n - 1); nearest rank and histogram bucket under their own names"
)

LINEAR: Final = "linear"
NEAREST_RANK: Final = "nearest_rank"
HISTOGRAM: Final = "histogram_bucket"

_NO_VALUES: Final = Unknown("there is no value to take a percentile of")


@dataclass(frozen=True, slots=True)
class BucketQuantile:
    """The quantile lies above ``lower`` and at or below ``upper``; an edge that the histogram does not have is infinite."""

    lower: float
    upper: float


def percentile_linear(values: Sequence[float], p: float) -> float | Unknown:
    """The value at rank p x (n - 1) of the sorted values, between two of them by straight line. p is 0 to 1."""
    _check(p)
    if not values:
        return _NO_VALUES
    ordered = sorted(values)
    rank = p * (len(ordered) - 1)
    below = math.floor(rank)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    return low + (high - low) * (rank - below)


def percentile_nearest_rank(values: Sequence[float], p: float) -> float | Unknown:
    """The smallest of the values such that at least p of all values are not larger. p is 0 to 1."""
    _check(p)
    if not values:
        return _NO_VALUES
    ordered = sorted(values)
    return ordered[max(0, math.ceil(p * len(ordered)) - 1)]


def percentile_from_buckets(buckets: Sequence[tuple[float, int]], p: float) -> BucketQuantile | Unknown:
    """The bucket that holds the quantile. ``buckets``: (upper edge, cumulative count), edges ascending, the last may be infinite.

    The quantile is the one of nearest rank, so it surely lies in the bucket. Unknown where nothing was counted, or where the counts
    fall (a counter that was reset, or scraped in the middle). The lower edge of the first bucket is minus infinity.
    """
    _check(p)
    counts = [count for _edge, count in buckets]
    edges = [edge for edge, _count in buckets]
    if not buckets or counts[-1] <= 0:
        return _NO_VALUES
    if sorted(counts) != counts or counts[0] < 0 or any(a >= b for a, b in itertools.pairwise(edges)):
        return Unknown("the buckets of the histogram contradict each other")
    rank = max(1, math.ceil(p * counts[-1]))
    position = next(index for index, count in enumerate(counts) if count >= rank)
    return BucketQuantile(edges[position - 1] if position else -math.inf, edges[position])


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise InvariantError(f"a percentile's p is 0 to 1, found {p}")
