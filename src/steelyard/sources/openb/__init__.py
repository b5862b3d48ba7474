"""The ``openb`` trace of shared-GPU requests (Alibaba cluster-trace-gpu-v2023): a pod list and a node list, both CSV."""

from steelyard.sources.openb.nodes import NODE_COLUMNS, read_openb_nodes
from steelyard.sources.openb.pods import POD_COLUMNS, read_openb_pods

__all__ = ["NODE_COLUMNS", "POD_COLUMNS", "read_openb_nodes", "read_openb_pods"]
