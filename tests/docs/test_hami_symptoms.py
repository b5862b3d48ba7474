"""The page of HAMi's symptoms has every row, and the tests that it names exist."""

from __future__ import annotations

import re

from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "sources" / "hami-symptoms.md"
ROWS = {str(number) for number in range(1, 38)}


def rows() -> dict[str, str]:
    found = re.findall(r"^\| (\w+) \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {number: rest for number, rest in found if number != "row"}


def test_each_symptom_of_the_list_has_a_row_with_a_test() -> None:
    found = rows()
    assert set(found) == ROWS
    assert [number for number, rest in found.items() if "`test_" not in rest] == []


def test_the_tests_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    defined: set[str] = set()
    for path in (REPOSITORY / "tests").rglob("test_*.py"):
        defined.update(re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert named - defined == set()
