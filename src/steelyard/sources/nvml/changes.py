"""What is kept of a node's cards from round to round, and over a restart of the process: the ground for saying what changed.

Each change is a Transition: a card lost, missing or back, a call stuck or answering again, another driver version, MIG set up anew, a
recovery action asked for, another card in the same slot. The tricks to know: the UUID is the card and the PCI address its slot, so a swap
closes one card and begins another; and the first sighting of anything is no change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from steelyard.facts.device import Device
from steelyard.facts.transition import Transition
from steelyard.facts.unit import Unit
from steelyard.primitives.instant import Instant, format_instant
from steelyard.sources.nvml.card_facts import ENCODING, SOURCE, Round
from steelyard.sources.nvml.worker import StuckCall

PRESENT: Final = "present"
LOST: Final = "lost"
MISSING: Final = "missing"
WELL_AGAIN: Final = "the driver answers again"


class KnownCard(msgspec.Struct, kw_only=True):
    """A card as it was last seen. layout: its MIG devices as ``gi/ci profile unit``. state: ``present``, ``lost`` or ``missing`` (the driver
    no longer lists it). stuck_since: the call that hung in the last round was made then. reason: what the last word on its state was."""

    uuid: str
    index: int
    pci_address: str | None = None
    serial: str | None = None
    model: str | None = None
    memory_mib: int | None = None
    mig_enabled: bool | None = None
    layout: list[str] | None = None
    recovery_action: str | None = None
    state: str = PRESENT
    stuck_since: Instant | None = None
    reason: str | None = None


class NodeMemory(msgspec.Struct, kw_only=True):
    """All that is kept. trouble: the kind of trouble of the library as a whole, None while it answers."""

    version: int = 1
    driver_version: str | None = None
    trouble: str | None = None
    cards: dict[str, KnownCard] = msgspec.field(default_factory=dict)

    def at_index(self, index: int, elsewhere: Collection[str] = ()) -> KnownCard | None:
        """The card that the driver last listed under an index, that is not gone and is none of those that are ``elsewhere`` by now."""
        known = (card for card in self.cards.values() if card.index == index and card.state != MISSING)
        return next((card for card in known if card.uuid not in elsewhere), None)


def note_card(memory: NodeMemory, device: Device, units: list[Unit] | None, of: Round) -> Iterator[Transition]:
    """The changes that a card's reading tells; the memory then knows it. units: None where only its identity is known."""
    uuid = device.device_uuid
    known = memory.cards.get(uuid)
    yield from _note_slot(memory, device, of)
    layout = (
        None
        if units is None
        else sorted(f"{unit.gi}/{unit.ci} {unit.profile or 'profile unknown'} {unit.unit_id}" for unit in units or ())
    )
    now = KnownCard(
        uuid=uuid,
        index=device.device_index if device.device_index is not None else -1,
        pci_address=device.pci_address or (known.pci_address if known else None),
        serial=device.serial or (known.serial if known else None),
        model=device.model or (known.model if known else None),
        memory_mib=device.memory_mib or (known.memory_mib if known else None),
        mig_enabled=device.mig_enabled,
        layout=layout,
        recovery_action=device.recovery_action,
        reason=None if device.state_reason == WELL_AGAIN else device.state_reason,
    )
    memory.cards[uuid] = now
    if known is None:
        return
    if known.state != PRESENT:
        yield _change(of, "Device", uuid, "state", PRESENT, "Returned", f"it was {known.state}")
    if known.stuck_since is not None:
        text = f"the call that was made at {format_instant(known.stuck_since)} has returned"
        yield _change(of, "Device", uuid, "driver_call", "answering", "CallReturned", text)
    if known.mig_enabled is not None and now.mig_enabled is not None and known.mig_enabled != now.mig_enabled:
        yield _change(of, "Device", uuid, "mig_mode", "enabled" if now.mig_enabled else "disabled", "MigModeChanged")
    if known.layout is not None and layout is not None and known.layout != layout:
        value = ", ".join(line.split(" ")[1] for line in layout) or "none"
        gone, new = sorted(set(known.layout) - set(layout)), sorted(set(layout) - set(known.layout))
        text = f"gone: {', '.join(gone) or 'none'}; new: {', '.join(new) or 'none'}"
        yield _change(of, "Device", uuid, "mig_layout", value[:400], "MigReconfigured", text)
    if now.recovery_action and known.recovery_action and now.recovery_action != known.recovery_action:
        text = f"it was {known.recovery_action}"
        yield _change(of, "Device", uuid, "recovery_action", now.recovery_action, "RecoveryActionChanged", text)


def with_word(memory: NodeMemory, device: Device) -> Device:
    """The card with a word on its state where the last one was of a trouble that is over: no word would leave that one standing."""
    known = memory.cards.get(device.device_uuid)
    if device.state_reason is not None or known is None or known.reason is None:
        return device
    return msgspec.structs.replace(device, state_reason=WELL_AGAIN)


def note_lost(card: KnownCard, reason: str, of: Round) -> Iterator[Transition]:
    """The change to ``lost``, once."""
    if card.state != LOST:
        yield _change(of, "Device", card.uuid, "state", LOST, "GpuLost", reason)
    card.state = LOST
    card.stuck_since = None


def note_missing(card: KnownCard, of: Round) -> Iterator[Transition]:
    """The change to ``missing``: the driver lists its cards, and this one is not among them."""
    if card.state != MISSING:
        text = f"the driver no longer lists it; it was {card.state} at {card.pci_address or f'index {card.index}'}"
        yield _change(of, "Device", card.uuid, "state", MISSING, "NotListed", text)
    card.state = MISSING
    card.stuck_since = None


def note_stuck(card: KnownCard, stuck: StuckCall, of: Round) -> Iterator[Transition]:
    """The change to a stuck call, dated by the instant at which it was made."""
    if card.stuck_since is None:
        text = f"{stuck.call} has not returned since {format_instant(stuck.since)}"
        yield _change(of, "Device", card.uuid, "driver_call", "stuck", "CallStuck", text, at=stuck.since)
    card.stuck_since = stuck.since


def note_library(memory: NodeMemory, trouble: str | None, reason: str, of: Round) -> Iterator[Transition]:
    """The changes of the library as a whole: it fails, it answers again, it has another version."""
    if trouble != memory.trouble and (memory.trouble is not None or memory.driver_version is not None):
        yield _change(
            of,
            "Node",
            of.node,
            "driver",
            trouble or "answering",
            "DriverTrouble" if trouble else "DriverAnswers",
            reason,
        )
    memory.trouble = trouble
    version = of.driver_version
    if trouble is None and version is not None:
        if memory.driver_version not in (None, version):
            text = f"{memory.driver_version} was replaced by {version}"
            yield _change(of, "Node", of.node, "driver_version", version, "DriverReplaced", text)
        memory.driver_version = version


def remembered_device(card: KnownCard, of: Round, reason: str) -> Device:
    """The card as it was last seen, in its state of now, for a round in which it does not answer itself; the reason is kept."""
    card.reason = reason
    return Device(
        cluster=of.cluster,
        source=SOURCE,
        natural_key=card.uuid,
        occurred_at=of.at,
        observed_at=of.at,
        device_uuid=card.uuid,
        node=of.node,
        vendor=of.vendor,
        model=card.model,
        serial=card.serial,
        pci_address=card.pci_address,
        device_index=card.index if card.index >= 0 else None,
        memory_mib=card.memory_mib,
        mode="mig" if card.mig_enabled else None,
        state=LOST if card.state == LOST else PRESENT,
        state_reason=reason,
        encoding=ENCODING,
        driver_version=of.driver_version,
        mig_enabled=card.mig_enabled,
    )


def _note_slot(memory: NodeMemory, device: Device, of: Round) -> Iterator[Transition]:
    """A card with another UUID at the address of one that is not listed elsewhere took its place."""
    slot = device.pci_address
    if slot is None:
        return
    for other in list(memory.cards.values()):
        if other.uuid != device.device_uuid and other.pci_address == slot:
            text = f"{other.uuid} (serial {other.serial or 'not known'}) was replaced by {device.device_uuid}"
            text += f" (serial {device.serial or 'not known'})"
            yield _change(of, "Slot", f"{of.node}/{slot}", "device", device.device_uuid, "BoardReplaced", text)
            del memory.cards[other.uuid]


def _change(
    of: Round, kind: str, uid: str, aspect: str, value: str, reason: str, text: str = "", at: Instant | None = None
) -> Transition:
    at = of.at if at is None else at
    digest = hashlib.sha256(f"{reason}\0{text}".encode()).hexdigest()[:16]
    return Transition(
        cluster=of.cluster,
        source=SOURCE,
        natural_key=f"{uid}/{aspect}/{value}/{at}/{digest}",
        occurred_at=at,
        observed_at=of.at,
        object_kind=kind,
        object_uid=uid,
        object_name=of.node,
        aspect=aspect,
        value=value,
        reason=reason,
        message=text[:4_096] or None,
        time_basis="observed",
    )
