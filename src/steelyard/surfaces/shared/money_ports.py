"""What a surface may ask about declared money: price books, the tenancy tree, exchange rates.

``app.declared_money`` implements ``Money``; the plain values here have one JSON form, which the server sends and ``--json`` prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from steelyard.answers.contract import Table
from steelyard.primitives.instant import Instant

DeclaredKind = Literal["price_book", "tenancy", "exchange_rates"]
DECLARED_KINDS: Final[tuple[DeclaredKind, ...]] = ("price_book", "tenancy", "exchange_rates")
"""Kinds of file that state what shall hold: whoever imports one is recorded, and needs the role finance or admin."""

PATHS: Final[dict[DeclaredKind, str]] = {"price_book": "/prices", "tenancy": "/tenancy", "exchange_rates": "/rates"}


@dataclass(frozen=True, slots=True)
class DeclareRequest:
    """A declared file: its bytes and what it is called. ``book``: which price book, None = what the file says, else ``default``. ``dry_run``: only
    say what would change. ``declared_by``: who does it, None = the user of this machine."""

    kind: DeclaredKind
    content: bytes
    name: str
    book: str | None = None
    reason: str | None = None
    dry_run: bool = False
    declared_by: str | None = None


@dataclass(frozen=True, slots=True)
class DeclareReport:
    """What became of a declaration. ``status``: ``declared``, ``unchanged`` (it holds already) or ``dry_run``. ``version``: the one that is made, or
    that holds; None for rates, which have none. ``changes``: against the version before."""

    kind: str
    status: str
    book: str | None
    version: int | None
    lines_count: int
    declared_by: str | None
    reason: str | None
    changes: Table
    postings_count: int = 0

    def to_json(self) -> dict[str, Any]:
        """The documented JSON form."""
        return {
            "kind": self.kind,
            "status": self.status,
            "book": self.book,
            "version": self.version,
            "lines_count": self.lines_count,
            "declared_by": self.declared_by,
            "reason": self.reason,
            "changes": self.changes.to_json(),
            "postings_count": self.postings_count,
        }


@dataclass(frozen=True, slots=True)
class Listing:
    """Tables about what is declared, with notes for people below them."""

    title: str
    tables: Sequence[Table]
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The documented JSON form."""
        return {
            "title": self.title,
            "tables": [table.to_json() for table in self.tables],
            "notes": list(self.notes),
        }


class Money(Protocol):
    """What is declared about money in one data directory."""

    def declare(self, request: DeclareRequest) -> DeclareReport:
        """Take a file in, whole or not at all, and post the ledgers. Raises SourceMalformed where anything in it is refused."""
        ...

    def prices(self, at: Instant | None, book: str | None) -> Listing:
        """The lines that hold at an instant (None = the last one that the ledgers know), of one book or all.

        Raises UsageError for a book that is none."""
        ...

    def price_changes(self, older: int | None, newer: int | None, book: str | None) -> Listing:
        """What a version changed against another; None = the last one, and the one before it. Raises UsageError for versions that are none."""
        ...

    def unpriced(self) -> Listing:
        """What no line prices, and why."""
        ...

    def tree(self, at: Instant | None) -> Listing:
        """The lines of the tenancy tree that hold at an instant (None = as of ``prices``), in their order."""
        ...

    def unmapped(self) -> Listing:
        """The namespaces that were seen, and whether a line of the tree maps them."""
        ...

    def rates(self, at: Instant | None) -> Listing:
        """The exchange rates that hold at an instant (None = as of ``prices``)."""
        ...
