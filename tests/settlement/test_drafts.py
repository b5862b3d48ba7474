"""Drafts: what the ledgers make of a period, tenant by tenant."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from steelyard.facts.base import Fact
from steelyard.facts.service_use import ServiceUse
from steelyard.facts.tenancy import Tenancy
from steelyard.primitives.instant import HOUR_US
from steelyard.settlement.added_lines import credit_lines, tax_lines
from steelyard.settlement.exchange import Rates, in_currency
from steelyard.settlement.periods import PeriodRules
from steelyard.settlement.rules import CreditRule, SettlementRules, TaxRule, rules_of
from steelyard.settlement.statement import Statement, StatementLine
from steelyard.store import Store
from tests.settlement.conftest import Site
from tests.settlement.estate import at, book, cards, discount, drafts, micro, pod, posted, rate, story, watched


def of(facts: list[Fact], rules: SettlementRules | None = None, label: str = "2026-11") -> dict[str, Statement]:
    with Store.open_memory() as store:
        posted(store, facts)
        return drafts(store, label, rules)


def tree(line: int, match: str, team: str, start: str | None = None, end: str | None = None) -> Tenancy:
    return Tenancy(
        source="declared", natural_key=f"1/{line}", occurred_at=at("10-01"), observed_at=at("10-01"), version=1, position=line, by="namespace",
        match=match, team=team, department="research", cost_centre=f"cc-{team}",
        valid_from_at=at(start) if start else None, valid_to_at=at(end) if end else None,
    )  # fmt: skip


def used(caller: str | None, prompt: int | None, completion: int | None, day: str = "11-03") -> ServiceUse:
    return ServiceUse(
        source="gateway", natural_key=f"team-a/chat/{caller}/{day}", occurred_at=at(day), observed_at=at(day), service="team-a/chat",
        caller=caller, started_at=at(day), ended_at=at(day) + HOUR_US, prompt_tokens=prompt, completion_tokens=completion,
    )  # fmt: skip


def test_a_statement_is_the_share_times_the_price_less_the_discount(site: Site) -> None:
    found = drafts(site.store)
    assert {name: each.amount_micro for name, each in found.items()} == {
        "team-a": micro(480 + 48),
        "team-b": micro(324),
    }
    lab = found["team-b"].lines[0]
    assert (lab.quantity_gpu_us, lab.list_micro, lab.discount_micro) == (180 * HOUR_US, micro(360), micro(36))
    assert (lab.unit_price_micro, lab.per, lab.cost_micro) == (micro(2), "hour", micro(180))
    assert (lab.node, lab.device_uuid, lab.unit_kind, lab.normalised_gpu_us) == ("n1", "GPU-b", "vgpu", 180 * HOUR_US)


def test_the_days_sum_to_the_lines(site: Site) -> None:
    for each in drafts(site.store).values():
        assert sum(amount for _day, amount in each.daily) == each.amount_micro
        assert len(each.daily) == 30


def test_a_line_keeps_its_id_when_its_amount_moves(site: Site) -> None:
    before = [line.line_id for line in drafts(site.store)["team-a"].lines]
    posted(site.store, book(2, charge=micro(5)))
    after = drafts(site.store)["team-a"]
    assert [line.line_id for line in after.lines] == before
    assert after.amount_micro == micro(5 * 264)


def test_a_line_is_split_where_a_price_changes() -> None:
    new = book(1, charge=None, cost=None)[:1]
    first = book(1, charge=micro(2), valid_to_at=at("11-06"))[1:]
    second = book(1, charge=micro(3), valid_from_at=at("11-06"))[1:]
    later = [replace_key(line, "later") for line in second]
    found = of([watched(), *cards(), *pod("team-a/train", "11-01", "11-11"), *new, *first, *later])["team-a"]
    assert [(line.amount_micro, line.unit_price_micro) for line in found.lines] == [
        (micro(240), micro(2)),
        (micro(360), micro(3)),
    ]
    assert found.lines[0].ended_at == found.lines[1].started_at == at("11-06")
    assert [line.cost_micro for line in found.lines] == [micro(120), micro(120)]


def replace_key(fact: Fact, suffix: str) -> Fact:
    return msgspec.structs.replace(fact, natural_key=f"{fact.natural_key}-{suffix}")


def test_a_reorganisation_splits_a_line_at_its_instant() -> None:
    facts = [*story(), tree(1, "team-a", "vision", end="11-06"), tree(2, "team-a", "speech", start="11-06")]
    lines = [line for line in of(facts)["team-a"].lines if line.pod == "train"]
    assert [(line.team, line.cost_centre, line.amount_micro) for line in lines] == [
        ("vision", "cc-vision", micro(240)),
        ("speech", "cc-speech", micro(240)),
    ]


def test_what_changes_for_others_splits_no_line_and_moves_no_amount() -> None:
    dearer = [
        msgspec.structs.replace(replace_key(line, "h100"), price_id="h100")
        for line in book(1, charge=micro(3), cost=None, model="H100", valid_from_at=at("11-06"))[1:]
    ]
    facts = [*story(), *dearer, tree(1, "team-a", "vision", end="11-06"), tree(2, "team-a", "speech", start="11-06")]
    with Store.open_memory() as store:
        posted(store, facts)
        found, apart = drafts(store), drafts(store, rules=SettlementRules(joins_lines=False))
    assert [len(each["team-b"].lines) for each in (found, apart)] == [1, 2]
    assert [len(each["team-a"].lines) for each in (found, apart)] == [3, 3]
    (joined,), (first, second) = found["team-b"].lines, apart["team-b"].lines
    assert (joined.line_id, joined.started_at, joined.ended_at) == (first.line_id, first.started_at, second.ended_at)
    summed = (
        "quantity_gpu_us", "normalised_gpu_us", "list_micro", "discount_micro", "amount_micro", "cost_micro", "used_gpu_us", "used_upper_gpu_us"
    )  # fmt: skip
    for name in summed:
        parts = [getattr(line, name) for line in (first, second)]
        assert getattr(joined, name) == (None if None in parts else sum(parts)), name


def test_a_discount_that_begins_within_the_month_splits_the_line_of_its_tenant_alone() -> None:
    later = replace_key(discount("team-b", 500_000), "later")
    facts = [*story()[:-1], msgspec.structs.replace(later, valid_from_at=at("11-06"))]
    found = of(facts)
    assert [line.discount_micro for line in found["team-b"].lines] == [0, micro(150)]
    assert len(found["team-a"].lines) == 2


def test_a_close_that_knew_of_no_joining_joins_nothing() -> None:
    kept = json.loads(SettlementRules().to_json())
    assert rules_of(json.dumps(kept)).joins_lines
    del kept["joins_lines"]
    assert not rules_of(json.dumps(kept)).joins_lines


def test_a_line_without_a_price_has_no_amount_and_says_why() -> None:
    found = of([watched(), *cards(), *pod("team-a/train", "11-01", "11-02"), *book(1, charge=None)])["team-a"]
    assert (found.amount_micro, found.unpriced_count) == (0, 1)
    assert (found.lines[0].amount_micro, found.lines[0].list_micro, found.lines[0].unit_price_micro) == (
        None,
        None,
        None,
    )
    assert found.lines[0].unpriced_reason == "price not known"
    assert found.lines[0].cost_micro == micro(24)


def test_months_of_tenants_in_other_zones_share_no_hour_and_lose_none() -> None:
    rules = SettlementRules(periods=PeriodRules(tenant_zones={"team-b": "Asia/Shanghai"}))
    with Store.open_memory() as store:
        posted(store, [watched("10-30"), *cards("10-30"), *pod("team-b/lab", "10-30", None, "GPU-b", 256), *book()])
        months = [drafts(store, label, rules)["team-b"] for label in ("2026-10", "2026-11", "2026-12")]
        whole = store.rows("SELECT sum(charge_micro)::BIGINT FROM ledger.charge")[0][0]
    assert months[1].window.start == at("2026-10-31T16:00:00Z")
    assert months[1].amount_micro == micro(720 * 0.25 * 2)
    assert sum(each.amount_micro for each in months) == whole
    assert len(months[1].daily) == 30


def test_tax_is_a_row_of_its_own_by_its_validity(site: Site) -> None:
    rules = SettlementRules(
        taxes=(
            TaxRule("VAT", 60_000, valid_to_at=at("11-15")),
            TaxRule("VAT", 90_000, valid_from_at=at("11-15")),
            TaxRule("levy", 10_000, tenant="team-b"),
        )
    )
    found = drafts(site.store, rules=rules)
    taxes = [(line.description, line.amount_micro) for line in found["team-a"].lines if line.kind == "tax"]
    assert taxes == [("VAT 6 %", micro(28.8)), ("VAT 9 %", micro(4.32))]
    assert found["team-a"].amount_micro == micro(528 + 28.8 + 4.32)
    assert [line.description for line in found["team-b"].lines if line.kind == "tax"] == ["VAT 6 %", "levy 1 %"]


def test_what_has_no_price_is_not_taxed(site: Site) -> None:
    line = replace(drafts(site.store)["team-a"].lines[0], amount_micro=None)
    assert list(tax_lines("team-a", [line], (TaxRule("VAT", 60_000),), PeriodRules().window("2026-11"))) == []


def down(line: StatementLine, hours: int) -> StatementLine:
    return replace(line, quantity_gpu_us=hours * HOUR_US, amount_micro=0, list_micro=0, discount_micro=0)


def test_a_credit_is_its_part_of_the_list_price_of_what_was_down(site: Site) -> None:
    line = down(drafts(site.store)["team-a"].lines[0], 3)
    found = list(credit_lines("team-a", [line], [line], (CreditRule("credit", 500_000),)))
    assert [(each.kind, each.amount_micro, each.reference, each.reason) for each in found] == [
        ("credit", -micro(3), line.line_id, "held_down")
    ]
    assert found[0].line_id != line.line_id


@pytest.mark.parametrize(
    "rule",
    [CreditRule("credit", 500_000, tenant="team-b"), CreditRule("credit", 500_000, least_gpu_us=4 * HOUR_US)],
    ids=["other", "too little"],
)
def test_no_credit_where_the_rule_does_not_hold(site: Site, rule: CreditRule) -> None:
    line = down(drafts(site.store)["team-a"].lines[0], 3)
    assert list(credit_lines("team-a", [line], [line], (rule,))) == []


def test_a_credit_without_a_unit_price_has_no_amount_and_says_why(site: Site) -> None:
    line = replace(down(drafts(site.store)["team-a"].lines[0], 3), unit_price_micro=None)
    found = list(credit_lines("team-a", [line], [line], (CreditRule("credit", 500_000),)))
    assert found[0].amount_micro is None
    assert found[0].unpriced_reason


def test_a_statement_in_another_currency_is_converted_once_per_line_by_the_rate_of_the_periods_end() -> None:
    rates = [
        rate("USD/CNY", 7_000_000_000, "11-01"),
        rate("USD/CNY", 7_123_456_789, "11-20"),
        rate("USD/CNY", 9_000_000_000, "12-01"),
    ]
    found = of([*story(), *rates], SettlementRules(currency="CNY"))
    lines = found["team-b"].lines
    assert found["team-b"].currency == "CNY"
    assert lines[0].amount_micro == 2_308_000_000  # 324 x 7.123456789, rounded half up
    assert lines[0].list_micro - lines[0].discount_micro == lines[0].amount_micro  # type: ignore[operator]  # both are known here
    assert found["team-b"].amount_micro == sum(line.amount_micro or 0 for line in lines)


def test_without_a_rate_a_line_has_no_amount_and_says_so() -> None:
    found = of(story(), SettlementRules(tenant_currencies={"team-b": "EUR"}))
    assert (found["team-b"].lines[0].amount_micro, found["team-b"].lines[0].unpriced_reason) == (
        None,
        "no exchange rate USD/EUR",
    )
    assert found["team-b"].lines[0].cost_micro is None
    assert found["team-a"].currency == "USD"


def test_an_inverse_rate_serves_where_there_is_no_direct_one(site: Site) -> None:
    line = drafts(site.store)["team-b"].lines[0]
    converted = in_currency(
        line, "USD", "USD", "CNY", Rates({("CNY", "USD"): [(at("11-01"), 125_000_000)]}), at("11-30")
    )
    assert (converted.amount_micro, converted.cost_micro) == (micro(324 * 8), micro(180 * 8))


def serving() -> list[Fact]:
    found = pod("team-a/chat-1", "11-01", "11-11", "GPU-a")
    return [
        watched(), *cards(), *book(), *found,
        *pod("team-b/lab", "11-01", "11-02", "GPU-b", 256),
    ]  # fmt: skip


def test_a_services_charge_is_split_to_its_callers_and_the_sum_stays() -> None:
    with Store.open_memory() as store:
        posted(
            store,
            [
                *serving(),
                used("team-b", 1_000, 100),
                used("team-c", 300, 0),
                used(None, 7, 7),
            ],
        )
        store.execute("UPDATE dim.pod SET workload_name = 'chat' WHERE pod_uid = 'chat-1'")
        split = drafts(store)
        store.execute("UPDATE dim.pod SET workload_name = 'other' WHERE pod_uid = 'chat-1'")
        plain = drafts(store)
    assert sum(each.amount_micro for each in split.values()) == sum(each.amount_micro for each in plain.values())
    costs = [sum(line.cost_micro or 0 for each in found.values() for line in each.lines) for found in (split, plain)]
    assert costs[0] == costs[1]
    owner = [line for line in split["team-a"].lines if line.kind == "service_share"]
    assert owner[0].amount_micro == -micro(480)
    # prompt 1, decoded 4: 1,400 of team-b, 300 of team-c, 35 of nobody that can be named
    unattributed = [line for line in owner if line.reason == "unattributed"]
    assert [line.amount_micro for line in unattributed] == [micro(480) * 35 // 1_735]
    assert split["team-c"].amount_micro in (micro(480) * 300 // 1_735, micro(480) * 300 // 1_735 + 1)


def test_a_service_of_which_a_row_does_not_tell_its_tokens_is_split_to_nobody_and_says_so() -> None:
    with Store.open_memory() as store:
        posted(store, [*serving(), used("team-b", 1_000, 100), used("team-d", None, 9, "11-04")])
        store.execute("UPDATE dim.pod SET workload_name = 'chat' WHERE pod_uid = 'chat-1'")
        found = drafts(store)
    assert {name: each.amount_micro for name, each in found.items()} == {"team-a": micro(480), "team-b": micro(12)}
    shares = [line for line in found["team-a"].lines if line.kind == "service_share"]
    assert [(line.amount_micro, line.reason) for line in shares] == [(-micro(480), None), (micro(480), "unattributed")]
    assert "1 rows do not tell their tokens" in shares[1].description


@pytest.mark.parametrize(
    ("owner", "caller", "known", "shares"),
    [
        ("USD", "EUR", True, {"team-a": -240, "team-b": 240 / 1.25}),
        ("EUR", "USD", True, {"team-a": -240 / 1.25, "team-b": 240}),
        ("USD", "EUR", False, {"team-a": 0}),
    ],
)
def test_a_share_of_a_service_is_in_its_callers_currency_and_stays_with_the_owner_where_no_rate_leads_there(
    owner: str, caller: str, known: bool, shares: dict[str, float]
) -> None:
    rules = SettlementRules(tenant_currencies={"team-a": owner, "team-b": caller})
    with Store.open_memory() as store:
        posted(store, [*serving(), used("team-b", 1_000, 0), used(None, 1_000, 0)])
        if known:
            posted(store, [rate("EUR/USD", 1_250_000_000, "11-01")])
        store.execute("UPDATE dim.pod SET workload_name = 'chat' WHERE pod_uid = 'chat-1'")
        found = drafts(store, rules=rules)
    split = {name: [line for line in each.lines if line.kind == "service_share"] for name, each in found.items()}
    assert {name: sum(line.amount_micro or 0 for line in lines) for name, lines in split.items() if lines} == {
        name: micro(amount) for name, amount in shares.items()
    }
    assert {name: sum(line.cost_micro or 0 for line in lines) for name, lines in split.items() if lines} == {
        name: micro(amount / 2) for name, amount in shares.items()
    }
    if not known:
        assert [line.description for line in split["team-a"]][
            1
        ] == "team-a/chat -> team-b (unattributed: no exchange rate USD/EUR)"


def test_a_caller_without_a_line_of_its_own_has_the_owners_currency() -> None:
    with Store.open_memory() as store:
        posted(store, [*serving(), used("team-z", 1_000, 0)])
        store.execute("UPDATE dim.pod SET workload_name = 'chat' WHERE pod_uid = 'chat-1'")
        found = drafts(store)
    assert (found["team-z"].currency, found["team-z"].amount_micro) == ("USD", micro(480))


def test_a_service_without_callers_stays_with_its_owner() -> None:
    with Store.open_memory() as store:
        posted(store, [*serving(), used("team-b", 0, 0)])
        store.execute("UPDATE dim.pod SET workload_name = 'chat' WHERE pod_uid = 'chat-1'")
        found = drafts(store)
    assert found["team-a"].amount_micro == micro(480)
    assert [line.kind for line in found["team-a"].lines] == ["usage"]
