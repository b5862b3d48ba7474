"""What monitoring is told of queues: waits as a histogram, decisions by verdict and cause, and the balance of quota, with labels in bounds.

The server computes it once for each posting and prints it at ``/metrics``. The trick to know: whoever may name queues could make series without
end, so only the ``QUEUES_MAX`` busiest are named, and the rest are summed as the queue ``other``. A sum of which a part is not
known is not known either.

Sceptic's query: ``SELECT queue, count(*) FROM ledger.wait WHERE ended_by IN ('reserved', 'scheduled', 'running') GROUP BY queue``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from steelyard.answers.reading import Reading, Record, Rows, int_or_none
from steelyard.primitives.instant import HOUR_US, MINUTE_US, SECOND_US

SQL: Final = Path(__file__).with_suffix(".sql")
QUEUES_MAX: Final = 100
OTHER: Final = "other"
BOUNDS_US: Final = (
    SECOND_US, 10 * SECOND_US, MINUTE_US, 5 * MINUTE_US, 15 * MINUTE_US, HOUR_US, 4 * HOUR_US, 12 * HOUR_US, 24 * HOUR_US, 72 * HOUR_US,
    168 * HOUR_US,
)  # fmt: skip
"""Upper bounds of the histogram's buckets."""

AMOUNTS: Final = ("nominal", "reserved", "used", "borrowed", "leaked")


@dataclass(slots=True)
class WaitSeries:
    """Waits of one queue. buckets: how many are longer than exactly so many of the bounds. total_us: all of them together."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_US) + 1))
    total_us: int = 0


@dataclass(frozen=True, slots=True)
class QueueSeries:
    """waits: by (cluster, queue). decisions: by (cluster, queue, verdict, cause). quotas: by (cluster, queue kind, queue, flavor, resource), amounts
    in thousandths in the order of ``AMOUNTS``, None = not known. A queue, cause or flavor that is not told is empty."""

    waits: Mapping[tuple[str, str], WaitSeries] = field(default_factory=dict)
    decisions: Mapping[tuple[str, str, str, str], int] = field(default_factory=dict)
    quotas: Mapping[tuple[str, str, str, str, str], Sequence[int | None]] = field(default_factory=dict)


def queue_series(rows: Rows) -> QueueSeries:
    """The series as of the last posting."""
    reading = Reading(rows, SQL)
    bounds = {f"b{number}": bound for number, bound in enumerate(BOUNDS_US)}
    return QueueSeries(
        _waits(reading.run("waits", **bounds)), _decisions(reading.run("decisions")), _quotas(reading.run("quotas"))
    )


def _waits(found: Sequence[Record]) -> dict[tuple[str, str], WaitSeries]:
    named = _busiest(found, lambda row: (row["cluster"], row["queue"]), lambda row: int(row["waits"]))
    series: dict[tuple[str, str], WaitSeries] = {}
    for row in found:
        queue = row["queue"] if (row["cluster"], row["queue"]) in named else OTHER
        one = series.setdefault((row["cluster"], queue), WaitSeries())
        one.buckets[row["bucket"]] += int(row["waits"])
        one.total_us += int(row["total_us"])
    return series


def _decisions(found: Sequence[Record]) -> dict[tuple[str, str, str, str], int]:
    named = _busiest(found, lambda row: (row["cluster"], row["queue"]), lambda row: int(row["decisions"]))
    series: Counter[tuple[str, str, str, str]] = Counter()
    for row in found:
        queue = row["queue"] if (row["cluster"], row["queue"]) in named else OTHER
        series[row["cluster"], queue, row["verdict"], row["cause"]] += int(row["decisions"])
    return dict(series)


def _quotas(found: Sequence[Record]) -> dict[tuple[str, str, str, str, str], list[int | None]]:
    named = _busiest(found, _queue_of, lambda row: int(row["nominal_milli"] or 0))
    series: dict[tuple[str, str, str, str, str], list[int | None]] = {}
    for row in found:
        queue, flavor = (row["queue"], row["flavor"]) if _queue_of(row) in named else (OTHER, OTHER)
        amounts = [int_or_none(row[f"{name}_milli"]) for name in AMOUNTS]
        key = row["cluster"], row["queue_kind"], queue, flavor, row["resource"]
        before = series.get(key)
        series[key] = amounts if before is None else [_sum(*pair) for pair in zip(before, amounts, strict=True)]
    return series


def _queue_of(row: Record) -> Hashable:
    return row["cluster"], row["queue_kind"], row["queue"]


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _busiest(
    found: Iterable[Record], key: Callable[[Record], Hashable], weight: Callable[[Record], int]
) -> set[Hashable]:
    """The keys with the most weight; of equal ones those that sort first."""
    total: Counter[Hashable] = Counter()
    for row in found:
        total[key(row)] += weight(row)
    ranked = sorted(total.items(), key=lambda item: (-item[1], str(item[0])))
    return {name for name, _weight in ranked[:QUEUES_MAX]}
