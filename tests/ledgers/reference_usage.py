"""The usage ledger once more, slow and obvious: who held the unit at this instant, which sample stood for it, add up.

Inputs are rows as dicts with instants as integers: facts, ``dim.device`` and ``ledger.holding``. Nothing is shared with the SQL.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.ledgers.reference_supply import FOREVER, HOUR, Row, end_of

Unit = tuple[str, int | None]
INSTANTS_ONLY = "samples are instants: the time between them was not seen"
NOTHING = "the samples name no figure"


@dataclass
class Use:
    """All inputs of one cluster."""

    grain: int
    holdings: list[Row]
    cards: list[Row]
    samples: list[Row]
    processes: list[Row]
    statuses: list[Row]


@dataclass
class Stand:
    """A sample and the stretch it stands for; empty where it is an instant."""

    start: int
    end: int
    memory: int | None
    util: int | None = None


@dataclass
class Sums:
    """What one row of the ledger is made of."""

    memory_us: int = 0
    memory_seen: int = 0
    util_us: int = 0
    util_seen: int = 0
    instants: list[int | None] = field(default_factory=list)
    any_memory: bool = False


def gap_of(world: Use, uuid: str, source: str) -> int:
    """How far apart rounds of this source may lie on the card's node, 0 where nobody says."""
    node = max((row["node"] for row in world.cards if row["device_uuid"] == uuid), default=None)
    return max(
        (
            row["gap_max_us"] or 0
            for row in world.statuses
            if row["kind"] not in ("pods", "nodes", "trace") and row["source"] == source and row["status"] != "failed"
            and row["scope"] in ("cluster", f"node/{node}")
        ),
        default=0,
    )  # fmt: skip


def until(at: int, interval: int | None, gap: int, following: int | None) -> int:
    """Up to when a sample stands."""
    if interval is not None and interval > 0:
        return min(at + min(interval, HOUR), FOREVER if following is None else following)
    return following if following is not None and following - at <= gap else at


def clean_util(value: float | None) -> int | None:
    """203 in parts per million; above 1.05, below 0 or no number: not known."""
    if value is None or value != value or value < 0 or value > 1.05:
        return None
    return round(min(value, 1.0) * 1_000_000)


def stands(world: Use) -> Mapping[Unit, list[Stand]]:
    """The samples of each unit in time order."""
    rounds: dict[Unit, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in world.samples:
        rounds[row["device_uuid"], row["gi"]][row["occurred_at"]].append(row)
    result: dict[Unit, list[Stand]] = {}
    for unit, by_instant in rounds.items():
        instants = sorted(by_instant)
        result[unit] = []
        for n, at in enumerate(instants):
            rows = by_instant[at]
            interval = max((r["interval_us"] for r in rows if r["interval_us"] is not None), default=None)
            gap = gap_of(world, unit[0], max(r["source"] for r in rows))
            memories = [
                r["memory_used_mib"] for r in rows
                if r["memory_used_mib"] is not None and 0 <= r["memory_used_mib"] <= (r["memory_total_mib"] or 10**8)
            ]  # fmt: skip
            utils = [u for u in (clean_util(r["util_gpu_ratio"]) for r in rows) if u is not None]
            following = instants[n + 1] if n + 1 < len(instants) else None
            end = until(at, interval, gap, following)
            result[unit].append(Stand(at, end, max(memories, default=None), max(utils, default=None)))
    return result


def holder_at(world: Use, unit: Unit, t: int) -> str | None:
    """The one pod that everything the unit did at ``t`` belongs to, None where there is none or more than one."""
    uuid, gi = unit
    nodes = {row["node"] for row in world.cards if row["device_uuid"] == uuid}
    pods = set()
    for row in world.holdings:
        if row["occupancy"] == "reserved" or not row["started_at"] <= t < end_of(row):
            continue
        if row["place_kind"] == "node" and row["place_id"] in nodes:
            return None
        if row["device_uuid"] != uuid or (gi is not None and row["gi"] not in (gi, None)):
            continue
        if (
            row["occupancy"] != "held"
            or (gi is None and row["unit_kind"] == "mig")
            or (gi is not None and row["gi"] is None)
            or (row["unit_kind"] != "mig" and (row["share_ppm"] or 0) < 1_000_000)
        ):
            return None
        pods.add(row["pod_uid"])
    return pods.pop() if len(pods) == 1 else None


def cuts_of(world: Use, edges: Sequence[int]) -> list[int]:
    """Every instant at which anything could change."""
    cuts = set(edges)
    for row in world.holdings:
        cuts |= {row["started_at"], end_of(row)}
    low, high = min(edges), max(edges)
    cuts |= set(range(low // world.grain * world.grain, high + world.grain, world.grain))
    return sorted(cuts)


def add(sums: Sums, us: int, stand: Stand) -> None:
    """Integrate a stretch."""
    sums.any_memory |= stand.memory is not None
    if stand.memory is not None:
        sums.memory_us += us * stand.memory
        sums.memory_seen += us
    if stand.util is not None:
        sums.util_us += us * stand.util
        sums.util_seen += us


def integrate(world: Use) -> dict[tuple[Any, ...], Sums]:
    """(uuid, gi, grain, pod, path) -> sums, for devices, their one holders and proven processes."""
    rows: dict[tuple[Any, ...], Sums] = defaultdict(Sums)
    for unit, samples in stands(world).items():
        path = "exclusive" if unit[1] is None else "mig"
        for stand in samples:
            cuts = [c for c in cuts_of(world, [stand.start, stand.end]) if stand.start <= c <= stand.end]
            for a, b in itertools.pairwise(cuts):
                grain, holder = a // world.grain * world.grain, holder_at(world, unit, a)
                add(rows[(*unit, grain, None, "device")], b - a, stand)
                if holder is not None:
                    add(rows[(*unit, grain, holder, path)], b - a, stand)
            grain, holder = stand.start // world.grain * world.grain, holder_at(world, unit, stand.start)
            note(rows[(*unit, grain, None, "device")], stand)
            if holder is not None:
                note(rows[(*unit, grain, holder, path)], stand)
    sampled = set(stands(world))
    for uuid, gi, pod, stand in process_stands(world):

        def taken(t: int, uuid: str = uuid, gi: int | None = gi) -> bool:
            units = [unit for unit in ((uuid, None), (uuid, gi)) if unit in sampled]
            return any(holder_at(world, unit, t) is not None for unit in units)

        cuts = [c for c in cuts_of(world, [stand.start, stand.end]) if stand.start <= c <= stand.end]
        for a, b in itertools.pairwise(cuts):
            if not taken(a):
                add(rows[uuid, None, a // world.grain * world.grain, pod, "process"], b - a, stand)
        if not taken(stand.start):
            note(rows[uuid, None, stand.start // world.grain * world.grain, pod, "process"], stand)
    return rows


def note(sums: Sums, stand: Stand) -> None:
    """The sample itself: for peak, percentile and count."""
    sums.any_memory |= stand.memory is not None
    sums.instants.append(stand.memory)


def process_stands(world: Use) -> Iterator[tuple[str, int | None, str, Stand]]:
    """Rounds of processes: per card, instance and pod the memory of all its processes, and how long the round stands."""
    for uuid in {row["device_uuid"] for row in world.processes}:
        mine = [row for row in world.processes if row["device_uuid"] == uuid]
        instants = sorted({row["occurred_at"] for row in mine})
        for n, at in enumerate(instants):
            here = [row for row in mine if row["occurred_at"] == at]
            gap = gap_of(world, uuid, max(row["source"] for row in here))
            following = instants[n + 1] if n + 1 < len(instants) else None
            for gi, pod in {(row["gi"], row["pod_uid"]) for row in here if row["pod_uid"] is not None}:
                rows = [row for row in here if (row["gi"], row["pod_uid"]) == (gi, pod)]
                memories = [row["memory_used_mib"] for row in rows]
                interval = max((r["interval_us"] for r in rows if r["interval_us"] is not None), default=None)
                memory = None if None in memories else sum(memories)
                yield uuid, gi, pod, Stand(at, until(at, interval, gap, following), memory)


def percentile_99(values: Sequence[int]) -> int | None:
    """Linear interpolation, floored to a whole MiB."""
    if not values:
        return None
    ordered = sorted(values)
    position = Fraction(99 * (len(ordered) - 1), 100)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return int(ordered[low] + (position - low) * (ordered[high] - ordered[low]))


def post_usage(world: Use) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """(device_uuid, gi, grain, pod_uid, path) -> memory_mib_us, peak, p99, compute, observed, compute_observed, samples, reason."""
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    sums = integrate(world)
    boards = {(uuid, grain) for (uuid, gi, grain, _pod, path) in sums if path == "device" and gi is None}
    for key, total in sums.items():
        uuid, gi, grain, _pod, path = key
        if path == "device" and gi is not None and (uuid, grain) in boards:
            continue
        known = [memory for memory in total.instants if memory is not None]
        reason = None
        if not total.memory_seen and not total.util_seen:
            reason = INSTANTS_ONLY if total.any_memory else NOTHING
        rows[key] = (
            total.memory_us if total.memory_seen else None,
            max(known, default=None),
            percentile_99(known),
            total.util_us // 1_000_000 if total.util_seen else None,
            total.memory_seen,
            total.util_seen,
            len(total.instants),
            reason,
        )
    for key, row in list(rows.items()):
        uuid, gi, grain, _pod, path = key
        if path != "device":
            continue
        held = [
            other for (u, g, at, _p, way), other in rows.items()
            if way not in ("device", "residual") and (u, at) == (uuid, grain) and (gi is None or g == gi)
        ]  # fmt: skip
        memory = None if row[0] is None else row[0] - sum(other[0] or 0 for other in held)
        compute = None if row[3] is None else row[3] - sum(other[3] or 0 for other in held)
        rows[uuid, gi, grain, None, "residual"] = (memory, None, None, compute, *row[4:])
    return rows
