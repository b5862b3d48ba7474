"""The native scheduler and what stands beside it: why a pod has no place, where it went, who had to go, what the kubelet and quotas refused."""

from __future__ import annotations

from steelyard.sources.kube_scheduler.events import read_scheduler_event
from steelyard.sources.kube_scheduler.pods import read_pod_scheduling

__all__ = ["read_pod_scheduling", "read_scheduler_event"]
