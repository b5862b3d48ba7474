"""A site's asset list: one physical card per row, with where it stands, whose it is and what was paid for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final, TypeVar

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.csv_table import CsvRow, CsvTable, malformed
from steelyard.sources.site_csv.columns import INVENTORY_ALIASES, SOURCE, card_of, cell, columns_of, moment

T = TypeVar("T")

_AMOUNT: Final = re.compile(r"(\d{1,15}|\d{1,3}(?:,\d{3}){1,4})(\.\d{1,6})?\Z", re.ASCII)
_CURRENCY: Final = re.compile(r"[A-Za-z]{3}\Z", re.ASCII)
_MEMORY: Final = re.compile(r"(\d{1,9})(?:\s*(?:MiB|MB))?\Z", re.ASCII | re.IGNORECASE)


def read_inventory(lines: Iterable[str] | str, ctx: ReadContext) -> Iterator[Fact]:
    """One inventory basis ``asset_list`` per row; refused rows and cells as findings.

    Columns by header, in any order: serial, uuid, node, rack, owner, model, purchase date, warranty, price, currency, status,
    memory. A row needs a serial or a UUID. A price is kept as ``<amount> <currency>`` and only where both are readable: a price
    without a currency is a finding, never a number of something. A date is its midnight in UTC.
    """
    table = CsvTable(lines, ctx, SOURCE)
    columns = columns_of(table.columns, INVENTORY_ALIASES)
    if "serial" not in columns and "uuid" not in columns:
        yield ctx.finding(
            SOURCE,
            "inventory_columns_missing",
            f"file {ctx.file}",
            "expected a column serial or uuid; nothing was taken from it",
            severity="error",
            evidence={"found": list(table.columns)[:50]},
        )
        return
    keys: set[str] = set()
    for row in table:
        if isinstance(row, Finding):
            yield row
            continue
        try:
            yield from _asset(row, columns, keys, ctx)
        except SourceMalformed as error:
            yield malformed(ctx, SOURCE, error)


def _asset(row: CsvRow, columns: Mapping[str, str], keys: set[str], ctx: ReadContext) -> Iterator[Fact]:
    uuid, serial = card_of(row, columns)
    key = uuid or serial or ""
    if any(name in keys for name in (uuid, serial) if name):
        raise SourceMalformed(f"{key!r} stands twice in this list; the first row counts", row.line, row.text)
    keys.update(name for name in (uuid, serial) if name)
    problems: list[tuple[str, str]] = []

    def read(meaning: str, reader: Callable[[str], T]) -> T | None:
        text = cell(row, columns, meaning)
        if text is None:
            return None
        try:
            return reader(text)
        except ValueError as error:
            problems.append((meaning, str(error)))
            return None

    currency = cell(row, columns, "currency")
    yield InventoryBasis(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=key,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        basis="asset_list",
        node=cell(row, columns, "node"),
        model=cell(row, columns, "model"),
        memory_mib=read("memory_mib", _memory_mib),
        device_uuid=uuid,
        serial=serial,
        rack=cell(row, columns, "rack"),
        asset_owner=cell(row, columns, "owner"),
        asset_status=cell(row, columns, "status"),
        purchased_at=read("purchased", moment),
        warranty_to_at=read("warranty", moment),
        price=read("price", lambda text: _price(text, currency)),
    )
    for meaning, message in problems:
        yield ctx.finding(
            SOURCE,
            "inventory_cell_unreadable",
            f"asset {key}",
            f"{meaning}: {message}; the cell is taken as not stated",
            line=row.line,
            excerpt=row.text,
            evidence={"cell": meaning},
        )


def _memory_mib(text: str) -> int:
    match = _MEMORY.match(text)
    if match is None:
        raise ValueError(f"expected MiB as a whole number, found {text[:40]!r}")
    return int(match.group(1))


def _price(text: str, currency: str | None) -> str:
    """``12000.50 CNY``. The currency may stand in its own column, or before or behind the amount."""
    parts = text.split()
    if currency is None and len(parts) == 2:
        currency = next((part for part in parts if _CURRENCY.match(part)), None)
        parts = [part for part in parts if part != currency]
    match = _AMOUNT.match(parts[0]) if len(parts) == 1 else None
    if match is None:
        raise ValueError(f"expected an amount such as 12000.50, found {text[:40]!r}")
    if currency is None or not _CURRENCY.match(currency):
        raise ValueError(f"expected a currency code of three letters, found {(currency or '')[:20]!r}")
    amount = Decimal(match.group(0).replace(",", ""))
    return f"{amount} {currency.upper()}"
