"""A site's asset list."""

from __future__ import annotations

import pytest

from steelyard.facts.finding import Finding
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.primitives.instant import AT_OBSERVATION, parse_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.site_csv import read_inventory, sniff_site_csv

CTX = ReadContext(file="assets.csv")
HEADER = "Serial,UUID,Node,Rack,Owner,Model,Purchase date,Warranty,Price,Currency,Status"
ROW = "1650920000001,GPU-aa,gpu-01,R7,ml,NVIDIA A100,2024-03-01,2027-03-01,98000.50,cny,in use"


def assets(text: str) -> list[InventoryBasis]:
    return [fact for fact in read_inventory(text, CTX) if isinstance(fact, InventoryBasis)]


def findings(text: str) -> list[Finding]:
    return [fact for fact in read_inventory(text, CTX) if isinstance(fact, Finding)]


def test_a_row_is_one_asset_with_place_owner_and_price():
    (asset,) = assets(f"{HEADER}\n{ROW}\n")
    assert (asset.basis, asset.natural_key, asset.cards_count) == ("asset_list", "GPU-aa", 1)
    assert (asset.device_uuid, asset.serial, asset.node, asset.rack) == ("GPU-aa", "1650920000001", "gpu-01", "R7")
    assert (asset.asset_owner, asset.model, asset.asset_status) == ("ml", "NVIDIA A100", "in use")
    assert asset.purchased_at == parse_instant("2024-03-01T00:00:00Z")
    assert asset.warranty_to_at == parse_instant("2027-03-01T00:00:00Z")
    assert asset.price == "98000.50 CNY"
    assert asset.occurred_at == AT_OBSERVATION


def test_a_list_without_uuids_is_keyed_by_serial():
    (asset,) = assets("serial_number;host;cabinet;department\nS-1;n1;r1;d\n")
    assert (asset.natural_key, asset.device_uuid, asset.node, asset.rack, asset.asset_owner) == (
        "S-1",
        None,
        "n1",
        "r1",
        "d",
    )


def test_a_chinese_header_is_read():
    (asset,) = assets(
        "序列号,节点,机柜,部门,型号,采购日期,质保到期,价格,币种,状态\nS-1,n1,r1,算法,A100,2024年3月1日,-,98000,CNY,在用\n"
    )
    assert (asset.asset_owner, asset.price, asset.warranty_to_at) == ("算法", "98000 CNY", None)
    assert asset.purchased_at == parse_instant("2024-03-01T00:00:00Z")


@pytest.mark.parametrize(
    ("price", "currency", "kept"),
    [
        ("98,000.50", "USD", None),
        ("98000", "USD", "98000 USD"),
        ('"98,000.50"', "USD", "98000.50 USD"),
        ("98000 EUR", "", "98000 EUR"),
        ("98000", "", None),
        ("-5", "USD", None),
        ("NaN", "USD", None),
        ("0", "USD", "0 USD"),
        ("98000", "$", None),
        ("", "USD", None),
    ],
)
def test_a_price_is_kept_only_with_its_currency(price: str, currency: str, kept: str | None):
    text = f"serial,price,currency\nS-1,{price},{currency}\n"
    found = [asset.price for asset in assets(text)]
    assert found == [kept] or (found == [] and kept is None)
    assert bool(findings(text)) == (kept is None and price != "")


def test_an_unreadable_cell_costs_the_cell_and_not_the_row():
    text = f"{HEADER}\n{ROW.replace('2024-03-01', '01/03/2024')}\n"
    (asset,), (finding,) = assets(text), findings(text)
    assert (asset.purchased_at, asset.price) == (None, "98000.50 CNY")
    assert (finding.code, finding.line, finding.subject) == ("inventory_cell_unreadable", 2, "asset GPU-aa")


@pytest.mark.parametrize(
    "row", [",,n,r,o,m,,,,,", ROW, "1650920000001,GPU-bb,n,r,o,m,,,,,", "x,GPU-aa,n,r,o,m,,,,,", "a,b"]
)
def test_a_row_without_a_key_of_its_own_is_refused(row: str):
    text = f"{HEADER}\n{ROW}\n{row}\n"
    (finding,) = findings(text)
    assert (finding.code, finding.line) == ("source_malformed", 3)
    assert len(assets(text)) == 1


def test_a_list_without_serial_and_uuid_is_one_finding():
    assert [finding.code for finding in findings("node,rack\nn,r\n")] == ["inventory_columns_missing"]


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        (HEADER, "inventory"),
        ("serial,rack,price", "inventory"),
        ("serial,name", None),
        ("device_uuid,holder,kind,from,to,approver", "holdings"),
        ("serial,tenant,from,to", "holdings"),
        ("name,num_gpu", None),
        ("index,uuid,pstate", None),
    ],
)
def test_the_kind_of_a_list_is_told_by_its_header(header: str, kind: str | None):
    assert sniff_site_csv(tuple(header.split(","))) == kind
