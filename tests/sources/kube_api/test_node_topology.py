"""What NUMA zones say of accelerators, in both versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.facts.finding import Finding
from steelyard.facts.node_zone import NodeZone
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kube_api.node_topology import ZONES_MAX, is_node_topology, read_node_topology
from steelyard.sources.shared.resource_amounts import RESOURCES_MAX
from tests.sources.kube_api.kube_objects import CTX, of, only

GPU = "nvidia.com/gpu"


def resource(name: Any, capacity: Any, allocatable: Any, available: Any) -> dict[str, Any]:
    return {"name": name, "capacity": capacity, "allocatable": allocatable, "available": available}


def zone(name: Any, *resources: Any, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": "Node",
        "costs": [{"name": "node-0", "value": 10}],
        "resources": list(resources),
        **more,
    }


def topology(*zones: Any, version: str = "v1alpha2", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"topology.node.k8s.io/{version}",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n-1", "uid": "t-1"},
        "zones": list(zones),
        **more,
    }


def read(payload: dict[str, Any]) -> list[Any]:
    assert is_node_topology(payload["kind"], payload)
    return list(read_node_topology(payload, payload["kind"], CTX))


def counts(facts: list[Any]) -> dict[str, tuple[int | None, int | None, int | None]]:
    return {
        row.natural_key: (row.capacity_count, row.allocatable_count, row.available_count) for row in of(facts, NodeZone)
    }


def test_each_zone_tells_its_accelerators_and_nothing_else() -> None:
    facts = read(
        topology(
            zone("node-0", resource("cpu", "32", "30", "4500m"), resource(GPU, "4", "4", "1")),
            zone("node-1", resource(GPU, "4", "3", "0"), resource("nvidia.com/mig-1g.10gb", "7", "7", "2")),
        )
    )
    assert counts(facts) == {
        f"n-1/node-0/{GPU}": (4, 4, 1),
        f"n-1/node-1/{GPU}": (4, 3, 0),
        "n-1/node-1/nvidia.com/mig-1g.10gb": (7, 7, 2),
    }
    first = of(facts, NodeZone)[0]
    assert (first.node, first.zone, first.zone_type, first.resource) == ("n-1", "node-0", "Node", GPU)
    assert not of(facts, Finding)


@pytest.mark.parametrize(
    ("version", "more", "policies"),
    [
        (
            "v1alpha1",
            {"topologyPolicies": ["SingleNUMANodePodLevel", 7]},
            {"topology_policies": ["SingleNUMANodePodLevel"]},
        ),
        (
            "v1alpha2",
            {"attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}, {"name": "x"}, "y"]},
            {"attributes": {"topologyManagerPolicy": "single-numa-node"}},
        ),
        ("v1alpha2", {}, {}),
        ("v1alpha1", {"topologyPolicies": "None", "attributes": {"a": "b"}}, {}),
    ],
)
def test_both_versions_tell_the_policy_of_the_node_each_in_its_way(
    version: str, more: dict[str, Any], policies: dict[str, Any]
) -> None:
    row = only(read(topology(zone("node-0", resource(GPU, 2, 2, 1)), version=version, **more)), NodeZone)
    assert json.loads(row.policies) == policies
    assert (row.capacity_count, row.allocatable_count, row.available_count) == (2, 2, 1), "a number is a quantity too"


@pytest.mark.parametrize("resources", [{}, {"resources": None}, {"resources": []}, {"resources": [{"name": "cpu"}]}])
def test_a_zone_that_names_no_accelerator_says_so(resources: dict[str, Any]) -> None:
    found = only(read(topology({"name": "node-0", "type": 7, **resources})), NodeZone)
    assert (found.natural_key, found.resource, found.zone_type, found.available_count) == (
        "n-1/node-0",
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    "amount", ["-1", "0.5", "lots", "1e40", True, [], {}, 2**70, float("nan"), "9" * 70, "\ud800", 2**41]
)
def test_an_amount_that_is_no_count_is_not_known_and_said(amount: Any) -> None:
    facts = read(topology(zone("node-0", resource(GPU, "4", "4", amount))))
    assert counts(facts) == {f"n-1/node-0/{GPU}": (4, 4, None)}
    found = only(facts, Finding)
    assert (found.code, found.subject) == ("quantity_malformed", "node n-1 topology")
    assert "available of nvidia.com/gpu" in found.message


def test_an_amount_that_is_not_told_is_not_known_and_no_finding() -> None:
    facts = read(topology(zone("node-0", {"name": GPU, "capacity": "4"})))
    assert counts(facts) == {f"n-1/node-0/{GPU}": (4, None, None)}
    assert not of(facts, Finding)


@pytest.mark.parametrize(
    ("bad", "rows"),
    [
        ("zone", 1),
        ({"name": ""}, 1),
        ({"name": ["node-0"]}, 1),
        (zone("node-0", resource(GPU, "9", "9", "9")), 1),
        (zone("node-1", "x"), 2),
        (zone("node-1", {"name": 7}), 2),
        (zone("node-1", resources={"name": GPU}), 2),
        (zone("node-1", resource(GPU, 1, 1, 1), resource(GPU, 2, 2, 2)), 2),
        (zone("node-1", *[resource("cpu", 1, 1, 1)] * (RESOURCES_MAX + 1)), 2),
    ],
)
def test_a_part_that_cannot_be_read_is_said_and_the_rest_is_read(bad: Any, rows: int) -> None:
    facts = read(topology(zone("node-0", resource(GPU, "4", "4", "1")), bad))
    assert only(facts, Finding).code == "node_topology_malformed"
    assert counts(facts)[f"n-1/node-0/{GPU}"] == (4, 4, 1)
    assert len(of(facts, NodeZone)) == rows


def test_names_are_made_safe_and_kept_in_bounds() -> None:
    facts = read(topology(zone("z\ud800\0" + "z" * 1_000, resource(GPU, 1, 1, 1))))
    found = only(facts, NodeZone)
    assert found.zone.startswith("z\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}z")
    assert len(found.zone) == 316


def test_as_many_zones_as_one_likes_are_read_in_bounds() -> None:
    facts = read(topology(*(zone(f"node-{number}", resource(GPU, "x", 1, 1)) for number in range(ZONES_MAX + 5_000))))
    assert len(of(facts, NodeZone)) == ZONES_MAX
    said = {row.code: json.loads(row.evidence) for row in of(facts, Finding)}
    assert said["quantity_malformed"]["count"] == ZONES_MAX
    assert len(said["quantity_malformed"]["problems"]) == 20
    assert len(facts) == ZONES_MAX + 2


@pytest.mark.parametrize(
    "broken", [{"metadata": None}, {"metadata": {"name": 7}}, {"zones": None}, {"zones": {"a": 1}}]
)
def test_an_object_without_a_name_or_zones_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(SourceMalformed):
        read(topology(**broken))


@pytest.mark.parametrize(
    ("kind", "version"), [("Topology", "topology.node.k8s.io/v1alpha2"), ("NodeResourceTopology", "x/v1"),
                          ("NodeResourceTopology", None)]
)  # fmt: skip
def test_other_kinds_are_not_read(kind: str, version: Any) -> None:
    assert not is_node_topology(kind, {"apiVersion": version})
