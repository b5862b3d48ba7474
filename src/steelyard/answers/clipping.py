"""GPU-time of a stretch that is no whole grain: clipped from the holdings themselves, by the rules that the supply ledger books by.

Q2 calls it for the two grains that a window may cut. The trick to know: where the holders of a card ask for more than the card has, each
counts its part of the sum, so the moments between two changes on a card are walked one by one; elsewhere a clipped length is enough. Holders whose
card no source names share what is left of their node's (or cluster's) cards: the ledger's own stretches of it (``dim.supply_room``) are walked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from steelyard.answers.reading import Record
from steelyard.definitions.conservation import booked_share_ppm
from steelyard.definitions.share import WHOLE_PPM
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN

_CORES_WHOLE: Final = 100
_PPM_PER_PERCENT: Final = 10_000
_ONE_CARD: Final = ((INSTANT_MIN, INSTANT_MAX, 1),)


@dataclass(frozen=True, slots=True)
class Room:
    """A stretch in which neither what is left of a place's cards nor what is asked of it changes: of each measure (ppm, MiB, percent) what is asked
    and what is left. ``cards`` 0: none is known to be there, so what is held stands as asked."""

    start: int
    end: int
    cards: int
    asked: tuple[int, int, int]
    left: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Places:
    """What the places have: ``memory_mib`` of one card by (cluster, place id), None or absent = not known; ``counted``, by (cluster, node),
    the stretches ``(start, end, cards)`` of nodes whose cards are counted and have no known UUID; ``rooms``, by (cluster, place kind, place id), what
    is left where holders lie on cards that no source names, in order of time."""

    memory_mib: Mapping[tuple[str, str], int | None]
    counted: Mapping[tuple[str, str], Sequence[tuple[int, int, int]]]
    rooms: Mapping[tuple[str, str, str], Sequence[Room]] = field(default_factory=dict)

    def cards_of(self, cluster: str, kind: str, place: str) -> Sequence[tuple[int, int, int]]:
        """When the place has how many cards; stretches add up. Empty: nothing bounds what is held there."""
        if kind == "device":
            return _ONE_CARD
        return self.counted.get((cluster, place), ()) if kind == "node" else ()


def booked_rows(holdings: Iterable[Record], places: Places) -> Iterator[Record]:
    """One row per holding, clipped to ``start_us`` .. ``end_us``, in the shape of the ledger's booked rows; a second one, of the account
    ``overcommitted``, where it was given more than counts.

    Amounts are floored once per holding. A grant that states no memory or cores holds its share of the card's; where it states none and the
    memory of the place's cards is not known, its memory is None.
    """
    by_place: dict[tuple[str, str, str], list[Record]] = {}
    for row in holdings:
        by_place.setdefault((row["cluster"], row["place_kind"], row["place_id"]), []).append(row)
    for (cluster, kind, place), rows in by_place.items():
        memory = places.memory_mib.get((cluster, place))
        cards = places.cards_of(cluster, kind, place)
        shares = [int(row["share_ppm"]) for row in rows]
        mibs = [memory_held_mib(row["memory_mib"], row["share_ppm"], memory) for row in rows]
        cores = [
            cores_held_percent(row["cores_percent"], row["unit_kind"], row["memory_mib"], row["share_ppm"]) or 0
            for row in rows
        ]
        rooms = places.rooms.get((cluster, kind, place), ())
        memory_time: Sequence[int | None]
        if rooms:
            gpu_time, cores_time = (_left_over(rows, held, rooms, of) for held, of in ((shares, 0), (cores, 2)))
            left_mib = _left_over(rows, [mib or 0 for mib in mibs], rooms, 1)
            memory_time = [None if mib is None else product for mib, product in zip(mibs, left_mib, strict=True)]
        else:
            gpu_time = _products(rows, shares, cards, WHOLE_PPM)
            memory_time = _memory_products(rows, mibs, cards, memory)
            cores_time = _products(rows, cores, cards, _CORES_WHOLE)
        for row, product, mib_us, percent_us in zip(rows, gpu_time, memory_time, cores_time, strict=True):
            booked = _booked(row, product // WHOLE_PPM, mib_us, percent_us)
            yield booked
            asked = (row["end_us"] - row["start_us"]) * int(row["share_ppm"])
            if asked > product:
                yield {**booked, "account": "overcommitted", "amount_gpu_us": (asked - product) // WHOLE_PPM}


def memory_held_mib(granted_mib: int | None, share_ppm: int | None, card_mib: int | None) -> int | None:
    """The memory that a holding holds: as granted, else its share of the card's; None where neither is known."""
    if granted_mib is not None:
        return granted_mib
    return None if share_ppm is None or card_mib is None else share_ppm * card_mib // WHOLE_PPM


def cores_held_percent(
    granted_percent: int | None, unit_kind: str, granted_mib: int | None, share_ppm: int | None
) -> int | None:
    """The cores that a holding holds: as granted; none where a vGPU grant states memory alone; else its share of the card."""
    if granted_percent is not None:
        return granted_percent
    if unit_kind == "vgpu" and granted_mib is not None:
        return 0
    return None if share_ppm is None else share_ppm // _PPM_PER_PERCENT


def _products(
    rows: Sequence[Record], amounts: Sequence[int], cards: Sequence[tuple[int, int, int]], of_card: int
) -> list[int]:
    """Per holding, the sum of length x amount; where the amounts present exceed what the cards have, of its part of them."""
    if not cards or sum(amounts) <= of_card * min(count for _start, _end, count in cards):
        return [(row["end_us"] - row["start_us"]) * amount for row, amount in zip(rows, amounts, strict=True)]
    products = [0] * len(rows)
    changes = {row["start_us"] for row in rows} | {row["end_us"] for row in rows}
    first, last = min(changes), max(changes)
    changes |= {edge for start, end, _count in cards for edge in (start, end) if first < edge < last}
    for start, end in pairwise(sorted(changes)):
        present = [i for i, row in enumerate(rows) if row["start_us"] <= start and row["end_us"] >= end]
        count = sum(count for lo, hi, count in cards if lo <= start and hi >= end)
        total = sum(amounts[i] for i in present)
        for i in present:
            part = booked_share_ppm(amounts[i], total, count * of_card) if count else amounts[i]
            products[i] += (end - start) * part
    return products


def _left_over(rows: Sequence[Record], amounts: Sequence[int], rooms: Sequence[Room], measure: int) -> list[int]:
    """Per holding whose card is not known, the sum of length x its part of what is left; where nothing is known of that, as asked."""
    products = []
    for row, amount in zip(rows, amounts, strict=True):
        product = (row["end_us"] - row["start_us"]) * amount
        for room in rooms:
            length = min(row["end_us"], room.end) - max(row["start_us"], room.start)
            if length > 0 and room.cards:
                part = booked_share_ppm(amount, room.asked[measure], room.left[measure])
                product -= length * (amount - part)
        products.append(product)
    return products


def _memory_products(
    rows: Sequence[Record], mibs: Sequence[int | None], cards: Sequence[tuple[int, int, int]], of_card: int | None
) -> Sequence[int | None]:
    """As ``_products``; where the memory of a card is not known, nothing bounds what is held of it."""
    if of_card is not None:
        return _products(rows, [mib or 0 for mib in mibs], cards, of_card)
    return [
        None if mib is None else (row["end_us"] - row["start_us"]) * mib for row, mib in zip(rows, mibs, strict=True)
    ]


def _booked(row: Record, amount_gpu_us: int, memory_mib_us: int | None, cores_percent_us: int) -> Record:
    unplaced = row["occupancy"] == "held" and row["place_kind"] != "device"
    return {
        **{name: row[name] for name in ("cluster", "place_kind", "place_id", "node", "device_uuid", "pod_uid")},
        "account": "held_unplaced" if unplaced else row["occupancy"],
        "amount_gpu_us": amount_gpu_us,
        "down_gpu_us": 0,
        "memory_mib_us": memory_mib_us,
        "cores_percent_us": cores_percent_us,
        "memory_unknown": int(memory_mib_us is None),
        "cores_unknown": 0,
    }
