"""What is known of use: of a pod's lines, each basis apart, and of whole cards.

Q2 shows these amounts. The trick to know: a card that several pods hold has a use and none of them has one, so the two unknowns, "not
measured" and "measured for all holders together", are told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final, TypeAlias

from steelyard.answers.contract import Figure, Value
from steelyard.answers.lines import Grains, Line
from steelyard.answers.reading import Reading
from steelyard.definitions import used_share
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US
from steelyard.primitives.unknown import Unknown

PlaceKey: TypeAlias = "tuple[str, str | None]"
"""Cluster and UUID of a card; None = a card that is not known."""

_USED: Final = f"used_share {used_share.VERSION}"
METHODS: Final = {
    "gpu_hours_used": ("GPU-h", f"{_USED}: max(1002, 1005) x share of the unit x time, over observed time"),
    "gpu_hours_sm_active": ("GPU-h", f"{_USED}: 1002 SM_ACTIVE x share of the unit x time, over observed time"),
    "gpu_hours_dram_active": ("GPU-h", f"{_USED}: 1005 DRAM_ACTIVE x share of the unit x time, over observed time"),
    "gpu_hours_engine_upper": (
        "GPU-h",
        f"{_USED}: 1001 GR_ENGINE_ACTIVE x share of the unit x time, an upper bound of used, over observed time",
    ),
    "gpu_hours_used_upper": ("GPU-h", "203 GPU_UTIL x time, an upper bound of 1001, over observed time"),
    "gpu_hours_waste": ("GPU-h", "granted - used, over the time in which used is known"),
}
"""Unit and method of the figures of use, but for memory."""
_USED_BASES: Final = ("max_sm_1002_dram_1005", "gr_engine_1001_upper_bound", "util_gpu_203_upper_bound")


def hours(amount_us: int) -> Fraction:
    """An amount in microseconds as hours, exactly."""
    return Fraction(amount_us, HOUR_US)


def why_not_used(lines: Iterable[Line]) -> str:
    """Why nothing is known of what these lines used of their cards."""
    if any(line.card_measured for line in lines):
        return _("what the card used is known for all its holders together only")
    return _("SM_ACTIVE (1002) and DRAM_ACTIVE (1005) were not measured")


def used_basis(lines: Iterable[Line]) -> Value:
    """What stands behind the use of the cards, best first; several where it is another for some: they are not added up."""
    found = {base for line in lines for base in line.bases}
    named = [base for base in _USED_BASES if base in found]
    return ", ".join(named) if named else Unknown(why_not_used(lines))


def waste(lines: Sequence[Line]) -> Value:
    """What the units of these lines had and did not use, over the time in which their use is known."""
    known = [line.used_of_us - line.used_us for line in lines if line.used_us is not None]
    return hours(sum(known)) if known else Unknown(why_not_used(lines))


def of_one_holder(field_name: str) -> str:
    """Why an amount of a field of the card is not known for a pod."""
    return _("no sample of {field} belongs to a single holder").format(field=field_name)


def known_hours(lines: Sequence[Line], name: str, otherwise: str) -> Value:
    """The sum in hours of what is known of an amount; Unknown(otherwise) where no line knows it."""
    known = [getattr(line, name) for line in lines if getattr(line, name) is not None]
    return hours(sum(known)) if known else Unknown(otherwise)


def observed(lines: Sequence[Line], name: str, otherwise: str) -> Value:
    """As ``known_hours``, with the ledger's own reason where it gives one."""
    return known_hours(lines, name, next((line.unknown_reason for line in lines if line.unknown_reason), otherwise))


_OF_CARDS: Final = (
    ("memory_used_device_mib_hours", "device", "memory_mib_us", "MiB-h", ""),
    ("memory_use_unattributed_mib_hours", "residual", "memory_mib_us", "MiB-h", ""),
    ("gpu_hours_used_device", "device", "used_gpu_us", "GPU-h", f"{_USED}: max(1002, 1005), "),
    ("gpu_hours_use_unattributed", "residual", "used_gpu_us", "GPU-h", f"{_USED}: max(1002, 1005), "),
)
"""Figures of whole cards: the path and the column of the usage ledger that each sums, its unit, and what it measures."""


def device_figures(reading: Reading, grains: Grains, cards: frozenset[PlaceKey] | None) -> list[Figure]:
    """What the cards report as a whole, and what no holder explains. ``cards`` None = all cards."""
    figures = []
    rows = reading.run("usage", from_us=grains.whole.start, to_us=grains.whole.end)
    if cards is not None:
        rows = [row for row in rows if (row["cluster"], row["device_uuid"]) in cards]
    which = "all cards" if cards is None else "the cards asked about, all their holders together, over the whole window"
    not_measured = _("SM_ACTIVE (1002) and DRAM_ACTIVE (1005) were not measured")
    for name, path, column, unit, measures in _OF_CARDS:
        of_path = [row for row in rows if row["path"] == path]
        known = [int(row[column]) for row in of_path if row[column] is not None]
        reason = next((row["unknown_reason"] for row in of_path if row["unknown_reason"]), None)
        otherwise = not_measured if of_path and unit == "GPU-h" else _("no card was sampled")
        value: Value = hours(sum(known)) if known else Unknown(reason or otherwise)
        coverage: float | Unknown = Unknown(_("how long the cards should have been sampled is not known"))
        method = f"usage ledger, path {path}, {measures}over observed time: {which}"
        figures.append(Figure(name, value, unit, method, coverage))
    return figures
