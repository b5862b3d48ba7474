"""kube-state-metrics: what a Prometheus remembers of pods that are long gone, as the objects they were."""

from __future__ import annotations

from steelyard.sources.kube_state_metrics.names import known_resources
from steelyard.sources.kube_state_metrics.read import Questions, SeenPod, covered_stretches, questions, read_pods

__all__ = ["Questions", "SeenPod", "covered_stretches", "known_resources", "questions", "read_pods"]
