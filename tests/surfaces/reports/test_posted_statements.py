"""Documents of statements that the real ledgers made: every surface comes to the same total."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from steelyard.settlement.rules import SettlementRules, TaxRule
from steelyard.settlement.statement import Statement
from steelyard.surfaces.reports.document_set import DiskFolder, DocumentSet
from tests.settlement.estate import drafts, opened
from tests.surfaces.reports.test_workbook import totals


@pytest.fixture(scope="module")
def statements(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Statement]:
    with opened(tmp_path_factory.mktemp("store")) as store:
        return drafts(store, rules=SettlementRules(taxes=(TaxRule("VAT", 60_000),)))


@pytest.mark.parametrize("tenant", ["team-a", "team-b"])
def test_every_document_comes_to_what_the_statement_asks_for(
    statements: dict[str, Statement], tenant: str, tmp_path: Path
) -> None:
    whole = statements[tenant]
    asked = Fraction(whole.amount_micro, 10**6)
    assert asked > 0
    DocumentSet().write(whole, DiskFolder(tmp_path), ["csv", "parquet", "focus"])
    summed = {
        name: sum(Fraction(row[column]) for row in csv.DictReader(io.StringIO((tmp_path / name).read_text("utf-8"))))
        for name, column in (
            ("statement.csv", "amount"),
            ("focus-1.2-cost-and-usage.csv", "BilledCost"),
            ("focus-1.4-cost-and-usage.csv", "BilledCost"),
        )
    }
    assert set(summed.values()) == {asked}
    assert json.loads((tmp_path / "manifest.json").read_text("utf-8"))["totals"]["amount_micro"] == whole.amount_micro
    assert next(value for label, value, _stored in totals(whole) if label == "Total") == asked
    ran = subprocess.run([sys.executable, tmp_path / "recompute.py"], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith(": agrees\n")
