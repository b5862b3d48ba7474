"""Who sits where on the simulated cards, by the rules of each kind of node: whole cards, HAMi shares, MIG instances, replicas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from steelyard.simulation.demand import Demand
from steelyard.simulation.truth import HAMI, MIG, TIME_SLICING, WHOLE, Device, GrantTruth, Node

CARD_PPM: Final = 1_000_000
SLOTS: Final = 10


class Pool(Protocol):
    """The free capacity of one node."""

    def take(self, demand: Demand) -> list[GrantTruth] | None:
        """What the demand gets here, taken out of the free capacity; None where it does not fit now."""
        ...

    def give_back(self, grants: list[GrantTruth]) -> None:
        """Frees what ``take`` gave."""
        ...

    def lose(self, device_uuid: str) -> None:
        """The card fell off the bus: it is never given again."""
        ...


@dataclass(slots=True)
class Parts:
    """Parts that are free or taken: whole cards, MIG instances, replicas. ``order`` fixes who is given first."""

    order: list[GrantTruth]
    taken: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)

    def take(self, demand: Demand) -> list[GrantTruth] | None:
        """The first free parts of the profile asked for."""
        fitting = [
            part
            for part in self.order
            if part.profile == demand.profile and _key(part) not in self.taken and part.device_uuid not in self.lost
        ]
        if len(fitting) < demand.gpus:
            return None
        given = fitting[: demand.gpus]
        self.taken.update(_key(part) for part in given)
        return given

    def give_back(self, grants: list[GrantTruth]) -> None:
        """Frees the parts."""
        self.taken.difference_update(_key(part) for part in grants)

    def lose(self, device_uuid: str) -> None:
        """No part of that card is given again."""
        self.lost.add(device_uuid)


@dataclass(slots=True)
class _Card:
    device: Device
    memory_mib: int = 0
    cores_percent: int = 0
    slots: int = 0


@dataclass(slots=True)
class Shares:
    """HAMi's cards: memory and cores are taken in any amount that fits, on the fullest card first, distinct cards per pod."""

    cards: list[_Card]
    lost: set[str] = field(default_factory=set)

    def take(self, demand: Demand) -> list[GrantTruth] | None:
        """Shares of as many cards as were asked for."""
        memory, cores = demand.memory_mib or 0, demand.cores_percent or 0
        fitting = [
            card
            for card in self.cards
            if card.device.uuid not in self.lost
            and card.slots < SLOTS
            and card.memory_mib + memory <= card.device.memory_mib
            and card.cores_percent + cores <= 100
            and not (cores == 100 and card.slots)
            and not (cores == 0 and card.cores_percent == 100)
        ]
        if len(fitting) < demand.gpus:
            return None
        fitting.sort(key=lambda card: (-card.memory_mib, card.device.index))
        for card in fitting[: demand.gpus]:
            card.memory_mib += memory
            card.cores_percent += cores
            card.slots += 1
        return [
            GrantTruth(
                device_uuid=card.device.uuid,
                unit_kind="vgpu",
                share_ppm=max(memory * CARD_PPM // card.device.memory_mib, cores * CARD_PPM // 100),
                memory_mib=memory,
                cores_percent=cores,
            )
            for card in fitting[: demand.gpus]
        ]

    def give_back(self, grants: list[GrantTruth]) -> None:
        """Takes the shares off the cards' books."""
        by_uuid = {card.device.uuid: card for card in self.cards}
        for grant in grants:
            card = by_uuid[grant.device_uuid]
            card.memory_mib -= grant.memory_mib or 0
            card.cores_percent -= grant.cores_percent or 0
            card.slots -= 1

    def lose(self, device_uuid: str) -> None:
        """The card takes nobody any more."""
        self.lost.add(device_uuid)


def pool_of(node: Node) -> Pool:
    """The free capacity of a node that nobody uses yet."""
    if node.kind == HAMI:
        return Shares([_Card(device) for device in node.devices])
    if node.kind == MIG:
        return Parts(
            [
                GrantTruth(
                    device.uuid,
                    "mig",
                    max(unit.compute_slices * CARD_PPM // 7, unit.memory_slices * CARD_PPM // 8),
                    unit.uuid,
                    unit.profile,
                    unit.memory_mib,
                )
                for device in node.devices
                for unit in device.units
            ]
        )
    if node.kind == TIME_SLICING:
        return Parts(
            [
                GrantTruth(device.uuid, "slice", CARD_PPM // node.replicas, f"{device.uuid}::{number}")
                for number in range(node.replicas)
                for device in node.devices
            ]
        )
    if node.kind != WHOLE:
        raise AssertionError(f"no rule places pods on a node of kind {node.kind}")
    return Parts([GrantTruth(device.uuid, "gpu", CARD_PPM) for device in node.devices])


def _key(part: GrantTruth) -> str:
    return part.unit_id or part.device_uuid
