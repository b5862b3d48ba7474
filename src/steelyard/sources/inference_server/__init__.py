"""Metrics of inference engines and of the gateways in front of them."""

from __future__ import annotations

from steelyard.sources.inference_server.catalogue import INFERENCE_METRICS
from steelyard.sources.inference_server.read import read_inference_metrics

__all__ = ["INFERENCE_METRICS", "read_inference_metrics"]
