"""What the simulated estate's finance office wrote down: a price book of seven models, a tenancy tree that is reorganised once, exchange rates.

All of it is invented. The tricks to know: what a card costs us and what it is charged at are two sides; one price changes within the first month, one
is stated as not known, and one namespace is in no department, so that a demo shows each of these.
"""

from __future__ import annotations

from typing import Final

from steelyard.primitives.instant import DAY_US, Instant, format_instant
from steelyard.simulation.emission import EmittedFile, Output

SYSTEM: Final = "money"
_CHANGE_DAYS: Final = 7

_MODELS: Final = (
    ("H200", "2900.00", "0.22", "4.10", "1.35"),
    ("H100", "2350.00", "0.21", "3.40", "1"),
    ("A100 80GB", "1240.00", "0.14", "2.10", "0.55"),
    ("A100 40GB", "905.00", "0.14", "1.60", "0.45"),
    ("L40S", "610.00", "0.11", "1.20", "0.4"),
    ("T4", "95.50", "0.03", "0.35", "0.1"),
    ("V100", "", "0.09", "0.80", "0.2"),
)
"""Words of the model; cost of the card a month and of its power an hour, charge an hour (USD); weight of its normalised GPU-hour."""

_RAISED: Final = ("L40S", "1.30")
_TREE: Final = (
    ("namespace", "team-vision", "research", "vision", "perception", "CC-1010"),
    ("namespace", "team-nlp", "research", "language", "assistant", "CC-1020"),
    ("namespace", "team-search", "products", "search", "ranking", "CC-2010"),
)
_MOVED: Final = (
    ("namespace", "team-recsys", "research", "recommendation", "feeds", "CC-1030"),
    ("namespace", "team-recsys", "products", "recommendation", "feeds", "CC-2020"),
)
_RATES: Final = (("USD", "CNY", "7.1025"), ("EUR", "USD", "1.0842"))


def write_money(start_at: Instant, output: Output) -> None:
    """The three lists, declared before the estate's first day."""
    for name, text in money_files(start_at).items():
        output.write(EmittedFile(f"money/{name}", SYSTEM, start_at), text.encode())


def money_files(start_at: Instant) -> dict[str, str]:
    """Name -> text of the three lists of an estate that begins then."""
    changed_at = start_at + _CHANGE_DAYS * DAY_US
    return {
        "prices.csv": price_book(changed_at),
        "tenancy.csv": tenancy_tree(changed_at),
        "rates.csv": exchange_rates(start_at),
    }


def price_book(changed_at: Instant) -> str:
    """The book as a CSV; the price of one model is raised at ``changed_at``."""
    rows = ["table,side,component,model,tenant,currency,price,per,valid_from,valid_to,discount_percent,weight"]
    for model, month, power, hour, weight in _MODELS:
        rows.append(f"prices,cost,amortisation,{model},,USD,{month},month,,,,")
        rows.append(f"prices,cost,power,{model},,USD,{power},hour,,,,")
        if model == _RAISED[0]:
            rows.append(f"prices,charge,card,{model},,USD,{hour},hour,,{format_instant(changed_at)},,")
            rows.append(f"prices,charge,card,{model},,USD,{_RAISED[1]},hour,{format_instant(changed_at)},,,")
        else:
            rows.append(f"prices,charge,card,{model},,USD,{hour},hour,,,,")
        rows.append(f"weights,,,{model},,,,,,,,{weight}")
    rows.append("discounts,,,,team-search,,,,,,10,")
    return "\n".join(rows) + "\n"


def tenancy_tree(moved_at: Instant) -> str:
    """The tree as a CSV; one team moves to another department at ``moved_at``."""
    rows = ["by,match,department,team,project,cost_centre,valid_from,valid_to"]
    rows += [",".join((*row, "", "")) for row in _TREE]
    rows.append(",".join((*_MOVED[0], "", format_instant(moved_at))))
    rows.append(",".join((*_MOVED[1], format_instant(moved_at), "")))
    return "\n".join(rows) + "\n"


def exchange_rates(start_at: Instant) -> str:
    """The rates as a CSV, from the first day on."""
    rows = [f"{base},{quote},{rate},{format_instant(start_at)}" for base, quote, rate in _RATES]
    return "\n".join(["base_currency,quote_currency,rate,valid_from", *rows]) + "\n"
