"""The kubelet over its socket: what gRPC's own server sends is read as its JSON would be; whoever does not answer is unavailable."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.facts.device import Device
from steelyard.facts.grant import Grant
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceMalformed, SourceUnavailable
from steelyard.sources.pod_resources import KubeletClient, read_pod_resources
from steelyard.sources.pod_resources.wire import ALLOCATABLE_ANSWER, LIST_ANSWER, message_of
from steelyard.sources.shared.context import ReadContext
from tests.sources.pod_resources.kubelet_peer import kubelet, wire

CARD_A = "GPU-aaaaaaaa-0000-4000-8000-000000000001"
CARD_B = "GPU-bbbbbbbb-0000-4000-8000-000000000002"
MIG = "MIG-cccccccc-0000-4000-8000-000000000003"


def devices(resource: str, *ids: str, numa: int | None = None) -> dict[str, Any]:
    topology = {} if numa is None else {"topology": {"nodes": [{"ID": numa}]}}
    return {"resource_name": resource, "device_ids": list(ids), **topology}


CLAIM = {
    "claim_name": "gpu",
    "claim_namespace": "team-a",
    "claim_resources": [
        {
            "cdi_devices": [{"name": "nvidia.com/gpu=0"}],
            "driver_name": "gpu.nvidia.com",
            "pool_name": "n1",
            "device_name": "gpu-0",
            "share_id": "s-1",
        }
    ],
}
LISTED = {
    "pod_resources": [
        {
            "name": "train-0",
            "namespace": "team-a",
            "containers": [
                {
                    "name": "main",
                    "devices": [devices("nvidia.com/gpu", CARD_A, numa=1)],
                    "cpu_ids": [1, 2, 300],
                    "memory": [{"memory_type": "hugepages-1Gi", "size": 1 << 40}],
                }
            ],
            "cpu_ids": [7],
        },
        {"name": "infer", "namespace": "team-b", "containers": [{"name": "srv", "devices": [devices("nvidia.com/mig-1g.10gb", MIG)]}]},
        {"name": "shared", "namespace": "team-c", "containers": [{"name": "x", "devices": [devices("nvidia.com/gpu.shared", f"{CARD_B}::1")]}]},
        {"name": "claims", "namespace": "team-a", "containers": [{"name": "y", "dynamic_resources": [CLAIM]}]},
    ]
}  # fmt: skip
OFFERED = {
    "devices": [
        devices("nvidia.com/gpu.shared", f"{CARD_B}::0", f"{CARD_B}::1"),
        devices("nvidia.com/mig-1g.10gb", MIG),
    ],
    "cpu_ids": [0, 1],
}


def asked(path: Path, node: str = "n1") -> dict[str, Any]:
    client = KubeletClient(path)
    try:
        return client.ask(node)
    finally:
        client.close()


def test_whole_cards_instances_replicas_and_claims_are_grants_as_their_json_would_give(tmp_path: Path) -> None:
    with kubelet(tmp_path / "k.sock", LISTED, OFFERED) as peer:
        answer = asked(tmp_path / "k.sock")
        assert peer.asked == ["List", "GetAllocatableResources"]
    ctx = ReadContext(node="n1", observed_at=1_000)
    facts = list(read_pod_resources(answer, ctx))
    assert facts == list(read_pod_resources({"node": "n1", "list": LISTED, "allocatable": OFFERED}, ctx))
    assert [
        (fact.unit_kind, fact.device_uuid, fact.unit_id, fact.replicas) for fact in facts if isinstance(fact, Grant)
    ] == [
        ("gpu", CARD_A, None, None),
        ("mig", None, MIG, None),
        ("slice", CARD_B, f"{CARD_B}::1", 2),
        ("dra", None, "gpu.nvidia.com/n1/gpu-0/s-1", None),
    ]
    assert {fact.device_uuid: fact.healthy for fact in facts if isinstance(fact, Device)} == {
        CARD_A: False,
        CARD_B: True,
    }
    (status,) = [fact for fact in facts if isinstance(fact, SourceStatus)]
    assert (status.status, status.complete, status.scope, status.objects_count) == ("ok", True, "node/n1", 4)


def test_an_idle_node_is_a_complete_answer_without_grants(tmp_path: Path) -> None:
    with kubelet(tmp_path / "k.sock"):
        facts = list(read_pod_resources(asked(tmp_path / "k.sock"), ReadContext(node="n1", observed_at=1)))
    assert [(type(fact), fact.complete) for fact in facts if isinstance(fact, SourceStatus)] == [(SourceStatus, True)]


def test_an_old_kubelet_without_allocatable_says_nothing_of_health(tmp_path: Path) -> None:
    with kubelet(tmp_path / "k.sock", LISTED, grpc.StatusCode.UNIMPLEMENTED):
        answer = asked(tmp_path / "k.sock")
    assert "allocatable" not in answer
    facts = list(read_pod_resources(answer, ReadContext(node="n1", observed_at=1)))
    assert {fact.healthy for fact in facts if isinstance(fact, Device)} == {None}


def test_an_answer_larger_than_a_message_usually_is_is_read(tmp_path: Path) -> None:
    many = {"pod_resources": [{"name": f"p{n}", "namespace": "x" * 200} for n in range(30_000)]}
    with kubelet(tmp_path / "k.sock", many):
        assert len(asked(tmp_path / "k.sock")["list"]["pod_resources"]) == 30_000


def test_a_kubelet_that_restarts_is_found_again(tmp_path: Path) -> None:
    client, path = KubeletClient(tmp_path / "k.sock"), tmp_path / "k.sock"
    try:
        with kubelet(path, LISTED):
            assert len(client.ask("n1")["list"]["pod_resources"]) == 4
        with pytest.raises(SourceUnavailable):
            client.ask("n1")
        with kubelet(path, {}):
            assert client.ask("n1")["list"]["pod_resources"] == []
    finally:
        client.close()


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNIMPLEMENTED]
)
def test_a_kubelet_that_refuses_is_unavailable_in_its_own_words(tmp_path: Path, code: grpc.StatusCode) -> None:
    with (
        kubelet(tmp_path / "k.sock", code),
        pytest.raises(SourceUnavailable, match=f"kubelet: {code.name}: as the test wants"),
    ):
        asked(tmp_path / "k.sock")


def test_a_socket_that_is_not_there_says_what_to_mount(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="mount /var/lib/kubelet/pod-resources"):
        asked(tmp_path / "none.sock")


def test_a_peer_that_says_nothing_costs_the_deadline_alone(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "k.sock"))
        silent.listen()
        client = KubeletClient(tmp_path / "k.sock", answer_seconds=0.2)
        before = time.monotonic()
        with pytest.raises(SourceUnavailable, match=r"DEADLINE_EXCEEDED|UNAVAILABLE"):
            client.ask("n1")
        assert time.monotonic() - before < 30
        client.close()


@pytest.mark.parametrize(
    "wrong",
    [
        b"\x0a",
        b"\x0a\x05ab",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0b",
        b"\x09\x00",
        b"\x0d\x00",
        b"\xff" * 20,
    ],
)
def test_what_is_no_message_is_malformed(wrong: bytes) -> None:
    with pytest.raises(SourceMalformed, match="expected a message of PodResources v1"):
        message_of(wrong, LIST_ANSWER)


def test_fields_that_are_not_known_are_passed_over() -> None:
    extra = b"\x98\x06\x07" + b"\x9a\x06\x03abc" + b"\x99\x06" + bytes(8) + b"\x9d\x06" + bytes(4)
    known = wire("AllocatableResourcesResponse", OFFERED)
    assert message_of(extra + known + extra, ALLOCATABLE_ANSWER) == message_of(known, ALLOCATABLE_ANSWER)


def test_a_negative_number_is_one() -> None:
    found = message_of(
        wire("AllocatableResourcesResponse", {"devices": [devices("r", "i", numa=-3)]}), ALLOCATABLE_ANSWER
    )
    assert found["devices"][0]["topology"] == {"nodes": [{"ID": -3}]}


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_malformed(text: bytes) -> None:
    with suppress(SourceMalformed):
        message_of(text, LIST_ANSWER)


@given(st.data())
def test_any_cut_of_a_message_is_a_message_or_malformed(data: st.DataObject) -> None:
    whole = wire("ListPodResourcesResponse", LISTED)
    with suppress(SourceMalformed):
        message_of(whole[: data.draw(st.integers(0, len(whole)))], LIST_ANSWER)
