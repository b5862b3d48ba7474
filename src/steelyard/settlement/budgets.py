"""Budgets: what a tenant may be asked for in a period, how much of it is gone, and where its end is going.

The forecast is a plain one, on purpose: each day that is left costs the mean of the days before (up to 28, at least 3), give or take what whole
stretches of that length strayed from it. The trick to know: the interval is not assumed but measured, by making the same forecast at each earlier
day and looking how far off it was; with too few days to do so there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from steelyard.primitives.errors import NotFound, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, HOUR_US, Instant, Window, format_instant
from steelyard.settlement.people import is_same_person
from steelyard.settlement.rules import PPM, SettlementRules
from steelyard.settlement.statement import Statement
from steelyard.settlement.tables import model_text
from steelyard.store import Store

METHOD: Final = "mean_of_days"
DAYS_MAX: Final = 28
DAYS_MIN: Final = 3
BACKTESTS_MIN: Final = 4
LEVEL_PERCENT: Final = 80
BudgetState = Literal["proposed", "approved"]
Verdict = Literal["ok", "warning", "critical", "unknown"]
EXIT_CODES: Final[Mapping[Verdict, int]] = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}
"""As Nagios takes them."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A version of a tenant's budget for a period; the highest that is approved counts."""

    tenant: str
    label: str
    version: int
    amount_micro: int
    currency: str
    state: BudgetState
    set_by: str
    set_at: Instant
    approved_by: str | None
    approved_at: Instant | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the period comes to at its end. low, high: between them it lies, as often as LEVEL_PERCENT says, None = too few days to tell. error_ppm:
    by how much earlier forecasts of the same reach missed, in the mean, of what came; None = none could be made."""

    amount_micro: int
    low_micro: int | None
    high_micro: int | None
    days_count: int
    backtests_count: int
    error_ppm: int | None


@dataclass(frozen=True, slots=True)
class Check:
    """How a budget stands. quota_gpus: so many GPUs on average, from now to the period's end, stay within it; None = no price is known."""

    budget: Budget
    spent_micro: int
    used_ppm: int | None
    forecast: Forecast | None
    verdict: Verdict
    reasons: Sequence[str]
    quota_gpus: float | None


def set_budget(store: Store, rules: SettlementRules, wanted: Budget, role: str) -> Budget:
    """Put a new version down: approved at once where the settings ask nobody, or the one who sets it may approve nothing of their own, proposed.

    Raises UsageError for an amount below 0, and a period that is none.
    """
    rules.periods.window(wanted.label, wanted.tenant)
    if not 0 <= wanted.amount_micro < 2**62:
        raise UsageError(_("a budget is an amount of 0 or more"))
    asked = rules.approvers.get("budget", ())
    state: BudgetState = "proposed" if asked else "approved"
    with store.transaction():
        known = [each.version for each in budgets(store, wanted.tenant) if each.label == wanted.label]
        version = max(known, default=0) + 1
        store.execute(
            "INSERT INTO store.budget VALUES (?, ?, ?, ?, ?, ?, ?, make_timestamp(?::BIGINT), NULL, NULL)",
            [
                wanted.tenant,
                wanted.label,
                version,
                wanted.amount_micro,
                wanted.currency,
                state,
                wanted.set_by,
                wanted.set_at,
            ],
        )
    return budget(store, wanted.tenant, wanted.label, version)


def approve(
    store: Store, rules: SettlementRules, key: tuple[str, str, int], actor: str, role: str, now: Instant
) -> Budget:
    """Let a proposed version count. Raises UsageError where the role may not, the actor proposed it, or it is no proposal."""
    asked = rules.approvers.get("budget", ())
    found = budget(store, *key)
    if found.state != "proposed":
        raise UsageError(_("version {version} of the budget is approved already").format(version=found.version))
    if asked and role not in asked:
        raise UsageError(
            _("a budget is approved by one of {roles}; found {role}").format(roles=", ".join(asked), role=role)
        )
    if is_same_person(actor, found.set_by):
        raise UsageError(_("{actor} proposed the budget, so somebody else has to approve it").format(actor=actor))
    with store.transaction():
        store.execute(
            "UPDATE store.budget SET state = 'approved', approved_by = ?, approved_at = make_timestamp(?::BIGINT) "
            "WHERE tenant = ? AND label = ? AND version = ?",
            [actor, now, *key],
        )
    return budget(store, *key)


def budgets(store: Store, tenant: str | None = None) -> list[Budget]:
    """All versions, by tenant, period and version."""
    rows = store.rows(
        "SELECT tenant, label, version, amount_micro, currency, state, set_by, epoch_us(set_at), approved_by, epoch_us(approved_at) "
        "FROM store.budget WHERE $tenant IS NULL OR tenant = $tenant ORDER BY tenant, label, version",
        {"tenant": tenant},
    )
    return [Budget(*row) for row in rows]


def budget(store: Store, tenant: str, label: str, version: int) -> Budget:
    """One version. Raises NotFound where there is none."""
    for each in budgets(store, tenant):
        if (each.label, each.version) == (label, version):
            return each
    raise NotFound(
        _("{tenant} has no version {version} of a budget for {label}").format(
            tenant=tenant[:60], version=version, label=label[:40]
        )
    )


def in_force(store: Store, label: str, tenant: str | None = None) -> list[Budget]:
    """The budgets that count in a period, by tenant."""
    found: dict[str, Budget] = {}
    for each in budgets(store, tenant):
        if each.label == label and each.state == "approved":
            found[each.tenant] = each
    return list(found.values())


def daily_amounts(store: Store, tenant: str, currency: str, until: Instant) -> list[int]:
    """What each whole day before ``until`` came to in a currency, the oldest first, from the first day with any charge on; at most 84 days."""
    start = until - 3 * DAYS_MAX * DAY_US
    days: dict[int, int] = {}
    for grain, its, amount, _quantity in store.rows(
        model_text("daily_charge"), {"tenant": tenant, "from_us": start, "to_us": until}
    ):
        if its == currency:
            days[(grain - start) // DAY_US] = days.get((grain - start) // DAY_US, 0) + amount
    return [days.get(number, 0) for number in range(min(days), 3 * DAYS_MAX)] if days else []


def forecast(spent_micro: int, days: Sequence[int], left_days: float) -> Forecast | None:
    """What is spent and what the days that are left will cost. None where fewer than DAYS_MIN days are known."""
    if len(days) < DAYS_MIN:
        return None
    to_come = round(_mean(days) * left_days)
    reach = max(1, min(round(left_days), len(days) // 2))
    misses = [(sum(days[at : at + reach]), _mean(days[:at]) * reach) for at in range(DAYS_MIN, len(days) - reach + 1)]
    if len(misses) < BACKTESTS_MIN:
        return Forecast(spent_micro + to_come, None, None, len(days), len(misses), None)
    off = sorted(came - said for came, said in misses)
    share = (100 - LEVEL_PERCENT) / 200
    scale = left_days / reach
    low, high = (_quantile(off, share) * scale, _quantile(off, 1 - share) * scale)
    came_total = sum(came for came, _said in misses)
    error = None if not came_total else round(sum(abs(came - said) for came, said in misses) * PPM / came_total)
    end = spent_micro + to_come
    return Forecast(
        end, max(spent_micro, round(end + min(0, low))), round(end + max(0, high)), len(days), len(misses), error
    )


def _mean(days: Sequence[int]) -> float:
    last = days[-DAYS_MAX:]
    return sum(last) / len(last)


def _quantile(values: Sequence[float], share: float) -> float:
    """By linear interpolation between the values next to it."""
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def check(store: Store, rules: SettlementRules, found: Budget, statement: Statement | None, now: Instant) -> Check:
    """How a budget stands by the tenant's statement (None: it has none) and the days before ``now``."""
    window = rules.periods.window(found.label, found.tenant)
    spent = 0 if statement is None else statement.amount_micro
    unpriced = 0 if statement is None else statement.unpriced_count
    other = statement is not None and statement.currency != found.currency
    left_days = max(0.0, (window.end - max(now, window.start)) / DAY_US)
    days = daily_amounts(store, found.tenant, found.currency, now - now % DAY_US)
    expected = Forecast(spent, spent, spent, len(days), 0, None) if not left_days else forecast(spent, days, left_days)
    used = spent * PPM // found.amount_micro if found.amount_micro else (None if not spent else PPM)
    reasons = []
    verdict: Verdict = "ok"
    if other or (unpriced and not spent):
        return Check(
            found,
            spent,
            None,
            None,
            "unknown",
            [_("what was used has no price in {currency}").format(currency=found.currency)],
            None,
        )
    crossed = [each for each in rules.alerts_ppm if used is not None and used >= each]
    if crossed:
        verdict = "critical" if max(crossed) >= PPM else "warning"
        reasons.append(_("{percent} of the budget is gone").format(percent=f"{(used or 0) / 10_000:.1f} %"))
    if expected is not None and expected.amount_micro > found.amount_micro:
        verdict = "warning" if verdict == "ok" else verdict
        reasons.append(_("the period is going to end above the budget"))
    if unpriced:
        reasons.append(_("{count} lines have no price and are not counted").format(count=unpriced))
    return Check(found, spent, used, expected, verdict, reasons, _quota(store, found, spent, window, now))


def _quota(store: Store, found: Budget, spent: int, window: Window, now: Instant) -> float | None:
    """What is left of the budget, at the mean price of a GPU-hour of the last four weeks, over the hours that are left."""
    left_hours: float = (window.end - max(now, window.start)) / HOUR_US
    rows = [
        row
        for row in store.rows(
            model_text("daily_charge"), {"tenant": found.tenant, "from_us": now - DAYS_MAX * DAY_US, "to_us": now}
        )
        if row[1] == found.currency
    ]
    amount, quantity = sum(row[2] for row in rows), sum(row[3] for row in rows)
    if left_hours <= 0 or amount <= 0 or quantity <= 0:
        return None
    price: float = amount / (quantity / HOUR_US)
    return max(0.0, (found.amount_micro - spent) / price / left_hours)


def budget_json(each: Budget) -> dict[str, Any]:
    """The documented JSON form."""
    found = {name: getattr(each, name) for name in each.__slots__}
    stamps = {
        "set_at": format_instant(each.set_at),
        "approved_at": None if each.approved_at is None else format_instant(each.approved_at),
    }
    return {**found, **stamps}


def check_json(each: Check) -> dict[str, Any]:
    """The documented JSON form."""
    expected = each.forecast
    return {
        **budget_json(each.budget),
        "spent_micro": each.spent_micro,
        "used_percent": None if each.used_ppm is None else each.used_ppm / 10_000,
        "forecast_micro": None if expected is None else expected.amount_micro,
        "forecast_low_micro": None if expected is None else expected.low_micro,
        "forecast_high_micro": None if expected is None else expected.high_micro,
        "forecast_method": METHOD,
        "forecast_level_percent": LEVEL_PERCENT,
        "backtests_count": 0 if expected is None else expected.backtests_count,
        "backtest_error_percent": None
        if expected is None or expected.error_ppm is None
        else expected.error_ppm / 10_000,
        "verdict": each.verdict,
        "reasons": list(each.reasons),
        "quota_gpus": each.quota_gpus,
    }
