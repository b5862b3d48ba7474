"""The kernel log of a node: Xid and SXid lines, cards that fell off the bus, and which UUID sat at which PCI address."""

from steelyard.sources.kernel_log.follow import KernelLogFollower
from steelyard.sources.kernel_log.read import read_kernel_log, sniff
from steelyard.sources.kernel_log.records import FileSource, JournalSource, KmsgSource, LogSource

__all__ = ["FileSource", "JournalSource", "KernelLogFollower", "KmsgSource", "LogSource", "read_kernel_log", "sniff"]
