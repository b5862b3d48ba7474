"""A card as printed becomes facts: Device, Unit, DeviceSample, ProcessSample; what it cannot say stays NULL with its reason.

All forms end here, so that a cell means the same whichever form printed it. The tricks to know: memory of MIG is booked by GPU
instance, so two compute instances of one instance, which print the same figure, give one sample; and a card without a UUID in the
text is asked of the directory or becomes the finding ``device_unresolved``, never an invented identity.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.unit import Unit
from steelyard.primitives.unknown import Unknown, known
from steelyard.sources.nvidia_smi import values
from steelyard.sources.nvidia_smi.reading import SOURCE, CardReading, MigReading, Page, ProcessReading
from steelyard.sources.shared.device_directory import merge_devices
from steelyard.sources.shared.pci import pci_or_none

NAME_CHARACTERS_MAX: Final = 1_024
UNRESOLVED_MAX: Final = 1_000
ADDRESSES_MAX: Final = 64
GI_MAX: Final = 4_096
_RECOVERY_ACTIONS: Final = (
    "none",
    "drain p2p",
    "drain and reset",
    "gpu reset required",
    "gpu reset",
    "reset",
    "node reboot required",
    "node reboot",
)
_THROTTLE_BITS: Final = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
_SAMPLED: Final = (
    "memory_total",
    "memory_used",
    "memory_reserved",
    "util_gpu",
    "util_memory",
    "power",
    "power_limit",
    "pcie_tx",
    "pcie_rx",
    "temperature",
    "sm_clock",
    "memory_clock",
    "throttle",
    "ecc",
)

Value = int | float | Unknown | None


def card_facts(card: CardReading, page: Page) -> Iterator[Fact]:
    """The facts of one card at the page's stamp."""
    uuid = resolve(card, page)
    if uuid is None:
        return
    pci = pci_or_none(card.cells.get("pci"))
    addresses = page.seen.setdefault(uuid, set())
    page.instants.setdefault(uuid, set()).add(page.stamp)
    if pci is not None and pci not in addresses and len(addresses) < ADDRESSES_MAX:
        addresses.add(pci)
        if len(addresses) == 2:
            yield from page.refusals.find(
                "device_uuid_repeated",
                f"device {uuid}",
                f"cards at {', '.join(sorted(addresses))} carry one UUID: their samples cannot be told apart",
                evidence={"pci_addresses": sorted(addresses)},
                line=card.line,
            )
    device = merge_devices(page.directory.devices.get(uuid), _device(card, uuid, page))
    yield device
    if device.state == "lost":
        yield from page.refusals.find(
            "device_lost",
            f"device {uuid}",
            f"the driver says that the card is lost: {device.state_reason}",
            severity="error",
            evidence={"node": page.ctx.node, "pci_address": device.pci_address},
            line=card.line,
        )
    yield from _board_sample(card, uuid, page)
    yield from _mig_facts(card, uuid, page)
    for process in card.processes:
        yield from process_facts(process, uuid, page)


def resolve(card: CardReading, page: Page) -> str | None:
    """The UUID of the card; None, noted on the page, where neither the text nor the directory knows it."""
    uuid = values.gpu_uuid(card.cells.get("uuid"))
    if uuid is None:
        index = known(values.count(card.cells.get("index"), 65_535))
        pci = pci_or_none(card.cells.get("pci"))
        found = page.directory.uuid_of(page.ctx.node, index=index, pci=pci)
        if isinstance(found, Unknown):
            place = f"index {index}" if index is not None else f"PCI {pci}" if pci else "no place"
            note_unresolved(page, place, found.reason, len(card.processes), 1)
            return None
        uuid = found
    if values.is_masked(uuid):
        page.masked.setdefault(uuid, card.line)
    return uuid


def note_unresolved(page: Page, place: str, reason: str, processes_count: int, rows_count: int) -> None:
    """Counts rows whose card is not known, by place; the page's end reports them."""
    if place not in page.unresolved and len(page.unresolved) >= UNRESOLVED_MAX:
        place, reason = "elsewhere", "more places than are listed"
    _, rows, processes = page.unresolved.get(place, (reason, 0, 0))
    page.unresolved[place] = (reason, rows + rows_count, processes + processes_count)


def process_facts(process: ProcessReading, uuid: str, page: Page) -> Iterator[Fact]:
    """The sample of one process on a known card."""
    pid = values.count(process.pid, values.PID_LIMIT)
    if not isinstance(pid, int):
        yield from page.refusals.refuse(f"expected a process id, found {process.pid[:40]!r}", process.line, process.pid)
        return
    device = page.directory.devices.get(uuid)
    gi, ci = values.count(process.gi, GI_MAX), values.count(process.ci, GI_MAX)
    if process.gi is None:
        place = page.directory.places.get((uuid, pid))
        gi, ci = place if place is not None else (None, None)
        if place is None and device is not None and device.mig_enabled:
            gi = Unknown("this form does not say in which GPU instance of a MIG card a process runs")
    unknown: dict[str, str] = {}
    limit = device.memory_mib if device is not None else None
    memory = yield from _checked(
        values.memory_mib(process.memory, limit), "memory_used_mib", uuid, page, process.line, unknown
    )
    sm = yield from _checked(values.ratio(process.sm_percent), "sm_ratio", uuid, page, process.line, unknown)
    bandwidth = yield from _checked(
        values.ratio(process.memory_percent), "memory_ratio", uuid, page, process.line, unknown
    )
    if isinstance(gi, Unknown) and process.gi is None:
        unknown["gi"] = gi.reason
    name = process.name[:NAME_CHARACTERS_MAX] if process.name is not None else None
    if name is not None and (values.is_missing(name) or not name):
        unknown["process_name"] = name or "blank"
        name = None
    place_gi, place_ci = known(gi), known(ci)
    yield ProcessSample(
        cluster=page.ctx.cluster,
        source=SOURCE,
        natural_key=f"{_place_key(uuid, place_gi, place_ci)}/{pid}",
        occurred_at=page.stamp,
        observed_at=page.ctx.observed_at,
        device_uuid=uuid,
        gi=place_gi,
        ci=place_ci,
        pid=pid,
        process_name=name,
        process_type=values.words_or_none(process.process_type),
        memory_used_mib=_integer(memory),
        sm_ratio=sm,
        memory_ratio=bandwidth,
        unknown=_json(unknown),
    )


def _device(card: CardReading, uuid: str, page: Page) -> Device:
    cells = card.cells
    mig = (values.words_or_none(cells.get("mig")) or "").casefold()
    mig_text = cells.get("mig", "").strip().casefold()
    mig_enabled = True if mig == "enabled" else False if mig_text == "disabled" else None
    everything = (*cells.values(), *card.ecc_parts, *card.throttle_bits.values())
    lost = next((text for text in everything if values.is_lost(text)), None)
    reset = next((text for text in everything if values.needs_reset(text)), None)
    action = values.bare(cells["recovery"])[:80] if "recovery" in cells else None
    if action is not None and action.casefold() not in _RECOVERY_ACTIONS:
        action = None
    reset_word = cells.get("reset_required", "").strip().casefold()
    must_reset = reset is not None or reset_word == "yes"
    if must_reset or (action is not None and action.casefold() != "none"):
        healthy: bool | None = False
    else:  # a lost card is told by its state; a later sighting says whether it came back
        healthy = True if not lost and (action is not None or reset_word == "no") else None
    name = values.words_or_none(cells.get("name"))
    serial = values.words_or_none(cells.get("serial"))
    return Device(
        cluster=page.ctx.cluster,
        source=SOURCE,
        natural_key=uuid,
        occurred_at=page.stamp,
        observed_at=page.ctx.observed_at,
        device_uuid=uuid,
        node=page.ctx.node,
        model=name[:NAME_CHARACTERS_MAX] if name and not name.endswith("...") else None,
        serial=serial[:NAME_CHARACTERS_MAX] if serial and serial.strip("0") else None,
        pci_address=pci_or_none(cells.get("pci")),
        device_index=_integer(known(values.count(cells.get("index"), 65_535))),
        memory_mib=_integer(known(values.memory_mib(cells.get("memory_total")))) or None,
        mode="mig" if mig_enabled else None,
        healthy=healthy,
        state="lost" if lost else "present",
        state_reason=values.bare(lost)
        if lost
        else values.bare(reset)
        if reset
        else "reset required"
        if must_reset
        else None,
        encoding=page.form,
        driver_version=values.words_or_none(cells.get("driver")),
        mig_enabled=mig_enabled,
        recovery_action=action,
    )


def _board_sample(card: CardReading, uuid: str, page: Page) -> Iterator[Fact]:
    cells = card.cells
    if not (card.ecc_parts or card.throttle_bits or any(name in cells for name in _SAMPLED)):
        return
    total = values.memory_mib(cells.get("memory_total"))
    device = page.directory.devices.get(uuid)
    limit = total if isinstance(total, int) else device.memory_mib if device is not None else None
    read: dict[str, Value] = {
        "memory_total_mib": total,
        "memory_used_mib": values.memory_mib(cells.get("memory_used"), limit),
        "memory_reserved_mib": values.memory_mib(cells.get("memory_reserved"), limit),
        "util_gpu_ratio": values.ratio(cells.get("util_gpu")),
        "util_memory_ratio": values.ratio(cells.get("util_memory")),
        "power_watts": values.watts(cells.get("power")),
        "power_limit_watts": values.watts(cells.get("power_limit")),
        "pcie_tx_bytes_per_second": values.bytes_per_second(cells.get("pcie_tx")),
        "pcie_rx_bytes_per_second": values.bytes_per_second(cells.get("pcie_rx")),
        "temperature_celsius": values.celsius(cells.get("temperature")),
        "sm_clock_mhz": values.megahertz(cells.get("sm_clock")),
        "memory_clock_mhz": values.megahertz(cells.get("memory_clock")),
        "throttle_reasons": _throttle(card),
    }
    unknown: dict[str, str] = {}
    found: dict[str, int | float | None] = {"ecc_uncorrected": _integer(_ecc(card, unknown))}
    for name, value in read.items():
        found[name] = yield from _checked(value, name, uuid, page, card.line, unknown)
    for name in (
        "memory_total_mib",
        "memory_used_mib",
        "memory_reserved_mib",
        "sm_clock_mhz",
        "memory_clock_mhz",
        "throttle_reasons",
        "pcie_tx_bytes_per_second",
        "pcie_rx_bytes_per_second",
    ):
        found[name] = _integer(found[name])
    yield _sample(page, uuid, None, found, unknown)


def _sample(
    page: Page, uuid: str, gi: int | None, found: dict[str, int | float | None], unknown: dict[str, str]
) -> DeviceSample:
    row = {
        "cluster": page.ctx.cluster,
        "source": SOURCE,
        "natural_key": _place_key(uuid, gi, None),
        "occurred_at": page.stamp,
        "observed_at": page.ctx.observed_at,
        "device_uuid": uuid,
        "gi": gi,
        "unknown": _json(unknown),
        **found,
    }
    return msgspec.convert(row, DeviceSample)


def _mig_facts(card: CardReading, uuid: str, page: Page) -> Iterator[Fact]:
    """A Unit per MIG device, and one sample per GPU instance."""
    instances: dict[int, list[MigReading]] = {}
    for mig in card.migs:
        gi, ci = values.count(mig.gi, GI_MAX), values.count(mig.ci, GI_MAX)
        if isinstance(gi, int):
            rows = instances.setdefault(gi, [])
            if rows and not (mig.memory_total or "").strip() and not (mig.memory_used or "").strip():
                mig.memory_total, mig.memory_used = rows[0].memory_total, rows[0].memory_used
            rows.append(mig)
        yield from _unit(mig, known(gi), known(ci), uuid, page)
    for gi, rows in instances.items():
        yield from _instance_sample(rows, gi, uuid, page)


def _unit(mig: MigReading, gi: int | None, ci: int | None, uuid: str, page: Page) -> Iterator[Fact]:
    index = _integer(known(values.count(mig.index, GI_MAX)))
    listed = page.directory.mig_units.get((uuid, index)) if index is not None else None
    unit_id = mig.unit_id or (listed.unit_id if listed is not None else None)
    if unit_id is None and gi is None:
        yield from page.refusals.refuse(
            "expected the UUID or the instance ids of a MIG device, found neither", mig.line, str(mig.index)
        )
        return
    yield Unit(
        cluster=page.ctx.cluster,
        source=SOURCE,
        natural_key=unit_id or _place_key(uuid, gi, ci),
        occurred_at=page.stamp,
        observed_at=page.ctx.observed_at,
        unit_kind="mig",
        unit_id=unit_id or _place_key(uuid, gi, ci),
        device_uuid=uuid,
        node=page.ctx.node,
        gi=gi,
        ci=ci,
        profile=mig.profile or (listed.profile if listed is not None else None),
        memory_mib=_integer(known(values.memory_mib(mig.memory_total))) or None,
        sm_count=_integer(known(values.count(mig.sm_count, GI_MAX))),
        unit_index=index,
    )


def _instance_sample(rows: list[MigReading], gi: int, uuid: str, page: Page) -> Iterator[Fact]:
    unknown: dict[str, str] = {}
    found: dict[str, int | float | None] = {}
    if all(row.memory_total is None and row.memory_used is None for row in rows):
        return
    for name in ("memory_total", "memory_used", "memory_reserved"):
        printed = dict.fromkeys(cell for row in rows if (cell := getattr(row, name)) is not None)
        total = found.get("memory_total_mib")
        value: Value = None
        if len(printed) == 1:
            value = values.memory_mib(next(iter(printed)), total if name != "memory_total" else None)
        elif printed:
            value = Unknown("the compute instances of one GPU instance print different figures")
            yield from page.refusals.find(
                "gpu_instance_memory_disagrees",
                f"device {uuid}/gi{gi}",
                f"{name} of one GPU instance is printed as {', '.join(list(printed)[:8])}",
                line=rows[0].line,
            )
        found[f"{name}_mib"] = _integer((yield from _checked(value, f"{name}_mib", uuid, page, rows[0].line, unknown)))
    yield _sample(page, uuid, gi, found, unknown)


def _checked(
    value: Value, column: str, uuid: str, page: Page, line: int, unknown: dict[str, str]
) -> Generator[Fact, None, int | float | None]:
    """Yields findings; returns the value or None, with the reason noted in ``unknown``."""
    if isinstance(value, Unknown):
        unknown[column] = value.reason
        if value.reason.startswith(values.UNREADABLE):
            yield from page.refusals.refuse(f"{column}: {value.reason}", line, value.reason)
        elif value.reason.startswith(values.ABOVE_LIMIT):
            yield from page.refusals.find(
                "sample_above_physical_limit",
                f"device {uuid}",
                f"{column} is {value.reason}; it is taken as not known",
                evidence={"column": column, "reason": value.reason},
                line=line,
            )
        return None
    if isinstance(value, float) and column.endswith("_ratio") and value > 1:
        yield from page.refusals.find(
            "ratio_above_one",
            f"device {uuid}",
            f"{column} is {value:g}; up to {values.RATIO_SLACK:g} it counts as 1",
            evidence={"column": column, "value": value},
            line=line,
        )
        return 1.0
    return value


def _throttle(card: CardReading) -> Value:
    if not card.throttle_bits:
        return values.bit_mask(card.cells.get("throttle"))
    mask = 0
    for name, text in card.throttle_bits.items():
        state = values.bare(text).casefold()
        if name not in _THROTTLE_BITS:
            continue
        if state not in ("active", "not active"):
            return Unknown(f"{name}: {text.strip()[:60] or 'blank'}")
        mask |= _THROTTLE_BITS[name] if state == "active" else 0
    return mask


def _ecc(card: CardReading, unknown: dict[str, str]) -> Value:
    """Uncorrected errors since the driver was loaded. Of parts, the known ones are a lower bound where one is missing."""
    if not card.ecc_parts:
        total = values.count(card.cells.get("ecc"))
        if isinstance(total, Unknown):
            unknown["ecc_uncorrected"] = total.reason
            return None
        return total
    parts = [values.count(text) for text in card.ecc_parts]
    missing = next((part for part in parts if isinstance(part, Unknown)), None)
    total = sum(part for part in parts if isinstance(part, int))
    if missing is None:
        return total
    unknown["ecc_uncorrected"] = f"a lower bound; one part is {missing.reason}" if total else missing.reason
    return total or None


def _place_key(uuid: str, gi: int | None, ci: int | None) -> str:
    return uuid + (f"/gi{gi}" if gi is not None else "") + (f"/ci{ci}" if gi is not None and ci is not None else "")


def _integer(value: Value) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _json(unknown: dict[str, str]) -> str:
    return msgspec.json.encode(unknown, order="sorted").decode() if unknown else "{}"
