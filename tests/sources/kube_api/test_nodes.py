"""A Node as facts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.facts.node import Node
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kube_api.nodes import bare_product, read_node
from tests.sources.kube_api.kube_objects import CTX, at, codes, of, only, stamp


def _read(labels: dict[str, Any] | None = None, spec: Any = None, status: Any = None) -> list[Fact]:
    metadata = {"name": "n-1", "uid": "nu-1", "creationTimestamp": stamp("01:00:00"), "labels": labels or {}}
    return list(read_node({"kind": "Node", "metadata": metadata, "spec": spec or {}, "status": status or {}}, CTX))


GFD = {
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/mig.config.state": "success",
}


def test_labels_of_feature_discovery_tell_cards_sharing_and_mig():
    facts = _read({**GFD, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-SHARED"})
    node = only(facts, Node)
    assert (node.gpu_count, node.gpu_memory_mib, node.replicas, node.sharing_strategy) == (8, 40960, 4, "time-slicing")
    assert (node.mig_strategy, node.mig_config_state, node.gpu_product) == (
        "mixed",
        "success",
        "NVIDIA-A100-SXM4-40GB-SHARED",
    )
    basis = only(facts, InventoryBasis)
    assert (basis.basis, basis.node, basis.cards_count, basis.natural_key) == ("gfd_label", "n-1", 8, "node/n-1")
    assert (basis.model, basis.memory_mib) == ("NVIDIA-A100-SXM4-40GB", 40960)


def test_under_mig_strategy_single_the_label_counts_instances_and_the_cards_are_unknown():
    facts = _read({**GFD, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.count": "56"})
    assert only(facts, Node).gpu_count is None
    assert of(facts, InventoryBasis) == []
    assert codes(facts) == ["gfd_counts_mig_instances"]


@pytest.mark.parametrize(
    ("product", "model"),
    [
        ("NVIDIA-L4", "NVIDIA-L4"),
        ("NVIDIA-L4-SHARED", "NVIDIA-L4"),
        ("A100-SXM4-40GB-MIG-1g.5gb", "A100-SXM4-40GB"),
        ("A100-SXM4-40GB-MIG-1g.5gb-SHARED", "A100-SXM4-40GB"),
    ],
)
def test_the_model_is_the_product_without_its_endings(product, model):
    assert bare_product(product) == model


@pytest.mark.parametrize("count", ["eight", "-1", "1.5", "99999999999999999999", "4096"])
def test_a_count_that_cannot_be_is_unknown_and_said_so(count):
    facts = _read({**GFD, "nvidia.com/gpu.count": count})
    assert only(facts, Node).gpu_count is None
    assert of(facts, InventoryBasis) == []
    assert codes(facts) == ["quantity_malformed"]


def test_without_labels_no_count_is_made_up_from_allocatable():
    status = {"capacity": {"nvidia.com/gpu": "20", "cpu": "64"}, "allocatable": {"nvidia.com/gpu": "18"}}
    facts = _read({}, status=status)
    node = only(facts, Node)
    assert node.gpu_count is None
    assert json.loads(node.extended_resources) == {
        "capacity": {"nvidia.com/gpu": 20},
        "allocatable": {"nvidia.com/gpu": 18},
    }
    assert of(facts, InventoryBasis) == []


@pytest.mark.parametrize(
    ("status", "ready"), [("True", True), ("False", False), ("Unknown", False), ("maybe", None), (None, None)]
)
def test_a_silent_kubelet_is_not_ready(status, ready):
    condition = {"type": "Ready", "status": status, "lastTransitionTime": stamp("09:00:00")}
    node = only(_read(status={"conditions": [{"type": "DiskPressure", "status": "False"}, condition]}), Node)
    assert (node.ready, node.ready_changed_at) == (ready, at("09:00:00"))


def test_readiness_is_unknown_without_the_condition():
    assert (only(_read(), Node).ready, only(_read(), Node).ready_changed_at) == (None, None)


@pytest.mark.parametrize(("value", "cordoned"), [(True, True), (False, False), (None, False), ("true", False)])
def test_a_cordon_is_the_boolean_of_the_spec(value, cordoned):
    assert only(_read(spec={"unschedulable": value}), Node).unschedulable is cordoned


def test_a_node_without_name_is_refused():
    with pytest.raises(SourceMalformed):
        list(read_node({"metadata": {"name": 5}}, CTX))
