"""CSV that people write."""

from __future__ import annotations

import pytest

from steelyard.facts.finding import Finding
from steelyard.sources.shared.context import ReadContext, ReadSettings
from steelyard.sources.shared.csv_table import RECORD_LINES_MAX, CsvRow, CsvTable

CTX = ReadContext(file="list.csv")


def rows(text: str, ctx: ReadContext = CTX) -> list[CsvRow]:
    return [row for row in CsvTable(text, ctx, "test") if isinstance(row, CsvRow)]


def findings(text: str, ctx: ReadContext = CTX) -> list[Finding]:
    return [row for row in CsvTable(text, ctx, "test") if isinstance(row, Finding)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_the_header_uses(delimiter: str):
    text = "\n".join(delimiter.join(cells) for cells in (("a", "b"), ("1", "2")))
    assert [dict(row.cells) for row in rows(text)] == [{"a": "1", "b": "2"}]


def test_a_quoted_cell_may_hold_the_delimiter_and_a_line_break():
    (row, after) = rows('a,b\n"1,5","two\nlines"\n3,4\n')
    assert dict(row.cells) == {"a": "1,5", "b": "two\nlines"}
    assert (row.line, after.line) == (2, 4)


def test_a_quote_that_never_closes_costs_its_own_line_only():
    text = "a,b\n" + '"open,2\n' + "".join(f"{number},x\n" for number in range(100))
    assert len(rows(text)) == 100
    (finding,) = findings(text)
    assert (finding.line, finding.excerpt) == (2, '"open,2')


def test_a_record_is_joined_over_a_bounded_number_of_lines():
    text = 'a,b\n"open,2\n' + "1,x\n" * (RECORD_LINES_MAX + 5) + 'closed",3\n'
    assert len(rows(text)) == RECORD_LINES_MAX + 6
    assert [finding.line for finding in findings(text)] == [2]


def test_blank_lines_and_trailing_empty_cells_are_no_trouble():
    assert [dict(row.cells) for row in rows("\n\na,b\n\n1,2,,\n")] == [{"a": "1", "b": "2"}]


def test_a_repeated_column_counts_once_and_the_first_wins():
    table = CsvTable("a,b,a\n1,2,3\n", CTX, "test")
    assert table.columns == ("a", "b")
    assert [row.get("a") for row in table if isinstance(row, CsvRow)] == ["1"]


def test_a_line_beyond_the_limit_is_a_finding_with_a_short_excerpt():
    ctx = ReadContext(file="list.csv", settings=ReadSettings(line_bytes_max=100))
    text = "a,b\n" + "x" * 1000 + ",1\n1,2\n"
    (finding,) = findings(text, ctx)
    assert len(finding.excerpt or "") == 200
    assert len(rows(text, ctx)) == 1


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", '"', "," * 5000])
def test_what_holds_no_header_has_no_columns(text: str):
    assert CsvTable(text, CTX, "test").columns == ()
