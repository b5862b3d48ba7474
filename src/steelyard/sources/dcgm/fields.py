"""Fields of DCGM by number, under every name they were exported with, and which column of a sample each fills.

Release 4.6.0 renamed most fields and kept their numbers; an exporter prints the name that its CSV spells. The trick to know: only numbers
are compared here, so 1001 is never called utilisation of the card (that is 203) whatever a dashboard calls it.
Sceptic's command: ``dcgmi dmon -l`` lists names and numbers.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from steelyard.primitives.unknown import Unknown
from steelyard.sources.shared.physical_limits import (
    MEMORY_MIB_MAX,
    NVLINK_BYTES_MAX,
    PCIE_BYTES_MAX,
    POWER_WATTS_MAX,
    RATIO_MAX,
)

PREFIX: Final = "DCGM_FI_"
XID: Final = 230
XID_COUNT: Final = "DCGM_EXP_XID_ERRORS_COUNT"
GPU_UTIL: Final = 203
FB_USED: Final = 252
FB_TOTAL: Final = 250
FB_PARTS: Final = (251, 252, 253)
GR_ENGINE: Final = 1001
POWER: Final = 155
LIMIT_IN_FORCE: Final = 164
CLOCK_EVENTS: Final = "DCGM_EXP_CLOCK_EVENTS_COUNT"

PERCENT_SLACK: Final = 105.0
BLANK: Final = "blank value of DCGM"
NOT_A_NUMBER: Final = "NaN"
OUT_OF_RANGE: Final = "outside its physical range"
PROF_SUSPECT: Final = "prof_suspect"
WHILE_BUSY: Final = "while 203 reads"
"""In the reason of a counter that died: the card has a finding of its own for all of them."""
A_COUNTER: Final = "exported as a counter: a total of bytes is no rate"

_INT64_BLANK: Final = float(2**63 - 16)
_INT32_BLANKS: Final = (2_147_483_632, 2_147_483_647)
_FP64_BLANKS: Final = (2**47, 2**47 + 15)


@dataclass(frozen=True, slots=True)
class Gauge:
    """A field that fills a column. ``largest``: the physical limit in the exported unit. ``per_instance``: under MIG each instance has its
    own; else every instance repeats the board's. ``is_prof``: one of the profiling counters. ``is_traffic``: one of them that counts bytes per
    second; where an exporter declares it a counter, its value is no rate."""

    number: int
    column: str
    largest: float
    scale: float = 1.0
    whole: bool = False
    per_instance: bool = False
    is_prof: bool = False
    is_traffic: bool = False


GAUGES: Final = {
    gauge.number: gauge
    for gauge in (
        Gauge(100, "sm_clock_mhz", 20_000, whole=True),
        Gauge(101, "memory_clock_mhz", 20_000, whole=True),
        Gauge(112, "throttle_reasons", 2**53, whole=True),
        Gauge(150, "temperature_celsius", 200),
        Gauge(155, "power_watts", POWER_WATTS_MAX),
        Gauge(157, "power_watts", POWER_WATTS_MAX),
        Gauge(160, "power_limit_watts", POWER_WATTS_MAX),
        Gauge(164, "power_limit_watts", POWER_WATTS_MAX),
        Gauge(203, "util_gpu_ratio", PERCENT_SLACK, 0.01),
        Gauge(204, "util_memory_ratio", PERCENT_SLACK, 0.01),
        Gauge(250, "memory_total_mib", MEMORY_MIB_MAX, whole=True, per_instance=True),
        Gauge(251, "memory_free_mib", MEMORY_MIB_MAX, whole=True, per_instance=True),
        Gauge(252, "memory_used_mib", MEMORY_MIB_MAX, whole=True, per_instance=True),
        Gauge(253, "memory_reserved_mib", MEMORY_MIB_MAX, whole=True, per_instance=True),
        Gauge(311, "ecc_uncorrected", 2**53, whole=True),
        Gauge(1001, "gr_active_ratio", RATIO_MAX, per_instance=True, is_prof=True),
        Gauge(1002, "sm_active_ratio", RATIO_MAX, per_instance=True, is_prof=True),
        Gauge(1003, "sm_occupancy_ratio", RATIO_MAX, per_instance=True, is_prof=True),
        Gauge(1004, "tensor_active_ratio", RATIO_MAX, per_instance=True, is_prof=True),
        Gauge(1005, "dram_active_ratio", RATIO_MAX, per_instance=True, is_prof=True),
        Gauge(1009, "pcie_tx_bytes_per_second", PCIE_BYTES_MAX, whole=True, is_traffic=True),
        Gauge(1010, "pcie_rx_bytes_per_second", PCIE_BYTES_MAX, whole=True, is_traffic=True),
        Gauge(1011, "nvlink_tx_bytes_per_second", NVLINK_BYTES_MAX, whole=True, is_traffic=True),
        Gauge(1012, "nvlink_rx_bytes_per_second", NVLINK_BYTES_MAX, whole=True, is_traffic=True),
    )
}
"""What is read, by number. 155 (averaged power) goes before 157 (instantaneous), and 164 (the limit in force) before 160 (the limit asked
for) where both are exported."""

HELD_DOWN_NS: Final = {
    240: "power_violation_ns",
    241: "thermal_violation_ns",
    242: "sync_boost_violation_ns",
    243: "board_limit_violation_ns",
    244: "low_util_violation_ns",
    245: "reliability_violation_ns",
    1420: "clocks_event_sw_power_cap_ns",
    1421: "clocks_event_sync_boost_ns",
    1422: "clocks_event_sw_thermal_slowdown_ns",
    1423: "clocks_event_hw_thermal_slowdown_ns",
    1424: "clocks_event_hw_power_brake_slowdown_ns",
}
"""Nanoseconds in which the clocks were held down, counted since the driver was loaded, by the names that the driver's own counters have."""

_NO_MEAN: Final = frozenset({"throttle_reasons", "ecc_uncorrected"})
PROF_COLUMNS: Final = tuple(gauge.column for gauge in GAUGES.values() if gauge.is_prof)
TRAFFIC_COLUMNS: Final = tuple(gauge.column for gauge in GAUGES.values() if gauge.is_traffic)


@cache
def field_numbers() -> dict[str, int]:
    """Number by name, current and former, in upper case and without the prefix."""
    table = files("steelyard.sources.dcgm").joinpath("fields.csv").read_text(encoding="utf-8")
    numbers: dict[str, int] = {}
    for row in csv.DictReader(table.splitlines()):
        for name in (row["name"], *row["former_names"].split()):
            numbers.setdefault(name, int(row["number"]))
    return numbers


def field_number(name: str) -> int | None:
    """The number behind an exported name (``DCGM_FI_...``, or lower case as 1.x printed it); None where no release has such a field."""
    upper = name.upper()
    return field_numbers().get(upper[len(PREFIX) :]) if upper.startswith(PREFIX) else None


@cache
def field_names(number: int) -> tuple[str, ...]:
    """The names of a field with their prefix, the current one first; none where no release has it."""
    return tuple(f"{PREFIX}{name}" for name, known in field_numbers().items() if known == number)


def exported_names() -> frozenset[str]:
    """The names, current and former, under which the fields that are read are exported; the windowed counts with them."""
    read = {*GAUGES, *HELD_DOWN_NS, XID}
    names = {f"{PREFIX}{name}" for name, number in field_numbers().items() if number in read}
    return frozenset({*names, *(name.lower() for name in names), XID_COUNT, CLOCK_EVENTS})


@cache
def averaged_names() -> frozenset[str]:
    """The names of the fields of which the mean over a minute says more than the last sample: ratios, power, temperature and clocks. Of
    memory the last sample is taken, because its parts then still add up; masks, counters and the Xid gauge have no mean."""
    read = {
        gauge.number for gauge in GAUGES.values() if not gauge.column.endswith("_mib") and gauge.column not in _NO_MEAN
    }
    names = {f"{PREFIX}{name}" for name, number in field_numbers().items() if number in read}
    return frozenset({*names, *(name.lower() for name in names)})


def is_blank(value: float) -> bool:
    """Whether a value is one of DCGM's marks for "none" (not found, not supported, not permitted), which old exporters print as numbers."""
    return (
        value >= _INT64_BLANK
        or _INT32_BLANKS[0] <= value <= _INT32_BLANKS[1]
        or _FP64_BLANKS[0] <= value <= _FP64_BLANKS[1]
    )


def read_gauge(gauge: Gauge, value: float) -> float | Unknown:
    """The value in the column's unit (a ratio may still lie in (1, 1.05]), or Unknown with the reason."""
    if value != value:
        return Unknown(NOT_A_NUMBER)
    if is_blank(value) and value > gauge.largest:
        return Unknown(BLANK)
    if gauge.is_prof and value > gauge.largest:
        return Unknown(f"{PROF_SUSPECT}: {value:g} is above 1.05")
    if not 0 <= value <= gauge.largest:
        return Unknown(f"{OUT_OF_RANGE}: {value:g}")
    scaled = value * gauge.scale
    return float(int(scaled)) if gauge.whole else round(scaled, 6)
