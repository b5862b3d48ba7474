"""One sample of one series, in whatever way it came: scraped text, an answer of a Prometheus API, remote write.

Readers of meaning (DCGM, HAMi, engines, queues) take points and yield facts, so that equal observations become equal facts.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steelyard.primitives.instant import Instant


class MetricPoint(msgspec.Struct, frozen=True):
    """A sample. ``name`` as exposed; ``labels`` without ``__name__``; ``value`` may be NaN or infinite; ``at`` its instant, AT_OBSERVATION
    where the text bears none; ``declared``: the type that its sender declares (``gauge``, ``counter``), None where the way does not tell."""

    name: str
    labels: Mapping[str, str]
    value: float
    at: Instant
    declared: str | None = None
