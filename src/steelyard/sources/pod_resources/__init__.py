"""The kubelet's PodResources: which device ids it gave to which container, and which it would still give."""

from steelyard.sources.pod_resources.read import read_pod_resources, sniff

__all__ = ["read_pod_resources", "sniff"]
