"""What is declared about money, as people look at it: the prices that hold, the tree, the rates, and what none of them covers.

``StoreMoney`` answers over an open store; ``DirectoryMoney`` opens it, or asks the server that holds it. The trick to know: nothing here decides
a price. Which line counts for a card is the ledgers' business, so what is unpriced is read from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.app.declaring import BOOK_DEFAULT
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import HOUR_US, Instant, format_instant
from steelyard.primitives.unknown import Unknown
from steelyard.settlement.declared import rows as declared
from steelyard.settlement.declared.changes import changes_of_books, decimal_text, percent_text, stamp
from steelyard.settlement.declared.rows import LEVELS, Row
from steelyard.settlement.tables import model_text
from steelyard.store import Store
from steelyard.surfaces.shared.money_ports import Listing

_PRICES: Final = tuple(
    Column(name)
    for name in (
        "side", "component", "model", "unit_kind", "commitment", "tenant", "cluster", "price", "currency", "per", "provisional", "valid_from",
        "valid_to", "book", "version", "price_id",
    )
)  # fmt: skip
_DISCOUNTS: Final = (
    Column("tenant"),
    Column("discount", "%"),
    *(Column(name) for name in ("model", "commitment", "valid_from", "valid_to", "book", "version")),
)
_WEIGHTS: Final = tuple(Column(name) for name in ("model", "weight", "valid_from", "valid_to", "book", "version"))
_BOOKS: Final = tuple(Column(name) for name in ("book", "version", "lines", "declared_at", "declared_by", "reason"))

_TREE_NAMES: Final = ("by", "key", "match", *LEVELS)
_TREE: Final = tuple(Column(name) for name in (*_TREE_NAMES, "valid_from", "valid_to", "position"))
_RATES: Final = tuple(Column(name) for name in ("base_currency", "quote_currency", "rate", "since", "declared_by"))
_UNMAPPED: Final = (
    Column("cluster"),
    Column("namespace"),
    Column("pods", "1"),
    Column("pods_unmapped", "1"),
    Column("tenants"),
)
_UNPRICED: Final = (
    Column("side"),
    Column("cluster"),
    Column("model"),
    Column("tenant"),
    Column("reason"),
    Column("cards", "1"),
    Column("gpu_hours", "GPU-h"),
    Column("first_grain_at"),
    Column("last_grain_at"),
)


class Listed:
    """Tables over an open store; where no instant is named, as of the last one that the ledgers know, and of the clock's now before any posting."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def _instant(self, at: Instant | None) -> Instant:
        if at is not None:
            return at
        rows = self._store.rows(model_text("last_run"))
        return self._clock.now() if not rows or rows[0][3] is None else int(rows[0][3])

    def prices(self, at: Instant | None, book: str | None) -> Listing:
        """The lines that hold; see ``Money``."""
        instant = self._instant(at)
        versions = declared.current_books(self._store, book)
        if book is not None and not versions:
            raise UsageError(_("there is no price book {book}").format(book=book[:100]))
        prices, discounts, weights = [], [], []
        for each in versions:
            rows = declared.book_rows(self._store, each.book, each.version)
            prices += [_price(row) for row in rows["prices"] if _holds(row, instant)]
            discounts += [_discount(row) for row in rows["discounts"] if _holds(row, instant)]
            weights += [_weight(row) for row in rows["weights"] if _holds(row, instant)]
        books = [
            (each.book, each.version, each.lines_count, format_instant(each.declared_at), each.declared_by, each.reason)
            for each in versions
        ]
        tables = [Table(_("prices of one whole card"), _PRICES, sorted(prices, key=_order))]
        if discounts:
            tables.append(Table(_("discounts"), _DISCOUNTS, discounts))
        if weights:
            tables.append(Table(_("weights of a normalised GPU-hour"), _WEIGHTS, weights))
        tables.append(Table(_("price books"), _BOOKS, books))
        notes = [] if versions else [_("no price book is declared: `steelyard prices import FILE`")]
        return Listing(_("prices that hold at {instant}").format(instant=format_instant(instant)), tables, notes)

    def price_changes(self, older: int | None, newer: int | None, book: str | None) -> Listing:
        """What a version changed; see ``Money``. Before the first version there was nothing."""
        name = BOOK_DEFAULT if book is None else book
        known = [each.version for each in declared.book_versions(self._store, name)]
        if not known:
            raise UsageError(_("there is no price book {book}").format(book=name[:100]))
        last = known[-1] if newer is None else newer
        first = last - 1 if older is None else older
        for version in (last, first):
            if version and version not in known:
                raise UsageError(
                    _("book {book} has the versions 1 to {last}; found {version}").format(
                        book=name[:100], last=known[-1], version=version
                    )
                )
        rows = [declared.book_rows(self._store, name, version) for version in (first, last)]
        title = _("book {book}: version {older} against version {newer}").format(book=name, older=first, newer=last)
        return Listing(title, [changes_of_books(*rows)])

    def tree(self, at: Instant | None) -> Listing:
        """The lines of the tree that hold; see ``Money``."""
        instant = self._instant(at)
        version = declared.tree_version(self._store)
        rows = [
            (*(row[name] for name in _TREE_NAMES), stamp(row["valid_from"]), stamp(row["valid_to"]), row["position"])
            for row in declared.tree_rows(self._store, version)
            if _holds(row, instant)
        ]
        title = _("tenancy tree, version {version}, as it holds at {instant}")
        notes = [] if version else [_("no tenancy tree is declared: `steelyard tenancy import FILE`")]
        table = Table(_("lines in the order in which they decide"), _TREE, rows)
        return Listing(title.format(version=version, instant=format_instant(instant)), [table], notes)

    def rates(self, at: Instant | None) -> Listing:
        """The rates that hold; see ``Money``."""
        instant = self._instant(at)
        holding = {row["pair"]: row for row in declared.rate_rows(self._store) if row["since"] <= instant}
        rows = [
            (
                row["base_currency"],
                row["quote_currency"],
                decimal_text(row["rate_nano"], 9),
                stamp(row["since"]),
                row["declared_by"],
            )
            for row in holding.values()
        ]
        notes = [] if rows else [_("no rate holds then: `steelyard rates import FILE`")]
        title = _("exchange rates that hold at {instant}").format(instant=format_instant(instant))
        return Listing(title, [Table(_("one unit of the base currency"), _RATES, rows)], notes)

    def unmapped(self) -> Listing:
        """The namespaces that were seen and what of them the tree maps; see ``Money``."""
        found = declared.namespace_rows(self._store, self._clock.now())
        rows = [tuple(row.values()) for row in found if row["unmapped_count"]]
        mapped = len(found) - len(rows)
        notes = [
            ngettext(
                "{count} namespace is mapped with all its pods",
                "{count} namespaces are mapped with all their pods",
                mapped,
            ).format(count=mapped)
        ]
        title = _("namespaces that the tenancy tree does not map")
        return Listing(title, [Table(_("unmapped"), _UNMAPPED, rows)], notes)

    def unpriced(self) -> Listing:
        """What no line prices, and why; see ``Money``."""
        rows: list[Sequence[Value]] = []
        if declared.current_books(self._store):
            rows = [_unpriced(row) for row in declared.unpriced_rows(self._store)]
            notes = [] if rows else [_("everything that was weighed has its price")]
        else:
            notes = [_("no price book is declared: `steelyard prices import FILE`")]
        return Listing(_("what no line prices"), [Table(_("unpriced"), _UNPRICED, rows)], notes)


def reason_text(reason: str) -> str:
    """Why something is unpriced, for a person."""
    told = {
        "model unknown": _("no line names the card's model, or nobody tells it"),
        "no price": _("no line holds for it then"),
        "price ambiguous": _("two lines name it alike: it is not known which counts"),
        "price implausible": _("the line's price is beyond what can be one"),
        "price not known": _("the line states that its price is not known"),
        "two currencies": _("its parts are priced in two currencies"),
        "discount ambiguous": _("two discounts name it alike: it is not known which counts"),
        "share unknown": _("the share that was granted is not known"),
    }
    return told.get(reason, reason)


def _holds(row: Row, instant: Instant) -> bool:
    start, end = row["valid_from"], row["valid_to"]
    return (start is None or start <= instant) and (end is None or instant < end)


def _price(row: Row) -> Sequence[Value]:
    micro = row["price_micro"]
    price: Value = Unknown(_("stated as not known")) if micro is None else decimal_text(micro)
    named = [row[name] for name in ("side", "component", "model", "unit_kind", "commitment", "tenant", "cluster")]
    more = [row["currency"], row["per"], row["provisional"], stamp(row["valid_from"]), stamp(row["valid_to"])]
    return (*named, price, *more, row["book"], row["version"], row["price_id"])


def _order(row: Sequence[Value]) -> tuple[str, ...]:
    return tuple("" if cell is None else str(cell) for cell in row[:7])


def _unpriced(row: Row) -> Sequence[Value]:
    named = (row["side"], row["cluster"], row["model"], row["tenant"], reason_text(row["reason"]), row["places_count"])
    return (*named, Fraction(row["amount_gpu_us"], HOUR_US), stamp(row["first_at"]), stamp(row["last_at"]))


def _discount(row: Row) -> Sequence[Value]:
    more = (row["model"], row["commitment"], stamp(row["valid_from"]), stamp(row["valid_to"]))
    return (row["tenant"], percent_text(row["discount_ppm"]), *more, row["book"], row["version"])


def _weight(row: Row) -> Sequence[Value]:
    validity = (stamp(row["valid_from"]), stamp(row["valid_to"]))
    return (row["model"], decimal_text(row["weight_ppm"]), *validity, row["book"], row["version"])
