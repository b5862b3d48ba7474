"""MIG instances named by a suffix ``[T-P]``: T is a row of the configured geometries, P a slot in it (HAMi 2.5 to 2.9, Volcano vGPU).

The trick to know: P counts slots or items, depending on release and history, so only the record's memory tells which profile
was given; and a chart may list the items of a mixed geometry in either order, so both are tried. The suffix is no GPU instance id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from steelyard.definitions.mig import MigSlices, mig_slices
from steelyard.primitives.unknown import Unknown

Item: TypeAlias = tuple[str, int, int]
"""Profile, its memory in MiB as the template states it, and how many of it."""

_GEOMETRIES: Final[tuple[tuple[int, tuple[tuple[Item, ...], ...]], ...]] = (
    (24_576, ((("1g.6gb", 6_144, 4),), (("2g.12gb", 12_288, 2),), (("4g.24gb", 24_576, 1),))),
    (
        40_960,
        (
            (("1g.5gb", 5_120, 7),),
            (("1g.5gb", 5_120, 1), ("2g.10gb", 10_240, 3)),
            (("3g.20gb", 20_480, 2),),
            (("7g.40gb", 40_960, 1),),
        ),
    ),
    (
        81_920,
        (
            (("1g.10gb", 10_240, 7),),
            (("1g.10gb", 10_240, 1), ("2g.20gb", 20_480, 3)),
            (("3g.40gb", 40_960, 2),),
            (("7g.79gb", 80_896, 1),),
        ),
    ),
)
_CARD_MEMORIES_MIB: Final = (24_576, 40_960, 81_559, 81_920, 95_830, 97_871, 97_887, 143_771, 183_359)


@dataclass(frozen=True, slots=True)
class LegacyInstance:
    """What a suffix yields: the profile (None where no default geometry fits), its slices, and whether P names more than one slot."""

    profile: str | None
    slices: MigSlices | None
    position_ambiguous: bool
    reason: str | None = None


def instance_of_suffix(
    geometry_index: int, slot_index: int, memory_mib: int, card_memory_mib: int | None = None
) -> LegacyInstance:
    """The profile behind ``[T-P]`` with this granted memory (MiB) under the charts' default geometries.

    card_memory_mib: physical memory of the card where it is known; without it a suffix that fits cards of different sizes stays
    without a profile.
    """
    fits: set[tuple[str, int]] = set()
    ambiguous = False
    for card_mib, templates in _GEOMETRIES:
        other_card = card_memory_mib is not None and abs(card_memory_mib - card_mib) * 20 > card_mib
        if geometry_index >= len(templates) or other_card:
            continue
        for items in {templates[geometry_index], templates[geometry_index][::-1]}:
            profiles = {profile for profile, memory in _named(items, slot_index) if memory == memory_mib}
            if profiles:
                fits.update((profile, card_mib) for profile in profiles)
                ambiguous |= slot_index < len(items) and any(count > 1 for _, _, count in items[:slot_index])
    profiles = {profile for profile, _ in fits}
    if len(profiles) != 1:
        return LegacyInstance(None, None, ambiguous, "the suffix and its memory fit no single default geometry")
    profile = profiles.pop()
    slices = {mig_slices(profile, memory_mib=card_mib) for _, card_mib in fits}
    only = slices.pop() if len(slices) == 1 else None
    return LegacyInstance(profile, only if isinstance(only, MigSlices) else None, ambiguous)


def slices_of_profile(
    profile: str, placement_size: int | None, model: str | None = None, memory_mib: int | None = None
) -> MigSlices | None:
    """Slices of a profile; where the card is not known, those on which all cards agree whose memory slices equal the placement's size."""
    found = mig_slices(profile, model, memory_mib)
    if isinstance(found, MigSlices):
        return found
    if placement_size is None:
        return None
    offers: set[MigSlices] = set()
    for card_mib in _CARD_MEMORIES_MIB:
        offer = mig_slices(profile, memory_mib=card_mib)
        if not isinstance(offer, Unknown) and not offer.estimated and offer.memory == placement_size:
            offers.add(offer)
    return offers.pop() if len(offers) == 1 else None


def _named(items: tuple[Item, ...], slot_index: int) -> list[tuple[str, int]]:
    """Profile and memory of P read as a slot and, where it can be one, as an item."""
    slots = [(profile, memory) for profile, memory, count in items for _ in range(count)]
    named = [slots[slot_index]] if slot_index < len(slots) else []
    return named + [(profile, memory) for profile, memory, _ in items[slot_index : slot_index + 1]]
