"""The kubelet's PodResources: which device ids it gave to which container, and which it would still give."""

from steelyard.sources.pod_resources.kubelet import KubeletClient
from steelyard.sources.pod_resources.read import read_pod_resources, sniff

__all__ = ["KubeletClient", "read_pod_resources", "sniff"]
