"""Why a cost is another than it was: what prices changed, what usage changed, and what the mix of cards changed. The three sum to the difference.

Q9 calls ``decomposed`` for a day against the mean of the days before. Items are what a price looks at (model, unit kind, commitment). The trick to
know: price is weighed by what is used now, usage by the mean price of before, and the mix is what the items' shares moved at their old prices; an
item that is new or gone has no price change, since it has one price only.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias

VERSION: Final = "1"
FORMULA: Final = "difference = sum of q1 (p1 - p0) [price] + (Q1 - Q0) P0 [usage] + sum of (q1 - q0) p0 - (Q1 - Q0) P0 [mix], exactly, P0 = C0 / Q0"

Cause = Literal["price", "usage", "mix", "none"]


@dataclass(frozen=True, slots=True)
class Spent:
    """What one item took and cost: a quantity (GPU-time) and money, both exact."""

    quantity: Fraction
    cost: Fraction

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.quantity + other.quantity, self.cost + other.cost)


@dataclass(frozen=True, slots=True)
class ChangeRule:
    """When a day is an anomaly: it differs from the mean of the ``days`` days before (of at least ``days_least``) by ``ratio_ppm`` of that mean or
    more, and by ``least_micro`` of its currency or more."""

    days: int = 7
    days_least: int = 3
    ratio_ppm: int = 250_000
    least_micro: int = 10_000_000


NOTHING: Final = Spent(Fraction(0), Fraction(0))

Spending: TypeAlias = "Mapping[Hashable, Spent]"
"""By item."""


@dataclass(frozen=True, slots=True)
class Change:
    """The three effects, in money."""

    price: Fraction
    usage: Fraction
    mix: Fraction

    @property
    def difference(self) -> Fraction:
        """What they sum to."""
        return self.price + self.usage + self.mix

    @property
    def cause(self) -> Cause:
        """The largest of them; of two alike the first of price, usage, mix."""
        effects: tuple[tuple[Cause, Fraction], ...] = (("price", self.price), ("usage", self.usage), ("mix", self.mix))
        name, effect = max(effects, key=lambda each: abs(each[1]))
        return name if effect else "none"


def decomposed(before: Spending, after: Spending) -> Change:
    """The effects between two spendings. A quantity of 0 with money has no price: its money counts as usage where nothing was used before, else
    as mix."""
    quantity_before = sum((spent.quantity for spent in before.values()), Fraction(0))
    quantity_after = sum((spent.quantity for spent in after.values()), Fraction(0))
    cost_before = sum((spent.cost for spent in before.values()), Fraction(0))
    price = moved = Fraction(0)
    for item in {*before, *after}:
        old, new = before.get(item, NOTHING), after.get(item, NOTHING)
        if old.quantity > 0 and new.quantity > 0:
            old_price, new_price = old.cost / old.quantity, new.cost / new.quantity
            price += new.quantity * (new_price - old_price)
            moved += (new.quantity - old.quantity) * old_price
        else:
            moved += new.cost - old.cost
    if quantity_before <= 0:
        return Change(price, moved, Fraction(0))
    usage = (quantity_after - quantity_before) * cost_before / quantity_before
    return Change(price, usage, moved - usage)
