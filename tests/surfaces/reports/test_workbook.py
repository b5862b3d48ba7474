"""XLSX: numbers are numbers, totals are formulas that equal the integers, names are texts."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from fractions import Fraction
from html import unescape
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.primitives.errors import UsageError
from steelyard.settlement.statement import Statement
from steelyard.surfaces.reports import workbook
from steelyard.surfaces.reports.columns import COLUMNS
from steelyard.surfaces.reports.workbook import statement_xlsx
from tests.settlement.statements import line, statement, unpriced

Cells = Mapping[str, tuple[str, str | None]]
"""Cell -> (text of its value, its formula)."""


def sheets(content: bytes) -> dict[str, Cells]:
    """What a spreadsheet program would read of our own file, sheet by sheet."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        shared = [
            unescape("".join(re.findall(r"<t[^>]*>(.*?)</t>", item, flags=re.DOTALL)))
            for item in re.findall(r"<si>(.*?)</si>", archive.read("xl/sharedStrings.xml").decode(), flags=re.DOTALL)
        ]
        names = re.findall(r'<sheet name="([^"]+)"', archive.read("xl/workbook.xml").decode())
        return {
            name: cells(archive.read(f"xl/worksheets/sheet{number}.xml").decode(), shared)
            for number, name in enumerate(names, start=1)
        }


def cells(sheet: str, shared: list[str]) -> Cells:
    found: dict[str, tuple[str, str | None]] = {}
    for name, attributes, body in re.findall(r'<c r="([A-Z]+\d+)"([^>]*)>(.*?)</c>', sheet, flags=re.DOTALL):
        value = re.search(r"<v>(.*?)</v>", body)
        formula = re.search(r"<f>(.*?)</f>", body)
        text = value[1] if value else ""
        found[name] = (shared[int(text)] if 't="s"' in attributes else text, formula[1] if formula else None)
    return found


def column_of(read: Cells, name: str) -> str:
    return next(
        re.sub(r"\d", "", cell) for cell, (text, _formula) in read.items() if text == name and cell.endswith("1")
    )


def evaluated(formula: str, book: Mapping[str, Cells]) -> Fraction:
    """``ROUND(SUM(range,...),6)`` as a spreadsheet computes it, in doubles."""
    total = 0.0
    for sheet, column, first, last in re.findall(r"(\w+)!\$([A-Z]+)\$(\d+):\$[A-Z]+\$(\d+)", formula):
        for row in range(int(first), int(last) + 1):
            total += float(book[sheet].get(f"{column}{row}", ("0", None))[0])
    return Fraction(f"{total:.6f}")


def totals(whole: Statement) -> list[tuple[str, Fraction, float]]:
    """(label, what the formula comes to, the value stored beside it)."""
    book = sheets(statement_xlsx(whole, "en"))
    return [
        (book["Summary"][f"A{cell[1:]}"][0], evaluated(formula, book), float(text))
        for cell, (text, formula) in book["Summary"].items()
        if formula is not None
    ]


AMOUNTS = st.lists(st.one_of(st.none(), st.integers(-(10**12), 10**12)), min_size=1, max_size=8).filter(
    lambda amounts: any(each is not None for each in amounts)
)


@settings(max_examples=20)
@given(AMOUNTS)
def test_the_formula_of_the_total_equals_the_integers(amounts: list[int | None]) -> None:
    whole = statement([line(str(n), amount_micro=micro, kind="correction" if n % 3 == 2 else "usage")
                       for n, micro in enumerate(amounts)])  # fmt: skip
    found = {label: (value, stored) for label, value, stored in totals(whole)}
    assert found["Total"][0] == Fraction(whole.amount_micro, 10**6)
    assert found["Total"][1] == whole.amount_micro / 10**6


def test_every_total_stands_in_the_summary() -> None:
    labels = [label for label, value, stored in totals(statement()) if float(value) == stored]
    assert labels == [
        "List amount", "Discount", "Total", "Cost of the same GPU-time in the cost book", "Effective cost, seen used",
        "Effective cost, at most",
    ]  # fmt: skip


def test_a_total_with_more_digits_than_a_spreadsheet_holds_stands_as_text_besides() -> None:
    book = sheets(statement_xlsx(statement([line("1", amount_micro=1_234_567_890_123_456)]), "en"))
    assert ("1234567890.123456", None) in book["Summary"].values()


def test_lines_and_corrections_have_sheets_of_their_own_with_a_header() -> None:
    book = sheets(statement_xlsx(statement()))
    assert list(book) == ["Summary", "Lines", "Corrections", "Definitions"]
    for name, count in (("Lines", 7), ("Corrections", 1)):
        read = book[name]
        column = column_of(read, "line_id")
        assert {f"{column}{row}" in read for row in range(2, count + 2)} == {True}
        assert f"{column}{count + 2}" not in read
    assert [book["Lines"][cell][0] for cell in book["Lines"] if re.fullmatch(r"[A-Z]+1", cell)] == [
        column.name for column in COLUMNS
    ]


def test_the_header_is_frozen() -> None:
    with zipfile.ZipFile(io.BytesIO(statement_xlsx(statement()))) as archive:
        assert 'ySplit="1"' in archive.read("xl/worksheets/sheet2.xml").decode()


@pytest.mark.parametrize(
    ("currency", "pattern"), [("JPY", '"JPY" #,##0;'), ("CNY", '"CNY" #,##0.00;'), ("KWD", '"KWD" #,##0.000;')]
)
def test_amounts_are_numbers_in_the_format_of_their_currency(currency: str, pattern: str) -> None:
    with zipfile.ZipFile(io.BytesIO(statement_xlsx(statement(currency=currency)))) as archive:
        assert pattern in unescape(archive.read("xl/styles.xml").decode())
    read = sheets(statement_xlsx(statement(currency=currency)))["Lines"]
    assert read[f"{column_of(read, 'amount')}2"] == ("54", None)


@pytest.mark.parametrize("name", ["=1+1", "{=SUM(A1)}", "@x", "-2", "http://x", "5", "a\x01b", "\ud800", "<&>"])
def test_a_name_is_a_text_and_never_a_formula_number_or_link(name: str) -> None:
    content = statement_xlsx(statement([line("1", pod=name)]))
    read = sheets(content)["Lines"]
    text, formula = read[f"{column_of(read, 'pod')}2"]
    assert formula is None
    assert text.replace("_x0001_", "\x01") == name.encode("utf-8", "backslashreplace").decode()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert "hyperlink" not in archive.read("xl/worksheets/sheet2.xml").decode()


def test_an_unpriced_line_has_an_empty_amount_and_no_zero() -> None:
    read = sheets(statement_xlsx(statement([unpriced("1")])))["Lines"]
    assert f"{column_of(read, 'amount')}2" not in read
    assert read[f"{column_of(read, 'unpriced_reason')}2"][0] == "no price names this model"


def test_what_nothing_is_known_of_has_no_total() -> None:
    book = sheets(statement_xlsx(statement([unpriced("1", cost_micro=None)]), "en"))
    assert not [formula for _text, formula in book["Summary"].values() if formula]
    assert ("unknown", None) in book["Summary"].values()


def test_the_same_statement_gives_the_same_bytes() -> None:
    assert statement_xlsx(statement()) == statement_xlsx(statement())


def test_more_lines_than_a_sheet_has_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "_ROWS_MAX", 7)
    with pytest.raises(UsageError, match="a worksheet holds 7 lines, the statement has 8"):
        statement_xlsx(statement())


def test_a_draft_says_so() -> None:
    draft: dict[str, Any] = {"state": "draft", "number": None, "closed_at": None}
    values = [text for text, _formula in sheets(statement_xlsx(statement(**draft), "en"))["Summary"].values()]
    assert "DRAFT: not closed, may change" in values
    assert "none yet" in values
