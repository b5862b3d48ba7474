"""Samples of HAMi's exporters under one spelling of their labels, and of several replicas the one to read.

Called by ``metrics``. The trick to know: followers of the scheduler export an empty or stale view, so per card the exporter with more rows
counts, and figures of two replicas never meet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.primitives.instant import Instant
from steelyard.sources.hami.metric_names import LABELS, NAMES, Meaning
from steelyard.sources.shared.gpu_uuid import metric_gpu_uuid
from steelyard.sources.shared.metric_labels import Resolved, Target
from steelyard.sources.shared.metric_points import MetricPoint


@dataclass(frozen=True, slots=True)
class Row:
    """One sample with its labels under one spelling. ``uuid`` is None where the metric is not about a card."""

    name: str
    meaning: Meaning
    value: float
    at: Instant
    uuid: str | None
    labels: Mapping[str, str]
    raw: Mapping[str, str]
    target: Target

    @property
    def node(self) -> str | None:
        """The node that the labels or the way name."""
        return self.labels.get("node") or self.target.node


@dataclass(slots=True)
class Group:
    """All rows of one subject at one instant: column -> name -> ordinal -> row."""

    rows: dict[str, dict[str, dict[str, Row]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(dict)))

    def best(self, column: str) -> list[Row]:
        """The rows of the best-ranked name of a column."""
        names = self.rows.get(column)
        if not names:
            return []
        name = min(names, key=lambda each: (NAMES[each].rank, each))
        return list(names[name].values())

    def any(self) -> Row:
        """Some row of the group."""
        return next(row for names in self.rows.values() for rows in names.values() for row in rows.values())


Key = tuple[Instant, str, str, str, str, str]
"""At, subject, card, namespace, pod, container."""


def row_of(point: MetricPoint, meaning: Meaning, resolved: Resolved) -> Row:
    """The row of a sample whose meaning is known."""
    raw = resolved.labels
    labels = {
        name: value
        for name, spellings in LABELS.items()
        if (value := next((raw[each] for each in spellings if each in raw), None)) is not None
    }
    uuid = metric_gpu_uuid(labels.get("device_uuid"))
    return Row(point.name, meaning, point.value, point.at, uuid, labels, raw, resolved.target)


def one_replica(rows: Iterable[Row]) -> tuple[Sequence[Row], Sequence[Row]]:
    """(kept, dropped): of several exporters of one card's figures the one with more rows."""
    rows = list(rows)
    counts: dict[tuple[str, Instant, str, str], int] = defaultdict(int)
    for row in rows:
        counts[row.meaning.origin, row.at, row.uuid or "", row.target.key] += 1
    best: dict[tuple[str, Instant, str], tuple[int, str]] = {}
    for (origin, at, uuid, target), count in counts.items():
        rank = (-count, target)
        best[origin, at, uuid] = min(best.get((origin, at, uuid), rank), rank)
    kept: list[Row] = []
    dropped: list[Row] = []
    for row in rows:
        is_best = best[row.meaning.origin, row.at, row.uuid or ""][1] == row.target.key
        (kept if is_best else dropped).append(row)
    return kept, dropped
