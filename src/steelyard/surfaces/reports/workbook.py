"""A statement as an XLSX workbook: summary, lines, corrections, definitions.

Numbers are numbers with the currency's own format, names are texts (never formulas), and totals are formulas over the lines. The trick to know: a
spreadsheet holds 15 digits, so a total is rounded to the micro-unit in its formula, and where it has more digits than that the exact figure
stands beside it as text.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import format_instant, to_datetime
from steelyard.settlement.statement import Statement, StatementLine
from steelyard.surfaces.reports.columnar import safe_text
from steelyard.surfaces.reports.columns import COLUMNS, LineColumn, money
from steelyard.surfaces.reports.extra import report_library
from steelyard.surfaces.reports.money_text import currency_digits
from steelyard.surfaces.reports.wording import Language, words

_TEXT_MAX: Final = 32_000
_EXACT_MAX: Final = 10**15
_ROWS_MAX: Final = 1_000_000
_SUMMED: Final = ("list_amount", "discount", "amount", "cost", "used_amount", "used_upper_amount")


@dataclass(frozen=True, slots=True)
class _Book:
    """A workbook being written, with its formats by the kind of a cell."""

    book: Any
    statement: Statement
    words: Mapping[str, str]
    formats: Mapping[str, Any] = field(default_factory=dict)

    def sheet(self, name: str) -> Any:
        sheet = self.book.add_worksheet(name)
        sheet.set_landscape()
        sheet.set_paper(9)
        return sheet


def statement_xlsx(statement: Statement, language: Language = "both") -> bytes:
    """The workbook's bytes; the same statement gives the same. Raises UsageError where the extra ``report`` is missing, and for more lines than a
    sheet has rows."""
    if len(statement.lines) > _ROWS_MAX:
        raise UsageError(
            _("a worksheet holds {rows} lines, the statement has {lines}: take csv or parquet").format(
                rows=_ROWS_MAX, lines=len(statement.lines)
            )
        )
    target = io.BytesIO()
    library = report_library("xlsxwriter")
    book = library.Workbook(
        target,
        {
            "in_memory": True,
            "strings_to_formulas": False,
            "strings_to_urls": False,
            "strings_to_numbers": False,
            "default_date_format": "yyyy-mm-dd hh:mm",
        },
    )
    closed = to_datetime(statement.as_of if statement.closed_at is None else statement.closed_at)
    said = words(language)
    book.set_properties({"title": f"{said['title']} {statement.number or ''}".strip(), "created": closed})
    whole = _Book(book, statement, said, _formats(book, statement))
    usage = [line for line in statement.lines if line.kind != "correction"]
    corrections = [line for line in statement.lines if line.kind == "correction"]
    _summary(whole, len(usage), len(corrections))
    _lines(whole, "Lines", usage)
    _lines(whole, "Corrections", corrections)
    _definitions(whole)
    book.close()
    return target.getvalue()


def _formats(book: Any, statement: Statement) -> dict[str, Any]:
    places = "0" * currency_digits(statement.currency)
    whole = f"#,##0.{places}" if places else "#,##0"
    currency = safe_text(statement.currency).replace('"', "")
    return {
        "money": book.add_format({"num_format": f'"{currency}" {whole};[Red]-"{currency}" {whole}'}),
        "exact": book.add_format({"num_format": "#,##0.000000;[Red]-#,##0.000000"}),
        "hours": book.add_format({"num_format": "#,##0.000"}),
        "integer": book.add_format({"num_format": "#,##0"}),
        "instant": book.add_format({"num_format": "yyyy-mm-dd hh:mm"}),
        "head": book.add_format({"bold": True, "bottom": 1}),
        "title": book.add_format({"bold": True, "font_size": 14}),
        "warning": book.add_format({"bold": True, "bg_color": "#FFF1C9"}),
    }


def _text(sheet: Any, row: int, column: int, text: str | None, style: Any = None) -> None:
    if text:
        safe = safe_text(text)
        cut = safe if len(safe) <= _TEXT_MAX else f"{safe[:_TEXT_MAX]}…"
        sheet.write_string(row, column, cut, style)


def _summary(whole: _Book, lines_count: int, corrections_count: int) -> None:
    sheet, statement, said = whole.sheet("Summary"), whole.statement, whole.words
    sheet.set_column(0, 0, 44)
    sheet.set_column(1, 3, 24)
    _text(sheet, 0, 0, said["title"], whole.formats["title"])
    row = 1
    if statement.state != "closed":
        _text(sheet, row, 0, said[statement.state], whole.formats["warning"])
        row += 1
    for key, text in (
        ("number", statement.number or said["no_number"]),
        ("tenant", statement.tenant),
        ("period", statement.period),
        ("window", f"{format_instant(statement.window.start)} - {format_instant(statement.window.end)}"),
        ("time_zone", statement.time_zone),
        ("currency", statement.currency),
        ("as_of", format_instant(statement.as_of)),
        ("closed_at", "" if statement.closed_at is None else format_instant(statement.closed_at)),
    ):
        _text(sheet, row, 0, said[key])
        _text(sheet, row, 1, text)
        row += 1
    row += 1
    for name in _SUMMED:
        _total(whole, sheet, row, name, lines_count, corrections_count)
        row += 1
    for key, count in (("unpriced_lines", statement.unpriced_count), ("estimated_lines", _estimated(statement))):
        _text(sheet, row, 0, said[key])
        sheet.write_number(row, 1, count)
        row += 1
    if statement.previous_micro is not None:
        _text(sheet, row, 0, said["previous"])
        sheet.write_number(row, 1, float(money(statement.previous_micro) or 0), whole.formats["money"])
    for note in statement.notes:
        row += 1
        _text(sheet, row + 1, 0, note)


def _estimated(statement: Statement) -> int:
    return sum(line.estimated for line in statement.lines)


def _total(whole: _Book, sheet: Any, row: int, name: str, lines_count: int, corrections_count: int) -> None:
    """A total as a formula over both sheets; the exact figure as text where a spreadsheet cannot hold it."""
    number, column = next((n, each) for n, each in enumerate(COLUMNS) if each.name == name)
    exact = _exact_sum(whole.statement, column)
    labels = {
        "amount": "total",
        "cost": "cost_book",
        "used_amount": "effective_seen",
        "used_upper_amount": "effective_most",
    }
    _text(sheet, row, 0, whole.words[labels.get(name, name)], whole.formats["head"] if name == "amount" else None)
    if exact is None:
        _text(sheet, row, 1, whole.words["not_known"])
        return
    parts = [
        f"{sheet_name}!{_range(number, count)}"
        for sheet_name, count in (("Lines", lines_count), ("Corrections", corrections_count))
        if count
    ]
    sheet.write_formula(row, 1, f"=ROUND(SUM({','.join(parts)}),6)", whole.formats["money"], float(exact))
    if abs(exact) * 10**6 >= _EXACT_MAX:
        _text(sheet, row, 2, f"{exact:f}")


def _exact_sum(statement: Statement, column: LineColumn) -> Decimal | None:
    cells = [cell for line in statement.lines if isinstance(cell := column.read(statement, line), Decimal)]
    return Decimal(f"{sum(int(cell.scaleb(6)) for cell in cells)}E-6") if cells else None


def _range(column: int, count: int) -> str:
    letters, rest = "", column + 1
    while rest:
        rest, digit = divmod(rest - 1, 26)
        letters = chr(65 + digit) + letters
    return f"${letters}$2:${letters}${count + 1}"


def _lines(whole: _Book, name: str, lines: Sequence[StatementLine]) -> None:
    sheet = whole.sheet(name)
    for number, column in enumerate(COLUMNS):
        _text(sheet, 0, number, column.name, whole.formats["head"])
    sheet.set_column(0, len(COLUMNS) - 1, 16)
    sheet.freeze_panes(1, 5)
    if lines:
        sheet.autofilter(0, 0, len(lines), len(COLUMNS) - 1)
    for row, line in enumerate(lines, start=1):
        for number, column in enumerate(COLUMNS):
            _cell(whole, sheet, row, number, column, line)


def _cell(whole: _Book, sheet: Any, row: int, number: int, column: LineColumn, line: StatementLine) -> None:
    cell = column.read(whole.statement, line)
    if cell is None:
        return
    if isinstance(cell, bool):
        sheet.write_boolean(row, number, cell)
    elif isinstance(cell, Decimal):
        style = "exact" if column.name == "unit_price" else column.kind
        sheet.write_number(row, number, float(cell), whole.formats[style])
    elif isinstance(cell, int) and column.kind == "instant":
        sheet.write_datetime(row, number, to_datetime(cell).replace(tzinfo=None), whole.formats["instant"])
    elif isinstance(cell, int):
        sheet.write_number(row, number, cell, whole.formats["integer"])
    else:
        _text(sheet, row, number, cell)


def _definitions(whole: _Book) -> None:
    sheet, said = whole.sheet("Definitions"), whole.words
    sheet.set_column(0, 0, 28)
    sheet.set_column(1, 1, 110)
    row = 0
    for key, text in said.items():
        if key.startswith("define_"):
            _text(sheet, row, 1, text)
            row += 1
    for column in COLUMNS:
        _text(sheet, row, 0, column.name)
        _text(sheet, row, 1, column.meaning)
        row += 1
    for name, version in sorted(whole.statement.versions.items()):
        _text(sheet, row, 0, name)
        _text(sheet, row, 1, version)
        row += 1
