"""What really happened in the simulated cluster: plain intervals and events, as JSON beside the emitted files.

Expected answers follow from these by arithmetic (``simulation/arithmetic.py``), never by running the product. Every ``*_at`` is
an instant in UTC microseconds; None = did not happen within the simulation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from steelyard.primitives.instant import Instant

WHOLE: Final = "whole"
HAMI: Final = "hami"
MIG: Final = "mig"
TIME_SLICING: Final = "time_slicing"


@dataclass(slots=True)
class Device:
    """A card. ``units``: its MIG instances in the order of ``nvidia-smi -L``."""

    uuid: str
    node: str
    index: int
    model: str
    memory_mib: int
    pci_address: str
    serial: str
    numa: int
    units: list[MigUnit] = field(default_factory=list)


@dataclass(slots=True)
class MigUnit:
    """A MIG instance: slices of 7 (compute) and of 8 (memory)."""

    uuid: str
    gi: int
    profile: str
    compute_slices: int
    memory_slices: int
    memory_mib: int
    start: int


@dataclass(slots=True)
class Node:
    """A node of one kind: ``whole``, ``hami`` (with the version of its plugin), ``mig`` or ``time_slicing``."""

    name: str
    uid: str
    kind: str
    hami_version: str | None
    replicas: int
    created_at: Instant
    devices: list[Device]
    not_ready_at: Instant | None = None
    gone_at: Instant | None = None


@dataclass(slots=True)
class GrantTruth:
    """What a pod was given of one card. ``share_ppm``: the dominant share of definitions.md section 2, floored. ``unit_id``: the MIG
    UUID, or ``<uuid>::<n>`` for a replica. memory_mib, cores_percent: what HAMi granted, else None."""

    device_uuid: str
    unit_kind: str
    share_ppm: int
    unit_id: str | None = None
    profile: str | None = None
    memory_mib: int | None = None
    cores_percent: int | None = None


@dataclass(slots=True)
class UsePhase:
    """From ``from_at`` until the next phase (or the end) each process of the pod uses so much memory and time of its card."""

    from_at: Instant
    memory_mib: int
    util_percent: int


@dataclass(slots=True)
class Pod:
    """A pod's life. ``queue``: the local queue of Kueue that it was asked of at ``asked_at``, before it was made; None = of none.

    ``fate``: succeeded, failed, deleted (while it ran), node_lost, rejected, never_scheduled, reserved (filtered and never bound), running
    (still at the end). ``removed_at``: when the object left the API. One process per grant, pids alike. ``pod_group``: the gang of Volcano that
    it is one of, which Volcano's scheduler places then. ``refused``: what its scheduler says while it waits, None = that nothing is free."""

    uid: str
    namespace: str
    name: str
    kind: str
    workload_kind: str
    workload_name: str
    owner_uid: str
    queue: str | None
    created_at: Instant
    gpus: int
    fate: str = "running"
    node: str | None = None
    asked_at: Instant | None = None
    filtered_at: Instant | None = None
    bound_at: Instant | None = None
    running_at: Instant | None = None
    restarted_at: Instant | None = None
    ended_at: Instant | None = None
    removed_at: Instant | None = None
    deletion_asked_at: Instant | None = None
    init_container: bool = False
    sidecar_containers: int = 0
    memory_mib: int | None = None
    cores_percent: int | None = None
    profile: str | None = None
    grants: list[GrantTruth] = field(default_factory=list)
    phases: list[UsePhase] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    pod_group: str | None = None
    refused: str | None = None


@dataclass(slots=True)
class Workload:
    """What Kueue knows of a batch job of one pod. It waits from ``created_at`` to ``reserved_at``, when its pod is made (None: it never was); where
    it was preempted, by the workload ``preemptor_uid``, again from ``released_at``. leaked_from_at: since when it keeps its quota for nothing.
    finished_at with ``succeeded``: how it ended. removed_at: when it left."""

    uid: str
    namespace: str
    name: str
    owner_uid: str
    owner_name: str
    local_queue: str
    queue: str
    gpus: int
    created_at: Instant
    reserved_at: Instant | None
    priority: int = 0
    preempted_at: Instant | None = None
    preemptor_uid: str | None = None
    released_at: Instant | None = None
    leaked_from_at: Instant | None = None
    finished_at: Instant | None = None
    succeeded: bool = False
    removed_at: Instant | None = None


@dataclass(slots=True)
class Happening:
    """An event worth asking about: ``node_not_ready``, ``node_gone``, ``gpu_lost``."""

    kind: str
    at: Instant
    node: str
    device_uuid: str | None = None


@dataclass(slots=True)
class GroundTruth:
    """All of it, with the instants at which each collector looked. ``device_base_mib``: memory that a card shows without any process.
    ``quotas``: cards by cluster queue; together as many as there are whole cards."""

    start_at: Instant
    end_at: Instant
    snapshot_interval_seconds: int
    sample_interval_seconds: int
    snapshots: list[Instant]
    pod_resources: list[Instant]
    samples: list[Instant]
    mig_reports: list[Instant]
    nodes: list[Node]
    pods: list[Pod]
    happenings: list[Happening]
    device_base_mib: int
    workloads: list[Workload] = field(default_factory=list)
    quotas: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """The truth as JSON, the same bytes for the same truth."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, payload: bytes) -> GroundTruth:
        """Back from ``to_json``."""
        return msgspec.json.decode(payload, type=cls)

    def devices(self) -> list[Device]:
        """All cards, node by node."""
        return [device for node in self.nodes for device in node.devices]

    def node(self, name: str) -> Node:
        """The node of a name."""
        return next(node for node in self.nodes if node.name == name)
