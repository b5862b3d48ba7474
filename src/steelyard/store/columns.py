"""From facts (Python rows) to Arrow tables, column by column, with the range checks that no row may slip past.

Called by the store's append and by the importer, which keeps the facts of a big import in this compact form. The trick to
know: an instant is an int in a fact and a TIMESTAMP in the table; Arrow takes the int as microseconds, so nothing is copied
through ``datetime``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.facts.base import Column, Fact, columns_of
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import AT_OBSERVATION, INSTANT_MAX, INSTANT_MIN

ARROW_TYPES: Final[Mapping[str, Any]] = {
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us"),
}
"""SQL type -> Arrow type, for the types that fact columns and loaded tables may have."""


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

    Raises OverflowError, TypeError or UnicodeEncodeError where a value fits no column: ``fits`` tells which fact it is.
    """
    columns = columns_of(fact)
    values = zip(*map(msgspec.structs.astuple, facts), strict=True) if facts else [()] * len(columns)
    arrays = [pa.array(cells, ARROW_TYPES[column.sql_type]) for column, cells in zip(columns, values, strict=True)]
    return pa.table(arrays, names=[column.name for column in columns])


def fits(fact: Fact) -> bool:
    """Whether every value of the fact fits its column (64-bit integers, encodable text, instants within the calendar)."""
    try:
        check_instants(type(fact), table_of(type(fact), [fact]), allow_sentinel=True)
    except (OverflowError, TypeError, UnicodeEncodeError, ValueError, InvariantError):
        return False
    return True


def check_instants(fact: type[Fact], table: pa.Table, *, allow_sentinel: bool = False) -> None:
    """Every instant lies between the years 1 and 9999, and every column that must be known is. Raises InvariantError otherwise:
    AT_OBSERVATION that nobody replaced is the usual reason."""
    for column in columns_of(fact):
        cells = table.column(column.name)
        if not column.nullable and cells.null_count:
            raise InvariantError(f"{fact.TABLE}.{column.name}: NULL where a value is always known")
        if column.sql_type == "TIMESTAMP":
            _check_range(fact, column, cells, allow_sentinel)


def _check_range(fact: type[Fact], column: Column, cells: Any, allow_sentinel: bool) -> None:
    instants = cells.cast(pa.int64())
    if allow_sentinel:
        instants = instants.filter(pc.not_equal(instants, AT_OBSERVATION))
    bounds = pc.min_max(instants).as_py()
    low, high = bounds["min"], bounds["max"]
    if low is None or (low >= INSTANT_MIN and high <= INSTANT_MAX):
        return
    if low == AT_OBSERVATION:
        raise InvariantError(f"{fact.TABLE}.{column.name}: AT_OBSERVATION reached the store; the importer replaces it")
    raise InvariantError(f"{fact.TABLE}.{column.name}: an instant outside the years 1 to 9999: {low} .. {high}")
