"""Did scheduling keep its rules: who was served before whom against which rule, at whose cost; and who changed the rules, from what to what.

Q6 calls ``rule_audit``. Breaches and overtakings stand in ``ledger.breach`` (``ledgers/breach.py`` says what counts as which), changes in
``dim.quota_change``. The trick to know: an overtaking is no accusation. ``BestEffortFIFO`` lets a small request pass one that does not fit, and these
are a table of their own, so that what a rule forbids is not lost among what it allows.

Sceptic's query: ``SELECT * FROM ledger.breach WHERE kind = 'breach' ORDER BY broken_at``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers.contract import Column, Figure, Table, Value
from steelyard.answers.demand_scope import DemandScope
from steelyard.answers.reading import Reading, Record
from steelyard.ledgers import breach
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
METHOD: Final = f"breach {breach.VERSION}"
ROWS_MAX: Final = 1_000
"""Of each table; the costliest stay."""

METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "rule_breaches_count": ("1", f"{METHOD}: decisions that broke a rule, each victim's wait once"),
    "rule_breach_gpu_hours": ("GPU-h", f"{METHOD}: {breach.FORMULA}"),
    "overtakings_count": ("1", f"{METHOD}: waits during which another was served first, as the queue's rule allows"),
    "overtaking_gpu_hours": ("GPU-h", f"{METHOD}: GPUs of who was passed x its wait from then on"),
    "quota_changes_count": ("1", "changes of queues and quotas in the audit log"),
}

TABLES: Final = ("rule_breaches", "overtakings", "quota_changes")
_GPU_HOUR: Final = 1_000 * HOUR_US
_KINDS: Final = {"breach": "rule_breaches", "overtaking": "overtakings"}
_HIDDEN: Final = "another tenant's"


@dataclass(frozen=True, slots=True)
class RuleAudit:
    """What Q6 says of rules. ``left_out``: rows of all tables that are not listed."""

    figures: Sequence[Figure]
    tables: Sequence[Table]
    left_out: int = 0


def rule_audit(reading: Reading, scope: DemandScope, *, confined: bool = False) -> RuleAudit:
    """The breaches of the scope's window, on either side of which stands who is asked about; ``reading`` has the statements of ``SQL``.

    ``confined``: names of other tenants than those asked about, and changes of queues, are not told.
    """
    audited = reading.run("audited")[0]
    rows = reading.run("rule_breaches", rows_max=ROWS_MAX, **scope.bound())
    by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in _KINDS}
    own = frozenset(scope.wanted.get("tenant", ())) if confined else None
    tables = [_breach_table(name, by_kind[kind], own) for kind, name in _KINDS.items() if by_kind[kind]]
    figures = [figure for kind in _KINDS for figure in _figures(kind, by_kind[kind], audited)]
    left_out = sum(int(found[0]["total"]) - len(found) for found in by_kind.values() if found)
    changes = _changes(reading, scope) if not confined else []
    figures.append(_changes_figure(changes, audited, confined, scope))
    if changes:
        tables.append(_changes_table(changes))
        left_out += int(changes[0]["total"]) - len(changes)
    return RuleAudit(figures, tables, left_out)


def _figures(kind: str, rows: Sequence[Record], audited: Record) -> list[Figure]:
    count_name, hours_name = (
        ("rule_breaches_count", "rule_breach_gpu_hours")
        if kind == "breach"
        else ("overtakings_count", "overtaking_gpu_hours")
    )
    if not (audited["has_waits"] or audited["has_preemptions"]):
        unknown = Unknown(_("no source tells of requests that wait in queues, or of preemptions"))
        return [Figure(name, unknown, METHODS[name][0], METHODS[name][1], unknown) for name in (count_name, hours_name)]
    total = int(rows[0]["total"]) if rows else 0
    coverage: float | Unknown = (
        1.0 if audited["has_queues"] else Unknown(_("no queue was read: its rules are not known"))
    )
    hours: Value = Fraction(int(rows[0]["cost_total"] or 0), _GPU_HOUR) if rows else Fraction(0)
    if rows and int(rows[0]["cost_known"]) < total:
        hours = Unknown(_("of some it is not known how many GPUs they ask for"))
    return [
        Figure(count_name, total, *METHODS[count_name], coverage),
        Figure(hours_name, hours, *METHODS[hours_name], coverage),
    ]


def _changes(reading: Reading, scope: DemandScope) -> list[Record]:
    if not all(name in ("cluster", "queue", "namespace") for name in scope.wanted):
        return []
    names = {f"{name}_wanted": list(scope.wanted.get(name, ())) for name in ("cluster", "queue", "namespace")}
    window = {"from_us": scope.window.start, "to_us": scope.window.end}
    return reading.run("quota_changes", rows_max=ROWS_MAX, **window, **names)


def _changes_figure(changes: Sequence[Record], audited: Record, confined: bool, scope: DemandScope) -> Figure:
    name = "quota_changes_count"
    unit, method = METHODS[name]
    if confined or not all(word in ("cluster", "queue", "namespace") for word in scope.wanted):
        unknown = Unknown(_("a change of a queue belongs to nobody who is asked about"))
        return Figure(name, unknown, unit, method, unknown)
    if not audited["has_audit"] and not changes:
        unknown = Unknown(_("no audit log was read: who changed a quota is written nowhere else"))
        return Figure(name, unknown, unit, method, unknown)
    return Figure(name, int(changes[0]["total"]) if changes else 0, unit, method, 1.0)


def _breach_table(name: str, rows: Sequence[Record], own: frozenset[str] | None) -> Table:
    columns = [
        Column(word)
        for word in (
            "cluster",
            "rule",
            "policy",
            "queue",
            "at",
            "served",
            "served_tenant",
            "served_person",
            "served_priority",
        )
    ]
    columns += [
        Column("victim"),
        Column("victim_tenant"),
        Column("victim_person"),
        Column("victim_priority"),
        Column("victim_gpus", "GPU"),
    ]
    columns += [Column("until"), Column("cost", "GPU-h")]
    return Table(name, columns, [_breach_row(row, own) for row in rows])


def _breach_row(row: Record, own: frozenset[str] | None) -> list[Value]:
    gpus: Value = (
        Unknown(_("it does not say in cards"))
        if row["victim_gpu_milli"] is None
        else Fraction(int(row["victim_gpu_milli"]), 1_000)
    )
    cost: Value = (
        Unknown(_("it does not say in cards"))
        if row["cost_milli_us"] is None
        else Fraction(int(row["cost_milli_us"]), _GPU_HOUR)
    )
    hidden = Unknown(_(_HIDDEN))
    served: list[Value] = [_who(row, ""), row["tenant"], row["person"], row["priority"]]
    victim: list[Value] = [_who(row, "victim_"), row["victim_tenant"], row["victim_person"], row["victim_priority"]]
    if own is not None:
        served = served if row["tenant"] in own else [hidden] * len(served)
        victim = victim if row["victim_tenant"] in own else [hidden] * len(victim)
    return [
        row["cluster"],
        row["rule"],
        row["policy"],
        row["queue"],
        format_instant(row["broken_us"]),
        *served,
        *victim,
        gpus,
        format_instant(row["ended_us"]) if row["ended_us"] is not None else None,
        cost,
    ]


def _who(row: Record, side: str) -> Value:
    if row[f"{side}name"] is not None:
        return f"{row[f'{side}namespace']}/{row[f'{side}name']}"
    uid = row[f"{side}demand_id"]
    if uid is not None:
        return Unknown(_("uid {uid}, which no object that was seen has").format(uid=uid))
    return None if side and row["rule"] == "borrowing_limit" else Unknown(_("no source names it"))


def _changes_table(rows: Sequence[Record]) -> Table:
    names = (
        "cluster",
        "at",
        "who",
        "done_by",
        "verb",
        "kind",
        "namespace",
        "queue",
        "before",
        "before_basis",
        "after",
        "after_basis",
        "after_note",
    )
    return Table("quota_changes", [Column(name) for name in names], [_change_row(row) for row in rows])


def _change_row(row: Record) -> list[Value]:
    reasons: dict[str, str] = {
        "it was not there": _("it was not there"),
        "it is there no more": _("it is there no more"),
        "neither an event nor a sighting before it tells": _("neither an event nor a sighting before it tells"),
        "the audit log left its body out": _("the audit log left its body out"),
        "its body was too large to be kept": _("its body was too large to be kept"),
        "the audit policy keeps no bodies": _("the audit policy keeps no bodies"),
    }

    def side(name: str) -> Value:
        if row[name] is not None:
            return str(row[name])
        reason = str(row[f"{name}_unknown"])
        absent = reason in ("it was not there", "it is there no more")
        return reasons[reason] if absent else Unknown(reasons.get(reason, reason))

    return [
        row["cluster"],
        format_instant(row["changed_us"]),
        row["who"],
        row["done_by"],
        row["verb"],
        row["queue_kind"],
        row["namespace"],
        row["queue"],
        side("before"),
        row["before_basis"],
        side("after"),
        row["after_basis"],
        reasons.get(row["after_unknown"]) if row["after"] is not None and row["after_unknown"] else None,
    ]
