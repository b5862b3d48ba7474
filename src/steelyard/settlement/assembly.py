"""Statements from the tables: the usage of each tenant, in its currency, with credits, shares of services, corrections and tax.

A draft is made over ``tables.lay_out_ledgers``, a closed statement over ``tables.lay_out_files``: the same function. The trick to know: everything
that decides a number comes in as a table or in ``Sheet``, so a snapshot that has both can be rendered again without a ledger.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from steelyard.primitives.instant import Instant
from steelyard.settlement.added_lines import UNATTRIBUTED, callers_of, credit_lines, service_lines, tax_lines
from steelyard.settlement.exchange import NO_RATE, Rates, in_currency, rates_of
from steelyard.settlement.periods import day_starts
from steelyard.settlement.rules import SettlementRules
from steelyard.settlement.statement import Statement, StatementLine
from steelyard.settlement.tables import model_text
from steelyard.settlement.usage_lines import TenantLine, usage_lines
from steelyard.store import Store


@dataclass(frozen=True, slots=True)
class Sheet:
    """What statements of a period say beside their lines. numbers: tenant -> number of a closed statement. previous: tenant -> total of the period
    before. corrections: (tenant, line) in the currency of the tenant's statement. versions: of definitions and price books."""

    label: str
    as_of: Instant
    shadow: bool = False
    closed_at: Instant | None = None
    numbers: Mapping[str, str] = field(default_factory=dict)
    previous: Mapping[str, int] = field(default_factory=dict)
    corrections: Sequence[tuple[str, StatementLine]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


def statements(store: Store, rules: SettlementRules, sheet: Sheet) -> list[Statement]:
    """The statements of all tenants of the period, by tenant. A tenant without any line has none."""
    rates = rates_of(store)
    raw = list(usage_lines(store, rules))
    currencies = _currencies(raw, rules, sheet)
    by_tenant: dict[str, list[StatementLine]] = {tenant: [] for tenant in currencies}
    down: dict[str, list[StatementLine]] = {}
    served: dict[tuple[str, str], list[tuple[str, StatementLine]]] = {}
    for each in raw:
        line = _converted(each, currencies[each.tenant], rates, rules, sheet.label)
        by_tenant[each.tenant].append(line)
        if each.ledger_line == "held_down":
            down.setdefault(each.tenant, []).append(line)
        if line.namespace is not None and line.workload is not None:
            served.setdefault((line.cluster, f"{line.namespace}/{line.workload}"), []).append((each.tenant, line))
    for tenant, lines in by_tenant.items():
        lines.extend(list(credit_lines(tenant, lines, down.get(tenant, ()), rules.credits)))
    callers = callers_of(store, rules.periods.window(sheet.label), rules.services)
    for owner, caller, line in service_lines(
        {key: served[key] for key in callers if key in served}, callers, rules, sheet.label
    ):
        tenant, share = _share(owner, caller, line, currencies, rates, rules, sheet.label)
        by_tenant.setdefault(tenant, []).append(share)
    for tenant, line in sheet.corrections:
        by_tenant.setdefault(tenant, []).append(line)
    daily = _daily(store, rules, sheet.label, currencies, rates)
    return [
        _statement(tenant, lines, currencies.get(tenant, ""), daily.get(tenant, ()), rules, sheet)
        for tenant, lines in sorted(by_tenant.items())
        if lines
    ]


def _converted(each: TenantLine, quote: str, rates: Rates, rules: SettlementRules, label: str) -> StatementLine:
    at = rules.periods.window(label, each.tenant).end - 1
    return in_currency(each.line, each.currency, each.cost_currency, quote, rates, at)


def _share(
    owner: str,
    caller: str | None,
    line: StatementLine,
    currencies: dict[str, str],
    rates: Rates,
    rules: SettlementRules,
    label: str,
) -> tuple[str, StatementLine]:
    """(tenant, line) of a part of a service in that tenant's currency. A caller without a line of its own has the owner's, unless the settings say
    another. Where no rate leads to it, the part stays with the owner, so that nothing of the service is lost."""
    if caller is None:
        return owner, line
    base = currencies[owner]
    quote = currencies.setdefault(caller, rules.currency_of(caller) or base)
    at = rules.periods.window(label, caller).end - 1
    if rates.at(base, quote, at) is None:
        told = f"{line.description} -> {caller} ({UNATTRIBUTED}: {NO_RATE.format(base=base, quote=quote)})"
        return owner, replace(line, description=told, reason=UNATTRIBUTED)
    return caller, in_currency(line, base, base, quote, rates, at)


def _currencies(raw: Sequence[TenantLine], rules: SettlementRules, sheet: Sheet) -> dict[str, str]:
    """Tenant -> what its statement is in: as the settings say, else what most of its lines are priced in, else what the estate's are."""
    counts: dict[str, dict[str, int]] = {}
    everybody: dict[str, int] = {}
    for each in raw:
        own = counts.setdefault(each.tenant, {})
        if each.currency is not None:
            own[each.currency] = own.get(each.currency, 0) + 1
            everybody[each.currency] = everybody.get(each.currency, 0) + 1
    usual = _most(everybody) or ""
    for tenant, _line in sheet.corrections:
        counts.setdefault(tenant, {})
    return {tenant: rules.currency_of(tenant) or _most(own) or usual for tenant, own in sorted(counts.items())}


def _most(counts: Mapping[str, int]) -> str | None:
    return min(counts, key=lambda name: (-counts[name], name)) if counts else None


def _statement(
    tenant: str,
    lines: Sequence[StatementLine],
    currency: str,
    daily: Sequence[tuple[Instant, int]],
    rules: SettlementRules,
    sheet: Sheet,
) -> Statement:
    window = rules.periods.window(sheet.label, tenant)
    taxed = [*lines, *tax_lines(tenant, lines, rules.taxes, window)]
    number = sheet.numbers.get(tenant)
    return Statement(
        number=number,
        period=sheet.label,
        tenant=tenant,
        window=window,
        time_zone=rules.periods.zone_of(tenant),
        state="draft" if sheet.closed_at is None else "shadow" if sheet.shadow else "closed",
        closed_at=sheet.closed_at,
        as_of=sheet.as_of,
        currency=currency,
        lines=tuple(_distinct(taxed)),
        daily=tuple(daily),
        previous_micro=sheet.previous.get(tenant),
        versions=dict(sorted(sheet.versions.items())),
    )


def _distinct(lines: Sequence[StatementLine]) -> list[StatementLine]:
    """The lines with ids that differ: where two are about the same, the later ones are numbered."""
    seen: dict[str, int] = {}
    found = []
    for line in lines:
        count = seen[line.line_id] = seen.get(line.line_id, 0) + 1
        found.append(line if count == 1 else replace(line, line_id=f"{line.line_id}-{count}"))
    return found


def _daily(
    store: Store, rules: SettlementRules, label: str, currencies: Mapping[str, str], rates: Rates
) -> dict[str, list[tuple[Instant, int]]]:
    """Tenant -> (start of day in its zone, what was charged for it). Days of one currency are summed before they are converted."""
    found: dict[str, dict[Instant, int]] = {}
    rows = store.rows(model_text("daily"))
    sums: dict[tuple[str, str], dict[Instant, int]] = {}
    starts: dict[str, Sequence[Instant]] = {}
    for tenant, currency, grain, amount in rows:
        zone = rules.periods.zone_of(tenant)
        if tenant not in starts:
            starts[tenant] = day_starts(rules.periods.window(label, tenant), zone)
        start = starts[tenant][_place(starts[tenant], grain)]
        own = sums.setdefault((tenant, currency), {})
        own[start] = own.get(start, 0) + amount
    for (tenant, currency), amounts in sums.items():
        rate = rates.at(currency, currencies[tenant], rules.periods.window(label, tenant).end - 1)
        days = found.setdefault(tenant, dict.fromkeys(starts[tenant], 0))
        for start, amount in amounts.items():
            if rate is not None:
                days[start] += rate.converted(amount)
    return {tenant: sorted(days.items()) for tenant, days in found.items()}


def _place(starts: Sequence[Instant], instant: Instant) -> int:
    return max(0, bisect_right(starts, instant) - 1)
