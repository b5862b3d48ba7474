"""Q3: where every GPU-second went, by state and cause, who idles, who waits beside it, and whether a card can take one more tenant.

``answer`` is what the registry calls. Amounts come from ``ledger.gpu_state``, which splits the supply exactly; demand from ``ledger.wait``. The trick
to know: each part (states, causes, idle holders, demand, cards) is a module that yields figures and tables; a further part is added in ``_parts``. A
window that cuts a grain is told by its whole grains, since what a card did is booked by grain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers import (
    attribution_paths,
    card_spent,
    dimensions,
    fragmentation,
    free_shares,
    grounds,
    queue_waits,
    right_sizing,
    state_advice,
    state_capacity,
    state_cards,
    state_demand,
    state_tables,
    state_troubles,
)
from steelyard.answers.contract import Answer, Evidence, Figure, Series, Table, Value
from steelyard.answers.dimensions import Dimension, Filter
from steelyard.answers.lines import Grains, grains_of, parameter_of
from steelyard.answers.narrowing import names_shown
from steelyard.answers.reading import Reading, Rows
from steelyard.answers.state_lines import (
    HELD,
    NOT_KNOWN,
    WASTED,
    WORKING,
    Asked,
    StateReader,
    asked_about,
    hours,
    share,
    total_us,
)
from steelyard.definitions import gpu_state
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, INSTANT_MAX, INSTANT_MIN, Instant, Window, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
VERSION: Final = "1"
_STATE: Final = f"gpu_state {gpu_state.VERSION}"
_POINTS_MAX: Final = 400
METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "gpu_hours_supply": ("GPU-h", f"{_STATE}: all states of the places asked about"),
    "gpu_hours_held": ("GPU-h", f"{_STATE}: all held states"),
    "gpu_hours_working": ("GPU-h", f"{_STATE}: saturated + memory_bound + compute_bound + mixed"),
    "gpu_hours_wasted": ("GPU-h", f"{_STATE}: held_idle + busy_not_working + suspected_hang"),
    **{f"gpu_hours_{name}": ("GPU-h", f"{_STATE}: state {name}") for name in gpu_state.STATES},
    "working_ratio": ("1", f"{_STATE}: gpu_hours_working / held time whose state is known"),
    "wasted_ratio": ("1", f"{_STATE}: gpu_hours_wasted / held time whose state is known"),
    "held_ratio": ("1", f"{_STATE}: gpu_hours_held / gpu_hours_supply"),
    **state_demand.METHODS,
    **state_capacity.METHODS,
    "states_residual_gpu_us": (
        "GPU-us",
        f"{_STATE}: sum over places and grains of |supply - sum of states|, in integers",
    ),
}


@dataclass(frozen=True, slots=True)
class UtilisationSpec:
    """Q3 as asked: ``window`` None = all known time; ``by`` groups the states; ``where`` narrows (dimension or label -> value).

    ``confined``: whoever asks may not learn which names exist beside its own.
    """

    window: Window | None = None
    by: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    confined: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """What all parts say together."""

    figures: Sequence[Figure]
    tables: Sequence[Table]
    series: Sequence[Series]
    coverage: float | Unknown
    blind_spots: Sequence[str]
    next_actions: Sequence[str]
    names: frozenset[str] = frozenset()


def title() -> str:
    """What the question asks, in the chosen language."""
    return _("Where did every GPU-second go")


def answer(rows: Rows, spec: UtilisationSpec) -> Answer:
    """Where the GPU-time of ``spec.window`` went, over its whole grains.

    Figures per state; tables ``states`` (by the chosen dimensions), ``causes``, ``troubles``, ``idle_holders``, ``pending``, ``cards``, ``bases`` and
    ``attribution_paths``; one series per state. A time that no sample covers is held_unknown, never idle. Outside the known time every figure is
    Unknown. Raises UsageError for an unknown dimension, an empty window and an empty store. Method: definitions 4 and 5.
    """
    if spec.window is not None and not spec.window.duration_us:
        raise UsageError(
            _("a window must end after it starts: {window} holds no time at all").format(window=spec.window)
        )
    reading = Reading(
        rows,
        *right_sizing.statements(),
        SQL,
        grounds.SQL,
        dimensions.SQL,
        queue_waits.SQL_FILE,
        state_troubles.SQL_FILE,
        card_spent.SQL,
    )
    by = dimensions.chosen(spec.by, dimensions.STATE, reading)
    where = dimensions.filters(spec.where, dimensions.STATE, reading)
    times = grounds.known_times(reading)
    known = Window(min(time.first for time in times), max(time.last for time in times) + 1)
    grains = grains_of(spec.window, parameter_of(reading).grain_us)
    span = reading.run("span", from_us=grains.whole.start, to_us=grains.whole.end)[0]
    window = spec.window or grounds.all_time(times)
    if span["first_us"] is None:
        reason = Unknown(
            _("nothing is booked of whole grains in {window}; the known time is {known}").format(
                window=window, known=known
            )
        )
        return _assemble(spec, window, _unknown(reason), reading)
    if spec.window is not None:
        window = grains.whole
    reader = StateReader(reading, grains.whole)
    aside = Reading(rows, *fragmentation.statements())
    parts = _parts(reading, aside, reader, spec, by, where, grains, known)
    reading.ran.update({f"{free_shares.SQL.stem}: {name}": sql for name, sql in aside.ran.items()})
    return _assemble(spec, window, parts, reading)


def _parts(
    reading: Reading,
    aside: Reading,
    reader: StateReader,
    spec: UtilisationSpec,
    by: Sequence[Dimension],
    where: Sequence[Filter],
    grains: Grains,
    known: Window,
) -> Parts:
    """Each part in turn. A further one yields its figures (named in METHODS), tables and actions here. ``aside`` has the statements of free share."""
    lines = reader.lines()
    if not spec.confined:
        dimensions.require_known(where, (line.record for line in lines), reading)
    reader.homes.blind = spec.confined
    asked = asked_about(lines, where, reader.homes)
    supply_us = total_us(asked.lines if spec.confined else asked.of_places)
    bound = {"from_us": grains.whole.start, "to_us": grains.whole.end}
    since = {(row["cluster"], row["pod_uid"]): int(row["since_us"]) for row in reading.run("idle_since", **bound)}
    idle, idle_left, worst = state_tables.idle_table(asked.lines, since)
    window = grains.whole if grains.whole.end != INSTANT_MAX else Window(min(known.start, known.end), known.end)
    demand = state_demand.demand_part(reading, window, where, 0 if spec.confined else supply_us)
    causes = state_tables.causes_table(asked.lines, supply_us, demand.asking)
    troubles, troubles_left = state_troubles.troubles_table(
        reading, grains.whole, asked.lines, demand.asking, where, since, supply_us
    )
    tables = [state_tables.states_table(asked.lines, by, supply_us), causes, troubles, idle, demand.table]
    cards_left = 0
    if not spec.confined:
        cards, cards_left = _cards(reading, reader, where, grains)
        tables.append(cards)
    free = state_capacity.free_part(aside, window, known, where, confined=spec.confined)
    sizes = state_capacity.sizing_part(
        reading, right_sizing.whole_grains(window, known, parameter_of(reading).grain_us), asked.lines
    )
    tables += [*free.tables, *sizes.tables, state_tables.bases_table(asked.lines), attribution_paths.paths_table()]
    left_out = {
        "troubles": troubles_left,
        "idle_holders": idle_left,
        "cards": cards_left,
        right_sizing.NAME: sizes.left_out,
    }
    advice = state_advice.next_actions(asked.lines, worst, since, demand.table)
    return Parts(
        figures=[
            *_figures(asked, supply_us, spec.confined),
            *demand.figures,
            *free.figures,
            _balance(reading, grains),
        ],
        tables=tables,
        series=_series(reading, reader, where, grains),
        coverage=_coverage(asked),
        blind_spots=[
            *_blind_spots(asked, grains, known, left_out, is_against=state_tables.has_less_than_nothing(tables[0])),
            *free.blind_spots,
        ],
        next_actions=[*advice, *free.next_actions, *sizes.next_actions],
        names=frozenset(
            f"pod {line.record.get('namespace')}/{line.record.get('pod')}"
            for line in asked.lines
            if line.record["pod_uid"]
        ),
    )


def _figures(asked: Asked, supply_us: int, confined: bool) -> list[Figure]:
    by_state: dict[str, int] = {}
    for line in asked.lines:
        by_state[line.record["state"]] = by_state.get(line.record["state"], 0) + line.amount_us
    held, unknown = total_us(asked.lines, HELD), total_us(asked.lines, NOT_KNOWN)
    working, wasted = total_us(asked.lines, WORKING), total_us(asked.lines, WASTED)
    seen = held - unknown
    unmeasured = Unknown(_("of no held time the state is known"))
    values: dict[str, Value] = {
        "gpu_hours_supply": Unknown(_("a tenant is told its own time only")) if confined else hours(supply_us),
        "gpu_hours_held": hours(held),
        "gpu_hours_working": hours(working) if seen or not held else unmeasured,
        "gpu_hours_wasted": hours(wasted) if seen or not held else unmeasured,
        **{f"gpu_hours_{name}": hours(by_state.get(name, 0)) for name in gpu_state.STATES},
        "working_ratio": float(Fraction(working, seen)) if seen else unmeasured,
        "wasted_ratio": float(Fraction(wasted, seen)) if seen else unmeasured,
        "held_ratio": Unknown(_("a tenant is told its own time only")) if confined else share(held, supply_us),
    }
    if held and not seen:
        values |= {f"gpu_hours_{name}": unmeasured for name in gpu_state.HELD_BY_TRIPLE}
    coverage = _coverage(asked)
    return [Figure(name, value, *METHODS[name], coverage) for name, value in values.items()]


def _coverage(asked: Asked) -> float | Unknown:
    """Part of the time asked about whose state is known: neither unobserved nor held and unknown."""
    whole = total_us(asked.lines)
    if whole <= 0:
        return Unknown(_("no time of what is asked about is booked"))
    return float(Fraction(whole - total_us(asked.lines, (*NOT_KNOWN, "unobserved")), whole))


def _balance(reading: Reading, grains: Grains) -> Figure:
    row = reading.run("balance", from_us=grains.whole.start, to_us=grains.whole.end)[0]
    return Figure("states_residual_gpu_us", int(row["residual_gpu_us"]), *METHODS["states_residual_gpu_us"], 1.0)


def _cards(reading: Reading, reader: StateReader, where: Sequence[Filter], grains: Grains) -> tuple[Table, int]:
    of_place = [condition for condition in where if condition.dimension.name in dimensions.PLACE]
    end = grains.whole.end
    last = reading.run(
        "cards_last", from_us=max(grains.whole.start, end - DAY_US) if end != INSTANT_MAX else INSTANT_MIN, to_us=end
    )
    cards = [card for card in reader.cards() if all(condition.admits(card) for condition in of_place)]
    instants = [int(row["at_us"]) for row in last]
    stretch = Window(min(instants), max(instants) + 1) if instants else Window(end, end)
    spent = card_spent.spent_cards(reading, stretch)
    unplaced = {
        (row["cluster"], row["node"], int(row["at_us"]))
        for row in reading.run("unplaced_last", from_us=stretch.start, to_us=stretch.end)
    }
    unheld = card_spent.unheld_memory(reading, Window(stretch.start, stretch.end + parameter_of(reading).grain_us - 1))
    return state_cards.cards_table(cards, last, spent, unplaced, unheld)


def _series(reading: Reading, reader: StateReader, where: Sequence[Filter], grains: Grains) -> list[Series]:
    bound = {"from_us": grains.whole.start, "to_us": grains.whole.end}
    span = reading.run("span", **bound)[0]
    grain_us = parameter_of(reading).grain_us
    steps = (int(span["last_us"]) - int(span["first_us"])) // grain_us + 1
    step_us = grain_us if steps <= _POINTS_MAX else DAY_US
    amounts: dict[tuple[str, Instant], int] = {}
    if not where:
        for row in reading.run("total_by_grain", step_us=step_us, **bound):
            amounts[row["state"], int(row["at_us"])] = int(row["amount_gpu_us"])
        return state_tables.state_series(amounts)
    for row in reading.run("stated_by_grain", step_us=step_us, **bound):
        record = reader.named(row)
        admitted = reader.homes.meets(record, where) if record["pod_uid"] else all(c.admits(record) for c in where)
        if admitted:
            key = (row["state"], int(row["at_us"]))
            amounts[key] = amounts.get(key, 0) + int(row["amount_gpu_us"])
    return state_tables.state_series(amounts)


def _unknown(reason: Unknown) -> Parts:
    figures = [Figure(name, reason, unit, method, reason) for name, (unit, method) in METHODS.items()]
    return Parts(figures, [attribution_paths.paths_table()], (), reason, (), ())


def _blind_spots(
    asked: Asked, grains: Grains, known: Window, left_out: Mapping[str, int], *, is_against: bool = False
) -> list[str]:
    spots = [
        _("a state holds for a minute: what happens between two samples, or for less than a minute, is not seen"),
        _("a cause is told only where something shows it; nothing shows a checkpoint"),
    ]
    if any(line.record["basis"].endswith(gpu_state.FALLBACK) for line in asked.lines):
        spots.append(
            _(
                "203 GPU_UTIL stands in for 1001 on some cards: it says that a kernel ran, so idle is idle and busy may be anything"
            )
        )
    if any(line.record["state"] == "held_unattributed" for line in asked.lines):
        spots.append(_("on shared cards without a path of their own, who worked and who idled is not known"))
    if asked.unsettled:
        pods = names_shown(f"{line.record.get('namespace')}/{line.record.get('pod')}" for line in asked.unsettled)
        spots.append(
            _("the card of {pods} is not known and may be one of those asked about: at most {hours} GPU-h more").format(
                pods=pods, hours=f"{float(hours(total_us(asked.unsettled))):.2f}"
            )
        )
    if grains.edges:
        spots.append(
            _("the window cuts a grain: states are told of whole grains only, of {asked} those of {answered}").format(
                asked=grains.asked, answered=grains.whole
            )
        )
    if is_against:
        spots.append(
            _(
                "rows of less than 0 are no time: what pods on cards that no source names hold stands under their node, and "
                "once more, taken off what its cards have left: add up the rows of a node"
            )
        )
    if grains.asked.end != INSTANT_MAX and (grains.asked.start < known.start or grains.asked.end > known.end):
        spots.append(
            _("nothing is known outside {first} to {last}").format(
                first=format_instant(known.start), last=format_instant(known.end - 1)
            )
        )
    spots += [
        _("{count} more rows of {table} are not listed").format(count=count, table=table)
        for table, count in left_out.items()
        if count
    ]
    return spots


def _assemble(spec: UtilisationSpec, window: Window, parts: Parts, reading: Reading) -> Answer:
    blind = list(parts.blind_spots)
    cluster = grounds.cluster_asked(spec.where)
    notes, total = grounds.finding_notes(reading, parts.names if spec.confined else None, cluster)
    if total > len(notes):
        blind.append(_("{count} more findings are not listed here").format(count=total - len(notes)))
    return Answer(
        question="q3",
        title=title(),
        window=window,
        as_of=window.end,
        figures=parts.figures,
        tables=parts.tables,
        series=parts.series,
        definitions=grounds.definitions(reading, {"q03_utilisation": VERSION}),
        sources=grounds.source_lines(reading, cluster),
        coverage=parts.coverage,
        blind_spots=blind,
        findings=notes,
        evidence=[
            Evidence(_("the state of each share of each card by grain"), "ledger.gpu_state", "steelyard q3 --explain"),
            Evidence(_("what the cards do now"), _("each GPU node"), "dcgmi dmon -e 203,1001,1002,1003,1005,155"),
            Evidence(_("who waits"), "ledger.wait", "steelyard q6"),
        ],
        next_actions=parts.next_actions,
        explain=dict(reading.ran) if spec.explain else {},
    )
