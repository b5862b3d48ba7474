"""Containers of a pod: what each asks for and what the kubelet said of it."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class Container(Fact, frozen=True, kw_only=True):
    """A container at one sighting. natural_key: ``<pod_uid>/<container>``. Only containers that ask for an accelerator, or whose
    pod does, are facts. kind: ``app``, ``init`` or ``sidecar`` (an init container that restarts always).

    position: index within its list (init containers before app containers). state: waiting, running, terminated or None.
    gpu_count: devices asked for; memory_mib_per_gpu, memory_percent_per_gpu, cores_percent_per_gpu: None where not asked.
    ended_at is set only where it is terminated now; restart_count counts the earlier runs.
    """

    TABLE: ClassVar[str] = "container"

    pod_uid: str
    container: str
    kind: str = "app"
    position: int = 0
    resource_name: str | None = None
    gpu_count: int = 0
    memory_mib_per_gpu: int | None = None
    memory_percent_per_gpu: int | None = None
    cores_percent_per_gpu: int | None = None
    state: str | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    exit_code: int | None = None
    reason: str | None = None
    restart_count: int = 0
    container_id: str | None = None
    image: str | None = None
