"""GPU-time of a stretch that is no whole grain: clipped from the holdings themselves, by the rules that the supply ledger books by.

Q2 calls it for the two grains that a window may cut. The trick to know: where the holders of a card ask for more than the card has, each
counts its part of the sum, so the moments between two changes on a card are walked one by one; elsewhere a clipped length is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from steelyard.answers.reading import Record
from steelyard.definitions.conservation import booked_share_ppm
from steelyard.definitions.share import WHOLE_PPM

_CORES_WHOLE: Final = 100
_PPM_PER_PERCENT: Final = 10_000


def booked_rows(holdings: Iterable[Record], card_memory_mib: Mapping[tuple[str, str], int | None]) -> Iterator[Record]:
    """One row per holding, clipped to ``start_us`` .. ``end_us``, in the shape of the ledger's booked rows; a second one, of the account
    ``overcommitted``, where it was given more than counts.

    ``card_memory_mib``: by (cluster, device UUID). Amounts are floored once per holding. A grant that states no memory or cores holds its
    share of the card's; where the card's memory is not known, memory is None. At a place without known cards shares are not
    held against the place's supply: that would need the whole grain.
    """
    places: dict[tuple[str, str, str], list[Record]] = {}
    for row in holdings:
        places.setdefault((row["cluster"], row["place_kind"], row["place_id"]), []).append(row)
    for (cluster, kind, place), rows in places.items():
        memory = card_memory_mib.get((cluster, place)) if kind == "device" else None
        shares = [int(row["share_ppm"]) for row in rows]
        mibs = [memory_held_mib(row, memory) or 0 for row in rows]
        cores = [cores_held_percent(row) or 0 for row in rows]
        whole = kind == "device"
        gpu_time = _products(rows, shares, WHOLE_PPM if whole else None)
        memory_time = _products(rows, mibs, memory) if memory is not None else [None] * len(rows)
        cores_time = _products(rows, cores, _CORES_WHOLE if whole else None)
        for row, product, mib_us, percent_us in zip(rows, gpu_time, memory_time, cores_time, strict=True):
            booked = _booked(row, product // WHOLE_PPM, mib_us, percent_us)
            yield booked
            asked = (row["end_us"] - row["start_us"]) * int(row["share_ppm"])
            if asked > product:
                yield {**booked, "account": "overcommitted", "amount_gpu_us": (asked - product) // WHOLE_PPM}


def memory_held_mib(row: Record, card_mib: int | None) -> int | None:
    """The memory that a holding holds: as granted, else its share of the card's; None where neither is known."""
    if row["memory_mib"] is not None:
        return int(row["memory_mib"])
    if row["share_ppm"] is None or card_mib is None:
        return None
    return int(row["share_ppm"]) * card_mib // WHOLE_PPM


def cores_held_percent(row: Record) -> int | None:
    """The cores that a holding holds: as granted; none where a vGPU grant states memory alone; else its share of the card."""
    if row["cores_percent"] is not None:
        return int(row["cores_percent"])
    if row["unit_kind"] == "vgpu" and row["memory_mib"] is not None:
        return 0
    return None if row["share_ppm"] is None else int(row["share_ppm"]) // _PPM_PER_PERCENT


def _products(rows: Sequence[Record], amounts: Sequence[int], capacity: int | None) -> list[int]:
    """Per holding, the sum of length x amount; where the amounts present exceed ``capacity`` (None = no bound), of its part of them."""
    if capacity is None or sum(amounts) <= capacity:
        return [(row["end_us"] - row["start_us"]) * amount for row, amount in zip(rows, amounts, strict=True)]
    products = [0] * len(rows)
    changes = sorted({row["start_us"] for row in rows} | {row["end_us"] for row in rows})
    for start, end in pairwise(changes):
        present = [i for i, row in enumerate(rows) if row["start_us"] <= start and row["end_us"] >= end]
        total = sum(amounts[i] for i in present)
        for i in present:
            products[i] += (end - start) * booked_share_ppm(amounts[i], total, capacity)
    return products


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
