"""Our FOCUS columns beside the handed tables of the specification: presence, order, types, nulls, allowed values, parents."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from steelyard.settlement.focus import FocusTable, Row, billing_periods, cost_and_usage
from steelyard.settlement.focus_columns import COST_AND_USAGE, Version
from steelyard.surfaces.reports.focus_files import focus_csv, focus_parquet
from tests.settlement.statements import line, statement

Specified = dict[str, dict[str, str]]
TYPES = {"decimal": {"Decimal"}, "instant": {"Date/Time"}, "json": {"JSON"}, "string": {"String"}}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
NUMBER = re.compile(r"-?\d+\.(0|\d*[1-9])")


def specified(shared: Path, name: str) -> Specified:
    with (shared / "cases/cost" / name).open(encoding="utf-8", newline="") as stream:
        return {row["column_id"]: row for row in csv.DictReader(stream)}


def table_of(version: Version) -> FocusTable:
    lines = [*statement().lines, line("0100", kind="service_share", commitment="spot"), line("0101", kind="burst")]
    return cost_and_usage([statement(lines)], version)


CASES = [
    ("1.2", "focus_1_2_costandusage_columns.csv"),
    ("1.4", "focus_1_4_costandusage_columns.csv"),
    ("1.4 periods", "focus_1_4_billingperiod_columns.csv"),
]


def case(name: str) -> FocusTable:
    if name == "1.4 periods":
        return billing_periods([statement()])
    return table_of("1.2" if name == "1.2" else "1.4")


@pytest.mark.parametrize(("name", "file"), CASES)
def test_every_mandatory_column_is_there_and_every_other_is_one_of_the_specification_or_ours(
    shared: Path, name: str, file: str
) -> None:
    table, known = case(name), specified(shared, file)
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    assert {each for each, row in known.items() if row["feature_level"] == "Mandatory"} <= set(names)
    ours = [each for each in names if each not in known]
    assert all(re.fullmatch(r"x_[A-Z][A-Za-z0-9]*", each) for each in ours)
    assert names[len(names) - len(ours) :] == ours, "custom columns come last"


@pytest.mark.parametrize(("name", "file"), CASES)
def test_types_nulls_and_allowed_values_are_those_of_the_specification(shared: Path, name: str, file: str) -> None:
    table, known = case(name), specified(shared, file)
    for column in table.columns:
        if column.name not in known:
            continue
        rule = known[column.name]
        assert rule["data_type"] in TYPES[column.type], column.name
        cells = [row[column.name] for row in table.rows]
        assert rule["allows_nulls"] == "True" or None not in cells, f"{column.name} may not be null"
        allowed = set(filter(None, rule.get("allowed_values", "").split("|")))
        assert not allowed or {cell for cell in cells if cell is not None} <= allowed, column.name
        if rule.get("value_format", "") == "Decimal (non-negative)":
            assert all(cell is None or (not isinstance(cell, str) and cell >= 0) for cell in cells), column.name


@pytest.mark.parametrize(("name", "file"), CASES)
def test_the_file_writes_numbers_and_instants_as_the_specification_wants(shared: Path, name: str, file: str) -> None:
    table, known = case(name), specified(shared, file)
    written = list(csv.DictReader(io.StringIO(focus_csv(table).decode("utf-8"), newline="")))
    assert len(written) == len(table.rows)
    for column in table.columns:
        pattern = {"instant": INSTANT, "decimal": NUMBER}.get(column.type)
        for row in written:
            text = row[column.name]
            assert not text or pattern is None or pattern.fullmatch(text), (column.name, text)
            if column.type == "json" and text:
                value = json.loads(text)
                format_of = known.get(column.name, {}).get("value_format", "")
                if "Key-Value" in format_of:
                    assert all(not isinstance(each, dict | list) for each in value.values())


def test_a_subcategory_has_its_category(shared: Path) -> None:
    path = shared / "cases/cost/focus_1_4_service_subcategory_parents.json"
    parents = json.loads(path.read_text(encoding="utf-8"))
    for row in table_of("1.4").rows:
        assert parents[row["ServiceSubcategory"]] == row["ServiceCategory"]


def differing(rows: Sequence[Row], key: str, value: str) -> list[object]:
    """Keys that stand beside more than one value."""
    found: dict[object, set[object]] = {}
    for row in rows:
        if row[key] is not None:
            found.setdefault(row[key], set()).add(row[value])
    return [each for each, values in found.items() if len(values) > 1]


@pytest.mark.parametrize("version", ["1.2", "1.4"])
def test_a_price_has_one_sku_and_a_sku_one_meter(version: Version) -> None:
    rows = table_of(version).rows
    assert differing(rows, "SkuPriceId", "SkuId") == []
    assert differing(rows, "SkuId", "SkuMeter") == []
    assert differing(rows, "SkuPriceId", "ListUnitPrice") == []


@pytest.mark.parametrize("version", ["1.2", "1.4"])
def test_parquet_and_csv_hold_the_same(version: Version) -> None:
    table = table_of(version)
    read = pq.read_table(io.BytesIO(focus_parquet(table, version)))
    assert read.column_names == [column.name for column in COST_AND_USAGE[version]]
    assert read.schema.metadata[b"focus_version"] == version.encode()
    for column in table.columns:
        if column.type in ("decimal", "string", "json"):
            assert read[column.name].to_pylist() == [row[column.name] for row in table.rows], column.name


def test_the_same_statements_give_the_same_bytes() -> None:
    assert focus_parquet(table_of("1.4"), "1.4") == focus_parquet(table_of("1.4"), "1.4")
