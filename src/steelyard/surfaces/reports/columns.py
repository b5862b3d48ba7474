"""The columns of a statement's lines, once for every document: name, unit, what they mean and where they are taken from.

CSV, Parquet and XLSX are laid out from this list and ``docs/documents.md`` is tested against it. The trick to know: amounts leave as exact
decimals with six places, quantities as whole microseconds; hours beside them are rounded, for reading alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from steelyard.primitives.instant import HOUR_US, Instant
from steelyard.settlement.statement import Statement, StatementLine

Kind = Literal["text", "instant", "integer", "money", "hours", "flag"]
Cell: TypeAlias = str | int | bool | Decimal | None

MONEY_PLACES: Final = 6


@dataclass(frozen=True, slots=True)
class LineColumn:
    """One column. ``kind`` says what its cells are: ``instant`` an Instant, ``money`` a decimal of the statement's currency with six places,
    ``hours`` a decimal rounded to six places, ``integer`` in the unit that the name ends with. None: not known, or there is none."""

    name: str
    kind: Kind
    meaning: str
    read: Callable[[Statement, StatementLine], Cell]


def money(micro: int | None) -> Decimal | None:
    """Millionths of a currency as an exact decimal with six places; None stays None."""
    return None if micro is None else Decimal(f"{micro}E-{MONEY_PLACES}")


def hours(gpu_us: int | None) -> Decimal | None:
    """GPU-microseconds as GPU-hours, rounded half to even to six places; None stays None."""
    if gpu_us is None:
        return None
    return Decimal(f"{round(Fraction(gpu_us * 10**6, HOUR_US))}E-6")


def _of_line(name: str, kind: Kind, meaning: str) -> LineColumn:
    return LineColumn(name, kind, meaning, lambda _statement, line: getattr(line, name))


def _money(name: str, field: str, meaning: str) -> LineColumn:
    return LineColumn(name, "money", meaning, lambda _statement, line: money(getattr(line, field)))


def _hours(name: str, field: str, meaning: str) -> LineColumn:
    return LineColumn(name, "hours", meaning, lambda _statement, line: hours(getattr(line, field)))


COLUMNS: Final[Sequence[LineColumn]] = (
    LineColumn("statement", "text", "number of the statement; empty in a draft", lambda s, _line: s.number),
    LineColumn("period", "text", "label of the fiscal calendar", lambda s, _line: s.period),
    LineColumn("tenant", "text", "who is asked", lambda s, _line: s.tenant),
    LineColumn("state", "text", "draft, closed or shadow", lambda s, _line: s.state),
    _of_line("line_id", "text", "names the line over all documents and reruns"),
    _of_line("kind", "text", "usage, credit, correction, tax, reserved_unused, burst or service_share"),
    _of_line("description", "text", "what the line is about"),
    _of_line("cluster", "text", "cluster"),
    _of_line("node", "text", "node"),
    _of_line("device_uuid", "text", "the physical card"),
    _of_line("model", "text", "model of the card"),
    _of_line("unit_kind", "text", "gpu, mig, vgpu, slice or dra"),
    _of_line("unit_id", "text", "the unit on the card"),
    _of_line("namespace", "text", "namespace of the pod"),
    _of_line("pod", "text", "name of the pod"),
    _of_line("pod_uid", "text", "uid of the pod"),
    _of_line("workload", "text", "what the pod belongs to"),
    _of_line("queue", "text", "queue"),
    _of_line("department", "text", "of the tenancy tree"),
    _of_line("team", "text", "of the tenancy tree"),
    _of_line("project", "text", "of the tenancy tree"),
    _of_line("cost_centre", "text", "of the tenancy tree"),
    _of_line("commitment", "text", "on_demand, reserved or spot"),
    _of_line("started_at", "instant", "start of the stretch, UTC"),
    _of_line("ended_at", "instant", "its end, not included, UTC"),
    _of_line("quantity_gpu_us", "integer", "declared share x time, GPU-microseconds, exact"),
    _hours("quantity_gpu_hours", "quantity_gpu_us", "the same in GPU-hours, rounded to six places"),
    _of_line("normalised_gpu_us", "integer", "quantity x weight of the model"),
    _of_line("used_gpu_us", "integer", "what was seen used"),
    _of_line("used_upper_gpu_us", "integer", "that, and all that was not seen"),
    _of_line("coverage_ppm", "integer", "seen / granted time, parts per million"),
    _of_line("estimated", "flag", "coverage is below 95 %"),
    _of_line("provisional", "flag", "the price is expected to be replaced"),
    LineColumn("currency", "text", "of all amounts", lambda s, _line: s.currency),
    _of_line("price_id", "text", "line of the price book"),
    _money("unit_price", "unit_price_micro", "for one whole card and one unit of time, as the price book states it"),
    _of_line("per", "text", "that unit of time: hour, day, month or year"),
    _money("list_amount", "list_micro", "before discounts"),
    _money("discount", "discount_micro", "what is taken off"),
    _money("amount", "amount_micro", "list_amount - discount: what is asked for; empty: unpriced"),
    _money("cost", "cost_micro", "the tenant's part in the cost book"),
    _money("used_amount", "used_micro", "effective cost: of what was seen used"),
    _money("used_upper_amount", "used_upper_micro", "effective cost, and all that was not seen"),
    _of_line("unpriced_reason", "text", "why there is no price"),
    _of_line("reference", "text", "statement and line that a correction is of"),
    _of_line("reason", "text", "why it is corrected or credited"),
)


def instant_or_none(cell: Cell) -> Instant | None:
    """A cell of an ``instant`` column as what it is."""
    return cell if isinstance(cell, int) else None
