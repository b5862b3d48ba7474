"""The supply ledger once more, slow and obvious: step over elementary intervals, look at the state at each one's start, and add up.

Nothing here is shared with the SQL but the inputs: rows of facts, of ``dim.device``, ``dim.slot`` and of ``ledger.holding`` as dicts with instants as
integers. Every condition is a question about one instant; no sweeps, no running sums, no bit masks.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Key = tuple[Any, ...]
MINUTE = 60_000_000
HOUR = 60 * MINUTE
FOREVER = 2**62
NOWHERE = "nowhere"  # no basis tells the capacity then: supply is what is held, and nothing remains
TOLERATION = 300_000_000
VALUES = (
    "memory_used_mib", "util_gpu_ratio", "sm_active_ratio", "gr_active_ratio", "dram_active_ratio", "power_watts", "temperature_celsius"
)  # fmt: skip


@dataclass
class World:
    """All inputs of one cluster."""

    grain: int = HOUR
    as_of: int = FOREVER
    holdings: list[Row] = field(default_factory=list)
    cards: list[Row] = field(default_factory=list)  # dim.device
    slots: list[Row] = field(default_factory=list)  # dim.slot
    devices: list[Row] = field(default_factory=list)  # fact.device
    nodes: list[Row] = field(default_factory=list)  # fact.node
    samples: list[Row] = field(default_factory=list)
    statuses: list[Row] = field(default_factory=list)
    bases: list[Row] = field(default_factory=list)
    requests: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.samples = [row for row in self.samples if any(row[name] is not None for name in VALUES)]
        self.holdings = [row for row in self.holdings if end_of(row) > row["started_at"]]


def end_of(holding: Row) -> int:
    """Up to when a holding counts."""
    return int(holding["known_to_at"] if holding["ended_at"] is None else holding["ended_at"])


def observed_at(world: World, node: str | None, t: int) -> bool:
    """Whether all pods were seen at ``t``."""
    for scope in ("cluster", f"node/{node}"):
        rounds: dict[int, int | None] = {}
        for row in world.statuses:
            if row["scope"] != scope or not row["complete"]:
                continue
            if row["observed_from_at"] is not None and row["observed_from_at"] <= t < row["observed_to_at"]:
                return True
            if row["kind"] == "pods" and row["status"] == "ok":
                known = [gap for gap in (row["gap_max_us"], rounds.get(row["occurred_at"])) if gap is not None]
                rounds[row["occurred_at"]] = max(known) if known else None
        instants = sorted(rounds)
        for before, after in itertools.pairwise(instants):
            gap = rounds[after]
            if before <= t < after and gap is not None and after - before <= gap:
                return True
    return False


def lost_at(world: World, uuid: str, t: int) -> bool:
    """Whether the last verdict on the card by ``t`` is that it is lost."""
    verdicts: dict[int, bool] = {}
    for row in world.devices:
        if row["device_uuid"] != uuid or row["occurred_at"] > t:
            continue
        well = row["healthy"] if row["healthy"] is not None else row["basis"] == "inventory"
        if row["state"] == "lost":
            verdicts[row["occurred_at"]] = True
        elif well and row["source"] != "pod_resources":
            verdicts.setdefault(row["occurred_at"], False)
    return verdicts[max(verdicts)] if verdicts else False


def node_states(world: World, node: str | None) -> list[tuple[int, bool, int | None, bool]]:
    """Per instant at which the node was seen: not ready, since when its readiness is as it is, reconfiguring."""
    states: dict[int, tuple[bool, int | None, bool]] = {}
    for row in sorted((row for row in world.nodes if row["node"] == node), key=lambda row: int(row["occurred_at"])):
        bad = row["ready"] is False or (row["ready"] is None and row["ready_changed_at"] is not None)
        was = states.get(row["occurred_at"], (False, None, False))
        changed = max((x for x in (was[1], row["ready_changed_at"]) if x is not None), default=None)
        states[row["occurred_at"]] = (
            was[0] or bad, changed, was[2] or row["mig_config_state"] in ("pending", "rebooting")
        )  # fmt: skip
    return [(at, *state) for at, state in sorted(states.items())]


def reconfiguring_at(world: World, node: str | None, t: int) -> bool:
    """Whether the last sighting of the node by ``t`` shows a MIG reconfiguration in progress."""
    seen = [state for state in node_states(world, node) if state[0] <= t]
    return bool(seen and seen[-1][3])


def not_ready_spells(world: World, node: str | None) -> list[tuple[int, int]]:
    """From when to when the node was not ready."""
    states = node_states(world, node)
    spells = []
    n = 0
    while n < len(states):
        first, bad, changed, _ = states[n]
        before = states[n - 1][0] if n else -FOREVER
        last = first
        n += 1
        while n < len(states) and states[n][1] == bad and (not bad or states[n][2] == changed):
            last = states[n][0]
            n += 1
        if not bad:
            continue
        since = max(before, first if changed is None else min(changed, first))
        if n == len(states):
            end = FOREVER
        elif states[n][1]:
            end = last  # it was ready in between, nobody knows when
        else:
            ready_since = states[n][2]
            usable = ready_since is not None and last < ready_since <= states[n][0]
            end = ready_since if usable and ready_since is not None else states[n][0]
        if end > since:
            spells.append((since, end))
    return spells


def measured_at(world: World, uuid: str, t: int) -> bool:
    """Whether the minute of ``t`` is one that a sample of the card stands for."""
    for row in world.samples:
        if row["device_uuid"] != uuid:
            continue
        first = row["occurred_at"] // MINUTE
        minutes = max(1, min(row["interval_us"] or 0, HOUR) // MINUTE)
        if first <= t // MINUTE < first + minutes:
            return True
    return False


@dataclass
class Place:
    """Where supply and holdings meet."""

    kind: str
    name: str
    basis: str
    memory_mib: int | None
    start: int
    end: int
    capacity: list[tuple[int, int, int]] = field(default_factory=list)
    homes: list[tuple[int, str | None]] = field(default_factory=list)
    slots: list[tuple[int, int]] = field(default_factory=list)  # of a slot: its gaps

    def node_at(self, t: int) -> str | None:
        """The node the place belonged to."""
        node = self.homes[0][1]
        for since, home in self.homes:
            if since <= t:
                node = home
        return node

    def cards_at(self, t: int) -> int:
        """Cards that the place has."""
        return sum(count for start, end, count in self.capacity if start <= t < end)


def uniform(memories: Sequence[int | None]) -> int | None:
    """The memory that all cards have, None where they differ or one is not known."""
    return memories[0] if memories and len(set(memories)) == 1 else None


def device_places(world: World) -> Iterator[Place]:
    """Every card that was seen, and every card that is only named by a holding."""
    starts: dict[str, list[int]] = defaultdict(list)
    ends: dict[str, list[int]] = defaultdict(list)
    for row in world.cards:
        starts[row["device_uuid"]].append(row["first_seen_at"])
        ends[row["device_uuid"]].append(row["last_seen_at"])
    for row in world.samples:
        interval = row["interval_us"] or 0
        starts[row["device_uuid"]].append(row["occurred_at"])
        ends[row["device_uuid"]].append(
            row["occurred_at"] + (interval if 2 * MINUTE <= interval <= HOUR else 0)
        )  # fmt: skip
    known = set(starts)
    for row in world.holdings:
        if row["place_kind"] == "device":
            starts[row["place_id"]].append(row["started_at"])
            ends[row["place_id"]].append(end_of(row))
    for card in world.cards:
        stays = [row for row in world.holdings if (row["place_kind"], row["place_id"]) == ("node", card["node"])]
        earlier = [
            row for row in world.cards
            if (row["node"] == card["node"] or row["device_uuid"] == card["device_uuid"])
            and row["first_seen_at"] < card["first_seen_at"]
        ]  # fmt: skip
        if stays and not earlier:
            starts[card["device_uuid"]].append(min(row["started_at"] for row in stays))
        if stays and card["valid_to_at"] is None:
            ends[card["device_uuid"]].append(max(end_of(row) for row in stays))
    for uuid in starts:
        rows = sorted(
            (r for r in world.cards if r["device_uuid"] == uuid), key=lambda r: (r["first_seen_at"], r["node"])
        )
        homes: list[tuple[int, str | None]] = sorted(
            (row["occurred_at"], row["node"]) for row in world.devices if row["device_uuid"] == uuid
        )
        if not homes:
            homes = [(0, min((r["node"] for r in world.holdings if r["place_id"] == uuid and r["node"]), default=None))]
        memory = max((row["memory_mib"] for row in rows if row["memory_mib"] is not None), default=None)
        basis = "card" if uuid in known else "unknown"
        start, end = min(starts[uuid]), max(ends[uuid])
        yield Place("device", uuid, basis, memory, start, end, [(start, end, 1)], homes)


Counted = tuple[list[tuple[int, int, int]], int | None, list[tuple[int, int]]]


def node_capacity(world: World, node: str) -> Counted | None:
    """Counted cards of a node as (from, to, count), the memory of a card and the stretches in which it is certain; None without a basis."""
    if any(row["node"] == node for row in world.cards):
        return None
    labels: dict[int, int] = {}
    memories = []
    for at, count, memory in [
        *((r["occurred_at"], r["cards_count"], r["memory_mib"]) for r in world.bases if r["node"] == node and r["basis"] == "gfd_label"),
        *((r["occurred_at"], r["gpu_count"], r["gpu_memory_mib"]) for r in world.nodes if r["node"] == node and r["gpu_count"] is not None),
    ]:  # fmt: skip
        labels[at] = max(count, labels.get(at, 0))
        memories.append(memory)
    capacity: list[tuple[int, int, int]] = []
    if any(labels.values()):
        instants = sorted(labels)
        for n, at in enumerate(instants):
            until = instants[n + 1] if n + 1 < len(instants) else FOREVER
            capacity.append((at if n else -FOREVER, until, labels[at]))
        return capacity, max((m for m in memories if m is not None), default=None), [(instants[0], instants[-1])]
    for basis in ("declared", "asset_list"):
        rows = [row for row in world.bases if row["node"] == node and row["basis"] == basis and row["cards_count"] > 0]
        if not rows:
            continue
        watched = [
            (r["observed_from_at"], r["observed_to_at"])
            for r in world.statuses
            if r["scope"] == "cluster" and r["complete"] and r["observed_from_at"] is not None
        ]
        bounds: list[tuple[int, int]] = []
        for row in rows:
            start, end = row["valid_from_at"], row["valid_to_at"]
            capacity.append((-FOREVER if start is None else start, FOREVER if end is None else end, row["cards_count"]))
            since = min([row["occurred_at"], *(a for a, _ in watched)]) if start is None else start
            until = max([row["occurred_at"], *(b for _, b in watched)])
            if end is not None:
                until = min(end, max(world.as_of, since))
            bounds.append((since, until))
        return capacity, max((r["memory_mib"] for r in rows if r["memory_mib"] is not None), default=None), bounds
    return None


def other_places(world: World) -> Iterator[Place]:
    """Nodes and clusters that have counted cards or take holdings."""
    nodes = {row["node"] for row in (*world.nodes, *world.bases) if row["node"] is not None}
    nodes |= {row["place_id"] for row in world.holdings if row["place_kind"] == "node"}
    for node in sorted(nodes):
        stays = [
            (row["started_at"], end_of(row))
            for row in world.holdings
            if (row["place_kind"], row["place_id"]) == ("node", node)
        ]
        counted = node_capacity(world, node)
        if counted is None and not stays:
            continue
        here = [row["memory_mib"] for row in world.cards if row["node"] == node]
        capacity: list[tuple[int, int, int]] = []
        basis, memory = "transfer" if here else "unknown", uniform(here)
        if counted is not None:
            basis, (capacity, memory, bounds) = "count", counted
            stays += bounds
        start, end = min(a for a, _ in stays), max(b for _, b in stays)
        yield Place("node", node, basis, memory, start, end, capacity, [(0, node)])
    stays = [(row["started_at"], end_of(row)) for row in world.holdings if row["place_kind"] == "cluster"]
    if stays:
        memory = uniform([row["memory_mib"] for row in world.cards])
        start, end = min(a for a, _ in stays), max(b for _, b in stays)
        yield Place("cluster", "default", "transfer", memory, start, end, [], [(0, None)])


def toleration_of(world: World, pod: str) -> int:
    """How long the pod stays on an unreachable node, by its latest sighting; no end = FOREVER."""
    rows = [row for row in world.requests if row["pod_uid"] == pod]
    if not rows:
        return TOLERATION
    latest = max(row["occurred_at"] for row in rows)
    return max(
        FOREVER if row["unreachable_toleration_us"] is None else int(row["unreachable_toleration_us"])
        for row in rows
        if row["occurred_at"] == latest
    )


def asked(holding: Row, place: Place) -> tuple[int, int | None, int]:
    """Share, memory and compute that a holding takes of its place."""
    share = holding["share_ppm"] if holding["share_ppm"] is not None else holding["share_at_least_ppm"] or 0
    memory = holding["memory_mib"]
    if memory is None and place.memory_mib is not None:
        memory = share * place.memory_mib // 1_000_000
    cores = holding["cores_percent"]
    if cores is None:
        cores = 0 if holding["unit_kind"] == "vgpu" and holding["memory_mib"] is not None else share // 10_000
    return int(share), memory, int(cores)


def scaled(values: Sequence[int | None], cap: int | None) -> list[int | None]:
    """What each counts for where all together exceed the cap."""
    total = sum(value or 0 for value in values)
    if cap is None or cap <= 0 or total <= cap:
        return list(values)
    return [None if value is None else value * cap // total for value in values]


def boundaries(world: World, place: Place) -> list[int]:
    """Every instant at which anything could change at the place."""
    cuts = {place.start, place.end}
    for row in world.holdings:
        cuts |= {row["started_at"], end_of(row), row["ended_before_at"] or 0}
    for start, end, _count in place.capacity:
        cuts |= {start, end}
    cuts |= {since for since, _node in place.homes}
    for row in world.statuses:
        cuts |= {row["occurred_at"], row["observed_from_at"] or 0, row["observed_to_at"] or 0}
    cuts |= {row["occurred_at"] for row in (*world.devices, *world.nodes)}
    tolerations = {TOLERATION, *(toleration_of(world, row["pod_uid"]) for row in world.holdings)}
    for node in {row["node"] for row in world.nodes}:
        for since, end in not_ready_spells(world, node):
            cuts |= {since, end, *(since + toleration for toleration in tolerations)}
    cuts |= set(range(place.start // MINUTE * MINUTE, place.end, MINUTE))
    return sorted(cut for cut in cuts if place.start <= cut <= place.end)


def state_at(world: World, place: Place, t: int) -> tuple[str, str, int | None]:
    """Where a remainder goes, its service, and since when the node is not ready (None where that does not matter)."""
    node = place.node_at(t)
    lost = place.kind == "device" and lost_at(world, place.name, t)
    vague = any(
        row["share_ppm"] is None and (row["place_kind"], row["place_id"]) == (place.kind, place.name)
        and row["started_at"] <= t < end_of(row)
        for row in world.holdings
    ) or any(
        row["ended_at"] is not None and row["ended_before_at"] is not None and row["ended_at"] <= t < row["ended_before_at"]
        and (
            (row["place_kind"], row["place_id"]) == (place.kind, place.name)
            or (place.kind == "device" and (row["place_kind"], row["place_id"]) == ("node", node))
        )
        for row in world.holdings
    )  # fmt: skip
    account = "free" if lost or (observed_at(world, node, t) and not vague) else "unobserved"
    if lost or reconfiguring_at(world, node, t):
        return account, "down", None
    for since, end in not_ready_spells(world, node):
        if since <= t < end:
            return account, "down" if t >= since + TOLERATION else "unknown", since
    return account, "up" if place.kind == "device" and measured_at(world, place.name, t) else "unknown", None


CLASSES = (("free", "unknown"), ("unobserved", "unknown"), ("unobserved", "down"), ("free", "down"))
BOUNDLESS = 10**12
Amounts = list[int]


def active_at(world: World, place: Place, t: int) -> list[Row]:
    """The holdings that count at the place."""
    return [
        row for row in world.holdings
        if (row["place_kind"], row["place_id"]) == (place.kind, place.name) and row["started_at"] <= t < end_of(row)
    ]  # fmt: skip


def left_at(world: World, place: Place, t: int) -> tuple[int, tuple[str, str], Amounts] | None:
    """Cards of a place that has some, the class of its remainder and how much that is; None where it has none, or nobody knows how many."""
    if not place.start <= t < place.end:
        return None
    cards = place.cards_at(t)
    if not cards or place.basis == "unknown":
        return None
    rest, base, _since = ("unobserved", "unknown", None) if place.kind == "slot" else state_at(world, place, t)
    memory = BOUNDLESS if place.memory_mib is None else place.memory_mib
    caps = [cards * 1_000_000, cards * memory, cards * 100]
    wants = [asked(row, place) for row in active_at(world, place, t)]
    if place.memory_mib is None:
        gets = [scaled([w[0] for w in wants], caps[0]), [w[1] for w in wants], scaled([w[2] for w in wants], caps[2])]
    else:
        gets = [scaled([want[n] for want in wants], caps[n]) for n in range(3)]
    left = [cap - sum(x or 0 for x in got) for cap, got in zip(caps, gets, strict=True)]
    return cards, (rest, "down" if base == "down" else "unknown"), left


Room = tuple[int, dict[tuple[str, str], Amounts]]


def room_at(world: World, place: Place, places: Sequence[Place], t: int) -> Room:
    """How many cards lie at a node (a cluster) whose pods may hold any, and what is left of them by class, after the nodes took theirs."""
    room = {name: [0, 0, 0] for name in CLASSES}
    cards = 0
    for member in places:
        if member.basis == "transfer" or (place.kind == "node" and member.node_at(t) != place.name):
            continue
        found = left_at(world, member, t)
        if found is not None:
            cards += found[0]
            room[found[1]] = [a + b for a, b in zip(room[found[1]], found[2], strict=True)]
    if place.kind == "cluster":
        for node in places:
            if node.basis == "transfer" and node.kind == "node" and node.start <= t < node.end:
                for _row, _want, parts in transfers_at(world, node, places, t):
                    for name, part in parts.items():
                        if name in room:
                            room[name] = [a - b for a, b in zip(room[name], part, strict=True)]
    return cards, room


Part = dict[tuple[str, str], Amounts]


def transfers_at(
    world: World, place: Place, places: Sequence[Place], t: int
) -> list[tuple[Row, tuple[int, int | None, int], Part]]:
    """Each holding of a place without cards of its own, what it asks, and what it takes of each class."""
    rows = sorted(
        active_at(world, place, t),
        key=lambda r: (account_of(r, place), r["pod_uid"], r["unit_id"] is None, r["unit_id"] or ""),
    )
    wants = [asked(row, place) for row in rows]
    if not rows:
        return []
    cards, room = room_at(world, place, places, t)
    parts: list[Part] = [{} for _row in rows]
    for n in range(3):
        asks = [want[n] or 0 for want in wants]
        total = sum(room[name][n] for name in CLASSES)
        if cards and sum(asks) > total:
            asks = [ask * total // sum(asks) for ask in asks]
        line = iter([(name, room[name][n]) for name in CLASSES] if cards else [((NOWHERE, "unknown"), sum(asks))])
        name, left = next(line)
        for part, ask in zip(parts, asks, strict=True):
            while ask > 0:
                while left == 0:
                    name, left = next(line)
                step = min(ask, left)
                part.setdefault(name, [0, 0, 0])[n] += step
                ask, left = ask - step, left - step
    if not cards:
        for part in parts:
            part.setdefault((NOWHERE, "unknown"), [0, 0, 0])
    return list(zip(rows, wants, parts, strict=True))


def account_of(row: Row, place: Place) -> str:
    """The account of a holding."""
    if row["occupancy"] != "held":
        return str(row["occupancy"])
    return "held" if place.kind == "device" else "held_unplaced"


def post_transfer(world: World, place: Place, places: Sequence[Place]) -> Mapping[Key, tuple[int, int | None, int]]:
    """All rows of a place that only takes a transfer."""
    capacity: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    held: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    excess: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    vague: set[Key] = set()
    cuts = {
        cut
        for other in places
        for cut in ((x for gap in other.slots for x in gap) if other.slots else boundaries(world, other))
    }
    cuts = {cut for cut in (*cuts, *boundaries(world, place)) if place.start <= cut <= place.end}
    for t, until in itertools.pairwise(sorted(cuts)):
        us, grain, node = until - t, t // world.grain * world.grain, place.node_at(t)
        _rest, base, since = state_at(world, place, t)
        for row, want, parts in transfers_at(world, place, places, t):
            own = base
            if since is not None:
                own = "down" if t >= since + toleration_of(world, row["pod_uid"]) else "unknown"
            account, name = account_of(row, place), (row["pod_uid"], row["unit_id"])
            got = [sum(part[n] for part in parts.values()) for n in range(3)]
            unknown = want[1] is None
            if unknown and not got[0] + got[2] and place.memory_mib is None:
                parts = parts or {CLASSES[0]: [0, 0, 0]}
            for (rest, service), part in parts.items():
                held[node, grain, rest, service, own, account, *name] = [
                    a + us * b for a, b in zip(held[node, grain, rest, service, own, account, *name], part, strict=True)
                ]
                if place.memory_mib is None:
                    vague.add((node, grain, rest, service, None, None))
                if unknown and rest == NOWHERE:
                    vague.add((node, grain, "supply", None, None, None))
                if unknown:
                    vague.add((node, grain, account, own, *name))
            over = [(want[n] or 0) - got[n] for n in range(3)]
            if any(over):
                memo = (node, grain, *CLASSES[0], own, *name)
                excess[memo] = [a + us * b for a, b in zip(excess[memo], over, strict=True)]
                if unknown:
                    vague.add((node, grain, "overcommitted", own, *name))
    return settle(place, capacity, held, excess, vague)


def post_place(world: World, place: Place) -> Mapping[Key, tuple[int, int | None, int]]:
    """All rows of one place: (node, grain, account, service, pod, unit) -> amounts of share, memory and compute."""
    capacity: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    held: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    excess: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    vague: set[Key] = set()
    cuts = boundaries(world, place)
    for t, until in itertools.pairwise(cuts):
        us, grain, node = until - t, t // world.grain * world.grain, place.node_at(t)
        rest, base, since = state_at(world, place, t)
        cards = place.cards_at(t)
        if place.basis == "unknown" or (place.basis == "count" and cards == 0):
            rest = NOWHERE
        elif place.memory_mib is None:
            vague |= {(node, grain, "supply", None, None, None), (node, grain, rest, base, None, None)}
        for n, amount in enumerate((1_000_000, place.memory_mib or 0, 100)):
            capacity[node, grain, rest, base][n] += us * cards * amount
        active = active_at(world, place, t)
        wants = [asked(row, place) for row in active]
        memory_cap = None if place.memory_mib is None else cards * place.memory_mib
        caps = (cards * 1_000_000, memory_cap, cards * 100)
        gets = (
            list(zip(*(scaled([want[n] for want in wants], caps[n]) for n in range(3)), strict=True)) if wants else []
        )
        for row, want, got in zip(active, wants, gets, strict=True):
            own = base
            if since is not None:
                own = "down" if t >= since + toleration_of(world, row["pod_uid"]) else "unknown"
            account = account_of(row, place)
            key = (node, grain, rest, base, own, account, row["pod_uid"], row["unit_id"])
            if want[1] is None:
                vague.add((node, grain, account, own, row["pod_uid"], row["unit_id"]))
                if rest == NOWHERE:
                    vague.add((node, grain, "supply", None, None, None))
            if want[1] is None and want != got:
                vague.add((node, grain, "overcommitted", own, row["pod_uid"], row["unit_id"]))
            for n in range(3):
                held[key][n] += us * (got[n] or 0)
                excess[node, grain, rest, base, own, row["pod_uid"], row["unit_id"]][n] += us * (
                    (want[n] or 0) - (got[n] or 0)
                )
    return settle(place, capacity, held, excess, vague)


def settle(
    place: Place,
    capacity: Mapping[Key, list[int]],
    held: Mapping[Key, list[int]],
    excess: Mapping[Key, list[int]],
    vague: set[Key],
) -> Mapping[Key, tuple[int, int | None, int]]:
    """Floor once per holder, grain and class; the rest of each class is free or unobserved; supply is what all of it is."""
    rows: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])

    def book(key: Key, amounts: Sequence[int], sign: int = 1) -> None:
        for n in range(3):
            rows[key][n] += sign * amounts[n]

    for (node, grain, rest, base), amounts in capacity.items():
        if rest != NOWHERE:
            whole = [amounts[0] // 1_000_000, *amounts[1:]]
            book((node, grain, "supply", None, None, None), whole)
            book((node, grain, rest, base, None, None), whole)
    for (node, grain, rest, base, own, account, pod, unit), amounts in held.items():
        floored = [amounts[0] // 1_000_000, *amounts[1:]]
        book((node, grain, account, own, pod, unit), floored)
        if rest == NOWHERE:
            book((node, grain, "supply", None, None, None), floored)
        else:
            book((node, grain, rest, base, None, None), floored, -1)
    for (node, grain, _rest, _base, own, pod, unit), amounts in excess.items():
        book((node, grain, "overcommitted", own, pod, unit), [amounts[0] // 1_000_000, *amounts[1:]])
    settled: dict[Key, tuple[int, int | None, int]] = {}
    for key, (share, memory, cores) in rows.items():
        known = key not in vague
        if share or (known and memory) or cores:
            settled[key] = (share, memory if known else None, cores)
    return settled


def slot_places(world: World, places: Sequence[Place]) -> Iterator[Place]:
    """The time between an old and a new card of a slot."""
    spans = {place.name: (place.start, place.end) for place in places if place.kind == "device"}
    by_slot: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(world.slots, key=lambda r: (r["valid_from_at"], r["last_seen_at"], r["device_uuid"])):
        by_slot[row["node"], row["slot"]].append(row)
    for (node, slot), sitters in by_slot.items():
        gaps = []
        for old, new in itertools.pairwise(sitters):
            start, end = spans[old["device_uuid"]][1], spans[new["device_uuid"]][0]
            if old["device_uuid"] != new["device_uuid"] and start < end:
                gaps.append((start, end))
        if gaps:
            yield Place(
                "slot", f"{node}/{slot}", "slot", None, 0, FOREVER, [(*gap, 1) for gap in gaps], [(0, node)], gaps
            )


def slot_rows(world: World, slots: Sequence[Place]) -> Iterator[tuple[Key, tuple[int, None, int]]]:
    """Supply and unobserved time of slots between two cards."""
    for slot in slots:
        amounts: dict[int, int] = defaultdict(int)
        for start, end in slot.slots:
            at = start
            while at < end:
                grain = at // world.grain * world.grain
                amounts[grain] += min(end, grain + world.grain) - at
                at = grain + world.grain
        for grain, us in amounts.items():
            for account, service in (("supply", None), ("unobserved", "unknown")):
                yield ("slot", slot.name, slot.homes[0][1], grain, account, service, None, None), (us, None, us * 100)


def post_supply(world: World) -> dict[Key, tuple[int, int | None, int]]:
    """(place_kind, place_id, node, grain, account, service, pod_uid, unit_id) -> (amount_gpu_us, memory_mib_us, cores_percent_us)."""
    places = [*device_places(world), *other_places(world)]
    slots = list(slot_places(world, places))
    rows: dict[Key, tuple[int, int | None, int]] = dict(slot_rows(world, slots))
    for place in places:
        posted = (
            post_transfer(world, place, [*places, *slots]) if place.basis == "transfer" else post_place(world, place)
        )
        for key, amounts in posted.items():
            rows[(place.kind, place.name, *key)] = amounts
    return rows
