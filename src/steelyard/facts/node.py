"""Nodes as they were seen: readiness, cordon, labels that tell capacity, sharing and MIG set-up."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class Node(Fact, frozen=True, kw_only=True):
    """A node at one sighting (``occurred_at`` = the snapshot). natural_key: the node's name.

    ready: the Ready condition, None where unknown or absent; ready_changed_at: its last transition. gpu_count: physical cards by
    the GFD label ``nvidia.com/gpu.count`` (never an allocatable count). sharing_strategy: ``none``, ``time-slicing`` or ``mps``.
    replicas: replicas per card under sharing. labels, extended_resources: JSON objects (sorted keys); the latter maps
    ``capacity`` and ``allocatable`` to resource counts. handshake: ``Reported``, ``Requesting``, ``Deleted`` or None (HAMi).
    cpu_milli: thousandths of a CPU that pods may be given there, None where its source does not tell.
    """

    TABLE: ClassVar[str] = "node"

    node: str
    node_uid: str | None = None
    created_at: Instant | None = None
    ready: bool | None = None
    ready_changed_at: Instant | None = None
    unschedulable: bool = False
    gpu_count: int | None = None
    gpu_product: str | None = None
    gpu_memory_mib: int | None = None
    mig_strategy: str | None = None
    mig_config_state: str | None = None
    sharing_strategy: str | None = None
    replicas: int | None = None
    handshake: str | None = None
    handshake_at: Instant | None = None
    labels: str = "{}"
    extended_resources: str = "{}"
    cpu_milli: int | None = None
