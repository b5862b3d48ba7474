"""The page on a site's own lists shows files that the readers take."""

from __future__ import annotations

import re

from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.site_csv import read_holdings, read_inventory, sniff_site_csv
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "site-lists.md").read_text(encoding="utf-8")


def test_the_examples_are_recognised_and_read_without_a_finding():
    inventory, holdings = re.findall(r"```csv\n(.*?)```", PAGE, re.DOTALL)
    kinds = [sniff_site_csv(tuple(text.splitlines()[0].split(","))) for text in (inventory, holdings)]
    assert kinds == ["inventory", "holdings"]
    facts = [*read_inventory(inventory, ReadContext()), *read_holdings(holdings, ReadContext())]
    assert not [fact for fact in facts if isinstance(fact, Finding)]
    assert [type(fact) for fact in facts if isinstance(fact, InventoryBasis | Grant)] == [InventoryBasis, Grant]


def test_every_finding_of_the_page_exists_in_the_code():
    code = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("sources/site_csv", "ledgers")
        for path in (REPOSITORY / "src" / "steelyard" / folder).iterdir()
        if path.suffix in (".py", ".sql")
    )
    named = set(re.findall(r"`((?:asset|card|holding)_\w+)`", PAGE))
    assert len(named) == 7
    assert {name for name in named if name not in code} == set()
