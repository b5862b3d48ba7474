"""Workloads over a watch: what was there and what is gone is seen of them as of pods."""

from __future__ import annotations

from steelyard.app.collectors.kubernetes import KubernetesCollector
from steelyard.app.source_settings import KubernetesSetting
from steelyard.sources.kube_api.listing import SIGHTED
from steelyard.sources.kube_api.resource_kinds import RESOURCE_KINDS
from steelyard.sources.shared.context import ReadSettings
from tests.app.collecting import collecting
from tests.app.test_collection_kubernetes import posted, rounds, versioned
from tests.sources.kube_api.played_cluster import PlayedCluster, event, page
from tests.sources.kueue.kueue_objects import workload

WORKLOADS = next(kind for kind in RESOURCE_KINDS if kind.word == "workloads.kueue.x-k8s.io")


def test_a_workload_that_is_deleted_while_it_is_watched_has_given_up_then() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(version=8))
        cluster.watches((b"", cluster.hold))
        cluster.lists(page(versioned(workload(), 5), versioned(workload(name="x"), 6), version=7), kind=WORKLOADS)
        cluster.watches((event("DELETED", versioned(workload(), 8)), cluster.hold), kind=WORKLOADS)

        def maker() -> KubernetesCollector:
            setting = KubernetesSetting(name="c1", address=cluster.url, interval="1h")  # type: ignore[arg-type]
            return KubernetesCollector(setting, "default", ReadSettings())

        with collecting([maker], post=posted, on_request=True) as (loop, store):
            rounds(loop, lambda: bool(store.rows("SELECT 1 FROM fact.sighting WHERE object_kind = 'workload_gone'")))
            posted(store)
            gone = "SELECT occurred_at FROM fact.sighting WHERE object_kind = 'workload_gone'"
            assert store.rows(f"SELECT name, end_kind, ended_at = ({gone}) FROM dim.demand ORDER BY 1") == [
                ("w", "abandoned", True),
                ("x", None, None),
            ]
            listed = "SELECT objects_count, complete FROM fact.source_status WHERE kind = 'workloads.kueue.x-k8s.io' AND observed_to_at IS NULL"
            assert store.rows(listed) == [(2, True)], "one listing as of a dump, at the start"


def test_every_kind_that_is_sighted_is_watched_and_its_end_is_told() -> None:
    watched = {kind.word for kind in RESOURCE_KINDS if kind.tracks_gone}
    assert watched >= set(SIGHTED)
