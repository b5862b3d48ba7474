import math

import pytest

from steelyard.definitions.percentile import (
    BucketQuantile,
    percentile_from_buckets,
    percentile_linear,
    percentile_nearest_rank,
)
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.unknown import Unknown

WAITS = [1800.0, 10.0, 300.0, 30.0, 1140.0]


def test_two_methods_give_two_numbers() -> None:
    assert percentile_linear(WAITS, 0.95) == pytest.approx(1668.0)
    assert percentile_nearest_rank(WAITS, 0.95) == 1800.0
    assert percentile_linear([2, 5, 7, 10, 20, 60], 0.5) == 8.5


def test_a_histogram_gives_edges_and_no_false_precision() -> None:
    buckets = [(0.1, 0), (0.5, 50), (1.0, 95), (math.inf, 100)]
    assert percentile_from_buckets(buckets, 0.5) == BucketQuantile(0.1, 0.5)
    assert percentile_from_buckets(buckets, 0.95) == BucketQuantile(0.5, 1.0)
    assert percentile_from_buckets(buckets, 0.99) == BucketQuantile(1.0, math.inf)
    assert percentile_from_buckets([(0.5, 3)], 0.0) == BucketQuantile(-math.inf, 0.5)


@pytest.mark.parametrize("buckets", [[], [(1.0, 0)], [(1.0, 5), (2.0, 3)], [(2.0, 1), (1.0, 2)], [(1.0, -1), (2.0, 4)]])
def test_a_histogram_without_counts_or_with_contradictions_is_unknown(buckets: list[tuple[float, int]]) -> None:
    assert isinstance(percentile_from_buckets(buckets, 0.5), Unknown)


def test_nothing_has_no_percentile_and_p_is_a_ratio() -> None:
    assert isinstance(percentile_linear([], 0.5), Unknown)
    assert isinstance(percentile_nearest_rank([], 0.5), Unknown)
    with pytest.raises(InvariantError):
        percentile_linear(WAITS, 95)
