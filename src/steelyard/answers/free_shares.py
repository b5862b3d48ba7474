"""What is free of each card at an instant, as far as anybody can tell, and what keeps the rest from being placed on.

``fragmentation``, ``fits`` and Q3 call ``free_shares``. It stands on the scene of the instant (as Q1 does), so any instant that is known can be asked
about again. The trick to know: a pod that holds whole cards of a node without saying which (a plain ``nvidia.com/gpu``) leaves a known number of
whole cards where all of the node's free ones are alike, so the node is known although the card is not.

Sceptic's command: ``kubectl describe node NODE`` (Allocated resources) beside ``nvidia-smi -L`` and ``nvidia-smi mig -lgi``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from steelyard.answers import card_spent, grounds, scene
from steelyard.answers.card_spent import UnheldMemory
from steelyard.answers.grounds import KnownTime
from steelyard.answers.reading import Reading, Record
from steelyard.answers.scene import CARD_PPM, Card, Scene, fill, grain_us_of, grain_window
from steelyard.definitions.fragmentation import FreeCard, FreeNode, MigLayout
from steelyard.definitions.mig import MigSlices, legal_starts, mig_slices
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant

SQL: Final = Path(__file__).with_suffix(".sql")
"""States of a card in which a further holder takes from those that are there."""

_MASKS_MAX: Final = 4_096
_WHOLE_PERCENT: Final = 100


@dataclass(frozen=True, slots=True)
class FreeShare:
    """What is free of one card. ``device_uuid`` None: one of the counted cards of its node. ``unknown``: why it may not be called free at all.
    ``blocked``: why nothing may be added although it is free (``frozen``, ``memory_bound``, ``saturated``). ``state_known``: whether its state was
    seen, of a card that somebody holds. ``anonymous``: which card of the node it is, is not known. ``empty``: the card as it would be if nobody
    held it. ``unheld``: memory of it that is in use and that nobody was granted; ``card`` is less that, by ``unheld_ppm``."""

    cluster: str
    node: str | None
    device_uuid: str | None
    card: FreeCard
    empty: FreeCard
    unknown: str | None = None
    blocked: str | None = None
    state_known: bool = True
    anonymous: bool = False
    holders: tuple[Record, ...] = ()
    record: Record | None = None
    instances: tuple[Record, ...] = ()
    unheld: UnheldMemory | None = None
    unheld_ppm: int = 0

    def without(self, pods: Collection[str]) -> FreeCard:
        """The card as it would be if these pods (uids) held nothing of it."""
        left = [row for row in self.holders if row["pod_uid"] not in pods]
        if len(left) == len(self.holders):
            return self.card
        card = self.empty if self.record is None or not left else card_of(self.record, left, self.instances)
        return _less_unheld(card, self.unheld)

    @property
    def placeable(self) -> bool:
        """Whether a request may be placed on what is free of it."""
        return self.unknown is None and self.blocked is None and self.card.free_ppm > 0


@dataclass(slots=True)
class FreeShares:
    """All cards in service at the instant. ``supply_ppm``: of all of them. ``outside``: clusters that are not known then, with the reason;
    ``uncounted``: nodes whose cards nothing counts. ``cordons_known``: whether cordons are of the instant (they are known of the present alone)."""

    at: Instant
    shares: list[FreeShare] = field(default_factory=list)
    cpu_milli: dict[tuple[str, str | None], int | None] = field(default_factory=dict)
    supply_ppm: int = 0
    outside: list[str] = field(default_factory=list)
    uncounted: list[str] = field(default_factory=list)
    cordons_known: bool = True
    empty_cpu_milli: dict[tuple[str, str | None], int | None] = field(default_factory=dict)
    instances: dict[tuple[str, str], list[Record]] = field(default_factory=dict)

    def nodes(self, *, empty: bool = False) -> list[tuple[tuple[str, str | None], FreeNode]]:
        """Each node with the cards on which something may be placed; ``empty``: all its cards as they would be if nobody held any."""
        found: dict[tuple[str, str | None], list[FreeCard]] = {}
        for share in self.shares:
            if empty or share.placeable:
                found.setdefault((share.cluster, share.node), []).append(share.empty if empty else share.card)
        homes = sorted(found, key=lambda home: (home[0], home[1] or ""))
        cpus = self.empty_cpu_milli if empty else self.cpu_milli
        return [(home, FreeNode(tuple(found[home]), cpus.get(home))) for home in homes]


def statements() -> tuple[Path, ...]:
    """The files whose statements ``free_shares`` runs."""
    return (SQL, card_spent.SQL, scene.SQL, grounds.SQL)


def free_shares(reading: Reading, times: Sequence[KnownTime], at: Instant | None) -> FreeShares:
    """What is free at ``at`` (None: each cluster at its own last known instant). ``reading`` has the statements of ``statements``."""
    standing = Scene()
    fill(standing, reading, times, at)
    moment = at if at is not None else max(time.last for time in times)
    found = FreeShares(moment, outside=list(standing.outside))
    found.uncounted = sorted({str(row["node"]) for row in standing.uncounted})
    holders: dict[tuple[str, str | None], list[Record]] = {}
    unplaced: dict[tuple[str, str | None], list[Record]] = {}
    for row in standing.holders.records():
        if row["device_uuid"] is not None:
            holders.setdefault((row["cluster"], row["device_uuid"]), []).append(row)
        else:
            home = (row["cluster"], row["node"] if row["place_kind"] == "node" else None)
            unplaced.setdefault(home, []).append(row)
    grain_us = grain_us_of(reading)
    for time in times:
        instant = time.last if at is None else at
        if time.first <= instant <= time.last:
            _add_cluster(found, reading, time, instant, grain_us, standing, holders, unplaced)
    found.supply_ppm = CARD_PPM * len(found.shares)
    return found


def _add_cluster(
    found: FreeShares,
    reading: Reading,
    time: KnownTime,
    at: Instant,
    grain_us: int,
    standing: Scene,
    holders: Mapping[tuple[str, str | None], Sequence[Record]],
    unplaced: Mapping[tuple[str, str | None], Sequence[Record]],
) -> None:
    cluster = time.cluster
    cordoned: set[str] = set()
    for row in reading.run("free_nodes", cluster=cluster, at_us=at):
        found.cpu_milli[cluster, row["node"]] = row["cpu_milli"]
        found.empty_cpu_milli[cluster, row["node"]] = row["whole_cpu_milli"]
        if row["is_cordoned"]:
            cordoned.add(row["node"])
    is_now = at >= time.last
    found.cordons_known = found.cordons_known and is_now
    for row in reading.run("free_instances", cluster=cluster, reach_us=time.capacity_at(at)):
        found.instances.setdefault((cluster, row["device_uuid"]), []).append(row)
    grain = grain_window(grain_us, at)
    busy = {
        row["device_uuid"]: row["state"]
        for row in reading.run("free_busy_cards", cluster=cluster, grain_from_us=grain.start, grain_to_us=grain.end)
    }
    spent = {
        uuid: told.spent
        for (of_cluster, uuid, _at), told in card_spent.spent_cards(reading, grain).items()
        if told.spent is not None and of_cluster == cluster
    }
    unheld = card_spent.unheld_at(reading, at)
    shares = []
    for card in standing.cards.values():
        if card.record["cluster"] == cluster and card.supply_ppm and not card.down:
            own = holders.get((cluster, card.record["device_uuid"]), ())
            share = _share(card, own, found.instances, busy, spent, cordoned if is_now else frozenset(), is_now)
            shares.append(_with_unheld(share, unheld.get((cluster, card.record["device_uuid"]))))
    for place in standing.places:
        if place.record["cluster"] == cluster and not place.down:
            shares += _counted(place, place.record["node"] in cordoned and is_now)
    everywhere = unplaced.get((cluster, None), ())
    by_node: dict[str | None, list[FreeShare]] = {}
    for share in shares:
        by_node.setdefault(share.node, []).append(share)
    for node, of_node in by_node.items():
        found.shares += _less_unplaced(of_node, unplaced.get((cluster, node), ()), everywhere)


def _share(
    card: Card,
    holders: Sequence[Record],
    instances: Mapping[tuple[str, str], Sequence[Record]],
    busy: Mapping[str, str],
    spent: Mapping[str, str],
    cordoned: Iterable[str],
    is_now: bool,
) -> FreeShare:
    record = card.record
    uuid = record["device_uuid"]
    own = tuple(instances.get((record["cluster"], uuid), ()))
    shown = card_of(record, holders, own, taken_ppm=card.taken_ppm)
    empty = card_of(record, (), own, is_cut=shown.mig is not None)
    unknown = None
    if card.share_unknown or (not card.watched and shown.free_ppm):
        unknown = card.doubt or _("not all pods were seen at this instant")
    elif card.doubt and shown.free_ppm:
        unknown = card.doubt
    frozen = (is_now and (record["placeable"] is False or record["cordoned"])) or record["node"] in cordoned
    blocked = "frozen" if frozen else spent.get(uuid)
    known = not holders or (uuid in busy and not busy[uuid].startswith("held_unknown"))
    return FreeShare(
        record["cluster"],
        record["node"],
        uuid,
        shown,
        empty,
        unknown,
        blocked,
        known,
        False,
        tuple(holders),
        record,
        own,
    )


def _with_unheld(share: FreeShare, unheld: UnheldMemory | None) -> FreeShare:
    """The share less memory that is in use and that nobody was granted; unknown where nobody tells in which instance it
    lies, or how large the card is."""
    if unheld is None or share.unknown is not None or not share.card.free_ppm:
        return share
    if share.card.mig is not None or unheld.unheld_ppm is None:
        reason = _("{mib} MiB are in use on it that nobody was granted: what is left of it is not known")
        return replace(share, unknown=reason.format(mib=unheld.unheld_mib), unheld=unheld)
    card = _less_unheld(share.card, unheld)
    return replace(share, card=card, unheld=unheld, unheld_ppm=share.card.free_ppm - card.free_ppm)


def _less_unheld(card: FreeCard, unheld: UnheldMemory | None) -> FreeCard:
    if unheld is None or unheld.unheld_ppm is None:
        return card
    return replace(
        card,
        free_ppm=max(0, card.free_ppm - unheld.unheld_ppm),
        free_mib=None if card.free_mib is None else max(0, card.free_mib - unheld.unheld_mib),
    )


def card_of(
    record: Record,
    holders: Sequence[Record],
    instances: Sequence[Record],
    *,
    taken_ppm: int | None = None,
    is_cut: bool = False,
) -> FreeCard:
    """What is free of the card beside these holders. ``taken_ppm`` None: the sum of their shares. ``is_cut``: it is known to be cut into
    instances."""
    # What the sharing layer offers, which may be more than the card has; both sides of a ratio are of the same.
    memory = record["schedulable_memory_mib"] or record["memory_mib"]
    mibs, cores = ([row[name] for row in holders] for name in ("memory_mib", "cores_percent"))
    is_cut = is_cut or record["mode"] == "mig" or (record["mode"] is None and record["mig_enabled"] is True)
    is_cut = is_cut or any(row["unit_kind"] == "mig" for row in holders)
    slots = record["slots_count"]
    taken = sum(row["share_ppm"] or 0 for row in holders) if taken_ppm is None else taken_ppm
    return FreeCard(
        free_ppm=max(0, CARD_PPM - taken),
        model=record["model"],
        memory_mib=memory,
        free_mib=None if memory is None or None in mibs else max(0, memory - sum(mibs)),
        free_percent=None if None in cores else max(0, _WHOLE_PERCENT - sum(cores)),
        slots=None if slots is None or is_cut else max(0, slots - len(holders)),
        mig=_layout(record, holders, instances, _layout_total(record)) if is_cut else None,
    )


def _layout_total(record: Record) -> tuple[int, int]:
    """Compute and memory slices of a card that is cut: by what its model offers, 7 and 8 where that is in no table."""
    for profile in ("1g.5gb", "1g.6gb", "1g.10gb", "1g.12gb", "1g.18gb", "1g.23gb", "1g.24gb", "1g.34gb"):
        slices = mig_slices(profile, record["model"], record["memory_mib"])
        if isinstance(slices, MigSlices) and not slices.estimated:
            return slices.compute_total, slices.memory_total
    return 7, 8


def _layout(
    record: Record, holders: Sequence[Record], instances: Sequence[Record], total: tuple[int, int]
) -> MigLayout:
    """Where the held instances lie: as told, else every way in which they can lie."""
    compute_total, memory_total = total
    by_unit = {row["unit_id"]: row for row in instances if row["unit_id"] is not None}
    by_gi = {row["gi"]: row for row in instances if row["gi"] is not None}
    parts: list[tuple[int | None, MigSlices]] = []
    seen: set[object] = set()
    for holder in holders:
        told = by_unit.get(holder["unit_id"]) or by_gi.get(holder["gi"]) or {}
        gi = holder["gi"] if holder["gi"] is not None else told.get("gi")
        if gi is not None and gi in seen:
            continue  # two compute instances of one GPU instance take its memory once
        seen.add(gi)
        profile = holder["profile"] or told.get("profile")
        whole = None if profile is None else profile.rpartition("c.")[2] if "c." in profile else profile
        slices = None if whole is None else mig_slices(whole, record["model"], record["memory_mib"])
        if not isinstance(slices, MigSlices) or slices.memory_total != memory_total:
            return MigLayout((), 0, memory_total, compute_total)
        size = told.get("placement_size")
        start = told.get("placement_start") if size in (None, slices.memory) else None
        parts.append((start, slices))
    masks = _arrangements(parts)
    compute = compute_total - sum(slices.compute for _start, slices in parts)
    return MigLayout(tuple(sorted(masks)), max(0, compute), memory_total, compute_total)


def _arrangements(parts: Sequence[tuple[int | None, MigSlices]]) -> set[int]:
    """Every set of memory slices (as bits) that instances of these slices can take together; those whose start is told lie there."""
    masks = {0}
    for start, slices in sorted(parts, key=lambda part: (part[0] is None, -part[1].memory)):
        starts = (start,) if start is not None else legal_starts(slices)
        wanted = (1 << slices.memory) - 1
        masks = {mask | wanted << at for mask in masks for at in starts if not mask & wanted << at}
        if len(masks) > _MASKS_MAX:
            return set()
    return masks


def _counted(place: Card, is_cordoned: bool) -> list[FreeShare]:
    """The cards of a node that are counted and not named, as if nobody held any: ``_less_unplaced`` takes what is held."""
    record = place.record
    card = FreeCard(CARD_PPM, record["model"], record["memory_mib"], record["memory_mib"], _WHOLE_PERCENT)
    unknown = None
    if place.share_unknown or not place.watched or place.doubt:
        unknown = place.doubt or _("not all pods were seen at this instant")
    one = FreeShare(
        record["cluster"], record["node"], None, card, card, unknown, "frozen" if is_cordoned else None, anonymous=True
    )
    return [one] * (place.supply_ppm // CARD_PPM)


def _less_unplaced(
    shares: Sequence[FreeShare], of_node: Sequence[Record], everywhere: Sequence[Record]
) -> list[FreeShare]:
    """The cards of one node less what pods hold there without a known card."""
    if everywhere:
        reason = _("no source tells on which node the cards of {count} pods lie").format(count=len(everywhere))
        return [_not_known(share, reason) for share in shares]
    if not of_node:
        return list(shares)
    whole = [share for share in shares if _is_whole(share)]
    takers = [row for row in of_node for _card in range(int(row["quantity"]))]
    plain = all(row["share_ppm"] == int(row["quantity"]) * CARD_PPM for row in of_node)
    alike = len({(share.card, share.blocked) for share in whole}) == 1
    if not plain or not alike or len(takers) > len(whole):
        reason = _("a pod whose card is unknown may hold it")
        return [_not_known(share, reason) for share in shares]
    left: list[FreeShare] = []
    for share in shares:
        if not _is_whole(share):
            left.append(share)
        elif takers:
            memory = None if share.card.memory_mib is None else 0
            card = replace(share.card, free_ppm=0, free_mib=memory, free_percent=0)
            left.append(replace(share, card=card, anonymous=True, state_known=False, holders=(takers.pop(0),)))
        else:
            left.append(replace(share, anonymous=True))
    return left


def _is_whole(share: FreeShare) -> bool:
    return share.card.whole and share.card.mig is None and share.unknown is None


def _not_known(share: FreeShare, reason: str) -> FreeShare:
    return share if share.unknown or not share.card.free_ppm else replace(share, unknown=reason)
