"""Tables fold and never lose a cell."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from steelyard.answers.contract import Column, Table, Value
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.shared.cells import Notes, cell_text, number_text
from steelyard.surfaces.shared.tables import lay_out


def text(table: Table, width: int | None = None, rows_max: int | None = None) -> str:
    return "\n".join(line.text for line in lay_out(table, width, rows_max))


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (Fraction(51470674, 1000), "GPU-h", "51,470.674"),
        (0, "GPU-h", "0.000"),
        (Fraction(1, 3), "GPU", "0.3333"),
        (2, "GPU", "2"),
        (16384, "MiB", "16,384"),
        (Fraction(100, 3), "MiB", "33.3"),
        (1234567, "1", "1,234,567"),
        (7, "", "7"),
        (True, "", "yes"),
        (False, "", "no"),
        ("\x1b[0m", "", "\\x1b[0m"),
    ],
)
def test_numbers_carry_the_digits_of_their_unit(value: int | Fraction | str, unit: str, expected: str) -> None:
    assert number_text(value, unit) == expected


def test_unknown_cells_share_one_note_per_reason_and_are_never_zero() -> None:
    table = Table(
        "t", (Column("pod"), Column("used", "GPU-h")), [("a", Unknown("x")), ("b", Unknown("y")), ("c", Unknown("x"))]
    )
    shown = text(table)
    assert shown.count("unknown [1]") == 2
    assert shown.count("unknown [2]") == 1
    assert "[1] unknown, because x" in shown
    assert "0" not in shown.replace("rows", "")


def test_an_unknown_card_says_why_in_its_row() -> None:
    assert (
        cell_text(Unknown("no card is named"), Column("device_uuid"), Notes())
        == "device unknown, because no card is named"
    )
    assert cell_text(None, Column("ended_at"), Notes()) == "open"
    assert cell_text(None, Column("queue"), Notes()) == "-"


def test_what_is_the_same_in_every_row_is_said_once() -> None:
    rows = [(name, "default", None) for name in "abc"]
    shown = text(Table("t", (Column("pod"), Column("cluster"), Column("queue")), rows))
    assert shown.count("default") == 1
    assert "in every row: cluster default" in shown
    assert "never set: queue" in shown


def test_every_row_means_those_that_are_not_shown_too() -> None:
    rows = [(str(number), "x" if number < 9 else "y", None if number < 9 else "z") for number in range(10)]
    shown = text(Table("t", (Column("pod"), Column("kind"), Column("queue")), rows), 80, 3)
    assert "in every row" not in shown
    assert "never set" not in shown


def test_rows_left_out_are_counted() -> None:
    table = Table("t", (Column("pod"),), [(str(number),) for number in range(10)])
    assert "7 more rows: --rows 0 shows all" in text(table, 80, 3)
    assert "more rows" not in text(table, 80, None)


def test_an_empty_table_is_one_line() -> None:
    assert text(Table("t", (Column("pod"),), [])) == "t: 0 rows"


cells: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.integers(-(10**12), 10**12),
    st.text(max_size=60),
    st.builds(Unknown, st.text(min_size=1, max_size=30)),
)


@given(
    st.integers(1, 9).flatmap(lambda n: st.lists(st.tuples(*[cells] * n), min_size=1, max_size=6)), st.integers(40, 200)
)
def test_no_line_is_too_wide_and_in_a_pipe_every_row_is_one_line(rows: list[tuple[Value, ...]], width: int) -> None:
    columns = [Column(f"column_{number}", "GPU" if number % 2 else "") for number in range(len(rows[0]))]
    table = Table("t", columns, rows)
    assert [line.text for line in lay_out(table, width) if cell_len(line.text) > width] == []
    assert sum(1 for line in lay_out(table, None) if line.kind == "row") == len(rows)
    assert sum(1 for line in lay_out(table, None) if line.kind == "fold") == 0


@given(st.lists(st.lists(st.integers(100_000, 999_999), min_size=12, max_size=12), min_size=1, max_size=5))
def test_folding_loses_no_cell(rows: list[list[int]]) -> None:
    table = Table("t", [Column(f"column_{number}") for number in range(12)], rows)
    shown = text(table, 50)
    assert all(str(value) in shown for row in rows for value in row)
