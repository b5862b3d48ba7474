"""A cluster that is watched by the loop: its changes become facts as a dump's would, and what is not seen is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from steelyard.app.asking import answer_over
from steelyard.app.collection import CollectionLoop
from steelyard.app.collectors.kubernetes import KubernetesCollector
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.app.source_settings import KubernetesSetting
from steelyard.sources.kube_api.resource_kinds import NODES, RESOURCE_KINDS
from steelyard.sources.shared.context import ReadSettings
from steelyard.store import Store
from steelyard.surfaces.shared.ports import Question
from steelyard.surfaces.shared.service_ports import CollectReport
from tests.app.collecting import collecting
from tests.app.import_samples import node, shared_pod
from tests.sources.kube_api.played_cluster import PlayedCluster, event, page, refusal


def versioned(thing: Mapping[str, Any], version: int) -> dict[str, Any]:
    return {**thing, "metadata": {**thing["metadata"], "resourceVersion": str(version)}}


def maker(cluster: PlayedCluster) -> Callable[[], KubernetesCollector]:
    setting = KubernetesSetting(name="c1", address=cluster.url, interval="1h")  # type: ignore[arg-type]
    return lambda: KubernetesCollector(setting, "default", ReadSettings())


def posted(store: Store) -> int:
    return post(store, Settings(cluster="c1"))


def rounds(loop: CollectionLoop, until: Callable[[], bool]) -> CollectReport:
    """Rounds on request until that is so: a watch hands things over when they come."""
    for _ in range(2_000):
        report = loop.collect_now([])
        if until():
            return report
    raise AssertionError("not within many rounds")


def holders(store: Store) -> list[str]:
    with store.reader() as reader:
        answer = answer_over(reader, Path("x"), 1, Question())
    table = next(each for each in answer.tables if each.name == "holders")
    names = [column.name for column in table.columns]
    return sorted(str(row[names.index("pod")]) for row in table.rows)


def test_a_pod_that_starts_is_a_holder_after_the_next_round_and_one_that_is_deleted_is_none() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(versioned(node(), 5), version=5), kind=NODES)
        cluster.watches((b"", cluster.hold), kind=NODES)
        cluster.lists(page(versioned(shared_pod("a"), 6), versioned(shared_pod("b"), 7), version=8))
        changes = (event("ADDED", versioned(shared_pod("c"), 9)), event("DELETED", versioned(shared_pod("a"), 10)))
        cluster.watches((*changes, cluster.hold))
        with collecting([maker(cluster)], post=posted, on_request=True) as (loop, store):
            rounds(loop, lambda: bool(store.rows("SELECT 1 FROM fact.sighting WHERE object_kind = 'pod_gone'")))
            assert holders(store) == ["b", "c"]
            found = store.rows(
                "SELECT DISTINCT kind, complete FROM fact.source_status WHERE observed_to_at > observed_from_at"
            )
            assert ("pods", True) in found
            first = store.rows(
                "SELECT objects_count FROM fact.source_status WHERE kind = 'pods' AND observed_to_at IS NULL"
            )
            assert first == [(2,)], "one listing as of a dump, at the start"
            grants = store.rows("SELECT DISTINCT device_uuid IS NOT NULL FROM fact.grant WHERE source = 'hami'")
            assert grants == [(True,)], "allocations are read with the registers of the nodes"


def test_a_cluster_that_refuses_is_a_failed_source_and_no_empty_one() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(refusal(401, "Unauthorized"))
        cluster.lists(refusal(401, "Unauthorized"), kind=NODES)
        with collecting([maker(cluster)], post=posted, on_request=True) as (loop, store):
            (report,) = rounds(
                loop, lambda: bool(store.rows("SELECT 1 FROM fact.source_status WHERE kind = 'pods'"))
            ).rounds
            assert report.status == "failed"
            assert "pods" in (report.message or "")
            assert store.rows("SELECT DISTINCT status FROM fact.source_status WHERE kind = 'pods'") == [("failed",)]
            assert store.rows("SELECT count(*) FROM fact.sighting") == [(0,)]


def test_rounds_that_are_not_posted_yet_do_not_move_the_instant_that_is_answered() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(versioned(node(), 5), version=5), kind=NODES)
        cluster.watches((b"", cluster.hold), kind=NODES)
        cluster.lists(page(versioned(shared_pod("a"), 6), version=8))
        cluster.watches((event("MODIFIED", versioned(shared_pod("a"), 9)), cluster.hold))
        with collecting([maker(cluster)], post=posted, on_request=True) as (loop, store):
            stretches = (
                "SELECT count(*) FROM fact.source_status WHERE kind = 'pods' AND observed_to_at > observed_from_at"
            )
            rounds(loop, lambda: store.rows(stretches)[0][0] > 0)
            assert holders(store) == ["a"]
            store.execute(
                "INSERT INTO fact.source_status BY NAME SELECT * REPLACE (observed_to_at + INTERVAL 1 MINUTE AS observed_to_at, "
                "'later' AS fact_id) FROM fact.source_status WHERE kind = 'pods' AND observed_to_at IS NOT NULL LIMIT 1"
            )
            assert holders(store) == ["a"]
            posted(store)
            assert holders(store) == ["a"]


def _metadata_alone(name: str, version: int, owner: Mapping[str, Any] | None = None) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": shared_pod("a")["metadata"]["namespace"],
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
    }
    references = {"ownerReferences": [owner]} if owner else {}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {**metadata, **references}}


def test_a_watched_pod_belongs_to_the_root_of_its_chain_of_which_only_metadata_is_asked() -> None:
    kinds = {kind.plural: kind for kind in RESOURCE_KINDS}
    replica_set = {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "name": "web-1",
        "uid": "uid-web-1",
        "controller": True,
    }
    deployment = {"kind": "Deployment", "apiVersion": "apps/v1", "name": "web", "uid": "uid-web", "controller": True}
    owned = shared_pod("a")
    owned["metadata"]["ownerReferences"] = [replica_set]
    with PlayedCluster() as cluster:
        cluster.lists(page(versioned(node(), 5), version=5), kind=NODES)
        cluster.watches((b"", cluster.hold), kind=NODES)
        cluster.lists(page(versioned(owned, 6), version=8))
        cluster.watches((b"", cluster.hold))
        for plural, thing in (
            ("replicasets", _metadata_alone("web-1", 3, deployment)),
            ("deployments", _metadata_alone("web", 4)),
        ):
            cluster.lists(page(thing, version=8), kind=kinds[plural])
            cluster.watches(
                (
                    {
                        "type": "MODIFIED",
                        "object": {**thing, "metadata": {**thing["metadata"], "resourceVersion": "9"}},
                    },
                    cluster.hold,
                ),
                kind=kinds[plural],
            )
        with collecting([maker(cluster)], post=posted, on_request=True) as (loop, store):
            rounds(loop, lambda: store.rows("SELECT count(*) FROM fact.ownership")[0][0] >= 2)
            posted(store)
            found = store.rows("SELECT object_kind, object_group, owner_kind FROM fact.ownership ORDER BY 1")
            assert found == [("Deployment", "apps", None), ("ReplicaSet", "apps", "Deployment")]
            assert store.rows("SELECT workload_kind, workload_name, workload_basis, workload_uid FROM dim.pod") == [
                ("Deployment", "web", "chain", "uid-web")
            ]
