"""What was paid for and moved nothing, in money: held cards that idle, hang or are busy without work, and capacity that nobody could use.

Q9 calls ``waste_table``. Held time has its state from ``ledger.gpu_state`` and its money from its place: what the place cost in the window by what
it was, a sum by a sum. Stranded, out of service and reserved but unused have accounts of their own, so their money is exact. The trick to know:
held waste is a part of what tenants were allocated and the others are not, so no money stands in two rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.answers.cost_lines import CostLine
from steelyard.answers.cost_tables import MONEY, hours, money
from steelyard.answers.narrowing import names_shown
from steelyard.answers.state_lines import WASTED, StateLine
from steelyard.answers.state_tables import owner_of
from steelyard.answers.state_troubles import action_against
from steelyard.definitions.money import half_up
from steelyard.primitives.i18n import _

SQL: Final = Path(__file__).with_suffix(".sql")
LISTED_MAX: Final = 200
OF_ACCOUNTS: Final = ("stranded", "out_of_service", "reserved_unused")
COLUMNS: Final = (
    Column("waste"),
    Column("owner"),
    Column("tenant"),
    Column("person"),
    Column("currency"),
    Column("cost", MONEY),
    Column("gpu_hours", "GPU-h"),
    Column("share_of_cost", "1"),
    Column("nodes"),
    Column("cards", "1"),
    Column("next_action"),
    Column("cluster"),
)
_ACTIONS: Final[Mapping[str, Callable[[], str]]] = {
    "stranded": lambda: _("move or resize holders (`steelyard fits`, `steelyard fragmentation`)"),
    "out_of_service": lambda: _("repair or replace the cards"),
    "reserved_unused": lambda: _("lend what is not used, or give the reservation back (`steelyard q6`)"),
}

_Place = tuple[str, str, str]


@dataclass(slots=True)
class _Waste:
    name: str
    owner: str | None
    currency: str
    cluster: str
    cost_micro: int = 0
    amount_us: int = 0
    tenants: set[str] = field(default_factory=set)
    persons: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    cards: set[str] = field(default_factory=set)


def waste_table(
    states: Iterable[StateLine], lines: Iterable[CostLine], of_places: Iterable[CostLine]
) -> tuple[Table, int]:
    """The dearest first, and how many more rows there are. ``states`` and ``lines``: what is asked about; ``of_places``: all lines of their places,
    by which what a place cost is known. Time at a place of which nothing has a price is in no row."""
    rates = _rates(of_places)
    cost_of: dict[str, int] = {}
    found: dict[tuple[str, str | None, str, str], _Waste] = {}
    for state in states:
        record = state.record
        if record["state"] not in WASTED:
            continue
        for currency, (cost, amount) in rates.get(_place(record), {}).items():
            name = f"{record['state']}:{record['cause']}" if record["cause"] else record["state"]
            waste = _into(found, name, owner_of(record), currency, record)
            waste.amount_us += state.amount_us
            waste.cost_micro += half_up(cost * state.amount_us, amount)
    for line in lines:
        if line.currency is None:
            continue
        cost_of[line.currency] = cost_of.get(line.currency, 0) + line.cost_micro
        if line.account not in OF_ACCOUNTS or not line.cost_micro:
            continue
        record = line.record
        whose = record.get("tenant") if line.account == "reserved_unused" else record["node"]
        waste = _into(found, line.account, whose, line.currency, record)
        waste.amount_us += line.amount_us
        waste.cost_micro += line.cost_micro
    ranked = sorted(found.values(), key=lambda each: (-each.cost_micro, each.currency, each.name, each.owner or ""))
    ranked = [each for each in ranked if each.cost_micro > 0]
    return Table("waste", COLUMNS, [_row(each, cost_of) for each in ranked[:LISTED_MAX]]), max(
        0, len(ranked) - LISTED_MAX
    )


def _rates(lines: Iterable[CostLine]) -> Mapping[_Place, Mapping[str, tuple[int, int]]]:
    """By place, what it cost in its currency and how much of it that was. A place with several currencies is priced in none of them alone: its
    money would stand twice."""
    sums: dict[_Place, dict[str, tuple[int, int]]] = {}
    for line in lines:
        if line.priced_us and line.currency is not None:
            of_place = sums.setdefault(_place(line.record), {})
            cost, amount = of_place.get(line.currency, (0, 0))
            of_place[line.currency] = (cost + line.cost_micro, amount + line.priced_us)
    return {
        place: currencies
        for place, currencies in sums.items()
        if len(currencies) == 1 and all(amount > 0 for _cost, amount in currencies.values())
    }


def _place(record: Mapping[str, str]) -> _Place:
    return record["cluster"], record["place_kind"], record["place_id"]


def _into(
    found: dict[tuple[str, str | None, str, str], _Waste],
    name: str,
    owner: str | None,
    currency: str,
    record: Mapping[str, str],
) -> _Waste:
    key = (name, owner, currency, record["cluster"])
    waste = found.setdefault(key, _Waste(name, owner, currency, record["cluster"]))
    for names, column in (
        (waste.tenants, "tenant"), (waste.persons, "person"), (waste.nodes, "node"), (waste.cards, "device_uuid"),
    ):  # fmt: skip
        if record.get(column):
            names.add(record[column])
    return waste


def _row(waste: _Waste, cost_of: Mapping[str, int]) -> Sequence[Value]:
    action = _ACTIONS.get(waste.name)
    whole = cost_of.get(waste.currency, 0)
    return (
        waste.name,
        waste.owner,
        names_shown(waste.tenants) if waste.tenants else None,
        names_shown(waste.persons) if waste.persons else None,
        waste.currency,
        money(waste.cost_micro),
        hours(waste.amount_us),
        float(Fraction(waste.cost_micro, whole)) if whole > 0 else None,
        names_shown(waste.nodes) if waste.nodes else None,
        len(waste.cards) or None,
        action() if action is not None else action_against(waste.name),
        waste.cluster,
    )


def first_actions(table: Table, count: int) -> list[str]:
    """What to do about the dearest rows, one line each."""
    names = [column.name for column in table.columns]
    found = []
    for row in table.rows[:count]:
        waste = dict(zip(names, row, strict=True))
        cost = waste["cost"]
        found.append(
            _("{waste} of {owner} cost {cost} {currency}: {action}").format(
                waste=waste["waste"], owner=waste["owner"] or "-", cost=f"{float(cost):,.2f}" if isinstance(cost, Fraction) else "?",
                currency=waste["currency"], action=waste["next_action"] or _("ask its owner"),
            )
        )  # fmt: skip
    return found
