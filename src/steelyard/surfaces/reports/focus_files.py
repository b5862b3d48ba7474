"""FOCUS data sets as files: CSV (UTF-8, ``YYYY-MM-DDTHH:mm:ssZ``, plain numbers) and Parquet (DECIMAL, UTC timestamps).

The trick to know: numbers lose trailing zeros in CSV but one, by which a reader that guesses types knows a decimal; both files hold the same
values.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from steelyard.primitives.instant import format_instant
from steelyard.settlement.focus import Cell, FocusTable
from steelyard.settlement.focus_columns import FocusColumn
from steelyard.surfaces.reports.columnar import arrow_table, parquet_bytes, safe_text
from steelyard.surfaces.reports.delimited import delimited, neutral

if TYPE_CHECKING:
    import pyarrow as pa


def focus_csv(table: FocusTable, *, bom: bool = False) -> bytes:
    """The data set as CSV; a null is an empty field."""
    rows = ([_field(row[column.name], column) for column in table.columns] for row in table.rows)
    return delimited([column.name for column in table.columns], rows, bom=bom)


def focus_parquet(table: FocusTable, version: str) -> bytes:
    """The data set as Parquet, the FOCUS version in the file's metadata."""
    cells = [[_cell(row[column.name]) for row in table.rows] for column in table.columns]
    types = [_type(column) for column in table.columns]
    whole = arrow_table([column.name for column in table.columns], types, cells, {"focus_version": version})
    return parquet_bytes(whole)


def _field(cell: Cell, column: FocusColumn) -> str:
    if cell is None:
        return ""
    if column.type == "instant" and isinstance(cell, int):
        return format_instant(cell)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, Decimal):
        whole, _point, places = f"{cell:f}".partition(".")
        return f"{whole}.{places.rstrip('0') or '0'}"
    return neutral(cell) if isinstance(cell, str) else str(cell)


def _cell(cell: Cell) -> Any:
    return safe_text(cell) if isinstance(cell, str) else cell


def _type(column: FocusColumn) -> pa.DataType:
    import pyarrow as pa

    if column.type == "decimal":
        return pa.decimal128(38, column.scale)
    types = {"string": pa.string(), "json": pa.string(), "instant": pa.timestamp("us", tz="UTC"), "flag": pa.bool_()}
    return types[column.type]
