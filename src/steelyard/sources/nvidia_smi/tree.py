"""A small tree of named texts: what ``nvidia-smi -q -x`` and ``nvidia-smi -q`` have in common, and the map from it to a card.

Both print the same facts in the same nesting under other names, so both become a ``Branch`` and one pair of tables names where each
cell lies. Paths are tuples of lower-case names; the first path that is there wins, because drivers renamed things
(``power_readings`` -> ``gpu_power_readings``, ``clocks_throttle_reasons`` -> ``clocks_event_reasons``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.sources.nvidia_smi import values
from steelyard.sources.nvidia_smi.reading import CardReading, MigReading

Path = tuple[str, ...]


@dataclass(slots=True)
class Branch:
    """A named text with branches of its own, at ``line`` of the input."""

    name: str
    line: int = 0
    text: str = ""
    branches: list[Branch] = field(default_factory=list)

    def at(self, path: Path) -> Branch | None:
        """The first branch at a path, or None."""
        here: Branch | None = self
        for name in path:
            here = next((branch for branch in here.branches if branch.name == name), None) if here else None
        return here

    def text_at(self, *paths: Path) -> str | None:
        """The text at the first of these paths that exists; the first that says something wins over one that is missing a value."""
        found = [text for path in paths if (text := self._text_along(path)) is not None]
        return next((text for text in found if not values.is_missing(text)), found[0] if found else None)

    def _text_along(self, path: Path) -> str | None:
        """The text at a path; a parent that says ``N/A`` or ``GPU is lost`` instead of having branches speaks for all of them."""
        here = self
        for name in path:
            step = next((branch for branch in here.branches if branch.name == name), None)
            if step is None:
                silent = here is not self and not here.branches and here.text and values.is_missing(here.text)
                return here.text if silent else None
            here = step
        return here.text

    def all_at(self, name: str) -> Iterator[Branch]:
        """Every branch of one name, in order."""
        return (branch for branch in self.branches if branch.name == name)


@dataclass(frozen=True, slots=True)
class CardMap:
    """Where the cells of a card lie in a form: name of the cell -> paths. ``throttle``: parents of the bits; ``bits``: their names."""

    cells: Mapping[str, Sequence[Path]]
    throttle: Sequence[Path]
    bits: Mapping[str, str]
    ecc_volatile: Path
    ecc_names: Sequence[Sequence[str]]
    mig: Mapping[str, Sequence[Path]]


XML_MAP: Final = CardMap(
    cells={
        "uuid": [("uuid",)],
        "pci": [("pci", "pci_bus_id")],
        "name": [("product_name",)],
        "serial": [("serial",)],
        "mig": [("mig_mode", "current_mig")],
        "recovery": [("gpu_recovery_action",)],
        "reset_required": [("gpu_reset_status", "reset_required")],
        "memory_total": [("fb_memory_usage", "total"), ("memory_usage", "total")],
        "memory_used": [("fb_memory_usage", "used"), ("memory_usage", "used")],
        "memory_reserved": [("fb_memory_usage", "reserved")],
        "util_gpu": [("utilization", "gpu_util")],
        "util_memory": [("utilization", "memory_util")],
        "power": [
            ("gpu_power_readings", "average_power_draw"),
            ("gpu_power_readings", "power_draw"),
            ("power_readings", "average_power_draw"),
            ("power_readings", "power_draw"),
            ("gpu_power_readings", "instant_power_draw"),
            ("power_readings", "instant_power_draw"),
        ],
        "power_limit": [
            (readings, name)
            for readings in ("gpu_power_readings", "power_readings")
            for name in ("enforced_power_limit", "current_power_limit", "power_limit")
        ],
        "pcie_tx": [("pci", "tx_util")],
        "pcie_rx": [("pci", "rx_util")],
        "temperature": [("temperature", "gpu_temp")],
        "sm_clock": [("clocks", "sm_clock")],
        "memory_clock": [("clocks", "mem_clock")],
    },
    throttle=[("clocks_event_reasons",), ("clocks_throttle_reasons",)],
    bits={
        f"clocks_{word}_reason_{bit}": bit
        for word in ("event", "throttle")
        for bit in (
            "gpu_idle",
            "applications_clocks_setting",
            "sw_power_cap",
            "hw_slowdown",
            "hw_thermal_slowdown",
            "hw_power_brake_slowdown",
            "sync_boost",
            "sw_thermal_slowdown",
            "display_clocks_setting",
        )
    },
    ecc_volatile=("ecc_errors", "volatile"),
    ecc_names=[
        ("dram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded"),
        ("dram_uncorrectable", "sram_uncorrectable"),
        ("double_bit/total",),
    ],
    mig={
        "index": [("index",)],
        "gi": [("gpu_instance_id",)],
        "ci": [("compute_instance_id",)],
        "uuid": [("uuid",), ("mig_uuid",)],
        "memory_total": [("fb_memory_usage", "total")],
        "memory_used": [("fb_memory_usage", "used")],
        "memory_reserved": [("fb_memory_usage", "reserved")],
        "sm_count": [("device_attributes", "shared", "multiprocessor_count")],
    },
)

TEXT_MAP: Final = CardMap(
    cells={
        "uuid": [("gpu uuid",)],
        "pci": [("pci", "bus id")],
        "name": [("product name",)],
        "serial": [("serial number",)],
        "mig": [("mig mode", "current")],
        "recovery": [("gpu recovery action",)],
        "reset_required": [("gpu reset status", "reset required")],
        "memory_total": [("fb memory usage", "total"), ("memory usage", "total")],
        "memory_used": [("fb memory usage", "used"), ("memory usage", "used")],
        "memory_reserved": [("fb memory usage", "reserved")],
        "util_gpu": [("utilization", "gpu")],
        "util_memory": [("utilization", "memory")],
        "power": [
            ("gpu power readings", "average power draw"),
            ("gpu power readings", "power draw"),
            ("power readings", "average power draw"),
            ("power readings", "power draw"),
            ("gpu power readings", "instantaneous power draw"),
        ],
        "power_limit": [
            (readings, name)
            for readings in ("gpu power readings", "power readings")
            for name in ("enforced power limit", "current power limit", "power limit")
        ],
        "pcie_tx": [("pci", "tx throughput")],
        "pcie_rx": [("pci", "rx throughput")],
        "temperature": [("temperature", "gpu current temp")],
        "sm_clock": [("clocks", "sm")],
        "memory_clock": [("clocks", "memory")],
    },
    throttle=[("clocks event reasons",), ("clocks throttle reasons",)],
    bits={
        "idle": "gpu_idle",
        "applications clocks setting": "applications_clocks_setting",
        "sw power cap": "sw_power_cap",
        "hw slowdown": "hw_slowdown",
        "hw thermal slowdown": "hw_thermal_slowdown",
        "hw power brake slowdown": "hw_power_brake_slowdown",
        "sync boost": "sync_boost",
        "sw thermal slowdown": "sw_thermal_slowdown",
        "display clock setting": "display_clocks_setting",
    },
    ecc_volatile=("ecc errors", "volatile"),
    ecc_names=[
        ("dram uncorrectable", "sram uncorrectable parity", "sram uncorrectable sec-ded"),
        ("dram uncorrectable", "sram uncorrectable"),
        ("double bit/total",),
    ],
    mig={
        "index": [("index",)],
        "gi": [("gpu instance id",)],
        "ci": [("compute instance id",)],
        "uuid": [("mig uuid",), ("uuid",), ("gpu uuid",)],
        "memory_total": [("shared fb memory usage", "total"), ("fb memory usage", "total")],
        "memory_used": [("shared fb memory usage", "used"), ("fb memory usage", "used")],
        "memory_reserved": [("shared fb memory usage", "reserved"), ("fb memory usage", "reserved")],
        "sm_count": [("device attributes", "shared", "multiprocessor count")],
    },
)


def card_of(gpu: Branch, where: CardMap) -> CardReading:
    """The cells of a card; its MIG devices and processes are filled by the form's reader."""
    card = CardReading(line=gpu.line)
    for name, paths in where.cells.items():
        text = gpu.text_at(*paths)
        if text is not None:
            card.cells[name] = text
    _ecc(gpu, where, card)
    for path in where.throttle:
        parent = gpu.at(path)
        if parent is None:
            continue
        if not parent.branches and parent.text.strip():
            card.cells["throttle"] = parent.text
        for branch in (each for top in parent.branches for each in (top, *top.branches)):
            if branch.name in where.bits:
                card.throttle_bits[where.bits[branch.name]] = branch.text
        break
    return card


def mig_of(branch: Branch, where: CardMap) -> MigReading:
    """One MIG device."""
    cells = {name: branch.text_at(*paths) for name, paths in where.mig.items()}
    return MigReading(
        line=branch.line,
        index=cells["index"],
        gi=cells["gi"],
        ci=cells["ci"],
        unit_id=values.mig_uuid(cells["uuid"]),
        memory_total=cells["memory_total"],
        memory_used=cells["memory_used"],
        memory_reserved=cells["memory_reserved"],
        sm_count=cells["sm_count"],
    )


def _ecc(gpu: Branch, where: CardMap, card: CardReading) -> None:
    volatile = gpu.at(where.ecc_volatile)
    if volatile is None:
        return
    if not volatile.branches and volatile.text.strip():
        card.cells["ecc"] = volatile.text
        return
    for names in where.ecc_names:
        parts = [volatile.text_at(tuple(name.split("/"))) for name in names]
        if all(part is not None for part in parts):
            card.ecc_parts = [part for part in parts if part is not None]
            return
