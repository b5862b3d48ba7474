"""What is declared about money, and a month of it, as a person has read them line by line.

To renew after a wanted change: ``STEELYARD_RENEW=1 pytest tests/surfaces/test_money_golden.py``, then read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from steelyard.app.declared_money import Listed
from steelyard.app.declaring import Declaring
from steelyard.app.settings import Settings
from steelyard.app.settlement_views import Style, Views
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.i18n import speaking
from steelyard.settlement.rules import CreditRule, SettlementRules, TaxRule
from steelyard.store import Store
from steelyard.surfaces.reports.document_set import DocumentSet
from steelyard.surfaces.shared.money_ports import DeclareRequest, Listing
from steelyard.surfaces.shared.money_text import render_listing
from steelyard.surfaces.shared.printable import json_text
from steelyard.surfaces.shared.settlement_ports import Look
from steelyard.surfaces.shared.settlement_text import render_bill, render_close, render_listed
from steelyard.surfaces.shared.tables import Line
from tests.settlement.estate import at, book, cards, closed, discount, micro, opened, pod, posted, story, watched

EXPECTED = Path(__file__).parent / "expected"
RULES = SettlementRules(taxes=(TaxRule("VAT", 60_000),), credits=(CreditRule("sla", 500_000),), idle_sharing="even")
NEXT = "2027-01-02T00:00:00Z"
BOOK = """table,side,component,model,tenant,currency,price,per,valid_from,valid_to,weight,discount_percent
prices,charge,,L40S,,USD,{price},hour,,,,
prices,charge,,H100,,USD,3.40,hour,2026-11-10,2027-06-01,,
prices,cost,amortisation,,,USD,6500.00,year,,,,
prices,cost,power,,,USD,,month,,,,
discounts,,,,team-b,,,,,,,12.5
weights,,,L40S,,,,,,,0.4,
"""
TREE = "by,match,department,team,project,cost_centre,valid_from,valid_to\nnamespace,team-a,research,vision,seg,CC-1,,2026-11-16\n"
RATES = "base_currency,quote_currency,rate,valid_from\nUSD,CNY,7.1025,2026-01-01\nUSD,CNY,7.2,2026-11-20\nEUR,USD,1.0842,2026-11-01\n"


@pytest.fixture(scope="module")
def declared() -> Store:
    """A month with two versions of a book, a tree that maps one namespace of two, and dated rates."""
    store = Store.open_memory()
    posted(
        store,
        [watched(), *cards(), *pod("team-a/train", "11-01", "11-11"), *pod("team-b/lab", "11-01", None, "GPU-b", 256)],
    )
    files = (
        ("price_book", BOOK.format(price="1.30"), "first list"), ("price_book", BOOK.format(price="1.45"), "dearer"),
        ("tenancy", TREE, None), ("exchange_rates", RATES, None),
    )  # fmt: skip
    for kind, text, reason in files:
        posting = Declaring(store, Settings(), lambda opened: posted(opened, []) or 0, FixedClock(at("12-03")))  # type: ignore[func-returns-value]
        posting.declare(DeclareRequest(kind, text.encode(), "x.csv", reason=reason, declared_by="ann"))  # type: ignore[arg-type]
    return store


LISTED: Mapping[str, Callable[[Listed], Listing]] = {
    "prices_list": lambda money: money.prices(None, None),
    "prices_diff": lambda money: money.price_changes(None, None, None),
    "prices_unpriced": lambda money: money.unpriced(),
    "tenancy_show": lambda money: money.tree(at("11-15")),
    "tenancy_check": lambda money: money.unmapped(),
    "rates_list": lambda money: money.rates(at("11-19")),
}


def agrees(name: str, found: str) -> None:
    path = EXPECTED / name
    if os.environ.get("STEELYARD_RENEW"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def text(lines: Sequence[Line]) -> str:
    return "".join(f"{line.text}\n" for line in lines)


@pytest.mark.parametrize("code", ["en", "zh"])
@pytest.mark.parametrize("name", LISTED)
def test_what_is_declared_is_said_as_it_was_read(declared: Store, name: str, code: str) -> None:
    with speaking(code):
        listing = LISTED[name](Listed(declared, FixedClock(at("12-03"))))
        agrees(f"{name}_{code}.txt", text(render_listing(listing, 80)))


def test_what_is_declared_has_one_json_form(declared: Store) -> None:
    money = Listed(declared, FixedClock(at("12-03")))
    with speaking("en"):
        agrees("declared_money.json", json_text({name: ask(money).to_json() for name, ask in LISTED.items()}) + "\n")


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    """November closed with a tax, then a late pod and a dearer book; December is over, and unpriced since the cards have another model."""
    directory = tmp_path_factory.mktemp("settled")
    store = opened(directory, story())
    closed(store, directory, rules=RULES)
    december = [watched("12-02", NEXT), *cards(NEXT, NEXT)]
    late = pod("team-a/late", "11-15", "11-16", "GPU-a")
    posted(store, [*december, *late, *book(2, charge=micro(3)), discount("team-b", 100_000, 2)], NEXT)
    return store, directory


LOOKS: Mapping[str, tuple[Look, Callable[..., list[Line]]]] = {
    "periods": (Look("periods"), render_listed),
    "bill_of_all": (Look("statements", "2026-11"), render_bill),
    "bill_of_one": (Look("statements", "2026-11", "team-a"), render_bill),
    "close_dry_run": (Look("close", "2026-12"), render_close),
    "restate": (Look("restatement", "2026-11"), render_listed),
    "control": (Look("control", "2026-11"), render_listed),
}


def looked(settled: tuple[Store, Path], look: Look) -> dict[str, Any]:
    store, directory = settled
    with store.reader() as view:
        style = Style("", lambda _style: DocumentSet())
        return Views(view, directory, RULES, style, at(NEXT)).look(look)


@pytest.mark.parametrize("code", ["en", "zh"])
@pytest.mark.parametrize("name", LOOKS)
def test_a_month_is_said_as_it_was_read(settled: tuple[Store, Path], name: str, code: str) -> None:
    look, render = LOOKS[name]
    with speaking(code):
        agrees(f"{name}_{code}.txt", text(render(looked(settled, look), 100, None)))


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("name", LOOKS)
def test_no_line_of_a_month_is_wider_than_the_terminal(settled: tuple[Store, Path], name: str, width: int) -> None:
    look, render = LOOKS[name]
    found = render(looked(settled, look), width, None)
    assert [line.text for line in found if cell_len(line.text) > width] == []
