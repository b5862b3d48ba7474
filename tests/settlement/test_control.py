"""The control page: what finance checks, out of the ledgers or out of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from steelyard.answers.contract import Table
from steelyard.facts.bill_line import BillLine
from steelyard.primitives.instant import HOUR_US
from steelyard.primitives.unknown import Unknown
from steelyard.settlement.assembly import Sheet, statements
from steelyard.settlement.control import ControlSpec, control_tables
from steelyard.settlement.periods import PeriodRules
from steelyard.settlement.rules import SettlementRules, TaxRule
from steelyard.settlement.snapshot import closed_statements
from steelyard.settlement.tables import lay_out_ledgers
from tests.settlement.conftest import Site
from tests.settlement.estate import at, book, closed, discount, micro, posted
from tests.settlement.test_closing import folder_of


def page(
    site: Site, rules: SettlementRules | None = None, residual: int = 0, **declared: tuple[str, int]
) -> dict[str, Table]:
    wanted = rules or SettlementRules()
    with site.store.reader() as view:
        lay_out_ledgers(view, wanted.periods, "2026-11")
        found = statements(view, wanted, Sheet("2026-11", at("12-02")))
        return {
            table.name: table for table in control_tables(view, found, ControlSpec(wanted, residual, declared=declared))
        }


def rows(table: Table) -> list[dict[str, Any]]:
    return [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]


def bill(resource: str | None, billed: int | None, key: str, category: str = "Usage", seen: str = "12-01") -> BillLine:
    return BillLine(
        source="bill", natural_key=key, occurred_at=at("11-02"), observed_at=at(seen), ended_at=at("11-03"), provider="cloud", invoice_id="I-1",
        resource_id=resource, charge_category=category, currency="USD", billed_micro=billed, list_micro=billed,
    )  # fmt: skip


def test_the_accounts_sum_to_the_supply_and_the_residual_is_0(site: Site) -> None:
    found = rows(page(site)["trial_balance"])
    assert [(row["account"], row["gpu_hours"], row["cost_micro"]) for row in found] == [
        ("idle", 996.0, micro(996)), ("tenant", 444.0, micro(444)), ("total", 1440.0, micro(1440)), ("supply", 1440.0, None), ("residual", 0.0, 0),
    ]  # fmt: skip


def test_hours_of_tenants_with_months_of_their_own_stand_between_the_accounts_and_the_supply(site: Site) -> None:
    rules = SettlementRules(periods=PeriodRules(tenant_zones={"team-b": "America/New_York"}))  # November: an hour more
    with site.store.reader() as view:
        lay_out_ledgers(view, rules.periods, "2026-11")
        draft, snapshot, broken = (
            {row["account"]: row["gpu_hours"] for row in rows(control_tables(view, [], spec)[0])}
            for spec in (
                ControlSpec(rules, 0, 1440 * HOUR_US), ControlSpec(rules, 0), ControlSpec(rules, 5, 1440 * HOUR_US)
            )
        )  # fmt: skip
    assert draft["supply"] == 1440.0
    assert draft["months_of_their_own"] == draft["total"] - draft["supply"] != 0
    assert isinstance(snapshot["supply"], Unknown), "never the accounts' own sum"
    assert isinstance(broken["months_of_their_own"], Unknown)


def test_books_that_do_not_close_are_unknown_and_not_0(site: Site) -> None:
    last = rows(page(site, residual=5)["trial_balance"])[-1]
    assert isinstance(last["cost_micro"], Unknown)
    assert last["gpu_hours"] > 0


def test_what_was_asked_for_is_laid_beside_all_that_it_cost(site: Site) -> None:
    found = page(site)
    assert rows(found["recovery"]) == [
        {
            "currency": "USD",
            "charge_micro": micro(852),
            "cost_micro": micro(1440),
            "over_recovery_micro": 0,
            "under_recovery_micro": micro(588),
        }
    ]
    assert [(row["tenant"], row["margin_micro"]) for row in rows(found["recovery_by_tenant"])] == [
        ("team-a", micro(264)),
        ("team-b", micro(144)),
    ]


def test_declared_totals_are_tied_to_the_book(site: Site) -> None:
    found = rows(page(site, depreciation=("USD", micro(1_000)), power=("USD", micro(500)))["tie_out"])
    assert found[-1] == {
        "name": "all declared",
        "currency": "USD",
        "declared_micro": micro(1500),
        "booked_micro": micro(1440),
        "difference_micro": -micro(60),
    }


def test_a_bill_is_matched_both_ways_and_what_is_no_usage_stands_apart(site: Site) -> None:
    posted(site.store, [
        bill("/vm/n1", micro(1_500), "1", seen="12-01"), bill("/vm/n1", micro(1_600), "1", seen="12-02"), bill("/vm/other", micro(9), "2"),
        bill("/vm/n1", micro(100), "3", "Tax"), bill(None, micro(3), "4"),
    ])  # fmt: skip
    found = page(site)
    assert rows(found["bill_matched"]) == [
        {"resource": "n1", "currency": "USD", "booked_micro": micro(1440), "list_micro": micro(1600), "billed_micro": micro(1600),
         "difference_micro": micro(160)}
    ]  # fmt: skip
    assert [row["resource"] for row in rows(found["bill_without_resource_of_ours"])] == ["/vm/other"]
    assert rows(found["cost_without_bill"]) == []
    assert [(row["category"], row["billed_micro"]) for row in rows(found["bill_beside_usage"])] == [
        ("Tax", micro(100)),
        ("Usage", micro(3)),
    ]


def test_a_node_that_nobody_billed_and_a_line_without_an_amount_are_told(site: Site) -> None:
    posted(site.store, [bill("other", None, "2")])
    found = page(site)
    assert [row["resource"] for row in rows(found["cost_without_bill"])] == ["n1"]
    assert isinstance(rows(found["bill_without_resource_of_ours"])[0]["billed_micro"], Unknown)


def test_a_bill_with_a_line_that_tells_no_amount_is_no_difference(site: Site) -> None:
    posted(site.store, [bill("/vm/n1", micro(1_600), "1"), bill("/vm/n1", None, "2")])
    (found,) = rows(page(site)["bill_matched"])
    assert found["booked_micro"] == micro(1440)
    assert all(isinstance(found[name], Unknown) for name in ("list_micro", "billed_micro", "difference_micro"))


def test_money_that_leaves_out_what_has_no_price_is_no_margin_and_no_recovery(site: Site) -> None:
    posted(site.store, [*book(2, cost=None), discount("team-b", 100_000, 2)])
    found = page(site, declared_total=("USD", micro(7)))
    (recovered,) = rows(found["recovery"])
    assert recovered["charge_micro"] == micro(852)
    unknown = ("cost_micro", "over_recovery_micro", "under_recovery_micro")
    assert all(isinstance(recovered[name], Unknown) for name in unknown)
    by_tenant = rows(found["recovery_by_tenant"])
    assert [(row["tenant"], row["charge_micro"]) for row in by_tenant] == [
        ("team-a", micro(528)), ("team-b", micro(324))
    ]  # fmt: skip
    assert all(isinstance(row[name], Unknown) for row in by_tenant for name in ("cost_micro", "margin_micro"))
    assert isinstance(rows(found["tie_out"])[-1]["difference_micro"], Unknown)
    totals = [row for row in rows(found["trial_balance"]) if row["account"] == "total"]
    assert [(row["gpu_hours"], row["unpriced_gpu_hours"]) for row in totals] == [(1440.0, 1440.0)]
    assert isinstance(totals[0]["cost_micro"], Unknown)


def test_lines_without_a_price_stand_apart_by_kind(site: Site) -> None:
    posted(site.store, book(2, charge=None))
    assert [(row["currency"], row["lines"]) for row in rows(page(site)["lines_by_kind"])] == [(None, 3)]
    assert isinstance(rows(page(site)["lines_by_kind"])[0]["amount_micro"], Unknown)


@pytest.mark.parametrize(
    ("policy", "parts"),
    [("none", []), ("even", [micro(498), micro(498)]), ("proportional", [micro(592.216216), micro(403.783784)])],
)
def test_idle_is_shared_by_policy_apart_from_statements(site: Site, policy: Any, parts: Sequence[int]) -> None:
    found = page(site, SettlementRules(idle_sharing=policy))
    shared = [row["idle_micro"] for row in rows(found["idle_shared"])]
    assert shared == list(parts)
    assert sum(shared) in (0, micro(996))
    assert rows(found["recovery"])[0]["charge_micro"] == micro(852)


def test_lines_are_summed_by_kind_and_estimated_ones_are_listed(site: Site) -> None:
    found = page(site, SettlementRules(taxes=(TaxRule("VAT", 100_000),)))
    assert [(row["kind"], row["lines"], row["amount_micro"]) for row in rows(found["lines_by_kind"])] == [
        ("tax", 2, micro(85.2)),
        ("usage", 3, micro(852)),
    ]
    assert rows(found["estimated"]) == []
    assert rows(found["unpriced"]) == []


def test_the_page_of_a_closed_period_comes_out_of_its_snapshot(site: Site) -> None:
    before = page(site)
    closed(site.store, site.directory)
    site.store.execute("DELETE FROM ledger.cost_entry; DELETE FROM ledger.charge_entry")
    with site.store.reader() as view:
        found = closed_statements(view, folder_of(site))
        after = {table.name: table for table in control_tables(view, found, ControlSpec(SettlementRules(), 0))}
    assert {name: list(table.rows) for name, table in after.items()} == {
        name: list(table.rows) for name, table in before.items()
    }
