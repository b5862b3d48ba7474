"""The handed HAMi case, entry by entry: what the readers owe to its expected.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.node import Node
from steelyard.primitives.instant import parse_instant
from steelyard.sources.hami import (
    check_inconsistencies,
    merge_outcomes,
    parse_scheduling_event,
    read_node_register,
    read_pod_allocations,
)
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView, parse_pod

CTX = ReadContext()


def load(shared: Path, name: str) -> Any:
    return json.loads((shared / "cases" / "hami" / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def expected(shared: Path) -> Any:
    return load(shared, "expected.json")


@pytest.fixture(scope="module")
def pods(shared: Path) -> dict[str, PodView]:
    views = [parse_pod(item) for item in load(shared, "pods_hami_mixed.json")["items"]]
    return {f"{view.namespace}/{view.name}": view for view in views}


def test_every_registered_card_is_read_as_expected(shared: Path, expected: Any) -> None:
    facts = [fact for item in load(shared, "nodes_hami.json")["items"] for fact in read_node_register(item, CTX)]
    cards = {fact.device_uuid: fact for fact in facts if isinstance(fact, Device)}
    handshakes = {fact.node: fact.handshake for fact in facts if isinstance(fact, Node)}
    assert not [fact for fact in facts if isinstance(fact, Finding)]
    truth = {
        uuid: (node, card)
        for node, own in expected["device_register"].items()
        if node != "gpu-v"
        for uuid, card in own.items()
    }
    assert cards.keys() == truth.keys()
    for uuid, (node, wanted) in truth.items():
        card = cards[uuid]
        seen = {
            "schedulable_memory_mib": card.schedulable_memory_mib,
            "physical_memory_mib": card.memory_mib,
            "cores_percent": card.schedulable_cores_percent,
            "slots_count": card.slots_count,
            "type": card.model,
            "mode": card.mode,
            "index": card.device_index,
            "numa": card.numa,
            "healthy": card.healthy,
            "cordoned": card.cordoned,
            "handshake": handshakes[node],
            "encoding": card.encoding,
        }
        assert card.node == node
        assert seen == {name: wanted[name] for name in seen}
        if "memory_scaling_ratio" in wanted:
            assert (card.schedulable_memory_mib or 0) / (card.memory_mib or 1) == wanted["memory_scaling_ratio"]
        assert (card.mig_profiles is None) == ("mig_profiles" not in wanted)
        if card.mig_profiles is not None:
            assert _profiles(card.mig_profiles) == wanted["mig_profiles"]


def _profiles(text: str) -> dict[str, Any]:
    return {
        profile["name"]: {
            "memory_mib": profile["memoryMB"],
            "cores_percent": profile["core"],
            "compute_slices_count": profile["sliceCount"],
            "memory_slices_count": profile["placements"][0]["size"],
            "legal_starts": [placement["start"] for placement in profile["placements"]],
        }
        for profile in json.loads(text)
    }


def test_every_pod_s_slices_are_read_as_expected(expected: Any, pods: dict[str, PodView]) -> None:
    for name, view in pods.items():
        wanted = expected["pods"][name]
        grants = [fact for fact in read_pod_allocations(view, CTX) if isinstance(fact, Grant)]
        if wanted["state"] == "none":
            assert {grant.claim_state for grant in grants} == {"rejected"}
            continue
        if "readable_device_uuid" in wanted or name == "team-f/bypass-nodename":
            assert [grant.claim_state for grant in grants if grant.device_uuid is None] == ["unreadable"] * len(grants)
            continue
        slices = [*wanted.get("slices", wanted.get("annotated_slices", [])), *wanted.get("init_slices", [])]
        columns = ("container", "device_uuid", "memory_mib", "cores_percent")
        assert sorted(tuple(getattr(grant, column) for column in columns) for grant in grants) == sorted(
            tuple(each[column] for column in columns) for each in slices
        )
        assert {grant.alignment for grant in grants} == {wanted["alignment"]}
        assert {grant.node for grant in grants} == {wanted["node"]}
        assert {grant.container for grant in grants if grant.container_kind == "init"} == {
            each["container"] for each in wanted.get("init_slices", [])
        }


def test_what_each_container_asked_for_stands_beside_what_it_got(expected: Any, pods: dict[str, PodView]) -> None:
    for name, view in pods.items():
        asked = {each["container"]: each for each in expected["pods"][name]["requested"]}
        for grant in (fact for fact in read_pod_allocations(view, CTX) if isinstance(fact, Grant)):
            assert grant.requested_memory_mib == asked[grant.container].get("memory_mib_per_gpu")
            assert grant.requested_cores_percent == asked[grant.container].get("cores_percent_per_gpu")


def test_bind_stamps_and_reservations_are_told_apart(expected: Any, pods: dict[str, PodView]) -> None:
    for name, view in pods.items():
        wanted = expected["pods"][name]
        start = wanted.get("grant_start_utc") or (wanted.get("grant_interval_utc") or [None])[0]
        for grant in (fact for fact in read_pod_allocations(view, CTX) if isinstance(fact, Grant)):
            if start is not None:
                assert grant.bound_at == parse_instant(start)
                assert wanted["grant_start_basis"].startswith(grant.bind_basis or "?")
            if wanted["lifecycle"] == "reserved":
                assert (grant.bound_at, grant.reserved_at) == (None, parse_instant("2026-11-30T01:00:02Z"))


def test_mig_instances_are_read_as_expected(expected: Any, pods: dict[str, PodView]) -> None:
    for name in ("team-d/mig-realized", "team-d/mig-reserved"):
        wanted = expected["pods"][name]["mig"]
        (grant,) = [fact for fact in read_pod_allocations(pods[name], CTX) if isinstance(fact, Grant)]
        seen = {
            "profile": grant.profile,
            "realised": grant.realised,
            "gpu_instance_id": grant.gi,
            "compute_instance_id": grant.ci,
            "mig_uuid": grant.unit_id,
            "placement_start": grant.placement_start,
            "placement_size": grant.placement_size,
            "requested_memory_mib": grant.requested_memory_mib,
            "granted_memory_mib": grant.memory_mib,
        }
        assert seen == wanted
        numerator, denominator = (int(part) for part in expected["pods"][name]["slices"][0]["share_exact"].split("/"))
        assert (grant.compute_slices, grant.compute_slices_total) == (numerator, denominator)
    wanted = expected["pods"]["team-d/mig-legacy"]["mig"]
    (grant,) = [fact for fact in read_pod_allocations(pods["team-d/mig-legacy"], CTX) if isinstance(fact, Grant)]
    assert (grant.profile, grant.gi) == (wanted["profile_if_default_geometry"], wanted["gpu_instance_id"])
    assert (grant.requested_memory_mib, grant.memory_mib) == (
        wanted["requested_memory_mib"],
        wanted["granted_memory_mib"],
    )
    assert grant.cores_percent == wanted["cores_percent_recorded"]
    assert (grant.compute_slices, grant.compute_slices_total) == (2, 7)
    assert f"geometry_index={wanted['geometry_index']} slot_index={wanted['slot_index']}" in (grant.claim_reason or "")
    assert f"position_ambiguous={str(wanted['position_ambiguous']).lower()}" in (grant.claim_reason or "")


def test_only_the_cut_record_is_a_finding_of_the_pods(expected: Any, pods: dict[str, PodView]) -> None:
    found = {
        name: fact
        for name, view in pods.items()
        for fact in read_pod_allocations(view, CTX)
        if isinstance(fact, Finding)
    }
    assert {name: fact.code for name, fact in found.items()} == {"team-e/malformed": "device_record_malformed"}
    evidence, wanted = json.loads(found["team-e/malformed"].evidence), expected["pods"]["team-e/malformed"]
    assert (evidence["parse_error"], evidence["readable_device_uuid"]) == (
        wanted["parse_error"],
        wanted["readable_device_uuid"],
    )


def test_the_scheduler_s_events_say_what_is_expected(shared: Path, expected: Any) -> None:
    events: dict[str, list[Any]] = {}
    for event in load(shared, "events_hami.json")["items"]:
        about = event["involvedObject"]
        subject = f"node/{about['name']}" if about["kind"] == "Node" else f"{about['namespace']}/{about['name']}"
        events.setdefault(subject, []).append(event)
    assert events.keys() == expected["scheduling_events"].keys()
    for subject, wanted in expected["scheduling_events"].items():
        parsed = [
            parse_scheduling_event(event["reason"], event["message"], event["source"]["component"])
            for event in events[subject]
        ]
        outcome = merge_outcomes(each for each in parsed if each is not None)
        assert outcome is not None
        for name, value in wanted.items():
            if name == "event_count":
                assert {event["count"] for event in events[subject]} == {value}
            else:
                seen = getattr(outcome, name)
                plain = {code: list(nodes) for code, nodes in seen.items()} if name == "reasons" else seen
                assert (list(plain) if isinstance(plain, tuple) else plain) == value, (subject, name)


def test_the_contradictions_of_the_inputs_are_found_and_no_others(
    shared: Path, expected: Any, pods: dict[str, PodView]
) -> None:
    nodes = load(shared, "nodes_hami.json")["items"]
    facts = list(check_inconsistencies(nodes, list(pods.values()), load(shared, "events_hami.json")["items"], CTX))
    found = {fact.code: (fact, json.loads(fact.evidence)) for fact in facts if isinstance(fact, Finding)}
    wanted = {each["code"]: each for each in expected["input_inconsistencies"]}
    assert len(found) == len(facts)
    assert found.keys() == {*wanted, expected["scheduling_events"]["node/gpu-b"]["finding"]}
    for code, each in wanted.items():
        evidence = found[code][1]
        assert {name: evidence[name] for name in each.keys() - {"code", "text"}} == {
            name: value for name, value in each.items() if name not in ("code", "text")
        }
    assert found["cluster_mixes_versions"][1]["versions"] == ["v2.10.0", "v2.4.1", "v2.7.1", "v2.9.0"]
    assert found["event_count_one_with_span"][1]["later_than_bind"] == ["team-a/infer-1"]
