"""What is no longer there, what moved, and what bears a stamp that no clock can have told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.import_file import ImportFile
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import HOUR_US
from steelyard.store import Store
from tests.ledgers.facts_of import EPOCH, at, card, findings, grant, holdings, listing, node, pod, post, seen

DAYS_20 = 20 * 24 * 60


def table(facts: Sequence[Fact], query: str) -> list[Any]:
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        return store.rows(query)


def nodes_listing(minute: float, **more: Any) -> SourceStatus:
    return listing(minute, **{"kind": "nodes", **more})


def registered(minute: float, uuid: str, **more: Any) -> Device:
    return card(minute, uuid, source="hami", basis="vendor_register", **more)


def smi_round(minute: float, name: str = "n1") -> SourceStatus:
    return listing(minute, source="nvidia_smi", kind="nvidia_smi", scope=f"node/{name}")


OPEN = "SELECT device_uuid, node, valid_to_at IS NULL, placeable FROM dim.device ORDER BY device_uuid, node"


@pytest.mark.parametrize(
    ("later", "gone"),
    [
        ([nodes_listing(40), node(40, "n1")], True),
        ([nodes_listing(40), node(40, "n1"), node(40, "n3")], False),
        (
            [
                nodes_listing(40),
                Sighting(source="kube_api", natural_key="n3", object_kind="node", object_uid="n3", **seen(40)),
            ],
            False,
        ),
        ([nodes_listing(40, complete=False, status="partial"), node(40, "n1")], False),
        ([nodes_listing(40, source="other"), node(40, "n1")], False),
    ],
)
def test_a_node_that_a_later_complete_listing_does_not_name_takes_no_pod(later: list[Fact], gone: bool) -> None:
    facts = [node(30, "n3"), nodes_listing(30), card(30, "GPU-c", node="n3"), *later]
    assert table(facts, OPEN) == [("GPU-c", "n3", not gone, not gone)]
    assert (("node_vanished", "node n3") in findings(facts)) is gone


@pytest.mark.parametrize(
    ("facts", "gone"),
    [
        ([registered(30, "GPU-a"), registered(30, "GPU-b"), registered(40, "GPU-a")], True),
        ([registered(30, "GPU-a"), registered(30, "GPU-b"), registered(40, "GPU-a", node="n2")], False),
        ([registered(30, "GPU-a"), card(30, "GPU-b"), registered(40, "GPU-a")], False),
        ([registered(30, "GPU-a"), registered(30, "GPU-b"), registered(40, "GPU-a"), card(41, "GPU-b")], False),
        ([card(30, "GPU-a"), card(30, "GPU-b"), card(40, "GPU-a"), smi_round(40)], True),
        ([card(30, "GPU-a"), card(30, "GPU-b"), card(40, "GPU-a")], False),
        ([card(30, "GPU-a"), card(30, "GPU-b", state="lost"), card(40, "GPU-a"), smi_round(40)], False),
    ],
)
def test_a_card_that_a_later_listing_of_its_node_does_not_name_is_closed(facts: list[Fact], gone: bool) -> None:
    query = "SELECT valid_to_at IS NOT NULL FROM dim.device WHERE device_uuid = 'GPU-b'"
    assert table([*facts, node(30)], query) == [(gone,)]
    assert (("card_vanished", "device GPU-b") in findings(facts)) is gone


def test_a_card_that_returns_is_on_the_node_of_its_latest_sighting() -> None:
    facts = [card(0), card(30, node="n2"), card(60)]
    assert [row[:3] for row in table(facts, OPEN)] == [("GPU-a", "n1", True), ("GPU-a", "n2", False)]


def test_a_file_that_was_read_moves_no_now() -> None:
    junk = ImportFile(
        source="import", natural_key="f", path="junk.txt", kind="unknown", bytes_count=1, sha256="f", **seen(DAYS_20)
    )
    query = "SELECT epoch_us(as_of_at) FROM dim.parameter"
    assert table([listing(30), pod(30), junk], query) == [(at(30),)]


def test_a_card_stamped_in_a_far_year_is_left_out_with_a_finding() -> None:
    late = Device(
        source="nvidia_smi", natural_key="GPU-z", device_uuid="GPU-z", node="n1", occurred_at=at(DAYS_20), observed_at=at(30)
    )  # fmt: skip
    status = SourceStatus(
        source="nvidia_smi", natural_key="s", kind="nvidia_smi", occurred_at=at(DAYS_20), observed_at=at(30)
    )
    facts = [listing(30), card(30), late, status]
    assert [row[0] for row in table(facts, OPEN)] == ["GPU-a"]
    assert table(facts, "SELECT epoch_us(as_of_at) FROM dim.parameter") == [(at(30),)]
    assert ("stamp_implausible", "device GPU-z") in findings(facts)


def test_a_sample_stamped_in_a_far_year_is_left_out_with_a_finding() -> None:
    late = DeviceSample(
        source="dcgm", natural_key="GPU-a", device_uuid="GPU-a", memory_used_mib=5, occurred_at=at(DAYS_20),
        observed_at=at(30),
    )  # fmt: skip
    facts = [listing(30), card(30), late]
    assert table(facts, "SELECT count(*) FROM dim.measured_hour") == [(0,)]
    assert table(facts, "SELECT epoch_us(as_of_at) FROM dim.parameter") == [(at(30),)]
    assert ("stamp_implausible", "samples of device GPU-a") in findings(facts)


def test_a_stamp_of_1970_counts_only_where_the_pod_was_seen_in_those_days() -> None:
    years = -EPOCH / 60_000_000
    old = pod(30, created_at=years, scheduled_at=years + 0.1)
    assert [row["started_at"] for row in holdings([old, grant(30)])] != [years + 0.1]
    assert ("stamp_implausible", "pod team-a/u1") in findings([old, grant(30)])
    trace = pod(years + 60, created_at=years, scheduled_at=years + 1)
    (row,) = holdings([trace, grant(years + 60)])
    assert row["started_at"] == pytest.approx(years + 1)


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ([card(30), card(30, node="n2")], ("device_on_two_nodes", "device GPU-a")),
        ([card(30), card(31, node="n2")], None),
        ([card(30), card(30, cluster="east")], ("device_in_two_clusters", "device GPU-a")),
        ([pod(30), pod(30, node="n2")], ("pod_seen_twice", "pod team-a/u1")),
        ([pod(30), pod(30)], None),
        ([pod(30), pod(31, node="n2")], None),
    ],
)
def test_facts_that_contradict_each_other_are_found(facts: list[Fact], found: tuple[str, str] | None) -> None:
    codes = ("device_on_two_nodes", "device_in_two_clusters", "pod_seen_twice")
    assert {row for row in findings(facts) if row[0] in codes} == ({found} if found else set())


def supply_hours(facts: Sequence[Fact]) -> dict[str, float]:
    """Account -> GPU-hours over all places."""
    with Store.open_memory() as store:
        store.append(facts)
        post_ledgers(store, PostingParameters(), clock=FixedClock(at(600)))
        rows = store.rows("SELECT account, sum(amount_gpu_us) FROM ledger.supply GROUP BY account")
    return {account: amount / HOUR_US for account, amount in rows if amount}


def test_cards_first_seen_after_an_unplaced_holding_supply_what_it_holds() -> None:
    """Four cards whose UUIDs are first told five minutes after the only listing of pods: the pod held one of them all along."""
    held = [pod(120, scheduled_at=0), grant(120), listing(120)]
    cards = [card(125, f"GPU-{n}") for n in range(4)]
    hours = supply_hours([*held, *cards])
    assert hours["held_unplaced"] == 2
    assert hours["supply"] == pytest.approx(4 * 125 / 60)
    assert hours["unobserved"] == pytest.approx(4 * 125 / 60 - 2)


def test_a_card_that_came_later_or_is_gone_is_not_presumed_by_an_unplaced_holding() -> None:
    held = [pod(120, scheduled_at=0), grant(120), listing(120)]
    cards = [card(10, "GPU-1"), card(60, "GPU-1"), card(60, "GPU-2")]
    assert supply_hours([*held, *cards])["supply"] == pytest.approx((120 + 60) / 60)
    left = [*cards, card(90, "GPU-2"), smi_round(90)]
    assert supply_hours([*held, *left])["supply"] == pytest.approx((60 + 60) / 60)


def test_a_card_that_only_a_list_of_holdings_names_is_supplied_as_held_and_said_to_be_unknown() -> None:
    lent = grant(
        120, scheme="declared", source="site_csv", device_uuid="not-a-card", unit_kind="gpu", valid_from_at=0,
        claim_state="accepted",
    )  # fmt: skip
    facts = [pod(120, scheduled_at=0, source="site_csv"), lent, listing(120)]
    with Store.open_memory() as store:
        store.append(facts)
        post_ledgers(store, PostingParameters(), clock=FixedClock(at(600)))
        assert store.rows("SELECT code, subject FROM ledger.finding") == [("supply_unknown", "device not-a-card")]
        assert store.rows("SELECT count(*) FROM dim.device") == [(0,)]
    assert supply_hours(facts) == {"held": 2, "supply": 2}
