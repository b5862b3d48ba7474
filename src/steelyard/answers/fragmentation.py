"""How much of what is free the site's own typical requests cannot use, where it lies and why: ``steelyard fragmentation``, and a part of Q3.

``answer`` is the command's, ``fragmentation`` gives Q3 figures, tables and blind spots. It stands on ``free_shares`` of the instant and the typical
requests of the days before it. The trick to know: three measures of one thing stand side by side. The product's own asks every dimension that is
known (memory, cores, MIG placements, CPU) of the classes that want cards; ``_gpu_classes_only`` is the published test (share and CPU) over the same
classes; ``_paper`` is the published measure itself, in which a class that wants no card cannot use any, so that even an empty estate is
"fragmented".

Sceptic's command: ``kubectl describe nodes | grep -A8 'Allocated resources'`` beside the table ``nodes``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers import free_shares as free_share
from steelyard.answers import grounds, worth
from steelyard.answers.contract import Answer, Column, Evidence, Figure, Table, Value
from steelyard.answers.cost_tables import MONEY
from steelyard.answers.dimensions import Filter
from steelyard.answers.free_shares import FreeShares, free_shares
from steelyard.answers.reading import Reading, Record, Rows
from steelyard.answers.request_classes import TypicalRequests, class_table, typical_requests
from steelyard.answers.worth import Worth, told, total_worth, worth_of
from steelyard.definitions import fragmentation as definition
from steelyard.definitions import money
from steelyard.definitions.fragmentation import CAUSES, TYPICAL_DAYS, FreeNode, Measure, Mix, Test, fits_card, fits_node
from steelyard.definitions.share import WHOLE_PPM
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, Instant
from steelyard.primitives.unknown import Unknown

METHOD: Final = f"fragmentation {definition.VERSION}"
DAYS_MAX: Final = 36_600
_MEASURES: Final[Mapping[str, Test]] = {"": "share", "_memory": "memory", "_compute": "compute", "_mig": "mig"}
_BASE: Final = "F / free of which the fit is known"
_NODES_LISTED_MAX: Final = 10_000
NODE_COLUMNS: Final = (
    Column("cluster"),
    Column("node"),
    Column("model"),
    Column("gpus_free", "GPU"),
    Column("gpus_trapped", "GPU"),
    Column("gpus_interference_blocked", "GPU"),
    Column("gpus_fit_unknown", "GPU"),
    Column("gpus_free_unknown", "GPU"),
    *(Column(f"gpus_{cause}", "GPU") for cause in CAUSES if not cause.startswith("x")),
    Column("cards_fitting_count", "1"),
    Column("cards_free_count", "1"),
    Column("currency"),
    Column("trapped_cost_per_hour", MONEY),
)
FIGURES: Final[Mapping[str, tuple[str, str]]] = {
    "gpus_free": ("GPU", f"{METHOD}: share that nobody holds of cards in service, as far as it is known"),
    "gpus_trapped": ("GPU", f"{METHOD}: F, over the classes that want cards, in every dimension that is known"),
    "gpus_usable": ("GPU", f"{METHOD}: free, and serves the classes that want cards"),
    "gpus_fit_unknown": ("GPU", f"{METHOD}: free, and nobody can tell whether it serves the classes that want cards"),
    "gpus_interference_blocked": (
        "GPU",
        f"{METHOD}: free on cards that are frozen, memory_bound or saturated, and memory that is in use and was granted to nobody",
    ),
    "gpus_free_unknown": ("GPU", f"{METHOD}: not held by anybody known, and not known to be free"),
    **{
        f"{ratio}{suffix}": ("1", f"{METHOD}: {text} by {test}, classes that want cards")
        for suffix, test in _MEASURES.items()
        for ratio, text in (("fragmentation_ratio", _BASE), ("trapped_ratio", "F / supply"))
    },
    "fragmentation_ratio_gpu_classes_only": ("1", f"{METHOD}: {_BASE} by share and CPU, classes that want cards"),
    "trapped_ratio_gpu_classes_only": ("1", f"{METHOD}: F / supply by share and CPU, classes that want cards"),
    "fragmentation_ratio_paper": ("1", f"{METHOD}: {_BASE} by share and CPU, all classes, as published"),
    "trapped_ratio_paper": ("1", f"{METHOD}: F / supply by share and CPU, all classes, as published"),
    "fragmentation_ratio_empty_gpu_classes_only": ("1", f"{METHOD}: as _gpu_classes_only, if nobody held anything"),
    "fragmentation_ratio_empty_paper": ("1", f"{METHOD}: as _paper, if nobody held anything"),
    "units_fitting_ratio": (
        "1",
        f"{METHOD}: cards with free share that serve a typical request / cards with free share",
    ),
    "currency": ("ISO 4217", "of trapped_cost_per_hour; unknown where there are several, which are never added"),
    "trapped_cost_per_hour": (
        MONEY,
        f"{METHOD}: gpus_trapped of each node by what its cards cost in the grain, money {money.VERSION}",
    ),
}


@dataclass(frozen=True, slots=True)
class FragmentationSpec:
    """As asked: ``at`` None = the last instant that is known. ``days``: typical requests are those of so many days before it. ``cluster``, ``node``,
    ``model``: of these alone; ``where``: of cards that meet these conditions (on cluster, node and model)."""

    at: Instant | None = None
    days: int = TYPICAL_DAYS
    cluster: str | None = None
    node: str | None = None
    model: str | None = None
    explain: bool = False
    where: Sequence[Filter] = ()


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """What ``fragmentation`` found, for an answer to show."""

    at: Instant
    figures: Sequence[Figure]
    tables: Sequence[Table]
    blind_spots: Sequence[str]
    coverage: float | Unknown
    next_actions: Sequence[str] = field(default_factory=tuple)


def statements() -> tuple[Path, ...]:
    """The files whose statements ``fragmentation`` runs."""
    return (*free_share.statements(), worth.SQL)


def title() -> str:
    """What is asked, in the chosen language."""
    return _("How much of what is free cannot be used by the requests of this site")


def answer(rows: Rows, spec: FragmentationSpec) -> Answer:
    """The whole answer. Raises UsageError for days that are none, and where nothing was imported yet."""
    reading = Reading(rows, *statements())
    found = fragmentation(reading, spec)
    notes, _total = grounds.finding_notes(reading, {f"node {row[1]}" for row in found.tables[0].rows})
    return Answer(
        question="fragmentation",
        title=title(),
        window=None,
        as_of=found.at,
        figures=found.figures,
        tables=found.tables,
        definitions=grounds.definitions(reading, {"fragmentation": definition.VERSION}),
        sources=grounds.source_lines(reading),
        coverage=found.coverage,
        blind_spots=found.blind_spots,
        findings=notes,
        evidence=[
            Evidence(
                _("what each node has given away"),
                "ledger.holding",
                "kubectl describe nodes | grep -A8 'Allocated resources'",
            ),
            Evidence(_("the instances of each card"), _("each GPU node"), "nvidia-smi mig -lgi"),
            Evidence(_("what was asked for"), "dim.request_class", "kubectl get pods --all-namespaces -o json"),
        ],
        next_actions=found.next_actions,
        explain=dict(reading.ran) if spec.explain else {},
    )


def fragmentation(reading: Reading, spec: FragmentationSpec) -> Fragmentation:
    """Figures of ``FIGURES``, the tables ``nodes`` and ``request_classes``. ``reading`` has those of ``statements``.

    Raises UsageError for days that are none."""
    if not 1 <= spec.days <= DAYS_MAX:
        raise UsageError(_("--days: expected 1 to {most}; found {days}").format(most=DAYS_MAX, days=spec.days))
    times = grounds.known_times(reading)
    free = _scoped(free_shares(reading, times, spec.at), spec)
    asked = typical_requests(reading, free.at, spec.days)
    if len(free.outside) == len(times):
        reason = Unknown("; ".join(free.outside))
        figures = [Figure(name, reason, unit, method, reason) for name, (unit, method) in FIGURES.items()]
        return Fragmentation(
            free.at, figures, [_node_table(_node_rows(free, asked.cards, {}))], list(free.outside), reason
        )
    values, covers = _values(free, asked)
    nodes = _node_rows(free, asked.cards, _booked(reading, free.at))
    values |= _trapped_cost(nodes, values["gpus_trapped"])
    whole = covers["fragmentation_ratio"]
    return Fragmentation(
        free.at,
        [Figure(name, values[name], unit, method, covers.get(name, whole)) for name, (unit, method) in FIGURES.items()],
        [_node_table(nodes), class_table(asked.mix)],
        _blind_spots(free, asked),
        whole,
        _next_actions(free, values),
    )


def free_share_ratios(rows: Rows) -> dict[tuple[str, str], float]:
    """What monitoring is told: (``fragmentation_ratio`` or ``trapped_ratio``, measure) -> ratio, now; what is not known is left out."""
    found = fragmentation(Reading(rows, *statements()), FragmentationSpec())
    told: dict[tuple[str, str], float] = {}
    for figure in found.figures:
        name, _ratio, measured = figure.name.partition("_ratio")
        if name in ("fragmentation", "trapped") and isinstance(figure.value, Fraction | int):
            told[f"{name}_ratio", measured.removeprefix("_") or "all"] = float(figure.value)
    return told


def _scoped(free: FreeShares, spec: FragmentationSpec) -> FreeShares:
    """Only what is asked about."""
    wanted = {name: value for name in ("cluster", "node") if (value := getattr(spec, name)) is not None}
    if not wanted and spec.model is None and not spec.where:
        return free
    shares = [
        share
        for share in free.shares
        if all(getattr(share, name) == value for name, value in wanted.items())
        and (spec.model is None or spec.model.casefold() in (share.card.model or "").casefold())
        and all(
            condition.admits({"cluster": share.cluster, "node": share.node, "model": share.card.model})
            for condition in spec.where
        )
    ]
    return replace(free, shares=shares, supply_ppm=WHOLE_PPM * len(shares))


def _values(free: FreeShares, asked: TypicalRequests) -> tuple[dict[str, Value], dict[str, float | Unknown]]:
    unheld = sum(share.unheld_ppm for share in free.shares)
    blocked = unheld + sum(share.card.free_ppm for share in free.shares if share.blocked and not share.unknown)
    unknown = sum(share.card.free_ppm for share in free.shares if share.unknown)
    nodes = [node for _home, node in free.nodes()]
    open_ppm = sum(card.free_ppm for node in nodes for card in node.cards)
    values: dict[str, Value] = {
        "gpus_free": Fraction(open_ppm + blocked, WHOLE_PPM),
        "gpus_interference_blocked": Fraction(blocked, WHOLE_PPM),
        "gpus_free_unknown": Fraction(unknown, WHOLE_PPM),
    }
    if not free.shares:
        reason = Unknown(_("no card in service is known here"))
        values.update(dict.fromkeys(("gpus_free", "gpus_interference_blocked", "gpus_free_unknown"), reason))
    elif unknown and not open_ppm + blocked:
        values["gpus_free"] = Unknown(_reasons(free))
    covers: dict[str, float | Unknown] = {}
    for suffix, test in _MEASURES.items():
        mix = _of_dimension(asked.cards, test)
        shut = [FreeNode((share.card,)) for share in free.shares if share.blocked and not share.unknown]
        of_blocked = measure_of(shut, Mix((), 1), test).free + (unheld if test in ("share", "memory", "paper") else 0)
        _put(values, covers, suffix, measure_of(nodes, mix, test), free, of_blocked, unknown)
    _put(values, covers, "_gpu_classes_only", measure_of(nodes, asked.cards, "paper"), free, blocked, unknown)
    _put(values, covers, "_paper", measure_of(nodes, asked.mix, "paper"), free, blocked, unknown)
    empty = [node for _home, node in free.nodes(empty=True)]
    for suffix, mix in (("_gpu_classes_only", asked.cards), ("_paper", asked.mix)):
        found, name = measure_of(empty, mix, "paper"), f"fragmentation_ratio_empty{suffix}"
        values[name], covers[name] = _told(found.ratio()), _cover(found, 0)
    found = measure_of(nodes, asked.cards, "share")
    nothing_known = isinstance(values["fragmentation_ratio"], Unknown)
    for name, amount in (
        ("gpus_trapped", found.trapped),
        ("gpus_usable", found.amount(definition.SATISFIED)),
        ("gpus_fit_unknown", Fraction(found.unknown, found.whole or 1)),
    ):
        values[name] = values["fragmentation_ratio"] if nothing_known else amount / WHOLE_PPM
    fitting, cards = _fitting(nodes, asked.cards)
    reason = Unknown(_("no class of requests is typical") if cards else _("nothing is free"))
    values["units_fitting_ratio"] = Fraction(fitting, cards) if cards and asked.cards.classes else reason
    return values, covers


def measure_of(nodes: Sequence[FreeNode], mix: Mix, test: Test) -> Measure:
    """F over the nodes; of one dimension alone, cards that are cut count for MIG placements and the others for memory and compute."""
    if test in ("memory", "compute"):
        nodes = [replace(node, cards=tuple(card for card in node.cards if card.mig is None)) for node in nodes]
    elif test == "mig":
        nodes = [replace(node, cards=tuple(card for card in node.cards if card.mig is not None)) for node in nodes]
    return definition.measure(nodes, mix, test)


def _of_dimension(mix: Mix, test: Test) -> Mix:
    if test in ("share", "paper"):
        return mix
    kept = tuple(each for each in mix.classes if (each.shape.profile is not None) == (test == "mig"))
    return Mix(kept, sum(each.weight for each in kept))


def _put(
    values: dict[str, Value],
    covers: dict[str, float | Unknown],
    suffix: str,
    found: Measure,
    free: FreeShares,
    blocked_ppm: int,
    unknown_ppm: int,
) -> None:
    """Both ratios of one measure. What is blocked is free and not trapped; what is not known to be free lowers the coverage."""
    ratio, cover = found.ratio(), _cover(found, unknown_ppm)
    trapped: Value
    if isinstance(ratio, Unknown):
        told = Unknown(_reasons(free)) if unknown_ppm and not found.free else _told(ratio)
        values[f"fragmentation_ratio{suffix}"] = values[f"trapped_ratio{suffix}"] = told
    else:
        known = Fraction(found.free - found.unknown, found.whole) + blocked_ppm
        values[f"fragmentation_ratio{suffix}"] = found.trapped / known
        trapped = found.trapped / free.supply_ppm
        values[f"trapped_ratio{suffix}"] = trapped
    covers[f"fragmentation_ratio{suffix}"] = covers[f"trapped_ratio{suffix}"] = cover


def _cover(found: Measure, unknown_ppm: int) -> float | Unknown:
    whole = Fraction(found.free, found.whole or 1) + unknown_ppm
    if not whole:
        return Unknown(_("nothing is free"))
    return float(Fraction(found.free - found.unknown, found.whole or 1) / whole)


def _told(value: Fraction | Unknown) -> Value:
    """The definition's reasons in the chosen language."""
    if not isinstance(value, Unknown):
        return value
    reasons = {
        "no class of requests is typical": _("no class of requests is typical"),
        "nothing is free": _("nothing is free"),
        "no card tells whether the requests fit": _("no card tells whether the requests fit"),
    }
    return Unknown(reasons.get(value.reason, value.reason))


def _reasons(free: FreeShares) -> str:
    return "; ".join(sorted({share.unknown for share in free.shares if share.unknown})[:3])


def _fitting(nodes: Sequence[FreeNode], mix: Mix) -> tuple[int, int]:
    """Cards with free share that serve a typical request (the node can run it, and the card is large enough), of all with free share."""
    fitting = cards = 0
    for node in nodes:
        able = [each.shape for each in mix.classes if fits_node(node, each.shape) is True]
        for card in node.cards:
            cards += 1
            fitting += any(fits_card(card, shape) is True for shape in able)
    return fitting, cards


_Home = tuple[str, str | None]
"""Cluster and node."""


@dataclass(frozen=True, slots=True)
class _NodeRow:
    """A node's row; ``trapped_ppm`` None = not known. ``worth``: what an hour of what is trapped costs."""

    cells: Sequence[Value]
    home: _Home
    trapped_ppm: Fraction | None
    worth: Worth | Unknown


def _booked(reading: Reading, at: Instant) -> Mapping[_Home, Sequence[Record]]:
    """What the cards of each node cost in the last grain by then."""
    found: dict[_Home, list[Record]] = {}
    for row in reading.run("worth_of_nodes", at_us=at):
        found.setdefault((row["cluster"], row["node"]), []).append(row)
    return found


def _trapped_cost(nodes: Sequence[_NodeRow], trapped: Value) -> dict[str, Value]:
    """What an hour of what is trapped costs: of nodes of which something is."""
    if isinstance(trapped, Unknown):
        return {"currency": trapped, "trapped_cost_per_hour": trapped}
    currency, cost = told(total_worth(row.worth for row in nodes if row.trapped_ppm is None or row.trapped_ppm > 0))
    reason = cost if isinstance(cost, Unknown) else Unknown(_("nothing is trapped"))
    return {"currency": reason if currency is None else currency, "trapped_cost_per_hour": cost}


def _node_rows(free: FreeShares, mix: Mix, booked: Mapping[_Home, Sequence[Record]]) -> list[_NodeRow]:
    """One row per node with free share or cards; the most trapped first. ``booked``: what its cards cost."""
    homes = dict(free.nodes())
    rows: list[_NodeRow] = []
    by_home: dict[_Home, list[int]] = {}
    models: dict[_Home, set[str]] = {}
    for share in free.shares:
        home = (share.cluster, share.node)
        sums = by_home.setdefault(home, [0, 0, 0])
        models.setdefault(home, set()).add(share.card.model or "")
        place = 2 if share.unknown else 1 if share.blocked else 0
        sums[place] += share.card.free_ppm
        sums[1] += share.unheld_ppm
    for home, (open_ppm, blocked, unknown) in by_home.items():
        node = homes.get(home, FreeNode(()))
        found = definition.measure_node(node, mix, "share")
        fitting, cards = _fitting([node], mix)
        is_told = bool(mix.classes) and not (unknown and not open_ppm)
        no_class = Unknown(
            _("not all of it is known to be free") if mix.classes else _("no class of requests is typical")
        )
        trapped = found.trapped if is_told else None
        hourly = no_class if trapped is None else worth_of(booked.get(home, ()), round(trapped * HOUR_US / WHOLE_PPM))
        cells: list[Value] = [
            *home,
            ", ".join(sorted(filter(None, models[home]))) or None,
            (open_ppm + blocked) / WHOLE_PPM,
            float(found.trapped) / WHOLE_PPM if is_told else no_class,
            blocked / WHOLE_PPM,
            found.unknown / found.whole / WHOLE_PPM if is_told else no_class,
            unknown / WHOLE_PPM,
            *(
                float(found.amount(cause)) / WHOLE_PPM if is_told else no_class
                for cause in CAUSES
                if not cause.startswith("x")
            ),
            fitting if is_told else no_class,
            cards,
            *told(hourly),
        ]
        rows.append(_NodeRow(cells, home, trapped, hourly))
    return sorted(rows, key=lambda row: (-(row.trapped_ppm or 0), row.home[0], row.home[1] or ""))


def _node_table(nodes: Sequence[_NodeRow]) -> Table:
    return Table("nodes", NODE_COLUMNS, [row.cells for row in nodes[:_NODES_LISTED_MAX]])


def _blind_spots(free: FreeShares, asked: TypicalRequests) -> list[str]:
    spots = list(free.outside)
    if asked.declared:
        spots.append(_("typical requests are those that the settings declare; what was asked for is not looked at"))
    if asked.unread_count:
        spots.append(
            _("{count} requests do not tell how many cards they want and are in no class").format(
                count=asked.unread_count
            )
        )
    taken = [share.unheld.unheld_mib for share in free.shares if share.unheld is not None]
    if taken:
        spots.append(
            _("{mib} MiB are in use on {count} cards that nobody was granted: they are not offered as free").format(
                mib=sum(taken), count=len(taken)
            )
        )
    if any(share.unknown for share in free.shares):
        spots.append(_("a part may not be called free: {reasons}").format(reasons=_reasons(free)))
    if free.uncounted:
        spots.append(_("some nodes have cards that nothing counts: supply and what is free are not known"))
    if any(not share.state_known and share.card.free_ppm for share in free.shares):
        spots.append(
            _(
                "of some held cards no counter tells whether they are memory-bound: what is free of them counts as placeable"
            )
        )
    if any(cpu is None for cpu in (free.cpu_milli.get((share.cluster, share.node)) for share in free.shares)):
        spots.append(_("the free CPU of some nodes is not known: there cards alone decide what fits"))
    if not free.cordons_known:
        spots.append(_("which cards were cordoned at a past instant is not known: none is called frozen"))
    if any(share.empty.mig is not None for share in free.shares):
        spots.append(
            _(
                "instances that exist and that nobody holds count as free slices: making another profile of them takes a reconfiguration"
            )
        )
    return spots


def _next_actions(free: FreeShares, values: Mapping[str, Value]) -> list[str]:
    actions = []
    ratio = values["fragmentation_ratio"]
    if isinstance(ratio, Fraction) and ratio > Fraction(1, 4):
        actions.append(_("ask `steelyard fits` for a request that waits: it names the smallest move that makes room"))
    if any(share.blocked == "frozen" and share.card.free_ppm for share in free.shares):
        actions.append(_("uncordon the nodes and cards that are frozen and well"))
    if any(share.unknown for share in free.shares):
        actions.append(_("import PodResources dumps and regular pod listings, so that what is free is known"))
    return actions
