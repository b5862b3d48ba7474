"""HAMi: node registers, pod allocations and scheduling events of the soft-partition layer, for NVIDIA and other vendors' cards."""

from __future__ import annotations

from steelyard.sources.hami.allocations import read_pod_allocations
from steelyard.sources.hami.checks import check_inconsistencies
from steelyard.sources.hami.events import SchedulingOutcome, merge_outcomes, parse_scheduling_event
from steelyard.sources.hami.registers import read_node_register

__all__ = [
    "SchedulingOutcome",
    "check_inconsistencies",
    "merge_outcomes",
    "parse_scheduling_event",
    "read_node_register",
    "read_pod_allocations",
]
