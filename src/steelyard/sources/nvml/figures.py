"""Numbers of NVML in the units of facts, or Unknown. The trick to know: all ones means "not available", and a figure beyond its physical
limit is not cut down to it but not known."""

from __future__ import annotations

import math
from typing import Final

from steelyard.primitives.unknown import Unknown
from steelyard.sources.shared.device_driver import Figure

NOT_AVAILABLE: Final = "not available"
ABOVE_LIMIT: Final = "above the physical limit"
MIB: Final = 2**20
MEMORY_LIMIT_BYTES: Final = 2**46
ALL_ONES_32: Final = 2**32 - 1
ALL_ONES_64: Final = 2**64 - 1
BLANK_64: Final = 2**63 - 16
"""From here on a 64-bit figure is one of the vendor's ways to say that there is none."""
RATIO_SLACK: Final = 1.05
TRAFFIC_LIMIT_BYTES: Final = 2**43
"""Per second; more than all links of any card carry."""


def memory_mib(count_bytes: int | Unknown | None, limit_mib: Figure = None) -> int | Unknown | None:
    """Bytes as whole MiB; None is how the binding spells 2^64 - 1. limit_mib: the card's memory where it is known."""
    if isinstance(count_bytes, Unknown):
        return count_bytes
    if count_bytes is None or count_bytes >= BLANK_64:
        return Unknown(NOT_AVAILABLE)
    mib = count_bytes // MIB
    if count_bytes > MEMORY_LIMIT_BYTES or (isinstance(limit_mib, int) and mib > limit_mib):
        return Unknown(f"{ABOVE_LIMIT}: {mib} MiB" + (f" of {limit_mib}" if isinstance(limit_mib, int) else ""))
    return mib


def ratio(percent: float | Unknown | None) -> float | Unknown | None:
    """Percent as 0 to 1; between 1 and 1.05 as it is (the ledger counts it as 1), above or below the range it is not known."""
    if percent is None or isinstance(percent, Unknown):
        return percent
    if percent == ALL_ONES_32:
        return Unknown(NOT_AVAILABLE)
    if not math.isfinite(percent) or percent < 0 or percent > RATIO_SLACK * 100:
        return Unknown(f"{ABOVE_LIMIT}: {percent:g} %")
    return round(percent / 100, 6)


def whole(value: int | Unknown | None, limit: int) -> int | Unknown | None:
    """A whole number of at most ``limit``."""
    if value is None or isinstance(value, Unknown):
        return value
    if value in (ALL_ONES_32, ALL_ONES_64) or value >= BLANK_64:
        return Unknown(NOT_AVAILABLE)
    return value if value <= limit else Unknown(f"{ABOVE_LIMIT}: {value}")


def watts(milliwatts: int | Unknown | None) -> float | Unknown | None:
    """Milliwatts as W."""
    value = whole(milliwatts, 20_000_000)
    return value / 1_000 if isinstance(value, int) else value


def bytes_per_second(mib_per_second: float | Unknown | None) -> int | Unknown | None:
    """MiB per second, as GPM counts traffic, in bytes."""
    if mib_per_second is None or isinstance(mib_per_second, Unknown):
        return mib_per_second
    if mib_per_second == ALL_ONES_32 or not math.isfinite(mib_per_second):
        return Unknown(NOT_AVAILABLE)
    if not 0 <= mib_per_second * MIB <= TRAFFIC_LIMIT_BYTES:
        return Unknown(f"{ABOVE_LIMIT}: {mib_per_second:g} MiB/s")
    return int(mib_per_second * MIB)
