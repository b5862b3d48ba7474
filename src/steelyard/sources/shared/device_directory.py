"""Which card an index or a PCI address meant: built from the facts of one import, asked by readers whose text shows no UUID.

``directory_of`` takes the facts that readers with UUIDs yielded (``nvidia-smi -L``, ``--query-gpu``, ``-q``); the human table, pmon,
dmon and the kernel log then ask it. The trick to know: it never guesses. Two cards under one index (files of several nodes
without node names) make that index ambiguous, and the answer is Unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.unit import Unit
from steelyard.primitives.unknown import Unknown

ENTRIES_MAX: Final = 1_000_000
_MERGED: Final = (
    "model",
    "serial",
    "pci_address",
    "device_index",
    "memory_mib",
    "mode",
    "mig_enabled",
    "driver_version",
)

Place = tuple[int, int | None]
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class DeviceDirectory:
    """Cards by (node, index) and (node, PCI address), MIG devices by (card, number), processes by (card, pid).

    ``devices`` holds one Device per UUID with the attributes of all its sightings. ``places``: (GI, CI) of a process, None where
    sightings disagree. Each mapping holds at most ``ENTRIES_MAX`` entries; what does not fit is simply not known.
    """

    devices: Mapping[str, Device] = field(default_factory=dict)
    by_index: Mapping[tuple[str | None, int], frozenset[str]] = field(default_factory=dict)
    by_pci: Mapping[tuple[str | None, str], frozenset[str]] = field(default_factory=dict)
    mig_units: Mapping[tuple[str, int], Unit | None] = field(default_factory=dict)
    places: Mapping[tuple[str, int], Place | None] = field(default_factory=dict)

    def uuid_of(self, node: str | None, *, index: int | None = None, pci: str | None = None) -> str | Unknown:
        """The UUID of the card at an index or a PCI address (in its one spelling) of a node; Unknown where none or several are known."""
        asked = [
            (f"index {index}", self.by_index.get((node, index), frozenset())) if index is not None else None,
            (f"PCI address {pci}", self.by_pci.get((node, pci), frozenset())) if pci is not None else None,
        ]
        answers = [(words, found) for pair in asked if pair is not None for words, found in [pair]]
        if not answers:
            return Unknown("the text names neither UUID, index nor PCI address")
        known = [found for _, found in answers if found]
        words = " and ".join(words for words, _ in answers)
        if not known:
            return Unknown(f"no text of this import says which card is at {words}")
        candidates = frozenset.intersection(*known)
        if len(candidates) == 1:
            return next(iter(candidates))
        if candidates:
            return Unknown(f"{len(candidates)} cards of this import are at {words}; name the node of each file")
        return Unknown(f"{words} point to different cards")


def directory_of(facts: Iterable[Fact], base: DeviceDirectory | None = None) -> DeviceDirectory:
    """The directory of these facts, on top of ``base``. Facts of other kinds are passed over."""
    base = base or DeviceDirectory()
    devices, by_index, by_pci = dict(base.devices), dict(base.by_index), dict(base.by_pci)
    mig_units, places = dict(base.mig_units), dict(base.places)
    for fact in facts:
        if isinstance(fact, Device):
            if fact.device_uuid in devices or len(devices) < ENTRIES_MAX:
                devices[fact.device_uuid] = merge_devices(devices.get(fact.device_uuid), fact)
            if fact.device_index is not None:
                _note(by_index, (fact.node, fact.device_index), fact.device_uuid)
            if fact.pci_address is not None:
                _note(by_pci, (fact.node, fact.pci_address), fact.device_uuid)
        elif isinstance(fact, Unit) and fact.device_uuid is not None and fact.unit_index is not None:
            _note_unit(mig_units, (fact.device_uuid, fact.unit_index), fact)
        elif isinstance(fact, ProcessSample) and fact.gi is not None:
            key, place = (fact.device_uuid, fact.pid), (fact.gi, fact.ci)
            if places.get(key, place) != place:
                places[key] = None
            elif len(places) < ENTRIES_MAX:
                places[key] = place
    return DeviceDirectory(devices, by_index, by_pci, mig_units, places)


def merge_devices(known: Device | None, seen: Device) -> Device:
    """``seen`` with the attributes it lacks taken from ``known`` (the same card): nothing that it states is changed."""
    if known is None:
        return seen
    gaps = {name: getattr(known, name) for name in _MERGED if getattr(seen, name) is None}
    return msgspec.structs.replace(seen, **gaps)


def _note(table: dict[Key, frozenset[str]], key: Key, uuid: str) -> None:
    if key in table:
        table[key] = table[key] | {uuid} if len(table[key]) < 16 else table[key]
    elif len(table) < ENTRIES_MAX:
        table[key] = frozenset((uuid,))


def _note_unit(table: dict[tuple[str, int], Unit | None], key: tuple[str, int], unit: Unit) -> None:
    known = table.get(key, unit)
    if known is None:
        return
    shows_uuid = [each for each in (known, unit) if each.unit_id.startswith("MIG-")]
    if len({each.unit_id for each in shows_uuid}) > 1:
        table[key] = None
    elif len(table) < ENTRIES_MAX:
        table[key] = shows_uuid[0] if shows_uuid else unit
