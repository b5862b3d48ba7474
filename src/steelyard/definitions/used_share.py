"""Used share: how much of its unit a sample shows as used, and of the card where the unit is a part of it.

max(1002 SM_ACTIVE, 1005 DRAM_ACTIVE), because a healthy decode card is bound by its memory and 1002 alone would call it waste. Both are needed: one
of them alone says how much of the machine or of the bandwidth was used, not how much of the card. 1001 GR_ENGINE_ACTIVE and, where that is
not measured, 203 GPU_UTIL are upper bounds; each stands apart and no two are ever added up. The counters of a GPU instance are
relative to the instance: what it used of its card is that times the instance's share of the card.

Sceptic's command: ``dcgmi dmon -e 203,1001,1002,1005``.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1"
FORMULA: Final = (
    "used share = max(1002 SM_ACTIVE, 1005 DRAM_ACTIVE) x share of the unit on its card; 1001, else 203, is an upper bound; "
    "different bases are never summed; figures of one instant that contradict each other are none"
)

PPM: Final = 1_000_000
RATIO_MAX: Final = 1.05
"""Above it a ratio is not known; between 1 and this it is 1."""

RATIO_APART_PPM: Final = 150_000
MEMORY_APART_MIB: Final = 600
"""So far two figures of one unit and instant may lie apart: two instruments count alike, not the same (a driver's own memory, when a counter was
read). As much as over-use tolerates. Memory also a twentieth of the larger."""


def ratio_ppm(ratio: float | None) -> int | None:
    """A measured ratio in parts per million, a half rounded up. None: not known, no number, or beyond its physical limits."""
    if ratio is None or ratio != ratio or not 0 <= ratio <= RATIO_MAX:
        return None
    scaled = min(ratio, 1.0) * PPM
    whole = int(scaled)
    return whole + (scaled - whole >= 0.5)


def used_share_ppm(sm_ppm: int | None, dram_ppm: int | None) -> int | None:
    """What is used of a unit, parts per million of it. None where either counter is not known."""
    return None if sm_ppm is None or dram_ppm is None else max(sm_ppm, dram_ppm)


def of_card_ppm(part_ppm: int | None, share_ppm: int | None) -> int | None:
    """A part of a unit as a part of its card, floored. None where the part or the unit's share of the card is not known."""
    return None if part_ppm is None or share_ppm is None else part_ppm * share_ppm // PPM


def agreed_ppm(least_ppm: int | None, most_ppm: int | None) -> int | None:
    """What several samples of one unit and instant tell of a ratio: the largest. None where the least and the largest contradict each other."""
    return None if least_ppm is None or most_ppm is None or most_ppm - least_ppm > RATIO_APART_PPM else most_ppm


def agreed_mib(least_mib: int | None, most_mib: int | None) -> int | None:
    """The same of memory."""
    if least_mib is None or most_mib is None:
        return None
    return most_mib if most_mib - least_mib <= max(MEMORY_APART_MIB, most_mib // 20) else None
