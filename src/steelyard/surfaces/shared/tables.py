"""Tables for terminals and pipes: laid out as plain lines, so that a test can read them and a pipe can cut them.

``lay_out`` is what the renderers call. The trick to know: on a terminal a row that is too wide is folded, never cut: the columns that fit
stand in the table, the others follow on an indented line as ``name value unit``. Columns without any value, and columns with the same value
in every row, are said once above the table. In a pipe every row is one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len, chop_cells

from steelyard.answers.contract import Column, Table
from steelyard.primitives.i18n import _, ngettext
from steelyard.surfaces.shared.cells import Notes, cell_text, is_number

GAP: Final = "  "
_FOLD_INDENT: Final = "      "
_LIFTED_ROWS_MIN: Final = 3


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output and what it is: ``title``, ``head``, ``row``, ``fold`` (the rest of a row) or ``note``."""

    kind: str
    text: str


@dataclass(slots=True)
class _Field:
    """A column with its cells as text."""

    column: Column
    cells: list[str]
    right: bool
    width: int = 0
    head: list[str] = field(default_factory=list)


def lay_out(table: Table, width: int | None, rows_max: int | None = None) -> list[Line]:
    """The lines of a table. ``width`` None = a pipe: one line a row. ``rows_max`` None = all rows; what is left out is said."""
    total = len(table.rows)
    title = ngettext("{name}: {count} row", "{name}: {count} rows", total).format(name=table.name, count=f"{total:,}")
    if not total:
        return [Line("title", title)]
    notes = Notes()
    shown = table.rows[:rows_max] if rows_max is not None else table.rows
    fields, lifted = _lift(_fields(table.columns, shown, notes), table.rows)
    lines = [Line("title", title), *(Line("note", text) for text in wrapped(lifted, width, GAP))]
    inside, outside = _fit(fields, width)
    for each in inside:
        _size(each, width)
    lines.extend(_head(inside))
    for number in range(len(shown)):
        lines.extend(_row(inside, number))
        said = [each for each in outside if each.cells[number] != "-"]
        rest = [f"{each.column.name} {each.cells[number]}{_unit(each, number)}" for each in said]
        lines.extend(Line("fold", text) for text in wrapped(rest, width, _FOLD_INDENT))
    if len(shown) < total:
        left = total - len(shown)
        text = ngettext(
            "{count} more row: --rows 0 shows all, --json too",
            "{count} more rows: --rows 0 shows all, --json too",
            left,
        ).format(count=f"{left:,}")
        lines.append(Line("note", GAP + text))
    lines.extend(Line("note", text) for note in notes.lines() for text in wrapped([note], width, GAP))
    return lines


def _fields(columns: Sequence[Column], rows: Sequence[Sequence[object]], notes: Notes) -> list[_Field]:
    fields = []
    for index, column in enumerate(columns):
        values = [row[index] for row in rows]
        texts = [cell_text(value, column, notes) for value in values]  # type: ignore[arg-type]  # rows hold cells; their declaration is object
        fields.append(_Field(column, texts, any(is_number(value) for value in values)))  # type: ignore[arg-type]  # rows hold cells; their declaration is object
    return fields


def _lift(fields: Sequence[_Field], rows: Sequence[Sequence[object]]) -> tuple[list[_Field], list[str]]:
    """Take out of the table what says nothing in it: columns never set, and (from three rows on) columns that never change.

    All rows of the table count, those that are not shown too.
    """
    kept, unset, same = [], [], []
    for number, each in enumerate(fields):
        first = rows[0][number]
        constant = all(row[number] == first for row in rows)
        if constant and first is None and each.cells[0] == "-":
            unset.append(each.column.name)
        elif constant and number and len(rows) >= _LIFTED_ROWS_MIN:
            same.append(f"{each.column.name} {each.cells[0]}{_unit(each, 0)}")
        else:
            kept.append(each)
    lifted = [_("in every row: {values}").format(values=" · ".join(same))] if same else []
    if unset:
        lifted.append(_("never set: {names}").format(names=", ".join(unset)))
    return kept or list(fields[:1]), lifted


def _fit(fields: Sequence[_Field], width: int | None) -> tuple[list[_Field], list[_Field]]:
    """The columns that stand side by side within the width, from the left, and those that do not."""
    if width is None:
        return list(fields), []
    inside: list[_Field] = []
    used = 0
    for number, each in enumerate(fields):
        needed = min(_natural(each), _cap(width)) + (len(GAP) if inside else 0)
        if used + needed > width and inside:
            return inside, list(fields[number:])
        inside.append(each)
        used += needed
    return inside, []


def _natural(each: _Field) -> int:
    longest = max((cell_len(cell) for cell in each.cells), default=0)
    return max(longest, *(len(piece) for piece in _pieces(each.column)))


def _cap(width: int) -> int:
    return max(16, width // 2)


def _size(each: _Field, width: int | None) -> None:
    each.width = _natural(each) if width is None else min(_natural(each), _cap(width))
    lines = [""]
    for piece in _pieces(each.column)[:-1]:
        if lines[-1] and len(lines[-1]) + len(piece) > each.width:
            lines.append("")
        lines[-1] += piece
    each.head = [*lines, *filter(None, _pieces(each.column)[-1:])]


def _pieces(column: Column) -> list[str]:
    """The parts at which a heading may be broken; the unit is the last one (empty for names)."""
    words = column.name.split("_")
    return [*(f"{word}_" for word in words[:-1]), words[-1], "" if column.unit == "1" else column.unit]


def _head(fields: Sequence[_Field]) -> list[Line]:
    height = max(len(each.head) for each in fields)
    lines = []
    for number in range(height):
        parts = []
        for each in fields:
            head = [""] * (height - len(each.head)) + each.head
            parts.append(_padded(head[number], each))
        lines.append(Line("head", GAP.join(parts).rstrip()))
    lines.append(Line("head", GAP.join("-" * each.width for each in fields)))
    return lines


def _row(fields: Sequence[_Field], number: int) -> list[Line]:
    columns = [_words(each.cells[number], max(1, each.width)) for each in fields]
    height = max(len(parts) for parts in columns)
    lines = []
    for level in range(height):
        parts = [
            _padded(cells[level] if level < len(cells) else "", each)
            for cells, each in zip(columns, fields, strict=True)
        ]
        lines.append(Line("row", GAP.join(parts).rstrip()))
    return lines


def _padded(text: str, each: _Field) -> str:
    space = " " * max(0, each.width - cell_len(text))
    return space + text if each.right else text + space


def _unit(each: _Field, number: int) -> str:
    unit = each.column.unit
    return f" {unit}" if unit not in ("", "1") and each.cells[number].removeprefix("-")[:1].isdigit() else ""


def wrapped(parts: Sequence[str], width: int | None, indent: str) -> list[str]:
    """Parts joined by a dot, broken between parts where a line is full and inside a part where one alone is too long."""
    if width is None:
        return [indent + part for part in parts]
    room = max(20, width - len(indent))
    lines: list[str] = []
    for part in parts:
        joined = f"{lines[-1]} · {part}" if lines else part
        if lines and cell_len(joined) <= room:
            lines[-1] = joined
        else:
            lines.extend(_words(part, room))
    return [indent + line for line in lines]


def sentence(kind: str, text: str, width: int | None) -> list[Line]:
    """One sentence as lines that are no wider than ``width``."""
    return [Line(kind, each) for each in wrapped([text], width, "")]


def _words(text: str, room: int) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        for number, piece in enumerate(chop_cells(word, room) or [""]):
            glue = " " if lines[-1] and not number else ""
            if cell_len(lines[-1] + glue + piece) <= room:
                lines[-1] += glue + piece
            else:
                lines.append(piece)
    return lines
