"""Prometheus text, as exporters print it: the one place that parses it. Yields points; what they mean is read elsewhere."""

from __future__ import annotations

from steelyard.sources.exposition.read import LinesRead, read_exposition
from steelyard.sources.exposition.series_cache import SeriesCache

__all__ = ["LinesRead", "SeriesCache", "read_exposition"]
