"""Volcano: its jobs, pod groups and queues, and what its scheduler and controllers say of them."""

from __future__ import annotations

from steelyard.sources.volcano.events import read_volcano_event
from steelyard.sources.volcano.objects import has_volcano, read_volcano
from steelyard.sources.volcano.pods import read_volcano_pod

__all__ = [
    "has_volcano",
    "read_volcano",
    "read_volcano_event",
    "read_volcano_pod",
]
