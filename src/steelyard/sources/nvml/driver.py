"""NVIDIA's driver as a ``DeviceDriver``: NVML through nvidia-ml-py, imported when it is first needed.

Each figure is one call; a call that fails makes that figure Unknown with the driver's words and leaves the rest. The tricks to know: a
container finds the library under a path of its own, so it may be named; version 2 of the memory call tells what the driver reserves apart
from what is used; and a MIG device's memory is its GPU instance's, which its compute instances share.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from steelyard.primitives.clock import WallClock
from steelyard.primitives.unknown import Unknown, known
from steelyard.sources.nvml import figures
from steelyard.sources.nvml.errors import (
    FUNCTION_NOT_FOUND,
    LIBRARY_KINDS,
    NO_VERSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    Asking,
    kind_of,
)
from steelyard.sources.nvml.process_lists import ProcessLists
from steelyard.sources.nvml.profiling import NOT_OFFERED, PROFILED, ProfilingSamples
from steelyard.sources.shared.device_driver import (
    FAILED,
    NO_LIBRARY,
    CardReading,
    DriverError,
    Figure,
    InstanceReading,
    LibraryReading,
    Note,
    Progress,
    RowRemaps,
    Words,
)
from steelyard.sources.shared.gpu_uuid import metric_gpu_uuid
from steelyard.sources.shared.pci import pci_or_none

CARDS_MAX: Final = 64
NOT_UNDER_MIG: Final = "not measurable under MIG; see gr_active_ratio of its instances"
MIGS_MAX: Final = 64
WORDS_MAX: Final = 256
_PROFILE: Final = re.compile(r"\bMIG ((?:[0-9]{1,2}c\.)?[0-9]{1,2}g\.[0-9]{1,4}gb[A-Za-z0-9.+-]{0,16})\Z")
_MIG_UUID: Final = re.compile(r"MIG-[!-~]{1,120}\Z")
_NO_PLACEMENT: Final = (NOT_SUPPORTED, 4, NOT_FOUND)
"""Codes of the placement calls that are no trouble: without a right of its own nobody may open a GPU instance."""
_RECOVERY_FIELD: Final = 230
RECOVERY_ACTIONS: Final = (
    "None",
    "GPU Reset Required",
    "Node Reboot Required",
    "Drain P2P",
    "Drain and Reset",
    "Recover IMEX Domain",
    "Bus Reset",
    "System Reboot",
)
_COUNTER_FIELDS: Final = {
    74: "clocks_event_sw_power_cap_ns",
    76: "clocks_event_sync_boost_ns",
    269: "clocks_event_sw_thermal_slowdown_ns",
    270: "clocks_event_hw_thermal_slowdown_ns",
    271: "clocks_event_hw_power_brake_slowdown_ns",
}
"""NVML_FI_DEV_CLOCKS_EVENT_REASON_*: nanoseconds in which the clocks were held down, since the driver was loaded."""

_PCIE: Final = {"pcie_tx_bytes_per_second": 0, "pcie_rx_bytes_per_second": 1}
"""Column -> nvmlPcieUtilCounter_t, in KB (of 1,024 bytes) per second."""
_NO_GPM: Final = (NOT_OFFERED, NOT_UNDER_MIG)


class _Card:
    """What is kept of a card from one round to the next."""

    def __init__(self) -> None:
        self.profiling = ProfilingSamples()
        self.processes = ProcessLists()


class NvmlDriver:
    """The library of this node. library: its file, where the loader would not find ``libnvidia-ml.so.1`` by itself."""

    vendor = "nvidia"

    def __init__(self, library: Path | None = None, now_us: Callable[[], int] | None = None) -> None:
        self._library = library
        self._now_us = now_us or WallClock().now
        self._nvml: Any = None
        self._initialised = False
        self._cards: dict[int, _Card] = {}

    def open(self, note: Note) -> LibraryReading:
        """Loads and initialises the library once, and again after it said that it is not initialised. Raises DriverError."""
        nvml = self._load(note)
        asking = Asking(nvml, note)
        count = self._count(asking) if self._initialised else None
        if count is None:
            asking.must("nvmlInit")
            self._initialised = True
            for card in self._cards.values():
                card.profiling.forget()
            count = int(asking.must("nvmlDeviceGetCount"))
        return LibraryReading(
            driver_version=_words(asking.ask("nvmlSystemGetDriverVersion")),
            library_version=_words(asking.ask("nvmlSystemGetNVMLVersion")),
            cards_count=min(count, CARDS_MAX),
        )

    def read_card(self, index: int, note: Progress) -> CardReading:
        """Everything about one card. Raises DriverError where the card or the library does not answer at all."""
        if self._nvml is None:
            raise DriverError(NO_LIBRARY, "nvmlInit", "the library is not loaded")
        asking = Asking(self._nvml, note)
        handle = asking.must("nvmlDeviceGetHandleByIndex", index)
        written = asking.must("nvmlDeviceGetUUID", handle)
        uuid = metric_gpu_uuid(written)
        if uuid is None:
            raise DriverError(FAILED, "nvmlDeviceGetUUID", f"expected the UUID of a card, found {str(written)[:60]!r}")
        identity = CardReading(
            index=index,
            uuid=uuid,
            serial=_serial(asking.ask("nvmlDeviceGetSerial", handle, quiet=(NOT_SUPPORTED,))),
            pci_address=_pci(asking.ask("nvmlDeviceGetPciInfo_v3", handle)),
            model=_words(asking.ask("nvmlDeviceGetName", handle)),
        )
        note.identified(identity)
        return self._whole(identity, asking, handle)

    def _whole(self, identity: CardReading, asking: Asking, handle: object) -> CardReading:
        """The card with everything that changes."""
        card = self._cards.setdefault(identity.index, _Card())
        memory = _memory(asking, handle)
        mig = asking.ask("nvmlDeviceGetMigMode", handle, quiet=(NOT_SUPPORTED, FUNCTION_NOT_FOUND))
        is_mig = not isinstance(mig, Unknown) and mig[0] == 1
        instances = _instances(asking, handle, card.profiling) if is_mig else None
        recovery, counters = _fields(asking, handle)
        return replace(
            identity,
            recovery_action=recovery,
            mig_enabled=None if isinstance(mig, Unknown) else mig[0] == 1,
            mig_pending=None if isinstance(mig, Unknown) else mig[1] == 1,
            remaps=_remaps(asking, handle),
            figures={**memory, **_figures(asking, handle, is_mig), **_profile(asking, handle, card, is_mig)},
            counters=counters,
            instances=tuple(reading for _, reading in instances or ()),
            processes=card.processes.read(asking, handle, instances, memory["memory_total_mib"], self._now_us()),
            problems=tuple(asking.problems),
        )

    def close(self) -> None:
        """Shuts the library down where it was initialised; what it says to that is of no use to anybody."""
        if self._initialised:
            self._initialised = False
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError:
                return  # it is over either way

    def _count(self, asking: Asking) -> int | None:
        """How many cards there are; None where the library has to be initialised again (its driver was replaced under it)."""
        try:
            return int(asking.must("nvmlDeviceGetCount"))
        except DriverError as error:
            if error.kind not in LIBRARY_KINDS:
                raise
            self._initialised = False
            return None

    def _load(self, note: Note) -> Any:
        if self._nvml is not None:
            return self._nvml
        try:
            import pynvml
        except ImportError:
            raise DriverError(NO_LIBRARY, "import pynvml", "the package nvidia-ml-py is not installed") from None
        if self._library is not None:
            note(f"dlopen {self._library}")
            try:
                ctypes.CDLL(str(self._library), mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                raise DriverError(NO_LIBRARY, "dlopen", str(error)[:WORDS_MAX]) from None
        self._nvml = pynvml
        return pynvml


def _words(text: object) -> Words:
    if isinstance(text, Unknown):
        return text
    written = str(text).strip()
    return written[:WORDS_MAX] if written.isprintable() and written else Unknown("the driver's words cannot be read")


def _serial(text: object) -> Words:
    serial = _words(text)
    return Unknown("the board has no serial number") if isinstance(serial, str) and not serial.strip("0") else serial


def _pci(record: Any) -> Words:
    if isinstance(record, Unknown):
        return record
    written = record.busId.decode(errors="replace") if isinstance(record.busId, bytes) else str(record.busId)
    return pci_or_none(written) or Unknown(f"expected a PCI address, found {written[:40]!r}")


def _memory(asking: Asking, handle: object, gi: int | None = None) -> dict[str, Figure]:
    """Total, used and reserved apart (version 2 of the call); before R510 there is only version 1, and nothing is told apart."""
    record = asking.ask(
        "nvmlDeviceGetMemoryInfo", handle, asking.nvml.nvmlMemory_v2, gi=gi, quiet=(FUNCTION_NOT_FOUND, NO_VERSION)
    )
    reserved: int | Unknown
    if isinstance(record, Unknown) and record.reason in (asking.words(FUNCTION_NOT_FOUND), asking.words(NO_VERSION)):
        record = asking.ask("nvmlDeviceGetMemoryInfo", handle, gi=gi)
        reserved = Unknown("this driver does not tell reserved memory apart from used memory")
    elif isinstance(record, Unknown):
        reserved = record
    else:
        reserved = int(record.reserved)
    if isinstance(record, Unknown):
        return {"memory_total_mib": record, "memory_used_mib": record, "memory_reserved_mib": record}
    total = figures.memory_mib(int(record.total))
    return {
        "memory_total_mib": total,
        "memory_used_mib": figures.memory_mib(int(record.used), total),
        "memory_reserved_mib": figures.memory_mib(reserved, total),
    }


def _profile(asking: Asking, handle: object, card: _Card, is_mig: bool) -> dict[str, Figure]:
    """The board's own profiling figures; under MIG only its instances have any. Its PCIe traffic is there without GPM too, of 20 ms."""
    if is_mig:
        read: dict[str, Figure] = {column: Unknown(NOT_UNDER_MIG) for column in PROFILED}
    else:
        read = card.profiling.read(asking, handle, None)
    for column, counter in _PCIE.items():
        if isinstance(found := read[column], Unknown) and found.reason in _NO_GPM:
            kib = asking.ask("nvmlDeviceGetPcieThroughput", handle, counter, quiet=(NOT_SUPPORTED, FUNCTION_NOT_FOUND))
            read[column] = figures.bytes_per_second(kib if isinstance(kib, Unknown) else kib / 1_024)
    return read


def _figures(asking: Asking, handle: object, is_mig: bool) -> dict[str, Figure]:
    utilisation = asking.ask("nvmlDeviceGetUtilizationRates", handle, quiet=(NOT_SUPPORTED,) if is_mig else ())
    lost = isinstance(utilisation, Unknown)
    if lost and is_mig:
        utilisation = Unknown(NOT_UNDER_MIG)
    reasons = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    return {
        "util_gpu_ratio": utilisation if lost else figures.ratio(int(utilisation.gpu)),
        "util_memory_ratio": utilisation if lost else figures.ratio(int(utilisation.memory)),
        "power_watts": figures.watts(asking.ask("nvmlDeviceGetPowerUsage", handle)),
        "power_limit_watts": figures.watts(
            asking.ask("nvmlDeviceGetEnforcedPowerLimit", handle, quiet=(NOT_SUPPORTED, FUNCTION_NOT_FOUND))
        ),
        "temperature_celsius": figures.whole(asking.ask("nvmlDeviceGetTemperature", handle, 0), 200),
        "sm_clock_mhz": figures.whole(asking.ask("nvmlDeviceGetClockInfo", handle, 1), 20_000),
        "memory_clock_mhz": figures.whole(asking.ask("nvmlDeviceGetClockInfo", handle, 2), 20_000),
        "throttle_reasons": figures.whole(asking.first(reasons, handle), 2**62 - 1),
        "ecc_uncorrected": figures.whole(
            asking.ask("nvmlDeviceGetTotalEccErrors", handle, 1, 0, quiet=(NOT_SUPPORTED,)), 2**53
        ),
    }


def _fields(asking: Asking, handle: object) -> tuple[Words, dict[str, Figure]]:
    """The recovery action and the counters of held-down clocks, in one call."""
    asked = [_RECOVERY_FIELD, *_COUNTER_FIELDS]
    answered = asking.ask("nvmlDeviceGetFieldValues", handle, asked)
    if isinstance(answered, Unknown):
        return answered, dict.fromkeys(_COUNTER_FIELDS.values(), answered)
    recovery: Words = Unknown("the driver does not offer a recovery action")
    counters: dict[str, Figure] = {}
    for value in answered:
        code, field = int(value.nvmlReturn), int(value.fieldId)
        words = None if code == 0 else Unknown(asking.words(code))
        if code != 0 and kind_of(code) in LIBRARY_KINDS | {"device_lost"}:
            raise DriverError(kind_of(code), "nvmlDeviceGetFieldValues", asking.words(code))
        if field == _RECOVERY_FIELD:
            recovery = _recovery(int(value.value.uiVal)) if words is None else words
        elif field in _COUNTER_FIELDS:
            held = figures.whole(int(value.value.ullVal), 2**62)
            counters[_COUNTER_FIELDS[field]] = held if words is None else words
    return recovery, counters


def _recovery(code: int) -> Words:
    return (
        RECOVERY_ACTIONS[code]
        if code < len(RECOVERY_ACTIONS)
        else Unknown(f"recovery action {code} is not one we know")
    )


def _remaps(asking: Asking, handle: object) -> RowRemaps | Unknown:
    rows = asking.ask("nvmlDeviceGetRemappedRows", handle, quiet=(NOT_SUPPORTED,))
    return rows if isinstance(rows, Unknown) else RowRemaps(int(rows[0]), int(rows[1]), bool(rows[2]), bool(rows[3]))


def _instances(asking: Asking, handle: object, profiling: ProfilingSamples) -> list[tuple[object, InstanceReading]]:
    """The MIG devices of a card; figures are read once per GPU instance. Check with ``nvidia-smi -L`` and ``nvidia-smi mig -lgi``."""
    highest = asking.ask("nvmlDeviceGetMaxMigDeviceCount", handle)
    found: list[tuple[object, InstanceReading]] = []
    read: dict[int | None, dict[str, Figure]] = {}
    for number in range(0 if isinstance(highest, Unknown) else min(int(highest), MIGS_MAX)):
        device = asking.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number, quiet=(NOT_FOUND,))
        if isinstance(device, Unknown):
            continue
        gi = _integer(asking.ask("nvmlDeviceGetGpuInstanceId", device))
        ci = _integer(asking.ask("nvmlDeviceGetComputeInstanceId", device, gi=gi))
        if gi is None or gi not in read:
            profile = profiling.read(asking, handle, gi) if gi is not None else {}
            read[gi] = {**_memory(asking, device, gi), **profile}
        found.append(
            (device, _instance(asking, handle, device, InstanceReading(number, None, gi, ci, figures=read[gi])))
        )
    return found


def _instance(asking: Asking, handle: object, device: object, place: InstanceReading) -> InstanceReading:
    gi = place.gi
    uuid = known(_words(asking.ask("nvmlDeviceGetUUID", device, gi=gi)))
    name = known(_words(asking.ask("nvmlDeviceGetName", device, gi=gi)))
    profile = _PROFILE.search(name) if name else None
    attributes = asking.ask("nvmlDeviceGetAttributes_v2", device, gi=gi)
    start = size = None
    instance = (
        asking.ask("nvmlDeviceGetGpuInstanceById", handle, gi, gi=gi, quiet=_NO_PLACEMENT) if gi is not None else None
    )
    if instance is not None and not isinstance(instance, Unknown):
        told = asking.ask("nvmlGpuInstanceGetInfo", instance, gi=gi, quiet=_NO_PLACEMENT)
        if not isinstance(told, Unknown):
            start, size = int(told.placement.start), int(told.placement.size)
    return InstanceReading(
        index=place.index,
        uuid=f"MIG-{uuid[4:].lower()}" if uuid and _MIG_UUID.match(uuid) else None,
        gi=gi,
        ci=place.ci,
        profile=profile.group(1) if profile else None,
        sm_count=None if isinstance(attributes, Unknown) else int(attributes.multiprocessorCount),
        placement_start=start,
        placement_size=size,
        figures=place.figures,
    )


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and value < figures.ALL_ONES_32 else None
