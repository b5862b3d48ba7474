"""Which of Volcano's objects goes to which of its readers.

``app`` asks ``has_volcano`` of an object and then calls ``read_volcano``, from files and from a watch alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import text_of
from steelyard.sources.volcano.jobs import JOB_GROUP, read_job
from steelyard.sources.volcano.pod_groups import POD_GROUP_GROUP, read_pod_group
from steelyard.sources.volcano.queues import read_queue

_READERS: Final[Mapping[tuple[str, str], Callable[[Mapping[str, Any], ReadContext], Iterator[Fact]]]] = {
    (JOB_GROUP, "Job"): read_job,
    (POD_GROUP_GROUP, "PodGroup"): read_pod_group,
    (POD_GROUP_GROUP, "Queue"): read_queue,
}


def has_volcano(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether the object is one of Volcano's that are read here."""
    return (_group(payload), kind) in _READERS


def read_volcano(payload: Mapping[str, Any], kind: str, ctx: ReadContext) -> Iterator[Fact]:
    """The facts of a Job, PodGroup or Queue. Raises SourceMalformed for an object without a name."""
    yield from _READERS[_group(payload), kind](payload, ctx)


def _group(payload: Mapping[str, Any]) -> str:
    version = text_of(payload.get("apiVersion"))
    return version.rpartition("/")[0] if version else ""
