"""A MIG device's UUID and its instances stand in different texts of nvidia-smi: its number on the card joins them."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.grant import Grant
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.unit import Unit
from steelyard.ledgers.dimensions.registry import build_dimensions
from steelyard.ledgers.parameters import PostingParameters
from steelyard.store import Store

CARD = "GPU-a"


def unit(unit_id: str, at: int, index: int, **more: Any) -> Unit:
    return Unit(
        source="nvidia_smi", natural_key=unit_id, occurred_at=at, observed_at=at, unit_kind="mig", unit_id=unit_id,
        device_uuid=CARD, unit_index=index, **more,
    )  # fmt: skip


LISTED = [unit("MIG-0", 10, 0, profile="3g.40gb"), unit("MIG-1", 10, 1, profile="1g.10gb")]
REPORTED = [
    unit("GPU-a/gi2/ci0", 20, 0, gi=2, ci=0, memory_mib=40_448),
    unit("GPU-a/gi9/ci0", 20, 1, gi=9, ci=0, memory_mib=9_984),
]


def instances(*facts: Fact) -> dict[str, tuple[int | None, int | None]]:
    with Store.open_memory() as store:
        store.append(facts)
        build_dimensions(store, PostingParameters())
        rows = store.rows("SELECT unit_id, gi, memory_mib FROM dim.unit WHERE unit_id LIKE 'MIG-%'")
    return {unit_id: (gi, memory_mib) for unit_id, gi, memory_mib in rows}


def test_the_number_joins_a_uuid_with_its_instance_and_memory():
    assert instances(*LISTED, *REPORTED) == {"MIG-0": (2, 40_448), "MIG-1": (9, 9_984)}


def labelled(pod: str, gi: int, **more: Any) -> PartitionSample:
    return PartitionSample(
        **{
            "source": "dcgm", "natural_key": f"{pod}/{gi}", "occurred_at": 20, "observed_at": 20, "origin": "dcgm_label", "device_uuid": CARD,
            "gi": gi, "namespace": "team", "pod": pod, **more,
        }
    )  # fmt: skip


def given(pod: str, unit_id: str, at: int = 15) -> Grant:
    return Grant(
        source="pod_resources", natural_key=f"{pod}/{unit_id}", occurred_at=at, observed_at=at, pod_uid=f"name:team/{pod}", container="c",
        scheme="pod_resources", unit_kind="mig", unit_id=unit_id, namespace="team", pod=pod,
    )  # fmt: skip


def test_the_exporters_own_labels_join_a_uuid_with_its_instance_where_the_pod_has_one_of_each():
    assert instances(*LISTED, given("a", "MIG-0"), labelled("a", 7)) == {"MIG-0": (7, None), "MIG-1": (None, None)}
    assert instances(*LISTED, given("a", "MIG-0"), labelled("a", 7), given("b", "MIG-1"), labelled("b", 8))[
        "MIG-1"
    ] == (8, None)


@pytest.mark.parametrize(
    "beside",
    [
        [labelled("a", 8)],
        [given("a", "MIG-1")],
        [given("b", "MIG-0"), labelled("b", 9)],
    ],
)
def test_labels_that_do_not_agree_on_one_instance_join_nothing(beside: list[Fact]):
    assert instances(*LISTED, given("a", "MIG-0"), labelled("a", 7), *beside)["MIG-0"] == (None, None)
    assert instances(*LISTED, given("a", "MIG-0"), labelled("a", 7, device_uuid="GPU-b"))["MIG-0"] == (None, None)


@pytest.mark.parametrize(
    "later",
    [
        unit("MIG-7", 30, 0, profile="3g.40gb"),
        unit("GPU-a/gi1/ci0", 30, 0, gi=1, ci=0, memory_mib=40_448),
        unit("GPU-a/gi2/ci1", 30, 0, gi=2, ci=1, memory_mib=40_448),
    ],
)
def test_a_number_that_ever_meant_another_instance_joins_nothing(later: Unit):
    found = instances(*LISTED, *REPORTED, later)
    assert found["MIG-0"] == (None, None)
    assert found["MIG-1"] == (9, 9_984)


def test_a_list_alone_tells_no_instance():
    assert instances(*LISTED) == {"MIG-0": (None, None), "MIG-1": (None, None)}


def units(*facts: Fact) -> set[str]:
    with Store.open_memory() as store:
        store.append(facts)
        build_dimensions(store, PostingParameters())
        return {unit_id for (unit_id,) in store.rows("SELECT unit_id FROM dim.unit")}


TABLE = [unit("MIG-0", 30, 0, gi=2, ci=0, memory_mib=40_448), unit("MIG-1", 30, 1, gi=9, ci=0)]


@pytest.mark.parametrize("texts", [[*LISTED, *REPORTED], [*REPORTED, *TABLE], [*LISTED, *REPORTED, *TABLE]])
def test_a_device_that_texts_name_by_uuid_and_by_instances_is_one_unit(texts: list[Unit]):
    assert units(*texts) == {"MIG-0", "MIG-1"}


def test_instances_that_had_another_uuid_before_keep_their_own_name():
    assert units(*REPORTED[:1], unit("MIG-0", 30, 0, gi=2, ci=0), unit("MIG-7", 40, 3, gi=2, ci=0)) == {
        "GPU-a/gi2/ci0", "MIG-0", "MIG-7",
    }  # fmt: skip


def test_a_unit_that_a_grant_names_by_its_instances_keeps_that_name():
    granted = Grant(
        source="pod_resources", natural_key="g", occurred_at=20, observed_at=20, pod_uid="p", container="c",
        scheme="pod_resources", unit_kind="mig", unit_id="GPU-a/gi2/ci0",
    )  # fmt: skip
    assert units(*LISTED, *REPORTED, granted) == {"GPU-a/gi2/ci0", "MIG-0", "MIG-1"}
