"""FOCUS 1.2 as the FinOps validator judges it, where a Python 3.12 that has it is found.

``STEELYARD_FOCUS_PYTHON`` names that interpreter; else ``python3.12`` and later ones of the PATH are asked.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from steelyard.settlement.focus import FocusTable, FocusTerms, cost_and_usage
from steelyard.settlement.statement import StatementLine
from steelyard.surfaces.reports.focus_files import focus_csv, focus_parquet
from tests.settlement.statements import every_kind, line, statement

CRITERIA = (
    "ACCOUNT_NAMING_SUPPORTED", "AVAILABILITY_ZONE_SUPPORTED", "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED",
    "MULTIPLE_PRICING_CATEGORIES_SUPPORTED", "MULTIPLE_SUB_ACCOUNT_TYPES_SUPPORTED", "NEGOTIATED_PRICING_SUPPORTED",
    "PUBLIC_PRICE_LIST_SUPPORTED", "REGION_SUPPORTED", "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED", "SUB_ACCOUNT_SUPPORTED",
    "TAGGING_SUPPORTED", "UNIT_PRICING_SUPPORTED", "USAGE_MEASUREMENT_SUPPORTED",
)  # fmt: skip
KNOWN = {"InvoiceId-C-004-C", "InvoiceId-C-005-C"}
"""The rules' file wants InvoiceId to be null and not to be null at once; with an invoice the first fails, without one the second."""
CAPACITY = {f"CapacityReservationStatus-C-00{n}-C" for n in (0, 2, 3, 4)}
"""Where reservations are declared, the rules' file states the condition of C-003 and C-004 in a form that the validator passes over."""
_WHERE = "import focus_validator, pathlib; print(pathlib.Path(focus_validator.__file__).parents[1])"


def site_packages(python: str) -> Path | None:
    """Where an interpreter keeps the validator, None where it has none: the validator opens files of its own relative to there."""
    asked = subprocess.run([python, "-c", _WHERE], capture_output=True, text=True, timeout=60, check=False)
    return Path(asked.stdout.strip()) if asked.returncode == 0 else None


@pytest.fixture(scope="module")
def validator() -> tuple[Path, Path]:
    named = os.environ.get("STEELYARD_FOCUS_PYTHON")
    found = [named] if named else [shutil.which(f"python3.{minor}") for minor in (12, 13, 14)]
    for python in filter(None, found):
        packages = site_packages(python)
        if packages is not None:
            return Path(python), packages
    if named:
        pytest.fail(f"STEELYARD_FOCUS_PYTHON names {named}, which has no focus-validator")
    pytest.skip("no Python 3.12 or later with focus-validator on the PATH; name one with STEELYARD_FOCUS_PYTHON")


def failures(validator: tuple[Path, Path], file: Path, criteria: Sequence[str] = CRITERIA) -> set[str]:
    """Ids of the failed rules. The validator exits with 0 whatever it finds, so its words are read, and its count must agree."""
    python, packages = validator
    call = [python, "-m", "focus_validator.main", "--data-file", file, "--validate-version", "1.2", "--block-download",
            "--focus-dataset", "CostAndUsage", "--show-violations", "--applicability-criteria", ",".join(criteria)]  # fmt: skip
    ran = subprocess.run(call, cwd=packages, capture_output=True, text=True, timeout=300, check=False)
    total = re.search(r"Total: (\d+) \| Pass: (\d+) \| Fail: (\d+)", ran.stdout)
    assert total is not None, ran.stdout + ran.stderr
    assert int(total[2]) > 250, "the rules were judged"
    failed = set(re.findall(r"^\S+ ([A-Za-z]+-[A-Z]-\d+-[A-Z]): FAIL", ran.stdout, flags=re.MULTILINE))
    assert len(failed) == int(total[3])
    return failed


def rows(lines: Sequence[StatementLine] | None = None) -> FocusTable:
    return cost_and_usage([statement(lines)], "1.2", FocusTerms(region_id="dc-1", region_name="DC 1"))


def test_our_csv_fails_nothing_but_the_contradictory_pair(validator: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "focus.csv"
    file.write_bytes(focus_csv(rows()))
    assert failures(validator, file) == {"InvoiceId-C-004-C"}


def test_our_parquet_fails_nothing_but_the_contradictory_pair(validator: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "focus.parquet"
    file.write_bytes(focus_parquet(rows(), "1.2"))
    assert failures(validator, file) <= KNOWN


def test_with_reservations_declared_no_other_rule_fails_than_those_stated_without_their_condition(
    validator: tuple[Path, Path], tmp_path: Path
) -> None:
    file = tmp_path / "focus.csv"
    with_reservations = (*CRITERIA, "CAPACITY_RESERVATION_SUPPORTED")
    file.write_bytes(focus_csv(rows()))
    assert failures(validator, file, with_reservations) <= KNOWN | CAPACITY
    file.write_bytes(focus_csv(rows([each for each in every_kind() if each.kind == "reserved_unused"])))
    assert failures(validator, file, with_reservations) <= KNOWN | CAPACITY


def test_the_validator_sees_what_is_wrong(validator: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "focus.csv"
    table = rows([line("1")])
    table.rows[0]["PricingUnit"] = "GPU-hrs"
    table.rows[0]["ChargeCategory"] = "Use"
    file.write_bytes(focus_csv(table))
    assert {"PricingUnit-C-003-O", "ChargeCategory-C-003-M"} <= failures(validator, file)
