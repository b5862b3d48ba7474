"""CSV that opens right, adds up, and hands a spreadsheet no formula."""

from __future__ import annotations

import csv
import io
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.surfaces.reports.columns import COLUMNS
from steelyard.surfaces.reports.delimited import neutral, statement_csv
from tests.settlement.statements import line, statement, unpriced


def rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def test_each_line_is_a_row_with_all_columns_and_crlf() -> None:
    content = statement_csv(statement())
    assert content.count(b"\r\n") == len(statement().lines) + 1
    assert list(rows(content)[0]) == [column.name for column in COLUMNS]


def test_a_bom_stands_first_where_it_is_asked_for_and_nowhere_else() -> None:
    assert statement_csv(statement(), bom=True).startswith(b"\xef\xbb\xbfstatement,")
    assert statement_csv(statement()).startswith(b"statement,")


@given(st.lists(st.one_of(st.none(), st.integers(-(10**24), 10**24)), max_size=6))
def test_amounts_are_exact_and_sum_to_the_statement(amounts: list[int | None]) -> None:
    whole = statement([line(str(n), amount_micro=micro) for n, micro in enumerate(amounts)])
    written = [row["amount"] for row in rows(statement_csv(whole))]
    assert sum(Fraction(text) for text in written if text) * 10**6 == whole.amount_micro
    assert [text == "" for text in written] == [micro is None for micro in amounts]


def test_an_unpriced_line_has_no_amount_and_says_why() -> None:
    (row,) = rows(statement_csv(statement([unpriced("1")])))
    assert row["amount"] == row["list_amount"] == row["unit_price"] == ""
    assert row["unpriced_reason"] == "no price names this model"


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", "'quoted", "=cmd|' /C calc'!A0"]
)
def test_a_name_that_reads_as_a_formula_is_neutralised_and_can_be_read_back(text: str) -> None:
    (row,) = rows(statement_csv(statement([line("1", pod=text)])))
    assert row["pod"] == f"'{text}"
    assert row["pod"][1:] == text


@pytest.mark.parametrize("text", ["a=b", "x-1", "5", "组-1", "", "it's"])
def test_an_ordinary_name_is_left_as_it_is(text: str) -> None:
    assert neutral(text) == text


def test_a_negative_amount_is_a_number_and_not_neutralised() -> None:
    (row,) = rows(statement_csv(statement([line("1", amount_micro=-1)])))
    assert row["amount"] == "-0.000001"


@given(st.text(max_size=30))
def test_whatever_a_name_holds_is_one_field(name: str) -> None:
    (row,) = rows(statement_csv(statement([line("1", pod=name, team="next")])))
    assert row["team"] == "next"
    assert row["pod"] == neutral(name)


def test_a_lone_surrogate_ends_in_its_escape() -> None:
    assert neutral("a\ud800") == "a\\ud800"
