"""Prometheus and what speaks its language (Thanos, Mimir, VictoriaMetrics): its query API as a client, its remote write as a receiver.

Both yield points; what they mean is read elsewhere.
"""

from __future__ import annotations

from steelyard.sources.prometheus.api import Condition, PrometheusApi, step_text
from steelyard.sources.prometheus.endpoint import PrometheusEndpoint
from steelyard.sources.prometheus.remote_write import (
    Received,
    UnsupportedWrite,
    check_write_headers,
    read_write_request,
    written_headers,
)
from steelyard.sources.prometheus.windows import chunks_of, missing_chunks

__all__ = [
    "Condition",
    "PrometheusApi",
    "PrometheusEndpoint",
    "Received",
    "UnsupportedWrite",
    "check_write_headers",
    "chunks_of",
    "missing_chunks",
    "read_write_request",
    "step_text",
    "written_headers",
]
