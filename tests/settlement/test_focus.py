"""FOCUS rows: what the statement says in FOCUS's words, with the arithmetic that no validator checks."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.instant import DAY_US, HOUR_US, Window
from steelyard.settlement.focus import FocusTable, FocusTerms, billing_periods, cost_and_usage, exact_product
from steelyard.settlement.focus_columns import VERSIONS, Version
from steelyard.settlement.statement import Statement, StatementLine
from tests.settlement.statements import CARD, CLOSED_AT, WINDOW, line, plain, statement, unpriced

Row = dict[str, Any]


def rows(*statements: Statement, version: Version = "1.4") -> list[Row]:
    return [dict(row) for row in cost_and_usage(statements, version).rows]


def micro(value: Decimal) -> int:
    return round(Fraction(value) * 10**6)


@st.composite
def priced_lines(draw: st.DrawFn) -> list[StatementLine]:
    """Usage of one or two cards at odd prices and quantities, some of it discounted, each amount rounded by itself."""
    made = []
    for number in range(draw(st.integers(1, 6))):
        price = draw(st.one_of(st.just(0), st.integers(1, 10**11)))
        quantity = draw(st.integers(0, 40 * DAY_US))
        listed = round(Fraction(price * quantity, HOUR_US)) + draw(st.integers(-3, 3)) * (price > 0)
        discount = round(Fraction(listed * draw(st.sampled_from((0, 5, 33))), 100))
        card = draw(st.sampled_from((CARD, "GPU-other")))
        made.append(line(str(number), device_uuid=card, unit_price_micro=price, quantity_gpu_us=quantity,
                         list_micro=listed, discount_micro=discount, amount_micro=listed - discount,
                         price_id=f"std@1/{price}"))  # fmt: skip
    return made


@pytest.mark.parametrize("version", VERSIONS)
@given(lines=priced_lines())
def test_unit_price_times_quantity_is_the_cost_exactly_and_the_list_amount_to_the_micro_unit(
    version: Version, lines: list[StatementLine]
) -> None:
    for row, each in zip(rows(statement(lines), version=version), lines, strict=True):
        listed, contracted = Fraction(row["ListCost"]), Fraction(row["ContractedCost"])
        assert Fraction(row["ListUnitPrice"]) * Fraction(row["PricingQuantity"]) == listed
        assert Fraction(row["ContractedUnitPrice"]) * Fraction(row["PricingQuantity"]) == contracted
        if each.unit_price_micro:
            assert micro(row["ListCost"]) == each.list_micro


@pytest.mark.parametrize("version", VERSIONS)
@given(lines=priced_lines())
def test_billed_cost_of_an_invoice_is_what_the_statement_asks_for(version: Version, lines: list[StatementLine]) -> None:
    first, second = statement(lines), statement(lines[:1], number="S-2")
    by_invoice: dict[str, Fraction] = defaultdict(Fraction)
    for row in rows(first, second, version=version):
        by_invoice[row["InvoiceId"]] += Fraction(row["BilledCost"])
        assert row["EffectiveCost"] == row["BilledCost"]
    assert by_invoice == {
        "S-2026-11-0001": Fraction(first.amount_micro, 10**6), "S-2": Fraction(second.amount_micro, 10**6)
    }  # fmt: skip


@given(lines=priced_lines())
def test_the_ratios_of_one_origin_charge_sum_to_one_and_its_charges_are_alike(lines: list[StatementLine]) -> None:
    origins: dict[str, list[Row]] = defaultdict(list)
    for row in rows(statement(lines)):
        if row["x_OriginChargeId"] is not None:
            origins[row["x_OriginChargeId"]].append(row)
    for group in origins.values():
        details = [json.loads(row["AllocatedMethodDetails"], parse_float=Decimal) for row in group]
        assert sum(Fraction(each["Elements"][0]["AllocatedRatio"]) for each in details) == 1
        alike = ("ResourceId", "SkuPriceId", "ListUnitPrice", "ContractedUnitPrice", "Tags", "ChargeDescription",
                 "ChargePeriodStart", "ChargePeriodEnd", "SubAccountId", "InvoiceId", "InvoiceDetailId")  # fmt: skip
        assert len({tuple(row[name] for name in alike) for row in group}) == 1
        contracted = sum(Fraction(row["ContractedCost"]) for row in group)
        billed = sum(Fraction(row["BilledCost"]) for row in group)
        assert abs(contracted - billed) <= Fraction(len(group), 10**6)


def test_two_pods_of_one_card_are_two_allocated_charges_of_one_origin() -> None:
    first, second = rows(statement())[:2]
    assert first["x_OriginChargeId"] == second["x_OriginChargeId"]
    assert first["ResourceId"] == second["ResourceId"] == f"default/{CARD}"
    assert first["AllocatedResourceName"], second["AllocatedResourceName"] == ("infer-1", "infer-2")
    assert json.loads(first["AllocatedTags"])["team"] == "Search"
    assert first["AllocatedMethodId"] == second["AllocatedMethodId"] == "declared-share-x-time/1"
    assert first["ContractedUnitPrice"] == second["ContractedUnitPrice"] == Decimal("21.6")


def test_another_discount_or_price_on_the_card_is_another_origin() -> None:
    lines = [line("1"), line("2", discount_micro=0, amount_micro=60_000_000), line("3", price_id="std@4/h100")]
    assert len({row["x_OriginChargeId"] for row in rows(statement(lines))}) == 3


def test_an_unpriced_line_has_no_row_and_is_named() -> None:
    table = cost_and_usage([statement([line("1"), unpriced("2")])], "1.2")
    assert [row["x_LineId"] for row in table.rows] == ["1"]
    assert table.left_out == ["2"]


def by_line(version: Version = "1.2") -> dict[str, Row]:
    return {row["x_LineId"]: row for row in rows(statement(), version=version)}


@pytest.mark.parametrize("version", VERSIONS)
def test_tax_has_no_price_no_quantity_and_no_sku(version: Version) -> None:
    tax = by_line(version)["0008"]
    assert tax["ChargeCategory"] == "Tax"
    empty = ("ListUnitPrice", "ContractedUnitPrice", "PricingQuantity", "PricingUnit", "PricingCategory", "SkuId",
             "SkuPriceId", "SkuMeter", "ConsumedQuantity", "ConsumedUnit")  # fmt: skip
    assert {tax[name] for name in empty} == {None}
    assert tax["BilledCost"] == tax["ListCost"] == Decimal("9.986999")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_correction_is_marked_and_says_of_what_it_is_one(version: Version) -> None:
    found = by_line(version)
    assert found["0007"]["ChargeClass"] == "Correction"
    assert found["0007"]["x_CorrectionReference"] == "S-2026-10-0007/0003"
    assert {row["ChargeClass"] for key, row in found.items() if key != "0007"} == {None}


def test_a_credit_has_the_same_four_costs() -> None:
    credit = by_line()["0006"]
    costs = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
    assert (credit["ChargeCategory"], {credit[name] for name in costs}) == ("Credit", {Decimal("-1.5")})


def test_an_unused_reservation_consumed_nothing_and_is_charged() -> None:
    unused = by_line()["0005"]
    assert (unused["CapacityReservationId"], unused["CapacityReservationStatus"]) == ("default/online", "Unused")
    assert (unused["ConsumedQuantity"], unused["PricingQuantity"], unused["BilledCost"]) == (0, Decimal("2.5"), 60)


def test_the_price_id_holds_the_books_version_and_has_one_sku_which_keeps_its_name() -> None:
    old = rows(statement([line("1", price_id="std@2/h100")]), version="1.2")[0]
    new = rows(statement([line("1", price_id="std@3/h100")]), version="1.2")[0]
    mig = rows(statement([line("1", unit_kind="mig")]), version="1.2")[0]
    assert old["SkuId"] == new["SkuId"] == "gpu/NVIDIA H100 80GB HBM3/vgpu"
    assert old["SkuPriceId"] != new["SkuPriceId"]
    assert "std@3" in new["SkuPriceId"]
    assert (mig["SkuPriceId"], mig["SkuId"]) != (new["SkuPriceId"], new["SkuId"])
    bare = rows(statement([line("1", price_id="h100")]), version="1.2")[0]
    assert bare["SkuPriceId"] == f"std@3/h100/{bare['SkuId']}"


@pytest.mark.parametrize(("per", "unit"), [("hour", "GPU-Hours"), ("day", "GPU-Days"), ("month", "GPU-Months")])
def test_the_price_stays_as_stated_in_its_own_unit_of_time(per: str, unit: str) -> None:
    (row,) = rows(statement([line("1", per=per)]), version="1.2")
    assert (row["ListUnitPrice"], row["PricingUnit"]) == (24, unit)
    assert (row["ConsumedUnit"], row["ConsumedQuantity"]) == ("GPU-Hours", Decimal("2.5"))


def test_who_sells_is_named_in_the_words_of_each_version() -> None:
    terms = FocusTerms(provider="ACME", host="Colo", issuer="ACME Finance", region_id="dc-1")
    old = cost_and_usage([statement()], "1.2", terms).rows[0]
    new = cost_and_usage([statement()], "1.4", terms).rows[0]
    assert (old["ProviderName"], old["PublisherName"]) == ("ACME", "Colo")
    assert (new["ServiceProviderName"], new["HostProviderName"]) == ("ACME", "Colo")
    assert "ProviderName" not in new
    assert "ServiceProviderName" not in old
    assert (new["InvoiceIssuerName"], new["RegionId"], new["SubAccountId"]) == ("ACME Finance", "dc-1", "search")


def test_a_draft_has_no_invoice() -> None:
    assert rows(statement(number=None, state="draft", closed_at=None))[0]["InvoiceId"] is None


def test_instants_lie_on_whole_seconds_and_a_charge_never_loses_its_length() -> None:
    lines = [line("1", started_at=WINDOW.start + 1, ended_at=WINDOW.start + 2)]
    (row,) = rows(statement(lines), version="1.2")
    assert (row["ChargePeriodStart"], row["ChargePeriodEnd"]) == (WINDOW.start, WINDOW.start + 1_000_000)


def test_a_billing_period_is_closed_once_all_of_its_statements_are() -> None:
    def periods(*statements: Statement) -> FocusTable:
        return billing_periods(statements)

    draft = statement(state="draft", closed_at=None, number=None, as_of=CLOSED_AT - 5_000_000)
    other = statement(window=Window(WINDOW.start, WINDOW.end + HOUR_US))
    (closed,) = periods(statement(), statement(number="S-2")).rows
    assert (closed["BillingPeriodStatus"], closed["BillingPeriodLastUpdated"]) == ("Closed", CLOSED_AT)
    (part,) = periods(statement(), draft).rows
    assert part["BillingPeriodStatus"] == "Open"
    assert len(periods(statement(), other).rows) == 2


@given(st.decimals(allow_nan=False, allow_infinity=False, places=12), st.integers(0, 10**20))
def test_a_product_is_exact_beyond_the_decimal_contexts_precision(price: Decimal, steps: int) -> None:
    quantity = Decimal(f"{steps}E-14")
    assert Fraction(exact_product(price, quantity)) == Fraction(price) * Fraction(quantity)


def test_a_part_of_a_shared_service_that_moves_money_is_an_adjustment_and_keeps_its_amount() -> None:
    for version in VERSIONS:
        (row,) = rows(statement([plain("1", "service_share", "team-a/llm", 7, workload="team-a/llm")]), version=version)
        assert (row["ChargeCategory"], row["ListUnitPrice"], row["SkuId"]) == ("Adjustment", None, None)
        assert {row[name] for name in ("BilledCost", "ListCost", "ContractedCost")} == {Decimal("0.000007")}


def test_time_at_a_price_that_is_not_charged_is_no_part_of_the_cards_charge() -> None:
    down = line("2", list_micro=0, discount_micro=0, amount_micro=0)
    charged, free = rows(statement([line("1", discount_micro=0, amount_micro=60_000_000), down]))
    assert charged["x_OriginChargeId"] != free["x_OriginChargeId"]
    assert (free["ListCost"], free["ListUnitPrice"], free["ConsumedQuantity"]) == (0, 24, Decimal("2.5"))


def test_a_line_without_one_unit_price_gets_the_price_of_its_amounts() -> None:
    (row,) = rows(statement([line("1", unit_price_micro=None, per=None, quantity_gpu_us=HOUR_US * 3)]), version="1.2")
    assert (row["ListUnitPrice"], row["PricingUnit"], row["PricingQuantity"]) == (20, "GPU-Hours", 3)


def test_a_hostile_name_stays_one_json_string() -> None:
    name = '"}, {"x": "\n\u202e\ud800'
    (row,) = rows(statement([line("1", workload=name)]), version="1.2")
    assert json.loads(row["Tags"])["workload"] == name


def test_a_correction_keeps_its_own_list_amount() -> None:
    (row,) = rows(statement([plain("1", "correction", "price", -9, list_micro=-10, discount_micro=-1)]))
    assert (row["ListCost"], row["BilledCost"]) == (Decimal("-0.000010"), Decimal("-0.000009"))
