"""The control page of a period: what finance checks before it signs, and what an auditor asks for.

The trial balance by account with its residual, what was asked for beside what it cost, ties to declared totals and to a provider's bill, what is
estimated or unpriced, and what idle would be laid on whom. The trick to know: it reads the tables of ``tables``, so the page of a closed period comes
out of its snapshot, and its rows are those of the statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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
    """What a page is made with beside the tables. ``residual_gpu_us``: of the cost ledger against ``supply_gpu_us``, None of a closed period, whose
    accounts were checked against it. ``declared``: name -> (currency, millionths) of depreciation or invoices as somebody declares them."""

    rules: SettlementRules
    residual_gpu_us: int
    supply_gpu_us: int | None = None
    declared: Mapping[str, tuple[str, int]] = field(default_factory=dict)


class _Account(NamedTuple):
    """A row of ``balance``: an account in one currency; ``unpriced_gpu_us`` of it has no price, and no part in the cost."""

    account: str
    currency: str | None
    rows_count: int
    amount_gpu_us: int
    cost_micro: int | None
    unpriced_gpu_us: int


class _Recovered(NamedTuple):
    """A row of ``recovery``: both sides of a tenant in one currency."""

    tenant: str
    currency: str | None
    charge_micro: int | None
    cost_micro: int | None
    quantity_gpu_us: int
    charge_unpriced: bool
    cost_unpriced: bool


def control_tables(store: Store, statements: Sequence[Statement], spec: ControlSpec) -> list[Table]:
    """All tables of the page, in order; amounts in millionths. Money that leaves something out, because it has no price, is unknown."""
    balance = [_Account(*row) for row in store.rows(model_text("balance"))]
    recovery = [_Recovered(*row) for row in store.rows(model_text("recovery"))]
    return [
        _balance(balance, spec),
        _recovery(balance, recovery),
        _by_tenant(recovery),
        _tie_out(balance, spec.declared),
        *_bills(store),
        _kinds(statements),
        _estimated(statements),
        _unpriced(statements),
        _idle(balance, recovery, spec.rules),
    ]


def _no_price() -> Unknown:
    return Unknown(_("no price"))


def _balance(balance: Sequence[_Account], spec: ControlSpec) -> Table:
    """Every account, their sum in each currency and of what has no price, the supply that all of them add up to, and what is left between the two."""
    cells: list[Sequence[Value]] = [
        (row.account, row.currency, _hours(row.amount_gpu_us), _cost([row]), _hours(row.unpriced_gpu_us))
        for row in balance
    ]
    currencies = dict.fromkeys(row.currency for row in balance)
    for currency in sorted(currencies, key=lambda name: (name is None, name or "")):
        own = [row for row in balance if row.currency == currency]
        cells.append(("total", currency, _hours(_amount(own)), _cost(own), _hours(_unpriced_of(own))))
    closes = not spec.residual_gpu_us
    cells += _supply(balance, spec)
    cells.append(
        (
            "residual",
            None,
            _hours(spec.residual_gpu_us),
            0 if closes else Unknown(_("the books do not close")),
            None,
        )
    )
    columns = (
        Column("account"),
        Column("currency"),
        Column("gpu_hours", "GPU-h"),
        Column("cost_micro", "micro"),
        Column("unpriced_gpu_hours", "GPU-h"),
    )
    return Table("trial_balance", columns, cells)


def _supply(balance: Sequence[_Account], spec: ControlSpec) -> list[Sequence[Value]]:
    """The supply of the estate's own period. Tenants with a zone of their own have other hours in the accounts than those: how many more (or fewer)
    is a row of its own, and what a snapshot does not keep is not made up from them."""
    if not spec.rules.periods.tenant_zones:
        supply = _amount(balance) if spec.supply_gpu_us is None else spec.supply_gpu_us
        return [("supply", None, _hours(supply), None, None)]
    if spec.supply_gpu_us is None:
        reason = _(
            "tenants have months of their own: the books were held against the supply when the period was closed"
        )
        return [("supply", None, Unknown(reason), None, None)]
    elsewhere: Value = _hours(_amount(balance) - spec.supply_gpu_us)
    if spec.residual_gpu_us:
        elsewhere = Unknown(_("the books do not close"))
    return [
        ("months_of_their_own", None, elsewhere, None, None),
        ("supply", None, _hours(spec.supply_gpu_us), None, None),
    ]


def _amount(rows: Sequence[_Account]) -> int:
    return sum(row.amount_gpu_us for row in rows)


def _unpriced_of(rows: Sequence[_Account]) -> int:
    return sum(row.unpriced_gpu_us for row in rows)


def _booked_micro(balance: Sequence[_Account], currency: str | None) -> int:
    """What is priced in a currency comes to."""
    return sum(row.cost_micro for row in balance if row.currency == currency and row.cost_micro is not None)


def _cost(rows: Sequence[_Account]) -> Value:
    return _no_price() if _unpriced_of(rows) else _booked_micro(rows, rows[0].currency)


def _recovery(balance: Sequence[_Account], recovery: Sequence[_Recovered]) -> Table:
    """What was asked for beside all that it cost; neither over nor under where either side leaves something out."""
    no_cost, no_charge = _unpriced_of(balance), any(row.charge_unpriced for row in recovery)
    rows: list[Sequence[Value]] = []
    named = {row.currency for row in balance} | {row.currency for row in recovery}
    for currency in sorted(each for each in named if each is not None):
        charge = sum(row.charge_micro or 0 for row in recovery if row.currency == currency)  # None: nothing is priced
        cost = _booked_micro(balance, currency)
        told: Sequence[Value] = (charge, cost, max(0, charge - cost), max(0, cost - charge))
        unknown = (no_charge, no_cost, no_charge or no_cost, no_charge or no_cost)
        rows.append((currency, *(_no_price() if left else value for value, left in zip(told, unknown, strict=True))))
    columns = (
        Column("currency"),
        *(
            Column(name, "micro")
            for name in ("charge_micro", "cost_micro", "over_recovery_micro", "under_recovery_micro")
        ),
    )
    return Table("recovery", columns, rows)


def _by_tenant(recovery: Sequence[_Recovered]) -> Table:
    """Both sides of each tenant and currency; a tenant of whom anything has no price has no margin."""
    unpriced = {row.tenant for row in recovery if row.charge_unpriced or row.cost_unpriced}
    rows: list[Sequence[Value]] = []
    for row in recovery:
        charge: Value = _no_price() if row.charge_unpriced else row.charge_micro
        cost: Value = _no_price() if row.cost_unpriced else row.cost_micro
        margin: Value = _no_price() if row.tenant in unpriced else (row.charge_micro or 0) - (row.cost_micro or 0)
        rows.append((row.tenant, row.currency, charge, cost, margin))
    columns = (
        Column("tenant"),
        Column("currency"),
        *(Column(name, "micro") for name in ("charge_micro", "cost_micro", "margin_micro")),
    )
    return Table("recovery_by_tenant", columns, rows)


def _tie_out(balance: Sequence[_Account], declared: Mapping[str, tuple[str, int]]) -> Table:
    rows: list[Sequence[Value]] = [
        (name, currency, amount, None, None) for name, (currency, amount) in sorted(declared.items())
    ]
    for currency in sorted({currency for currency, _amount in declared.values()}):
        wanted = sum(amount for its, amount in declared.values() if its == currency)
        booked = _booked_micro(balance, currency)
        left: Value = _no_price() if _unpriced_of(balance) else booked - wanted
        rows.append(("all declared", currency, wanted, booked, left))
    columns = (
        Column("name"),
        Column("currency"),
        *(Column(name, "micro") for name in ("declared_micro", "booked_micro", "difference_micro")),
    )
    return Table("tie_out", columns, rows)


@dataclass(slots=True)
class _Billed:
    """What a bill says of one resource and currency; None = a line of it does not say."""

    list_micro: int | None = 0
    billed_micro: int | None = 0

    def add(self, listed: int | None, billed: int | None) -> None:
        self.list_micro = None if listed is None or self.list_micro is None else self.list_micro + listed
        self.billed_micro = None if billed is None or self.billed_micro is None else self.billed_micro + billed


def _bills(store: Store) -> list[Table]:
    """The provider's bill beside the cost book: resources that are in both, those that only one of them has, and what is about no resource."""
    billed = store.rows(
        "SELECT provider, invoice_id, resource_id, charge_category, currency, lines_count, list_micro, "
        "CASE WHEN untold_count = 0 THEN billed_micro END FROM settling_bill ORDER BY ALL"
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
    matched: dict[tuple[str, str], _Billed] = {}
    strangers: list[Sequence[Value]] = []
    apart: list[Sequence[Value]] = []
    for provider, invoice, resource, category, currency, count, listed, amount in billed:
        place = _place_of(resource, names)
        if category != "Usage" or resource is None:
            apart.append((provider, invoice or None, category, resource, currency, count, _told(amount)))
        elif place is None:
            strangers.append((resource, provider, currency, count, _told(listed), _told(amount)))
        else:
            matched.setdefault((place, currency), _Billed()).add(listed, amount)
    rows: list[Sequence[Value]] = [
        (
            place,
            currency,
            booked.get((place, currency)),
            _told(sums.list_micro),
            _told(sums.billed_micro),
            _told(None if sums.billed_micro is None else sums.billed_micro - booked.get((place, currency), 0)),
        )
        for (place, currency), sums in sorted(matched.items())
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


def _told(amount: int | None) -> Value:
    return Unknown(_("lines without an amount")) if amount is None else amount


def _kinds(statements: Sequence[Statement]) -> Table:
    """Lines by kind, in the currency of their statements; those without a price stand apart, as a row of none."""
    sums: dict[tuple[str, str | None], tuple[int, int]] = {}
    for statement in statements:
        for line in statement.lines:
            key = (line.kind, None if line.amount_micro is None else statement.currency)
            count, amount = sums.get(key, (0, 0))
            sums[key] = (count + 1, amount + (line.amount_micro or 0))
    columns = (Column("kind"), Column("currency"), Column("lines"), Column("amount_micro", "micro"))
    rows: list[Sequence[Value]] = [
        (kind, currency, count, _no_price() if currency is None else amount)
        for (kind, currency), (count, amount) in sorted(
            sums.items(), key=lambda item: (item[0][0], item[0][1] is None, item[0][1] or "")
        )
    ]
    return Table("lines_by_kind", columns, rows)


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


def _idle(balance: Sequence[_Account], recovery: Sequence[_Recovered], rules: SettlementRules) -> Table:
    """What the policy would lay on each tenant of what idle has a price; it is in no statement."""
    rows: list[Sequence[Value]] = []
    if rules.idle_sharing != "none":
        idle = [row for row in balance if row.account in IDLE]
        tenants: dict[str, int] = {}
        for row in recovery:
            tenants[row.tenant] = tenants.get(row.tenant, 0) + row.quantity_gpu_us
        weights = [quantity if rules.idle_sharing == "proportional" else 1 for quantity in tenants.values()]
        for currency in sorted({row.currency for row in idle if row.currency is not None}):
            if sum(weights):
                parts = divided(_booked_micro(idle, currency), weights)
                rows += [(tenant, currency, part) for tenant, part in zip(tenants, parts, strict=True)]
    return Table("idle_shared", (Column("tenant"), Column("currency"), Column("idle_micro", "micro")), rows)


def _hours(amount_gpu_us: int) -> float:
    return amount_gpu_us / HOUR_US
