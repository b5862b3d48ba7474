"""An owner in another namespace is none: no pod is joined to another tenant's work by what somebody wrote into a reference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from steelyard.facts.base import Fact
from steelyard.facts.gang import Gang
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.ledgers.facts_of import at, pod, seen
from tests.ledgers.test_workloads import belongs, ref, thing


def gang(kind: str, name: str, namespace: str, **more: Any) -> Gang:
    group = {"Workload": "kueue.x-k8s.io", "PodGroup": "scheduling.volcano.sh", "Job": "batch.volcano.sh"}.get(
        kind, "ray.io"
    )
    return Gang(
        source="kueue", natural_key=f"{kind}:{name}", object_uid=f"{kind}:{name}", object_kind=kind, object_group=group,
        namespace=namespace, object_name=name, phase="pending", **more, **seen(30),
    )  # fmt: skip


def tables(facts: Sequence[Fact], *queries: str) -> list[list[tuple[Any, ...]]]:
    with Store.open_memory() as store:
        store.append(facts)
        post_ledgers(store, PostingParameters(), clock=FixedClock(at(60)))
        return [store.rows(query) for query in queries]


FOUND = "SELECT subject, evidence FROM ledger.finding WHERE code = 'owner_in_other_namespace' ORDER BY 1"
DEMAND = "SELECT demand_id, demand_kind FROM dim.demand_pod ORDER BY 1"


def elsewhere(thing_of: Fact) -> Fact:
    return structs.replace(thing_of, namespace="team-b")


@pytest.mark.parametrize(
    "claims",
    [
        [gang("Workload", "w", "team-b", owner_uid="u1", owner_kind="Pod", owner_name="u1"),
         elsewhere(thing("Workload", "w", ("u1", "Pod", "", "u1")))],
        [gang("Workload", "w", "team-b", owner_uid="Job:j", owner_kind="Job", owner_name="j"), thing("Job", "j")],
        [gang("Workload", "w", "team-b", owner_uid="Job:j", owner_kind="Job", owner_name="j")],
        [gang("Job", "j", "team-b", owner_uid=None)],
    ],
)  # fmt: skip
def test_a_gang_of_another_namespace_gets_no_pod_by_a_reference(claims: list[Fact]) -> None:
    owner = ref("Job", "j")
    (demands,) = tables([pod(), belongs(owner, ("Job", "j")), *claims], DEMAND)
    assert demands == [("u1", "pod")]


def test_a_pod_of_an_owner_elsewhere_is_its_own_and_a_finding() -> None:
    job = elsewhere(thing("Job", "j"))
    owners, found, pods = tables(
        [pod(), belongs(ref("Job", "j"), ("Job", "j")), job],
        "SELECT owner_uid, workload_kind FROM dim.pod_owner",
        FOUND,
        "SELECT workload_uid, workload_name FROM dim.pod",
    )
    assert (owners, pods) == ([(None, None)], [(None, None)])
    ((subject, evidence),) = found
    assert (subject, json.loads(evidence)) == ("pod team-a/u1", {"owner_uid": "Job:j", "owner_namespace": "team-b"})


def test_a_chain_ends_where_it_would_leave_its_namespace() -> None:
    chain = [thing("ReplicaSet", "r", ref("Deployment", "d")), elsewhere(thing("Deployment", "d"))]
    roots, found = tables(
        [pod(), belongs(ref("ReplicaSet", "r"), ("ReplicaSet", "r")), *chain],
        "SELECT object_uid, root_uid, root_namespace FROM dim.workload ORDER BY 1",
        FOUND,
    )
    assert roots == [("Deployment:d", "Deployment:d", "team-b"), ("ReplicaSet:r", "ReplicaSet:r", "team-a")]
    assert [subject for subject, _evidence in found] == ["replicaset team-a/r"]


def test_gangs_and_jobs_belong_to_nobody_elsewhere() -> None:
    owned = gang("RayCluster", "c", "team-a", owner_uid="RayJob:j", owner_kind="RayJob", owner_name="j")
    group = gang("PodGroup", "g", "team-a", owner_uid="Job:v", owner_kind="Job", owner_name="v")
    others = [gang("RayJob", "j", "team-b"), gang("Job", "v", "team-b")]
    jobs, gangs = tables(
        [owned, group, *others],
        "SELECT owner_uid, owner_name FROM dim.job WHERE object_kind = 'RayCluster'",
        "SELECT owner_uid, owner_name FROM dim.gang WHERE object_kind = 'PodGroup'",
    )
    assert (jobs, gangs) == ([(None, None)], [(None, None)])


def test_an_owner_of_its_own_namespace_or_of_none_is_followed() -> None:
    alone = structs.replace(thing("Node", "n"), namespace=None)
    facts = [pod(), belongs(ref("Job", "j"), ("Job", "j")), thing("Job", "j", ref("Node", "n")), alone]
    owners, found = tables(facts, "SELECT owner_uid FROM dim.pod_owner", FOUND)
    assert (owners, found) == ([("Job:j",)], [])


SHARED = "SELECT subject, evidence FROM ledger.finding WHERE code = 'uid_of_several_objects'"


@pytest.mark.parametrize(
    ("facts", "objects"),
    [
        ([pod(), pod(31, namespace="team-b")], ["pod team-a/u1", "pod team-b/u1"]),
        ([pod(), pod(31, pod="x")], ["pod team-a/u1", "pod team-a/x"]),
        (
            [gang("Workload", "w", "team-a"), structs.replace(gang("Workload", "w", "team-b"))],
            ["workload team-a/w", "workload team-b/w"],
        ),
        (
            [pod(uid="Workload:w"), gang("Workload", "w", "team-a")],
            ["pod team-a/Workload:w", "workload team-a/w"],
        ),
    ],
)
def test_one_uid_of_several_objects_is_a_finding(facts: list[Fact], objects: list[str]) -> None:
    (found,) = tables(facts, SHARED)
    assert [json.loads(evidence)["objects"] for _subject, evidence in found] == [objects]


def test_one_object_seen_twice_has_its_uid_alone() -> None:
    assert tables([pod(), pod(31), gang("Workload", "w", "team-a")], SHARED) == [[]]
