"""``read_inference_metrics(points, resolver, ctx, tally)``: samples of engines and gateways, one per series, under current names.

Units stay those of the metric's name. Bounds of buckets are canonical (``1``, never ``1.0``), so that one target holds for all engines.
``pod`` and ``namespace`` are the engine's: an engine labels no pod of its own, so the scraped one is it. Sceptic's command:
``curl engine:8000/metrics``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from steelyard.facts.base import Fact
from steelyard.sources.inference_server.catalogue import INFERENCE_METRICS
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_samples import read_samples
from steelyard.sources.shared.metric_tally import MetricTally

SOURCE: Final = "inference_server"


def read_inference_metrics(
    points: Iterable[MetricPoint], resolver: LabelResolver, ctx: ReadContext, tally: MetricTally | None = None
) -> Iterator[Fact]:
    """MetricSample facts of family ``engine`` and ``gateway``, and findings."""
    yield from read_samples(points, INFERENCE_METRICS, resolver, ctx, SOURCE, tally or MetricTally())
