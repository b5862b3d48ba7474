"""Resource slices: which devices a driver offers, on which card each one lies, and what part of the card it takes.

``dra`` calls ``select_slices`` and ``devices_of``. The trick to know: a pool is published in generations, and only the complete set of
slices of the highest generation is true; and a partition (``gpu-0-mig-...``) is known by name before it exists, so devices are keyed by
driver, pool and name, never by the partition's UUID, which changes each time it is made.

Sceptic's command: ``kubectl get resourceslices -o json``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.unit import Unit
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import integer_of, list_of, mapping_of, text_of
from steelyard.sources.shared.quantity import parse_quantity

SOURCE: Final = "kube_api"
MIB: Final = 2**20
PPM: Final = 1_000_000
COUNTERS_MAX: Final = 10_000

PoolKey: TypeAlias = tuple[str, str]
"""(driver, pool name)."""

_ACCELERATOR_WORDS: Final = frozenset(
    {"gpu", "npu", "tpu", "mlu", "xpu", "dcu", "gcu", "gaudi", "neuron", "accelerator"}
)


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """One device of a complete pool. unit_id ``driver/pool/name``; card_uuid: the physical card's; instance_uuid: the partition's own.

    kind: ``gpu``, ``mig`` or ``dra``. whole: the device is the card itself (also one passed through to a virtual machine).
    memory_mib: what the device offers. share_ppm: the largest part of a shared counter set that it takes, None where it names no
    counters. capacity: what the device offers, in milli-units.
    """

    unit_id: str
    node: str | None
    vendor: str
    kind: str
    whole: bool
    card_uuid: str | None
    instance_uuid: str | None
    model: str | None
    profile: str | None
    placement_start: int | None
    memory_mib: int | None
    sm_count: int | None
    pci_address: str | None
    driver_version: str | None
    tainted: bool
    share_ppm: int | None
    capacity: Mapping[str, int]


def is_accelerator_driver(driver: str) -> bool:
    """True for drivers that offer accelerators (``gpu.nvidia.com``, ``gpu.amd.com``, ``hami-core-gpu...``), by the words of the name."""
    return not _ACCELERATOR_WORDS.isdisjoint(driver.replace("-", ".").split("."))


def pool_key(payload: Mapping[str, Any]) -> PoolKey:
    """The pool that a slice belongs to. Raises SourceMalformed where the slice names no driver or pool."""
    spec = mapping_of(payload.get("spec"))
    driver, pool = text_of(spec.get("driver")), text_of(mapping_of(spec.get("pool")).get("name"))
    if driver is None or pool is None:
        raise SourceMalformed(
            "expected spec.driver and spec.pool.name in a ResourceSlice", excerpt=reprlib.repr(payload)
        )
    return driver, pool


def select_slices(
    payloads: Sequence[Mapping[str, Any]],
) -> tuple[dict[PoolKey, list[Mapping[str, Any]]], dict[PoolKey, str]]:
    """(slices by pool, reasons by pool that is left out): of each pool the highest generation, if all of its slices are there.

    A slice that comes twice counts once. Raises SourceMalformed for a slice without driver or pool.
    """
    newest: dict[PoolKey, int] = {}
    slices: dict[PoolKey, dict[str, Mapping[str, Any]]] = {}
    for position, payload in enumerate(payloads):
        key, pool = pool_key(payload), mapping_of(mapping_of(payload.get("spec")).get("pool"))
        generation = integer_of(pool.get("generation")) or 0
        if key not in newest or generation > newest[key]:
            newest[key], slices[key] = generation, {}
        if generation == newest[key]:
            slices[key][text_of(mapping_of(payload.get("metadata")).get("name")) or f"#{position}"] = payload
    left_out: dict[PoolKey, str] = {}
    for key, found in slices.items():
        counts = {
            integer_of(mapping_of(mapping_of(payload.get("spec")).get("pool")).get("resourceSliceCount"))
            for payload in found.values()
        }
        if counts != {len(found)}:
            said = ", ".join(sorted(str(count) for count in counts))
            left_out[key] = f"generation {newest[key]} has {len(found)} slices here, its slices say {said}"
    return {key: list(found.values()) for key, found in slices.items() if key not in left_out}, left_out


def devices_of(key: PoolKey, slices: Sequence[Mapping[str, Any]]) -> Iterator[PoolDevice]:
    """The devices of one pool's complete set of slices. Counter sets may stand in another slice of the pool than their devices."""
    specs = [mapping_of(payload.get("spec")) for payload in slices]
    counters = _counter_sets(specs)
    for spec in specs:
        for device in list_of(spec.get("devices")):
            basic = device.get("basic")
            body = basic if isinstance(basic, dict) else device
            name = text_of(device.get("name"))
            if name is not None:
                yield _device(key, name, body, text_of(spec.get("nodeName")) or text_of(body.get("nodeName")), counters)


def slice_facts(devices: Sequence[PoolDevice], ctx: ReadContext) -> Iterator[Fact]:
    """A Unit per device of a pool, and a Device per physical card: from its own entry, else from the partitions that name it."""
    cards: dict[str, PoolDevice] = {}
    for device in devices:
        if device.card_uuid is not None and (device.kind == "gpu" or device.card_uuid not in cards):
            cards[device.card_uuid] = device
    partitioned = {device.card_uuid for device in devices if device.kind == "mig" and device.instance_uuid is not None}
    for uuid, device in cards.items():
        whole = device.kind == "gpu"
        yield Device(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=uuid,
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            device_uuid=uuid,
            node=device.node,
            vendor=device.vendor,
            model=device.model,
            pci_address=device.pci_address if whole else None,
            memory_mib=device.memory_mib if whole else None,
            mode="mig" if uuid in partitioned else None,
            cordoned=device.tainted and whole,
            basis="inventory",
            encoding="resource_slice",
            driver_version=device.driver_version,
            mig_enabled=True if uuid in partitioned else None,
        )
    for device in devices:
        yield Unit(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=device.unit_id,
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            unit_kind=device.kind,
            unit_id=device.unit_id,
            device_uuid=device.card_uuid,
            node=device.node,
            profile=device.profile,
            placement_start=device.placement_start,
            memory_mib=device.memory_mib,
            sm_count=device.sm_count,
            instance_uuid=device.instance_uuid,
        )


def whole_amounts(value: object) -> dict[str, int]:
    """A map of counters or capacities (``{"memory": {"value": "10Gi"}}`` or plain quantities) as whole milli-amounts; bad ones are left out."""
    amounts: dict[str, int] = {}
    for name, entry in mapping_of(value).items():
        quantity = entry.get("value") if isinstance(entry, dict) else entry
        try:
            amount = parse_quantity(quantity) * 1_000
        except ValueError:
            continue
        if 0 <= amount < 2**72 and len(amounts) < COUNTERS_MAX:
            amounts[name] = int(amount)
    return amounts


def largest_ratio_ppm(parts: Mapping[str, int], wholes: Mapping[str, int]) -> int | None:
    """The largest part / whole over the names that both have, in ppm, floored; None where no name has a whole."""
    ratios = [min(PPM, parts[name] * PPM // wholes[name]) for name in parts if wholes.get(name)]
    return max(ratios, default=None)


def _counter_sets(specs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    return {
        name: whole_amounts(row.get("counters"))
        for spec in specs
        for row in list_of(spec.get("sharedCounters"))
        if (name := text_of(row.get("name"))) is not None
    }


def _device(
    key: PoolKey, name: str, body: Mapping[str, Any], node: str | None, counters: Mapping[str, Mapping[str, int]]
) -> PoolDevice:
    attributes = mapping_of(body.get("attributes"))
    kind, uuid, parent = (_attribute(attributes, key[0], what) for what in ("type", "uuid", "parentUUID"))
    profile = _attribute(attributes, key[0], "profile")
    partition = kind == "mig" or (kind is None and profile is not None)
    capacity = whole_amounts(body.get("capacity"))
    memory, processors = _capacity(capacity, key[0], "memory"), _capacity(capacity, key[0], "multiprocessors")
    ratios = [
        ratio
        for row in list_of(body.get("consumesCounters"))
        if (
            ratio := largest_ratio_ppm(whole_amounts(row.get("counters")), counters.get(str(row.get("counterSet")), {}))
        )
        is not None
    ]
    domain = key[0].split(".")
    return PoolDevice(
        unit_id=f"{key[0]}/{key[1]}/{name}",
        node=node,
        vendor=domain[-2] if len(domain) > 1 else key[0],
        kind="mig" if partition else "gpu" if kind != "vfio" and uuid is not None else "dra",
        whole=not partition and (uuid is not None or kind in ("gpu", "vfio")),
        card_uuid=parent if partition else uuid,
        instance_uuid=uuid if partition else None,
        model=_attribute(attributes, key[0], "productName") or _attribute(attributes, key[0], "model"),
        profile=profile,
        placement_start=_placement_start(name) if partition else None,
        memory_mib=None if memory is None else memory // 1_000 // MIB,
        sm_count=None if processors is None else processors // 1_000,
        pci_address=_attribute(attributes, "resource.kubernetes.io", "pciBusID"),
        driver_version=_attribute(attributes, key[0], "driverVersion"),
        tainted=any(taint.get("effect") in ("NoSchedule", "NoExecute") for taint in list_of(body.get("taints"))),
        share_ppm=max(ratios, default=None),
        capacity=capacity,
    )


def _attribute(attributes: Mapping[str, Any], domain: str, name: str) -> str | None:
    """An attribute's text or version; the driver's own domain may be left out of its name."""
    for key in (f"{domain}/{name}", name):
        entry = mapping_of(attributes.get(key))
        text = text_of(entry.get("string")) or text_of(entry.get("version"))
        if text is not None:
            return text
    return None


def _capacity(capacity: Mapping[str, int], domain: str, name: str) -> int | None:
    return capacity.get(name, capacity.get(f"{domain}/{name}"))


def _placement_start(name: str) -> int | None:
    """The last number of NVIDIA's ``gpu-<minor>-mig-<profile>-<profile id>-<start>``; None where the name has another form."""
    parts = name.split("-")
    numbers = (
        len(parts) == 6
        and parts[2] == "mig"
        and all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts[4:])
    )
    return int(parts[5]) if numbers else None
