"""A card as the driver told of it becomes facts: Device, Unit, DeviceSample, ProcessSample, MetricSample.

They mean what the same facts of ``nvidia_smi`` and ``dcgm`` mean. The tricks to know: memory and profiling of MIG are booked by GPU
instance, once, however many compute instances share it; and a process of an MPS server uses the card for others, so it is nobody's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.unit import Unit
from steelyard.primitives.instant import Instant
from steelyard.primitives.unknown import Unknown, known
from steelyard.sources.nvml.process_lists import THROUGH_MPS
from steelyard.sources.shared.device_driver import (
    NEEDS_RESET,
    CardReading,
    Figure,
    InstanceReading,
    ProcessReading,
    Words,
)
from steelyard.sources.shared.process_owner import GONE, POD, UNRESOLVED, ProcessOwner

SOURCE: Final = "agent"
ENCODING: Final = "nvml"
FAMILY: Final = "device"
MPS_SERVER: Final = "it is an MPS server: what it uses is its clients'"
NOT_LOOKED_UP: Final = "nobody looks up whose processes are"
_WHOLE: Final = frozenset(
    {
        "memory_used_mib",
        "memory_total_mib",
        "memory_reserved_mib",
        "sm_clock_mhz",
        "memory_clock_mhz",
        "throttle_reasons",
        "ecc_uncorrected",
        "pcie_tx_bytes_per_second",
        "pcie_rx_bytes_per_second",
        "nvlink_tx_bytes_per_second",
        "nvlink_rx_bytes_per_second",
    }
)


@dataclass(frozen=True, slots=True)
class Round:
    """The keys that all facts of one round share."""

    cluster: str
    node: str
    at: Instant
    vendor: str = "nvidia"
    driver_version: str | None = None


def device_of(card: CardReading, of: Round) -> Device:
    """The card as inventory. healthy: the recovery action says so, or the driver wants a reset; None where it says neither."""
    action = _text(card.recovery_action)
    must_reset = any(problem.kind == NEEDS_RESET for problem in card.problems)
    healthy = None if action is None else action == "None"
    total = card.figures.get("memory_total_mib")
    return Device(
        cluster=of.cluster,
        source=SOURCE,
        natural_key=card.uuid,
        occurred_at=of.at,
        observed_at=of.at,
        device_uuid=card.uuid,
        node=of.node,
        vendor=of.vendor,
        model=_text(card.model),
        serial=_text(card.serial),
        pci_address=_text(card.pci_address),
        device_index=card.index,
        numa=card.numa,
        memory_mib=total if isinstance(total, int) and total else None,
        mode="mig" if card.mig_enabled is True else None,
        healthy=False if must_reset else healthy,
        state_reason="GPU requires reset" if must_reset else None,
        encoding=ENCODING,
        driver_version=of.driver_version,
        mig_enabled=card.mig_enabled if isinstance(card.mig_enabled, bool) else None,
        recovery_action=action,
    )


def units_of(card: CardReading, of: Round) -> Iterator[Unit]:
    """One Unit per MIG device."""
    for instance in card.instances:
        unit_id = unit_id_of(card.uuid, instance)
        if unit_id is None:
            continue
        memory = instance.figures.get("memory_total_mib")
        yield Unit(
            cluster=of.cluster,
            source=SOURCE,
            natural_key=unit_id,
            occurred_at=of.at,
            observed_at=of.at,
            unit_kind="mig",
            unit_id=unit_id,
            device_uuid=card.uuid,
            node=of.node,
            gi=instance.gi,
            ci=instance.ci,
            profile=instance.profile,
            placement_start=instance.placement_start,
            placement_size=instance.placement_size,
            memory_mib=memory if isinstance(memory, int) and memory else None,
            sm_count=instance.sm_count,
            unit_index=instance.index,
        )


def unit_id_of(device_uuid: str, instance: InstanceReading) -> str | None:
    """The MIG device's own UUID, else its place on the card, else None."""
    if instance.uuid is not None:
        return instance.uuid
    return _place(device_uuid, instance.gi, instance.ci) if instance.gi is not None else None


def samples_of(card: CardReading, of: Round) -> Iterator[DeviceSample]:
    """One sample of the board and one per GPU instance."""
    yield _sample(card.uuid, None, card.figures, of)
    seen: set[int] = set()
    for instance in card.instances:
        if instance.gi is not None and instance.gi not in seen:
            seen.add(instance.gi)
            yield _sample(card.uuid, instance.gi, instance.figures, of)


def process_samples(card: CardReading, owners: Mapping[int, ProcessOwner], of: Round) -> Iterator[ProcessSample]:
    """One sample per process and place; pod_uid only where the kernel proved it."""
    if isinstance(card.processes, Unknown):
        return
    served = has_mps(card, owners)
    for process in card.processes:
        owner = owners.get(process.pid)
        unknown: dict[str, str] = {}
        sm, bandwidth = _shares(process, owner, served)
        pod_uid = _pod_uid(owner, unknown)
        yield ProcessSample(
            cluster=of.cluster,
            source=SOURCE,
            natural_key=f"{_place(card.uuid, process.gi, process.ci)}/{process.pid}",
            occurred_at=of.at,
            observed_at=of.at,
            device_uuid=card.uuid,
            gi=process.gi,
            ci=process.ci,
            pid=process.pid,
            process_name=owner.name if owner is not None else None,
            process_type=process_type(process.types),
            pod_uid=pod_uid,
            memory_used_mib=_integer(_noted("memory_used_mib", process.memory_used_mib, unknown)),
            sm_ratio=_noted("sm_ratio", sm, unknown),
            memory_ratio=_noted("memory_ratio", bandwidth, unknown),
            unknown=_json(unknown),
        )


def counter_samples(card: CardReading, of: Round) -> Iterator[MetricSample]:
    """Monotonous counters of the card: clocks held down, rows remapped."""
    counters = dict(card.counters)
    if card.remaps is not None and not isinstance(card.remaps, Unknown):
        counters["remapped_rows_correctable_total"] = card.remaps.correctable
        counters["remapped_rows_uncorrectable_total"] = card.remaps.uncorrectable
    labels = _json({"device_uuid": card.uuid})
    for name, value in sorted(counters.items()):
        if isinstance(value, int | float):
            yield MetricSample(
                cluster=of.cluster,
                source=SOURCE,
                natural_key=f"{name}{labels}",
                occurred_at=of.at,
                observed_at=of.at,
                family=FAMILY,
                metric=name,
                kind="counter",
                labels=labels,
                value=float(value),
                node=of.node,
            )


def has_mps(card: CardReading, owners: Mapping[int, ProcessOwner]) -> bool:
    """Whether the card is shared through an MPS server: one runs on it, or the driver lists clients of one."""
    if isinstance(card.processes, Unknown):
        return False
    return any("M" in process.types or _is_server(owners.get(process.pid)) for process in card.processes)


def mps_pods(card: CardReading, owners: Mapping[int, ProcessOwner]) -> tuple[str, ...]:
    """The pods of the clients that the driver lists; where a server runs, of everybody else who computes on the card."""
    if isinstance(card.processes, Unknown):
        return ()
    owned = (owners.get(process.pid) for process in card.processes if process.types & {"M", "C"})
    return tuple(
        sorted({owner.pod_uid for owner in owned if owner is not None and owner.pod_uid and not owner.mps_server})
    )


def process_type(types: frozenset[str]) -> str | None:
    """As nvidia-smi prints it: ``C``, ``G``, ``C+G``, ``M+C``."""
    letters = types | {"C"} if "M" in types else types
    return "+".join(letter for letter in "MCG" if letter in letters) or None


def _is_server(owner: ProcessOwner | None) -> bool:
    return owner is not None and owner.mps_server


def _shares(process: ProcessReading, owner: ProcessOwner | None, served: bool) -> tuple[Figure, Figure]:
    """Beside an MPS server a process without a sample of its own is not idle: it may be a client."""
    if served and not _is_server(owner) and "C" in process.types and process.sm_ratio == 0.0:
        return Unknown(THROUGH_MPS), Unknown(THROUGH_MPS)
    return process.sm_ratio, process.memory_ratio


def _pod_uid(owner: ProcessOwner | None, unknown: dict[str, str]) -> str | None:
    if owner is None:
        unknown["pod_uid"] = NOT_LOOKED_UP
    elif owner.mps_server:
        unknown["pod_uid"] = MPS_SERVER
    elif owner.kind == POD:
        return owner.pod_uid
    elif owner.kind in (GONE, UNRESOLVED):
        unknown["pod_uid"] = owner.reason or owner.kind
    return None


def _sample(uuid: str, gi: int | None, figures: Mapping[str, Figure], of: Round) -> DeviceSample:
    unknown: dict[str, str] = {}
    found: dict[str, int | float | None] = {}
    for name, figure in figures.items():
        value = _noted(name, figure, unknown)
        found[name] = _integer(value) if name in _WHOLE else value
    row = {
        "cluster": of.cluster,
        "source": SOURCE,
        "natural_key": _place(uuid, gi, None),
        "occurred_at": of.at,
        "observed_at": of.at,
        "device_uuid": uuid,
        "gi": gi,
        "unknown": _json(unknown),
        **found,
    }
    return msgspec.convert(row, DeviceSample)


def _noted(name: str, figure: Figure, unknown: dict[str, str]) -> int | float | None:
    if isinstance(figure, Unknown):
        unknown[name] = figure.reason
        return None
    return figure


def _integer(value: int | float | None) -> int | None:
    return None if value is None else int(value)


def _text(words: Words) -> str | None:
    return None if words is None else known(words)


def _place(uuid: str, gi: int | None, ci: int | None) -> str:
    return uuid + (f"/gi{gi}" if gi is not None else "") + (f"/ci{ci}" if gi is not None and ci is not None else "")


def _json(value: Mapping[str, str]) -> str:
    return msgspec.json.encode(dict(value), order="sorted").decode()
