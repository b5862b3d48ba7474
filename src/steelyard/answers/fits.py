"""What fits now: the nodes and cards on which a given request could be placed at an instant, else the smallest move that would make room.

``steelyard fits`` and its route call ``fits``. It asks the same test as ``fragmentation`` (memory, cores, slots of the sharing layer, MIG
placements, CPU and model, each as far as it is known), so a request that fits here counts as usable there. The trick to know: a node on which it is
not known whether the request fits is listed apart and never counted as fitting. The scheduler has reasons of its own (taints, affinity, quota);
they are not asked here.

Sceptic's command: ``kubectl create --dry-run=server`` proves nothing of room; ``kubectl describe node NODE`` shows what is given away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from steelyard.answers import grounds
from steelyard.answers.contract import Answer, Column, Evidence, Figure, Table, Value
from steelyard.answers.free_shares import FreeShare, FreeShares, free_shares, statements
from steelyard.answers.moves import PODS_MAX, Room, smallest_move
from steelyard.answers.placing import chosen_cards
from steelyard.answers.reading import Reading, Record, Rows
from steelyard.definitions import fragmentation as definition
from steelyard.definitions import mig
from steelyard.definitions.fragmentation import FreeNode, Shape, fits_card, fits_model, fits_node
from steelyard.definitions.share import WHOLE_PPM
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import Instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
METHOD: Final = f"fragmentation {definition.VERSION}: can(n, m) in every dimension that is known"
CARDS_MAX: Final = 1_024
MEMORY_MIB_MAX: Final = 100_000_000
CPU_CORES_MAX: Final = 100_000
_NODES_LISTED_MAX: Final = 1_000
_UUIDS_LISTED: Final = 8
NODE_COLUMNS: Final = (
    Column("cluster"),
    Column("node"),
    Column("model"),
    Column("fits"),
    Column("reason"),
    Column("cards"),
    Column("cards_fitting_count", "1"),
    Column("gpus_free", "GPU"),
    Column("cpu_free_milli", "mCPU"),
)
MOVE_COLUMNS: Final = (
    Column("namespace_pod"),
    Column("tenant"),
    Column("cluster"),
    Column("from_node"),
    Column("from_cards"),
    Column("to_node"),
    Column("gpus", "GPU"),
)


@dataclass(frozen=True, slots=True)
class FitsSpec:
    """The request: ``gpus`` cards, each with ``gpumem`` MiB and ``cores`` percent (neither: whole cards) or of one MIG profile, of a ``model``, with
    ``cpu`` cores in all. ``tenant``: who asks may learn how much there is, and the names of that tenant's pods alone."""

    gpus: int = 1
    gpumem: int | None = None
    cores: int | None = None
    cpu: float | None = None
    mig: str | None = None
    model: str | None = None
    cluster: str | None = None
    at: Instant | None = None
    explain: bool = False
    tenant: str | None = None


def title() -> str:
    """What is asked, in the chosen language."""
    return _("What fits now, and what would have to move")


def shape_of(spec: FitsSpec) -> Shape:
    """The request as a shape. Raises UsageError for what no request can be."""
    _within(spec.gpus, 1, CARDS_MAX, "--gpu")
    _within(spec.gpumem, 1, MEMORY_MIB_MAX, "--gpumem")
    _within(spec.cores, 0, 100, "--cores")
    if spec.cpu is not None and not 0 <= spec.cpu <= CPU_CORES_MAX:
        raise UsageError(
            _("{option}: expected {least} to {most}; found {found}").format(
                option="--cpu", least=0, most=CPU_CORES_MAX, found=spec.cpu
            )
        )
    if spec.mig is not None:
        if spec.gpumem is not None or spec.cores is not None:
            raise UsageError(_("--mig names all that an instance has: leave out --gpumem and --cores"))
        if not mig.is_profile(spec.mig):
            raise UsageError(
                _("--mig: expected a profile such as 1g.10gb; found {found!r}").format(found=spec.mig[:40])
            )
    cpu = None if spec.cpu is None else round(spec.cpu * 1_000)
    models = (spec.model,) if spec.model else ()
    if spec.mig is not None:
        return Shape(spec.gpus, cpu_milli=cpu, profile=spec.mig.strip().lower().removeprefix("mig-"), models=models)
    if spec.gpumem is None and not spec.cores:
        return Shape(spec.gpus, WHOLE_PPM, cpu, models=models)
    return Shape(spec.gpus, None, cpu, spec.gpumem, spec.cores or None, models=models)


def _within(value: int | None, least: int, most: int, option: str) -> None:
    if value is not None and not least <= value <= most:
        raise UsageError(
            _("{option}: expected {least} to {most}; found {found}").format(
                option=option, least=least, most=most, found=value
            )
        )


def fits(rows: Rows, spec: FitsSpec) -> Answer:
    """The answer. Raises UsageError for what no request can be, and where nothing was imported yet."""
    shape = shape_of(spec)
    reading = Reading(rows, SQL, *statements())
    times = grounds.known_times(reading)
    if spec.cluster is not None and spec.cluster not in {time.cluster for time in times}:
        raise UsageError(_("no cluster is called {name}").format(name=spec.cluster[:80]))
    times = tuple(time for time in times if spec.cluster in (None, time.cluster))
    free = free_shares(reading, times, spec.at)
    outside = Unknown("; ".join(free.outside)) if len(free.outside) == len(times) else None
    nodes = _all_nodes(free)
    verdicts = {home: fits_node(node, shape) for home, (node, _shares) in nodes.items()}
    fitting = [home for home, verdict in verdicts.items() if verdict]
    room: Room | None = None
    complete = True
    if outside is None and not fitting and nodes:
        room, complete = smallest_move(free, shape, _pods(reading, free))
    tables = [_node_table(nodes, verdicts, shape, free, spec.tenant is not None)]
    if room is not None:
        tables.append(_move_table(room, spec.tenant))
    return Answer(
        question="fits",
        title=f"{title()}: {_words(spec)}",
        window=None,
        as_of=free.at,
        figures=_figures(nodes, verdicts, shape, free, room, outside),
        tables=tables,
        definitions=grounds.definitions(reading, {"fragmentation": definition.VERSION}),
        sources=() if spec.tenant is not None else grounds.source_lines(reading),
        coverage=_coverage(free, outside),
        blind_spots=_blind_spots(free, shape, bool(fitting), room, complete),
        evidence=[
            Evidence(
                _("what each node has given away"),
                "ledger.holding",
                "kubectl describe nodes | grep -A8 'Allocated resources'",
            )
        ],
        next_actions=_next_actions(bool(fitting), room, verdicts),
        explain=dict(reading.ran) if spec.explain and spec.tenant is None else {},
    )


Home = tuple[str, str | None]
_Nodes = dict[Home, tuple[FreeNode, list[FreeShare]]]


def _all_nodes(free: FreeShares) -> _Nodes:
    """Every node with a card in service; its cards on which something may be placed, and their shares in the same order."""
    found: dict[Home, list[FreeShare]] = {}
    for share in free.shares:
        found.setdefault((share.cluster, share.node), []).append(share)
    nodes: _Nodes = {}
    for home in sorted(found, key=lambda each: (each[0], each[1] or "")):
        usable = [share for share in found[home] if share.placeable]
        # A card of which it is not known what is free tells nothing either way.
        vague = [_vague(share) for share in found[home] if share.unknown is not None and share.blocked is None]
        nodes[home] = (FreeNode((*(share.card for share in usable), *vague), free.cpu_milli.get(home)), usable)
    return nodes


def _vague(share: FreeShare) -> definition.FreeCard:
    card = share.card
    layout = None if card.mig is None else replace(card.mig, taken=())
    return definition.FreeCard(card.free_ppm, card.model, card.memory_mib, None, None, None, layout, unknown=True)


def _pods(reading: Reading, free: FreeShares) -> dict[tuple[str, str], Record]:
    uids: dict[str, set[str]] = {}
    for share in free.shares:
        uids.setdefault(share.cluster, set()).update(row["pod_uid"] for row in share.holders)
    return {
        (cluster, row["pod_uid"]): row
        for cluster, named in uids.items()
        for row in reading.run("fits_pods", cluster=cluster, pod_uids=sorted(named))
    }


def _cards_fitting(node: FreeNode, shape: Shape) -> int:
    return sum(1 for card in node.cards if fits_card(card, shape) is True)


def _figures(
    nodes: _Nodes,
    verdicts: dict[Home, bool | None],
    shape: Shape,
    free: FreeShares,
    room: Room | None,
    outside: Unknown | None,
) -> list[Figure]:
    able = [nodes[home][0] for home, verdict in verdicts.items() if verdict]
    counts = [_cards_fitting(node, shape) for node in able]
    values: dict[str, Value] = {
        "nodes_fitting_count": len(able),
        "nodes_unknown_count": sum(1 for verdict in verdicts.values() if verdict is None),
        "cards_fitting_count": sum(counts),
        "pods_to_move_count": 0 if able else len(room.moves) if room else Unknown(_("no move was found")),
    }
    if outside is not None or not nodes:
        reason = outside if outside is not None else Unknown(_("no card in service is known here"))
        values = dict.fromkeys(values, reason)
    cover = _coverage(free, outside)
    return [Figure(name, value, "1", METHOD, cover) for name, value in values.items()]


def _coverage(free: FreeShares, outside: Unknown | None) -> float | Unknown:
    if outside is not None:
        return outside
    if not free.shares:
        return Unknown(_("no card in service is known here"))
    return sum(1 for share in free.shares if share.unknown is None) / len(free.shares)


def _node_table(
    nodes: _Nodes, verdicts: dict[Home, bool | None], shape: Shape, free: FreeShares, confined: bool
) -> Table:
    """The nodes that fit first, then those of which it is not known, then the others with the reason."""
    hidden = Unknown(_("it is made of more than this tenant's own rows"))
    untold = Unknown(_("no source states it"))
    rows: list[tuple[int, list[Value]]] = []
    for home, (node, usable) in nodes.items():
        verdict = verdicts[home]
        fits_cards: str | None = None
        if verdict:
            places = chosen_cards(node, shape) or ()
            named = [usable[place] for place in places if place < len(usable)]
            fits_cards = _names(named)
        of_home = [share for share in free.shares if (share.cluster, share.node) == home] if verdict is False else []
        word = "yes" if verdict else "unknown" if verdict is None else "no"
        models = sorted({card.model for card in node.cards if card.model})
        opened = sum(share.card.free_ppm for share in usable)
        cells: list[Value] = [
            *home,
            ", ".join(models) or None,
            word,
            None if verdict else _reason(node, shape, of_home, verdict),
            hidden if confined and fits_cards else fits_cards,
            _cards_fitting(node, shape),
            hidden if confined else opened / WHOLE_PPM,
            hidden if confined else untold if node.cpu_milli is None else node.cpu_milli,
        ]
        rows.append((0 if verdict else 1 if verdict is None else 2, cells))
    rows.sort(key=lambda row: row[0])
    return Table("nodes", NODE_COLUMNS, [cells for _place, cells in rows[:_NODES_LISTED_MAX]])


def _names(shares: Sequence[FreeShare]) -> str:
    names = [share.device_uuid if share.device_uuid and not share.anonymous else _("any free one") for share in shares]
    return ", ".join(dict.fromkeys(names[:_UUIDS_LISTED])) + (", ..." if len(names) > _UUIDS_LISTED else "")


def _reason(node: FreeNode, shape: Shape, shares: Sequence[FreeShare], verdict: bool | None) -> str:
    if verdict is None:
        return _("what is free of its cards is not known")
    if shape.models and all(fits_model(share.card, shape) is False for share in shares):
        return _("no card of the model that is asked for")
    if shape.profile is not None and all(share.card.mig is None for share in shares):
        return _("no card is in MIG mode: an instance is made on such a card alone")
    if shape.profile is None and all(share.card.mig is not None for share in shares):
        return _("its cards are cut into instances: they serve requests for a profile alone")
    if shape.cpu_milli is not None and node.cpu_milli is not None and node.cpu_milli < shape.cpu_milli:
        return _("not enough CPU")
    blocked = sorted({share.blocked for share in shares if share.blocked})
    if blocked and all(share.blocked or not share.card.free_ppm for share in shares):
        return _("its cards are {states}: nothing may be added").format(states=", ".join(blocked))
    fitting = _cards_fitting(node, shape)
    taken = sum(share.unheld.unheld_mib for share in shares if share.unheld is not None)
    if taken:
        return _(
            "{fitting} of {wanted} cards are large enough; {mib} MiB are in use on its cards that nobody was granted"
        ).format(fitting=fitting, wanted=shape.cards_count, mib=taken)
    return _("{fitting} of {wanted} cards are large enough").format(fitting=fitting, wanted=shape.cards_count)


def _move_table(room: Room, tenant: str | None) -> Table:
    hidden = Unknown(_("it is made of more than this tenant's own rows"))
    rows: list[list[Value]] = []
    for move in room.moves:
        holder = move.holder
        own = tenant is None or holder.tenant == tenant
        rows.append(
            [
                holder.name if own else hidden,
                holder.tenant if own else hidden,
                holder.cluster,
                holder.node,
                (", ".join(holder.cards) or None) if own else hidden,
                move.to_node,
                holder.share_ppm / WHOLE_PPM,
            ]
        )
    return Table("moves", MOVE_COLUMNS, rows)


def _blind_spots(free: FreeShares, shape: Shape, fitting: bool, room: Room | None, complete: bool) -> list[str]:
    spots = [*free.outside, _("taints, affinity, quota and priority are not asked: the scheduler may refuse what fits")]
    if any(share.unknown for share in free.shares):
        spots.append(_("of some cards it is not known what is free: they are never counted as fitting"))
    if shape.cpu_milli is not None and any(
        free.cpu_milli.get((share.cluster, share.node)) is None for share in free.shares
    ):
        spots.append(_("the free CPU of some nodes is not known: there cards alone decide what fits"))
    if shape.profile is not None:
        spots.append(
            _("an instance may have to be made first: a reconfiguration, where the node does not do that by itself")
        )
    if not fitting and room is None:
        if complete:
            spots.append(_("moves of more than {count} pods were not looked for").format(count=PODS_MAX))
        else:
            spots.append(_("the search for a move was cut off: one may exist that was not found"))
    if not free.cordons_known:
        spots.append(_("which cards were cordoned at a past instant is not known: none is called frozen"))
    return spots


def _next_actions(fitting: bool, room: Room | None, verdicts: dict[Home, bool | None]) -> list[str]:
    if fitting:
        return []
    if room is not None:
        return [
            ngettext(
                "move {count} pod as the table says, then node {node} has room",
                "move {count} pods as the table says, then node {node} has room",
                len(room.moves),
            ).format(count=len(room.moves), node=room.node)
        ]
    if None in verdicts.values():
        return [_("import PodResources dumps and regular pod listings, so that what is free is known")]
    return [_("ask for less, wait for a holder to end, or add a card of this kind")]


def _words(spec: FitsSpec) -> str:
    parts = [f"{spec.gpus} x {spec.mig}" if spec.mig else f"{spec.gpus} GPU"]
    if spec.gpumem is not None:
        parts.append(f"{spec.gpumem} MiB")
    if spec.cores:
        parts.append(f"{spec.cores} %")
    if spec.cpu is not None:
        parts.append(f"{spec.cpu:g} CPU")
    if spec.model:
        parts.append(spec.model)
    return ", ".join(parts)
