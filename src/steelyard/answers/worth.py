"""What a part of a card's time is worth: what its place cost in a stretch by what it was, a sum by a sum.

Q7 asks it of what was taken above grants, ``fragmentation`` of what is trapped, Q9 of held time that moved nothing. The trick to know: a stretch of
which a part has no price, or that is priced in two currencies, is worth nothing that can be named: unknown with the reason, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.answers.contract import Value
from steelyard.answers.cost_tables import money, why_unpriced
from steelyard.answers.reading import Record
from steelyard.definitions.money import half_up
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DurationUs
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")


@dataclass(frozen=True, slots=True)
class Worth:
    """An amount in millionths of a currency."""

    currency: str
    micro: int


def worth_of(booked: Iterable[Record], amount_us: DurationUs) -> Worth | Unknown:
    """What ``amount_us`` of GPU-time is worth by what is booked of its place: rows with ``currency``, ``cost_micro``, ``amount_gpu_us`` and
    ``unpriced_reason``. Unknown without a price book, where a part has no price, and where currencies differ."""
    rows = list(booked)
    if not rows or any(row["unpriced_reason"] is not None for row in rows):
        return why_unpriced(
            {("cost", row["unpriced_reason"]) for row in rows if row["unpriced_reason"] is not None}, "cost"
        )
    currencies = sorted({row["currency"] for row in rows})
    if len(currencies) > 1:
        return _not_added(currencies)
    whole = sum(int(row["amount_gpu_us"]) for row in rows)
    if whole <= 0:
        return Unknown(_("its place has no supply of its own"))
    return Worth(currencies[0], half_up(sum(int(row["cost_micro"]) for row in rows) * amount_us, whole))


def total_worth(parts: Iterable[Worth | Unknown]) -> Worth | Unknown | None:
    """Their sum; None of none. Unknown where one of them is, or where currencies differ."""
    found = list(parts)
    unknown = next((part for part in found if isinstance(part, Unknown)), None)
    if unknown is not None:
        return unknown
    known = [part for part in found if isinstance(part, Worth)]
    currencies = sorted({part.currency for part in known})
    if len(currencies) > 1:
        return _not_added(currencies)
    return Worth(currencies[0], sum(part.micro for part in known)) if known else None


def told(worth: Worth | Unknown | None) -> tuple[Value, Value]:
    """Currency and amount, as cells."""
    if worth is None:
        return None, 0
    return (None, worth) if isinstance(worth, Unknown) else (worth.currency, money(worth.micro))


def _not_added(currencies: Iterable[str]) -> Unknown:
    return Unknown(_("in {currencies}, which are not added").format(currencies=", ".join(currencies)))
