"""What is wrong in the troubled cluster of the demo, as plain intervals: who, on which cards, from when to when, how much, and what each card
showed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from steelyard.primitives.instant import Instant
from steelyard.simulation.truth import GroundTruth

PPM: Final = 1_000_000


@dataclass(slots=True)
class Signal:
    """What a card shows from ``from_at`` until its next signal: DCGM's 1001, 1002, 1003, 1004 and 1005 (0 to 1), watts, bytes per second over
    PCIe (both ways) and NVLink, and the mask of why clocks are held down (112)."""

    from_at: Instant
    engine: float = 0.0
    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    watts: int = 70
    pcie: int = 1_000_000
    nvlink: int = 1_000_000
    throttled: int = 0


@dataclass(slots=True)
class CardTruth:
    """A card: its limit in watts and its signals, in order."""

    device_uuid: str
    limit_watts: int
    signals: list[Signal] = field(default_factory=list)

    def at(self, at: Instant) -> Signal:
        """What it shows then; idle before its first signal."""
        return next((each for each in reversed(self.signals) if each.from_at <= at), Signal(0))


@dataclass(slots=True)
class ForeignProcess:
    """A process on a card on which its pod (None: no pod at all) was granted nothing."""

    device_uuid: str
    pid: int
    pod_uid: str | None
    memory_mib: int
    from_at: Instant
    sm_ratio: float = 0.08
    """Of the SMs of the card: less than its part of the memory, so that what is at stake is the memory."""


@dataclass(slots=True)
class Trouble:
    """One thing that is wrong. ``kind``: its name in the demo. ``state``, ``cause``: what Q3 calls it, "" where Q3 has no part in it.
    ``rule``: what Q7 calls it, or the code of the finding. ``owner``: namespace/kind/name of whose it is, "" where it is the platform's.
    size_gpu_us: GPU-microseconds at stake; excess_mib: memory above what was granted, or claimed by nobody that lives."""

    kind: str
    owner: str
    from_at: Instant
    to_at: Instant
    size_gpu_us: int
    state: str = ""
    cause: str = ""
    rule: str = ""
    device_uuids: list[str] = field(default_factory=list)
    pod_uids: list[str] = field(default_factory=list)
    excess_mib: int = 0


@dataclass(slots=True)
class PodGroup:
    """What Volcano knows of a gang that is not whole: so many ``pods``, all of them needed, and the cards that they ask for together."""

    uid: str
    namespace: str
    name: str
    owner_uid: str
    owner_name: str
    queue: str
    created_at: Instant
    pods: int
    gpus: int

    @property
    def words(self) -> str:
        """What Volcano's scheduler says of it."""
        return (
            f"{self.pods}/{self.pods} tasks in gang unschedulable: pod group is not ready, "
            f"{self.pods} Pending, {self.pods} minAvailable"
        )


@dataclass(slots=True)
class TroubledTruth:
    """The cluster, what its cards showed, and what is wrong in it. ``silent``: node -> since when its exporter says nothing. ``throttled``:
    pod -> what part of its CPU periods was held back. ``claimed``: card -> memory that HAMi's scheduler still claims for a pod that is
    gone."""

    cluster: GroundTruth
    cards: list[CardTruth] = field(default_factory=list)
    foreign: list[ForeignProcess] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    silent: dict[str, Instant] = field(default_factory=dict)
    throttled: dict[str, float] = field(default_factory=dict)
    claimed: dict[str, int] = field(default_factory=dict)
    pod_groups: list[PodGroup] = field(default_factory=list)

    def to_json(self) -> bytes:
        """The truth as JSON, the same bytes for the same truth."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, payload: bytes) -> TroubledTruth:
        """Back from ``to_json``."""
        return msgspec.json.decode(payload, type=cls)
