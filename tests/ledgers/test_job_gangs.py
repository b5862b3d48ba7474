"""Jobs behind the pods are no demands: what waits is their Workload, their PodGroup or their pods, once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from steelyard.facts.base import Fact
from steelyard.facts.gang import Gang
from steelyard.facts.owner import Owner
from steelyard.facts.request import Request
from steelyard.store import Store
from tests.ledgers.wait_facts import at, post, workload


def job(kind: str = "Job", group: str = "batch") -> Gang:
    return Gang(
        source="kube_api", natural_key="j1", object_uid="j1", object_kind=kind, object_group=group, namespace="team-a", object_name="train",
        queue="main", gpu_milli=8000, pods_count=1, phase="finished", outcome="succeeded", created_at=at(0), finished_at=at(90), retry_count=1,
        occurred_at=at(100), observed_at=at(100),
    )  # fmt: skip


def pod(uid: str) -> list[Fact]:
    seen: dict[str, Any] = {"source": "kube_api", "natural_key": uid, "occurred_at": at(100), "observed_at": at(100)}
    return [
        Request(**seen, pod_uid=uid, namespace="team-a", pod=uid, phase="Running", created_at=at(5), gpu_count=8),
        Owner(**seen, pod_uid=uid, namespace="team-a", owner_kind="Job", owner_name="train", owner_uid="j1"),
    ]


def demands(*facts: Fact) -> list[tuple[Any, ...]]:
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        return [
            tuple(row)
            for row in store.rows("SELECT demand_kind, demand_id, pods_seen_count FROM dim.demand ORDER BY ALL")
        ]


@pytest.mark.parametrize(
    ("kind", "group"),
    [("Job", "batch"), ("JobSet", "jobset.x-k8s.io"), ("RayJob", "ray.io"), ("PyTorchJob", "kubeflow.org")],
)
def test_a_job_is_no_demand_and_doubles_none(kind: str, group: str) -> None:
    assert demands(job(kind, group)) == []
    owned = workload(100, owner_kind=kind, owner_name="train", owner_uid="j1")
    assert demands(job(kind, group), owned, *pod("p1"), *pod("p2")) == [("workload", "w1", 2)]
    assert demands(job(kind, group), *pod("p1"), *pod("p2")) == demands(*pod("p1"), *pod("p2"))


def test_a_job_of_volcano_is_one() -> None:
    assert [row[:2] for row in demands(job(group="batch.volcano.sh"))] == [("pod_group", "j1")]


def test_a_job_s_own_word_is_its_latest_although_pods_of_it_failed() -> None:
    running = structs.replace(job(), occurred_at=at(50), phase="running", outcome=None, finished_at=None, retry_count=0)
    with Store.open_memory() as store:
        store.append([running, job(), workload(100)])
        post(store)
        (row,) = store.records("SELECT * FROM dim.job")
    assert (row["object_uid"], row["phase"], row["outcome"], row["retry_count"]) == ("j1", "finished", "succeeded", 1)
    assert (row["name"], row["queue"], row["gpu_milli"]) == ("train", "main", 8000)
