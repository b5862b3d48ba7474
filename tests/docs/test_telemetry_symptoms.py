"""The page of symptoms of telemetry has every row, and the tests that it names exist."""

from __future__ import annotations

import re

from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "sources" / "telemetry-symptoms.md"


def test_each_symptom_of_the_list_has_a_row_with_a_test_of_its_number() -> None:
    found = dict(re.findall(r"^\| (\d+) \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert list(found) == [str(number) for number in range(1, 35)]
    assert [number for number, rest in found.items() if f"`test_row_{int(number):02d}_" not in rest] == []


def test_the_tests_that_the_page_names_are_there_and_the_page_names_all_of_them() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    defined: set[str] = set()
    of_rows: set[str] = set()
    for path in (REPOSITORY / "tests").rglob("test_*.py"):
        found = set(re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
        defined |= found
        if path.name.startswith("test_user_pain_"):
            of_rows |= {name for name in found if name.startswith("test_row_")}
    assert named - defined == set()
    assert of_rows - named == set()
