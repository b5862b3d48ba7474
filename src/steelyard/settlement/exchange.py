"""Dated exchange rates: the currency of the price book to that of a statement, once per line, in integers.

The trick to know: the rate is the one in force at the end of the period, for all of its lines, so that a statement names one rate per pair of
currencies; each line is rounded by itself, half up, and a total is the sum of what was rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from steelyard.definitions.money import half_up
from steelyard.primitives.instant import Instant
from steelyard.settlement.statement import StatementLine
from steelyard.store import Store

NANO: Final = 1_000_000_000
NO_RATE: Final = "no exchange rate {base}/{quote}"


@dataclass(frozen=True, slots=True)
class Rate:
    """``numerator`` / ``denominator`` of the quote currency for one of the base, since when."""

    numerator: int
    denominator: int
    since: Instant

    def converted(self, amount_micro: int) -> int:
        """An amount in the quote currency, rounded half up."""
        return half_up(amount_micro * self.numerator, self.denominator)


@dataclass(frozen=True, slots=True)
class Rates:
    """(base, quote) -> (from when, thousand-millionths), oldest first."""

    rows: Mapping[tuple[str, str], Sequence[tuple[Instant, int]]] = field(default_factory=dict)

    def at(self, base: str, quote: str, instant: Instant) -> Rate | None:
        """The rate in force at an instant, from the pair itself, else from its inverse; None where neither was declared by then."""
        if base == quote:
            return Rate(1, 1, instant)
        direct = _last(self.rows.get((base, quote), ()), instant)
        if direct is not None:
            return Rate(direct[1], NANO, direct[0])
        inverse = _last(self.rows.get((quote, base), ()), instant)
        return None if inverse is None or inverse[1] <= 0 else Rate(NANO, inverse[1], inverse[0])


def rates_of(store: Store) -> Rates:
    """The rates of ``settling_rate``."""
    rows: dict[tuple[str, str], list[tuple[Instant, int]]] = {}
    for base, quote, at, rate in store.rows(
        "SELECT base_currency, quote_currency, epoch_us(occurred_at), rate_nano FROM settling_rate ORDER BY ALL"
    ):
        rows.setdefault((base, quote), []).append((at, rate))
    return Rates(rows)


def in_currency(
    line: StatementLine, base: str | None, cost_base: str | None, quote: str, rates: Rates, at: Instant
) -> StatementLine:
    """The line with its amounts in ``quote``. Without a rate its charge is unpriced, and says so; without one of its cost that is None.

    The list price and the amount are rounded, the discount is what lies between them.
    """
    rate = rates.at(base, quote, at) if base is not None else None
    cost_rate = rates.at(cost_base, quote, at) if cost_base is not None else None
    charged = line.amount_micro
    if charged is None:
        line = replace(line, unit_price_micro=None, list_micro=None, discount_micro=None)
    elif rate is None:
        reason = NO_RATE.format(base=base, quote=quote)
        line = replace(
            line, unit_price_micro=None, list_micro=None, discount_micro=None, amount_micro=None, unpriced_reason=reason
        )
    elif base != quote:
        amount = rate.converted(charged)
        listed = _converted(line.list_micro, rate)
        unit = _converted(line.unit_price_micro, rate)
        discount = None if listed is None else listed - amount
        line = replace(line, unit_price_micro=unit, list_micro=listed, discount_micro=discount, amount_micro=amount)
    if cost_base == quote:
        return line
    return replace(
        line,
        cost_micro=_converted(line.cost_micro, cost_rate),
        used_micro=_converted(line.used_micro, cost_rate),
        used_upper_micro=_converted(line.used_upper_micro, cost_rate),
    )


def _converted(amount: int | None, rate: Rate | None) -> int | None:
    return None if amount is None or rate is None else rate.converted(amount)


def _last(rows: Sequence[tuple[Instant, int]], instant: Instant) -> tuple[Instant, int] | None:
    held = [row for row in rows if row[0] <= instant]
    return held[-1] if held else None
