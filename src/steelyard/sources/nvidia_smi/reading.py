"""What any form says of a card, as raw text under common names: the bridge between the forms and the facts.

Each form's reader fills these; ``card_facts`` alone turns them into facts. A name that is absent was not in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant
from steelyard.sources.nvidia_smi.stamps import local_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_directory import DeviceDirectory
from steelyard.sources.shared.refusals import Refusals

SOURCE = "nvidia_smi"


@dataclass(slots=True)
class ProcessReading:
    """One process as printed. gi, ci, memory, sm_percent, memory_percent: None where the form has no such column."""

    pid: str
    line: int = 0
    name: str | None = None
    process_type: str | None = None
    gi: str | None = None
    ci: str | None = None
    memory: str | None = None
    sm_percent: str | None = None
    memory_percent: str | None = None


@dataclass(slots=True)
class MigReading:
    """One MIG device as printed. ``unit_id`` where the form shows its UUID. Blank memory: shared with the GI's row before."""

    line: int = 0
    index: str | None = None
    gi: str | None = None
    ci: str | None = None
    unit_id: str | None = None
    profile: str | None = None
    memory_total: str | None = None
    memory_used: str | None = None
    memory_reserved: str | None = None
    sm_count: str | None = None


@dataclass(slots=True)
class CardReading:
    """One card as printed, at ``line``. Names of ``cells``:

    uuid, pci, index, name, serial, driver, mig, recovery, reset_required; memory_total, memory_used, memory_reserved, util_gpu,
    util_memory, power, temperature, sm_clock, memory_clock, throttle (hexadecimal), ecc (one number), and ``ecc_parts`` and
    ``throttle_bits`` where the form prints them one by one.
    """

    line: int = 0
    cells: dict[str, str] = field(default_factory=dict)
    ecc_parts: list[str] = field(default_factory=list)
    throttle_bits: dict[str, str] = field(default_factory=dict)
    migs: list[MigReading] = field(default_factory=list)
    processes: list[ProcessReading] = field(default_factory=list)


class Page:
    """One text being read: its context, the directory it may ask, the instant it speaks of, and its findings.

    ``stamp`` starts as ``ctx.observed_at`` (or what a capture knows) and follows the times that the text prints; ``stamped``
    tells whether it printed any. ``seen`` holds the cards named so far with their PCI addresses, ``unresolved`` the rows whose
    card is not known: reason, rows and processes by place. A capture hands one ``refusals`` to the pages of all its sections.
    """

    def __init__(
        self,
        ctx: ReadContext,
        directory: DeviceDirectory,
        form: str,
        stamp: Instant | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        self.ctx = ctx
        self.directory = directory
        self.form = form
        self.stamp = ctx.observed_at if stamp is None else stamp
        self.stamped = False
        self.refusals = refusals or Refusals(ctx, SOURCE)
        self.seen: dict[str, set[str]] = {}
        self.instants: dict[str, set[Instant]] = {}
        self.stated_count: int | None = None
        self.gpus_count: int | None = None
        self.failures: list[str] = []
        self.masked: dict[str, int] = {}
        self.unresolved: dict[str, tuple[str, int, int]] = {}

    def set_stamp(self, text: str, line: int) -> Iterator[Fact]:
        """Takes a printed time over; an unreadable one is a finding and leaves the stamp as it was."""
        try:
            self.stamp = local_instant(text, self.ctx.settings.smi_timezone)
            self.stamped = True
        except ValueError as error:
            yield from self.refusals.refuse(str(error), line, text)
