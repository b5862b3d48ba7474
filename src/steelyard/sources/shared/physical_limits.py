"""What no card can show: the largest figure of each measured column, and what becomes of a sample beyond it.

For samples that come as facts, from an agent: readers of text have the vendor's marks for "no figure" to tell apart first, and go by the same limits.
The trick to know: an impossible figure is not known, never cut to the limit, and everything else in its row stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.finding import Finding
from steelyard.facts.process_sample import ProcessSample
from steelyard.sources.shared.context import ReadContext

RATIO_MAX: Final = 1.05
MEMORY_MIB_MAX: Final = 2**26  # 64 TiB: above any board or superchip
POWER_WATTS_MAX: Final = 20_000
PCIE_BYTES_MAX: Final = 2**40  # per second; sixteen lanes of the seventh generation move a quarter of it
NVLINK_BYTES_MAX: Final = 2**43  # per second and direction, all links of a card

LIMITS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "memory_used_mib": MEMORY_MIB_MAX,
        "memory_total_mib": MEMORY_MIB_MAX,
        "memory_reserved_mib": MEMORY_MIB_MAX,
        "util_gpu_ratio": RATIO_MAX,
        "util_memory_ratio": RATIO_MAX,
        "gr_active_ratio": RATIO_MAX,
        "sm_active_ratio": RATIO_MAX,
        "dram_active_ratio": RATIO_MAX,
        "sm_occupancy_ratio": RATIO_MAX,
        "tensor_active_ratio": RATIO_MAX,
        "sm_ratio": RATIO_MAX,
        "memory_ratio": RATIO_MAX,
        "power_watts": POWER_WATTS_MAX,
        "power_limit_watts": POWER_WATTS_MAX,
        "pcie_tx_bytes_per_second": PCIE_BYTES_MAX,
        "pcie_rx_bytes_per_second": PCIE_BYTES_MAX,
        "nvlink_tx_bytes_per_second": NVLINK_BYTES_MAX,
        "nvlink_rx_bytes_per_second": NVLINK_BYTES_MAX,
    }
)
"""Column -> the largest figure, in the column's unit. The least is 0."""


def within_limits(fact: Fact, ctx: ReadContext, source: str) -> Iterator[Fact]:
    """The fact; a sample of a card or process without its impossible figures, each of which is a finding ``sample_above_physical_limit``. A ratio
    in (1, 1.05] counts as 1, with a finding ``ratio_above_one``."""
    if not isinstance(fact, DeviceSample | ProcessSample):
        yield fact
        return
    measured = {column: value for column in LIMITS if (value := getattr(fact, column, None)) is not None}
    beyond = {column: value for column, value in measured.items() if not 0 <= value <= LIMITS[column]}
    above = {
        column: value for column, value in measured.items() if column.endswith("_ratio") and 1 < value <= LIMITS[column]
    }
    reasons = {column: f"outside its physical range: {value:.6g}" for column, value in beyond.items()}
    if not above and not beyond:
        yield fact
        return
    unknown = _joined(fact.unknown, reasons) if reasons else fact.unknown
    yield msgspec.structs.replace(fact, unknown=unknown, **dict.fromkeys(beyond), **dict.fromkeys(above, 1.0))
    for column, value in above.items():
        yield ctx.finding(
            source,
            "ratio_above_one",
            f"{fact.TABLE} {fact.natural_key}: {column}",
            f"{column} is {value:g}; up to {RATIO_MAX:g} it counts as 1",
            evidence={"column": column, "value": value},
        )
    for column, reason in reasons.items():
        yield _finding(fact, ctx, source, column, reason)


def _finding(fact: Fact, ctx: ReadContext, source: str, column: str, reason: str) -> Finding:
    return ctx.finding(
        source,
        "sample_above_physical_limit",
        f"{fact.TABLE} {fact.natural_key}: {column}",
        f"{column} is {reason}; it is taken as not known",
        evidence={"column": column, "reason": reason},
    )


def _joined(unknown: str, reasons: Mapping[str, str]) -> str:
    """The JSON object of reasons with those added; one that cannot be read is replaced."""
    try:
        known = msgspec.json.decode(unknown, type=dict[str, str])
    except (msgspec.MsgspecError, RecursionError):
        known = {}
    return msgspec.json.encode({**known, **reasons}, order="sorted").decode()
