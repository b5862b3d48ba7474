"""What is declared about money as the store holds it: versions of books and of the tree, rates, and what none of them covers.

``app.declaring`` asks it before it writes, ``app.declared_money`` when somebody looks, ``changes`` compares. The trick: a line stands once in a
version, whoever declared it how often, so rows here have no cluster and no source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from steelyard.facts.price import BookWeight, Discount, Price
from steelyard.facts.tenancy import Tenancy
from steelyard.primitives.instant import Instant
from steelyard.store import Store

LEVELS: Final = ("department", "team", "project", "cost_centre")
_TREE: Final = ("position", "by", "key", "match", *LEVELS)

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BookVersion:
    """One version of a book, and who made it."""

    book: str
    version: int
    sha256: str
    lines_count: int
    declared_by: str | None
    reason: str | None
    declared_at: Instant


@cache
def _text(stem: str) -> str:
    return (files(__package__) / f"{stem}.sql").read_text(encoding="utf-8")


def _records(store: Store, stem: str, **asked: object) -> list[Row]:
    return list(store.records(_text(stem), asked))


def book_versions(store: Store, book: str | None = None) -> list[BookVersion]:
    """All versions of a book, or of all, by book and version."""
    return [BookVersion(**row) for row in _records(store, "books") if book in (None, row["book"])]


def current_books(store: Store, book: str | None = None) -> list[BookVersion]:
    """The version that holds of each book: its highest."""
    return list({each.book: each for each in book_versions(store, book)}.values())


def book_rows(store: Store, book: str, version: int) -> dict[str, list[Row]]:
    """The lines of a version by table. Instants in microseconds; no version of that number has none."""
    return {name: _records(store, name, book=book, version=version) for name in ("prices", "discounts", "weights")}


def rows_of_book(lines: Sequence[Price | Discount | BookWeight]) -> dict[str, list[Row]]:
    """As ``book_rows``, of lines that are in no store yet."""
    found: dict[str, list[Row]] = {"prices": [], "discounts": [], "weights": []}
    for line in lines:
        row = {**msgspec.structs.asdict(line), "valid_from": line.valid_from_at, "valid_to": line.valid_to_at}
        if isinstance(line, Price):
            found["prices"].append({**row, "cluster": line.for_cluster})
        else:
            found["discounts" if isinstance(line, Discount) else "weights"].append(row)
    return found


def rows_of_tree(lines: Sequence[Tenancy]) -> list[Row]:
    """As ``tree_rows``, of lines that are in no store yet."""
    return [
        {
            **{name: getattr(line, name) for name in _TREE},
            "valid_from": line.valid_from_at,
            "valid_to": line.valid_to_at,
        }
        for line in lines
    ]


def tree_version(store: Store) -> int:
    """The version of the tree that holds; 0 where none is declared."""
    return int(_records(store, "tree_version")[0]["version"])


def tree_rows(store: Store, version: int) -> list[Row]:
    """The lines of a version of the tree, in order."""
    return _records(store, "tree", version=version)


def rate_rows(store: Store) -> list[Row]:
    """Every rate by pair and the instant from which it holds; of several for one instant the last one holds."""
    return _records(store, "rates")


def rates_declared(store: Store) -> dict[tuple[str, Instant], list[int]]:
    """(pair, from when) -> every rate that was declared for it in thousand-millionths, the one that holds last."""
    found: dict[tuple[str, Instant], list[int]] = {}
    for row in rate_rows(store):
        found.setdefault((row["pair"], row["since"]), []).append(row["rate_nano"])
    return found


def namespace_rows(store: Store, at: Instant) -> list[Row]:
    """The namespaces that were seen, with their pods, and how many of these no line of the tree maps at an instant."""
    return _records(store, "mapped", at=at)


def unpriced_rows(store: Store) -> list[Row]:
    """What the ledgers found no price for, the largest amount first."""
    return _records(store, "unpriced")
