"""The handed pods, events and claims, against what their makers say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.facts.device import Device
from steelyard.facts.event import Event
from steelyard.facts.grant import Grant
from steelyard.facts.request import Request
from steelyard.facts.unit import Unit
from steelyard.primitives.instant import parse_instant
from steelyard.sources.kube_api.dra import read_dra
from steelyard.sources.kube_api.events import read_event
from tests.sources.kube_api.kube_objects import CTX, codes, of, only, read

MEMO_OF_A_GRANT = {"suspended-resumed-worker-0", "infer-dra-0"}
"""Their expected gpu_count is of whole cards; they hold a vGPU and a claim."""


@pytest.fixture(scope="module")
def case(shared: Path) -> Path:
    return shared / "cases" / "queues"


def _load(path: Path) -> Any:
    return json.loads(path.read_text())


def _instant(text: str | None) -> int | None:
    return None if text is None else parse_instant(text)


def test_pods_have_the_expected_intervals_counts_and_rejections(case):
    expected = _load(case / "expected.json")["pods"]
    pods = _load(case / "pods.json")["items"]
    assert len(pods) == len(expected)
    for payload in pods:
        facts = read(payload)
        request = only(facts, Request)
        truth = expected[f"{request.namespace}/{request.pod}"]
        assert request.scheduled_at == _instant(truth["alloc_start_utc"]), request.pod
        if truth["outcome"] == "failed" and truth["failure_class"] == "admission":
            assert (request.rejected, truth["held_seconds_to_snapshot"]) == (True, 0)
            assert [grant.claim_state for grant in of(facts, Grant)] == ["rejected"]
        else:
            assert request.rejected is False, request.pod
            assert request.last_container_end_at == _instant(truth["alloc_end_utc"]), request.pod
        whole = sum(grant.quantity for grant in of(facts, Grant) if grant.claim_state != "unreadable")
        if request.node is not None:
            assert whole == truth["gpu_count"], request.pod
        if request.pod not in MEMO_OF_A_GRANT:
            assert request.gpu_count == truth["gpu_count"], request.pod
        assert codes(facts) == [], request.pod


def test_held_seconds_follow_from_the_stamps(case):
    document = _load(case / "expected.json")
    snapshot = parse_instant(document["snapshot_utc"])
    for payload in _load(case / "pods.json")["items"]:
        request = only(read(payload), Request)
        truth = document["pods"][f"{request.namespace}/{request.pod}"]
        end = request.scheduled_at if request.rejected else request.last_container_end_at or snapshot
        held = 0 if request.scheduled_at is None else end - request.scheduled_at
        assert held == truth["held_seconds_to_snapshot"] * 1_000_000, request.pod


def test_claims_have_the_expected_devices_shares_and_consumers(case):
    items = _load(case / "dra-claims-slices-list.json")["items"]
    expected = _load(case / "expected.json")["dra"]
    claims = [item for item in items if item["kind"] == "ResourceClaim"]
    facts = list(read_dra(claims, [item for item in items if item["kind"] == "ResourceSlice"], CTX))
    assert codes(facts) == []
    units = {unit.unit_id: unit for unit in of(facts, Unit)}
    devices = {device.device_uuid: device for device in of(facts, Device)}
    for claim in claims:
        truth = expected[claim["metadata"]["name"]]
        consumers = [row["uid"] for row in claim["status"]["reservedFor"]]
        grants = [grant for grant in of(facts, Grant) if grant.pod_uid in consumers]
        assert [grant.unit_id for grant in grants] == [truth["device_key"]] * len(consumers)
        unit = units[truth["device_key"]]
        for grant in grants:
            assert grant.admin_access is (truth["billable_devices_count"] == 0)
            if grant.admin_access:
                continue
            assert grant.consumers == truth["consumers_count"]
            assert grant.valid_from_at == _instant(truth["allocation_start_utc"])
            assert _share(grant) == truth["share_ppm"]
            assert (unit.instance_uuid or unit.device_uuid) == truth["device_uuid"]
            assert grant.device_uuid == truth.get("parent_uuid", truth["device_uuid"])
            assert grant.device_uuid in devices
            assert (grant.profile, grant.memory_mib) == (truth.get("profile"), truth.get("memory_mib"))


def _share(grant: Grant) -> int:
    if grant.share_ppm is not None:
        return grant.share_ppm
    parts = ((grant.compute_slices, grant.compute_slices_total), (grant.memory_slices, grant.memory_slices_total))
    return max(part * 1_000_000 // whole for part, whole in parts if part and whole)


def test_every_event_is_read_with_its_last_time_and_count(case):
    for payload in _load(case / "events-list.json")["items"]:
        facts = list(read_event(payload, CTX))
        event = only(facts, Event)
        series = payload.get("series") or {}
        last = series.get("lastObservedTime") or payload.get("lastTimestamp") or payload["eventTime"]
        assert event.occurred_at == parse_instant(last)
        assert event.count == (series.get("count") or payload.get("count") or 1)
        assert codes(facts) == []
