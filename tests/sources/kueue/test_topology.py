"""Where pods of a topology-aware admission go, in both encodings."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.gang import Gang
from steelyard.sources.kueue.topology import DOMAINS_MAX, placement_of
from tests.sources.kueue.kueue_objects import V1, admitted, assignment, only, read, workload

HOST = ["kubernetes.io/hostname"]
RACKS = ["rack", "kubernetes.io/hostname"]


@pytest.mark.parametrize(
    ("topology", "pods"),
    [
        ({"levels": HOST, "domains": [{"values": ["n1"], "count": 2}, {"values": ["n2"], "count": 1}]}, {"n1": 2, "n2": 1}),
        (
            {"levels": HOST, "slices": [{"domainCount": 2, "valuesPerLevel": [{"individual": {"prefix": "n", "suffix": "-x", "roots": ["1", "2"]}}],
                                         "podCounts": {"universal": 3}}]},
            {"n1-x": 3, "n2-x": 3},
        ),
        (
            {"levels": RACKS, "slices": [{"domainCount": 2, "valuesPerLevel": [{"universal": "r1"}, {"individual": {"roots": ["a", "b"]}}],
                                          "podCounts": {"individual": [1, 4]}}]},
            {"r1/a": 1, "r1/b": 4},
        ),
        (
            {"levels": HOST, "slices": [{"domainCount": 1, "valuesPerLevel": [{"universal": "n1"}], "podCounts": {"universal": 1}},
                                        {"domainCount": 1, "valuesPerLevel": [{"universal": "n1"}], "podCounts": {"universal": 2}}]},
            {"n1": 3},
        ),
    ],
)  # fmt: skip
def test_both_encodings_come_to_pods_per_domain(topology, pods):
    problems: list[str] = []
    placement = placement_of(topology, problems, "main")
    assert placement is not None and dict(placement.pods) == pods and not problems


def test_both_encodings_of_one_placement_are_one_gang():
    old = {"levels": HOST, "domains": [{"values": ["n1"], "count": 1}, {"values": ["n2"], "count": 1}]}
    packed = {
        "domainCount": 2,
        "valuesPerLevel": [{"individual": {"prefix": "n", "roots": ["1", "2"]}}],
        "podCounts": {"universal": 1},
    }
    new = {"levels": HOST, "slices": [packed]}
    first, second = (
        only(read(workload(*admitted(), admission=[assignment(2, 2, topologyAssignment=each)], version=version)), Gang)
        for each, version in ((old, V1), (new, V1))
    )
    assert first == second
    assert json.loads(first.details)["nodes"] == {"n1": 1, "n2": 1}


def test_domains_above_the_node_are_no_nodes():
    topology = {"levels": ["rack"], "domains": [{"values": ["r1"], "count": 2}]}
    details = json.loads(
        only(read(workload(*admitted(), admission=[assignment(2, 2, topologyAssignment=topology)])), Gang).details
    )
    assert "nodes" not in details and details["pod_sets"][0]["domains"] == {"r1": 2}


@pytest.mark.parametrize(
    "piece",
    [
        {"domainCount": 10**18, "valuesPerLevel": [{"universal": "x"}], "podCounts": {"universal": 1}},
        {
            "domainCount": 10**18,
            "valuesPerLevel": [{"individual": {"roots": ["1"] * 10}}],
            "podCounts": {"universal": 1},
        },
        {"domainCount": -1},
        {"domainCount": "2"},
        {"domainCount": 2, "valuesPerLevel": [], "podCounts": {"universal": 1}},
        {"domainCount": 2, "valuesPerLevel": [{"universal": "x"}], "podCounts": {"individual": [1]}},
        {"domainCount": 2, "valuesPerLevel": [{"individual": {"roots": "xy"}}], "podCounts": None},
        {},
    ],
)
def test_a_placement_that_cannot_be_read_is_a_problem_in_bounds(piece):
    problems: list[str] = []
    placement = placement_of({"levels": HOST, "slices": [piece]}, problems, "main")
    assert placement is not None and len(placement.pods) <= DOMAINS_MAX
    assert problems or piece["domainCount"] == 10**18
