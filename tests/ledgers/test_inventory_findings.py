"""The site's own lists in the books: cards only on paper, cards only in the racks, and cards lent outside Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from steelyard.facts.device import Device
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import HOUR_US, Instant, parse_instant
from steelyard.store import Store

NOW = parse_instant("2026-11-30T12:00:00Z")
CODES = ("asset_never_seen", "card_not_on_asset_list", "asset_on_other_node", "asset_list_not_comparable")


def card(uuid: str, serial: str | None = None, node: str = "n1", at: Instant = NOW) -> Device:
    return Device(
        source="nvidia_smi",
        natural_key=uuid,
        occurred_at=at,
        observed_at=at,
        device_uuid=uuid,
        serial=serial,
        node=node,
    )


def asset(
    uuid: str | None, serial: str | None = None, node: str | None = "n1", status: str | None = None
) -> InventoryBasis:
    return InventoryBasis(
        source="site_csv", natural_key=uuid or serial or "", occurred_at=NOW, observed_at=NOW, basis="asset_list",
        device_uuid=uuid, serial=serial, node=node, asset_status=status,
    )  # fmt: skip


def findings(facts: Sequence[Device | InventoryBasis]) -> set[tuple[str, str, str]]:
    with Store.open_memory() as store:
        store.append(facts)
        post_ledgers(store, PostingParameters(), clock=FixedClock(NOW))
        rows = store.rows(
            "SELECT code, subject, severity, evidence FROM ledger.finding WHERE source = 'ledger.inventory'"
        )
    assert all(isinstance(json.loads(evidence), dict) for *_, evidence in rows)
    return {(code, subject, severity) for code, subject, severity, _ in rows}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([card("GPU-a", "S1"), asset("GPU-a", "S1")], set()),
        ([card("GPU-a", "S1"), asset(None, "S1")], set()),
        ([card("GPU-a"), asset("GPU-a", "S1")], set()),
        ([card("GPU-a", "S1")], set()),
        (
            [card("GPU-a", "S1"), asset("GPU-a", "S1"), asset("GPU-b", "S2")],
            {("asset_never_seen", "asset GPU-b", "warning")},
        ),
        (
            [card("GPU-a", "S1"), asset("GPU-a", "S1"), asset("GPU-b", "S2", status="Spare")],
            {("asset_never_seen", "asset GPU-b", "info")},
        ),
        (
            [card("GPU-a", "S1"), card("GPU-c", "S3"), asset("GPU-a", "S1")],
            {("card_not_on_asset_list", "device GPU-c", "warning")},
        ),
        (
            [card("GPU-a", "S1"), card("GPU-c", "S3"), asset(None, "S1"), asset(None, "S9")],
            {("card_not_on_asset_list", "device GPU-c", "warning"), ("asset_never_seen", "asset S9", "warning")},
        ),
        (
            [card("GPU-a", "S1", node="n7"), asset("GPU-a", "S1", node="n1")],
            {("asset_on_other_node", "asset GPU-a", "warning")},
        ),
        ([card("GPU-a", "S1", node="n7"), asset("GPU-a", "S1", node=None)], set()),
        (
            [card("GPU-a"), asset(None, "S1")],
            {("asset_list_not_comparable", "asset list", "info")},
        ),
        (
            [card("GPU-a", "S1", node="n1", at=NOW - HOUR_US), card("GPU-a", "S1", node="n2"), asset("GPU-a", node="n2")],
            set(),
        ),
    ],
)  # fmt: skip
def test_assets_and_cards_are_matched_by_uuid_else_by_serial(
    facts: Sequence[Device | InventoryBasis], expected: set[tuple[str, str, str]]
):
    assert findings(facts) == expected


def test_the_latest_list_counts():
    old = asset("GPU-a", "S1", node="n9")
    new = InventoryBasis(
        **{**{f: getattr(old, f) for f in old.__struct_fields__}, "node": "n1", "occurred_at": NOW + HOUR_US}
    )
    assert findings([card("GPU-a", "S1"), old, new]) == set()
