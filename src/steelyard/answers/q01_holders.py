"""Q1: who holds which GPU, MIG slice or vGPU, now or at any past instant; root key: physical UUID, then unit, then pod.

``answer`` is what the registry calls. It stands on ``ledger.holding`` (who, from when to when), ``dim.device`` (which cards) and
the listings in ``fact.source_status`` (who was watching). The trick to know: a holding with dated ends is held at every instant
between them, but "free" may only be said of instants at which somebody saw all pods; otherwise the rest of the card is unobserved.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Final

from steelyard.answers import dimensions, grounds
from steelyard.answers import scene as scene_rows
from steelyard.answers.contract import Answer, Column, Evidence, Figure, Table, Value
from steelyard.answers.dimensions import Filter
from steelyard.answers.holding_tables import (
    DEVICE_COLUMNS,
    GROUP_COLUMNS,
    HOLDER_COLUMNS,
    ZONE_COLUMNS,
    device_rows,
    gpus_of,
    group_rows,
    holder_rows,
    least_sum_ppm,
    unsettled_reason,
    zone_rows,
)
from steelyard.answers.narrowing import Home
from steelyard.answers.reading import Reading, Rows
from steelyard.answers.scene import (
    CARD_PPM,
    Card,
    Holders,
    Scene,
    at_least,
    fill,
    grain_us_of,
    grain_window,
    narrow,
    pod_name,
)
from steelyard.definitions import conservation, holding_interval, share
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
VERSION: Final = "1"
_SHARE: Final = f"share {share.VERSION}"
_BOOKS: Final = f"conservation {conservation.VERSION}"
_HOLDING: Final = f"holding_interval {holding_interval.VERSION}"

_OF_CAPACITY: Final = ("gpus_supply", "gpus_overcommitted", "gpus_free", "gpus_out_of_service", "gpus_unobserved")
"""The figures that need to know how many cards there are."""

_OF_PODS: Final = frozenset(
    {
        "devices_held_count", "gpus_held", "gpus_held_unplaced", "gpus_reserved", "gpus_in_suspense", "holders_count",
        "holders_share_unknown_count", "holders_possible_count", "devices_unknown_count",
    }
)  # fmt: skip
"""The figures that need somebody to have read the pods."""

_NAMES_LISTED: Final = 8
_REASONS_LISTED: Final = 3
_UUID: Final = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")

FIGURES: Final[Mapping[str, tuple[str, str]]] = {
    "devices_count": ("1", "physical cards known at the instant, by UUID"),
    "devices_held_count": ("1", "cards of which a part is known to be held; what is held unplaced is on no known card"),
    "devices_lost_count": ("1", "cards that driver or kernel reports as gone"),
    "gpus_supply": (
        "GPU",
        f"{_BOOKS}: cards known by UUID, and counted cards of places without known UUIDs; where holders are asked about, "
        "the cards on which they hold something",
    ),
    "gpus_held": ("GPU", f"{_SHARE}: sum of the shares of bound, unfinished pods"),
    "gpus_held_unplaced": ("GPU", f"{_SHARE}: the part of gpus_held whose physical card is not known"),
    "gpus_reserved": ("GPU", f"{_SHARE}: sum of the shares reserved by the scheduler and not bound"),
    "gpus_in_suspense": ("GPU", f"{_SHARE}: sum of the shares of claims that are not accepted"),
    "gpus_overcommitted": ("GPU", f"{_BOOKS}: shares above one whole card, or above a place's supply"),
    "gpus_free": (
        "GPU",
        f"{_BOOKS}: supply - held - reserved - in_suspense - out of service, where all pods were seen",
    ),
    "gpus_out_of_service": (
        "GPU",
        f"{_BOOKS}: what nobody holds of cards that are lost, unhealthy or on a node that is not ready",
    ),
    "gpus_unobserved": ("GPU", f"{_BOOKS}: what is not held, reserved or in suspense where not all holders are known"),
    "holders_count": ("1", f"{_HOLDING}: pods that hold at least one unit"),
    "holders_share_unknown_count": ("1", f"{_SHARE}: pods that hold a card of which it is not known how much"),
    "holders_possible_count": ("1", f"{_HOLDING}: pods last seen before the instant whose end is not known"),
    "devices_unknown_count": ("1", f"{_HOLDING}: held cards, replicas or instances whose physical card is not known"),
}


@dataclass(frozen=True, slots=True)
class HoldersSpec:
    """Q1 as asked: ``at`` None = the last instant that is known; ``by`` groups; ``where`` narrows (dimension or label -> value).

    ``confined``: whoever asks may not learn which names exist, so one that nobody knows holds nothing instead of being refused.
    """

    at: Instant | None = None
    by: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    confined: bool = False


def title() -> str:
    """What the question asks, in the chosen language."""
    return _("Who holds which GPU, MIG slice or vGPU")


def answer(rows: Rows, spec: HoldersSpec) -> Answer:
    """Who holds what at ``spec.at``.

    Tables ``holders`` (one row per holding), ``devices`` (every card, the free, lost and asset-only ones too), ``zones`` where a node tells its
    NUMA zones and, with ``by``, ``groups``.
    Outside the stretch that is known every figure is Unknown and nothing is listed. Raises UsageError for an unknown dimension and for
    an empty store. Method: definitions 1 to 3; a sceptic runs ``kubectl get pods -A -o json`` and ``nvidia-smi -L``.
    """
    reading = Reading(rows, SQL, scene_rows.SQL, grounds.SQL, dimensions.SQL)
    by = dimensions.chosen(spec.by, dimensions.HOLDING, reading)
    where = dimensions.filters(spec.where, dimensions.HOLDING, reading)
    times = grounds.known_times(reading)
    at = spec.at if spec.at is not None else max(time.last for time in times)
    scene = Scene(by_pod=bool(by or where), device_uuid=_one_card(spec.where))
    fill(scene, reading, times, spec.at)
    outside = "; ".join(scene.outside) if len(scene.outside) == len(times) else None
    balance = grounds.residual(reading, grain_window(grain_us_of(reading), at), outside)
    if outside is not None:
        figures = _unknown_figures(outside)
        return _assemble(spec, at, scene, (*figures, balance), (), reading)
    if spec.confined:
        scene.namespaces.clear()  # which namespaces there are is not the asker's to know
    else:
        of_cards = (card.record for card in scene.cards.values())
        met = chain(scene.holders.records(), scene.possible.records(), of_cards)
        dimensions.require_known(where, met, reading)
    narrow(scene, where, spec.confined)
    _tell_ended(scene, spec, reading, at, where)
    figures, coverage = _figures(scene)
    figures = grounds.unless_no_pods_were_read(figures, times, _OF_PODS, where)
    tables = [Table("holders", HOLDER_COLUMNS, holder_rows(scene.holders, scene.holders["neighbours"]))]
    tables.append(Table("devices", DEVICE_COLUMNS, device_rows(list(scene.cards.values()))))
    if scene.possible:
        tables.append(Table("possible_holders", HOLDER_COLUMNS, holder_rows(scene.possible)))
    if scene.unsettled:
        tables.append(Table("unplaced_holders", HOLDER_COLUMNS, holder_rows(scene.unsettled)))
    if scene.zones:
        tables.append(Table("zones", ZONE_COLUMNS, zone_rows(scene.zones)))
    if by:
        tables.insert(0, Table("groups", (*(Column(d.name) for d in by), *GROUP_COLUMNS), group_rows(scene, by)))
    return _assemble(spec, at, scene, (*figures, balance), tables, reading, coverage)


def _tell_ended(scene: Scene, spec: HoldersSpec, reading: Reading, at: Instant, where: Sequence[Filter]) -> None:
    """A pod that is asked about and holds nothing any more: since when."""
    named = next((spec.where[name] for name in ("pod", "pod_uid") if name in spec.where), None)
    if named is None or scene.holders or scene.unsettled:
        return
    for row in reading.run("ended", pod=named, at_us=at):
        if all(condition.admits(row) for condition in where):
            scene.capacity_unknown = _("pod {pod} ended at {ended} and holds no card at this instant").format(
                pod=pod_name(row), ended=format_instant(row["ended_us"])
            )
            return


def _one_card(where: Mapping[str, str]) -> str | None:
    """The card that alone is asked about, by its whole UUID: then nothing else is fetched."""
    named = next((where[name] for name in ("gpu", "device") if name in where), "")
    return named if _UUID.match(named) else None


def _figures(scene: Scene) -> tuple[list[Figure], float | Unknown]:
    held = scene.holders.where("occupancy", "held")
    unplaced = held.where("device_uuid", None)
    cards = [*scene.cards.values(), *scene.places]
    supply = sum(card.supply_ppm for card in cards)
    values: dict[str, Value] = {
        "devices_count": len(scene.cards),
        "devices_held_count": sum(1 for card in scene.cards.values() if card.held_ppm or "held" in card.share_unknown),
        "devices_lost_count": sum(1 for card in scene.cards.values() if card.lost),
        "gpus_held": gpus_of(held),
        "gpus_held_unplaced": gpus_of(unplaced),
        "gpus_reserved": gpus_of(scene.holders.where("occupancy", "reserved")),
        "gpus_in_suspense": gpus_of(scene.holders.where("occupancy", "in_suspense")),
        "holders_count": _pods_count(held),
        "holders_share_unknown_count": _pods_count(held.where("share_ppm", None)),
        "holders_possible_count": _pods_count(scene.possible),
        "devices_unknown_count": sum(unplaced["quantity"]),
    }
    if not values["devices_held_count"] and unplaced:
        values["devices_held_count"] = Unknown(_("what is held is on cards of which none is known"))
    _unsettle(scene, values)
    reason = _capacity_unknown(scene)
    if reason is not None:
        values.update(dict.fromkeys(_OF_CAPACITY, Unknown(reason)))
        coverage: float | Unknown = Unknown(reason)
    else:
        unobserved = _balance(scene, cards, supply, values)
        if scene.unsettled:
            values["gpus_overcommitted"] = Unknown(unsettled_reason(scene))
            if any(card.down for card in cards):
                values["gpus_out_of_service"] = Unknown(unsettled_reason(scene))
        nothing = Unknown(_("no card of this estate is in service"))
        coverage = float(Fraction(supply - unobserved, supply)) if supply else nothing
    return [Figure(name, values[name], unit, method, coverage) for name, (unit, method) in FIGURES.items()], coverage


def _unsettle(scene: Scene, values: dict[str, Value]) -> None:
    """Make unknown what holders add whose card may be one of those asked about; what is certain stays as the least."""
    if not scene.unsettled:
        return
    reason = unsettled_reason(scene)
    for occupancy in set(scene.unsettled["occupancy"]):
        certain = scene.holders.where("occupancy", occupancy)
        least = least_sum_ppm(certain["share_ppm"], certain["share_at_least_ppm"])
        values[f"gpus_{occupancy}"] = Unknown(reason + at_least(least))
    held = scene.unsettled.where("occupancy", "held")
    if held:
        names = ("gpus_held_unplaced", "devices_held_count", "devices_unknown_count", "holders_count")
        values.update(dict.fromkeys(names, Unknown(reason)))
    if None in held["share_ppm"]:
        values["holders_share_unknown_count"] = Unknown(reason)


def _capacity_unknown(scene: Scene) -> str | None:
    """Why the capacity of what is asked about is not known; None = it is."""
    if scene.capacity_unknown is not None:
        return scene.capacity_unknown
    if scene.uncounted:
        return _(
            "no capacity basis for node {nodes}: no inventory, register, label or declaration tells its cards"
        ).format(nodes=_listed([str(node["node"]) for node in scene.uncounted]))
    return None if scene.cards or scene.places else _("no card of this estate is known")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMES_LISTED]) + (", ..." if len(names) > _NAMES_LISTED else "")


@dataclass(slots=True)
class _Rest:
    """What is left of the cards of a home: in all, of those out of service, of those of which it may not be called free."""

    all_ppm: int = 0
    broken_ppm: int = 0
    doubtful_ppm: int = 0

    def add(self, other: _Rest) -> None:
        """What is left of another home."""
        self.all_ppm += other.all_ppm
        self.broken_ppm += other.broken_ppm
        self.doubtful_ppm += other.doubtful_ppm


def _take_from(rest: _Rest, asked_ppm: int) -> int:
    """Take what holders without a known card hold, in the ledger's order: what is free, then what is in doubt, then what is out of service. Returns
    what is asked beyond all of it."""
    taken = min(rest.all_ppm, asked_ppm)
    rest.all_ppm -= taken
    rest.broken_ppm = min(rest.all_ppm, rest.broken_ppm)
    rest.doubtful_ppm = min(rest.all_ppm - rest.broken_ppm, rest.doubtful_ppm)
    return asked_ppm - taken


def _balance(scene: Scene, cards: Sequence[Card], supply: int, values: dict[str, Value]) -> int:
    """Fill in where the supply stands, node by node; returns what of it is unobserved, in ppm of a card.

    A holder without a known card takes from the rest of its node, one without a known node from what the nodes of its cluster leave; what is out of
    service is taken last.
    """
    rests: dict[Home, _Rest] = {}
    over = 0
    reasons = set()
    for card in cards:
        rest_ppm = card.supply_ppm - card.taken_ppm
        if rest_ppm < 0:
            over, rest_ppm = over - rest_ppm, 0
        rest = rests.setdefault((card.record["cluster"], card.record["node"]), _Rest())
        rest.all_ppm += rest_ppm
        if card.down:
            rest.broken_ppm += rest_ppm
            continue
        doubt = _doubt(card)
        if doubt is not None:
            rest.doubtful_ppm += rest_ppm
            reasons.add(doubt)
    unplaced: dict[Home, int] = {}
    for row in scene.holders.where("device_uuid", None).records():
        home = (row["cluster"], row["node"])
        home = home if home in rests else (row["cluster"], None)
        unplaced[home] = unplaced.get(home, 0) + (row["share_ppm"] or 0)
    of_clusters: dict[str, _Rest] = {}
    for home, rest in rests.items():
        over += _take_from(rest, unplaced.pop(home, 0))
        of_clusters.setdefault(home[0], _Rest()).add(rest)
    for cluster, rest in of_clusters.items():
        over += _take_from(rest, sum(asked for (of, _node), asked in unplaced.items() if of == cluster))
    over += sum(asked for (cluster, _node), asked in unplaced.items() if cluster not in of_clusters)
    out = sum(rest.broken_ppm for rest in of_clusters.values())
    left = sum(rest.all_ppm - rest.broken_ppm for rest in of_clusters.values())
    unobserved = sum(rest.doubtful_ppm for rest in of_clusters.values())
    free: Value = Unknown("; ".join(sorted(reasons)[:_REASONS_LISTED])) if reasons else Fraction(left, CARD_PPM)
    amounts = {
        "gpus_supply": supply,
        "gpus_overcommitted": over,
        "gpus_out_of_service": out,
        "gpus_unobserved": unobserved,
    }
    values.update({name: Fraction(amount, CARD_PPM) for name, amount in amounts.items()})
    values["gpus_free"] = free
    return unobserved


def _doubt(card: Card) -> str | None:
    """Why what is left of a card in service may not be called free; None = it may."""
    if not card.watched:
        return _("not all pods were seen at this instant")
    return card.doubt if card.taken_ppm < card.supply_ppm else None


def _pods_count(holders: Holders) -> int:
    pods: dict[str, set[str]] = {}
    for cluster, uid in zip(holders["cluster"], holders["pod_uid"], strict=True):
        pods.setdefault(cluster, set()).add(uid)
    return sum(len(uids) for uids in pods.values())


def _unknown_figures(reason: str) -> list[Figure]:
    unknown = Unknown(reason)
    return [Figure(name, unknown, unit, method, unknown) for name, (unit, method) in FIGURES.items()]


def _assemble(
    spec: HoldersSpec,
    at: Instant,
    scene: Scene,
    figures: Sequence[Figure],
    tables: Sequence[Table],
    reading: Reading,
    coverage: float | Unknown | None = None,
) -> Answer:
    subjects = None
    if spec.where:
        subjects = {f"pod {name}" for name in scene.holders["pod_name"]}
        subjects |= {f"device {card.record['device_uuid']}" for card in scene.cards.values()}
        subjects |= {f"node {card.record['node']}" for card in scene.cards.values()}
    cluster = grounds.cluster_asked(spec.where)
    notes, total = grounds.finding_notes(reading, subjects, cluster)
    blind = [*scene.outside, *_blind_spots(scene)]
    if total > len(notes):
        blind.append(_("{count} more findings are not listed here").format(count=total - len(notes)))
    return Answer(
        question="q1",
        title=title(),
        window=None,
        as_of=at,
        figures=figures,
        tables=tables,
        definitions=grounds.definitions(reading, {"q01_holders": VERSION}),
        sources=grounds.source_lines(reading, cluster),
        coverage=Unknown("; ".join(scene.outside)) if coverage is None else coverage,
        blind_spots=blind,
        findings=notes,
        evidence=_evidence(scene, spec),
        next_actions=_next_actions(scene),
        explain=dict(reading.ran) if spec.explain else {},
    )


def _unwatched(scene: Scene) -> bool:
    return any(not place.watched for place in (*scene.cards.values(), *scene.places))


def _blind_spots(scene: Scene) -> list[str]:
    spots = []
    if _unwatched(scene):
        spots.append(
            _("not all pods were seen at this instant: a holder that left before the first listing is missing")
        )
        if scene.namespaces:
            spots.append(
                _(
                    "pods of namespace {namespaces} alone were listed: pods of other namespaces may hold the rest"
                ).format(namespaces=_listed(sorted(scene.namespaces)))
            )
    if None in scene.holders["device_uuid"]:
        spots.append(_("some holders are known by node only: their card is one of the node's, which one is not known"))
    if scene.unsettled:
        spots.append(unsettled_reason(scene))
    if any(card.doubt for card in scene.cards.values()) or any(place.doubt for place in scene.places):
        spots.append(
            _("some pods hold a card of which no source tells which or how much: what may be theirs is not called free")
        )
    if any(card.down for card in (*scene.cards.values(), *scene.places)):
        spots.append(_("cards that are lost, unhealthy or on a node that is not ready are out of service, not free"))
    if scene.uncounted:
        spots.append(_("some nodes have cards that nothing counts: supply and what is free are not known"))
    if "declared" in scene.holders["evidence_grade"]:
        spots.append(_("holders of grade declared stand on an annotation or request alone"))
    spots.append(_("a process that no pod owns holds nothing here; Q7 looks for those"))
    return spots


def _evidence(scene: Scene, spec: HoldersSpec) -> list[Evidence]:
    holders = scene.holders
    pod = "kubectl get pods --all-namespaces -o json"
    if holders and spec.where:
        namespace, name = holders["namespace"][0] or "", holders["pod"][0] or ""
        pod = f"kubectl get pod -n {shlex.quote(namespace)} {shlex.quote(name)} -o yaml"
    node = next(filter(None, holders["node"]), None)
    where = _("node {node}").format(node=node) if node else _("each GPU node")
    return [
        Evidence(_("the pods and their allocation annotations"), "ledger.holding", pod),
        Evidence(_("the cards and their UUIDs"), where, "nvidia-smi -L"),
        Evidence(
            _("the processes on the cards"),
            where,
            "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv",
        ),
    ]


def _next_actions(scene: Scene) -> list[str]:
    actions = []
    if scene.outside:
        actions.append(_("import files of the missing time, or ask within the known time"))
    if None in scene.holders["device_uuid"] or scene.unsettled:
        actions.append(_("import the PodResources dump of the node to learn which card these pods hold"))
    if scene.uncounted:
        actions.append(_("import the cards of the uncounted nodes (nvidia-smi -L, GFD labels) or declare their number"))
    if _unwatched(scene) and scene.namespaces:
        actions.append(
            _(
                "if that listing was of the whole cluster (kubectl get pods -A), import it again with "
                "--all-namespaces; else list all namespaces"
            )
        )
    if _unwatched(scene):
        actions.append(_("import pod listings regularly and declare their distance with --expected-interval"))
    if "declared" in scene.holders["evidence_grade"]:
        actions.append(_("import nvidia-smi process lists or PodResources dumps to corroborate declared holders"))
    return actions
