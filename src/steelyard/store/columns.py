"""From facts (Python rows) to Arrow tables, column by column, with the range checks that no row may slip past.

Called by the store's append and by the importer, which keeps the facts of a big import in this compact form. The trick to
know: an instant is an int in a fact and a TIMESTAMP in the table; Arrow takes the int as microseconds, so nothing is copied
through ``datetime``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.facts.base import Fact, columns_of
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import AT_OBSERVATION, INSTANT_MAX, INSTANT_MIN, Instant

ARROW_TYPES: Final[Mapping[str, Any]] = {
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us"),
}
"""SQL type -> Arrow type, for the types that fact columns and loaded tables may have."""

_SENTINEL: Final = pa.scalar(AT_OBSERVATION, pa.int64()).cast(pa.timestamp("us"))


def by_class(facts: Iterable[Fact]) -> dict[type[Fact], list[Fact]]:
    """The facts grouped by class, order kept."""
    groups: dict[type[Fact], list[Fact]] = {}
    for fact in facts:
        group = groups.get(type(fact))
        if group is None:
            groups[type(fact)] = group = []
        group.append(fact)
    return groups


def table_of(fact: type[Fact], facts: Sequence[Fact]) -> pa.Table:
    """The facts of one class as an Arrow table in field order.

    Raises OverflowError, ValueError or TypeError where a value does not fit its column (``fitting`` sorts such facts out).
    """
    columns = columns_of(fact)
    values = zip(*map(msgspec.structs.astuple, facts), strict=True) if facts else [()] * len(columns)
    arrays = [pa.array(cells, ARROW_TYPES[column.sql_type]) for column, cells in zip(columns, values, strict=True)]
    return pa.table(arrays, names=[column.name for column in columns])


def check(fact: type[Fact], table: pa.Table) -> None:
    """Every instant lies in the years 1 to 9999 and every column that is always known is. Raises InvariantError otherwise."""
    problem = _problem(fact, table, allow_sentinel=False)
    if problem is not None:
        raise InvariantError(problem)


def fitting(fact: type[Fact], facts: Sequence[Fact]) -> tuple[pa.Table, list[Fact]]:
    """The facts whose values all fit their columns as a table (AT_OBSERVATION allowed), and those that do not fit.

    Values do not fit where hostile input went through a reader: integers beyond 64 bits, lone surrogates, the year 10000.
    Halves are tried, so that one misfit in n facts costs n log n.
    """
    tables: list[pa.Table] = []
    misfits: list[Fact] = []
    pending = [facts]
    while pending:
        part = pending.pop()
        table = _table_or_none(fact, part)
        if table is not None:
            tables.append(table)
        elif len(part) == 1:
            misfits.append(part[0])
        else:
            half = len(part) // 2
            pending.extend((part[half:], part[:half]))
    return pa.concat_tables(tables) if tables else table_of(fact, []), misfits


def _table_or_none(fact: type[Fact], facts: Sequence[Fact]) -> pa.Table | None:
    try:
        table = table_of(fact, facts)
    except (OverflowError, TypeError, ValueError):
        return None
    return table if _problem(fact, table, allow_sentinel=True) is None else None


def settle(fact: type[Fact], table: pa.Table, as_of: Instant) -> pa.Table:
    """The table with AT_OBSERVATION replaced by ``as_of`` in every instant column."""
    instant = pa.scalar(as_of, pa.int64()).cast(pa.timestamp("us"))
    for position, column in enumerate(columns_of(fact)):
        if column.sql_type == "TIMESTAMP":
            cells = table.column(position)
            settled = pc.if_else(pc.equal(cells, _SENTINEL), instant, cells)
            table = table.set_column(position, column.name, settled)
    return table


@dataclass(frozen=True, slots=True)
class Stamps:
    """The latest stamp of a table that is not beyond a bound (None: there is none), and how many are beyond it, the latest of them named."""

    latest: Instant | None
    beyond_count: int
    beyond_latest: Instant | None


def stamps_of(fact: type[Fact], table: pa.Table, not_after: Instant, passed_over: frozenset[str]) -> Stamps:
    """The stamps of all instant columns but ``passed_over``; AT_OBSERVATION and NULL are no stamps."""
    latest: list[Instant] = []
    beyond_latest: list[Instant] = []
    beyond_count = 0
    for column in columns_of(fact):
        if column.sql_type != "TIMESTAMP" or column.name in passed_over:
            continue
        cells = table.column(column.name).cast(pa.int64())
        highest = pc.max(cells).as_py()
        if highest is None or highest == AT_OBSERVATION:
            continue
        if highest > not_after:
            beyond = cells.filter(pc.greater(cells, not_after))
            beyond_count += len(beyond)
            beyond_latest.append(highest)
            highest = pc.max(cells.filter(pc.less_equal(cells, not_after))).as_py()
        if highest is not None and highest != AT_OBSERVATION:
            latest.append(highest)
    return Stamps(max(latest, default=None), beyond_count, max(beyond_latest, default=None))


def _problem(fact: type[Fact], table: pa.Table, *, allow_sentinel: bool) -> str | None:
    for column in columns_of(fact):
        cells = table.column(column.name)
        if not column.nullable and cells.null_count:
            return f"{fact.TABLE}.{column.name}: NULL where a value is always known"
        if column.sql_type == "TIMESTAMP":
            instants = cells.cast(pa.int64())
            bounds = pc.min_max(instants).as_py()
            if allow_sentinel and bounds["min"] == AT_OBSERVATION:
                bounds = pc.min_max(instants.filter(pc.not_equal(instants, AT_OBSERVATION))).as_py()
            low, high = bounds["min"], bounds["max"]
            if low == AT_OBSERVATION:
                return f"{fact.TABLE}.{column.name}: AT_OBSERVATION reached the store; the importer replaces it"
            if low is not None and not (low >= INSTANT_MIN and high <= INSTANT_MAX):
                return f"{fact.TABLE}.{column.name}: an instant outside the years 1 to 9999: {low} .. {high}"
    return None


def join(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of one class as one, without copying their columns."""
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
