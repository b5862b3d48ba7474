"""Hints that clocks were held down, as samples of family ``device``: counters of nanoseconds, and the windowed count of clock events.

Field 112 (a mask, off in a stock exporter) says what holds now; these say that it held at some time since the last look. The trick to know: the
windowed count is a gauge over a sliding window whatever its type says, so it is kept as one and never differentiated.
Sceptic's command: ``nvidia-smi -q -d PERFORMANCE``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from steelyard.facts.metric_sample import MetricSample
from steelyard.primitives.instant import AT_OBSERVATION, Instant
from steelyard.sources.dcgm.fields import CLOCK_EVENTS, HELD_DOWN_NS, is_blank
from steelyard.sources.dcgm.rows import TEXT_MAX, Row
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.round_memory import RoundMemory

FAMILY: Final = "device"
IN_WINDOW: Final = "clock_events_in_window"
_COUNT_MAX: Final = 2.0**62


def held_down_samples(rows: Sequence[Row], ctx: ReadContext, memory: RoundMemory) -> Iterator[MetricSample]:
    """A sample per card and counter where it moved or an hour has passed; copies (MIG instances, replicas) count once."""
    latest: dict[tuple[str, str, str, Instant], tuple[Row, float]] = {}
    for row in rows:
        named = _named(row)
        if named is None or not 0 <= row.value < _COUNT_MAX or is_blank(row.value):
            continue
        metric, labels = named
        key = (row.place.uuid, metric, labels, row.at)
        known = latest.get(key)
        if known is None or known[1] < row.value:
            latest[key] = (row, row.value)
    for (_uuid, metric, labels, at), (row, value) in latest.items():
        when = ctx.observed_at if at == AT_OBSERVATION else at
        if memory.is_news(f"held_down/{metric}{labels}", value, when):
            yield MetricSample(
                cluster=ctx.cluster,
                source="dcgm",
                natural_key=f"{metric}{labels}",
                occurred_at=at,
                observed_at=ctx.observed_at,
                family=FAMILY,
                metric=metric,
                kind="gauge" if metric == IN_WINDOW else "counter",
                labels=labels,
                value=value,
                node=row.place.attributes.node,
            )


def _named(row: Row) -> tuple[str, str] | None:
    """The metric and its labels; None where the row is none of these."""
    labels = {"device_uuid": row.place.uuid}
    if row.number in HELD_DOWN_NS:
        return HELD_DOWN_NS[row.number], _json(labels)
    if row.name != CLOCK_EVENTS:
        return None
    window = row.labels.get("window_size_in_ms", "")[:20]
    more = {"clock_event": row.labels.get("clock_event", "")[:TEXT_MAX], "window_ms": window}
    return IN_WINDOW, _json({**labels, **more})


def _json(labels: dict[str, str]) -> str:
    return msgspec.json.encode(labels, order="sorted").decode()
