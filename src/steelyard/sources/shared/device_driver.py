"""What a vendor's driver library says of the cards of this node, in one form for every vendor, and the port through which it is asked.

``sources/nvml`` has the binding to NVIDIA's; another vendor's is another class of this Protocol. The tricks to know: None means that the
driver does not offer the figure at all, ``Unknown`` that it was asked and could not say (the reason is the driver's), and neither is 0;
and every method may hang for ever, so callers run it in a thread that can be abandoned and give it ``note``, which learns of each call
before it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from steelyard.primitives.unknown import Unknown

LOST: Final = "device_lost"
NEEDS_RESET: Final = "device_needs_reset"
NO_PERMISSION: Final = "driver_no_permission"
MISMATCH: Final = "driver_library_mismatch"
NOT_LOADED: Final = "driver_not_loaded"
NO_LIBRARY: Final = "driver_library_missing"
UNINITIALISED: Final = "driver_uninitialised"
UNSUPPORTED: Final = "driver_call_unsupported"
FAILED: Final = "driver_call_failed"

Figure = int | float | Unknown | None
Words = str | Unknown | None
Note = Callable[[str], None]


class DriverError(Exception):
    """A call that failed for the card or the library as a whole. kind: one of the constants above; call: the library's own name of it."""

    def __init__(self, kind: str, call: str, reason: str) -> None:
        super().__init__(f"{call}: {reason}")
        self.kind = kind
        self.call = call
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Problem:
    """One call that gave no figure, where that deserves a finding. gi: of one GPU instance only."""

    kind: str
    call: str
    reason: str
    gi: int | None = None


@dataclass(frozen=True, slots=True)
class LibraryReading:
    """The library as a whole. cards_count: what it enumerates now."""

    driver_version: Words
    library_version: Words
    cards_count: int


@dataclass(frozen=True, slots=True)
class RowRemaps:
    """Rows of memory that were remapped, after correctable and uncorrectable errors. pending: one waits for a reset; failed: none was left."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class InstanceReading:
    """One MIG device. memory_*: of its GPU instance, which two compute instances share. figures: as in ``CardReading``."""

    index: int
    uuid: str | None
    gi: int | None
    ci: int | None
    profile: str | None = None
    sm_count: int | None = None
    placement_start: int | None = None
    placement_size: int | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """One process on a card. types: of ``C``, ``G``, ``M`` (it talks to an MPS server)."""

    pid: int
    types: frozenset[str]
    memory_used_mib: Figure
    gi: int | None = None
    ci: int | None = None
    sm_ratio: Figure = None
    memory_ratio: Figure = None


@dataclass(frozen=True, slots=True)
class CardReading:
    """One card at one moment. figures: by column of ``fact.device_sample``, ratios 0 to 1. counters: monotonous, by the field's own name
    (``throttle_power_us``). processes: Unknown where no list could be had. mig_enabled: Unknown or None as for figures."""

    index: int
    uuid: str
    serial: Words = None
    pci_address: Words = None
    model: Words = None
    numa: int | None = None
    recovery_action: Words = None
    mig_enabled: bool | Unknown | None = None
    mig_pending: bool | None = None
    remaps: RowRemaps | Unknown | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    counters: Mapping[str, Figure] = field(default_factory=dict)
    instances: tuple[InstanceReading, ...] = ()
    processes: tuple[ProcessReading, ...] | Unknown = ()
    problems: tuple[Problem, ...] = ()


class Progress(Protocol):
    """Learns how far the reading of a card has come, so that a reading that hangs or breaks off is not lost whole."""

    def __call__(self, call: str) -> None:
        """A call is about to be made."""
        ...

    def identified(self, card: CardReading) -> None:
        """Which card it is; the rest of the reading is still to come."""
        ...


class DeviceDriver(Protocol):
    """A vendor's library. Any method may raise DriverError, and any may hang."""

    vendor: str

    def open(self, note: Note) -> LibraryReading:
        """Load and initialise the library, again if it already was, and read what it says of itself."""
        ...

    def read_card(self, index: int, note: Progress) -> CardReading:
        """Everything about one card, by the library's index; its identity first. Called from one thread per index."""
        ...

    def close(self) -> None:
        """Let the library go. Never raises."""
        ...
