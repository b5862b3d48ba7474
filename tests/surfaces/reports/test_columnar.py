"""Parquet of a statement: exact types, metadata, the same bytes for the same statement."""

from __future__ import annotations

import io
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.errors import UsageError
from steelyard.surfaces.reports.columnar import statement_parquet
from steelyard.surfaces.reports.columns import COLUMNS
from tests.settlement.statements import WINDOW, line, statement


def read(content: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(content))


def test_amounts_are_decimals_and_instants_are_utc_microseconds() -> None:
    table = read(statement_parquet(statement()))
    assert table.column_names == [column.name for column in COLUMNS]
    assert table.schema.field("amount").type == pa.decimal128(38, 6)
    assert table.schema.field("started_at").type == pa.timestamp("us", tz="UTC")
    assert table.schema.field("quantity_gpu_us").type == pa.int64()
    assert table["started_at"].cast(pa.int64()).to_pylist()[-1] == WINDOW.start


def test_the_metadata_name_the_statement_and_its_total() -> None:
    metadata = read(statement_parquet(statement())).schema.metadata
    assert metadata[b"statement"] == b"S-2026-11-0001"
    assert metadata[b"amount_micro"] == str(statement().amount_micro).encode()
    assert metadata[b"closed_at"] == b"2026-12-03T02:30:00Z"


def test_the_same_statement_gives_the_same_bytes() -> None:
    assert statement_parquet(statement()) == statement_parquet(statement())


@given(st.lists(st.one_of(st.none(), st.integers(-(10**30), 10**30)), max_size=6))
def test_amounts_sum_to_the_statement(amounts: list[int | None]) -> None:
    whole = statement([line(str(n), amount_micro=micro) for n, micro in enumerate(amounts)])
    column = read(statement_parquet(whole))["amount"].to_pylist()
    assert sum(Fraction(value) for value in column if value is not None) * 10**6 == whole.amount_micro


def test_an_amount_that_no_decimal_holds_is_refused_and_never_cut() -> None:
    with pytest.raises(UsageError, match="cannot hold column amount"):
        statement_parquet(statement([line("1", amount_micro=10**39)]))


def test_a_statement_without_lines_is_a_table_without_rows() -> None:
    assert read(statement_parquet(statement([]))).num_rows == 0


def test_a_hostile_name_comes_back_as_it_was() -> None:
    name = '=1+1\n"quoted", #panic() \u202e'
    assert read(statement_parquet(statement([line("1", pod=name)])))["pod"].to_pylist() == [name]
