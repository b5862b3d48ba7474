"""What nodes say of a wait, and a queue's name without its workload: facts beside the words of deciders."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.answers.q06_scheduling import SchedulingSpec, answer
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.node import Node
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import LEDGERS, WAIT
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.ledgers.test_wait_rules import QUEUE_LABEL, listed, owner, pod
from tests.ledgers.wait_facts import at


def test_a_queue_that_pods_name_and_no_workload_of_theirs_is_a_finding_and_a_blind_spot() -> None:
    facts = [
        pod(100, scheduled_at=30),
        pod(100, "p2", scheduled_at=40),
        *(owner(uid, labels=QUEUE_LABEL) for uid in ("p1", "p2")),
    ]
    facts += [
        listed(100),
        listed(100, kind="pods"),
        pod(100, "p3", scheduled_at=9),
        owner("p3", labels="{}"),
    ]
    store = Store.open_memory()
    store.append(facts)
    post_ledgers(store, PostingParameters(), clock=FixedClock(at(10**6)), ledgers=LEDGERS)
    rows = store.rows(
        "SELECT subject, evidence->>'pods_count' FROM ledger.finding WHERE code = 'queue_label_without_workload'"
    )
    assert rows == [("localqueue team-a/team-a-batch", "2")]
    spots = answer(store, SchedulingSpec()).blind_spots
    assert [spot for spot in spots if spot.startswith("2 pods bear the name of a queue")]


NODE: dict[str, Any] = {"extended_resources": '{"capacity": {"nvidia.com/gpu": 8}}'}
FITS = {
    "as many as an empty node has": (8, {}, [NODE], None),
    "more than any node has": (9, {}, [NODE, NODE], ("count", 8, 2)),
    "no node has the resource": (1, {}, [{"extended_resources": "{}"}], ("count", 0, 0)),
    "a model that no node is of": (1, {"gpu_model": "NVIDIA-H200"}, [{**NODE, "gpu_product": "NVIDIA-A100-SXM4-80GB"}], ("model", 0, 0)),
    "a model that one node is of": (9, {"gpu_model": "A100,H200"}, [{**NODE, "gpu_product": "NVIDIA-A100-SXM4-80GB"}, NODE], ("count", 8, 2)),
    "a node whose model is not known may be of it": (1, {"gpu_model": "NVIDIA-H200"}, [NODE], None),
    "two resources of cards are not told apart": (9, {"resource_names": "nvidia.com/gpu,nvidia.com/gpu.shared"}, [NODE], None),
    "nodes were never listed": (9, {}, [], None),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_who_asks_for_more_than_any_node_has_never_fits_by_facts(name: str) -> None:
    count, asks, nodes, expected = FITS[name]
    fields = {"resource_names": "nvidia.com/gpu", **asks}
    facts: list[Fact] = [pod(100, phase="Pending", gpu_count=count, **fields), owner()]
    facts += [
        Node(source="kube_api", natural_key=f"n{n}", node=f"n{n}", occurred_at=at(100), observed_at=at(100), **node)
        for n, node in enumerate(nodes)
    ]
    facts += [listed(100, kind="nodes")] if nodes else []
    store = Store.open_memory()
    store.append(facts)
    post_ledgers(store, PostingParameters(), clock=FixedClock(at(10**6)), ledgers=(WAIT,))
    assert store.rows("SELECT lacking, most_count, nodes_count FROM dim.node_fit") == ([expected] if expected else [])
    rows = store.rows("SELECT stage, fit, cause FROM ledger.wait WHERE ended_at IS NULL")
    assert rows == [("scheduler", *(("never_fits", "capacity") if expected else (None, None)))]


@pytest.mark.parametrize(
    ("memory_mib", "count", "expected"), [(40_000, 2, []), (40_000, 3, [("count", 2)]), (50_000, 1, [("memory", 0)])]
)
def test_cards_of_a_sharing_layer_are_distinct_and_of_a_size(
    memory_mib: int, count: int, expected: list[tuple[str, int]]
) -> None:
    names, node = "nvidia.com/gpu,nvidia.com/gpumem", '{"capacity": {"nvidia.com/gpu": 20}}'
    facts: list[Fact] = [
        pod(100, phase="Pending", gpu_count=count, memory_mib=memory_mib, resource_names=names),
        owner(),
        listed(100, kind="nodes"),
        Node(
            source="kube_api",
            natural_key="n",
            node="n",
            occurred_at=at(100),
            observed_at=at(100),
            extended_resources=node,
        ),
    ]
    facts += [
        Device(
            source="hami", natural_key=f"GPU-{n}", device_uuid=f"GPU-{n}", node="n", memory_mib=46_068, schedulable_memory_mib=46_068, slots_count=10,
            occurred_at=at(100), observed_at=at(100),
        )
        for n in range(2)
    ]  # fmt: skip
    store = Store.open_memory()
    store.append(facts)
    post_ledgers(store, PostingParameters(), clock=FixedClock(at(10**6)), ledgers=(WAIT,))
    assert store.rows("SELECT lacking, most_count FROM dim.node_fit") == expected
