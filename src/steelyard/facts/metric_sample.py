"""Samples of series that are about services and queues rather than cards: engines, gateways, queue controllers."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class MetricSample(Fact, frozen=True, kw_only=True):
    """One sample at ``occurred_at``. natural_key: ``<metric>{<labels as sorted JSON>}``.

    metric: the canonical name (current spelling, whatever release exposed it). kind: ``gauge``, ``counter``, ``bucket`` (cumulative, with ``le``
    as a canonical decimal), ``sum``, ``count``. family: ``engine``, ``queue``, ``gateway``, ``scheduler``, ``device`` (counters of a
    card, written when they moved). labels: JSON object without the way.
    confidence: as in device_sample.
    """

    TABLE: ClassVar[str] = "metric_sample"

    family: str
    metric: str
    kind: str = "gauge"
    labels: str = "{}"
    le: str | None = None
    value: float | None = None
    namespace: str | None = None
    pod: str | None = None
    node: str | None = None
    confidence: str | None = None
