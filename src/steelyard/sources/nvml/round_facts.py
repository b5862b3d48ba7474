"""One round over the cards of a node as facts: what each card answered, what none could, what changed, and how much of the node was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.unit import Unit
from steelyard.primitives.i18n import ngettext
from steelyard.primitives.instant import HOUR_US, MINUTE_US, format_instant
from steelyard.primitives.unknown import Unknown
from steelyard.sources.nvml import changes
from steelyard.sources.nvml.card_facts import (
    SOURCE,
    Round,
    counter_samples,
    device_of,
    has_mps,
    mps_pods,
    process_samples,
    samples_of,
    units_of,
)
from steelyard.sources.nvml.changes import KnownCard, NodeMemory
from steelyard.sources.nvml.troubles import Troubles
from steelyard.sources.nvml.worker import StuckCall
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_driver import LOST, MISMATCH, CardReading, DriverError, LibraryReading
from steelyard.sources.shared.process_owner import ProcessOwner, ProcessOwners
from steelyard.sources.shared.round_memory import RoundMemory

KIND: Final = "nvml"
INVENTORY_REPEAT_US: Final = 5 * MINUTE_US

Holders = Callable[[str], Iterable[str]]
"""Which pods (``namespace/name``) hold a share of a card, by its UUID."""
Answer = CardReading | DriverError | StuckCall
"""What a card gave within the deadline."""


@dataclass(slots=True)
class Kept:
    """What lives from round to round in one process. library: its last reading; restart_reason: why only a new process can go on."""

    memory: NodeMemory
    owners: ProcessOwners | None = None
    holders: Holders | None = None
    gap_max_us: int | None = None
    library: LibraryReading | None = None
    restart_reason: str | None = None
    troubles: Troubles = field(default_factory=Troubles)
    said: RoundMemory = field(default_factory=lambda: RoundMemory(repeat_us=INVENTORY_REPEAT_US))
    counted: RoundMemory = field(default_factory=lambda: RoundMemory(repeat_us=HOUR_US))


class RoundFacts:
    """One round in the making. ``_complete``: all cards of the node were named; ``_present``: those that are somewhere in this round."""

    def __init__(self, kept: Kept, ctx: ReadContext, of: Round) -> None:
        self._kept = kept
        self._memory = kept.memory
        self._troubles = kept.troubles
        self._ctx = ctx
        self._of = of
        self._present: set[str] = set()
        self._complete = True
        self._inventoried = False
        self._failed: str | None = None
        self._unread = 0
        self._unlisted = 0
        self._count = 0

    def library_facts(self, library: LibraryReading | DriverError | StuckCall) -> Iterator[Fact]:
        """What the library as a whole says, or that it does not."""
        kept, of, ctx = self._kept, self._of, self._ctx
        subject = f"node {of.node}"
        if isinstance(library, DriverError):
            self._failed = str(library)
            yield from self._troubles.of_library(ctx, library.kind, library.call, library.reason)
            yield from changes.note_library(self._memory, library.kind, str(library), of)
            if library.kind == MISMATCH:
                kept.restart_reason = str(library)
        elif isinstance(library, StuckCall):
            stuck = library
            words = f"driver call {stuck.call} stuck since {format_instant(stuck.since)}"
            self._failed = words if kept.library is None else None
            self._complete = False
            yield from self._troubles.tell(
                ctx, "driver_call_stuck", subject, words, evidence={"node": of.node, "call": stuck.call}
            )
            yield from changes.note_library(self._memory, "driver_call_stuck", words, of)
        else:
            kept.restart_reason = None
            yield from changes.note_library(self._memory, None, "the driver answers", of)

    def card_facts(self, answers: Mapping[int, Answer], identities: Mapping[int, CardReading]) -> Iterator[Fact]:
        """The facts of all cards. identities: of those that did not answer in full, by index, where they are known."""
        readings = self._readings(answers)
        self._present = {reading.uuid for reading in readings.values()}
        owners = self._owners_of(readings.values())
        for identity in identities.values():
            if identity.uuid not in self._memory.cards:
                yield from changes.note_card(self._memory, device_of(identity, self._of), None, self._of)
            else:
                self._memory.cards[identity.uuid].index = identity.index
        inventory: list[Device | Unit] = []
        for index, answer in answers.items():
            reading = readings.get(index)
            if reading is not None:
                yield from self._read_card(reading, owners, inventory)
            elif isinstance(answer, StuckCall):
                yield from self._stuck_card(index, answer, inventory)
            elif isinstance(answer, DriverError):
                yield from self._failed_card(index, answer, inventory)
            else:
                yield from self._repeated_card(answer)
        if self._complete:
            yield from self._missing_cards()
        yield from self._inventory(inventory)

    def nothing_read(self) -> Iterator[Fact]:
        """No card could be asked: what is known of them still stands, and none of it was seen now."""
        self._complete = False
        for uuid in self._memory.cards:
            self._troubles.keep(f"device {uuid}")
        yield from ()

    def status(self) -> SourceStatus:
        """How much of the node this round saw."""
        failed = self._failed is not None
        scope = f"node/{self._of.node}"
        unread = ngettext("{count} card does not answer", "{count} cards do not answer", self._unread)
        unlisted = ngettext(
            "{count} card does not list its processes", "{count} cards do not list their processes", self._unlisted
        )
        counted = ((unread, self._unread), (unlisted, self._unlisted))
        words = "; ".join(text.format(count=count) for text, count in counted if count)
        return SourceStatus(
            cluster=self._of.cluster,
            source=SOURCE,
            natural_key=f"{KIND}/{scope}",
            occurred_at=self._of.at,
            observed_at=self._of.at,
            kind=KIND,
            scope=scope,
            status="failed" if failed else "ok" if self._complete and not words else "partial",
            complete=self._complete and self._inventoried and not failed,
            objects_count=self._count,
            gap_max_us=None if failed else self._kept.gap_max_us,
            message=self._failed or words or None,
        )

    def _readings(self, answers: Mapping[int, Answer]) -> dict[int, CardReading]:
        """The readings by index, without those that repeat the UUID of one before."""
        readings: dict[int, CardReading] = {}
        seen: set[str] = set()
        for index, answer in answers.items():
            if isinstance(answer, CardReading) and answer.uuid not in seen:
                seen.add(answer.uuid)
                readings[index] = answer
        return readings

    def _owners_of(self, readings: Iterable[CardReading]) -> dict[int, ProcessOwner]:
        owners = self._kept.owners
        lists = (reading.processes for reading in readings)
        pids = {process.pid for listed in lists if not isinstance(listed, Unknown) for process in listed}
        return dict(owners.owners_of(sorted(pids))) if owners is not None else {}

    def _read_card(
        self, card: CardReading, owners: dict[int, ProcessOwner], inventory: list[Device | Unit]
    ) -> Iterator[Fact]:
        of, ctx = self._of, self._ctx
        device, units = changes.with_word(self._memory, device_of(card, of)), list(units_of(card, of))
        inventory += [device, *units]
        self._count += 1
        if isinstance(card.processes, Unknown):
            self._unlisted += 1
        yield from changes.note_card(self._memory, device, units, of)
        yield from samples_of(card, of)
        yield from process_samples(card, owners, of)
        for counter in counter_samples(card, of):
            if self._kept.counted.is_news(counter.natural_key, counter.value, of.at):
                yield counter
        yield from self._troubles.of_card(ctx, card)
        if has_mps(card, owners):
            yield from self._shared_through_mps(card, owners)

    def _shared_through_mps(self, card: CardReading, owners: dict[int, ProcessOwner]) -> Iterator[Fact]:
        holders = self._kept.holders
        pods = sorted(set(holders(card.uuid))) if holders is not None else []
        clients = mps_pods(card, owners)
        among = _among(pods, clients)
        servers = sorted(pid for pid, owner in owners.items() if owner.mps_server and _lists(card, pid))
        yield from self._troubles.tell(
            self._ctx,
            "shared_through_mps",
            f"device {card.uuid}",
            f"shared through MPS among {among}, split by reservation, not measured",
            severity="info",
            evidence={
                "node": self._of.node,
                "pods": pods,
                "client_pod_uids": list(clients),
                "server_pods": sorted({owners[pid].pod_uid or "host" for pid in servers}),
            },
        )

    def _remembered(self, index: int) -> KnownCard | None:
        """The card that was at an index and that did not answer at another one in this round."""
        card = self._memory.at_index(index, self._present)
        if card is not None:
            self._present.add(card.uuid)
        return card

    def _stuck_card(self, index: int, stuck: StuckCall, inventory: list[Device | Unit]) -> Iterator[Fact]:
        self._unread += 1
        card = self._remembered(index)
        words = f"driver call {stuck.call} stuck since {format_instant(stuck.since)}"
        evidence = {"node": self._of.node, "index": index, "call": stuck.call, "since": format_instant(stuck.since)}
        subject = f"device {card.uuid}" if card is not None else f"node {self._of.node} index {index}"
        self._troubles.keep(subject)
        self._complete = False
        yield from self._troubles.tell(self._ctx, "driver_call_stuck", subject, words, evidence=evidence)
        if card is not None:
            yield from changes.note_stuck(card, stuck, self._of)
            inventory.append(changes.remembered_device(card, self._of, words))

    def _failed_card(self, index: int, error: DriverError, inventory: list[Device | Unit]) -> Iterator[Fact]:
        self._unread += 1
        card = self._remembered(index)
        subject = f"device {card.uuid}" if card is not None else f"node {self._of.node} index {index}"
        if error.kind == LOST:
            words = f"the driver says that the card is lost: {error.reason}"
        else:
            words = f"the card cannot be read ({error.call}: {error.reason})"
        evidence = {"node": self._of.node, "index": index, "pci_address": card.pci_address if card else None}
        yield from self._troubles.tell(self._ctx, error.kind, subject, words, evidence=evidence)
        if error.kind == LOST and card is not None:
            yield from changes.note_lost(card, error.reason, self._of)
            inventory.append(changes.remembered_device(card, self._of, error.reason))
        elif card is not None:
            self._complete = False
            inventory.append(changes.remembered_device(card, self._of, words))
        else:
            self._complete = False

    def _repeated_card(self, card: CardReading) -> Iterator[Fact]:
        self._unread += 1
        self._complete = False
        yield from self._troubles.tell(
            self._ctx,
            "device_uuid_repeated",
            f"device {card.uuid}",
            "several cards carry one UUID: only the first is told",
            evidence={"node": self._of.node, "index": card.index},
        )

    def _missing_cards(self) -> Iterator[Fact]:
        """Cards that a whole enumeration does not name."""
        for card in self._memory.cards.values():
            if card.uuid in self._present:
                continue
            yield from changes.note_missing(card, self._of)
            yield from self._troubles.tell(
                self._ctx,
                "device_missing",
                f"device {card.uuid}",
                f"the driver no longer lists the card at {card.pci_address or f'index {card.index}'}",
                evidence={"node": self._of.node, "pci_address": card.pci_address, "serial": card.serial},
            )

    def _inventory(self, inventory: list[Device | Unit]) -> Iterator[Fact]:
        """All of it where any of it is another than was said, or it is time again."""
        word = [msgspec.structs.replace(each, occurred_at=0, observed_at=0) for each in inventory]
        if self._kept.said.is_news("inventory", word, self._of.at):
            self._inventoried = True
            yield from inventory


def _among(pods: Sequence[str], client_uids: Sequence[str]) -> str:
    """The pods behind an MPS server, each once: by the names that the kubelet lists, else by the uids of its clients' cgroups."""
    named = ", ".join((pods or client_uids)[:16]) or "pods that cannot be listed"
    more = len(client_uids) - len(pods)
    if not pods or more <= 0:
        return named
    return named + ngettext(
        " and {count} pod that the kubelet does not list", " and {count} pods that the kubelet does not list", more
    ).format(count=more)


def _lists(card: CardReading, pid: int) -> bool:
    return not isinstance(card.processes, Unknown) and any(process.pid == pid for process in card.processes)
