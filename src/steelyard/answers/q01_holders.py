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
from pathlib import Path
from typing import Final

from steelyard.answers import clipping, dimensions, grounds
from steelyard.answers.contract import Answer, Column, Evidence, Figure, Table, Value
from steelyard.answers.dimensions import Dimension, Filter
from steelyard.answers.grounds import KnownTime
from steelyard.answers.reading import Reading, Record, Rows
from steelyard.definitions import conservation, holding_interval, share
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, Instant, Window, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
VERSION: Final = "1"
CARD_PPM: Final = 1_000_000
_SHARE: Final = f"share {share.VERSION}"
_BOOKS: Final = f"conservation {conservation.VERSION}"
_HOLDING: Final = f"holding_interval {holding_interval.VERSION}"

HOLDER_COLUMNS: Final = (
    Column("device_uuid"),
    Column("namespace"),
    Column("pod"),
    Column("share_ratio", "GPU"),
    Column("memory_mib", "MiB"),
    Column("cores_percent", "%"),
    Column("tenant"),
    Column("occupancy"),
    Column("unit_kind"),
    Column("unit_id"),
    Column("profile"),
    Column("containers"),
    Column("workload"),
    Column("started_at"),
    Column("ended_at"),
    Column("evidence_grade"),
    Column("node"),
    Column("device_index"),
    Column("model"),
    Column("neighbours"),
    Column("scheme"),
    Column("start_basis"),
    Column("share_basis"),
    Column("cluster"),
)
DEVICE_COLUMNS: Final = (
    Column("device_uuid"),
    Column("node"),
    Column("device_index"),
    Column("model"),
    Column("memory_mib", "MiB"),
    Column("occupancy"),
    Column("share_held_ratio", "GPU"),
    Column("share_reserved_ratio", "GPU"),
    Column("share_in_suspense_ratio", "GPU"),
    Column("share_free_ratio", "GPU"),
    Column("holders_count", "1"),
    Column("state"),
    Column("state_reason"),
    Column("healthy"),
    Column("placeable"),
    Column("cordoned"),
    Column("mode"),
    Column("basis"),
    Column("serial"),
    Column("cluster"),
)
GROUP_COLUMNS: Final = (
    Column("gpus_held", "GPU"),
    Column("gpus_reserved", "GPU"),
    Column("gpus_in_suspense", "GPU"),
    Column("devices_count", "1"),
    Column("holders_count", "1"),
    Column("memory_mib", "MiB"),
    Column("cores_percent", "%"),
)
_NO_CARD: Final[Record] = dict.fromkeys(("device_index", "model", "vendor", "node", "memory_mib"))
_UUID: Final = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")

FIGURES: Final[Mapping[str, tuple[str, str]]] = {
    "devices_count": ("1", "physical cards known at the instant, by UUID"),
    "devices_held_count": ("1", "cards of which at least a part is held"),
    "devices_lost_count": ("1", "cards that driver or kernel reports as gone"),
    "gpus_supply": ("GPU", f"{_BOOKS}: cards known by UUID, and counted cards of places without known UUIDs"),
    "gpus_held": ("GPU", f"{_SHARE}: sum of the shares of bound, unfinished pods"),
    "gpus_held_unplaced": ("GPU", f"{_SHARE}: the part of gpus_held whose physical card is not known"),
    "gpus_reserved": ("GPU", f"{_SHARE}: sum of the shares reserved by the scheduler and not bound"),
    "gpus_in_suspense": ("GPU", f"{_SHARE}: sum of the shares of claims that are not accepted"),
    "gpus_overcommitted": ("GPU", f"{_BOOKS}: shares above one whole card, or above a place's supply"),
    "gpus_free": ("GPU", f"{_BOOKS}: supply - held - reserved - in_suspense - lost, where all pods were seen"),
    "gpus_unobserved": ("GPU", f"{_BOOKS}: what is not held, reserved or in suspense while nobody saw all pods"),
    "holders_count": ("1", f"{_HOLDING}: pods that hold at least one unit"),
    "holders_share_unknown_count": ("1", f"{_SHARE}: pods that hold a card of which it is not known how much"),
    "holders_possible_count": ("1", f"{_HOLDING}: pods last seen before the instant whose end is not known"),
    "devices_unknown_count": ("1", f"{_HOLDING}: held cards, replicas or instances whose physical card is not known"),
}


@dataclass(frozen=True, slots=True)
class HoldersSpec:
    """Q1 as asked: ``at`` None = the last instant that is known; ``by`` groups; ``where`` narrows (dimension or label -> value)."""

    at: Instant | None = None
    by: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False


@dataclass(slots=True)
class Card:
    """A card or a counted place at the instant. Shares in ppm of one card; ``supply_ppm`` None = capacity not known."""

    record: Record
    supply_ppm: int
    held_ppm: int = 0
    reserved_ppm: int = 0
    in_suspense_ppm: int = 0
    pods: set[str] = field(default_factory=set)
    watched: bool = False
    unplaced_near: bool = False
    share_unknown: bool = False
    lost: bool = False

    @property
    def taken_ppm(self) -> int:
        """Held, reserved and in suspense together."""
        return self.held_ppm + self.reserved_ppm + self.in_suspense_ppm


@dataclass(slots=True)
class Scene:
    """All clusters at their instant: the certain holders, the possible ones, the cards, the counted places.

    ``by_pod``: every dimension of the pods is needed, not only those that the table shows. ``device_uuid``: the only card asked about.
    """

    holders: list[Record] = field(default_factory=list)
    possible: list[Record] = field(default_factory=list)
    cards: dict[tuple[str, str], Card] = field(default_factory=dict)
    places: list[Card] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    by_pod: bool = False
    device_uuid: str | None = None


def title() -> str:
    """What the question asks, in the chosen language."""
    return _("Who holds which GPU, MIG slice or vGPU")


def answer(rows: Rows, spec: HoldersSpec) -> Answer:
    """Who holds what at ``spec.at``.

    Tables ``holders`` (one row per holding), ``devices`` (every card, the free, lost and asset-only ones too) and, with ``by``, ``groups``.
    Outside the stretch that is known every figure is Unknown and nothing is listed. Raises UsageError for an unknown dimension and for
    an empty store. Method: definitions 1 to 3; a sceptic runs ``kubectl get pods -A -o json`` and ``nvidia-smi -L``.
    """
    reading = Reading(rows, SQL, grounds.SQL, dimensions.SQL)
    by = dimensions.chosen(spec.by, dimensions.HOLDING, reading)
    where = dimensions.filters(spec.where, dimensions.HOLDING, reading)
    times = grounds.known_times(reading)
    at = spec.at if spec.at is not None else max(time.last for time in times)
    grain_us = _grain_us(reading)
    scene = Scene(by_pod=bool(by or where), device_uuid=_one_card(spec.where))
    _fill(scene, reading, times, spec.at, grain_us)
    balance = grounds.residual(reading, _grain_window(grain_us, at))
    if len(scene.outside) == len(times):
        figures = _unknown_figures("; ".join(scene.outside))
        return _assemble(spec, at, scene, (*figures, balance), (), reading)
    _narrow(scene, where)
    figures, coverage = _figures(scene)
    tables = [Table("holders", HOLDER_COLUMNS, _holder_rows(scene))]
    tables.append(Table("devices", DEVICE_COLUMNS, [_device_row(card) for card in scene.cards.values()]))
    if scene.possible:
        tables.append(Table("possible_holders", HOLDER_COLUMNS, [_holder_row(row, "") for row in scene.possible]))
    if by:
        tables.insert(0, Table("groups", (*(Column(d.name) for d in by), *GROUP_COLUMNS), _group_rows(scene, by)))
    return _assemble(spec, at, scene, (*figures, balance), tables, reading, coverage)


def _grain_us(reading: Reading) -> int:
    rows = reading.run("grain")
    return int(rows[0]["grain_us"]) if rows and rows[0]["grain_us"] else HOUR_US


def _grain_window(grain_us: int, at: Instant) -> Window:
    """The grain that ends at or holds ``at``: the balance is struck there, so that a past instant costs no scan of all supply."""
    start = (at - 1) // grain_us * grain_us
    return Window(start, start + grain_us)


def _one_card(where: Mapping[str, str]) -> str | None:
    """The card that alone is asked about, by its whole UUID: then nothing else is fetched."""
    named = next((where[name] for name in ("gpu", "device") if name in where), "")
    return named if _UUID.match(named) else None


def _fill(scene: Scene, reading: Reading, times: Sequence[KnownTime], asked: Instant | None, grain_us: int) -> None:
    for time in times:
        at = time.last if asked is None else asked
        if not time.first <= at <= time.last:
            scene.outside.append(
                _("{cluster} is known from {first} to {last}, not at {at}").format(
                    cluster=time.cluster,
                    first=format_instant(time.first),
                    last=format_instant(time.last),
                    at=format_instant(at),
                )
            )
            continue
        _add_cluster(scene, reading, time, _Moment(at, _grain_window(grain_us, at)))


@dataclass(frozen=True, slots=True)
class _Moment:
    """An instant and the grain in which its balance is struck."""

    at: Instant
    grain: Window


def _add_cluster(scene: Scene, reading: Reading, time: KnownTime, moment: _Moment) -> None:
    at, window = moment.at, moment.grain
    scopes = grounds.watched_scopes(reading, time.cluster, at)
    known: dict[str, Record] = {}
    for record in reading.run("devices", cluster=time.cluster, at_us=at, device_uuid=scene.device_uuid):
        known[record["device_uuid"]] = record
        if record["valid"]:
            supply = 0 if record["basis"] == "asset_list" else CARD_PPM
            lost = record["state"] == "lost"
            scene.cards[time.cluster, record["device_uuid"]] = Card(record, supply, lost=lost)
    overlap = max(1, min(window.end, time.last) - max(window.start, time.first))
    for record in reading.run("counted_places", cluster=time.cluster, grain_at_us=window.start):
        ppm = round(Fraction(record["amount_gpu_us"] * CARD_PPM, overlap))
        scene.places.append(Card({**record, "cluster": time.cluster}, ppm))
    asked = {"all_dimensions": scene.by_pod, "device_uuid": scene.device_uuid}
    holders = reading.run("holders", cluster=time.cluster, at_us=at, **asked)
    _join_segments(reading, time.cluster, [record for record in holders if record["segmented"]])
    for record in holders:
        card = known.get(record["device_uuid"], _NO_CARD)
        record["device_index"], record["model"], record["vendor"] = card["device_index"], card["model"], card["vendor"]
        if record["node"] is None:
            record["node"] = card["node"]
        if record["cores_percent"] is None:
            record["cores_percent"] = clipping.cores_held_percent(record)
        if record["memory_mib"] is None:
            record["memory_mib"] = clipping.memory_held_mib(record, card["memory_mib"])
        (scene.holders if record["certain"] else scene.possible).append(record)
        if record["certain"]:
            _take(scene, record, None if card is _NO_CARD else card)
    for place in (*scene.cards.values(), *scene.places):
        if place.record["cluster"] == time.cluster:
            place.watched = "cluster" in scopes or f"node/{place.record['node']}" in scopes


def _join_segments(reading: Reading, cluster: str, records: Sequence[Record]) -> None:
    """A holding that changes its share when init ends is one holding: it started with its first segment and ends with its last."""
    if not records:
        return
    pods = sorted({record["pod_uid"] for record in records})
    names = ("pod_uid", "place_id", "unit_id", "occupancy")
    rows = {tuple(row[name] for name in names): row for row in reading.run("segments", cluster=cluster, pod_uids=pods)}
    for record in records:
        whole = rows[tuple(record[name] for name in names)]
        record.update({name: whole[name] for name in ("started", "ended", "start_basis")})


def _take(scene: Scene, record: Record, known: Record | None) -> None:
    if record["device_uuid"] is None:
        for card in scene.cards.values():
            near = record["place_kind"] == "cluster" or card.record["node"] == record["node"]
            card.unplaced_near |= near and card.record["cluster"] == record["cluster"]
        return
    key = (record["cluster"], record["device_uuid"])
    if key not in scene.cards:
        scene.cards[key] = Card(known or _bare_device(record), CARD_PPM)
    card = scene.cards[key]
    amount, occupancy = record["share_ppm"], record["occupancy"]
    if amount is None:
        card.share_unknown = True
    elif occupancy == "held":
        card.held_ppm += amount
    elif occupancy == "reserved":
        card.reserved_ppm += amount
    else:
        card.in_suspense_ppm += amount
    card.pods.add(_pod_name(record))


def _bare_device(record: Record) -> Record:
    names = (
        "vendor",
        "model",
        "memory_mib",
        "mode",
        "healthy",
        "cordoned",
        "placeable",
        "state",
        "state_reason",
        "serial",
        "basis",
    )
    return {
        **dict.fromkeys((*names, "device_index")),
        **{name: record[name] for name in ("cluster", "device_uuid", "node")},
    }


def _narrow(scene: Scene, where: Sequence[Filter]) -> None:
    """Keep what the conditions admit: holders that meet all; cards that meet those about cards and, if others are asked, hold for one."""
    neighbours = {key: sorted(card.pods) for key, card in scene.cards.items() if len(card.pods) > 1}
    for record in (*scene.holders, *scene.possible):
        own = _pod_name(record)
        others = [name for name in neighbours.get((record["cluster"], record["device_uuid"]), ()) if name != own]
        record["neighbours"] = ", ".join(others) or None
    if not where:
        return
    scene.holders = [row for row in scene.holders if all(condition.admits(row) for condition in where)]
    scene.possible = [row for row in scene.possible if all(condition.admits(row) for condition in where)]
    of_card = [c for c in where if c.dimension.name in dimensions.PLACE]
    kept = {(row["cluster"], row["device_uuid"]) for row in scene.holders}
    scene.cards = {
        key: card
        for key, card in scene.cards.items()
        if key in kept or (len(of_card) == len(where) and all(c.admits(card.record) for c in of_card))
    }
    scene.places = [
        place for place in scene.places if len(of_card) == len(where) and all(c.admits(place.record) for c in of_card)
    ]


def _figures(scene: Scene) -> tuple[list[Figure], float | Unknown]:
    held = [row for row in scene.holders if row["occupancy"] == "held"]
    unplaced = [row for row in scene.holders if row["device_uuid"] is None]
    cards = [*scene.cards.values(), *scene.places]
    supply = sum(card.supply_ppm for card in cards)
    lost = sum(max(0, card.supply_ppm - card.taken_ppm) for card in cards if card.lost)
    over = sum(max(0, card.taken_ppm - card.supply_ppm) for card in scene.cards.values())
    left = supply - lost - sum(min(card.taken_ppm, card.supply_ppm) for card in cards) - _shares(unplaced)
    over, left = over + max(0, -left), max(0, left)
    seen = all(card.watched and not card.share_unknown for card in cards if not card.lost)
    unobserved = 0 if seen else left
    values: dict[str, Value] = {
        "devices_count": len(scene.cards),
        "devices_held_count": sum(1 for card in scene.cards.values() if card.held_ppm),
        "devices_lost_count": sum(1 for card in scene.cards.values() if card.lost),
        "gpus_supply": Fraction(supply, CARD_PPM) if cards else Unknown(_("no card of this estate is known")),
        "gpus_held": Fraction(_shares(held), CARD_PPM),
        "gpus_held_unplaced": Fraction(_shares([row for row in held if row["device_uuid"] is None]), CARD_PPM),
        "gpus_reserved": Fraction(_shares(scene.holders, "reserved"), CARD_PPM),
        "gpus_in_suspense": Fraction(_shares(scene.holders, "in_suspense"), CARD_PPM),
        "gpus_overcommitted": Fraction(over, CARD_PPM),
        "gpus_free": _free(cards, seen, left),
        "gpus_unobserved": Fraction(unobserved, CARD_PPM),
        "holders_count": len({(row["cluster"], row["pod_uid"]) for row in held}),
        "holders_share_unknown_count": len(_share_unknown(held)),
        "holders_possible_count": len({(row["cluster"], row["pod_uid"]) for row in scene.possible}),
        "devices_unknown_count": sum(int(row["quantity"]) for row in held if row["device_uuid"] is None),
    }
    if not cards:
        values["gpus_unobserved"] = values["gpus_overcommitted"] = values["gpus_supply"]
    coverage: float | Unknown = Unknown(_("no card of this estate is known"))
    if supply:
        coverage = float(Fraction(supply - unobserved, supply))
    return [Figure(name, values[name], unit, method, coverage) for name, (unit, method) in FIGURES.items()], coverage


def _share_unknown(records: Sequence[Record]) -> set[tuple[str, str]]:
    return {(row["cluster"], row["pod_uid"]) for row in records if row["share_ppm"] is None}


def _free(cards: Sequence[Card], seen: bool, left_ppm: int) -> Value:
    if not cards:
        return Unknown(_("no card of this estate is known"))
    if not seen:
        return Unknown(_("not all pods were seen at this instant, or a holder's share is not known"))
    return Fraction(left_ppm, CARD_PPM)


def _shares(records: Sequence[Record], occupancy: str | None = None) -> int:
    return sum(int(row["share_ppm"] or 0) for row in records if occupancy in (None, row["occupancy"]))


def _unknown_figures(reason: str) -> list[Figure]:
    unknown = Unknown(reason)
    return [Figure(name, unknown, unit, method, unknown) for name, (unit, method) in FIGURES.items()]


def _holder_rows(scene: Scene) -> list[Sequence[Value]]:
    return [_holder_row(row, row["neighbours"]) for row in scene.holders]


def _holder_row(row: Record, neighbours: str | None) -> Sequence[Value]:
    device: Value = row["device_uuid"]
    if device is None:
        device = Unknown(row["device_unknown_reason"] or _("no source names the card"))
    return (
        device,
        row["namespace"],
        row["pod"],
        _share_cell(row),
        _stated(row["memory_mib"]),
        _stated(row["cores_percent"]),
        row["tenant"],
        row["occupancy"],
        row["unit_kind"],
        row["unit_id"],
        row["profile"],
        row["containers"],
        row["workload"],
        row["started"],
        row["ended"],
        row["evidence_grade"],
        row["node"],
        row["device_index"],
        row["model"],
        neighbours,
        row["scheme"],
        row["start_basis"],
        row["share_basis"],
        row["cluster"],
    )


def _share_cell(row: Record) -> Value:
    if row["share_ppm"] is not None:
        return float(row["share_ppm"]) / CARD_PPM
    least = (row["share_at_least_ppm"] or 0) / CARD_PPM
    return Unknown(_("the share of the card is not known; at least {least}").format(least=least))


def _stated(value: int | None) -> Value:
    return Unknown(_("neither the grant nor the card states it")) if value is None else value


def _device_row(card: Card) -> Sequence[Value]:
    record = card.record
    return (
        record["device_uuid"],
        record["node"],
        record["device_index"],
        record["model"],
        Unknown(_("no source states it")) if record["memory_mib"] is None else record["memory_mib"],
        _occupancy(card),
        card.held_ppm / CARD_PPM,
        card.reserved_ppm / CARD_PPM,
        card.in_suspense_ppm / CARD_PPM,
        _free_share(card),
        len(card.pods),
        record["state"],
        record["state_reason"],
        Unknown(_("no source states it")) if record["healthy"] is None else record["healthy"],
        record["placeable"],
        record["cordoned"],
        record["mode"],
        record["basis"],
        record["serial"],
        record["cluster"],
    )


def _occupancy(card: Card) -> str:
    if card.held_ppm:
        return "held" if card.taken_ppm >= CARD_PPM else "held_in_part"
    for name, amount in (("reserved", card.reserved_ppm), ("in_suspense", card.in_suspense_ppm)):
        if amount:
            return name
    if card.lost:
        return "out_of_service"
    if not card.supply_ppm:
        return "asset_only"
    return "free" if card.watched and not card.unplaced_near else "unobserved"


def _free_share(card: Card) -> Value:
    if card.lost or not card.supply_ppm:
        return Unknown(_("the card is not in service"))
    left = max(0, card.supply_ppm - card.taken_ppm)
    if left and not card.watched:
        return Unknown(_("not all pods were seen at this instant"))
    if left and card.share_unknown:
        return Unknown(_("how much of it a holder takes is not known"))
    if left and card.unplaced_near:
        return Unknown(_("a pod whose card is unknown may hold it"))
    return left / CARD_PPM


def _group_rows(scene: Scene, by: Sequence[Dimension]) -> list[Sequence[Value]]:
    rows: list[Sequence[Value]] = []
    for values, records in dimensions.grouped(scene.holders, by).items():
        held = [row for row in records if row["occupancy"] == "held"]
        rows.append(
            (
                *values,
                *(Fraction(_shares(records, name), CARD_PPM) for name in ("held", "reserved", "in_suspense")),
                len({row["device_uuid"] for row in held if row["device_uuid"] is not None}),
                len({(row["cluster"], row["pod_uid"]) for row in held}),
                _total(held, "memory_mib"),
                _total(held, "cores_percent"),
            )
        )
    return rows


def _total(records: Sequence[Record], name: str) -> Value:
    """The sum of a stated amount; Unknown with what is known where some rows do not state it."""
    stated = [int(row[name]) for row in records if row[name] is not None]
    if len(stated) == len(records):
        return sum(stated)
    missing = len(records) - len(stated)
    return Unknown(
        _("{missing} of {all} grants do not state it; the others sum to {sum}").format(
            missing=missing, all=len(records), sum=sum(stated)
        )
    )


def _pod_name(record: Record) -> str:
    return f"{record['namespace']}/{record['pod']}"


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
        subjects = {f"pod {_pod_name(row)}" for row in scene.holders}
        subjects |= {f"device {card.record['device_uuid']}" for card in scene.cards.values()}
        subjects |= {f"node {card.record['node']}" for card in scene.cards.values()}
    notes, total = grounds.finding_notes(reading, subjects)
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
        sources=grounds.source_lines(reading),
        coverage=Unknown("; ".join(scene.outside)) if coverage is None else coverage,
        blind_spots=blind,
        findings=notes,
        evidence=_evidence(scene, spec),
        next_actions=_next_actions(scene),
        explain=dict(reading.ran) if spec.explain else {},
    )


def _blind_spots(scene: Scene) -> list[str]:
    spots = []
    if any(not card.watched for card in scene.cards.values()):
        spots.append(
            _("not all pods were seen at this instant: a holder that left before the first listing is missing")
        )
    if any(row["device_uuid"] is None for row in scene.holders):
        spots.append(_("some holders are known by node only: their card is one of the node's, which one is not known"))
    if any(row["evidence_grade"] == "declared" for row in scene.holders):
        spots.append(_("holders of grade declared stand on an annotation or request alone"))
    spots.append(_("a process that no pod owns holds nothing here; Q7 looks for those"))
    return spots


def _evidence(scene: Scene, spec: HoldersSpec) -> list[Evidence]:
    held = scene.holders[0] if scene.holders else None
    pod = "kubectl get pods --all-namespaces -o json"
    if held is not None and spec.where:
        pod = f"kubectl get pod -n {shlex.quote(held['namespace'] or '')} {shlex.quote(held['pod'] or '')} -o yaml"
    node = next((row["node"] for row in scene.holders if row["node"]), None)
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
    if any(row["device_uuid"] is None for row in scene.holders):
        actions.append(_("import the PodResources dump of the node to learn which card these pods hold"))
    if any(not card.watched for card in scene.cards.values()):
        actions.append(_("import pod listings regularly and declare their distance with --expected-interval"))
    if any(row["evidence_grade"] == "declared" for row in scene.holders):
        actions.append(_("import nvidia-smi process lists or PodResources dumps to corroborate declared holders"))
    return actions
