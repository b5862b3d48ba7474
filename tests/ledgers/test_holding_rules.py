"""Single rules of the holding ledger, each on the smallest world that shows it."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.unit import Unit
from steelyard.ledgers.posting import PostingParameters
from tests.ledgers.facts_of import CARD, card, findings, grant, holdings, listing, node, pod, seen, vgpu


def one(facts: list[Fact], parameters: PostingParameters | None = None) -> dict[str, Any]:
    (row,) = holdings(facts, parameters)
    return row


def test_a_plain_request_is_held_at_its_node_with_the_reason_why_no_card_is_named() -> None:
    row = one([pod(scheduled_at=1), grant(quantity=2)])
    assert (row["place_kind"], row["place_id"], row["device_uuid"]) == ("node", "n1", None)
    assert (row["quantity"], row["share_ppm"], row["share_basis"]) == (2, 2_000_000, "whole")
    assert row["device_unknown_reason"] == "the grant does not name the card"
    assert (row["started_at"], row["known_to_at"], row["ended_at"], row["start_basis"]) == (
        1,
        30,
        None,
        "pod_scheduled",
    )


def test_a_pod_without_accelerator_holds_nothing() -> None:
    assert holdings([pod(scheduled_at=1), node(), card()]) == []


def test_a_replica_of_a_time_sliced_node_holds_its_part() -> None:
    row = one([pod(scheduled_at=1), grant(), node(replicas=4)])
    assert (row["unit_kind"], row["share_ppm"], row["share_basis"]) == ("slice", 250_000, "replica")


@pytest.mark.parametrize(
    ("strategy", "kind", "share"), [("single", "mig", 142_857), (None, "mig", 142_857), ("mixed", "gpu", 1_000_000)]
)
def test_a_card_of_a_node_in_single_mig_strategy_is_an_instance(strategy: str | None, kind: str, share: int) -> None:
    product = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
    row = one([pod(scheduled_at=1), grant(), node(gpu_product=product, mig_strategy=strategy)])
    assert (row["unit_kind"], row["share_ppm"]) == (kind, share)
    assert row["profile"] == ("1g.5gb" if kind == "mig" else None)


def test_a_profile_that_came_without_slices_gets_them_from_the_cards_of_its_node() -> None:
    mig = grant(scheme="mig_plugin", unit_kind="mig", profile="1g.10gb", quantity=2)
    row = one([pod(scheduled_at=1), mig, card(model="NVIDIA A100-SXM4-80GB", memory_mib=81920)])
    assert (row["share_ppm"], row["quantity"]) == (2 * 142_857, 2)
    row = one([pod(scheduled_at=1), mig, card(model="NVIDIA A100-SXM4-40GB", memory_mib=40960)])
    assert row["share_ppm"] == 2 * 250_000
    row = one([pod(scheduled_at=1), mig])
    assert (row["share_ppm"], row["share_at_least_ppm"], row["share_basis"]) == (None, 0, "unknown")


def test_containers_of_a_pod_on_one_card_are_summed_before_the_share_is_taken() -> None:
    facts = [
        pod(scheduled_at=1),
        card(),
        vgpu(container="a", memory=300, cores=0),
        vgpu(container="b", memory=300, cores=10),
    ]
    row = one(facts)
    assert (row["containers"], row["memory_mib"], row["cores_percent"]) == ("a,b", 600, 10)
    assert row["share_ppm"] == 600 * 1_000_000 // 1024


def test_the_floor_by_slots_lifts_a_small_share_only_where_it_is_set() -> None:
    facts = [pod(scheduled_at=1), card(slots_count=10), vgpu(memory=10)]
    assert one(facts)["share_ppm"] == 10 * 1_000_000 // 1024
    lifted = one(facts, PostingParameters(floor_by_slots=True))
    assert (lifted["share_ppm"], lifted["share_basis"]) == (100_000, "slots_floor")


def test_a_share_without_the_cards_memory_is_unknown_and_at_least_its_cores() -> None:
    facts = [pod(scheduled_at=1), vgpu(memory=512, cores=25)]
    row = one(facts)
    assert (row["share_ppm"], row["share_at_least_ppm"], row["share_basis"]) == (None, 250_000, "unknown")
    assert findings(facts) == [("share_unknown", "pod team-a/u1")]


@pytest.mark.parametrize(
    ("larger", "mode", "occupancy"),
    [
        ({"memory": 512, "requested_memory_mib": 511}, "hami-core", "in_suspense"),
        ({"cores": 50, "requested_cores_percent": 40}, "hami-core", "in_suspense"),
        ({"memory": 512, "requested_memory_mib": 511}, "mig", "held"),
        ({"memory": 512, "requested_memory_mib": 512, "requested_cores_percent": 0}, "hami-core", "held"),
        ({"memory": 512}, "hami-core", "held"),
        ({"claim_state": "suspect"}, "hami-core", "in_suspense"),
    ],
)
def test_a_claim_larger_than_its_request_is_in_suspense_unless_mig_rounds_it(
    larger: dict[str, Any], mode: str, occupancy: str
) -> None:
    row = one([pod(scheduled_at=1), card(mode=mode), vgpu(**larger)])
    assert row["occupancy"] == occupancy


def test_init_containers_count_by_the_largest_and_app_containers_by_the_sum() -> None:
    facts: list[Fact] = [
        pod(scheduled_at=1, init_done_at=9, init_count=2), card(),
        vgpu(container="i1", container_kind="init", memory=600), vgpu(container="i2", container_kind="init", memory=500),
        vgpu(container="a", memory=200), vgpu(container="s", container_kind="sidecar", memory=100, cores=10),
    ]  # fmt: skip
    before, after = holdings(facts)
    assert (before["memory_mib"], before["cores_percent"], before["ended_at"], before["end_basis"]) == (
        600,
        10,
        9,
        "init_done",
    )
    assert (after["memory_mib"], after["containers"], after["started_at"], after["segment"]) == (300, "a,s", 9, 1)
    running: list[Fact] = [pod(scheduled_at=1, init_count=2), *facts[1:]]
    assert [row["memory_mib"] for row in holdings(running)] == [600]
    smaller: list[Fact] = [*facts[:2], vgpu(container="i1", container_kind="init", memory=100, cores=10), *facts[4:]]
    assert [(row["memory_mib"], row["segment"]) for row in holdings(smaller)] == [(300, 0)]


def test_a_claim_in_suspense_reserves_nothing_and_a_rejected_pod_holds_nothing() -> None:
    facts: list[Fact] = [pod(scheduled_at=5), card(), vgpu(claim_state="suspect", reserved_at=4)]
    assert [row["occupancy"] for row in holdings(facts)] == ["in_suspense"]
    accepted: list[Fact] = [pod(scheduled_at=5), card(), vgpu(reserved_at=4)]
    assert [(row["occupancy"], row["started_at"], row["ended_at"]) for row in holdings(accepted)] == [
        ("reserved", 4, 5), ("held", 5, None),
    ]  # fmt: skip
    assert holdings([pod(scheduled_at=5, phase="Failed", rejected=True), *accepted[1:]]) == []
    assert holdings([accepted[0], card(), vgpu(claim_state="rejected", reserved_at=4)]) == []


def test_a_reservation_runs_to_the_last_sighting_of_a_pod_that_was_never_bound() -> None:
    waiting: dict[str, Any] = {"node": None, "phase": "Pending"}
    facts: list[Fact] = [pod(10, **waiting), pod(20, **waiting), card(), vgpu(20, reserved_at=2)]
    row = one(facts)
    assert (row["occupancy"], row["started_at"], row["ended_at"], row["known_to_at"]) == ("reserved", 2, None, 20)
    row = one([*facts, listing(30)])
    assert (row["started_at"], row["ended_at"], row["ended_before_at"], row["end_basis"]) == (2, 20, 30, "vanished")


def test_only_the_grants_of_a_pods_latest_sighting_count() -> None:
    facts: list[Fact] = [
        pod(10, scheduled_at=1),
        pod(20, scheduled_at=1),
        card(),
        card(uuid="GPU-b"),
        vgpu(10),
        vgpu(20, device_uuid="GPU-b"),
    ]
    assert one(facts)["device_uuid"] == "GPU-b"


def test_a_declared_holding_counts_within_its_validity_and_stays_open_to_the_present() -> None:
    lent = {"scheme": "declared", "source": "site_csv", "container": "*", "device_uuid": CARD, "unit_kind": "gpu"}
    past = grant(1, valid_from_at=1, valid_to_at=9, **lent)
    row = one([pod(1, source="site_csv"), past, listing(30)])
    assert (row["started_at"], row["ended_at"], row["start_basis"], row["end_basis"]) == (1, 9, "declared", "declared")
    row = one([pod(1, source="site_csv"), grant(1, valid_from_at=1, valid_to_at=900, **lent), listing(30)])
    assert (row["ended_at"], row["known_to_at"]) == (None, 30)
    assert holdings([pod(40, source="site_csv"), grant(40, valid_from_at=40, **lent), listing(30)]) == []


def test_a_card_named_by_serial_is_found_in_the_inventory() -> None:
    asset = InventoryBasis(
        source="site_csv", natural_key="s", basis="asset_list", serial="123", device_uuid=CARD, **seen(1)
    )
    lent = grant(
        1,
        scheme="declared",
        source="site_csv",
        container="*",
        unit_id="serial/123",
        valid_from_at=1,
        device_unknown_reason="by serial",
    )
    row = one([pod(1, source="site_csv"), asset, lent, listing(30)])
    assert (row["device_uuid"], row["device_unknown_reason"]) == (CARD, None)


def test_a_claim_runs_from_allocation_and_vanishes_with_the_next_round_that_lacks_it() -> None:
    claim = {"scheme": "dra", "container": "*", "device_uuid": CARD, "unit_kind": "gpu"}
    facts: list[Fact] = [pod(scheduled_at=5), grant(10, unit_id="d/p/0", valid_from_at=2, **claim)]
    row = one(facts)
    assert (row["started_at"], row["start_basis"], row["known_to_at"], row["ended_at"]) == (
        2,
        "claim_allocated",
        10,
        None,
    )
    later = holdings([*facts, grant(20, "u2", unit_id="d/p/1", valid_from_at=3, **{**claim, "device_uuid": "GPU-b"})])
    gone = next(row for row in later if row["pod_uid"] == "u1")
    assert (gone["ended_at"], gone["ended_before_at"], gone["end_basis"]) == (10, 20, "vanished")


def test_consumers_of_one_claim_split_it_evenly_and_an_admin_holds_nothing() -> None:
    claim = {
        "scheme": "dra",
        "container": "*",
        "device_uuid": CARD,
        "unit_kind": "gpu",
        "unit_id": "d/p/0",
        "share_ppm": 1_000_000,
    }
    facts = [grant(uid=f"u{number}", consumers=3, **claim) for number in range(3)]
    assert [row["share_ppm"] for row in holdings(facts)] == [333_333] * 3
    assert holdings([grant(admin_access=True, **claim)]) == []


def test_the_kubelet_resolves_a_name_to_the_pod_that_lived_then() -> None:
    facts: list[Fact] = [
        pod(10, "old", pod="web", phase="Succeeded", scheduled_at=1, last_container_end_at=9),
        pod(30, "new", pod="web", created_at=20, scheduled_at=21),
        grant(10, "old"),
        grant(30, "new"),
        grant(30, "name:team-a/web", scheme="pod_resources", source="pod_resources", device_uuid=CARD),
        grant(15, "name:team-a/web", scheme="pod_resources", source="pod_resources", device_uuid="GPU-stale"),
    ]
    rows = {row["pod_uid"]: row for row in holdings(facts)}
    assert (rows["new"]["device_uuid"], rows["new"]["evidence_grade"]) == (CARD, "corroborated")
    assert (rows["old"]["place_kind"], rows["old"]["ended_at"]) == ("node", 9)


def test_a_replica_whose_unit_is_listed_finds_its_card_and_number_of_replicas() -> None:
    unit = Unit(
        source="pod_resources",
        natural_key="x",
        unit_kind="slice",
        unit_id="x::1",
        device_uuid=CARD,
        replicas=5,
        **seen(30),
    )
    row = one(
        [
            unit,
            grant(
                uid="name:team-a/web", scheme="pod_resources", source="pod_resources", unit_kind="slice", unit_id="x::1"
            ),
        ]
    )
    assert (row["device_uuid"], row["share_ppm"], row["namespace"], row["pod"]) == (CARD, 200_000, "team-a", "web")
    assert (row["started_at"], row["start_basis"]) == (30, "first_seen")


def test_a_process_on_the_card_within_the_interval_verifies_the_holding() -> None:
    facts: list[Fact] = [pod(scheduled_at=5), card(), vgpu()]

    def sample(minute: float, uuid: str = CARD) -> ProcessSample:
        return ProcessSample(
            source="nvidia_smi", natural_key="p", device_uuid=uuid, pid=1, pod_uid="u1", **seen(minute)
        )

    assert one([*facts, sample(10)])["evidence_grade"] == "verified"
    assert one([*facts, sample(30)])["evidence_grade"] == "verified"
    assert one([*facts, sample(4)])["evidence_grade"] == "declared"
    assert one([*facts, sample(10, "GPU-b")])["evidence_grade"] == "declared"


def test_what_a_monitor_counts_of_a_pod_on_its_card_corroborates_its_grant() -> None:
    facts: list[Fact] = [pod(scheduled_at=5), card(), vgpu()]

    def counted(minute: float, **more: Any) -> PartitionSample:
        told = {"origin": "monitor", "device_uuid": CARD, "namespace": "team-a", "pod": "u1", **more}
        return PartitionSample(source="hami", natural_key="m", memory_counted_mib=10, **told, **seen(minute))

    assert one(facts)["evidence_grade"] == "declared"
    assert one([*facts, counted(10)])["evidence_grade"] == "corroborated"
    assert one([*facts, counted(4)])["evidence_grade"] == "declared"
    assert one([*facts, counted(10, device_uuid="GPU-b")])["evidence_grade"] == "declared"
    assert one([*facts, counted(10, pod="other")])["evidence_grade"] == "declared"
    assert one([*facts, counted(10, origin="scheduler")])["evidence_grade"] == "declared", "its grant is its own word"


def test_sources_that_name_different_cards_are_a_finding_and_the_stronger_one_counts() -> None:
    facts = [
        pod(scheduled_at=5),
        card(),
        vgpu(),
        grant(scheme="pod_resources", source="pod_resources", device_uuid="GPU-b"),
    ]
    assert one(facts)["device_uuid"] == CARD
    assert findings(facts) == [("grant_sources_disagree", "pod team-a/u1")]
    agreeing = [*facts[:3], grant(scheme="pod_resources", source="pod_resources", device_uuid=CARD)]
    assert findings(agreeing) == []
    assert one(agreeing)["evidence_grade"] == "corroborated"


def test_a_vanished_pod_ends_at_its_last_sighting_with_two_bounds() -> None:
    facts: list[Fact] = [pod(10, scheduled_at=1), grant(10), listing(10), listing(25), listing(40)]
    row = one(facts)
    assert (row["ended_at"], row["ended_before_at"], row["end_basis"], row["known_to_at"]) == (10, 25, "vanished", 10)
    successor = pod(40, "u2", pod="u1", created_at=15, scheduled_at=None, node=None, phase="Pending")
    row = one([*facts, successor])
    assert (row["ended_at"], row["ended_before_at"]) == (10, 15)


def test_a_partial_or_failed_listing_makes_nobody_vanish() -> None:
    facts: list[Fact] = [pod(10, scheduled_at=1), grant(10), listing(25, complete=False), listing(26, status="failed")]
    assert one([*facts, listing(27, source="hami")])["ended_at"] is None


def test_a_pod_that_ended_without_any_stamp_is_a_finding_and_no_row() -> None:
    facts: list[Fact] = [pod(phase="Succeeded"), vgpu(), card()]
    assert holdings(facts) == []
    assert findings(facts) == [("interval_unknown", "pod team-a/u1")]
    backwards: list[Fact] = [pod(phase="Failed", scheduled_at=9, last_container_end_at=5), vgpu(), card()]
    assert holdings(backwards) == []
    assert findings(backwards) == [("end_before_start", "pod team-a/u1")]


def test_a_stamp_before_creation_is_refused_and_said() -> None:
    facts: list[Fact] = [pod(created_at=10, started_at=12), vgpu(bound_at=9, bind_basis="hami.io/bind-time"), card()]
    assert (one(facts)["started_at"], one(facts)["start_basis"]) == (12, "start_time")
    assert findings(facts) == [("stamp_before_creation", "pod team-a/u1")]


def test_a_grant_of_a_scheme_that_nobody_listed_counts_as_the_weakest() -> None:
    facts = [pod(scheduled_at=1), grant(scheme="no such scheme", unit_kind="gpu"), node()]
    assert one(facts)["scheme"] == "no such scheme"
    assert {row["scheme"] for row in holdings([*facts, grant()])} == {"device_plugin"}


def test_stamps_of_a_broken_clock_are_left_out_and_said() -> None:
    long_ago, days = -60 * 24 * 366 * 2000, 60 * 24 * 400
    facts: list[Fact] = [
        pod(created_at=long_ago, scheduled_at=long_ago, started_at=2, phase="Failed", last_container_end_at=days),
        pod(20, created_at=long_ago, scheduled_at=long_ago, started_at=2),
        vgpu(reserved_at=long_ago, bound_at=long_ago),
        card(),
    ]
    row = one(facts)
    assert (row["started_at"], row["start_basis"], row["ended_at"], row["end_basis"]) == (
        2,
        "start_time",
        20,
        "phase_seen",
    )
    assert findings(facts) == [("stamp_implausible", "pod team-a/u1")]


@pytest.mark.parametrize(
    "figure", [{"memory": 2**62}, {"memory": -1}, {"cores": 2**62}, {"quantity": 2**40}, {"consumers": -3}]
)
def test_figures_that_no_card_can_have_are_a_finding_only(figure: dict[str, Any]) -> None:
    facts: list[Fact] = [pod(scheduled_at=1), card(), vgpu(**figure)]
    assert holdings(facts) == []
    assert findings(facts) == [("grant_unreadable", "pod team-a/u1")]


def test_a_memory_that_no_card_can_have_is_not_known() -> None:
    facts: list[Fact] = [pod(scheduled_at=1), card(memory_mib=2**62), vgpu(cores=10)]
    assert (one(facts)["share_ppm"], one(facts)["share_at_least_ppm"]) == (None, 100_000)
    assert findings(facts) == [("device_memory_implausible", "device GPU-a"), ("share_unknown", "pod team-a/u1")]


def test_hostile_text_posts_without_a_crash() -> None:
    facts: list[Fact] = [
        pod(scheduled_at=1),
        card(memory_mib=1),
        vgpu(memory=0, cores=0),
        grant(uid="u2", quantity=0),
        grant(uid="u4", scheme="trace", share_ppm=0, valid_from_at=1, quantity=1_000_000),
        grant(uid="name:/", scheme="pod_resources", source="pod_resources"),
        grant(uid="u5' OR 1=1 --", container='a"b,c', node="n'"),
        node(name="n'", labels="{}", replicas=0),
    ]
    assert {row["pod_uid"] for row in holdings(facts)} == {"u1", "u2", "u4", "name:/", "u5' OR 1=1 --"}
