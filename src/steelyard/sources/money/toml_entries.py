"""The entries of a TOML file: arrays of tables (``[[prices]]``) whose values become cells, as exact as they are written.

The tricks to know: numbers are read as decimals, never as binary fractions; and a line has bounds, because dotted keys of n parts cost
n squared to read.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.money.entries import ENTRIES_MAX, Entry, Refusals

CHARACTERS_MAX: Final = 1 << 20
LINE_MAX: Final = 1_000
DOTS_MAX: Final = 20
_BITS_MAX: Final = 64
_HEADER: Final = re.compile(r"\s*\[\[\s*([A-Za-z_]{1,40})\s*\]\]")


def toml_document(text: str, refusals: Refusals) -> dict[str, Any] | None:
    """The document. None, with a refusal, where it is no TOML within bounds."""
    plain = text.lstrip("\ufeff")
    if len(plain) > CHARACTERS_MAX:
        refusals.add(SourceMalformed(f"expected at most {CHARACTERS_MAX} characters, found {len(plain)}"))
        return None
    for number, line in enumerate(plain.splitlines(), start=1):
        if len(line) > LINE_MAX or (line.count(".") > DOTS_MAX and not line.lstrip().startswith("#")):
            text = f"expected lines of at most {LINE_MAX} characters, with at most {DOTS_MAX} dots"
            refusals.add(SourceMalformed(text, number, line))
            return None
    try:
        return tomllib.loads(plain.replace("\r\n", "\n"), parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        place = re.search(r"at line (\d{1,9})", str(error))
        refusals.add(SourceMalformed(f"expected TOML: {str(error)[:200]}", int(place.group(1)) if place else 0))
        return None


def toml_entries(
    document: Mapping[str, Any], table: str, known: Collection[str], text: str, refusals: Refusals
) -> list[Entry]:
    """The entries of one array of tables; none where the document has no such table."""
    found = document.get(table, [])
    if not isinstance(found, list) or len(found) > ENTRIES_MAX:
        refusals.add(SourceMalformed(f"{table}: expected at most {ENTRIES_MAX} entries, each under [[{table}]]"))
        return []
    lines = _lines_of(table, text, len(found))
    entries = []
    for number, item in enumerate(found):
        where = f"{table}[{number + 1}]"
        try:
            if not isinstance(item, dict):
                raise SourceMalformed("expected a table of keys and values", lines[number], where)
            cells = {key: _cell(key, value, lines[number], where) for key, value in item.items()}
            unknown = [key for key in cells if key not in known]
            if unknown:
                raise SourceMalformed(
                    f"{unknown[0][:40]!r} is not known: expected {', '.join(known)}", lines[number], where
                )
            entries.append(Entry(lines[number], where, cells))
        except SourceMalformed as error:
            refusals.add(error)
    return entries


def cell_text(value: Any) -> str | None:
    """A value as the text of a cell; None where it is a list, a table or a number that nothing here can be."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _BITS_MAX else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value).strip() if isinstance(value, str | Decimal) else None


def _cell(key: str, value: Any, line: int, where: str) -> str:
    text = cell_text(value)
    if text is None:
        raise SourceMalformed(f"{key[:40]}: expected text, a number, a date or true or false", line, where)
    return text


def _lines_of(table: str, text: str, count: int) -> Sequence[int]:
    """The line of each entry's heading; 0 where they do not stand under one each."""
    lines = [
        number
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := _HEADER.match(line)) is not None and match.group(1) == table
    ]
    return lines if len(lines) == count else [0] * count
