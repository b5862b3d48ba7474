"""The figures and tables of a story: requests, what happened, waits, evictions, where each stands, what would have to change, how long it may take.

``story`` calls ``figures`` and ``tables``. Nothing is found out here; unknowns keep their reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.answers.contract import Column, Figure, Table, Value
from steelyard.answers.reading import Record
from steelyard.answers.story_lines import StoryLine, amount, label_of, verdict_word
from steelyard.answers.story_standing import Standing
from steelyard.answers.story_state import eviction_rows, state_word, unknown_wait
from steelyard.definitions import kaplan_meier, queue_wait
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import SECOND_US, DurationUs, Instant, format_instant
from steelyard.primitives.unknown import Unknown

METHOD: Final = f"kaplan_meier {kaplan_meier.VERSION}: {kaplan_meier.REMAINING_FORMULA}"
WAIT_METHOD: Final = f"queue_wait {queue_wait.VERSION}"
_AHEAD_SHOWN: Final = 5
_STORY_COLUMNS: Final = (
    Column("at"),
    Column("event"),
    Column("what"),
    Column("times", "1"),
    Column("last_at"),
    Column("source"),
)


def no_object() -> str:
    """Why nothing more is known of what events alone tell of."""
    return _("no object of it was seen")


def _seconds(us: DurationUs | Unknown | None) -> Value:
    return us if us is None or isinstance(us, Unknown) else us // SECOND_US


def figures(demands: Sequence[Record], standings: Sequence[Standing], at: Instant) -> list[Figure]:
    """How many requests, how many of them wait, and of a single one how long and where."""
    waiting = [each for each in standings if each.is_waiting]
    found = [
        Figure("requests_count", len(demands), "1", WAIT_METHOD, 1.0),
        Figure("requests_waiting_count", len(waiting), "1", WAIT_METHOD, 1.0),
    ]
    if len(standings) != 1:
        return found
    only = standings[0]
    known: dict[str, Value] = {"wait_age_seconds": _seconds(only.age_us(at)), "queue_position": only.position}
    if not only.is_waiting:
        known["wait_age_seconds"] = Unknown(_("it does not wait now: {state}").format(state=state_word(only.stage)))
    elif only.is_heard_of:
        known["wait_age_seconds"] = Unknown(no_object())
    known.update({f"remaining_wait_{name}_seconds": _seconds(value) for name, value in only.remaining.items()})
    if only.position is None:
        known["queue_position"] = Unknown(_("it does not wait in a queue now"))
        if only.is_heard_of:
            known["queue_position"] = Unknown(no_object())
    return found + [
        Figure(
            name,
            value,
            "s" if name.endswith("seconds") else "1",
            METHOD if "remaining" in name else WAIT_METHOD,
            1.0,
        )
        for name, value in known.items()
    ]


def tables(
    demands: Sequence[Record],
    standings: Sequence[Standing],
    lines: Sequence[StoryLine],
    states: Mapping[str, str],
    waits: Sequence[Record],
    evictions: Mapping[str, tuple[Record | None, Sequence[tuple[Instant, str | None]]]],
    at: Instant,
) -> list[Table]:
    """All of them; ``waits``: rows of the ledger. ``evictions``: by request, its controller's latest word and those that are dated."""
    several = len(demands) > 1
    found = [_requests_table(demands, {s.demand["demand_id"]: s for s in standings}, states, at)]
    columns = (*_STORY_COLUMNS, *((Column("request"),) if several else ()))
    rows = [
        [
            format_instant(line.at),
            line.event,
            line.text,
            line.times,
            None if line.last is None else format_instant(line.last),
            line.source,
            *([line.request] if several else []),
        ]
        for line in lines
    ]
    found.append(Table("story", columns, rows))
    labels = {row["demand_id"]: label_of(row) for row in demands}
    if waits:
        found.append(_waits_table(waits, labels, at))
    told = [(labels[demand], row) for demand, (gang, dated) in evictions.items() for row in eviction_rows(gang, dated)]
    if told:
        found.append(_evictions_table(told))
    if standings:
        found += [_standing_table(standings, at), _changes_table(standings), _remaining_table(standings)]
    return found


def _waits_table(waits: Sequence[Record], labels: Mapping[str, str], at: Instant) -> Table:
    """Each stage of waiting by then; of one that cannot be recovered the reason stands in place of its length."""
    columns = (
        *(Column(name) for name in ("request", "stage", "queue", "from", "to")),
        Column("seconds", "s"),
        Column("ended_by"),
        Column("basis"),
    )
    rows: list[list[Value]] = []
    for wait in waits:
        ended = wait["ended_us"] if wait["ended_us"] is not None and wait["ended_us"] <= at else None
        length: Value = ((at if ended is None else ended) - wait["started_us"]) // SECOND_US
        bound: Value = None if ended is None else format_instant(ended)
        if wait["unknown_reason"] is not None:
            reason = Unknown(unknown_wait(wait["unknown_reason"]))
            length, bound = reason, bound if ended is None else reason
        rows.append(
            [
                labels[wait["demand_id"]],
                wait["stage"],
                wait["queue"],
                format_instant(wait["started_us"]),
                bound,
                length,
                wait["ended_by"] if ended is not None else None,
                wait["basis"],
            ]
        )
    return Table("waits", columns, rows)


def _evictions_table(
    told: Sequence[tuple[str, tuple[str | None, str | None, int, int, Instant | None, str]]],
) -> Table:
    columns = (
        *(Column(name) for name in ("request", "reason", "cause")),
        Column("evictions", "1"),
        Column("dated", "1"),
        Column("last_at"),
        Column("basis"),
    )
    lost = Unknown(_("no source says when: its waits in between are not recoverable"))
    return Table(
        "evictions",
        columns,
        [
            [label, reason, cause, count, dated, lost if last is None else format_instant(last), basis]
            for label, (reason, cause, count, dated, last, basis) in told
        ],
    )


def _requests_table(
    demands: Sequence[Record], standings: Mapping[str, Standing], states: Mapping[str, str], at: Instant
) -> Table:
    columns = [
        Column(name)
        for name in ("request", "kind", "workload", "tenant", "person", "person_basis", "queue", "priority")
    ]
    columns += [Column("gpus", "GPU"), Column("pods", "1"), Column("created_at"), Column("state")]
    rows: list[list[Value]] = []
    for demand in demands:
        standing = standings.get(demand["demand_id"])
        ended = demand["ended_us"] is not None and demand["ended_us"] <= at
        code = standing.stage if standing else (demand["end_kind"] if ended else states.get(demand["demand_id"]))
        if demand.get("heard_verdict"):
            rows.append(_heard_row(demand))
            continue
        gpus: Value = (
            Unknown(_("it does not say in cards")) if demand["gpu_milli"] is None else demand["gpu_milli"] / 1000
        )
        created: Value = (
            Unknown(_("no source tells it")) if demand["created_us"] is None else format_instant(demand["created_us"])
        )
        rows.append(
            [
                label_of(demand),
                demand["demand_kind"],
                f"{demand['workload_kind']}/{demand['workload_name']}",
                demand["tenant"],
                demand["person"],
                demand["person_basis"],
                demand["queue"] or demand["local_queue"],
                demand["priority"],
                gpus,
                demand["pods_count"],
                created,
                None if code is None else state_word(code),
            ]
        )
    return Table("requests", columns, rows)


def _heard_row(demand: Record) -> list[Value]:
    unknown = Unknown(no_object())
    said = _("told of by events alone; lastly: {verdict}").format(verdict=verdict_word(demand["heard_verdict"]))
    kind, name = demand["demand_kind"], label_of(demand)
    return [name, kind, unknown, demand["tenant"], *[unknown] * 7, said]


def _standing_table(standings: Sequence[Standing], at: Instant) -> Table:
    columns = [Column(name) for name in ("request", "stage", "since", "queue", "strategy")]
    columns += [
        Column("until"),
        Column("age", "s"),
        Column("position", "1"),
        Column("pending", "1"),
        Column("ahead"),
        Column("fit"),
        Column("fit_basis"),
    ]
    columns += [Column("cause"), Column("last_word_at")]
    rows: list[list[Value]] = []
    for each in standings:
        shown = list(each.ahead[:_AHEAD_SHOWN]) + (
            [f"(+{len(each.ahead) - _AHEAD_SHOWN})"] if len(each.ahead) > _AHEAD_SHOWN else []
        )
        word = each.word
        rows.append(
            [
                label_of(each.demand),
                each.wait["stage"],
                Unknown(
                    _("first told of at {at}; no object was seen").format(at=format_instant(each.wait["started_us"]))
                )
                if each.is_heard_of
                else format_instant(each.wait["started_us"]),
                each.wait["queue"],
                each.queue["strategy"] if each.queue else None,
                None if each.until is None else format_instant(each.until),
                Unknown(no_object()) if each.is_heard_of else _seconds(each.age_us(at)),
                each.position,
                each.pending_count,
                ", ".join(shown) or None,
                each.fit if each.fit is not None else _no_fit(each),
                each.fit_basis,
                word["cause"] if word else None,
                format_instant(word["last_us"]) if word else None,
            ]
        )
    return Table("standing", columns, rows)


def _no_fit(standing: Standing) -> Value:
    if standing.fit_unknown is not None:
        return Unknown(standing.fit_unknown)
    if standing.is_waiting and standing.stage != "backoff":
        return Unknown(_("nobody said why it waits"))
    return Unknown(_("room is not what keeps it: {state}").format(state=state_word(standing.stage)))


def _changes_table(standings: Sequence[Standing]) -> Table:
    columns = (
        Column("request"),
        Column("what_would_have_to_change"),
        Column("resource"),
        Column("have"),
        Column("need"),
        Column("basis"),
    )
    rows: list[list[Value]] = [
        [
            label_of(each.demand),
            change.text,
            change.resource,
            None if change.have_milli is None else amount(change.have_milli),
            None if change.need_milli is None else amount(change.need_milli),
            change.basis,
        ]
        for each in standings
        for change in each.changes
    ]
    return Table("changes", columns, rows)


def _remaining_table(standings: Sequence[Standing]) -> Table:
    columns = (
        Column("request"),
        *(Column(f"remaining_{name}", "s") for name in ("p10", "p50", "p90")),
        Column("waits_compared", "1"),
    )
    return Table(
        "remaining_wait",
        columns,
        [
            [label_of(s.demand), *(_seconds(s.remaining[name]) for name in ("p10", "p50", "p90")), s.compared_count]
            for s in standings
        ],
    )
