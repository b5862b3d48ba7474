"""What one version of a book or of the tree changed against another, line by line: added, removed, changed from old to new.

The trick to know: a line is known over versions by what it is about (a price by its id, the others by their key and start), so that a price that
rises is a change and not a line lost and another one found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, format_instant
from steelyard.primitives.unknown import Unknown
from steelyard.settlement.declared.rows import LEVELS, Row

ADDED: Final = "added"
REMOVED: Final = "removed"
CHANGED: Final = "changed"
CHANGE_COLUMNS: Final = (
    Column("change"),
    Column("table"),
    Column("name"),
    Column("field"),
    Column("old"),
    Column("new"),
    Column("change_percent", "%"),
)
_MICRO_DIGITS: Final = 6
_NANO_DIGITS: Final = 9
_PERCENT_DIGITS: Final = 4


def changes_of_books(older: Mapping[str, Sequence[Row]], newer: Mapping[str, Sequence[Row]]) -> Table:
    """What lies between two versions: lines added, removed, and fields changed, old -> new and by how many percent."""
    rows: list[Sequence[Value]] = []
    for table in ("prices", "discounts", "weights"):
        before = {_name(table, row): _told(table, row) for row in older[table]}
        after = {_name(table, row): _told(table, row) for row in newer[table]}
        rows += _changes(table, before, after)
    return Table(_("changes"), CHANGE_COLUMNS, rows)


def changes_of_trees(older: Sequence[Row], newer: Sequence[Row]) -> Table:
    """What lies between two versions of the tree; a line that only moved is a change of its position."""
    before = {_tree_name(row): _tree_told(row) for row in older}
    after = {_tree_name(row): _tree_told(row) for row in newer}
    return Table(_("changes"), CHANGE_COLUMNS, _changes("tenancy", before, after))


def changes_of_rates(older: Mapping[tuple[str, Instant], int], newer: Mapping[tuple[str, Instant], int]) -> Table:
    """What rates would be new, or other than those declared before for the same instant. Rates that are not named again stay."""
    before = {_rate_name(key): {"rate": decimal_text(older[key], _NANO_DIGITS)} for key in newer if key in older}
    after = {_rate_name(key): {"rate": decimal_text(rate, _NANO_DIGITS)} for key, rate in newer.items()}
    return Table(_("changes"), CHANGE_COLUMNS, _changes("rates", before, after))


def no_changes() -> Table:
    """The table where nothing changed."""
    return Table(_("changes"), CHANGE_COLUMNS, [])


def decimal_text(amount: int, digits: int = _MICRO_DIGITS) -> str:
    """An integer of ten to the minus ``digits`` as a decimal, exactly; at least two decimals."""
    sign, whole = "-" if amount < 0 else "", abs(amount)
    fraction = f"{whole % 10**digits:0{digits}d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole // 10**digits}.{fraction}"


def percent_text(ppm: int) -> str:
    """Parts per million as percent, exactly."""
    return decimal_text(ppm, _PERCENT_DIGITS)


def stamp(instant: Instant | None) -> str | None:
    """An instant as text, None where there is none."""
    return None if instant is None else format_instant(instant)


def _changes(
    table: str, before: Mapping[str, Mapping[str, Value]], after: Mapping[str, Mapping[str, Value]]
) -> list[Sequence[Value]]:
    rows: list[Sequence[Value]] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            kind = ADDED if old is None else REMOVED
            told = _line_text(new if old is None else old)
            rows.append((kind, table, name, None, None if old is None else told, told if old is None else None, None))
            continue
        for field, value in new.items():
            if value != old[field]:
                rows.append((CHANGED, table, name, field, old[field], value, _percent(field, old[field], value)))
    return rows


def _percent(field: str, old: Value, new: Value) -> Value:
    if field not in ("price", "discount_percent", "weight", "rate"):
        return None
    if not isinstance(old, str) or not isinstance(new, str):
        return Unknown(_("one of the two is not known"))
    if not Fraction(old):
        return Unknown(_("the old one is 0"))
    return (Fraction(new) - Fraction(old)) / Fraction(old) * 100


def _line_text(told: Mapping[str, Value] | None) -> str:
    """A line in short: what it says, without what it does not."""
    found = told or {}
    amount = (
        [str(found["price"]) if isinstance(found.get("price"), str) else _("price unknown")] if "price" in found else []
    )
    if amount:
        amount = [f"{amount[0]} {found['currency']}/{found['per']}"]
    skipped = {"price", "currency", "per", "position"}
    words = [
        f"{field} {value}" for field, value in found.items() if field not in skipped and value not in (None, False)
    ]
    return " · ".join([*amount, *words])


def _name(table: str, row: Row) -> str:
    if table == "prices":
        return str(row["price_id"])
    parts = [row.get("tenant"), row.get("model"), row.get("commitment"), stamp(row["valid_from"])]
    return "/".join(str(part) for part in parts if part is not None)


def _told(table: str, row: Row) -> dict[str, Value]:
    """A line as people read it, field by field."""
    validity = {"valid_from": stamp(row["valid_from"]), "valid_to": stamp(row["valid_to"])}
    if table == "discounts":
        return {"discount_percent": percent_text(row["discount_ppm"]), "valid_to": validity["valid_to"]}
    if table == "weights":
        return {"weight": decimal_text(row["weight_ppm"]), "valid_to": validity["valid_to"]}
    price = row["price_micro"]
    told: dict[str, Value] = {
        "price": Unknown(_("stated as not known")) if price is None else decimal_text(price),
        "currency": row["currency"],
        "per": row["per"],
    }
    for field in ("side", "component", "cluster", "model", "unit_kind", "commitment", "tenant"):
        told[field] = row[field]
    return {**told, **validity, "provisional": row["provisional"]}


def _tree_name(row: Row) -> str:
    parts = [row["by"], row["key"], row["match"], stamp(row["valid_from"])]
    return "/".join(str(part) for part in parts if part is not None)


def _tree_told(row: Row) -> dict[str, Value]:
    told: dict[str, Value] = {level: row[level] for level in LEVELS}
    return {**told, "valid_to": stamp(row["valid_to"]), "position": row["position"]}


def _rate_name(key: tuple[str, Instant]) -> str:
    return f"{key[0]}/{format_instant(key[1])}"
