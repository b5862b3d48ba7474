"""CSV by RFC 4180: UTF-8, lines end in CR LF, fields with a comma, quote or line end are quoted, a BOM for Excel where it is asked for.

The trick to know: a name is data, also to a spreadsheet. A text that a spreadsheet would take for a formula (it begins with ``=``, ``+``,
``-``, ``@``, their full-width forms, a tab or a line end) is written with an apostrophe before it, and one that begins with an apostrophe with
a second one, so that taking one leading apostrophe away gives the text back. Numbers, dates and our own words are written as they are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

from steelyard.primitives.instant import format_instant
from steelyard.settlement.statement import Statement
from steelyard.surfaces.reports.columns import COLUMNS, Cell, Kind

BOM: Final = "\ufeff"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def neutral(text: str) -> str:
    """A text that no spreadsheet takes for a formula; lone surrogates, which no file can hold, become their escapes."""
    safe = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return f"'{safe}" if safe.lstrip(" \u00a0\u3000").startswith(_FORMULA) or safe.startswith("'") else safe


def plain_decimal(value: Decimal) -> str:
    """A decimal in full, without an exponent."""
    return f"{value:f}"


def field_text(cell: Cell, kind: Kind) -> str:
    """One cell as the text of a field; nothing for None."""
    if cell is None:
        return ""
    if kind == "instant" and isinstance(cell, int):
        return format_instant(cell)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, Decimal):
        return plain_decimal(cell)
    return str(cell) if isinstance(cell, int) else neutral(cell)


def delimited(
    header: Sequence[str] | None, rows: Iterable[Sequence[str]], *, delimiter: str = ",", bom: bool = False
) -> bytes:
    """Fields that are texts already as the bytes of a file."""
    target = io.StringIO(newline="")
    if bom:
        target.write(BOM)
    writer = csv.writer(target, delimiter=delimiter, lineterminator="\r\n")
    if header is not None:
        writer.writerow(header)
    writer.writerows(rows)
    return target.getvalue().encode("utf-8")


def statement_csv(statement: Statement, *, bom: bool = False) -> bytes:
    """The lines of a statement, one row each, with all columns of ``COLUMNS``."""
    rows = ([field_text(column.read(statement, line), column.kind) for column in COLUMNS] for line in statement.lines)
    return delimited([column.name for column in COLUMNS], rows, bom=bom)
