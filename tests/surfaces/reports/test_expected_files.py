"""One expected file per surface: what a reader of each document sees of one statement with every kind of line.

``STEELYARD_RENEW=1`` writes them anew; the difference is to be read before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steelyard.settlement.focus import billing_periods, cost_and_usage
from steelyard.surfaces.reports.delimited import statement_csv
from steelyard.surfaces.reports.document_set import manifest_bytes
from steelyard.surfaces.reports.focus_files import focus_csv
from tests.settlement.statements import statement

EXPECTED = Path(__file__).parent / "expected"
FILES = {
    "statement.csv": lambda: statement_csv(statement()),
    "focus-1.2-cost-and-usage.csv": lambda: focus_csv(cost_and_usage([statement()], "1.2")),
    "focus-1.4-cost-and-usage.csv": lambda: focus_csv(cost_and_usage([statement()], "1.4")),
    "focus-1.4-billing-period.csv": lambda: focus_csv(billing_periods([statement()])),
    "manifest.json": lambda: manifest_bytes(statement(), {}),
}


@pytest.mark.parametrize("name", FILES)
def test_what_the_file_says(name: str) -> None:
    written = FILES[name]()
    path = EXPECTED / name
    if os.environ.get("STEELYARD_RENEW"):
        path.write_bytes(written)
    assert written == path.read_bytes()
