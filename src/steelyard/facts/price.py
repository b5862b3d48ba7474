"""Price books: what a card-hour costs us and what it is charged at, as somebody declared it, version by version."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class PriceBook(Fact, frozen=True, kw_only=True):
    """One version of a price book: a whole book, which takes the place of the version before. natural_key: ``<book>@<version>``.

    version: counts from 1 within a book. sha256: of the file it came from. lines_count: of all tables of this version. declared_by: who imported it
    (a token's name, or the user of the machine), None = not told. reason: in their words.
    """

    TABLE: ClassVar[str] = "price_book"

    book: str
    version: int
    sha256: str
    lines_count: int
    declared_by: str | None = None
    reason: str | None = None


class Price(Fact, frozen=True, kw_only=True):
    """One line of a version. natural_key: ``<book>@<version>/<price_id>``.

    price_id: names the line over all versions (a SKU price). side: ``cost`` (what it costs us) or ``charge`` (what is asked for). component: what
    of a card it pays for (``card``, ``amortisation``, ``power``, ``rack``, ``cloud`` ...); the components of one side add up. for_cluster, model,
    unit_kind, commitment, tenant: what it holds for, None = any; model: words that all occur in the card's model; unit_kind as in ``unit``;
    commitment: ``on_demand``, ``reserved`` or ``spot``; tenant: agreed with one tenant, ``charge`` alone. price_micro: millionths of
    ``currency`` for one whole card and one ``per`` (``hour``, ``day``, ``month``, ``year``), None = stated as not known: what it would price is
    unpriced. provisional: expected to be replaced, so what it prices is marked.
    """

    TABLE: ClassVar[str] = "price"

    book: str
    version: int
    price_id: str
    side: str
    component: str = "card"
    for_cluster: str | None = None
    model: str | None = None
    unit_kind: str | None = None
    commitment: str | None = None
    tenant: str | None = None
    currency: str
    price_micro: int | None
    per: str = "hour"
    valid_from_at: Instant | None = None
    valid_to_at: Instant | None = None
    provisional: bool = False


class Discount(Fact, frozen=True, kw_only=True):
    """What a tenant pays less than the charge side's price, from ``valid_from_at`` to ``valid_to_at``. natural_key:
    ``<book>@<version>/<tenant>/<n>``.

    discount_ppm: parts per million of the price, 0 to 1,000,000. model, commitment: None = any.
    """

    TABLE: ClassVar[str] = "discount"

    book: str
    version: int
    tenant: str
    discount_ppm: int
    model: str | None = None
    commitment: str | None = None
    valid_from_at: Instant | None = None
    valid_to_at: Instant | None = None


class BookWeight(Fact, frozen=True, kw_only=True):
    """The weight of a model in a normalised GPU-hour, in parts per million of the reference model. natural_key: ``<book>@<version>/<model>/<n>``."""

    TABLE: ClassVar[str] = "book_weight"

    book: str
    version: int
    model: str
    weight_ppm: int
    valid_from_at: Instant | None = None
    valid_to_at: Instant | None = None
