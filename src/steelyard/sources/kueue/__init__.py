"""Kueue: its Workloads and queues, and what it says of them.

Docs: ``docs/sources/kueue.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.facts.base import Fact
from steelyard.sources.kueue.events import read_event
from steelyard.sources.kueue.pods import read_kueue_pod
from steelyard.sources.kueue.queues import QUEUE_KINDS, read_queue
from steelyard.sources.kueue.workload_view import GROUP
from steelyard.sources.kueue.workloads import read_workload
from steelyard.sources.shared.context import ReadContext

__all__ = [
    "has_facts",
    "read_event",
    "read_kueue_pod",
    "read_object",
    "read_queue",
    "read_workload",
]


def has_facts(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether an object is one of Kueue's that is read here, in whatever version."""
    version = payload.get("apiVersion")
    return (
        (kind == "Workload" or kind in QUEUE_KINDS) and isinstance(version, str) and version.rpartition("/")[0] == GROUP
    )


def read_object(payload: Mapping[str, Any], kind: str, ctx: ReadContext) -> Iterator[Fact]:
    """The facts of one object for which ``has_facts`` holds. Raises SourceMalformed where it has no name."""
    return read_workload(payload, ctx) if kind == "Workload" else read_queue(payload, kind, ctx)
