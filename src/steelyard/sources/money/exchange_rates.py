"""Dated exchange rates as a CSV: one unit of a currency in another, from a day on until the next rate of the pair.

Called by ``app.declaring``. The trick to know: rates are kept as they are written, in thousand-millionths; the rate of the other
direction is not made here, because its reciprocal is no decimal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from steelyard.facts.exchange_rate import ExchangeRate
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.money import amounts
from steelyard.sources.money.entries import SOURCE, Entry, Refusals, csv_entries
from steelyard.sources.shared.context import ReadContext

RATE_MAX: Final = 1_000_000_000
_NANO_DIGITS: Final = 9
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "base_currency": ("base", "from_currency"),
    "quote_currency": ("quote", "to_currency"),
    "rate": (),
    "valid_from": ("date", "from"),
    "zone": (),
    "declared_by": ("whose", "provider"),
}


@dataclass(slots=True)
class DeclaredRates:
    """What a file declares; none where anything was refused."""

    lines: list[ExchangeRate] = field(default_factory=list)
    refusals: Refusals = field(default_factory=Refusals)


def read_exchange_rates(text: str, ctx: ReadContext, declared_by: str | None = None) -> DeclaredRates:
    """The rates; ``declared_by``: whose they are where a row does not say."""
    found = DeclaredRates()
    seen: dict[tuple[str, int], Entry] = {}
    for entry in csv_entries(text, ctx, _KNOWN, _needed, found.refusals):
        try:
            found.lines.append(_rate(entry, ctx, seen, declared_by))
        except SourceMalformed as error:
            found.refusals.add(error)
    if found.refusals:
        found.lines.clear()
    return found


def _needed(_columns: Collection[str]) -> Collection[str]:
    return ("base_currency", "quote_currency", "rate", "valid_from")


def _rate(entry: Entry, ctx: ReadContext, seen: dict[tuple[str, int], Entry], declared_by: str | None) -> ExchangeRate:
    for column in ("base_currency", "quote_currency", "rate", "valid_from"):
        entry.need(column)
    base, quote = entry.read("base_currency", amounts.currency), entry.read("quote_currency", amounts.currency)
    rate = entry.read("rate", lambda cell: amounts.positive_or_zero(cell, _NANO_DIGITS, RATE_MAX))
    entry.read("zone", amounts.time_zone)
    start = entry.read("valid_from", lambda cell: amounts.instant(cell, entry.get("zone")))
    if base is None or quote is None or start is None or not rate:
        raise entry.refused("rate: expected more than 0")
    if base == quote:
        raise entry.refused(f"{base} in {quote} is 1: expected two currencies")
    pair = f"{base}/{quote}"
    earlier = seen.setdefault((pair, start), entry)
    if earlier is not entry:
        raise entry.refused(f"a second rate of {pair} from the same instant on: line {earlier.line} has one")
    return ExchangeRate(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=pair,
        occurred_at=start,
        observed_at=ctx.observed_at,
        base_currency=base,
        quote_currency=quote,
        rate_nano=rate,
        declared_by=entry.get("declared_by") or declared_by,
    )


def is_rates_header(names: Collection[str]) -> bool:
    """Whether a header's names (in small letters) are those of a list of rates."""
    return "rate" in names and all(
        {column, *_KNOWN[column]} & set(names) for column in ("base_currency", "quote_currency", "valid_from")
    )
