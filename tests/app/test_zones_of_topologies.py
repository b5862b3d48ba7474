"""A topology's zones from a file and from a watch, to Q1's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from steelyard.answers.contract import Answer
from steelyard.app.asking import answer_over
from steelyard.app.collectors.watched_objects import WatchedObjects
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.facts.base import Fact
from steelyard.facts.node_zone import NodeZone
from steelyard.primitives.instant import MINUTE_US, parse_instant
from steelyard.sources.kube_api.resource_kinds import RESOURCE_KINDS
from steelyard.sources.kube_api.watch_round import GoneObject, SeenObject
from steelyard.sources.shared.context import ReadContext
from steelyard.store import Store
from steelyard.surfaces.shared.ports import Question
from tests.app.collecting import collecting
from tests.app.import_samples import codes, import_files, listing, node, shared_pod, write
from tests.app.test_collection_kubernetes import maker, posted, rounds, versioned
from tests.sources.kube_api.played_cluster import PlayedCluster, page

GPU = "nvidia.com/gpu"
SEEN = parse_instant("2026-11-30T10:00:00Z")


def topology(available: str = "1", cpu: str = "8", version: str = "v1alpha2", name: str = "node-a") -> dict[str, Any]:
    amounts = {GPU: ("4", "4", available), "cpu": ("32", "32", cpu)}
    resources = [
        {"name": key, "capacity": there, "allocatable": given, "available": left}
        for key, (there, given, left) in amounts.items()
    ]
    zones = [{"name": "node-0", "type": "Node", "resources": resources}, {"name": "node-1", "type": "Node"}]
    return {
        "apiVersion": f"topology.node.k8s.io/{version}",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name, "uid": f"t-{name}"},
        "zones": zones,
    }


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_zones_of_a_file_stand_in_q1(tmp_path: Path, version: str) -> None:
    file = write(tmp_path / "all.json", listing(node(), shared_pod("a"), topology(version=version)))
    import_files(tmp_path / "d", file, post=lambda store: post(store, Settings()))
    assert not {"kind_not_supported", "node_topology_malformed", "reader_failed"} & set(codes(tmp_path / "d"))
    with Store.open(tmp_path / "d") as store, store.reader() as reader:
        answer = answer_over(reader, tmp_path / "d", 1, Question())
    assert _zones(answer) == [("node-a", "node-0", "Node", GPU, 4, 4, 1)]


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_zones_of_a_watched_cluster_stand_in_q1_as_they_change(version: str) -> None:
    kind = next(each for each in RESOURCE_KINDS if each.kind == "NodeResourceTopology")
    kind = replace(kind, versions=(version,))
    first, then = (versioned(topology(left, version=version), number) for left, number in (("1", 5), ("3", 6)))
    with PlayedCluster() as cluster:
        cluster.lists(page(versioned(shared_pod("a"), 4), version=4))
        cluster.watches((b"", cluster.hold))
        cluster.lists({**page(first, version=5), "kind": "NodeResourceTopologyList"}, kind=kind)
        cluster.watches(({"type": "MODIFIED", "object": then}, cluster.hold), kind=kind)
        with collecting([maker(cluster)], post=posted, on_request=True) as (loop, store):
            rounds(loop, lambda: store.rows("SELECT max(available_count) FROM fact.node_zone") == [(3,)])
            with store.reader() as reader:
                answer = answer_over(reader, Path("x"), 1, Question())
    assert _zones(answer) == [("node-a", "node-0", "Node", GPU, 4, 4, 3)]


def _zones(answer: Answer) -> list[tuple[Any, ...]]:
    table = next(each for each in answer.tables if each.name == "zones")
    return [tuple(row)[:7] for row in table.rows]


def _round(objects: WatchedObjects, minute: int, *payloads: dict[str, Any]) -> list[NodeZone]:
    seen = [
        SeenObject(
            "noderesourcetopologies.topology.node.k8s.io",
            "NodeResourceTopology",
            each["apiVersion"],
            msgspec.json.encode({key: value for key, value in each.items() if key not in ("kind", "apiVersion")}),
            SEEN + minute * MINUTE_US,
        )
        for each in payloads
    ]
    facts: Sequence[Fact] = list(objects.read(seen, ReadContext(cluster="c1", observed_at=SEEN)))
    assert all(isinstance(fact, NodeZone) for fact in facts), facts
    return [fact for fact in facts if isinstance(fact, NodeZone)]


def test_a_watched_topology_is_told_when_its_accelerators_change_and_then_as_a_whole() -> None:
    objects = WatchedObjects()
    first = _round(objects, 0, topology("1"), topology("2", name="node-b"))
    assert [(zone.node, zone.zone, zone.available_count) for zone in first] == [
        ("node-a", "node-0", 1), ("node-a", "node-1", None), ("node-b", "node-0", 2), ("node-b", "node-1", None)]  # fmt: skip
    assert {zone.occurred_at for zone in first} == {SEEN}
    assert _round(objects, 1, topology("1", cpu="3")) == [], "processors come and go with every pod"
    changed = _round(objects, 2, topology("0"))
    assert [(zone.zone, zone.available_count) for zone in changed] == [("node-0", 0), ("node-1", None)]
    assert len(_round(objects, 3, topology("1"))) == 2, "what it said once before is a word again"


def test_a_topology_that_comes_back_is_told_again() -> None:
    objects = WatchedObjects()
    _round(objects, 0, topology())
    objects.forget(
        [
            GoneObject(
                "noderesourcetopologies.topology.node.k8s.io", "NodeResourceTopology", "t-node-a", SEEN, SEEN, "relist"
            )
        ]
    )
    assert len(_round(objects, 1, topology())) == 2
