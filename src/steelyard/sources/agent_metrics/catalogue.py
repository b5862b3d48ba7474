"""Which column of which fact is which metric: the one table that the agent writes metrics by and that they are read back by.

Units are base units (bytes, hertz, seconds), as metrics have them; meanings are those of NVML, so of DCGM's fields, by the column's name. The
trick to know: a fact of words (an inventory, a grant, a status) is one metric ``..._info`` whose labels are its columns; a sample is one metric
per figure, and one more that says that it was taken, so that a sample of nothing but unknowns is not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.facts.base import Fact, columns_of
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.grant import Grant
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.unit import Unit

SOURCE: Final = "agent"
OWN_PREFIXES: Final = ("steelyard_gpu_", "steelyard_agent_")
MIB: Final = 1 << 20
_COMMON: Final = frozenset({"cluster", "source", "natural_key", "occurred_at", "observed_at"})
LABELS: Final[Mapping[str, str]] = {
    "device_uuid": "uuid",
    "node": "node_name",
    "namespace": "pod_namespace",
    "pod": "pod_name",
    "container": "container_name",
}
"""Column -> label, where a label of the column's name would clash with one that a scrape adds."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One column as a metric: ``value`` of the metric = the column times ``times``, divided by ``over``."""

    metric: str
    column: str
    times: int = 1
    over: int = 1
    help: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One class of facts. ``presence``: the metric that says that there is such a fact, with all ``labels`` (columns). ``figures``: the others,
    with the labels ``keys``. ``unknown``: the metric of reasons, None where the class has none. ``key``: the natural key of a fact by its
    columns, None: it is a label itself. ``value``: the column that ``presence`` carries as its value (else it is 1)."""

    fact: type[Fact]
    presence: str
    labels: tuple[str, ...]
    help: str
    keys: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    unknown: str | None = None
    key: Callable[[Mapping[str, Any]], str] | None = None
    value: str | None = None


def _words(fact: type[Fact], *without: str) -> tuple[str, ...]:
    return tuple(
        column.name for column in columns_of(fact) if column.name not in _COMMON and column.name not in without
    )


def _device_key(columns: Mapping[str, Any]) -> str:
    gi = columns.get("gi")
    return str(columns["device_uuid"]) + (f"/gi{gi}" if gi is not None else "")


def _process_key(columns: Mapping[str, Any]) -> str:
    ci = columns.get("ci")
    place = f"/ci{ci}" if columns.get("gi") is not None and ci is not None else ""
    return f"{_device_key(columns)}{place}/{columns['pid']}"


_DEVICE_FIGURES: Final = (
    Figure(
        "steelyard_gpu_memory_used_bytes",
        "memory_used_mib",
        MIB,
        help="Memory in use, without what the driver reserves.",
    ),
    Figure("steelyard_gpu_memory_total_bytes", "memory_total_mib", MIB, help="Memory of the card or instance."),
    Figure("steelyard_gpu_memory_reserved_bytes", "memory_reserved_mib", MIB, help="Memory that the driver reserves."),
    Figure(
        "steelyard_gpu_busy_ratio", "util_gpu_ratio", help="Share of time with a kernel running (field 203), 0 to 1."
    ),
    Figure("steelyard_gpu_memory_busy_ratio", "util_memory_ratio", help="Share of time with memory read or written."),
    Figure(
        "steelyard_gpu_engine_active_ratio", "gr_active_ratio", help="Graphics and compute engine active (field 1001)."
    ),
    Figure("steelyard_gpu_sm_active_ratio", "sm_active_ratio", help="SMs with a warp resident (field 1002)."),
    Figure("steelyard_gpu_dram_active_ratio", "dram_active_ratio", help="Memory interface active (field 1005)."),
    Figure(
        "steelyard_gpu_sm_occupancy_ratio", "sm_occupancy_ratio", help="Warps resident of those possible (field 1003)."
    ),
    Figure("steelyard_gpu_tensor_active_ratio", "tensor_active_ratio", help="Tensor cores active (field 1004)."),
    Figure(
        "steelyard_gpu_pcie_tx_bytes_per_second",
        "pcie_tx_bytes_per_second",
        help="From the card over PCIe (field 1009).",
    ),
    Figure(
        "steelyard_gpu_pcie_rx_bytes_per_second", "pcie_rx_bytes_per_second", help="To the card over PCIe (field 1010)."
    ),
    Figure(
        "steelyard_gpu_nvlink_tx_bytes_per_second",
        "nvlink_tx_bytes_per_second",
        help="From the card over NVLink (1011).",
    ),
    Figure(
        "steelyard_gpu_nvlink_rx_bytes_per_second", "nvlink_rx_bytes_per_second", help="To the card over NVLink (1012)."
    ),
    Figure("steelyard_gpu_power_watts", "power_watts", help="Power of the board."),
    Figure("steelyard_gpu_power_limit_watts", "power_limit_watts", help="The power limit in force."),
    Figure("steelyard_gpu_temperature_celsius", "temperature_celsius", help="Temperature of the card."),
    Figure("steelyard_gpu_sm_clock_hertz", "sm_clock_mhz", 1_000_000, help="Clock of the SMs."),
    Figure("steelyard_gpu_memory_clock_hertz", "memory_clock_mhz", 1_000_000, help="Clock of the memory."),
    Figure(
        "steelyard_gpu_throttle_reasons",
        "throttle_reasons",
        help="Why clocks are held down, as a bit mask (field 112).",
    ),
    Figure(
        "steelyard_gpu_ecc_uncorrected",
        "ecc_uncorrected",
        help="Uncorrected memory errors since the driver was loaded.",
    ),
    Figure("steelyard_gpu_sample_seconds", "interval_us", 1, 1_000_000, "The stretch that a sample stands for."),
)
_PROCESS_FIGURES: Final = (
    Figure("steelyard_gpu_process_memory_used_bytes", "memory_used_mib", MIB, help="Memory that a process holds."),
    Figure("steelyard_gpu_process_sm_ratio", "sm_ratio", help="SMs that a process used, of the whole card, 0 to 1."),
    Figure("steelyard_gpu_process_memory_ratio", "memory_ratio", help="Memory interface that a process used, 0 to 1."),
    Figure(
        "steelyard_gpu_process_sample_seconds", "interval_us", 1, 1_000_000, "The stretch that a sample stands for."
    ),
)
FAMILIES: Final[tuple[Family, ...]] = (
    Family(Device, "steelyard_gpu_info", _words(Device), "A card of this node: the labels say what it is."),
    Family(
        Unit, "steelyard_gpu_unit_info", _words(Unit), "A part of a card that can be held: a MIG instance, a replica."
    ),
    Family(Grant, "steelyard_gpu_grant_info", _words(Grant), "A device that the kubelet gave to a container."),
    Family(
        DeviceSample,
        "steelyard_gpu_sampled",
        ("device_uuid", "gi", "confidence"),
        "A card or GPU instance was sampled.",
        ("device_uuid", "gi"),
        _DEVICE_FIGURES,
        "steelyard_gpu_unknown",
        _device_key,
    ),
    Family(
        ProcessSample,
        "steelyard_gpu_process_sampled",
        ("device_uuid", "gi", "ci", "pid", "process_name", "process_type", "pod_uid"),
        "A process was on a card. pod_uid is there where its cgroup proves it.",
        ("device_uuid", "gi", "ci", "pid"),
        _PROCESS_FIGURES,
        "steelyard_gpu_process_unknown",
        _process_key,
    ),
    Family(
        MetricSample,
        "steelyard_gpu_counter",
        _words(MetricSample, "value"),
        "A counter of the driver's, by its own name.",
        value="value",
    ),
    Family(
        SourceStatus,
        "steelyard_agent_source_info",
        _words(SourceStatus),
        "What this agent looked at, and how that went.",
    ),
)
BY_METRIC: Final[Mapping[str, tuple[Family, Figure | None]]] = {
    **{family.presence: (family, None) for family in FAMILIES},
    **{family.unknown: (family, None) for family in FAMILIES if family.unknown is not None},
    **{figure.metric: (family, figure) for family in FAMILIES for figure in family.figures},
}
AGENT_METRICS: Final = frozenset(BY_METRIC)
"""Every metric that is read. What else has one of ``OWN_PREFIXES`` is about the agent itself, and is passed over."""


def label_of(column: str) -> str:
    """The label of a column."""
    return LABELS.get(column, column)
