"""Dimensions: what is known of nodes, cards, slots, units and pods, from facts of several sources in any order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from steelyard.definitions.tenant import TenantRule
from steelyard.facts.base import Fact
from steelyard.facts.event import Event
from steelyard.facts.owner import Owner
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.unit import Unit
from steelyard.ledgers.posting import PostingParameters
from steelyard.store import Store
from tests.ledgers.facts_of import CARD, at, card, grant, listing, node, pod, post, seen, vgpu


def table(
    facts: Sequence[Fact], name: str, order: str, parameters: PostingParameters | None = None
) -> list[dict[str, Any]]:
    with Store.open_memory() as store:
        store.append(facts)
        post(store, parameters)
        return store.records(f"SELECT * FROM dim.{name} ORDER BY {order}")


def test_a_card_is_what_the_strongest_source_says_and_offers_what_its_register_says() -> None:
    register = card(
        40, source="hami", basis="vendor_register", model="NVIDIA-NVIDIA L40S", memory_mib=None, schedulable_memory_mib=69102,
        slots_count=10, healthy=True, cordoned=True, mode="hami-core",
    )  # fmt: skip
    (device,) = table([card(30, model="NVIDIA L40S", memory_mib=46068, serial="s1"), register], "device", "device_uuid")
    assert (device["model"], device["memory_mib"], device["schedulable_memory_mib"]) == ("NVIDIA L40S", 46068, 69102)
    assert (device["basis"], device["vendor_registered"], device["slots_count"], device["serial"]) == (
        "inventory",
        True,
        10,
        "s1",
    )
    assert (device["cordoned"], device["placeable"]) == (True, False)


@pytest.mark.parametrize(
    ("facts", "placeable"),
    [
        ([card(), node()], True),
        ([card()], None),
        ([card(healthy=False)], False),
        ([card(healthy=False), card(40, healthy=True), node()], True),
        ([card(), node(ready=False)], False),
        ([card(), node(ready=None)], None),
        ([card(), node(unschedulable=True)], False),
        ([card(), node(), node(source="hami", handshake="Deleted", ready=None)], False),
        ([card(state="lost", state_reason="GPU is lost")], False),
        ([card(state="lost"), card(40), node()], True),
        ([card(state="lost"), card(40, source="hami", basis="vendor_register", healthy=True)], False),
    ],
)
def test_a_card_is_placeable_unless_something_stands_against_it(facts: list[Fact], placeable: bool | None) -> None:
    (device,) = table(facts, "device", "device_uuid")
    assert device["placeable"] is placeable


def test_a_lost_card_is_not_healthy_whatever_its_register_still_says() -> None:
    register = card(40, source="hami", basis="vendor_register", healthy=True)
    (device,) = table([card(state="lost"), register], "device", "device_uuid")
    assert (device["state"], device["healthy"]) == ("lost", False)


def fallen(minute: float, **more: Any) -> Event:
    fields: dict[str, Any] = {"kind": "fell_off_bus", "node": "n1", "pci_address": "00000000:41:00.0", **more}
    return Event(source="kernel_log", natural_key="k", **fields, **seen(minute))


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (fallen(35), "lost"),
        (fallen(35, kind="xid", code=79), "lost"),
        (fallen(35, kind="xid", code=31), "present"),
        (fallen(35, pci_address="00000000:42:00.0"), "present"),
        (fallen(35, node="n2"), "present"),
        (fallen(35, node=None, pci_address=None, device_uuid=CARD), "lost"),
        (fallen(20), "present"),
    ],
)
def test_a_card_that_fell_off_the_bus_after_its_last_sighting_is_lost(event: Event, state: str) -> None:
    (device,) = table([card(30, pci_address="00000000:41:00.0"), event], "device", "device_uuid")
    assert device["state"] == state
    assert (device["lost_at"] is not None) == (state == "lost")


def test_a_new_card_in_an_old_slot_closes_the_old_one_at_its_last_sighting() -> None:
    slot = {"pci_address": "00000000:41:00.0"}
    facts = [
        card(10, "GPU-old", **slot),
        card(20, "GPU-old", **slot),
        card(40, "GPU-new", **slot),
        card(40, "GPU-other", device_index=1),
    ]
    old, other, new = (
        {row["device_uuid"]: row for row in table(facts, "device", "device_uuid")}[name]
        for name in ("GPU-old", "GPU-other", "GPU-new")
    )
    assert (old["valid_to_at"], old["placeable"]) == (old["last_seen_at"], False)
    assert (new["valid_to_at"], other["valid_to_at"]) == (None, None)
    slots = [
        (row["slot"], row["device_uuid"], row["valid_to_at"] is None)
        for row in table(facts, "slot", "slot, valid_from_at")
    ]
    assert slots == [
        ("00000000:41:00.0", "GPU-old", False), ("00000000:41:00.0", "GPU-new", True), ("index/1", "GPU-other", True),
    ]  # fmt: skip


def test_a_card_that_comes_back_to_its_slot_is_open_again() -> None:
    facts = [card(minute, uuid, device_index=0) for minute, uuid in ((10, "GPU-a"), (20, "GPU-b"), (30, "GPU-a"))]
    assert [(row["device_uuid"], row["valid_to_at"] is None) for row in table(facts, "slot", "valid_from_at")] == [
        ("GPU-a", False), ("GPU-b", False), ("GPU-a", True),
    ]  # fmt: skip
    assert {row["device_uuid"]: row["valid_to_at"] is None for row in table(facts, "device", "device_uuid")} == {
        "GPU-a": True,
        "GPU-b": False,
    }


def test_two_cards_that_claim_one_slot_at_one_instant_prove_nothing_about_it() -> None:
    facts = [card(10, "GPU-a", device_index=0), card(10, "GPU-b", device_index=0)]
    assert table(facts, "slot", "slot") == []
    assert [row["valid_to_at"] for row in table(facts, "device", "device_uuid")] == [None, None]


def test_a_card_that_moves_has_a_row_for_each_node() -> None:
    facts = [card(10, node="n1"), card(30, node="n2"), card(35, node=None)]
    first, second = table(facts, "device", "node")
    assert (first["node"], first["valid_to_at"] is None) == ("n1", False)
    assert (second["node"], second["valid_to_at"] is None) == ("n2", True)
    assert second["last_seen_at"] > first["last_seen_at"]


def test_the_node_object_tells_the_state_and_the_sharing_layer_the_handshake() -> None:
    facts = [
        node(30, ready=True, gpu_count=8, labels='{"a":"b"}', unschedulable=True),
        node(40, source="hami", ready=None, handshake="Requesting"),
        node(20, ready=False, gpu_product="L40S"),
    ]
    (row,) = table(facts, "node", "node")
    assert (row["ready"], row["gpu_count"], row["labels"], row["unschedulable"]) == (True, 8, '{"a":"b"}', True)
    assert (row["handshake"], row["gpu_product"]) == ("Requesting", "L40S")
    (later,) = table([*facts, node(50, ready=None)], "node", "node")
    assert (later["ready"], later["unschedulable"]) == (None, False)


def test_a_unit_keeps_the_latest_word_of_each_column() -> None:
    def unit(minute: float, **more: Any) -> Unit:
        return Unit(source="nvidia_smi", natural_key="MIG-1", unit_kind="mig", unit_id="MIG-1", **more, **seen(minute))

    (row,) = table([unit(10, gi=3, profile="1g.5gb"), unit(20, device_uuid=CARD, gi=4)], "unit", "unit_id")
    assert (row["gi"], row["profile"], row["device_uuid"]) == (4, "1g.5gb", CARD)


def owner(uid: str = "u1", **more: Any) -> Owner:
    return Owner(source="kube_api", natural_key=uid, pod_uid=uid, **{"namespace": "team-a", **more}, **seen(30))


@pytest.mark.parametrize(
    ("rules", "tenant"),
    [
        ((), "unmapped"),
        ((TenantRule("label", key="example.com/team"),), "vision"),
        ((TenantRule("annotation", key="cost"), TenantRule("namespace")), "team-a"),
        ((TenantRule("workload", pattern="train-*", tenant="trainers"),), "trainers"),
        ((TenantRule("queue"),), "batch"),
    ],
)
def test_a_pod_belongs_to_the_tenant_of_the_first_matching_rule(rules: tuple[TenantRule, ...], tenant: str) -> None:
    labels = json.dumps({"example.com/team": "vision"})
    facts = [pod(queue="batch"), owner(labels=labels, workload_kind="Job", workload_name="train-7")]
    (row,) = table(facts, "pod", "pod_uid", PostingParameters(tenant_rules=rules))
    assert (row["tenant"], row["workload_name"], row["namespace"]) == (tenant, "train-7", "team-a")


def test_the_latest_sighting_of_a_pod_wins_and_its_stamps_are_kept() -> None:
    facts: list[Fact] = [
        pod(10, scheduled_at=2, phase="Pending"),
        pod(30, scheduled_at=None, started_at=3, node=None),
        Sighting(source="kube_api", natural_key="u1", object_kind="pod", object_uid="u1", **seen(45)),
        listing(45),
        listing(50),
    ]
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        row = store.rows(
            "SELECT phase, node, epoch_us(scheduled_at), epoch_us(started_at), epoch_us(first_seen_at), epoch_us(last_seen_at), "
            "epoch_us(gone_by_at) FROM dim.pod"
        )
    assert row == [("Running", "n1", at(2), at(3), at(10), at(45), at(50))]


def test_a_trace_knows_its_pods_to_its_last_stamp() -> None:
    status = SourceStatus(
        source="openb",
        natural_key="trace/cluster",
        kind="trace",
        complete=True,
        observed_from_at=at(0),
        observed_to_at=at(90),
        **seen(90),
    )
    with Store.open_memory() as store:
        store.append([pod(5, source="openb", scheduled_at=6), status])
        post(store)
        assert store.rows("SELECT epoch_us(last_seen_at), gone_by_at FROM dim.pod") == [(at(90), None)]


def test_a_holder_that_only_a_grant_knows_is_a_pod_without_a_life() -> None:
    rows = table(
        [grant(uid="name:team-b/x", scheme="pod_resources", source="pod_resources"), vgpu(uid="u9"), pod()],
        "pod",
        "pod_uid",
    )
    assert [(row["pod_uid"], row["namespace"], row["pod"], row["phase"]) for row in rows] == [
        ("name:team-b/x", "team-b", "x", "Unknown"), ("u1", "team-a", "u1", "Running"), ("u9", None, "u9", "Unknown"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("later", "mode"),
    [
        (card(40, source="agent", mig_enabled=False), None),
        (card(40, source="pod_resources"), "mig"),
        (card(40, source="hami", basis="vendor_register", mode="hami-core"), "hami-core"),
        (card(20, source="agent", mig_enabled=False), "mig"),
    ],
    ids=["MIG is off", "nothing is said of it", "another mode", "it was off before"],
)
def test_a_card_whose_mig_was_switched_off_is_in_no_mig_mode(later: Fact, mode: str | None) -> None:
    (device,) = table([card(30, source="agent", mode="mig", mig_enabled=True), later], "device", "device_uuid")
    assert device["mode"] == mode
