"""Cost by day, and days that cost another amount than the days before them, with the reason: prices, usage, or the mix of cards.

Q9 calls ``changes_part``. The trick to know: a day is laid beside the mean of the whole days before it, day by day that the books know, so a day on
which nothing was held counts as 0 and a day that nobody observed is none; and the three effects sum to the difference exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers.contract import Column, Series, Table, Value
from steelyard.answers.cost_lines import DailyCost
from steelyard.answers.cost_tables import MONEY, hours, money
from steelyard.answers.dimensions import Dimension
from steelyard.definitions import cost_change
from steelyard.definitions.cost_change import NOTHING, ChangeRule, Spent, decomposed
from steelyard.definitions.money import MICRO, WHOLE_PPM
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, Instant, Window, format_instant

SQL: Final = Path(__file__).with_suffix(".sql")
METHOD: Final = f"cost_change {cost_change.VERSION}"
LISTED_MAX: Final = 200
DAYS_LISTED_MAX: Final = 1_000

DAILY_COLUMNS: Final = (Column("currency"), Column("day"), Column("gpu_hours", "GPU-h"), Column("cost", MONEY))
CHANGE_COLUMNS: Final = (
    Column("currency"),
    Column("day"),
    Column("cost", MONEY),
    Column("cost_before_mean", MONEY),
    Column("difference", MONEY),
    Column("price_effect", MONEY),
    Column("usage_effect", MONEY),
    Column("mix_effect", MONEY),
    Column("reason"),
    Column("is_anomaly"),
)


@dataclass(frozen=True, slots=True)
class ChangesPart:
    """What Q9 says of days. ``left_out``: rows that are not listed, by table."""

    tables: Sequence[Table]
    series: Sequence[Series]
    anomalies: Sequence[str]
    left_out: Mapping[str, int]


Group = tuple[tuple[str | None, ...], str]
"""The values of the chosen dimensions, and the currency."""


def changes_part(rows: Iterable[DailyCost], by: Sequence[Dimension], days: Window, rule: ChangeRule) -> ChangesPart:
    """Tables ``daily`` and ``changes``, one series per account and currency. ``days``: the whole days that the books know; others are in no row of
    ``changes``, since a part of a day costs a part."""
    spent: dict[Group, dict[Instant, dict[object, Spent]]] = {}
    accounts: dict[tuple[str, str], dict[Instant, int]] = {}
    for row in rows:
        record = row.record
        group = (tuple(dimension.value(record) for dimension in by), row.currency)
        item = (record.get("model"), record.get("unit_kind"), record.get("commitment"))
        of_day = spent.setdefault(group, {}).setdefault(row.day, {})
        of_day[item] = of_day.get(item, NOTHING) + Spent(Fraction(row.amount_us), Fraction(row.cost_micro))
        account = accounts.setdefault((row.account, row.currency), {})
        account[row.day] = account.get(row.day, 0) + row.cost_micro
    daily, daily_left = _daily_table(spent, by)
    found = sorted(_compared(spent, days, rule), key=_by_size)
    columns = (*(Column(dimension.name) for dimension in by), *CHANGE_COLUMNS)
    table = Table("changes", columns, [each.row() for each in found[:LISTED_MAX]])
    return ChangesPart(
        [daily, table],
        _series(accounts),
        [each.words(by) for each in found if each.is_anomaly],
        {"daily": daily_left, "changes": max(0, len(found) - LISTED_MAX)},
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    group: Group
    day: Instant
    cost: Fraction
    mean: Fraction
    change: cost_change.Change
    is_anomaly: bool

    def row(self) -> Sequence[Value]:
        values, currency = self.group
        change = self.change
        amounts = (self.cost, self.mean, change.difference, change.price, change.usage, change.mix)
        return (
            *values, currency, format_instant(self.day), *(amount / MICRO for amount in amounts), reason_told(change), self.is_anomaly,
        )  # fmt: skip

    def words(self, by: Sequence[Dimension]) -> str:
        values, currency = self.group
        named = ", ".join(
            f"{dimension.name} {value or _('nobody')}" for dimension, value in zip(by, values, strict=True)
        )
        return _(
            "{group} cost {cost} {currency} on {day}, {difference} against the mean of the days before: {reason}"
        ).format(
            group=named,
            cost=f"{float(self.cost / MICRO):,.2f}",
            currency=currency,
            day=format_instant(self.day)[:10],
            difference=f"{float(self.change.difference / MICRO):+,.2f}",
            reason=reason_told(self.change),
        )


def reason_told(change: cost_change.Change) -> str:
    """The cause of a change, in the chosen language."""
    return {
        "price": _("prices changed"),
        "usage": _("usage changed"),
        "mix": _("other cards were used"),
        "none": _("nothing changed"),
    }[change.cause]


def _by_size(each: _Compared) -> tuple[bool, Fraction, Instant, str]:
    return not each.is_anomaly, -abs(each.change.difference), -each.day, str(each.group)


def _compared(
    spent: Mapping[Group, Mapping[Instant, Mapping[object, Spent]]], days: Window, rule: ChangeRule
) -> Iterator[_Compared]:
    """The last whole day of each group, and each earlier one that is an anomaly."""
    last = days.end - DAY_US
    for group, by_day in spent.items():
        for day in range(days.start + rule.days_least * DAY_US, days.end, DAY_US):
            first = max(days.start, day - rule.days * DAY_US)
            count = (day - first) // DAY_US
            after = by_day.get(day, {})
            sums: dict[object, Spent] = {}
            for earlier in range(first, day, DAY_US):
                for item, amount in by_day.get(earlier, {}).items():
                    sums[item] = sums.get(item, NOTHING) + amount
            if not after and not sums:
                continue
            before = {item: Spent(amount.quantity / count, amount.cost / count) for item, amount in sums.items()}
            cost = sum((each.cost for each in after.values()), Fraction(0))
            mean = sum((each.cost for each in before.values()), Fraction(0))
            difference = abs(cost - mean)
            is_anomaly = difference >= rule.least_micro and difference * WHOLE_PPM >= mean * rule.ratio_ppm
            if is_anomaly or day == last:
                yield _Compared(group, day, cost, mean, decomposed(before, after), is_anomaly)


def _daily_table(
    spent: Mapping[Group, Mapping[Instant, Mapping[object, Spent]]], by: Sequence[Dimension]
) -> tuple[Table, int]:
    rows: list[Sequence[Value]] = []
    for group in sorted(spent, key=lambda each: [(value is None, value or "") for value in (*each[0], each[1])]):
        for day, items in sorted(spent[group].items()):
            quantity = sum((item.quantity for item in items.values()), Fraction(0))
            cost = sum((item.cost for item in items.values()), Fraction(0))
            rows.append((*group[0], group[1], format_instant(day), hours(int(quantity)), money(int(cost))))
    columns = (*(Column(dimension.name) for dimension in by), *DAILY_COLUMNS)
    return Table("daily", columns, rows[:DAYS_LISTED_MAX]), max(0, len(rows) - DAYS_LISTED_MAX)


def _series(accounts: Mapping[tuple[str, str], Mapping[Instant, int]]) -> list[Series]:
    """One per account and currency: a day of the books without it has no point, since nothing says that it was 0."""
    return [
        Series(
            f"cost_{account}_{_word(currency)}", currency, [(day, money(cost)) for day, cost in sorted(days.items())]
        )
        for (account, currency), days in sorted(accounts.items())
    ]


def _word(currency: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in currency.lower())


def whole_days(window: Window) -> Window:
    """The whole days (UTC) of a window; one of no length where it has none."""
    first, last = -(-window.start // DAY_US) * DAY_US, window.end // DAY_US * DAY_US
    return Window(first, max(first, last))
