"""The share of a grant on its physical card, in parts per million: the dominant share, the default policy.

Ledgers call the macros of ``share.sql`` per row, everybody else these functions; a property test holds both together. The trick
to know: floor first, then take the largest, gives the same as the floor of the largest, so every formula stays in integers. Several
containers on one card are summed in memory and cores *before* a share is taken; several cards are floored each, then multiplied.
"""

from __future__ import annotations

from typing import Final

from steelyard.primitives.unknown import Unknown

VERSION: Final = "1"
FORMULA: Final = (
    "dominant share, ppm, floored: vGPU max(memory / physical memory, cores / 100); MIG max(compute slices, memory slices); "
    "replica 1 / replicas; DRA the largest consumed counter; whole card 1"
)

WHOLE_PPM: Final = 1_000_000
"""A whole card."""

QUANTITY_MAX: Final = 1_000_000
MEMORY_MIB_MAX: Final = 100_000_000
CORES_PERCENT_MAX: Final = 100_000
"""Beyond these a figure is no card's: 100 TB of one grant, a thousand cards' cores on one card."""

_PPM_PER_PERCENT: Final = 10_000


def plausible_grant(
    quantity: int, consumers: int, memory_mib: int | None, cores_percent: int | None, share_ppm: int | None
) -> bool:
    """Whether the figures of a grant can be those of cards at all, and are small enough to be summed in 64 bits."""
    return (
        0 <= quantity <= QUANTITY_MAX
        and 0 <= consumers <= QUANTITY_MAX
        and 0 <= (memory_mib or 0) * max(1, quantity) <= MEMORY_MIB_MAX
        and 0 <= (cores_percent or 0) <= CORES_PERCENT_MAX
        and 0 <= (share_ppm or 0) <= CORES_PERCENT_MAX * _PPM_PER_PERCENT
    )


def share_vgpu_ppm(memory_mib: int | None, physical_memory_mib: int | None, cores_percent: int | None) -> int | Unknown:
    """max(memory granted / physical memory, cores granted / 100) of one card.

    Cores of 0 or None are no core reservation: memory decides. A grant that states no memory is weighed by its cores. Unknown where
    memory is granted on a card whose physical memory is not known, or where neither is stated: see ``share_at_least_ppm``.
    More than a whole card is possible (scaled memory) and is not cut here: the books show it as overcommitted.
    """
    cores_ppm = (cores_percent or 0) * _PPM_PER_PERCENT
    if memory_mib is None:
        return cores_ppm if cores_ppm else Unknown("the grant states neither memory nor cores")
    if physical_memory_mib is None or physical_memory_mib <= 0:
        return Unknown("the physical memory of the card is not known")
    return max(memory_mib * WHOLE_PPM // physical_memory_mib, cores_ppm)


def share_at_least_ppm(share_ppm: int | None, cores_percent: int | None) -> int:
    """What a grant takes at least: its share where that is known, else its cores."""
    return (cores_percent or 0) * _PPM_PER_PERCENT if share_ppm is None else share_ppm


def share_mig_ppm(
    compute_slices: int | None,
    compute_slices_total: int | None,
    memory_slices: int | None,
    memory_slices_total: int | None,
) -> int | Unknown:
    """max(compute slices / total, memory slices / total). Unknown where any of the four is not known."""
    if compute_slices is None or memory_slices is None or not compute_slices_total or not memory_slices_total:
        return Unknown("the slices of the MIG profile are not known")
    return max(compute_slices * WHOLE_PPM // compute_slices_total, memory_slices * WHOLE_PPM // memory_slices_total)


def share_replica_ppm(replicas: int | None) -> int | Unknown:
    """1 / replicas of a time-slicing or MPS replica. Unknown where the number of replicas is."""
    return (
        WHOLE_PPM // replicas
        if replicas is not None and replicas > 0
        else Unknown("the number of replicas is not known")
    )


def share_consumer_ppm(share_ppm: int, consumers: int) -> int:
    """The even part of one of several consumers of a DRA device; the remainder is free."""
    return share_ppm // max(1, consumers)


def share_floored_ppm(share_ppm: int, slots_count: int | None) -> int:
    """The share, but at least 1 / split count: the optional floor for a vGPU (default off)."""
    return share_ppm if not slots_count or slots_count < 0 else max(share_ppm, WHOLE_PPM // slots_count)
