"""The simulated hardware: nodes of four kinds and their cards, laid out so that a small estate has every kind too."""

from __future__ import annotations

import random
import uuid
from typing import Final

from steelyard.primitives.instant import DAY_US
from steelyard.simulation.spec import SimulationSpec
from steelyard.simulation.truth import HAMI, MIG, TIME_SLICING, WHOLE, Device, MigUnit, Node

REPLICAS: Final = 4

_LAYOUT: Final = (
    (WHOLE, 8, None, "NVIDIA A100-SXM4-80GB", 81_920),
    (HAMI, 8, "v2.7.1", "NVIDIA L40S", 46_068),
    (MIG, 4, None, "NVIDIA H100 80GB HBM3", 81_559),
    (TIME_SLICING, 4, None, "Tesla T4", 15_360),
    (HAMI, 8, "v2.9.0", "NVIDIA A100-SXM4-40GB", 40_960),
    (WHOLE, 8, None, "NVIDIA H100 80GB HBM3", 81_559),
    (HAMI, 8, "v2.10.0", "NVIDIA L40S", 46_068),
    (MIG, 4, None, "NVIDIA A100-SXM4-80GB", 81_920),
    (WHOLE, 8, None, "NVIDIA H200", 143_771),
    (TIME_SLICING, 4, None, "Tesla T4", 15_360),
)
"""Kind, cards, HAMi version, model, memory in MiB: ten nodes and 64 cards, repeated as often as the size asks for."""

_MIG_LAYOUT: Final = (
    ("3g.40gb", 2, 3, 4, 40_448, 0),
    ("2g.20gb", 3, 2, 2, 20_096, 4),
    ("1g.10gb", 9, 1, 1, 9_984, 6),
    ("1g.10gb", 10, 1, 1, 9_984, 7),
)
"""Profile, GPU instance, compute slices, memory slices, MiB, first memory slice."""


def random_uuid(rng: random.Random) -> str:
    """A version 4 UUID out of the stream."""
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def build_estate(spec: SimulationSpec) -> list[Node]:
    """The nodes of the estate: ``spec.gpus`` cards in all, the last node cut to what remains."""
    rng = spec.stream("estate")
    nodes: list[Node] = []
    left = spec.gpus
    while left > 0:
        kind, size, version, model, memory_mib = _LAYOUT[len(nodes) % len(_LAYOUT)]
        name = f"gpu-{len(nodes) + 1:02d}"
        cards = min(size, left)
        left -= cards
        devices = [_device(rng, name, index, kind, model, memory_mib) for index in range(cards)]
        created = spec.start_at - (30 + len(nodes)) * DAY_US
        replicas = REPLICAS if kind == TIME_SLICING else 1
        nodes.append(Node(name, random_uuid(rng), kind, version, replicas, created, devices))
    return nodes


def _device(rng: random.Random, node: str, index: int, kind: str, model: str, memory_mib: int) -> Device:
    units = []
    if kind == MIG:
        units = [
            MigUnit(f"MIG-{random_uuid(rng)}", gi, profile, compute, slices, mib, start)
            for profile, gi, compute, slices, mib, start in _MIG_LAYOUT
        ]
    return Device(
        uuid=f"GPU-{random_uuid(rng)}",
        node=node,
        index=index,
        model=model,
        memory_mib=memory_mib,
        pci_address=f"00000000:{0x11 + 0x16 * index:02X}:00.0",
        serial=f"{1_650_000_000_000 + rng.randrange(10**9)}",
        numa=index // 4,
        units=units,
    )
