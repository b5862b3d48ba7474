"""Evidence of a holding under the other names of its pod: a static pod's hash, a consumer of a claim by name, the labels of an exporter."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.owner import Owner
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.ledgers.facts_of import CARD, at, card, grant, holdings, listing, node, pod, seen

HASH = "0123456789abcdef0123456789abcdef"


def process(pod_uid: str, minute: float = 20) -> ProcessSample:
    return ProcessSample(
        source="agent", natural_key=f"{CARD}/1", device_uuid=CARD, pid=1, pod_uid=pod_uid, **seen(minute)
    )


def label(minute: float = 20, **more: Any) -> PartitionSample:
    fields: dict[str, Any] = {"origin": "dcgm_label", "namespace": "team-a", "pod": "u1", "device_uuid": CARD, **more}
    return PartitionSample(source="dcgm", natural_key=f"team-a/u1//{CARD}", **fields, **seen(minute))


def mirror(key: str = "hash") -> Owner:
    return Owner(
        source="kube_api", natural_key="u1", pod_uid="u1", namespace="team-a",
        annotations=f'{{"kubernetes.io/config.{key}":"{HASH}"}}', **seen(30),
    )  # fmt: skip


def held(*more: Fact) -> str:
    """The evidence of one pod's holding of a card from minute 5 to the listing at minute 30."""
    facts = [
        node(), card(), listing(30), pod(scheduled_at=5, gpu_count=1, resource_names="nvidia.com/gpu"),
        grant(device_uuid=CARD, unit_kind="gpu"), *more,
    ]  # fmt: skip
    (row,) = holdings(facts)
    return str(row["evidence_grade"])


@pytest.mark.parametrize("key", ["hash", "mirror"])
def test_a_process_of_a_static_pod_proves_the_holding_of_its_mirror_pod(key: str) -> None:
    assert held(process(HASH), mirror(key)) == "verified"
    assert held(process(HASH)) == "declared", "without the annotation nobody says whose hash it is"
    assert held(process(HASH.replace("0", "f")), mirror(key)) == "declared"


def test_a_label_of_an_exporter_corroborates_the_holder_that_it_names() -> None:
    assert held(label()) == "corroborated"
    assert held(label(origin="monitor")) == "corroborated", (
        "what a sharing layer's monitor counts of it is seen on the card"
    )
    assert held(label(pod_uid="u1", pod=None)) == "corroborated"


@pytest.mark.parametrize(
    "more", [{"pod": "other"}, {"device_uuid": "GPU-b"}, {"minute": 2}, {"origin": "scheduler"}, {"pod": None}], ids=str
)
def test_a_label_of_another_pod_card_time_or_kind_corroborates_nothing(more: dict[str, Any]) -> None:
    assert held(label(**more)) == "declared"


def test_a_process_that_names_a_consumer_of_a_claim_proves_its_holding() -> None:
    claim = grant(
        source="dra", scheme="dra", device_uuid=CARD, unit_kind="gpu", namespace="team-a", pod="trainer", uid="c1", valid_from_at=5,
    )  # fmt: skip
    facts = [node(), card(), listing(30), claim]
    assert [row["evidence_grade"] for row in holdings(facts)] == ["declared"]
    assert [row["evidence_grade"] for row in holdings([*facts, process("name:team-a/trainer")])] == ["verified"]
    assert [row["evidence_grade"] for row in holdings([*facts, process("name:team-a/another")])] == ["declared"]


CONSUMER = grant(
    source="dra",
    scheme="dra",
    device_uuid="GPU-b",
    unit_kind="gpu",
    uid="c1",
    namespace="team-a",
    pod="trainer",
    valid_from_at=5,
)


@pytest.mark.parametrize(
    ("pod_uid", "whose"),
    [
        (HASH, "team-a/u1"),
        ("name:team-a/u1", "team-a/u1"),
        ("u1", "team-a/u1"),
        ("name:team-a/trainer", "team-a/trainer"),
        ("name:team-a/unheard", "team-a/unheard"),
        ("f" * 32, "f" * 32),
    ],
)
def test_a_process_on_a_card_that_nobody_holds_is_named_by_its_pod(pod_uid: str, whose: str) -> None:
    used = DeviceSample(source="agent", natural_key=CARD, device_uuid=CARD, util_gpu_ratio=0.9, **seen(30))
    facts = [
        node(), card(), card(uuid="GPU-b"), listing(30), pod(scheduled_at=5), mirror(), CONSUMER, used, process(pod_uid, 30)
    ]  # fmt: skip
    with Store.open_memory() as store:
        store.append(facts)
        post_ledgers(store, PostingParameters(), clock=FixedClock(at(31)))
        found = store.rows(
            "SELECT json_extract_string(evidence, '$.processes') FROM ledger.finding WHERE code = 'used_without_holder'"
        )
    assert found == [(whose,)]
