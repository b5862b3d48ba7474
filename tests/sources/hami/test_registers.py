from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.facts.node import Node
from steelyard.primitives.instant import parse_instant
from steelyard.sources.hami import read_node_register
from steelyard.sources.shared.context import ReadContext, ReadSettings

G = "GPU-11111111-0000-4000-8000-000000000001"
H = "GPU-11111111-0000-4000-8000-000000000002"
REGISTER = "hami.io/node-nvidia-register"


def node(annotations: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": "n1", "annotations": annotations, "labels": labels or {}}}


def read(annotations: dict[str, Any], labels: dict[str, str] | None = None, **settings: Any) -> list[Any]:
    return list(read_node_register(node(annotations, labels), ReadContext(settings=ReadSettings(**settings))))


def devices(facts: list[Any]) -> list[Device]:
    return [fact for fact in facts if isinstance(fact, Device)]


def codes(facts: list[Any]) -> list[str]:
    return [fact.code for fact in facts if isinstance(fact, Finding)]


def test_a_card_is_an_attributed_device_of_its_node() -> None:
    (card,) = devices(read({REGISTER: f"{G},10,40960,100,NVIDIA-NVIDIA A100-SXM4-40GB,1,true,2,hami-core:"}))
    assert (card.device_uuid, card.natural_key, card.node, card.vendor, card.model) == (
        G,
        G,
        "n1",
        "nvidia",
        "NVIDIA-NVIDIA A100-SXM4-40GB",
    )
    assert (card.memory_mib, card.schedulable_memory_mib, card.schedulable_cores_percent) == (40960, 40960, 100)
    assert (card.device_index, card.numa, card.slots_count, card.mode, card.healthy) == (2, 1, 10, "hami-core", True)
    assert (card.basis, card.encoding, card.cordoned, card.mig_enabled) == ("vendor_register", "csv9", False, None)


def test_seven_fields_carry_no_index() -> None:
    (card,) = devices(read({REGISTER: f"{G},10,15360,100,NVIDIA-Tesla T4,0,true:"}))
    assert (card.device_index, card.encoding, card.mode) == (None, "csv7", "hami-core")


def test_a_json_card_without_health_is_unhealthy() -> None:
    text = json.dumps(
        [{"id": G, "count": 10, "devmem": 46068, "devcore": 100, "type": "NVIDIA L40S", "mode": "hami-core"}]
    )
    (card,) = devices(read({REGISTER: text}))
    assert (card.healthy, card.device_index, card.numa) == (False, 0, 0)


def test_mig_profiles_are_kept_and_a_mig_card_is_never_scaled() -> None:
    text = json.dumps(
        [{"id": G, "count": 7, "devmem": 40960, "mode": "mig", "health": True, "migProfiles": [{"name": "1g.5gb"}]}]
    )
    (card,) = devices(read({REGISTER: text}, {"x/device-memory-scaling": "2"}))
    assert (card.memory_mib, card.mig_enabled, card.encoding) == (40960, True, "json+migProfiles")
    assert json.loads(card.mig_profiles or "") == [{"name": "1g.5gb"}]


def test_mig_profiles_on_a_card_that_is_not_in_mig_mode_are_a_conflict() -> None:
    text = json.dumps([{"id": G, "mode": "hami-core", "migProfiles": [{"name": "1g.5gb"}]}])
    assert codes(read({REGISTER: text})) == ["device_mode_conflict"]


@pytest.mark.parametrize(
    ("labels", "settings", "physical"),
    [
        ({}, {}, 46068),  # by the model
        ({"x/device-memory-scaling": "3"}, {}, 23034),
        ({"x/device-memory-scaling": "3"}, {"hami_memory_scaling_by_node": {"n1": 1.5}}, 46068),
        ({"x/device-memory-scaling": "3"}, {"hami_memory_scaling_by_node": {"n2": 1.5}}, 23034),
    ],
)
def test_physical_memory_follows_settings_then_label_then_model(
    labels: dict[str, str], settings: dict[str, Any], physical: int
) -> None:
    (card,) = devices(read({REGISTER: f"{G},10,69102,100,NVIDIA L40S,0,true:"}, labels, **settings))
    assert (card.memory_mib, card.schedulable_memory_mib) == (physical, 69102)


def test_a_scaling_label_that_is_no_factor_is_named_and_the_model_decides() -> None:
    facts = read({REGISTER: f"{G},10,69102,100,NVIDIA L40S,0,true:"}, {"x/device-memory-scaling": "much"})
    assert codes(facts) == ["memory_scaling_unreadable"]
    assert devices(facts)[0].memory_mib == 46068


def test_another_field_count_refuses_the_whole_node() -> None:
    facts = read({REGISTER: f"{G},10,15360,100,T4,0,true:{H},10,15360,100,T4:"})
    assert codes(facts) == ["register_malformed"]
    assert devices(facts) == []


def test_a_cordoned_card_is_marked_and_a_stranger_is_named() -> None:
    facts = read(
        {
            REGISTER: f"{G},10,15360,100,T4,0,true:{H},10,15360,100,T4,0,true:",
            "hami.io/device-cordon": f" {H} ,GPU-gone",
        }
    )
    assert {card.device_uuid: card.cordoned for card in devices(facts)} == {G: False, H: True}
    (finding,) = [fact for fact in facts if isinstance(fact, Finding)]
    assert (finding.code, json.loads(finding.evidence)) == (
        "cordon_names_unknown_device",
        {"device_uuids": ["GPU-gone"]},
    )


def test_the_handshake_is_a_node_fact_and_does_not_remove_the_cards() -> None:
    facts = read(
        {REGISTER: f"{G},10,15360,100,T4,0,true:", "hami.io/node-handshake": "Deleted_2026-03-01 10:00:00"},
        hami_timezone="Asia/Shanghai",
    )
    (seen,) = [fact for fact in facts if isinstance(fact, Node)]
    assert (seen.node, seen.source, seen.handshake, seen.handshake_at) == (
        "n1",
        "hami",
        "Deleted",
        parse_instant("2026-03-01T02:00:00Z"),
    )
    assert len(devices(facts)) == 1


def test_an_unreadable_handshake_is_a_finding_and_no_state() -> None:
    facts = read({"hami.io/node-handshake": "whatever"})
    assert codes(facts) == ["handshake_unreadable"]
    assert len(facts) == 1


@pytest.mark.parametrize(
    ("key", "vendor", "cores"),
    [
        ("hami.io/node-dcu-register", "hygon", 100),
        ("hami.io/node-register-xpu", "kunlun", None),
        ("hami.io/node-register-Ascend910B3", "ascend", None),
        ("hami.io/node-amd-register", "amd", None),
        ("hami.io/node-biren-register", "biren", None),
        ("hami.io/node-register-novelty", "novelty", None),
    ],
)
def test_other_vendors_cards_are_devices_in_both_encodings(key: str, vendor: str, cores: int | None) -> None:
    as_json = json.dumps(
        [{"id": "card-0", "count": 4, "devmem": 65536, "devcore": 100, "type": "Model X", "health": True}]
    )
    for text in (as_json, "card-0,4,65536,100,Model X,0,true:"):
        (card,) = devices(read({key: text}, {"x/device-memory-scaling": "2"}))
        assert (card.device_uuid, card.vendor, card.memory_mib, card.mode) == ("card-0", vendor, 65536, None)
        assert card.schedulable_cores_percent == cores


def test_a_vendor_handshake_serves_where_there_is_no_other() -> None:
    facts = read({"hami.io/node-dcu-register": "", "hami.io/node-handshake-dcu": "Requesting_2026-03-01 02:00:00"})
    assert [fact.handshake for fact in facts if isinstance(fact, Node)] == ["Requesting"]


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"metadata": None},
        {"metadata": {"name": 7, "annotations": {REGISTER: "x"}}},
        {"metadata": {"name": "n", "annotations": [REGISTER]}},
        {"metadata": {"name": "n", "annotations": {REGISTER: 7, "hami.io/node-handshake": None}}},
        {"metadata": {"name": "n", "annotations": {"other": "x"}}},
    ],
)
def test_a_node_of_another_shape_yields_nothing(payload: dict[str, Any]) -> None:
    assert list(read_node_register(payload, ReadContext())) == []
