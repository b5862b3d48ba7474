"""Export profiles: the layout that an ERP system takes, and sums that hold after rounding."""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.errors import UsageError
from steelyard.surfaces.reports.erp_profile import ErpProfile, ProfileColumn, profile_csv
from tests.settlement.statements import line, statement, unpriced

SAP = ErpProfile(
    name="sap",
    columns=(
        ProfileColumn("BUKRS", value="1000"),
        ProfileColumn("XBLNR", source="statement"),
        ProfileColumn("BUDAT", source="closed_at"),
        ProfileColumn("KOSTL", source="cost_centre"),
        ProfileColumn("WRBTR", source="amount", digits=2),
        ProfileColumn("WAERS", source="currency"),
    ),
    delimiter=";",
    decimal_comma=True,
    date_format="%d.%m.%Y",
)


def rows(content: bytes, **format: Any) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode("utf-8"), newline=""), **format))


def test_columns_names_fixed_values_dates_and_decimal_comma_are_as_the_profile_says() -> None:
    found = rows(profile_csv(statement(), SAP), delimiter=";")
    assert found[0] == ["BUKRS", "XBLNR", "BUDAT", "KOSTL", "WRBTR", "WAERS"]
    assert found[1] == ["1000", "S-2026-11-0001", "03.12.2026", "4711", "54,00", "CNY"]


def test_a_date_is_the_day_in_the_statements_time_zone() -> None:
    profile = ErpProfile("p", (ProfileColumn("day", source="window_start"),))
    assert rows(profile_csv(statement([line("1")]), profile))[1] == ["2026-11-01"]


def test_a_line_without_a_price_has_no_row() -> None:
    assert len(rows(profile_csv(statement([line("1"), unpriced("2")]), SAP), delimiter=";")) == 2


AMOUNTS = st.lists(st.integers(-(10**13), 10**13), max_size=12)


@given(AMOUNTS, st.integers(0, 6))
def test_rounded_amounts_sum_to_the_rounded_total_and_none_is_off_by_a_whole_step(
    amounts: list[int], digits: int
) -> None:
    whole = statement([line(str(n), amount_micro=micro) for n, micro in enumerate(amounts)])
    profile = ErpProfile("p", (ProfileColumn("a", source="amount", digits=digits),), header=False)
    found = [Fraction(row[0]) for row in rows(profile_csv(whole, profile))]
    step = Fraction(1, 10**digits)
    assert sum(found) == round(Fraction(whole.amount_micro, 10**6) / step) * step
    assert all(abs(each - Fraction(micro, 10**6)) < step for each, micro in zip(found, amounts, strict=True))


@given(st.lists(st.tuples(st.sampled_from(["4711", "4712", None]), st.integers(-(10**9), 10**9)), max_size=12))
def test_rows_that_sum_lines_hold_the_same_total(pairs: list[tuple[str | None, int]]) -> None:
    whole = statement([line(str(n), cost_centre=centre, amount_micro=micro) for n, (centre, micro) in enumerate(pairs)])
    columns = (ProfileColumn("c", source="cost_centre"), ProfileColumn("a", source="amount"),
               ProfileColumn("q", source="quantity_gpu_us"), ProfileColumn("n", source="statement"))  # fmt: skip
    found = rows(profile_csv(whole, ErpProfile("p", columns, by=("cost_centre",), header=False)))
    assert len(found) == len({centre for centre, _micro in pairs})
    assert sum(Fraction(row[1]) for row in found) == Fraction(whole.amount_micro, 10**6)
    assert sum(int(row[2]) for row in found) == sum(each.quantity_gpu_us for each in whole.lines)


def test_a_site_may_want_no_header_a_bom_or_another_encoding() -> None:
    one = (ProfileColumn("团队", source="team"),)
    whole = statement([line("1", team="搜索")])
    assert profile_csv(whole, ErpProfile("p", one, header=False)) == "搜索\r\n".encode()
    assert profile_csv(whole, ErpProfile("p", one, bom=True)).startswith(b"\xef\xbb\xbf")
    assert profile_csv(whole, ErpProfile("p", one, encoding="gb18030", bom=True)) == "团队\r\n搜索\r\n".encode(
        "gb18030"
    )


def test_a_name_is_neutralised_here_too() -> None:
    profile = ErpProfile("p", (ProfileColumn("t", source="team"), ProfileColumn("v", value="=1")), header=False)
    assert rows(profile_csv(statement([line("1", team="=1+1")]), profile)) == [["'=1+1", "'=1"]]


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (ErpProfile("p"), "has no columns"),
        (ErpProfile("p", (ProfileColumn("a"),)), "expected source or value"),
        (ErpProfile("p", (ProfileColumn("a", source="team", value="x"),)), "expected source or value"),
        (ErpProfile("p", (ProfileColumn("a", source="wages"),)), "no source wages; expected one of statement"),
        (ErpProfile("p", (ProfileColumn("a", source="team", digits=2),)), "digits are for amounts"),
        (ErpProfile("p", (ProfileColumn("a", source="amount"),), by=("amount",)), "sums by amount"),
        (ErpProfile("p", (ProfileColumn("a", source="pod"),), by=("team",)), "pod differs within a row"),
        (ErpProfile("p", (ProfileColumn("a", source="unit_price"),), by=("team",)), "unit_price differs"),
    ],
)
def test_a_profile_that_cannot_be_carried_out_is_refused_by_name(profile: ErpProfile, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        profile_csv(statement(), profile)
