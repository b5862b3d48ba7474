"""Volcano: its jobs, pod groups and queues, what its scheduler and controllers say of them, and the contradictions between them."""

from __future__ import annotations

from steelyard.sources.volcano.checks import PASSING, VolcanoWords
from steelyard.sources.volcano.events import read_volcano_event
from steelyard.sources.volcano.objects import has_volcano, read_volcano
from steelyard.sources.volcano.pods import group_of_pod, read_volcano_pod

__all__ = [
    "PASSING",
    "VolcanoWords",
    "group_of_pod",
    "has_volcano",
    "read_volcano",
    "read_volcano_event",
    "read_volcano_pod",
]
