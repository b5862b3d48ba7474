"""From a line down to what it is made of: the intervals in which a pod held its share, and the grains that were charged.

Of tax these are the lines that it was laid on, of a share in a service the tokens that it was split by, of a correction the grains that were closed
beside those of now. The trick to know: a line's id says what it is about, so the rows are found by making the lines again and looking for the one of
that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.definitions.token_split import TokenUse, weights_by_caller
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, Instant, format_instant
from steelyard.primitives.unknown import Unknown
from steelyard.settlement.added_lines import lines_taxed
from steelyard.settlement.rules import SettlementRules
from steelyard.settlement.statement import DISPUTED, DISPUTED_TAX, Kind, Statement, StatementLine
from steelyard.settlement.tables import epoch_expression, filled
from steelyard.settlement.usage_lines import TenantLine, usage_lines
from steelyard.store import Store
from steelyard.store.rewriting import quoted

CALLERS_MAX: Final = 1_000
"""Rows of tokens that a share in a service opens into."""


@dataclass(frozen=True, slots=True)
class Found:
    """A line with its statement."""

    statement: Statement
    line: StatementLine


def find_line(statements: Sequence[Statement], line_id: str) -> Found | None:
    """The line of an id among statements; None where no statement has it."""
    return next((Found(each, line) for each in statements for line in each.lines if line.line_id == line_id), None)


@dataclass(frozen=True, slots=True)
class Ground:
    """What a line is looked up in: the tables laid out in ``store``, by whose rules they were, and the snapshot of an earlier period by an instant in
    it (None = that period is not closed)."""

    store: Store
    rules: SettlementRules
    snapshot_at: Callable[[Instant], Path | None] = lambda _at: None


def drilled(ground: Ground, found: Found) -> list[Table]:
    """The tables below a line, over the tables that it was made from; none for a line of an earlier period that is not there any more."""
    ways: Mapping[Kind, Callable[[Ground, Found], list[Table]]] = {
        "tax": _taxed, "service_share": _shared, "correction": _corrected,
    }  # fmt: skip
    return ways.get(found.line.kind, _used)(ground, found)


def _used(ground: Ground, found: Found) -> list[Table]:
    about = found.line.reference if found.line.kind == "credit" else found.line.line_id
    wanted = (about or "").partition("-")[0]
    made = next((each for each in usage_lines(ground.store, ground.rules) if each.line.line_id == wanted), None)
    return [] if made is None else [_intervals(ground.store, made), _grains(ground.store, made)]


def _taxed(ground: Ground, found: Found) -> list[Table]:
    statement = found.statement
    untaxed = [line for line in statement.lines if line.kind != "tax"]
    rates = {rule.name_with_rate(): rule for rule in ground.rules.taxes}
    rule = rates.get(found.line.description)
    laid = [] if rule is None else lines_taxed(rule, statement.tenant, untaxed)
    columns = (Column("line_id"), Column("kind"), Column("what"), Column("started_at"), Column("amount_micro", "micro"))
    rows = [(each.line_id, each.kind, each.description, _at(each.started_at), each.amount_micro) for each in laid]
    return [Table("taxed_lines", columns, rows)]


def _shared(ground: Ground, found: Found) -> list[Table]:
    """Tokens of the service by caller. A caller sees its own by name and all others as one row; the owner sees who called."""
    line, tenant = found.line, found.statement.tenant
    rows = ground.store.rows(
        "SELECT tenant, prompt_tokens, cached_tokens, completion_tokens, untold_count FROM settling_service "
        "WHERE cluster = ? AND service = ? ORDER BY ALL",
        [line.cluster, line.workload],
    )
    is_owner = any(
        each.kind == "usage" and f"{each.namespace}/{each.workload}" == line.workload and each.cluster == line.cluster
        for each in found.statement.lines
    )
    uses = [
        TokenUse(caller if is_owner or caller == tenant else _("(others)"), prompt, cached, completion)
        for caller, prompt, cached, completion, _untold in rows
    ]
    untold: dict[str | None, int] = {}
    for use, row in zip(uses, rows, strict=True):
        untold[use.caller] = untold.get(use.caller, 0) + row[4]
    weighed = weights_by_caller(uses, ground.rules.services)
    cells: list[Sequence[Value]] = [
        (name, count, weighed if isinstance(weighed, Unknown) else weighed[name].total)
        for name, count in sorted(untold.items(), key=lambda item: (item[0] is None, item[0] or ""))[:CALLERS_MAX]
    ]
    columns = (Column("caller_tenant"), Column("rows_untold"), Column("weighted_tokens"))
    return [Table("service_tokens", columns, cells)]


def _corrected(ground: Ground, found: Found) -> list[Table]:
    """The grains as the earlier period closed them, beside those that the ledger has now."""
    line = found.line
    folder = ground.snapshot_at(line.started_at)
    if folder is None or line.reason in (DISPUTED, DISPUTED_TAX):
        return []
    bounds: dict[str, int | str] = {
        "folder": quoted(str(folder) + "/")[1:-1],
        "from_us": line.started_at,
        "to_us": line.ended_at,
    }
    rows = ground.store.rows(
        filled("corrected_grains", bounds), [line.cluster, line.pod_uid, line.unit_id, line.node, line.device_uuid]
    )
    money = (Column("list_micro", "micro"), Column("discount_micro", "micro"), Column("charge_micro", "micro"))
    columns = (
        Column("side"),
        Column("grain_at"),
        Column("line"),
        Column("gpu_hours", "GPU-h"),
        *money,
        Column("price_id"),
    )
    cells: list[Sequence[Value]] = [
        (_("closed") if side == "closed" else _("now"), _at(grain), name, quantity / HOUR_US, *rest)
        for side, grain, name, quantity, *rest in rows
    ]
    return [Table("grains", columns, cells)]


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
    place_no, holder_no, tariff_no = made.numbers
    rows = store.rows(
        "SELECT epoch_us(row.grain_at), row.quantity_gpu_us, row.list_micro, row.discount_micro, row.charge_micro, tariff.price_id, "
        "tariff.unpriced_reason FROM settling_charge AS row JOIN settling_tariff AS tariff ON tariff.tariff_no = row.tariff_no "
        f"WHERE row.place_no = ? AND row.holder_no = ? AND row.tariff_no = ? AND list_contains(?, {epoch_expression(store)}) ORDER BY 1",
        [place_no, holder_no, tariff_no, list(made.epochs)],
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
