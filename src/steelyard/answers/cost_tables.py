"""The tables of Q9 over lines of money: by the chosen dimensions, by account, and what has no price.

Pure over lines; ``q09_cost`` reads them. The trick to know: a row is of one currency. Where a part of it has no price, its money is that of the rest,
and the GPU-hours without a price stand beside it; where nothing has, the money is unknown with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.answers.cost_lines import ACCOUNTS, NO_BOOK, CostLine, Reason, grouped, total
from steelyard.answers.dimensions import Dimension
from steelyard.answers.narrowing import names_shown
from steelyard.definitions.money import MICRO, WHOLE_PPM
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US
from steelyard.primitives.unknown import Unknown

MONEY: Final = "money"
"""The unit of money: a whole unit of the row's currency."""
COVERAGE_MIN_PPM: Final = 950_000
"""Coverage of use from which on an effective cost may enter an invoice."""
LISTED_MAX: Final = 1_000

AMOUNT_COLUMNS: Final = (
    Column("currency"),
    Column("pods_count", "1"),
    Column("gpu_hours_granted", "GPU-h"),
    Column("gpu_hours_normalised", "GPU-h"),
    Column("gpu_hours_used", "GPU-h"),
    Column("gpu_hours_used_upper", "GPU-h"),
    Column("gpu_hours_whole_cards", "GPU-h"),
    Column("cost_allocated", MONEY),
    Column("cost_effective", MONEY),
    Column("cost_effective_upper", MONEY),
    Column("effective_basis"),
    Column("cost_other", MONEY),
    Column("idle_share", MONEY),
    Column("gpu_hours_charged", "GPU-h"),
    Column("charge_list", MONEY),
    Column("charge_discount", MONEY),
    Column("charge", MONEY),
    Column("gpu_hours_unpriced", "GPU-h"),
    Column("use_coverage_ratio", "1"),
)
ACCOUNT_COLUMNS: Final = (
    Column("account"),
    Column("currency"),
    Column("gpu_hours", "GPU-h"),
    Column("cost", MONEY),
    Column("share_of_cost", "1"),
    Column("gpu_hours_unpriced", "GPU-h"),
)
UNPRICED_COLUMNS: Final = (
    Column("side"),
    Column("reason"),
    Column("model"),
    Column("commitment"),
    Column("unit_kind"),
    Column("gpu_hours", "GPU-h"),
    Column("nodes"),
    Column("next_action"),
    Column("cluster"),
)


def hours(amount_us: int) -> Fraction:
    """As hours, exactly."""
    return Fraction(amount_us, HOUR_US)


def money(micro: int) -> Fraction:
    """As whole units of its currency, exactly."""
    return Fraction(micro, MICRO)


def why_unpriced(reasons: Iterable[Reason], side: str) -> Unknown:
    """Why one side has no money."""
    found = sorted({reason for of, reason in reasons if of == side})
    if not found or found == [NO_BOOK]:
        return Unknown(_("no price book was imported"))
    return Unknown(_("unpriced: {reasons}").format(reasons="; ".join(found)))


def unpriced_us(lines: Iterable[CostLine]) -> int:
    """GPU-time of the cost side without a price. What stands against a capacity that is not known is negative, and no time."""
    return sum(max(0, line.amount_us - line.priced_us) for line in lines)


def beyond_capacity_us(lines: Iterable[CostLine]) -> int:
    """GPU-time that stands against the idle time of places of which no capacity is known: they have no supply, and idle below 0."""
    sums: dict[tuple[str, str, str], tuple[int, int]] = {}
    for line in lines:
        place = (line.record["cluster"], line.record["place_kind"], line.record["place_id"])
        whole, idle = sums.get(place, (0, 0))
        sums[place] = (whole + line.amount_us, idle + (line.amount_us if line.account == "idle" else 0))
    return sum(-idle for whole, idle in sums.values() if whole <= 0 and idle < 0)


def costs_table(lines: Iterable[CostLine], by: Sequence[Dimension], idle_sharing: str) -> Table:
    """Both books, GPU-hours and use by the dimensions and the currency. ``idle_sharing``: the policy; with ``none`` the column has no value."""
    rows: list[Sequence[Value]] = []
    for (values, currency), group in grouped(lines, by).items():
        rows.append((*values, *_amounts(group, currency, idle_sharing)))
    return Table("costs", (*(Column(dimension.name) for dimension in by), *AMOUNT_COLUMNS), rows)


def _amounts(group: Sequence[CostLine], currency: str | None, idle_sharing: str) -> Sequence[Value]:
    tenant = [line for line in group if line.account == "tenant"]
    other = [line for line in group if line.account != "tenant"]
    granted, pathed = total(group, "granted_us"), total(group, "pathed_us")
    cost = _cost(tenant, "cost_micro")
    no_path = Unknown(_("no path measures these holders alone"))
    used: Value = hours(total(group, "used_us")) if pathed or not granted else no_path
    effective: Value = _cost(tenant, "effective_micro") if pathed or not granted else no_path
    return (
        currency,
        len({(line.record["cluster"], line.record["pod_uid"]) for line in group if line.record["pod_uid"] is not None}),
        hours(granted),
        hours(total(group, "normalised_us")),
        used,
        hours(total(group, "used_upper_us") + granted - pathed),
        hours(total(group, "whole_us")),
        cost,
        cost if isinstance(cost, Unknown) else effective,
        _cost(tenant, "effective_upper_micro"),
        effective_basis(group),
        _cost(other, "cost_micro"),
        None if idle_sharing == "none" or currency is None else money(total(group, "idle_share_micro")),
        hours(total(group, "charged_us")),
        *(_charge(group, name) for name in ("list_micro", "discount_micro", "charge_micro")),
        hours(max(unpriced_us(group), total(group, "charge_unpriced_us"))),
        use_coverage(group),
    )


def _cost(lines: Sequence[CostLine], name: str) -> Value:
    """Money of the cost side: of what is priced; Unknown where GPU-time is there and none of it has a price."""
    if any(line.amount_us for line in lines) and not any(_is_priced(line) for line in lines):
        return why_unpriced((reason for line in lines for reason in line.reasons), "cost")
    return money(total(lines, name))


def _is_priced(line: CostLine) -> bool:
    return bool(line.amount_us) and not any(side == "cost" for side, _reason in line.reasons)


def _charge(lines: Sequence[CostLine], name: str) -> Value:
    charged = total(lines, "charged_us")
    if charged and charged == total(lines, "charge_unpriced_us"):
        return why_unpriced((reason for line in lines for reason in line.reasons), "charge")
    if not charged and any(reason == NO_BOOK for line in lines for _side, reason in line.reasons):
        return why_unpriced((), "charge")
    return money(total(lines, name))


def use_coverage(lines: Iterable[CostLine]) -> Value:
    """Part of the granted GPU-time whose use is known; None of nothing."""
    found = list(lines)
    granted = total(found, "granted_us")
    if not granted:
        return None
    return float(Fraction(seen_us(found), granted))


def seen_us(lines: Iterable[CostLine]) -> int:
    """Granted GPU-time in which the use of the holder was seen."""
    return sum(line.pathed_us - (line.used_upper_us - line.used_us) for line in lines)


def effective_basis(lines: Sequence[CostLine]) -> Value:
    """``invoice`` where effective cost may be asked for: all of it measured by a path of the holder alone, for 95 % of the time; else
    ``showback``. None where nothing was granted."""
    granted = total(lines, "granted_us")
    if not granted:
        return None
    measured = total(lines, "pathed_us") == granted
    return "invoice" if measured and seen_us(lines) * WHOLE_PPM >= granted * COVERAGE_MIN_PPM else "showback"


def accounts_table(lines: Iterable[CostLine]) -> Table:
    """Every account of the cost ledger by currency; they add up to what the supply cost."""
    of_cost = [line for line in lines if line.amount_us or line.cost_micro]
    groups: dict[tuple[str, str | None], list[CostLine]] = {}
    for line in of_cost:
        groups.setdefault((line.account, line.currency if _is_priced(line) else None), []).append(line)
    whole: dict[str | None, int] = {}
    for (_account, currency), group in groups.items():
        whole[currency] = whole.get(currency, 0) + total(group, "cost_micro")
    rows: list[Sequence[Value]] = []
    for (account, currency), group in sorted(groups.items(), key=_account_order):
        cost = total(group, "cost_micro")
        rows.append(
            (
                account,
                currency,
                hours(total(group, "amount_us")),
                _cost(group, "cost_micro"),
                float(Fraction(cost, whole[currency])) if currency is not None and whole[currency] else None,
                hours(unpriced_us(group)),
            )
        )
    return Table("accounts", ACCOUNT_COLUMNS, rows)


def _account_order(item: tuple[tuple[str, str | None], Sequence[CostLine]]) -> tuple[int, bool, str]:
    (account, currency), _group = item
    return ACCOUNTS.index(account) if account in ACCOUNTS else len(ACCOUNTS), currency is None, currency or ""


_ACTIONS: Final[Mapping[str, Callable[[], str]]] = {
    NO_BOOK: lambda: _("import a price book (`steelyard prices import FILE`)"),
    "no price": lambda: _("add a line for this model, unit kind and commitment to the price book"),
    "model unknown": lambda: _("name this model in the price book; where none is told, import the inventory of these nodes (`nvidia-smi -q -x`)"),
    "price not known": lambda: _("put the amount into the line of the price book that says it is not known"),
    "price ambiguous": lambda: _("make one of the two lines more specific: they name the same cards equally closely"),
    "price implausible": lambda: _("correct the amount in the price book"),
    "two currencies": lambda: _("state all components of one side in one currency"),
    "discount ambiguous": lambda: _("make one of the two discounts more specific"),
    "share unknown": lambda: _("have the grant state its memory or cores: its share of the card is not known"),
}  # fmt: skip


def unpriced_table(lines: Iterable[CostLine]) -> tuple[Table, int]:
    """GPU-time without a price by side, reason and what a price would have to name, most first; and how many more rows there are."""
    groups: dict[tuple[str, str, str, str, str, str], list[CostLine]] = {}
    for line in lines:
        for side, reason in line.reasons:
            record = line.record
            key = (
                side, reason, record.get("model") or "", record.get("commitment") or "", record.get("unit_kind") or "", record["cluster"],
            )  # fmt: skip
            groups.setdefault(key, []).append(line)
    amounts = {
        key: unpriced_us(group) if key[0] == "cost" else total(group, "charge_unpriced_us")
        for key, group in groups.items()
    }
    ranked = sorted(groups, key=lambda key: (-amounts[key], key))
    rows: list[Sequence[Value]] = []
    for key in ranked[:LISTED_MAX]:
        side, reason, model, commitment, unit_kind, cluster = key
        nodes = {line.record["node"] for line in groups[key] if line.record["node"] is not None}
        action = _ACTIONS.get(reason)
        rows.append(
            (
                side, reason, model or None, commitment or None, unit_kind or None, hours(amounts[key]), names_shown(nodes) or None,
                action() if action is not None else None, cluster,
            )
        )  # fmt: skip
    return Table("unpriced", UNPRICED_COLUMNS, rows), max(0, len(ranked) - LISTED_MAX)
