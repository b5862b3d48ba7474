"""From a line down to what it is made of, for every kind of line."""

from __future__ import annotations

from typing import Any

from steelyard.settlement.assembly import Sheet, statements
from steelyard.settlement.drilling import Found, Ground, drilled, find_line, line_facts
from steelyard.settlement.rules import PPM, SettlementRules, TaxRule
from steelyard.settlement.snapshot import closed_statements
from steelyard.settlement.tables import lay_out_ledgers
from steelyard.store import Store
from tests.settlement.conftest import Site
from tests.settlement.estate import at, book, cards, closed, discount, micro, posted, watched
from tests.settlement.test_closing import folder_of
from tests.settlement.test_control import rows
from tests.settlement.test_drafts import serving, used


def test_a_line_opens_into_intervals_and_grains(site: Site) -> None:
    rules = SettlementRules()
    closed(site.store, site.directory)
    with site.store.reader() as view:
        found = closed_statements(view, folder_of(site))
        line = find_line(found, found[1].lines[0].line_id)
        assert line is not None
        intervals, grains = drilled(Ground(view, rules), line)
    assert [(row["started_at"], row["ended_at"], row["share_ppm"]) for row in rows(intervals)] == [
        ("2026-11-01T00:00:00Z", None, 250_000)
    ]
    assert len(grains.rows) == 720
    assert sum(row["charge_micro"] for row in rows(grains)) == line.line.amount_micro
    assert ("pod", "lab") in [tuple(row) for row in line_facts(line).rows]
    assert find_line(found, "0" * 16) is None


def test_tax_opens_into_the_lines_that_it_was_laid_on(site: Site) -> None:
    rules = SettlementRules(taxes=(TaxRule("VAT", 100_000), TaxRule("old", 1, valid_to_at=at("10-01"))))
    with site.store.reader() as view:
        lay_out_ledgers(view, rules.periods, "2026-11")
        (first, _second) = statements(view, rules, Sheet("2026-11", at("12-02")))
        tax = next(line for line in first.lines if line.kind == "tax")
        (laid,) = drilled(Ground(view, rules), Found(first, tax))
    assert {row["line_id"] for row in rows(laid)} == {line.line_id for line in first.lines if line.kind == "usage"}
    assert tax.amount_micro is not None
    assert sum(row["amount_micro"] for row in rows(laid)) == tax.amount_micro * 10


def test_a_correction_opens_into_what_was_closed_and_what_the_ledger_says_now(site: Site) -> None:
    closed(site.store, site.directory)
    december = [watched("12-02", "2027-01-02T00:00:00Z"), *cards("2027-01-02T00:00:00Z", "2027-01-02T00:00:00Z")]
    facts = [*book(2, charge=micro(3)), discount("team-b", 100_000, 2), *december]
    posted(site.store, facts, "2027-01-02T00:00:00Z")
    closed(site.store, site.directory, "2026-12", now="2027-01-02T00:00:00Z")
    with site.store.reader() as view:
        found = closed_statements(view, folder_of(site, "2026-12"))
        (lab,) = [
            Found(each, line)
            for each in found
            for line in each.lines
            if line.kind == "correction" and line.pod == "lab"
        ]
        (grains,) = drilled(Ground(view, SettlementRules(), lambda _at: folder_of(site)), lab)
        assert drilled(Ground(view, SettlementRules()), lab) == []
    sums = {side: sum(row["charge_micro"] for row in rows(grains) if row["side"] == side) for side in ("closed", "now")}
    assert sums == {"closed": micro(324), "now": micro(486)}
    assert lab.line.amount_micro == micro(162)


def test_a_share_in_a_service_opens_into_tokens_and_shows_a_caller_no_other_caller() -> None:
    rules = SettlementRules()
    with Store.open_memory() as store:
        posted(store, [*serving(), used("team-b", 1_000, 100), used("team-c", 300, 0), used(None, 7, 7)])
        store.execute("UPDATE dim.pod SET workload_name = 'chat' WHERE pod_uid = 'chat-1'")
        opened: dict[str, list[list[Any]]] = {}
        with store.reader() as view:
            lay_out_ledgers(view, rules.periods, "2026-11")
            for each in statements(view, rules, Sheet("2026-11", at("12-02"))):
                shares = [line for line in each.lines if line.kind == "service_share"]
                opened[each.tenant] = [list(drilled(Ground(view, rules), Found(each, line))[0].rows) for line in shares]
    whole = [("team-b", 0, 1_400 * PPM), ("team-c", 0, 300 * PPM), (None, 0, 35 * PPM)]
    assert opened["team-a"] == [whole, whole]
    assert opened["team-b"] == [[("(others)", 0, 335 * PPM), ("team-b", 0, 1_400 * PPM)]]
    assert opened["team-c"] == [[("(others)", 0, 1_435 * PPM), ("team-c", 0, 300 * PPM)]]
