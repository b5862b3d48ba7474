"""Metrics of queue controllers and schedulers: Kueue, Volcano, kube-scheduler."""

from __future__ import annotations

from steelyard.sources.queue_metrics.catalogue import QUEUE_METRICS
from steelyard.sources.queue_metrics.read import read_queue_metrics

__all__ = ["QUEUE_METRICS", "read_queue_metrics"]
