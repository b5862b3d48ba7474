"""Disputes: opened against what is closed, decided by somebody else, carried by the next statement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.primitives.errors import UsageError
from steelyard.settlement.disputes import Dispute, OpenRequest, decide, disputes, events, open_dispute
from steelyard.settlement.rules import SettlementRules, TaxRule
from steelyard.settlement.snapshot import closed_statements
from steelyard.settlement.statement import Statement
from tests.settlement.conftest import Site
from tests.settlement.estate import at, cards, closed, drafts, micro, posted, watched
from tests.settlement.test_closing import folder_of, snapshot_bytes

NOW = at("12-03")


def statement(site: Site) -> Statement:
    closed(site.store, site.directory)
    with site.store.reader() as view:
        return closed_statements(view, folder_of(site))[0]


def contested(site: Site, found: Statement, **more: object) -> Dispute:
    request = OpenRequest(found.lines[0].line_id, "the node was down", "finance-desk", at("12-20"), "ann")
    return open_dispute(site.store, found, replace(request, **more), NOW)  # type: ignore[arg-type]  # each test names fields of the request


def test_a_dispute_has_an_owner_a_deadline_and_a_trail(site: Site) -> None:
    found = contested(site, statement(site))
    assert (found.state, found.owner, found.amount_micro, found.tenant) == (
        "open",
        "finance-desk",
        micro(480),
        "team-a",
    )
    assert events(site.store, found.dispute_id) == [
        {"at": "2026-12-03T00:00:00Z", "actor": "ann", "action": "opened", "detail": "the node was down"}
    ]
    assert not found.to_json(NOW)["overdue"]
    assert found.to_json(at("12-21"))["overdue"]


def test_an_accepted_dispute_comes_back_in_the_next_period_once_and_nothing_closed_changes(site: Site) -> None:
    found = contested(site, statement(site))
    before = snapshot_bytes(folder_of(site))
    accepted = decide(site.store, found.dispute_id, "accept", -micro(100), "so it was", "bob", NOW)
    assert (accepted.state, accepted.correction_micro, accepted.corrected_in) == ("accepted", -micro(100), None)
    later = "2027-01-02T00:00:00Z"
    posted(site.store, [watched("12-02", later), *cards(later, later)], later)
    plain = drafts(site.store, "2026-12").get("team-a")
    closed(site.store, site.directory, "2026-12", now=later)
    with site.store.reader() as view:
        december = {each.tenant: each for each in closed_statements(view, folder_of(site, "2026-12"))}["team-a"]
    lines = [line for line in december.lines if line.reason == "dispute"]
    assert [(line.kind, line.amount_micro, line.reference) for line in lines] == [
        ("correction", -micro(100), f"2026-11-0001/{found.line_id}")
    ]
    assert december.amount_micro == (plain.amount_micro if plain else 0) - micro(100)
    assert december.currency == "USD"
    assert disputes(site.store)[0].corrected_in == "2026-12"
    assert snapshot_bytes(folder_of(site)) == before


def test_by_default_the_whole_line_comes_back_and_a_rejected_one_moves_nothing(site: Site) -> None:
    found = statement(site)
    first = contested(site, found)
    assert decide(site.store, first.dispute_id, "accept", None, "so it was", "bob", NOW).correction_micro == -micro(480)
    second = contested(site, found, line_id=found.lines[1].line_id)
    rejected = decide(site.store, second.dispute_id, "reject", None, "the node was up", "bob", NOW)
    assert (rejected.state, rejected.correction_micro) == ("rejected", None)
    assert [each["action"] for each in events(site.store, second.dispute_id)] == ["opened", "rejected"]


def test_whoever_opened_it_does_not_decide_it_and_nobody_decides_twice(site: Site) -> None:
    found = contested(site, statement(site))
    with pytest.raises(UsageError, match="somebody else"):
        decide(site.store, found.dispute_id, "accept", None, "mine", "ann", NOW)
    with pytest.raises(UsageError, match="say why"):
        decide(site.store, found.dispute_id, "accept", None, " ", "bob", NOW)
    decide(site.store, found.dispute_id, "reject", None, "no", "bob", NOW)
    with pytest.raises(UsageError, match="was decided"):
        decide(site.store, found.dispute_id, "accept", None, "yes", "carl", NOW)
    with pytest.raises(UsageError, match="no dispute"):
        decide(site.store, "nothing", "accept", None, "yes", "carl", NOW)


def test_what_cannot_be_contested_is_refused(site: Site) -> None:
    found = statement(site)
    contested(site, found)
    for more, said in (
        ({}, "contested already"),
        ({"line_id": "0" * 16}, "has no line"),
        ({"deadline_at": at("12-01")}, "to come"),
        ({"reason": " "}, "--reason"),
        ({"owner": "x" * 3_000}, "--owner"),
    ):
        with pytest.raises(UsageError, match=said):
            contested(site, found, **more)
    with pytest.raises(UsageError, match="draft"):
        contested(site, replace(found, number=None))
    assert len(disputes(site.store)) == 1
    assert disputes(site.store, "team-b") == []


def test_no_line_gives_back_more_than_it_asked_for_however_often_it_is_contested(site: Site) -> None:
    found = statement(site)
    first = contested(site, found)
    with pytest.raises(UsageError, match=r"the line is of 480.000000 USD, 0.000000 of it were moved before"):
        decide(site.store, first.dispute_id, "accept", -micro(480) - 1, "a slip", "bob", NOW)
    with pytest.raises(UsageError, match="cannot move by"):
        decide(site.store, first.dispute_id, "accept", 2**62 - 1, "a slip", "bob", NOW)
    assert disputes(site.store)[0].state == "open"
    decide(site.store, first.dispute_id, "accept", -micro(100), "so it was", "bob", NOW)
    second = contested(site, found)
    with pytest.raises(UsageError, match=r"-100.000000 of it were moved before"):
        decide(site.store, second.dispute_id, "accept", -micro(380) - 1, "a slip", "bob", NOW)
    assert decide(site.store, second.dispute_id, "accept", None, "the rest", "bob", NOW).correction_micro == -micro(380)
    third = contested(site, found)
    with pytest.raises(UsageError, match="nothing is left"):
        decide(site.store, third.dispute_id, "accept", None, "again", "bob", NOW)
    assert decide(site.store, third.dispute_id, "reject", None, "no", "bob", NOW).state == "rejected"


def test_a_line_without_an_amount_moves_by_what_can_be_booked(site: Site) -> None:
    found = statement(site)
    unpriced = replace(found, lines=[replace(found.lines[0], amount_micro=None), *found.lines[1:]])
    dispute = contested(site, unpriced)
    with pytest.raises(UsageError, match="beyond what can be booked"):
        decide(site.store, dispute.dispute_id, "accept", 10**15 + 1, "a slip", "bob", NOW)
    assert decide(site.store, dispute.dispute_id, "accept", -7, "so it was", "bob", NOW).correction_micro == -7


VAT = SettlementRules(
    taxes=(
        TaxRule("VAT", 60_000, valid_from_at=at("11-15"), valid_to_at=at("12-01")),
        TaxRule("VAT", 200_000, valid_from_at=at("12-01")),
    )
)


@pytest.mark.parametrize(
    ("contested_line", "given_back", "taxes"),
    [("train", 480, []), ("infer", 48, [("VAT 6 %", -2.88)]), ("VAT 6 %", 2.88, [])],
)
def test_what_is_given_back_takes_the_tax_with_it_that_was_laid_on_it(
    site: Site, contested_line: str, given_back: float, taxes: list[tuple[str, float]]
) -> None:
    closed(site.store, site.directory, rules=VAT)
    with site.store.reader() as view:
        november = closed_statements(view, folder_of(site))[0]
    line = next(each for each in november.lines if contested_line in each.description)
    dispute = contested(site, november, line_id=line.line_id)
    decide(site.store, dispute.dispute_id, "accept", None, "so it was", "bob", NOW)
    later = "2027-01-02T00:00:00Z"
    posted(site.store, [watched("12-02", later), *cards(later, later)], later)
    closed(site.store, site.directory, "2026-12", VAT, later)
    with site.store.reader() as view:
        december = {each.tenant: each for each in closed_statements(view, folder_of(site, "2026-12"))}["team-a"]
    back = next(each for each in december.lines if each.kind == "correction")
    assert (back.amount_micro, back.started_at, back.ended_at) == (-micro(given_back), line.started_at, line.ended_at)
    found = [(each.description, each.amount_micro) for each in december.lines if each.kind == "tax"]
    assert found == [(name, micro(amount)) for name, amount in taxes]
    assert disputes(site.store)[0].corrected_in == "2026-12"
