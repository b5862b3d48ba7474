"""Declared money over a server's socket: what is sent, and that what comes back is what was said."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from steelyard.answers.contract import Column, Table
from steelyard.primitives.errors import SourceUnsupported
from steelyard.primitives.instant import parse_instant
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.shared.money_client import RemoteMoney, declare_report_of, listing_of
from steelyard.surfaces.shared.money_ports import DeclareReport, DeclareRequest, Listing
from steelyard.surfaces.shared.money_text import render_declaration, render_listing

CHANGES = Table("changes", [Column("change"), Column("change_percent", "%")], [["changed", 10.0], ["added", None]])
REPORT = DeclareReport("price_book", "declared", "list", 2, 7, "ann", "why", CHANGES, 12)
LISTING = Listing(
    "prices", [Table("t", [Column("price"), Column("gpu_hours", "GPU-h")], [["2.50", Unknown("why")]])], ["a note"]
)


class FakeClient:
    """Keeps what is asked, answers what it is given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def get(self, path: str, parameters: Any = ()) -> Any:
        self.asked.append((path, list(parameters)))
        return self.answer

    def post(self, path: str, parameters: Any = (), **sent: Any) -> Any:
        self.asked.append((path, list(parameters), sent["content"]))
        return self.answer


def test_a_report_and_a_listing_come_back_as_they_went():
    assert declare_report_of(REPORT.to_json()) == REPORT
    assert listing_of(LISTING.to_json()) == LISTING


def test_a_file_is_sent_as_it_is_with_what_is_said_of_it():
    client = FakeClient(REPORT.to_json())
    request = DeclareRequest("price_book", b"bytes", "p.csv", "list", "why", dry_run=True, declared_by="mallory")
    assert RemoteMoney(client).declare(request) == REPORT  # type: ignore[arg-type]
    assert client.asked == [
        ("/prices", [("name", "p.csv"), ("book", "list"), ("reason", "why"), ("dry_run", "true")], b"bytes")
    ]


def test_every_question_has_its_route():
    client = FakeClient(LISTING.to_json())
    money = RemoteMoney(client)  # type: ignore[arg-type]
    at = parse_instant("2026-01-01T00:00:00Z")
    for found in (
        money.prices(at, "list"),
        money.price_changes(1, None, None),
        money.unpriced(),
        money.tree(None),
        money.unmapped(),
        money.rates(at),
    ):
        assert found == LISTING
    assert client.asked == [
        ("/prices", [("book", "list"), ("at", "2026-01-01T00:00:00Z")]), ("/prices/diff", [("older", "1")]),
        ("/prices/unpriced", []), ("/tenancy", []),         ("/tenancy/check", []), ("/rates", [("at", "2026-01-01T00:00:00Z")]),
    ]  # fmt: skip


@pytest.mark.parametrize("found", [None, [], {}, {"title": 1}, {"changes": {}}, {"changes": None}])
def test_a_server_of_another_version_is_said(found):
    for read in (declare_report_of, listing_of):
        with pytest.raises(SourceUnsupported):
            read(found)


def test_no_text_of_a_file_reaches_a_terminal_as_it_is():
    evil = "\x1b[31m\u202e"
    report = DeclareReport(
        "price_book", "declared", evil, 1, 1, evil, evil, Table("changes", [Column("name")], [[evil]])
    )
    listing = Listing(evil, [Table("t", [Column("name")], [[evil]])], [evil])
    for lines in (render_declaration(report, 80), render_declaration(report, None), render_listing(listing, 80)):
        assert not any("\x1b" in line.text or "\u202e" in line.text for line in lines)


def test_a_change_in_percent_is_a_number_on_the_wire():
    table = Table("changes", [Column("change_percent", "%")], [[Fraction(1, 3)]])
    assert table.to_json()["rows"] == [[1 / 3]]
