"""Metrics endpoints, asked directly over HTTP: many targets at once, each within its bounds, each on its own. Yields bytes; what they mean
is read elsewhere."""

from __future__ import annotations

from steelyard.sources.scrape.body import text_of
from steelyard.sources.scrape.fetching import Fetched, Scraper
from steelyard.sources.scrape.target import ScrapeLimits, Target, TargetAccess

__all__ = ["Fetched", "ScrapeLimits", "Scraper", "Target", "TargetAccess", "text_of"]
