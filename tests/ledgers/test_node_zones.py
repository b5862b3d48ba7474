"""The word of each node's topology, from one sighting of it to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steelyard.facts.base import Fact
from steelyard.facts.node_zone import NodeZone
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.store import Store
from tests.ledgers.facts_of import at, node, post, seen

GPU = "nvidia.com/gpu"


def zone(minute: float, name: str = "z0", available: int | None = 1, of: str = "n1", **more: Any) -> NodeZone:
    fields: dict[str, Any] = {"resource": GPU, "capacity_count": 4, "allocatable_count": 4, **more}
    return NodeZone(
        source="kube_api", natural_key=f"{of}/{name}", node=of, zone=name, available_count=available, **fields, **seen(minute)
    )  # fmt: skip


def stretches(*facts: Fact) -> list[tuple[Any, ...]]:
    """(node, zone, available, from minute, to minute) of each row."""
    rows = _rows(facts)
    return [(*row[:3], *(None if stamp is None else (stamp - at(0)) / 60_000_000 for stamp in row[3:])) for row in rows]


def _rows(facts: Sequence[Fact]) -> list[tuple[Any, ...]]:
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        return store.rows(
            "SELECT node, zone, available_count, epoch_us(valid_from_at), epoch_us(valid_to_at) FROM dim.node_zone ORDER BY 4, 1, 2"
        )


def test_what_a_topology_says_holds_until_the_next_word_of_the_same_node() -> None:
    assert stretches(zone(10), zone(20, available=3), zone(15, of="n2")) == [
        ("n1", "z0", 1, 10, 20),
        ("n2", "z0", 1, 15, None),
        ("n1", "z0", 3, 20, None),
    ]


def test_a_zone_that_is_named_no_more_ends_with_the_next_word() -> None:
    assert stretches(zone(10), zone(10, "z1"), zone(20)) == [
        ("n1", "z0", 1, 10, 20),
        ("n1", "z1", 1, 10, 20),
        ("n1", "z0", 1, 20, None),
    ]


def test_a_topology_that_names_no_accelerator_any_more_replaces_one_that_did() -> None:
    bare = zone(20, available=None, resource=None, capacity_count=None, allocatable_count=None)
    assert stretches(zone(10), bare) == [("n1", "z0", 1, 10, 20), ("n1", "z0", None, 20, None)]


def test_two_words_for_one_instant_are_one_row() -> None:
    assert len(stretches(zone(10, available=1), zone(10, available=2))) == 1


def test_a_node_that_is_gone_has_no_zones() -> None:
    listed = {"kind": "nodes", "scope": "cluster", "complete": True}
    facts = [
        zone(10),
        node(10),
        *(
            Sighting(source="kube_api", natural_key="x", object_kind="node", object_uid="n2", **seen(30))
            for _ in range(1)
        ),
        SourceStatus(source="kube_api", natural_key="nodes/cluster", **listed, **seen(30)),
    ]
    assert stretches(*facts) == [("n1", "z0", 1, 10, 30)]
