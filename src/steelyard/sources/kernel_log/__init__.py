"""The kernel log of a node: Xid and SXid lines, cards that fell off the bus, and which UUID sat at which PCI address."""

from steelyard.sources.kernel_log.read import read_kernel_log, sniff

__all__ = ["read_kernel_log", "sniff"]
