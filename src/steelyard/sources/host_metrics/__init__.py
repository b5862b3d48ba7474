"""What cAdvisor and node_exporter export of the host's treatment of pods, as figures of a minute of family ``host``."""

from __future__ import annotations

from steelyard.sources.host_metrics.read import HOST_METRICS, read_host_metrics

__all__ = ["HOST_METRICS", "read_host_metrics"]
