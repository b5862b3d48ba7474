"""Budgets: who sets and approves them, how they stand, and where a period is going to end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.errors import UsageError
from steelyard.settlement.budgets import (
    EXIT_CODES,
    Budget,
    approve,
    budgets,
    check,
    check_json,
    forecast,
    in_force,
    set_budget,
)
from steelyard.settlement.rules import SettlementRules
from tests.settlement.conftest import Site
from tests.settlement.estate import at, drafts, micro

RULES = SettlementRules()
ASKED = SettlementRules(approvers={"budget": ("finance",)})


def wanted(
    amount: float, tenant: str = "team-b", label: str = "2026-11", currency: str = "USD", by: str = "ann"
) -> Budget:
    return Budget(tenant, label, 0, micro(amount), currency, "proposed", by, at("11-01"), None, None)


def test_a_budget_counts_at_once_where_nobody_is_asked_and_the_last_version_counts(site: Site) -> None:
    set_budget(site.store, RULES, wanted(100), "finance")
    second = set_budget(site.store, RULES, wanted(200), "finance")
    assert (second.version, second.state) == (2, "approved")
    assert [each.amount_micro for each in in_force(site.store, "2026-11")] == [micro(200)]
    assert len(budgets(site.store)) == 2


def test_a_proposal_counts_once_somebody_else_of_the_role_approves_it(site: Site) -> None:
    found = set_budget(site.store, ASKED, wanted(100), "finance")
    assert found.state == "proposed"
    assert in_force(site.store, "2026-11") == []
    key = ("team-b", "2026-11", 1)
    with pytest.raises(UsageError, match="one of finance"):
        approve(site.store, ASKED, key, "bob", "operator", at("11-02"))
    with pytest.raises(UsageError, match="somebody else"):
        approve(site.store, ASKED, key, "ann", "finance", at("11-02"))
    assert approve(site.store, ASKED, key, "bob", "finance", at("11-02")).approved_by == "bob"
    assert len(in_force(site.store, "2026-11")) == 1
    with pytest.raises(UsageError, match="approved already"):
        approve(site.store, ASKED, key, "carl", "finance", at("11-02"))
    with pytest.raises(UsageError, match="no version 7"):
        approve(site.store, ASKED, ("team-b", "2026-11", 7), "carl", "finance", at("11-02"))


@pytest.mark.parametrize("bad", [wanted(-1), wanted(1, label="2026-13")])
def test_what_is_no_budget_is_refused(site: Site, bad: Budget) -> None:
    with pytest.raises(UsageError):
        set_budget(site.store, RULES, bad, "finance")
    assert budgets(site.store) == []


@pytest.mark.parametrize(
    ("amount", "verdict"), [(1_000, "ok"), (400, "warning"), (324, "critical"), (1, "critical"), (0, "critical")]
)
def test_a_budget_is_judged_at_the_end_of_its_period_by_what_is_gone(site: Site, amount: float, verdict: str) -> None:
    found = set_budget(site.store, RULES, wanted(amount), "finance")
    statement = drafts(site.store)["team-b"]
    told = check(site.store, RULES, found, statement, at("12-02"))
    assert told.verdict == verdict
    assert told.spent_micro == micro(324)
    assert EXIT_CODES[told.verdict] == {"ok": 0, "warning": 1, "critical": 2}[verdict]
    assert told.forecast is not None
    assert told.forecast.amount_micro == micro(324)


def test_a_period_that_is_going_to_end_above_its_budget_is_a_warning(site: Site) -> None:
    found = set_budget(site.store, RULES, wanted(320), "finance")
    told = check(site.store, RULES, found, None, at("11-20"))
    assert (told.verdict, told.spent_micro) == ("ok", 0) or told.forecast is not None
    # 19 days of 10.8 each went before, so eleven more are expected
    assert told.forecast is not None
    assert told.forecast.amount_micro == micro(11 * 10.8)
    assert told.quota_gpus == pytest.approx(320 / 1.8 / (11 * 24))


def test_what_has_no_price_in_the_budgets_currency_is_unknown(site: Site) -> None:
    found = set_budget(site.store, RULES, wanted(100, currency="CNY"), "finance")
    told = check(site.store, RULES, found, drafts(site.store)["team-b"], at("12-02"))
    assert told.verdict == "unknown"
    assert check_json(told)["used_percent"] is None


def test_a_flat_past_is_forecast_exactly_and_without_error() -> None:
    found = forecast(100, [10] * 20, 5)
    assert found is not None
    assert (found.amount_micro, found.low_micro, found.high_micro, found.error_ppm) == (150, 150, 150, 0)


def test_too_few_days_give_no_forecast_and_few_give_no_interval() -> None:
    assert forecast(100, [10, 10], 5) is None
    found = forecast(100, [10, 10, 10, 10], 5)
    assert found is not None
    assert (found.low_micro, found.high_micro, found.error_ppm) == (None, None, None)


@given(st.lists(st.integers(0, 10**9), min_size=12, max_size=60), st.integers(1, 30), st.integers(0, 10**12))
def test_the_interval_holds_the_forecast_and_never_falls_below_what_is_spent(
    days: list[int], left: int, spent: int
) -> None:
    found = forecast(spent, days, float(left))
    assert found is not None
    if found.low_micro is not None and found.high_micro is not None:
        assert spent <= found.low_micro <= found.amount_micro + 1
        assert found.high_micro >= found.amount_micro - 1
