"""The usage ledger once more, slow and obvious: who held the unit at this instant, which sample stood for it, add up.

Inputs are rows as dicts with instants as integers: facts, ``dim.device`` and ``ledger.holding``. Nothing is shared with the SQL.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.ledgers.reference_supply import FOREVER, HOUR, Row, end_of

Unit = tuple[str, int | None]
Intruder = tuple[str, int | None, str, int, int]
"""Card, instance, pod, from when to when."""
INSTANTS_ONLY = "samples are instants: the time between them was not seen"
NOTHING = "the samples name no figure"


SHARES = {"3g.40gb": 500_000, "1c.3g.40gb": 500_000, "1g.5gb": 142_857}
"""Of its card, by the profile of a compute instance or of the GPU instance itself."""

FIGURES = ("memory", "util", "engine", "sm", "dram", "used")


@dataclass
class Use:
    """All inputs of one cluster."""

    grain: int
    holdings: list[Row]
    cards: list[Row]
    samples: list[Row]
    processes: list[Row]
    statuses: list[Row]
    units: list[Row] = field(default_factory=list)
    nodes: list[Row] = field(default_factory=list)
    intruders: list[Intruder] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.intruders = list(intruders(process_stands(self), self.holdings))


@dataclass
class Stand:
    """A sample and the stretch it stands for; empty where it is an instant."""

    start: int
    end: int
    figures: Mapping[str, int]
    """What is known: MiB of ``memory``, of the others parts per million of the card."""
    share: int | None = None


@dataclass
class Sums:
    """What one row of the ledger is made of: amounts and seen time by figure."""

    amounts: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*FIGURES, "used_of"), 0))
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FIGURES, 0))
    instants: list[int | None] = field(default_factory=list)
    says_any: bool = False


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


def clean(value: float | None) -> int | None:
    """A ratio in parts per million; above 1.05, below 0 or no number: not known."""
    if value is None or value != value or value < 0 or value > 1.05:
        return None
    return round(min(value, 1.0) * 1_000_000)


def share_at(world: Use, unit: Unit, t: int) -> int | None:
    """The share of its card that a unit is; of an instance by the profile under its number that was new last, the first one also before."""
    uuid, gi = unit
    if gi is None:
        return 1_000_000
    named = [row for row in world.units if (row["device_uuid"], row["gi"], row["unit_kind"]) == (uuid, gi, "mig")]
    if not named:
        return None
    turns = sorted({row["first_seen_at"] for row in named})
    turn = max((at for at in turns if at <= t), default=turns[0])
    shares = {SHARES.get(row["profile"]) for row in named if row["first_seen_at"] == turn}
    return shares.pop() if len(shares) == 1 else None


def figures_of(rows: Sequence[Row], share: int | None) -> dict[str, int]:
    """What the rows of one unit and instant tell together: the larger figures, none where two lie apart; the ratios as parts of the card."""
    found: dict[str, int] = {}
    columns = {
        "util": "util_gpu_ratio",
        "engine": "gr_active_ratio",
        "sm": "sm_active_ratio",
        "dram": "dram_active_ratio",
    }
    for name, column in columns.items():
        ratios = [ratio for ratio in (clean(row[column]) for row in rows) if ratio is not None]
        if ratios and max(ratios) - min(ratios) <= 150_000:
            found[name] = max(ratios)
    if found.get("util", 0) > 500_000 and found.get("engine") == 0:
        found = {"util": found["util"]}
    if "sm" in found and "dram" in found:
        found["used"] = max(found["sm"], found["dram"])
    known = {name: ratio * share // 1_000_000 for name, ratio in found.items()} if share is not None else {}
    memories = [
        r["memory_used_mib"] for r in rows
        if r["memory_used_mib"] is not None and 0 <= r["memory_used_mib"] <= (r["memory_total_mib"] or 10**8)
    ]  # fmt: skip
    is_told = bool(memories) and max(memories) - min(memories) <= max(600, max(memories) // 20)
    return {**known, **({"memory": max(memories)} if is_told else {})}


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
            share = share_at(world, unit, at)
            following = instants[n + 1] if n + 1 < len(instants) else None
            end = until(at, interval, gap, following)
            result[unit].append(Stand(at, end, figures_of(rows, share), share))
    return result


def holder_at(world: Use, unit: Unit, t: int) -> str | None:
    """The one pod that everything the unit did at ``t`` belongs to, None where there is none or more than one."""
    uuid, gi = unit
    nodes = {row["node"] for row in world.cards if row["device_uuid"] == uuid}
    pods = set()
    is_beside = is_alone = False
    for row in world.holdings:
        if row["occupancy"] == "reserved" or not row["started_at"] <= t < end_of(row):
            continue
        if row["place_kind"] == "node" and row["place_id"] in nodes:
            if gi is not None or row["unit_kind"] not in ("gpu", "mig"):
                return None
            is_beside = True
        if row["device_uuid"] != uuid or (gi is not None and row["gi"] not in (gi, None)):
            continue
        if (
            row["occupancy"] != "held"
            or (gi is None and row["unit_kind"] == "mig")
            or (gi is not None and row["gi"] is None)
            or (row["unit_kind"] != "mig" and (row["share_ppm"] or 0) < 1_000_000)
        ):
            return None
        is_alone |= row["unit_kind"] == "gpu" and not shareable(uuid, world.cards, world.nodes, world.units)
        pods.add(row["pod_uid"])
    if len(pods) != 1 or (is_beside and not is_alone) or intruding(world.intruders, unit, t):
        return None
    return pods.pop()


def shareable(uuid: str, cards: Sequence[Row], nodes: Sequence[Row], units: Sequence[Row]) -> bool:
    """Whether anything says that a card may be one pod's wholly and another's beside it."""
    mine = [row for row in cards if row["device_uuid"] == uuid]
    homes = [row for row in nodes if row["node"] in {card["node"] for card in mine}]
    return (
        any((row["slots_count"] or 1) > 1 or row["mode"] not in (None, "whole") for row in mine)
        or any((row["replicas"] or 1) > 1 or row["sharing_strategy"] not in (None, "none") for row in homes)
        or any(row["device_uuid"] == uuid and (row["replicas"] or 1) > 1 for row in units)
    )


def intruding(intruders: Sequence[Intruder], unit: Unit, t: int) -> set[str]:
    """The pods that have a process on a unit at ``t`` and hold nothing of it."""
    uuid, gi = unit
    return {
        pod
        for card, other, pod, start, end in intruders
        if card == uuid and start <= t < end and (gi is None or other is None or other == gi)
    }


def intruders(stands: Iterable[tuple[str, int | None, str, Stand]], holdings: Sequence[Row]) -> Iterator[Intruder]:
    """Rounds of processes of pods that hold nothing of the card when the round is taken, and from when to when each stands: until they hold it."""
    for uuid, gi, pod, stand in stands:
        own = [
            row
            for row in holdings
            if row["occupancy"] != "reserved" and (row["device_uuid"], row["pod_uid"]) == (uuid, pod)
            and (row["gi"] is None or gi is None or row["gi"] == gi) and end_of(row) > row["started_at"]
        ]  # fmt: skip
        if not any(row["started_at"] <= stand.start < end_of(row) for row in own):
            later = [row["started_at"] for row in own if row["started_at"] > stand.start]
            yield uuid, gi, pod, stand.start, max(min([stand.end, *later]), stand.start + 1)


def cuts_of(world: Use, edges: Sequence[int]) -> list[int]:
    """Every instant at which anything could change."""
    cuts = set(edges)
    for row in world.holdings:
        cuts |= {row["started_at"], end_of(row)}
    cuts |= {cut for *_, start, end in world.intruders for cut in (start, end)}
    low, high = min(edges), max(edges)
    cuts |= set(range(low // world.grain * world.grain, high + world.grain, world.grain))
    return sorted(cuts)


def add(sums: Sums, us: int, stand: Stand) -> None:
    """Integrate a stretch."""
    sums.says_any |= bool(stand.figures)
    for name, figure in stand.figures.items():
        sums.amounts[name] += us * figure
        sums.seen[name] += us
    if "used" in stand.figures:
        sums.amounts["used_of"] += us * (stand.share or 0)


def integrate(world: Use) -> dict[tuple[Any, ...], Sums]:
    """(uuid, gi, grain, pod, path) -> sums, for devices, their one holders and proven processes."""
    rows: dict[tuple[Any, ...], Sums] = defaultdict(Sums)
    told = board_told(world)
    for unit, samples in stands(world).items():
        path = "exclusive" if unit[1] is None else "mig"
        for stand in samples:
            cuts = [c for c in cuts_of(world, [stand.start, stand.end]) if stand.start <= c <= stand.end]
            for a, b in itertools.pairwise(cuts):
                grain, holder = a // world.grain * world.grain, holder_at(world, unit, a)
                own = of_card(unit, grain, stand, told)
                if own is not None:
                    add(rows[(*unit, grain, None, "device")], b - a, own)
                if holder is not None:
                    add(rows[(*unit, grain, holder, path)], b - a, stand)
            grain, holder = stand.start // world.grain * world.grain, holder_at(world, unit, stand.start)
            own = of_card(unit, grain, stand, told)
            if own is not None:
                note(rows[(*unit, grain, None, "device")], own)
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


def board_told(world: Use) -> dict[tuple[str, int], set[str]]:
    """Which figures the card as a whole told in a grain, for every card and grain in which it was sampled."""
    told: dict[tuple[str, int], set[str]] = defaultdict(set)
    for (uuid, gi), samples in stands(world).items():
        for stand in samples if gi is None else ():
            first = stand.start // world.grain * world.grain
            for grain in range(first, max(stand.end, stand.start + 1), world.grain):
                told[uuid, grain] |= stand.figures.keys()
    return told


def of_card(unit: Unit, grain: int, stand: Stand, told: Mapping[tuple[str, int], set[str]]) -> Stand | None:
    """What a sample says of the card as a whole: an instance's only what the board does not tell. None: nothing."""
    if unit[1] is None or (unit[0], grain) not in told:
        return stand
    left = {name: figure for name, figure in stand.figures.items() if name not in told[unit[0], grain]}
    return Stand(stand.start, stand.end, left, stand.share) if left else None


def note(sums: Sums, stand: Stand) -> None:
    """The sample itself: for peak, percentile and count."""
    sums.says_any |= bool(stand.figures)
    sums.instants.append(stand.figures.get("memory"))


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
                memory = {} if None in memories else {"memory": sum(memories)}
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
    """(device_uuid, gi, grain, pod_uid, path) -> peak, p99, samples, reason, basis, then the amount of each of FIGURES and what the unit had
    while its use was known, then the seen time of each of FIGURES."""
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for key, total in integrate(world).items():
        known = [memory for memory in total.instants if memory is not None]
        peak = max(known, default=None)
        amounts: dict[str, int | None] = {}
        for name in FIGURES:
            scale = 1 if name == "memory" else 1_000_000
            amounts[name] = total.amounts[name] // scale if total.seen[name] else None
        amounts["used_of"] = total.amounts["used_of"] // 1_000_000 if total.seen["used"] else None
        reason = None
        if not any(total.seen.values()):
            reason = INSTANTS_ONLY if total.says_any else NOTHING
        basis = basis_of(amounts, peak)
        rows[key] = (
            peak, percentile_99(known), len(total.instants), reason, basis, *amounts.values(), *total.seen.values()
        )  # fmt: skip
    for key, row in list(rows.items()):
        uuid, gi, grain, _pod, path = key
        if path == "device":
            rows[uuid, gi, grain, None, "residual"] = residual(rows, uuid, gi, grain, row)
    return rows


def basis_of(amounts: Mapping[str, int | None], peak: int | None) -> str:
    """The best basis that a row has."""
    names = {
        "used": "max_sm_1002_dram_1005", "engine": "gr_engine_1001_upper_bound", "util": "util_gpu_203_upper_bound", "memory": "memory_only"
    }  # fmt: skip
    for name, basis in names.items():
        if amounts[name] is not None or (name == "memory" and peak is not None):
            return basis
    return "unknown"


def residual(
    rows: Mapping[tuple[Any, ...], tuple[Any, ...]], uuid: str, gi: int | None, grain: int, row: tuple[Any, ...]
) -> tuple[Any, ...]:
    """A card's row less those of its holders, of an instance's less those of the instance."""
    held = [
        other for (u, g, at, _p, way), other in rows.items()
        if way not in ("device", "residual") and (u, at) == (uuid, grain) and (gi is None or g == gi)
    ]  # fmt: skip
    left: dict[str, int | None] = {}
    for number, name in enumerate(FIGURES, start=5):
        left[name] = None if row[number] is None else row[number] - sum(other[number] or 0 for other in held)
    return (None, None, row[2], row[3], basis_of(left, None), *left.values(), None, *row[-len(FIGURES) :])
