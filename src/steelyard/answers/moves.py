"""The smallest move that makes room for a request: which holders go where, so that it fits.

``fits`` asks where nothing fits as it is. Fewest pods first, then the least GPU share, then names. Each pod that moves must itself fit elsewhere,
or on what the request leaves of its node, all at once; where it goes is found by best fit. The search is bounded (``PODS_MAX`` pods, ``TRIES_MAX``
sets): that none was found within these bounds is said as such. Nothing is moved: it is a proposal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from steelyard.answers import card_spent
from steelyard.answers.free_shares import FreeShare, FreeShares
from steelyard.answers.placing import placed
from steelyard.answers.reading import Record
from steelyard.definitions.fragmentation import FreeCard, FreeNode, Shape, fits_node
from steelyard.definitions.share import WHOLE_PPM

PODS_MAX: Final = 3
TRIES_MAX: Final = 20_000
_HOLDERS_MAX: Final = 64

Home = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that can be moved: what it would ask for elsewhere. ``share_ppm``: of all its cards together."""

    cluster: str
    node: str | None
    pod_uid: str
    name: str
    tenant: str | None
    shape: Shape
    share_ppm: int
    cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """One pod, from where to where."""

    holder: Holder
    to_node: str | None


@dataclass(frozen=True, slots=True)
class Room:
    """The moves that make the request fit on ``node``; ``complete`` False: the search was cut off before every set of so many pods was tried."""

    cluster: str
    node: str | None
    moves: tuple[Move, ...]
    complete: bool


def smallest_move(free: FreeShares, shape: Shape, pods: Mapping[tuple[str, str], Record]) -> tuple[Room | None, bool]:
    """The smallest move, None where none was found, and whether every set within the bounds was tried. ``pods``: tenant and CPU by (cluster, uid)."""
    shares: dict[Home, list[FreeShare]] = {}
    for share in free.shares:
        shares.setdefault((share.cluster, share.node), []).append(share)
    holders = _holders(free.shares, pods)
    now = {home: node for home, node in free.nodes() if home in shares}
    complete = True
    left = TRIES_MAX
    for size in range(1, PODS_MAX + 1):
        found: list[tuple[int, str, str, tuple[str, ...], Home, tuple[Holder, ...]]] = []
        for home in sorted(shares, key=lambda each: (each[0], each[1] or "")):
            of_node = holders.get(home, [])
            complete = complete and len(of_node) <= _HOLDERS_MAX
            for group in combinations(of_node[:_HOLDERS_MAX], size):
                left -= 1
                if left < 0:
                    complete = False
                    break
                if fits_node(_node_without(shares[home], free.cpu_milli.get(home), group), shape) is True:
                    weight = sum(holder.share_ppm for holder in group)
                    names = tuple(holder.name for holder in group)
                    found.append((weight, home[0], home[1] or "", names, home, group))
        for _share, _cluster, _node, _names, home, group in sorted(found, key=lambda each: each[:4]):
            left -= 1
            if left < 0:
                complete = False
                break
            moves = _relocated(home, group, shape, shares, free, now)
            if moves is not None:
                return Room(home[0], home[1], moves, complete), complete
    return None, complete


def _holders(shares: Sequence[FreeShare], pods: Mapping[tuple[str, str], Record]) -> dict[Home, list[Holder]]:
    """By node, the pods all of whose cards are there and known; the smallest first."""
    rows: dict[tuple[str, str], list[tuple[FreeShare, Record]]] = {}
    for share in shares:
        for row in share.holders:
            rows.setdefault((share.cluster, row["pod_uid"]), []).append((share, row))
    found: dict[Home, list[Holder]] = {}
    for key, held in rows.items():
        homes = {(share.cluster, share.node) for share, _row in held}
        shape = _shape_of([row for _share, row in held], [share for share, _row in held], pods.get(key, {}))
        if len(homes) != 1 or shape is None:
            continue
        home = homes.pop()
        record = held[0][1]
        anonymous = held[0][0].record is None or held[0][0].anonymous
        taken = WHOLE_PPM * len(held) if anonymous else sum(row["share_ppm"] or 0 for _share, row in held)
        cards = tuple(sorted({share.device_uuid for share, _row in held if share.device_uuid and not share.anonymous}))
        holder = Holder(*home, record["pod_uid"], record["pod_name"], record["tenant"], shape, taken, cards)
        found.setdefault(home, []).append(holder)
    for of_node in found.values():
        of_node.sort(key=lambda holder: (holder.share_ppm, holder.name, holder.pod_uid))
    return found


def _shape_of(rows: Sequence[Record], shares: Sequence[FreeShare], pod: Record) -> Shape | None:
    """What a holder would ask for elsewhere: as much per card as it holds, of a card of the same model; None where nobody can tell."""
    models = {share.card.model for share in shares}
    if len(models) != 1 or any(row["occupancy"] != "held" or row["share_ppm"] is None for row in rows):
        return None
    model = models.pop()
    allowed = () if model is None else (model,)
    cpu = pod.get("cpu_milli")
    profiles = {row["profile"] for row in rows if row["unit_kind"] == "mig"}
    if profiles:
        return Shape(len(rows), cpu_milli=cpu, profile=profiles.pop(), models=allowed) if len(profiles) == 1 else None
    if all(share.record is None or share.anonymous for share in shares) or all(
        row["share_ppm"] >= WHOLE_PPM for row in rows
    ):
        return Shape(len(rows), WHOLE_PPM, cpu, models=allowed)
    memory = max((row["memory_mib"] or 0 for row in rows), default=0)
    cores = max((row["cores_percent"] or 0 for row in rows), default=0)
    if not memory and not cores:
        return Shape(len(rows), max(row["share_ppm"] for row in rows), cpu, models=allowed)
    return Shape(len(rows), None, cpu, memory or None, cores or None, models=allowed)


def _node_without(shares: Sequence[FreeShare], cpu_milli: int | None, group: Sequence[Holder]) -> FreeNode:
    """The node if these pods were gone. A card that is busy counts where nobody is left on it."""
    pods = {holder.pod_uid for holder in group}
    cards = tuple(card for share in shares if (card := _card_without(share, pods)) is not None)
    freed = [holder.shape.cpu_milli for holder in group]
    known = cpu_milli is not None and None not in freed
    return FreeNode(cards, (cpu_milli or 0) + sum(milli or 0 for milli in freed) if known else None)


def _card_without(share: FreeShare, pods: Collection[str]) -> FreeCard | None:
    if share.unknown is not None:
        return None
    is_emptied = all(row["pod_uid"] in pods for row in share.holders)
    if share.blocked is not None and not (share.blocked in card_spent.SPENT and is_emptied):
        return None
    return share.without(pods)


def _relocated(
    home: Home,
    group: Sequence[Holder],
    shape: Shape,
    shares: Mapping[Home, Sequence[FreeShare]],
    free: FreeShares,
    now: Mapping[Home, FreeNode],
) -> tuple[Move, ...] | None:
    """Where each pod goes once the request is on its node; None where one of them finds no place. The largest is placed first."""
    own = placed(_node_without(shares[home], free.cpu_milli.get(home), group), shape)
    if own is None:
        return None
    nodes = {**{each: node for each, node in now.items() if each[0] == home[0]}, home: own}
    moves: dict[str, Move] = {}
    for holder in sorted(group, key=lambda each: (-each.share_ppm, each.name, each.pod_uid)):
        target = min(_targets(nodes, holder.shape), default=None)
        if target is None:
            return None
        _room, _name, to_home, node = target
        nodes[to_home] = node
        moves[holder.pod_uid] = Move(holder, to_home[1])
    return tuple(moves[holder.pod_uid] for holder in group)


def _targets(nodes: Mapping[Home, FreeNode], shape: Shape) -> Iterator[tuple[int, str, Home, FreeNode]]:
    """(free share left, name, home, node with the pod on it) of each node on which it fits."""
    for home, node in nodes.items():
        after = placed(node, shape)
        if after is not None:
            yield sum(card.free_ppm for card in after.cards), home[1] or "", home, after
