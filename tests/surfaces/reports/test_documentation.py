"""The pages about documents name every column, source and number as it is."""

from __future__ import annotations

import re

from steelyard.settlement.focus import METHOD_ID, UNITS
from steelyard.settlement.focus_columns import (
    CONTRACTED_PRICE_SCALE,
    COST_AND_USAGE,
    QUANTITY_SCALE,
    RATIO_SCALE,
)
from steelyard.surfaces.reports.columns import COLUMNS
from steelyard.surfaces.reports.erp_profile import SOURCES
from steelyard.surfaces.reports.page_content import LINES_MAX, TEXT_MAX
from tests.conftest import REPOSITORY

DOCUMENTS = (REPOSITORY / "docs" / "documents.md").read_text(encoding="utf-8")
FOCUS = (REPOSITORY / "docs" / "focus.md").read_text(encoding="utf-8")


def test_the_page_has_every_column_in_order_with_its_kind_and_meaning() -> None:
    table = DOCUMENTS.split("| column | kind | meaning |")[1].split("\n\n")[0]
    found = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", table, flags=re.MULTILINE)
    assert found == [(column.name, column.kind, column.meaning) for column in COLUMNS]


def test_the_page_names_the_sources_that_are_no_columns() -> None:
    for source in set(SOURCES) - {column.name for column in COLUMNS}:
        assert f"`{source}`" in DOCUMENTS


def test_the_bounds_and_scales_are_those_of_the_code() -> None:
    assert f"at most {LINES_MAX:,} lines" in DOCUMENTS
    assert f"longer than {TEXT_MAX} characters" in DOCUMENTS
    assert f"PricingQuantity has {QUANTITY_SCALE} decimal places" in FOCUS
    assert f"at most {CONTRACTED_PRICE_SCALE}" in FOCUS
    assert f"with {RATIO_SCALE} places" in FOCUS
    assert f"`{METHOD_ID}`" in FOCUS
    assert all(f"`{unit}`" in FOCUS for unit in UNITS.values())


def test_every_own_column_that_the_page_names_is_one() -> None:
    ours = {column.name for columns in COST_AND_USAGE.values() for column in columns if column.name.startswith("x_")}
    assert set(re.findall(r"`(x_\w+)`", FOCUS)) <= ours
