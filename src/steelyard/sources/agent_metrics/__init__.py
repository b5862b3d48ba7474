"""Metrics of our own node agent, for sites that only scrape: what is scraped gives the same facts as what is delivered."""

from steelyard.sources.agent_metrics.catalogue import AGENT_METRICS, FAMILIES, OWN_PREFIXES
from steelyard.sources.agent_metrics.read import read_agent_metrics

__all__ = ["AGENT_METRICS", "FAMILIES", "OWN_PREFIXES", "read_agent_metrics"]
