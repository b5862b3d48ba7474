"""A MIG device's UUID and its instances stand in different texts of nvidia-smi: its number on the card joins them."""

from __future__ import annotations

from typing import Any

import pytest

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


def instances(*facts: Unit) -> dict[str, tuple[int | None, int | None]]:
    with Store.open_memory() as store:
        store.append(facts)
        build_dimensions(store, PostingParameters())
        rows = store.rows("SELECT unit_id, gi, memory_mib FROM dim.unit WHERE unit_id LIKE 'MIG-%'")
    return {unit_id: (gi, memory_mib) for unit_id, gi, memory_mib in rows}


def test_the_number_joins_a_uuid_with_its_instance_and_memory():
    assert instances(*LISTED, *REPORTED) == {"MIG-0": (2, 40_448), "MIG-1": (9, 9_984)}


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
