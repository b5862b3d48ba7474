"""HAMi: node registers, pod allocations, scheduling events and metrics of the soft-partition layer, for NVIDIA and other vendors' cards."""

from __future__ import annotations

from steelyard.sources.hami.allocations import read_pod_allocations
from steelyard.sources.hami.checks import check_inconsistencies
from steelyard.sources.hami.decisions import read_hami_event, read_pod_decision
from steelyard.sources.hami.events import SchedulingOutcome, merge_outcomes, parse_scheduling_event
from steelyard.sources.hami.metric_names import NAMES as HAMI_METRICS
from steelyard.sources.hami.metrics import read_hami_metrics
from steelyard.sources.hami.registers import read_node_register

__all__ = [
    "HAMI_METRICS",
    "SchedulingOutcome",
    "check_inconsistencies",
    "merge_outcomes",
    "parse_scheduling_event",
    "read_hami_event",
    "read_hami_metrics",
    "read_node_register",
    "read_pod_allocations",
    "read_pod_decision",
]
