"""A price book as somebody writes it down, in CSV or TOML: prices, discounts and weights, taken whole or not at all.

Called by ``app.declaring``. The tricks to know: what comes out has no version yet (0), because only the store knows which versions there are
(``numbered`` writes it in); an empty price is a statement (nobody knows it), a missing column is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from steelyard.definitions.models import model_tokens
from steelyard.definitions.money import PERS, PRICE_MICRO_MAX
from steelyard.facts.price import BookWeight, Discount, Price, PriceBook
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant
from steelyard.sources.money import amounts
from steelyard.sources.money.entries import SOURCE, Entry, Held, Refusals, csv_entries, overlapping
from steelyard.sources.money.toml_entries import cell_text, toml_document, toml_entries
from steelyard.sources.shared.context import ReadContext

Line = Price | Discount | BookWeight

SIDES: Final = ("cost", "charge")
UNIT_KINDS: Final = ("gpu", "mig", "vgpu", "slice", "dra")
COMMITMENTS: Final = ("on_demand", "reserved", "spot")
TABLES: Final = ("prices", "discounts", "weights")
UNKNOWN_PRICE: Final = "unknown"
"""How a price may be written that is stated as not known; empty says the same."""

_VALIDITY: Final = ("valid_from", "valid_to", "zone")
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "prices": (
        "price_id", "side", "component", "cluster", "model", "unit_kind", "commitment", "tenant", "currency", "price", "per", "provisional",
        *_VALIDITY,
    ),
    "discounts": ("tenant", "discount_percent", "model", "commitment", *_VALIDITY),
    "weights": ("model", "weight", *_VALIDITY),
}  # fmt: skip
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "table": (),
    **{name: () for columns in _COLUMNS.values() for name in columns},
}
_TOP: Final = ("book", "currency", "zone")
_BOOK: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_ID: Final = re.compile(r"[^\s@+]{1,200}\Z")
_COMPONENT: Final = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
_TOML: Final = re.compile(r"^[ \t]*\[\[[ \t]*(?:prices|discounts|weights)[ \t]*\]\]", re.MULTILINE)
_HEAD_MAX: Final = 65_536
_TRUTHS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_MICRO_DIGITS: Final = 6
_WEIGHT_MAX: Final = 1_000


@dataclass(slots=True)
class DeclaredBook:
    """What a file declares. ``book``: its name, where the file says one. ``lines``: without a version; none where anything was refused."""

    book: str | None = None
    lines: list[Line] = field(default_factory=list)
    refusals: Refusals = field(default_factory=Refusals)


def is_toml_book(head: str) -> bool:
    """Whether a text begins as a TOML price book does: one of its tables is opened before anything that is no TOML."""
    return _TOML.search(head[:_HEAD_MAX]) is not None


def book_name(text: str) -> str:
    """The name of a book. Raises ValueError for what is none."""
    if _BOOK.match(text) is None:
        raise ValueError(f"expected letters, digits, dots, dashes and underscores, at most 100; found {text[:40]!r}")
    return text


def read_price_book(text: str, ctx: ReadContext) -> DeclaredBook:
    """The book, from TOML where it begins so, else from CSV; ``refusals`` tell all that is wrong, and then no line is taken."""
    found = DeclaredBook()
    entries = _toml(text, found) if is_toml_book(text) else _csv(text, ctx, found)
    keys: list[Held] = []
    ids: dict[str, Entry] = {}
    for table, entry in entries:
        try:
            found.lines.append(_line(table, entry, ctx, keys, ids))
        except SourceMalformed as error:
            found.refusals.add(error)
    for refusal in overlapping(keys):
        found.refusals.add(refusal)
    if not entries and not found.refusals:
        found.refusals.add(SourceMalformed("expected prices, discounts or weights, found none"))
    if found.refusals:
        found.lines.clear()
    return found


def _needed(columns: Collection[str]) -> Collection[str]:
    """A list without the column ``table`` is one of prices."""
    return () if "table" in columns else ("side", "currency", "price", "per")


def _csv(text: str, ctx: ReadContext, found: DeclaredBook) -> list[tuple[str, Entry]]:
    tables = []
    for entry in csv_entries(text, ctx, _KNOWN, _needed, found.refusals):
        try:
            table = entry.one_of("table", TABLES, "prices") or "prices"
            strange = [name for name, value in entry.cells.items() if value and name not in ("table", *_COLUMNS[table])]
            if strange:
                raise entry.refused(f"{table} have no {', '.join(strange)}: leave it empty")
            if table == "prices" and "price" not in entry.cells:
                raise entry.refused(
                    "price: expected a column of that name; leave its cell empty where nobody knows the price"
                )
            tables.append((table, entry))
        except SourceMalformed as error:
            found.refusals.add(error)
    return tables


def _toml(text: str, found: DeclaredBook) -> list[tuple[str, Entry]]:
    document = toml_document(text, found.refusals)
    if document is None:
        return []
    defaults = _top_level(document, found)
    tables = []
    for table in TABLES:
        for entry in toml_entries(document, table, _COLUMNS[table], text, found.refusals):
            more = {name: value for name, value in defaults.items() if name in _COLUMNS[table]}
            if table == "prices" and "price" not in entry.cells:
                found.refusals.add(
                    entry.refused(f'price: expected a price; write price = "{UNKNOWN_PRICE}" where nobody knows it')
                )
            tables.append((table, Entry(entry.line, entry.text, {**more, **entry.cells})))
    return tables


def _top_level(document: Mapping[str, Any], found: DeclaredBook) -> dict[str, str]:
    """The keys that stand before all tables: the book's name, and a currency and a zone for all lines that name none."""
    cells: dict[str, str] = {}
    for key, value in document.items():
        if key in TABLES:
            continue
        text = cell_text(value)
        if key not in _TOP or text is None:
            found.refusals.add(SourceMalformed(f"{key[:40]!r} is not known: expected {', '.join((*_TOP, *TABLES))}"))
            continue
        cells[key] = text
    try:
        name = Entry(0, "", cells).read("book", book_name)
    except SourceMalformed as error:
        found.refusals.add(error)
    else:
        found.book = name
    return {key: value for key, value in cells.items() if key != "book"}


def _line(table: str, entry: Entry, ctx: ReadContext, keys: list[Held], ids: dict[str, Entry]) -> Line:
    """One line, its key noted. Raises SourceMalformed."""
    if table == "prices":
        return _price(entry, ctx, keys, ids)
    return _discount(entry, ctx, keys) if table == "discounts" else _weight(entry, ctx, keys)


def _common(ctx: ReadContext) -> dict[str, Any]:
    return {
        "cluster": ctx.cluster,
        "source": SOURCE,
        "natural_key": "",
        "occurred_at": ctx.observed_at,
        "observed_at": ctx.observed_at,
        "book": "",
        "version": 0,
    }


def _price(entry: Entry, ctx: ReadContext, keys: list[Held], ids: dict[str, Entry]) -> Price:
    side = entry.one_of("side", SIDES)
    if side is None:
        raise entry.refused("side: expected cost or charge, found none")
    component = (entry.get("component") or "card").lower()
    if _COMPONENT.match(component) is None:
        raise entry.refused(f"component: expected a word such as card, power or rack; found {component[:40]!r}")
    tenant = entry.get("tenant")
    if tenant is not None and side == "cost":
        raise entry.refused("tenant: what a card costs us is the same whoever holds it; only side charge has tenants")
    start, end = entry.validity()
    entry.need("per")
    dimensions = (
        entry.get("cluster"),
        entry.get("model"),
        entry.one_of("unit_kind", UNIT_KINDS),
        entry.one_of("commitment", COMMITMENTS),
        tenant,
    )
    cluster, model, unit_kind, commitment, _tenant = dimensions
    price = Price(
        **_common(ctx),
        price_id=_price_id(entry, (side, component, *dimensions), ids),
        side=side,
        component=component,
        for_cluster=cluster,
        model=model,
        unit_kind=unit_kind,
        commitment=commitment,
        tenant=tenant,
        currency=entry.read("currency", amounts.currency) or entry.need("currency"),
        price_micro=_price_micro(entry),
        per=entry.one_of("per", PERS) or "hour",
        valid_from_at=start,
        valid_to_at=end,
        provisional=_truth(entry, "provisional"),
    )
    key = ("price", side, component, cluster, model_tokens(model or ""), unit_kind, commitment, tenant)
    keys.append(Held(key, start, end, entry, f"a second price for {_told((side, component, *dimensions))}"))
    return price


def _price_micro(entry: Entry) -> int | None:
    text = entry.get("price")
    if text is None or text.lower() == UNKNOWN_PRICE:
        return None
    return entry.read(
        "price", lambda cell: amounts.positive_or_zero(cell, _MICRO_DIGITS, PRICE_MICRO_MAX // 10**_MICRO_DIGITS)
    )


def _price_id(entry: Entry, parts: Sequence[str | None], ids: dict[str, Entry]) -> str:
    """The line's own name, else one made of what it holds for and since when, the same in every version. Raises where it stands twice."""
    name = entry.get("price_id")
    if name is None:
        since = entry.get("valid_from")
        named = [part or "any" for part in parts] + ([since] if since else [])
        name = "/".join(re.sub(r"[\s@/+]+", "-", part) for part in named)
    elif _ID.match(name) is None:
        raise entry.refused("price_id: expected at most 200 characters without blanks, @ and +")
    earlier = ids.setdefault(name, entry)
    if earlier is not entry and (
        entry.get("price_id") or earlier.get("price_id")
    ):  # two made of one key overlap, which is said better
        raise entry.refused(f"price_id {name[:80]} stands in line {earlier.line} already")
    return name


def _discount(entry: Entry, ctx: ReadContext, keys: list[Held]) -> Discount:
    tenant, model, commitment = entry.need("tenant"), entry.get("model"), entry.one_of("commitment", COMMITMENTS)
    entry.need("discount_percent")
    start, end = entry.validity()
    discount = Discount(
        **_common(ctx),
        tenant=tenant,
        discount_ppm=entry.read("discount_percent", lambda cell: amounts.positive_or_zero(cell, 4, 100)) or 0,
        model=model,
        commitment=commitment,
        valid_from_at=start,
        valid_to_at=end,
    )
    key = ("discount", tenant, model_tokens(model or ""), commitment)
    keys.append(Held(key, start, end, entry, f"a second discount for {_told((tenant, model, commitment))}"))
    return discount


def _weight(entry: Entry, ctx: ReadContext, keys: list[Held]) -> BookWeight:
    model = entry.need("model")
    entry.need("weight")
    start, end = entry.validity()
    weight_ppm = entry.read("weight", lambda cell: amounts.positive_or_zero(cell, _MICRO_DIGITS, _WEIGHT_MAX))
    if not weight_ppm:
        raise entry.refused("weight: expected more than 0")
    keys.append(Held(("weight", model_tokens(model)), start, end, entry, f"a second weight for {model[:60]}"))
    return BookWeight(**_common(ctx), model=model, weight_ppm=weight_ppm, valid_from_at=start, valid_to_at=end)


def _told(parts: Sequence[str | None]) -> str:
    return " · ".join(part[:60] for part in parts if part) or "everything"


def _truth(entry: Entry, column: str) -> bool:
    value = entry.one_of(column, _TRUTHS)
    return _TRUTHS[value] if value is not None else False


@dataclass(frozen=True, slots=True)
class Declaration:
    """Who declares what of which bytes, when and why. ``at``: the instant that the facts bear."""

    sha256: str
    at: Instant
    declared_by: str | None = None
    reason: str | None = None


def numbered(
    lines: Sequence[Line], book: str, version: int, declaration: Declaration, ctx: ReadContext
) -> list[PriceBook | Line]:
    """The facts of a version: the book itself, then its lines."""
    stamps = {"occurred_at": declaration.at, "observed_at": declaration.at}
    found: list[PriceBook | Line] = [
        PriceBook(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=f"{book}@{version}",
            **stamps,
            book=book,
            version=version,
            sha256=declaration.sha256,
            lines_count=len(lines),
            declared_by=declaration.declared_by,
            reason=declaration.reason,
        )
    ]
    for number, line in enumerate(lines, start=1):
        key = f"{book}@{version}/{_key(line, number)}"
        found.append(msgspec.structs.replace(line, natural_key=key, book=book, version=version, **stamps))
    return found


def _key(line: Line, number: int) -> str:
    if isinstance(line, Price):
        return line.price_id
    return f"{line.tenant if isinstance(line, Discount) else line.model}/{number}"
