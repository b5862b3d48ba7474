"""The control page of a period: what finance checks before it signs, and what an auditor asks for.

The trial balance by account with its residual, what was asked for beside what it cost, ties to declared totals and to a provider's bill, what is
estimated or unpriced, and what idle would be laid on whom. The trick to know: it reads the tables of ``tables``, so the page of a closed period comes
out of its snapshot, and its rows are those of the statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.definitions.token_split import divided
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US
from steelyard.primitives.unknown import Unknown
from steelyard.settlement.rules import SettlementRules
from steelyard.settlement.statement import Statement
from steelyard.settlement.tables import model_text
from steelyard.store import Store

IDLE: Final = ("idle", "stranded")
"""The accounts that a sharing policy lays on tenants."""


@dataclass(frozen=True, slots=True)
class ControlSpec:
    """What a page is made with beside the tables. ``residual_gpu_us``: of the cost ledger against the supply. ``declared``: name -> (currency,
    millionths) of depreciation or invoices as somebody declares them."""

    rules: SettlementRules
    residual_gpu_us: int
    declared: Mapping[str, tuple[str, int]] = field(default_factory=dict)


def control_tables(store: Store, statements: Sequence[Statement], spec: ControlSpec) -> list[Table]:
    """All tables of the page, in order; amounts in millionths."""
    balance = store.rows(model_text("balance"))
    recovery = store.rows(model_text("recovery"))
    return [
        _balance(balance, spec.residual_gpu_us),
        _recovery(balance, recovery),
        _by_tenant(recovery),
        _tie_out(balance, spec.declared),
        *_bills(store),
        _kinds(statements),
        _estimated(statements),
        _unpriced(statements),
        _idle(balance, recovery, spec.rules),
    ]


def _balance(rows: Sequence[tuple[str, str | None, int, int, int | None, int]], residual: int) -> Table:
    cells: list[Sequence[Value]] = [
        (account, currency, _hours(amount), _priced(cost, unpriced), _hours(unpriced))
        for account, currency, _n, amount, cost, unpriced in rows
    ]
    currencies = sorted({row[1] for row in rows if row[1] is not None})
    for currency in currencies:
        own = [row for row in rows if row[1] == currency]
        cells.append(
            (
                "total",
                currency,
                _hours(sum(row[3] for row in own)),
                sum(row[4] or 0 for row in own),
                _hours(sum(row[5] for row in own)),
            )
        )
    cells.append(
        ("residual", None, _hours(residual), 0 if not residual else Unknown(_("the books do not close")), None)
    )
    columns = (
        Column("account"),
        Column("currency"),
        Column("gpu_hours", "GPU-h"),
        Column("cost_micro", "micro"),
        Column("unpriced_gpu_hours", "GPU-h"),
    )
    return Table("trial_balance", columns, cells)


def _priced(cost: int | None, unpriced_us: int) -> Value:
    return Unknown(_("no price")) if cost is None and unpriced_us else cost or 0


def _recovery(
    balance: Sequence[tuple[str, str | None, int, int, int | None, int]],
    recovery: Sequence[tuple[str, str, int, int, int]],
) -> Table:
    cost: dict[str, int] = {}
    charge: dict[str, int] = {}
    for _account, currency, _n, _amount, micro, _u in balance:
        if currency is not None:
            cost[currency] = cost.get(currency, 0) + (micro or 0)
    for _tenant, currency, charged, _cost, _quantity in recovery:
        if currency is not None:
            charge[currency] = charge.get(currency, 0) + charged
    rows = [
        (
            currency,
            charge.get(currency, 0),
            cost.get(currency, 0),
            max(0, charge.get(currency, 0) - cost.get(currency, 0)),
            max(0, cost.get(currency, 0) - charge.get(currency, 0)),
        )
        for currency in sorted({*cost, *charge})
    ]
    columns = (
        Column("currency"),
        *(
            Column(name, "micro")
            for name in ("charge_micro", "cost_micro", "over_recovery_micro", "under_recovery_micro")
        ),
    )
    return Table("recovery", columns, rows)


def _by_tenant(recovery: Sequence[tuple[str, str, int, int, int]]) -> Table:
    columns = (
        Column("tenant"),
        Column("currency"),
        *(Column(name, "micro") for name in ("charge_micro", "cost_micro", "margin_micro")),
    )
    return Table(
        "recovery_by_tenant",
        columns,
        [(tenant, currency, charge, cost, charge - cost) for tenant, currency, charge, cost, _q in recovery],
    )


def _tie_out(
    balance: Sequence[tuple[str, str | None, int, int, int | None, int]], declared: Mapping[str, tuple[str, int]]
) -> Table:
    rows: list[Sequence[Value]] = [
        (name, currency, amount, None, None) for name, (currency, amount) in sorted(declared.items())
    ]
    for currency in sorted({currency for currency, _amount in declared.values()}):
        wanted = sum(amount for its, amount in declared.values() if its == currency)
        booked = sum(row[4] or 0 for row in balance if row[1] == currency)
        rows.append(("all declared", currency, wanted, booked, booked - wanted))
    columns = (
        Column("name"),
        Column("currency"),
        *(Column(name, "micro") for name in ("declared_micro", "booked_micro", "difference_micro")),
    )
    return Table("tie_out", columns, rows)


def _bills(store: Store) -> list[Table]:
    """The provider's bill beside the cost book: resources that are in both, those that only one of them has, and what is about no resource."""
    billed = store.rows(
        "SELECT provider, invoice_id, resource_id, charge_category, currency, lines_count, list_micro, billed_micro, untold_count "
        "FROM settling_bill ORDER BY ALL"
    )
    booked: dict[tuple[str, str], int] = {}
    names: dict[str, str] = {}
    for _cluster, node, device, currency, cost in store.rows(model_text("node_cost")):
        place = node or device
        if place is not None:
            booked[place, currency] = booked.get((place, currency), 0) + cost
            names[place] = place
            if device is not None:
                names[device] = place
    matched: dict[tuple[str, str], list[int]] = {}
    strangers: list[Sequence[Value]] = []
    apart: list[Sequence[Value]] = []
    for provider, invoice, resource, category, currency, count, listed, amount, untold in billed:
        place = _place_of(resource, names)
        if category != "Usage" or resource is None:
            apart.append((provider, invoice or None, category, resource, currency, count, amount))
        elif place is None:
            strangers.append((resource, provider, currency, count, listed, _told(amount, untold)))
        else:
            sums = matched.setdefault((place, currency), [0, 0, 0])
            for number, value in enumerate((listed or 0, amount or 0, untold)):
                sums[number] += value
    rows: list[Sequence[Value]] = [
        (
            place,
            currency,
            booked.get((place, currency), 0),
            listed,
            _told(amount, untold),
            amount - booked.get((place, currency), 0),
        )
        for (place, currency), (listed, amount, untold) in sorted(matched.items())
    ]
    unbilled: list[Sequence[Value]] = [
        (place, currency, cost)
        for (place, currency), cost in sorted(booked.items())
        if billed and (place, currency) not in matched
    ]
    return [
        Table(
            "bill_matched", _columns("resource currency", "booked_micro list_micro billed_micro difference_micro"), rows
        ),
        Table(
            "bill_without_resource_of_ours",
            _columns("resource provider currency lines", "list_micro billed_micro"),
            strangers,
        ),
        Table("cost_without_bill", _columns("resource currency", "booked_micro"), unbilled),
        Table(
            "bill_beside_usage", _columns("provider invoice_id category resource currency lines", "billed_micro"), apart
        ),
    ]


def _columns(names: str, amounts: str) -> tuple[Column, ...]:
    """Columns of names, then those of amounts in millionths."""
    return (*(Column(name) for name in names.split()), *(Column(name, "micro") for name in amounts.split()))


def _place_of(resource: str | None, names: Mapping[str, str]) -> str | None:
    """A resource is a node or card of ours where its id, or the last part of it, is the name of one."""
    if resource is None:
        return None
    return names.get(resource) or names.get(resource.rpartition("/")[2])


def _told(amount: int | None, untold: int) -> Value:
    return Unknown(_("lines without an amount")) if untold or amount is None else amount


def _kinds(statements: Sequence[Statement]) -> Table:
    sums: dict[tuple[str, str], list[int]] = {}
    for statement in statements:
        for line in statement.lines:
            own = sums.setdefault((line.kind, statement.currency), [0, 0])
            own[0] += 1
            own[1] += line.amount_micro or 0
    columns = (Column("kind"), Column("currency"), Column("lines"), Column("amount_micro", "micro"))
    return Table(
        "lines_by_kind",
        columns,
        [(kind, currency, count, amount) for (kind, currency), (count, amount) in sorted(sums.items())],
    )


def _estimated(statements: Sequence[Statement]) -> Table:
    rows = [
        (
            statement.tenant,
            line.line_id,
            line.description,
            None if line.coverage_ppm is None else line.coverage_ppm / 10_000,
            line.amount_micro,
        )
        for statement in statements
        for line in statement.lines
        if line.estimated
    ]
    columns = (
        Column("tenant"),
        Column("line_id"),
        Column("what"),
        Column("coverage", "%"),
        Column("amount_micro", "micro"),
    )
    return Table("estimated", columns, rows)


def _unpriced(statements: Sequence[Statement]) -> Table:
    rows = [
        (statement.tenant, line.line_id, line.description, _hours(line.quantity_gpu_us), line.unpriced_reason)
        for statement in statements
        for line in statement.lines
        if line.amount_micro is None
    ]
    return Table(
        "unpriced",
        (Column("tenant"), Column("line_id"), Column("what"), Column("gpu_hours", "GPU-h"), Column("reason")),
        rows,
    )


def _idle(
    balance: Sequence[tuple[str, str | None, int, int, int | None, int]],
    recovery: Sequence[tuple[str, str, int, int, int]],
    rules: SettlementRules,
) -> Table:
    """What the policy would lay on each tenant; it is in no statement."""
    rows: list[Sequence[Value]] = []
    if rules.idle_sharing != "none":
        tenants: dict[str, int] = {}
        for tenant, _currency, _charge, _cost, quantity in recovery:
            tenants[tenant] = tenants.get(tenant, 0) + quantity
        weights = [quantity if rules.idle_sharing == "proportional" else 1 for quantity in tenants.values()]
        for currency in sorted({row[1] for row in balance if row[1] is not None and row[0] in IDLE}):
            idle = sum(row[4] or 0 for row in balance if row[0] in IDLE and row[1] == currency)
            if sum(weights):
                rows += [(tenant, currency, part) for tenant, part in zip(tenants, divided(idle, weights), strict=True)]
    return Table("idle_shared", (Column("tenant"), Column("currency"), Column("idle_micro", "micro")), rows)


def _hours(amount_gpu_us: int) -> float:
    return amount_gpu_us / HOUR_US
