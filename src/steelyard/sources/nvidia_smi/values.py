"""Cells of nvidia-smi as numbers with units, or Unknown with the tool's own words as the reason.

Every form prints the same cells (``11091 MiB``, ``26MiB``, ``100 %``, ``432.21 W``, ``[N/A]``, ``ERR!``, ``GPU is lost``); this is the one
place that reads them. The trick to know: None means "the text does not name this", ``Unknown`` means "it names it and cannot say",
and neither ever becomes 0. An Unknown whose reason starts with ``UNREADABLE`` or ``ABOVE_LIMIT`` also deserves a finding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from steelyard.primitives.unknown import Unknown
from steelyard.sources.shared.physical_limits import PCIE_BYTES_MAX

UNREADABLE: Final = "unreadable"
ABOVE_LIMIT: Final = "above the physical limit"
RATIO_SLACK: Final = 1.05
MEMORY_LIMIT_MIB: Final = 2**26  # 64 TiB: above any board or superchip
PID_LIMIT: Final = 2**32

_NUMBER: Final = re.compile(r"([+-]?[0-9]{1,20}(?:\.[0-9]{1,9})?)\s*([A-Za-z%/]{0,5})\Z")
_HEX: Final = re.compile(r"0x([0-9a-fA-F]{1,16})\Z")
_UUID: Final = re.compile(r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.IGNORECASE)
_MIG_UUID: Final = re.compile(r"MIG-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.IGNORECASE)
_OLD_MIG_UUID: Final = re.compile(r"MIG-(GPU-[0-9a-f-]{36})/([0-9]{1,4})/([0-9]{1,4})\Z", re.IGNORECASE)
_ZEROS: Final = re.compile(r"[0-]*\Z")

MISSING: Final = frozenset(
    {
        "",
        "-",
        "n/a",
        "na",
        "none",
        "err!",
        "not supported",
        "not available",
        "not found",
        "unknown",
        "unknown error",
        "gpu is lost",
        "gpu requires reset",
        "insufficient permissions",
        "requested functionality has been deprecated",
        "deprecated",
        "no data",
        "timeout",
        "not applicable",
        "in use",
        "driver not loaded",
        "disabled",
        "off",
        "on",
    }
)
"""How the tool says that it cannot say, lower case and without brackets. ``On`` and ``Off`` stand in the table's ECC cell."""

MEMORY_UNITS: Final[Mapping[str, float]] = {"mib": 1, "mb": 1, "gib": 1024, "gb": 1024, "kib": 1 / 1024, "kb": 1 / 1024}
"""MiB per unit; the tool's MB was always 2^20 bytes."""

TRAFFIC_UNITS: Final[Mapping[str, float]] = {
    "kb/s": 2**10,
    "mb/s": 2**20,
    "gb/s": 2**30,
    "kib/s": 2**10,
    "mib/s": 2**20,
}

Cell = float | Unknown | None
Whole = int | Unknown | None


def bare(text: str) -> str:
    """The cell without blanks and brackets: ``[N/A]`` and ``N/A`` are the same words."""
    return text.strip().strip("[]").strip()


def is_missing(text: str) -> bool:
    """Whether the cell says that there is no value."""
    return bare(text).casefold() in MISSING


def words_or_none(text: str | None) -> str | None:
    """The cell as text, or None where it is absent or says that there is none."""
    return None if text is None or is_missing(text) else bare(text)


def is_lost(text: str | None) -> bool:
    """Whether the cell says that the card is gone."""
    return text is not None and bare(text).casefold().startswith("gpu is lost")


def needs_reset(text: str | None) -> bool:
    """Whether the cell says that the card must be reset first."""
    return text is not None and bare(text).casefold() in ("gpu requires reset", "gpu requires a reset")


def number(text: str | None, units: Mapping[str, float], limit: float) -> Cell:
    """The number in the cell times the factor of its unit (``""`` = no unit, where that is allowed); ``limit`` is the largest possible."""
    if text is None:
        return None
    if is_missing(text):
        return Unknown(text.strip() or "blank")
    match = _NUMBER.match(bare(text))
    if match is None or match.group(2).casefold() not in units:
        return Unknown(f"{UNREADABLE}: {bare(text)[:60]!r}")
    value = float(match.group(1)) * units[match.group(2).casefold()]
    if value > limit:
        return Unknown(f"{ABOVE_LIMIT}: {bare(text)[:60]}")
    return value


def memory_mib(text: str | None, limit_mib: float | None = None) -> Whole:
    """Memory in whole MiB (a fraction is cut); ``limit_mib``: the card's own memory where it is known."""
    value = number(text, MEMORY_UNITS, MEMORY_LIMIT_MIB)
    if isinstance(value, float):
        if value < 0:
            return Unknown(f"{UNREADABLE}: negative memory {bare(text or '')[:60]}")
        if limit_mib is not None and value > limit_mib:
            return Unknown(f"{ABOVE_LIMIT}: {bare(text or '')[:60]} of {limit_mib:.0f} MiB")
        return int(value)
    return value


def ratio(text: str | None) -> Cell:
    """A percentage as 0 to 1. Above 1.05 it is no ratio; between, the caller counts it as 1 with a finding."""
    value = number(text, {"%": 0.01, "": 0.01}, RATIO_SLACK)
    if isinstance(value, float):
        return Unknown(f"{UNREADABLE}: negative ratio {bare(text or '')[:60]}") if value < 0 else round(value, 6)
    return value


def watts(text: str | None) -> Cell:
    """Power in W."""
    return number(text, {"w": 1, "mw": 0.001, "": 1}, 20_000)


def bytes_per_second(text: str | None) -> Whole:
    """Traffic in bytes per second; the tool's KB is 2^10 bytes, as its MB is 2^20."""
    return _whole(number(text, TRAFFIC_UNITS, PCIE_BYTES_MAX))


def celsius(text: str | None) -> Cell:
    """Temperature in degrees Celsius."""
    return number(text, {"c": 1, "": 1}, 200)


def megahertz(text: str | None) -> Whole:
    """A clock in MHz."""
    return _whole(number(text, {"mhz": 1, "": 1}, 20_000))


def count(text: str | None, limit: int = 2**53) -> Whole:
    """A whole number without a unit."""
    return _whole(number(text, {"": 1}, limit))


def bit_mask(text: str | None) -> Whole:
    """A hexadecimal mask such as ``0x0000000000000004``; the all-ones masks of a failed query are Unknown."""
    if text is None:
        return None
    if is_missing(text):
        return Unknown(text.strip() or "blank")
    match = _HEX.match(bare(text))
    if match is None:
        return Unknown(f"{UNREADABLE}: {bare(text)[:60]!r}")
    value = int(match.group(1), 16)
    return value if value < 2**62 else Unknown(f"{ABOVE_LIMIT}: {bare(text)[:60]}")


def gpu_uuid(text: str | None) -> str | None:
    """The UUID of a card in its one spelling (``GPU-`` and lower case), or None where the cell is none."""
    cell = bare(text) if text is not None else ""
    return f"GPU-{cell[4:].lower()}" if _UUID.match(cell) else None


def mig_uuid(text: str | None) -> str | None:
    """The UUID of a MIG device in its one spelling, or None where the cell is none."""
    cell = bare(text) if text is not None else ""
    return f"MIG-{cell[4:].lower()}" if _MIG_UUID.match(cell) else None


def old_mig_id(text: str) -> tuple[str, int, int] | None:
    """(card, GI, CI) of the form that drivers before R470 print: ``MIG-GPU-<uuid>/<gi>/<ci>``; None for any other text."""
    match = _OLD_MIG_UUID.match(bare(text))
    parent = gpu_uuid(match.group(1)) if match else None
    return (parent, int(match.group(2)), int(match.group(3))) if match and parent else None


def is_masked(uuid: str) -> bool:
    """Whether the UUID is all zeros: masked before it was published, so it does not tell cards apart."""
    return _ZEROS.match(uuid[4:]) is not None


def _whole(value: Cell) -> Whole:
    if isinstance(value, float):
        return int(value) if value >= 0 else Unknown(f"{UNREADABLE}: negative {value:g}")
    return value
