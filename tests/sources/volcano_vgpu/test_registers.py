from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.facts.node import Node
from steelyard.primitives.instant import parse_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.volcano_vgpu import read_node_register

G = "GPU-11111111-0000-4000-8000-000000000001"
REGISTER, HANDSHAKE = "volcano.sh/node-vgpu-register", "volcano.sh/node-vgpu-handshake"


def read(annotations: Any) -> list[Any]:
    return list(read_node_register({"metadata": {"name": "v1", "annotations": annotations}}, ReadContext()))


@pytest.mark.parametrize(
    ("text", "encoding", "mode", "mig"),
    [
        (f"{G},10,32768,NVIDIA-Tesla V100-PCIE-32GB,true,hami-core:", "volcano6", "hami-core", None),
        (f"{G},10,32768,NVIDIA-Tesla V100-PCIE-32GB,true,mig:", "volcano6", "mig", True),
        (f"{G},10,32768,NVIDIA-Tesla V100-PCIE-32GB,true:", "volcano5", None, None),
    ],
)
def test_both_layouts_are_read_and_what_they_lack_stays_unknown(
    text: str, encoding: str, mode: str | None, mig: bool | None
) -> None:
    (card,) = read({REGISTER: text})
    assert isinstance(card, Device)
    assert (card.encoding, card.mode, card.mig_enabled, card.healthy, card.slots_count) == (
        encoding,
        mode,
        mig,
        True,
        10,
    )
    assert (card.device_index, card.numa, card.schedulable_cores_percent) == (None, None, None)
    assert (card.memory_mib, card.schedulable_memory_mib, card.basis, card.source) == (
        32768,
        32768,
        "vendor_register",
        "volcano_vgpu",
    )


def test_scaled_memory_is_seen_by_the_model() -> None:
    (card,) = read({REGISTER: f"{G},10,65536,NVIDIA-Tesla V100-PCIE-32GB,true:"})
    assert (card.memory_mib, card.schedulable_memory_mib) == (32768, 65536)


def test_a_handshake_with_dots_is_a_node_fact() -> None:
    (seen,) = read({HANDSHAKE: "Requesting_2026.03.01 02:00:30"})
    assert isinstance(seen, Node)
    assert (seen.handshake, seen.handshake_at, seen.source) == (
        "Requesting",
        parse_instant("2026-03-01T02:00:30Z"),
        "volcano_vgpu",
    )


@pytest.mark.parametrize(
    ("annotations", "code"),
    [
        ({REGISTER: f"{G},10,32768,100,X,0,true:"}, "register_malformed"),
        ({REGISTER: f"{G},10,32768,X,maybe:"}, "register_field_unreadable"),
        ({HANDSHAKE: "hello"}, "handshake_unreadable"),
    ],
)
def test_what_cannot_be_read_is_a_finding(annotations: dict[str, str], code: str) -> None:
    assert [fact.code for fact in read(annotations) if isinstance(fact, Finding)] == [code]


@pytest.mark.parametrize("annotations", [None, [], {REGISTER: 7}, {REGISTER: ""}, {"other": "x"}])
def test_a_node_without_the_register_yields_nothing(annotations: Any) -> None:
    assert read(annotations) == []


def test_the_handed_node_is_read_as_expected(shared: Path) -> None:
    folder = shared / "cases" / "hami"
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["device_register"]["gpu-v"]
    items = json.loads((folder / "volcano_list.json").read_text(encoding="utf-8"))["items"]
    (node,) = [item for item in items if item["kind"] == "Node"]
    cards = {fact.device_uuid: fact for fact in read_node_register(node, ReadContext()) if isinstance(fact, Device)}
    assert cards.keys() == wanted.keys()
    for uuid, card in cards.items():
        assert {
            "schedulable_memory_mib": card.schedulable_memory_mib,
            "physical_memory_mib": card.memory_mib,
            "cores_percent": card.schedulable_cores_percent,
            "slots_count": card.slots_count,
            "type": card.model,
            "mode": card.mode,
            "index": card.device_index,
            "numa": card.numa,
            "healthy": card.healthy,
            "encoding": card.encoding,
        } == wanted[uuid]
