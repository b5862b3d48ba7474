"""Q7: who takes more than was granted, who uses a card without a grant, by how much, and what that stands on.

``answer`` is what the registry calls. Episodes come from ``ledger.over_use``, the raw curve of each from ``ledger.excess``. The trick to know:
silence is no innocence, so who could not be measured is listed as unknown and coverage says how many were; and every row says how to contest it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from steelyard.answers import dimensions, grounds, overuse_rows, worth
from steelyard.answers.contract import Answer, Evidence, Figure, Series, Table, Value
from steelyard.answers.cost_tables import MONEY
from steelyard.answers.dimensions import Filter
from steelyard.answers.overuse_rows import Episode, Unmeasured
from steelyard.answers.reading import Reading, Record, Rows
from steelyard.definitions import money as money_definition
from steelyard.definitions import over_use
from steelyard.definitions.grain import grain_start
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Window, format_instant, second_after
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
VERSION: Final = "1"
_METHOD: Final = f"over_use {over_use.VERSION}"
METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "hard_count": ("1", f"{_METHOD}: hard episodes that the window meets"),
    "soft_count": ("1", f"{_METHOD}: soft episodes that the window meets"),
    "exposed_count": ("1", f"{_METHOD}: pods to which cards stand open and of which no process was seen there"),
    "violators_count": ("1", f"{_METHOD}: pods with a hard or soft episode"),
    "gpu_seconds_at_stake": ("GPU-s", f"{_METHOD}: what was taken above grants, as shares of cards, times the time shown"),
    "gpu_seconds_at_stake_hard": ("GPU-s", f"{_METHOD}: of that, in hard episodes"),
    "currency": ("ISO 4217", "of money_at_stake; unknown where there are several, which are never added"),
    "money_at_stake": (MONEY, f"{_METHOD}: gpu_seconds_at_stake by what the card cost meanwhile, money {money_definition.VERSION}"),
    "limited_count": ("1", f"{_METHOD}: parts of cards that a sharing layer limits, by pod and card"),
    "unmeasured_count": ("1", f"{_METHOD}: of those, the ones that no path measured: not known, and no innocence"),
    "cards_without_processes_count": ("1", f"{_METHOD}: cards of which no process of any pod was seen"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OveruseSpec:
    """Q7 as asked: ``window`` None = all known time; ``by`` groups (the tenant where nothing is said); ``where`` narrows (dimension -> value).

    ``confined``: whoever asks may not learn which names exist beside its own.
    """

    window: Window | None = None
    by: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    confined: bool = False


def title() -> str:
    """What the question asks, in the chosen language."""
    return _("Who takes more than was granted")


def answer(rows: Rows, spec: OveruseSpec) -> Answer:
    """Episodes of over-use that ``spec.window`` meets, gravest first, pods to which cards stand open, and who could not be measured.

    GPU-seconds are those of the window. Where nothing that a layer limits was measured, the counts are of what was seen and coverage is 0. Raises
    UsageError for an unknown dimension or name, an empty window and an empty store. Method: definitions 11.
    """
    if spec.window is not None and not spec.window.duration_us:
        raise UsageError(
            _("a window must end after it starts: {window} holds no time at all").format(window=spec.window)
        )
    reading = Reading(rows, SQL, worth.SQL, grounds.SQL, dimensions.SQL)
    by = dimensions.chosen(spec.by or ("tenant",), dimensions.OVER_USE, reading)
    where = dimensions.filters(spec.where, dimensions.OVER_USE, reading)
    times = grounds.known_times(reading)
    known = Window(min(time.first for time in times), second_after(max(time.reach for time in times)))
    window = spec.window or known
    if window.start >= known.end or window.end <= known.start:
        reason = Unknown(
            _("nothing is known in {window}; the known time is {known}").format(window=window, known=known)
        )
        figures = [Figure(name, reason, unit, method, reason) for name, (unit, method) in METHODS.items()]
        return _assemble(spec, reading, window, figures, (), (), reason, (), ())
    pods = {(row["cluster"], row["pod_uid"]): row for row in reading.run("pods")}
    cards = {(row["cluster"], row["device_uuid"]): row for row in reading.run("devices")}
    grain_us = int(reading.run("grain")[0]["grain_us"])
    bound = {"from_us": window.start, "to_us": window.end}
    grains = {**bound, "grain_from_us": grain_start(window.start, grain_us)}
    booked = _booked(reading, **{name: grains[name] for name in ("grain_from_us", "to_us")})
    episodes = [
        overuse_rows.episode_of(row, pods, cards, booked.get(overuse_rows.subject(row), ()))
        for row in reading.run("episodes", **bound)
    ]
    limited = [overuse_rows.limited_of(row, pods, cards) for row in reading.run("limited", **grains)]
    unlisted = [
        overuse_rows.named(row, pods, cards)
        for row in reading.run("unlisted_cards", **{k: v for k, v in grains.items() if k != "from_us"})
    ]
    if not spec.confined:
        dimensions.require_known(where, [*_records(episodes), *_records(limited)], reading)
    episodes = [row for row in episodes if _admits(where, row.record)]
    limited = [row for row in limited if _admits([each for each in where if not _is_of_episode(each)], row.record)]
    unlisted = [
        row for row in unlisted if _admits([each for each in where if each.dimension.name in dimensions.PLACE], row)
    ]
    coverage = _coverage(limited, where)
    accused = [row for row in episodes if row.severity != "exposed"]
    open_ones = [row for row in episodes if row.severity == "exposed"]
    shown, left_out = overuse_rows.most(accused), max(0, len(accused) - overuse_rows.LISTED_MAX)
    tables = [
        overuse_rows.violations_table(shown),
        overuse_rows.exposed_table(open_ones),
        overuse_rows.groups_table(episodes, by),
        overuse_rows.unmeasured_table([row for row in limited if not row.is_measured]),
    ]
    return _assemble(
        spec,
        reading,
        window,
        _figures(episodes, limited, unlisted, coverage),
        tables,
        overuse_rows.curves(shown, reading.run("curves", **bound), window),
        coverage,
        _blind_spots(accused, limited, unlisted, left_out, spec.confined),
        _next_actions(shown, open_ones, limited),
        names=frozenset(f"pod {row.get('namespace')}/{row.get('pod')}" for row in (*_records(episodes), *_records(limited))),
    )  # fmt: skip


def _booked(reading: Reading, **grains: int) -> Mapping[tuple[object, ...], Sequence[Record]]:
    """What the card of each episode cost meanwhile."""
    found: dict[tuple[object, ...], list[Record]] = {}
    for row in reading.run("worth_of_episodes", **grains):
        found.setdefault(overuse_rows.subject(row), []).append(row)
    return found


def _records(rows: Iterable[Episode | Unmeasured]) -> list[Record]:
    return [row.record for row in rows]


def _admits(where: Iterable[Filter], record: Record) -> bool:
    return all(condition.admits(record) for condition in where)


def _is_of_episode(condition: Filter) -> bool:
    """Whether it narrows what was found: who could be measured does not hang on that."""
    return condition.dimension.name in ("rule", "severity", "basis")


def _coverage(limited: Sequence[Unmeasured], where: Sequence[Filter]) -> float | Unknown:
    """Part of the limited parts of cards that something measured."""
    if not limited and any(not _is_of_episode(each) for each in where):
        return Unknown(_("of what is asked about nobody holds a part of a card that a sharing layer limits"))
    if not limited:
        return Unknown(_("nobody holds a part of a card that a sharing layer limits"))
    return sum(row.is_measured for row in limited) / len(limited)


def _figures(
    episodes: Sequence[Episode], limited: Sequence[Unmeasured], unlisted: Sequence[Record], coverage: float | Unknown
) -> list[Figure]:
    accused = [row for row in episodes if row.severity != "exposed"]
    hard = [row for row in accused if row.severity == "hard"]
    currency, money = overuse_rows.money_at_stake(accused)
    values: dict[str, Value] = {
        "hard_count": len(hard),
        "soft_count": len(accused) - len(hard),
        "exposed_count": len(episodes) - len(accused),
        "violators_count": len({(row.record["cluster"], row.record["pod_uid"]) for row in accused}),
        "gpu_seconds_at_stake": overuse_rows.at_stake(accused),
        "gpu_seconds_at_stake_hard": overuse_rows.at_stake(hard),
        "currency": _currency(currency, money),
        "money_at_stake": money,
        "limited_count": len(limited),
        "unmeasured_count": sum(not row.is_measured for row in limited),
        "cards_without_processes_count": len(unlisted),
    }
    return [Figure(name, values[name], unit, method, coverage) for name, (unit, method) in METHODS.items()]


def _currency(currency: Value, money: Value) -> Value:
    if currency is not None:
        return currency
    return money if isinstance(money, Unknown) else Unknown(_("nothing is at stake"))


def _blind_spots(
    accused: Sequence[Episode],
    limited: Sequence[Unmeasured],
    unlisted: Sequence[Record],
    left_out: int,
    confined: bool,
) -> list[str]:
    spots = [
        _("a process whose pod its control group does not prove is nobody's, and no ground for an accusation"),
        _(
            "a variable that an image sets, or a ConfigMap, is not seen: that a pod is not listed as exposed proves nothing"
        ),
        _("what several pods of a card used is never divided by what they were granted to accuse one of them"),
    ]
    unmeasured = sum(not row.is_measured for row in limited)
    if unmeasured:
        spots.append(
            _("{count} parts of cards were measured by nothing: whether they were exceeded is not known").format(
                count=unmeasured
            )
        )
    if confined:
        spots.append(_("of cards on which no process of any pod was seen a bypass would not show"))
    elif unlisted:
        spots.append(
            _("of {count} cards no process of any pod was seen: a bypass would not show there").format(
                count=len(unlisted)
            )
        )
    if any(row.is_sparse for row in accused):
        spots.append(
            _("samples that lie 15 minutes apart or more show that it was so, and not for how long: soft at most")
        )
    if left_out:
        spots.append(_("{count} more rows of {table} are not listed").format(count=left_out, table="violations"))
    return spots


def _next_actions(shown: Sequence[Episode], open_ones: Sequence[Episode], limited: Sequence[Unmeasured]) -> list[str]:
    actions: list[str] = []
    for row in shown[:3]:
        if row.severity == "hard":
            actions.append(
                _("look at {pod} on {card} first ({rule}, since {since}); to contest it: {contest}").format(
                    pod=row.name,
                    card=row.card,
                    rule=row.rule,
                    since=format_instant(row.started_us),
                    contest=row.command,
                )
            )
    if open_ones:
        actions.append(
            _(
                "{count} pods have cards open to them that they do not hold, {pod} among them: take that out of their specs"
            ).format(count=len(open_ones), pod=open_ones[0].name)
        )
    if any(not row.is_measured for row in limited):
        actions.append(
            _("run `steelyard agent` on the nodes of those that nothing measured: it proves whose a process is")
        )
    return actions


def _assemble(
    spec: OveruseSpec,
    reading: Reading,
    window: Window,
    figures: Sequence[Figure],
    tables: Sequence[Table],
    series: Sequence[Series],
    coverage: float | Unknown,
    blind_spots: Sequence[str],
    next_actions: Sequence[str],
    *,
    names: frozenset[str] = frozenset(),
) -> Answer:
    cluster = grounds.cluster_asked(spec.where)
    narrowed = spec.confined or any(name.strip() != "cluster" for name in spec.where)
    notes, total = grounds.finding_notes(reading, names if narrowed else None, cluster)
    blind = list(blind_spots)
    if total > len(notes):
        blind.append(_("{count} more findings are not listed here").format(count=total - len(notes)))
    return Answer(
        question="q7",
        title=title(),
        window=window,
        as_of=window.end,
        figures=figures,
        tables=tables,
        series=series,
        definitions=grounds.definitions(reading, {"q07_overuse": VERSION, "over_use": over_use.VERSION, "money": money_definition.VERSION}),
        sources=grounds.source_lines(reading, cluster),
        coverage=coverage,
        blind_spots=blind,
        findings=notes,
        evidence=[
            Evidence(_("each episode"), "ledger.over_use", "steelyard q7 --explain"),
            Evidence(_("what was seen, minute by minute"), "ledger.excess", "steelyard q7 --json"),
            Evidence(
                _("the processes on a card now, and whose they are"), _("each GPU node"),
                "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv; cat /proc/PID/cgroup",
            ),
            Evidence(_("what the layer counts and the device has"), "ledger.deviation", "steelyard reconcile"),
        ],
        next_actions=next_actions,
        explain=dict(reading.ran) if spec.explain else {},
    )  # fmt: skip
