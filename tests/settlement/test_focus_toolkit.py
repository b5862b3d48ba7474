"""FOCUS 1.4 as ``focus-toolkit`` (PyPI: focus-data-toolkit) judges it, where it is found: on the PATH, or beside STEELYARD_FOCUS_PYTHON."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from steelyard.settlement.focus import billing_periods, cost_and_usage
from steelyard.surfaces.reports.focus_files import focus_csv
from tests.settlement.statements import statement


@pytest.fixture(scope="module")
def toolkit() -> str:
    beside = Path(os.environ.get("STEELYARD_FOCUS_PYTHON", "")).parent
    found = shutil.which("focus-toolkit", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip("no focus-toolkit on the PATH or beside the interpreter that STEELYARD_FOCUS_PYTHON names")
    return found


def judged(*call: str | Path) -> str:
    ran = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    return ran.stdout + ran.stderr


def test_both_data_sets_of_1_4_are_accepted_each_and_together(toolkit: str, tmp_path: Path) -> None:
    costs, periods = tmp_path / "costs.csv", tmp_path / "periods.csv"
    costs.write_bytes(focus_csv(cost_and_usage([statement()], "1.4")))
    periods.write_bytes(focus_csv(billing_periods([statement()])))
    for file, dataset in ((costs, "cost-and-usage"), (periods, "billing-period")):
        assert "lint OK" in judged(toolkit, "validate", "--dataset", dataset, file)
    together = judged(toolkit, "validate-bundle", "--cost-and-usage", costs, "--billing-period", periods)
    assert "bundle validation: OK" in together


def test_it_sees_what_is_wrong(toolkit: str, tmp_path: Path) -> None:
    table = cost_and_usage([statement()], "1.4")
    table.rows[0]["ChargeCategory"] = "Use"
    (tmp_path / "costs.csv").write_bytes(focus_csv(table))
    assert "lint OK" not in judged(toolkit, "validate", "--dataset", "cost-and-usage", tmp_path / "costs.csv")
