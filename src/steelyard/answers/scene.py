"""Who and what stood where at an instant: the holders, the possible ones, the cards and the counted places, cluster by cluster.

Q1 fills a ``Scene`` and makes its figures and tables from it. The trick to know: whether a card's rest is free or unobserved hangs on
whether all pods were seen at the instant, so every card carries that beside its shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from steelyard.answers import clipping, dimensions, grounds
from steelyard.answers.dimensions import Filter
from steelyard.answers.grounds import KnownTime
from steelyard.answers.narrowing import Home, Homes, fits, names_shown
from steelyard.answers.reading import Columns, Reading, Record
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, INSTANT_MAX, INSTANT_MIN, Instant, Window, format_instant

SQL: Final = Path(__file__).with_suffix(".sql")
CARD_PPM: Final = 1_000_000


_OF_CARD: Final = ("device_index", "model", "vendor")
_NO_CARD: Final[Record] = dict.fromkeys((*_OF_CARD, "node", "memory_mib"))
_OF_POD: Final = ("workload_kind", "workload_name", "queue", "qos", "scheduler", "phase")
_SEGMENT_KEY: Final = ("pod_uid", "place_id", "unit_id", "occupancy")
_OF_ALL_SEGMENTS: Final = ("started", "ended", "start_basis")


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
    share_unknown: frozenset[str] = frozenset()
    """The occupancies of holders here that do not tell how much of it they take."""
    doubt: str | None = None
    """Why its rest cannot be called free although all pods were seen: a claim near it tells too little."""
    lost: bool = False
    down: bool = False

    @property
    def taken_ppm(self) -> int:
        """Held, reserved and in suspense together."""
        return self.held_ppm + self.reserved_ppm + self.in_suspense_ppm


@dataclass(slots=True)
class Holders:
    """Holdings column by column, under the names of the statement ``holders`` and those that ``_complete`` adds.

    They come by the thousand, and a pass over a column costs a tenth of one over records. ``columns`` is empty where there are none.
    """

    columns: Columns = field(default_factory=dict)

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name] if self.columns else []

    def __len__(self) -> int:
        return len(self["pod_uid"])

    def records(self) -> Iterator[Record]:
        """One by one, for conditions and groups."""
        return (dict(zip(self.columns, cells, strict=True)) for cells in zip(*self.columns.values(), strict=True))

    def where(self, name: str, value: object) -> Holders:
        """Those that have the value in the column."""
        cells = self[name]
        count = cells.count(value)
        if count == len(cells):
            return self
        return self.at([index for index, cell in enumerate(cells) if cell == value] if count else [])

    def at(self, indexes: Sequence[int]) -> Holders:
        """Those at the indexes, which ascend."""
        if len(indexes) == len(self):
            return self
        return Holders({name: [cells[index] for index in indexes] for name, cells in self.columns.items()})

    def extend(self, others: Holders) -> None:
        """Those of another cluster after these."""
        for name, cells in others.columns.items():
            self.columns.setdefault(name, []).extend(cells)


@dataclass(slots=True)
class Scene:
    """All clusters at their instant: the certain holders, the possible ones, the cards, the counted places.

    ``by_pod``: every dimension of the pods is needed, not only those that the table shows. ``device_uuid``: the only card asked about.
    """

    holders: Holders = field(default_factory=Holders)
    possible: Holders = field(default_factory=Holders)
    cards: dict[tuple[str, str], Card] = field(default_factory=dict)
    places: list[Card] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    uncounted: list[Record] = field(default_factory=list)
    """Nodes (``cluster``, ``node``) that have cards, and nothing tells how many."""
    namespaces: set[str] = field(default_factory=set)
    """The namespaces whose pods were all seen, where those of the whole cluster were not."""
    zones: list[Record] = field(default_factory=list)
    """What each NUMA zone has of each accelerator, as its node's topology says."""
    by_pod: bool = False
    device_uuid: str | None = None
    unsettled: Holders = field(default_factory=Holders)
    """Holders whose card is not known and may be one of those asked about, or not."""
    capacity_unknown: str | None = None
    """Why nobody can tell which cards are asked about; None = it is told."""


def grain_us_of(reading: Reading) -> int:
    """The ledgers' grain in microseconds."""
    rows = reading.run("grain")
    return int(rows[0]["grain_us"]) if rows and rows[0]["grain_us"] else HOUR_US


def grain_window(grain_us: int, at: Instant) -> Window:
    """The grain that ends at or holds ``at``: the books are compared there, so that a past instant costs no scan of all supply."""
    start = (at - 1) // grain_us * grain_us
    return Window(start, start + grain_us)


def fill(scene: Scene, reading: Reading, times: Sequence[KnownTime], asked: Instant | None) -> None:
    """Put every cluster into the scene at ``asked`` (None: each at its own last known instant).

    A cluster that is not known at that instant is named in ``outside`` and adds nothing.
    """
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
        _add_cluster(scene, reading, time, at)


def _add_cluster(scene: Scene, reading: Reading, time: KnownTime, at: Instant) -> None:
    cluster = time.cluster
    scopes = grounds.watched_scopes(reading, cluster, at)
    if "cluster" not in scopes:
        scene.namespaces |= {scope.partition("/")[2] for scope in scopes if scope.startswith("namespace/")}
    holders = Holders(reading.columns("holders", cluster=cluster, at_us=at, device_uuid=scene.device_uuid))
    nodes = reading.run("nodes", cluster=cluster, reach_us=time.capacity_at(at))
    # A holder without a known card may be on any card of its node, so one card alone does not tell enough.
    asked_uuid = None if None in holders["device_uuid"] else scene.device_uuid
    known = _add_capacity(scene, reading, time, at, {row["node"] for row in nodes if row["down"]}, asked_uuid)
    models = {row["node"]: row["model"] for row in nodes}
    # Now is the last proof that all pods were seen; a topology that was read since then is the present word all the same.
    scene.zones.extend(reading.run("zones", cluster=cluster, told_us=INSTANT_MAX if at >= time.last else at))
    if scene.by_pod:
        _add_pod_dimensions(reading, cluster, holders)
    _join_segments(reading, cluster, holders)
    _complete(holders, known)
    certain, possible = holders.where("certain", True), holders.where("certain", False)
    scene.holders.extend(certain)
    scene.possible.extend(possible)
    _take(scene, certain, known)
    places = [place for place in (*scene.cards.values(), *scene.places) if place.record["cluster"] == cluster]
    for place in places:
        if "device_uuid" not in place.record:
            place.record["model"] = models.get(place.record["node"])
        place.watched = "cluster" in scopes or f"node/{place.record['node']}" in scopes
    unplaced = list(certain.where("device_uuid", None).records())
    _doubt_near(places, unplaced)
    _doubt_possible(places, list(possible.records()))
    if reading.run("any_unread", cluster=cluster):
        _doubt_unread(places, reading.run("unread_claims", cluster=cluster, at_us=at))
    counted = {place.record["node"] for place in places}
    bare = {row["node"] for row in unplaced if row["place_kind"] == "node" and row["node"] not in counted}
    bare |= {row["node"] for row in nodes if row["uncounted"]}
    scene.uncounted.extend(
        {"cluster": cluster, "node": node, "model": models.get(node)} for node in sorted(bare, key=str)
    )


def _add_capacity(
    scene: Scene, reading: Reading, time: KnownTime, at: Instant, down: set[str], device_uuid: str | None
) -> dict[str, Record]:
    """The cards and counted places that stand there at ``at``, those on nodes that are ``down`` out of service; returns every card ever
    known, by UUID."""
    cluster, reach = time.cluster, time.capacity_at(at)
    seen = reading.run("devices", cluster=cluster, at_us=at, reach_us=reach, device_uuid=device_uuid)
    standing = _standing(seen)
    records = [record for record in seen if standing[record["device_uuid"]] is record]
    ill = [row["device_uuid"] for row in records if row["healthy"] is False and row["state"] != "lost"]
    if ill:
        well = reading.run("healthy_then", cluster=cluster, reach_us=reach, device_uuids=ill)
        healthy = {row["device_uuid"] for row in well}
        for record in records:
            record["healthy"] = record["device_uuid"] in healthy or record["healthy"]
    seats = {(row["node"], row["device_index"]) for row in records if row["valid"] and row["left_later"]}
    for record in records:
        if not record["valid"] or (record["seen_since"] and (record["node"], record["device_index"]) in seats):
            continue
        lost = record["state"] == "lost"
        broken = lost or record["healthy"] is False or record["node"] in down
        supply = 0 if record["basis"] == "asset_list" else CARD_PPM
        scene.cards[cluster, record["device_uuid"]] = Card(record, supply, lost=lost, down=broken)
    for record in reading.run("counted_places", cluster=cluster, reach_us=reach):
        place = {**record, "cluster": cluster}
        scene.places.append(Card(place, int(record["cards"]) * CARD_PPM, down=record["node"] in down))
    return standing


def _standing(records: Sequence[Record]) -> dict[str, Record]:
    """Each card once, by UUID: of the nodes it was seen on, the one where it stands then, of several the one it came to last."""
    standing: dict[str, Record] = {}
    for record in records:
        other = standing.setdefault(record["device_uuid"], record)
        if other is not record and _stands_before(record, other):
            standing[record["device_uuid"]] = record
    return standing


def _stands_before(record: Record, other: Record) -> bool:
    if record["valid"] != other["valid"]:
        return bool(record["valid"])
    came, came_other = (
        INSTANT_MIN - 1 if row["valid_from_us"] is None else row["valid_from_us"] for row in (record, other)
    )
    return bool(came > came_other)


def _doubt_near(places: Iterable[Card], unplaced: Sequence[Record]) -> None:
    """Holders without a card of their own: any card near may be theirs; where their share is not known, nothing near is free for sure."""
    if not unplaced:
        return
    nodes = {row["node"] for row in unplaced}
    everywhere = any(row["place_kind"] == "cluster" for row in unplaced)
    vague = {
        None if row["place_kind"] == "cluster" else row["node"]: row for row in unplaced if row["share_ppm"] is None
    }
    for place in places:
        node = place.record["node"]
        place.unplaced_near = everywhere or node in nodes
        record = vague.get(node) or vague.get(None)
        if record is not None:
            place.doubt = _("how much {pod} takes of node {node} is not known").format(pod=pod_name(record), node=node)


def _doubt_possible(places: Iterable[Card], possible: Sequence[Record]) -> None:
    """Pods that were last seen before the instant and whose end lies somewhere after: their card, else their node's cards, may be taken still."""
    if not possible:
        return
    by_uuid = {row["device_uuid"]: row for row in possible if row["device_uuid"] is not None}
    by_node = {row["node"]: row for row in possible if row["device_uuid"] is None}
    for place in places:
        record = by_uuid.get(place.record.get("device_uuid")) or by_node.get(place.record["node"])
        if record is not None:
            place.doubt = _("pod {pod} was last seen before this instant and may hold it still").format(
                pod=pod_name(record)
            )


def _doubt_unread(places: Iterable[Card], claims: Sequence[Record]) -> None:
    """Pods whose claim no source tells: the card they name, else every card of their node, may be taken."""
    if not claims:
        return
    by_uuid = {row["device_uuid"]: row for row in claims if row["device_uuid"] is not None}
    by_node = {row["node"]: row for row in claims if row["device_uuid"] is None}
    for place in places:
        record = by_uuid.get(place.record.get("device_uuid")) or by_node.get(place.record["node"])
        if record is None:
            # A card that is named, at a node whose cards are only counted.
            named = (row for row in by_uuid.values() if row["node"] == place.record["node"])
            record = None if "device_uuid" in place.record else next(named, None)
        if record is not None:
            place.doubt = _("pod {pod} holds a card here, and no source tells which or how much of it").format(
                pod=pod_name(record)
            )


def _add_pod_dimensions(reading: Reading, cluster: str, holders: Holders) -> None:
    """What pods can be grouped and narrowed by, and no table shows."""
    uids = holders["pod_uid"]
    rows = {row["pod_uid"]: row for row in reading.run("pod_dimensions", cluster=cluster, pod_uids=sorted(set(uids)))}
    unknown: Record = {}
    for name in _OF_POD:
        holders.columns[name] = [rows.get(uid, unknown).get(name) for uid in uids]


def _join_segments(reading: Reading, cluster: str, holders: Holders) -> None:
    """A holding that changes its share when init ends is one holding: it started with its first segment and ends with its last."""
    indexes = [index for index, segmented in enumerate(holders["segmented"]) if segmented]
    if not indexes:
        return
    pods = sorted({holders["pod_uid"][index] for index in indexes})
    rows = reading.run("segments", cluster=cluster, pod_uids=pods)
    whole = {tuple(row[name] for name in _SEGMENT_KEY): row for row in rows}
    for index in indexes:
        joined = whole[tuple(holders[name][index] for name in _SEGMENT_KEY)]
        for name in _OF_ALL_SEGMENTS:
            holders[name][index] = joined[name]


def _complete(holders: Holders, known: Mapping[str, Record]) -> None:
    """Add what the card tells of each holding, what a grant that does not say it holds of the card, and ``pod_name``."""
    columns = holders.columns
    cards = [known.get(uuid, _NO_CARD) for uuid in columns["device_uuid"]]
    for name in _OF_CARD:
        columns[name] = [card[name] for card in cards]
    if None in columns["node"]:
        columns["node"] = [
            card["node"] if node is None else node for node, card in zip(columns["node"], cards, strict=True)
        ]
    if None in columns["cores_percent"]:
        granted = (columns[name] for name in ("cores_percent", "unit_kind", "memory_mib", "share_ppm"))
        columns["cores_percent"] = list(map(clipping.cores_held_percent, *granted))
    if None in columns["memory_mib"]:
        card_mib = [card["memory_mib"] for card in cards]
        columns["memory_mib"] = list(
            map(clipping.memory_held_mib, columns["memory_mib"], columns["share_ppm"], card_mib)
        )
    columns["pod_name"] = [
        f"{namespace}/{pod}" for namespace, pod in zip(columns["namespace"], columns["pod"], strict=True)
    ]


def _take(scene: Scene, holders: Holders, known: Mapping[str, Record]) -> None:
    """Lay the holdings onto their cards; a card that no inventory knows comes into being here."""
    names = ("cluster", "device_uuid", "node", "occupancy", "share_ppm", "pod_name")
    for cluster, uuid, node, occupancy, share_ppm, pod in zip(*(holders[name] for name in names), strict=True):
        if uuid is None:
            continue
        card = scene.cards.get((cluster, uuid))
        if card is None:
            record = known.get(uuid) or _bare_device(cluster, uuid, node)
            card = scene.cards[cluster, uuid] = Card(record, CARD_PPM)
        if share_ppm is None:
            card.share_unknown |= {occupancy}
            card.doubt = _("how much of it {pod} takes is not known").format(pod=pod)
        elif occupancy == "held":
            card.held_ppm += share_ppm
        elif occupancy == "reserved":
            card.reserved_ppm += share_ppm
        else:
            card.in_suspense_ppm += share_ppm
        card.pods.add(pod)


def _bare_device(cluster: str, uuid: str, node: str | None) -> Record:
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
        "slots_count",
        "schedulable_memory_mib",
        "mig_enabled",
    )
    return {
        **dict.fromkeys((*names, "device_index")),
        "cluster": cluster,
        "device_uuid": uuid,
        "node": node,
    }


def narrow(scene: Scene, where: Sequence[Filter], confined: bool = False) -> None:
    """Keep what the conditions admit: holders that meet all; cards that meet those about cards and, if others are asked, hold for one.

    Holders of which nobody can tell whether they meet the conditions go to ``unsettled``. A card near which a holder without a known card is
    not counted as a whole is in doubt; where the cards asked about are themselves not known, ``capacity_unknown`` says why.
    """
    scene.holders.columns["neighbours"] = _neighbours(scene)
    if confined or any(condition.dimension.name not in dimensions.PLACE for condition in where):
        scene.zones = []  # what is available in a zone is everybody's, not that of the pods asked about
    if not where and None not in scene.holders["device_uuid"] and None not in scene.possible["device_uuid"]:
        return
    everything = [*scene.cards.values(), *scene.places]
    homes = Homes.of(
        (card.record for card in scene.cards.values()), [*(place.record for place in scene.places), *scene.uncounted]
    )
    homes.blind = confined
    _tell_models(scene, homes)
    if not where:
        return
    unplaced = {_home(row) for row in scene.holders.where("device_uuid", None).records()}
    verdicts = [homes.meets(record, where) for record in scene.holders.records()]
    dropped = {
        (cluster, node)
        for cluster, node, uuid, verdict in zip(
            *(scene.holders[name] for name in ("cluster", "node", "device_uuid")), verdicts, strict=True
        )
        if uuid is None and verdict is not True
    }
    scene.unsettled = scene.holders.at([index for index, verdict in enumerate(verdicts) if verdict is None])
    scene.holders = scene.holders.at([index for index, verdict in enumerate(verdicts) if verdict])
    possible = [homes.meets(record, where) for record in scene.possible.records()]
    scene.possible = scene.possible.at([index for index, verdict in enumerate(possible) if verdict is not False])
    if any(condition.dimension.name not in dimensions.PLACE for condition in where):
        _keep_held(scene)
    else:
        _keep_standing(scene, where)
    _doubt_cut(scene, everything, unplaced, dropped)
    if scene.capacity_unknown is None and everything and not (scene.cards or scene.places or scene.uncounted):
        scene.capacity_unknown = _("nothing that is asked about is or holds a card that is known at this instant")


def _home(record: Record) -> Home:
    return record["cluster"], record["node"]


def _tell_models(scene: Scene, homes: Homes) -> None:
    """Where all cards of its node are of one model, a holder without a known card holds one of that model."""
    for holders in (scene.holders, scene.possible):
        for name in ("model", "vendor"):
            cells = holders[name]
            for index, uuid in enumerate(holders["device_uuid"]):
                if uuid is None and holders["node"][index] is not None:
                    cells[index] = homes.only((holders["cluster"][index], holders["node"][index]), name)


def _keep_held(scene: Scene) -> None:
    """Of the cards, those on which one of the holders holds; where some of these are not known, neither is their number."""
    held = set(zip(scene.holders["cluster"], scene.holders["device_uuid"], strict=True))
    scene.cards = {key: card for key, card in scene.cards.items() if key in held}
    scene.places, scene.uncounted = [], []
    without = [*scene.holders.where("device_uuid", None).records(), *scene.unsettled.records()]
    if without:
        scene.capacity_unknown = _("no source tells which cards {pods} hold, so their supply is not known").format(
            pods=names_shown(pod_name(row) for row in without)
        )


def _keep_standing(scene: Scene, where: Sequence[Filter]) -> None:
    """Of the cards and places, those that meet the conditions; one that may meet them makes the number unknown."""
    held = set(zip(scene.holders["cluster"], scene.holders["device_uuid"], strict=True))
    met = {key: True if key in held else fits(card.record, where, named=True) for key, card in scene.cards.items()}
    placed = [fits(place.record, where, named=False) for place in scene.places]
    vague = [str(key[1]) for key, verdict in met.items() if verdict is None and scene.cards[key].supply_ppm]
    vague += [str(p.record["node"]) for p, verdict in zip(scene.places, placed, strict=True) if verdict is None]
    if vague:
        scene.capacity_unknown = _("no source tells the model or vendor of {places}, which may be asked about").format(
            places=names_shown(vague)
        )
    scene.cards = {key: card for key, card in scene.cards.items() if met[key]}
    scene.places = [place for place, verdict in zip(scene.places, placed, strict=True) if verdict]
    scene.uncounted = [node for node in scene.uncounted if fits(node, where, named=False) is not False]
    homes = {_home(card.record) for card in (*scene.cards.values(), *scene.places)}
    homes.update(map(_home, scene.uncounted))
    scene.zones = [zone for zone in scene.zones if _home(zone) in homes]


def _doubt_cut(scene: Scene, everything: Iterable[Card], unplaced: set[Home], dropped: set[Home]) -> None:
    """Cards that stay, while others of the home of a holder without a known card, or that holder itself, are not asked about."""
    kept = [*scene.cards.values(), *scene.places]
    stay = {id(card) for card in kept}
    cut = dropped | {
        (card.record["cluster"], node)
        for card in everything
        if id(card) not in stay
        for node in (card.record["node"], None)
    }
    for card in kept:
        homes = {(card.record["cluster"], card.record["node"]), (card.record["cluster"], None)}
        if homes & unplaced & cut:
            card.doubt = card.doubt or _("a pod whose card is unknown may hold it")


def _neighbours(scene: Scene) -> list[str | None]:
    """Who else is on each holding's card, in one text; None = nobody."""
    others: dict[tuple[str, str], dict[str, str]] = {}
    for key, card in scene.cards.items():
        if len(card.pods) > 1:
            pods = sorted(card.pods)
            others[key] = {own: ", ".join([pod for pod in pods if pod != own]) for own in pods}
    holders, nobody = scene.holders, dict[str, str]()
    places = zip(holders["cluster"], holders["device_uuid"], strict=True)
    return [others.get(place, nobody).get(own) for place, own in zip(places, holders["pod_name"], strict=True)]


def pod_name(record: Record) -> str:
    """``namespace/pod``, as people and findings write it."""
    return f"{record['namespace']}/{record['pod']}"


def at_least(least_ppm: int) -> str:
    """What is known at the least of an amount that is not known, to stand after the reason; empty where that is nothing."""
    if least_ppm <= 0:
        return ""
    return _("; at least {least} GPU").format(least=f"{least_ppm / CARD_PPM:.6f}".rstrip("0").rstrip("."))
