"""From a line down to what it is made of: the intervals in which a pod held its share, and the grains that were charged.

The trick to know: a line's id says what it is about, so the rows are found by making the lines again and looking for the one of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from steelyard.answers.contract import Column, Table, Value
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, format_instant
from steelyard.settlement.rules import SettlementRules
from steelyard.settlement.statement import Statement, StatementLine
from steelyard.settlement.tables import epoch_expression
from steelyard.settlement.usage_lines import TenantLine, usage_lines
from steelyard.store import Store


@dataclass(frozen=True, slots=True)
class Found:
    """A line with its statement."""

    statement: Statement
    line: StatementLine


def find_line(statements: Sequence[Statement], line_id: str) -> Found | None:
    """The line of an id among statements; None where no statement has it."""
    return next((Found(each, line) for each in statements for line in each.lines if line.line_id == line_id), None)


def drilled(store: Store, rules: SettlementRules, found: Found) -> list[Table]:
    """The tables below a line, over the tables that it was made from: intervals of the pod, then grains; none for a line that no ledger row makes."""
    about = found.line.reference if found.line.kind == "credit" else found.line.line_id
    made = next(
        (each for each in usage_lines(store, rules) if each.line.line_id == (about or "").partition("-")[0]), None
    )
    return [] if made is None else [_intervals(store, made), _grains(store, made)]


def _intervals(store: Store, made: TenantLine) -> Table:
    line = made.line
    rows = store.rows(
        "SELECT epoch_us(started_at), epoch_us(running_at), epoch_us(ended_at), epoch_us(known_to_at), share_ppm, device_uuid FROM settling_holding "
        "WHERE cluster = ? AND pod_uid = ? AND unit_id IS NOT DISTINCT FROM ? AND device_uuid IS NOT DISTINCT FROM ? ORDER BY ALL",
        [line.cluster, line.pod_uid, line.unit_id, line.device_uuid],
    )
    cells: list[Sequence[Value]] = [
        (_at(start), _at(running), _at(end), _at(known), share, device)
        for start, running, end, known, share, device in rows
    ]
    names = ("started_at", "running_at", "ended_at", "known_to_at")
    return Table(
        "intervals", (*(Column(name) for name in names), Column("share_ppm", "ppm"), Column("device_uuid")), cells
    )


def _grains(store: Store, made: TenantLine) -> Table:
    place_no, holder_no, epoch_no, tariff_no = made.numbers
    rows = store.rows(
        "SELECT epoch_us(row.grain_at), row.quantity_gpu_us, row.list_micro, row.discount_micro, row.charge_micro, tariff.price_id, "
        "tariff.unpriced_reason FROM settling_charge AS row JOIN settling_tariff AS tariff ON tariff.tariff_no = row.tariff_no "
        f"WHERE row.place_no = ? AND row.holder_no = ? AND row.tariff_no = ? AND ({epoch_expression(store)}) = ? ORDER BY 1",
        [place_no, holder_no, tariff_no, epoch_no],
    )
    cells: list[Sequence[Value]] = [(_at(row[0]), row[1] / HOUR_US, *row[2:]) for row in rows]
    money = (Column("list_micro", "micro"), Column("discount_micro", "micro"), Column("charge_micro", "micro"))
    return Table(
        "grains",
        (Column("grain_at"), Column("gpu_hours", "GPU-h"), *money, Column("price_id"), Column("unpriced_reason")),
        cells,
    )


def _at(instant: int | None) -> str | None:
    return None if instant is None else format_instant(instant)


def line_facts(found: Found) -> Table:
    """What the line itself says, one field a row."""
    shown = [(each.name, getattr(found.line, each.name)) for each in fields(found.line)]
    rows = [(name, _at(value) if name.endswith("_at") else value) for name, value in shown if value is not None]
    title = [
        ("number", found.statement.number or _("draft")),
        ("tenant", found.statement.tenant),
        ("currency", found.statement.currency),
    ]
    return Table("line", (Column("field"), Column("value")), [*title, *((name, str(value)) for name, value in rows)])
