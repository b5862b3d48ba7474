"""A pod that lost its owner reference: Kueue's labels and its job's name still tell whose it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.owner import Owner
from steelyard.store import Store
from tests.ledgers.facts_of import pod, seen
from tests.ledgers.wait_facts import post, workload

LABELS = {"batch.kubernetes.io/job-name": "train", "kueue.x-k8s.io/podset": "main"}
GROUP = {"kueue.x-k8s.io/pod-group-name": "group"}


def labelled(labels: dict[str, str], **more: Any) -> list[Fact]:
    fields: dict[str, Any] = {"workload_kind": "Job", "workload_name": "train", "namespace": "team-a", **more}
    owner = Owner(
        source="kube_api", natural_key="p1", pod_uid="p1", labels=json.dumps(labels, separators=(",", ":")), **fields, **seen(30)
    )  # fmt: skip
    return [pod(30, "p1", created_at=10, namespace=fields["namespace"]), owner]


def job(uid: str, created: float, **more: Any) -> Fact:
    """A workload of the job ``train``, made so many seconds after the epoch of the facts."""
    return workload(
        1_800, uid, created, **{"owner_kind": "Job", "owner_name": "train", "owner_uid": f"j-{uid}", **more}
    )


def demand_of_pod(*facts: Fact) -> str:
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        ((demand,),) = store.rows("SELECT demand_id FROM dim.demand_pod WHERE pod_uid = 'p1'")
        return str(demand)


def demands(*facts: Fact) -> set[str]:
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        return {row["demand_id"] for row in store.records("SELECT demand_id FROM dim.demand")}


def test_a_pod_without_an_owner_belongs_to_the_workload_of_the_job_that_its_labels_name() -> None:
    assert demands(job("w1", 0), *labelled(LABELS)) == {"w1"}


def test_of_two_workloads_of_one_job_name_the_last_one_made_before_the_pod_has_it() -> None:
    assert demand_of_pod(job("w0", 0), job("w1", 60), job("w2", 900), *labelled(LABELS)) == "w1"


def test_a_pod_of_a_pod_group_belongs_to_the_workload_of_that_name() -> None:
    group = workload(1_800, "group", 700)
    assert demands(group, *labelled(GROUP, workload_kind="Pod", workload_name="p1")) == {"group"}


@pytest.mark.parametrize(
    ("labels", "more"),
    [
        ({"batch.kubernetes.io/job-name": "train"}, {}),
        (LABELS, {"workload_name": "other"}),
        (LABELS, {"namespace": "team-b"}),
        (LABELS, {"owner_uid": "another job"}),
        ({"kueue.x-k8s.io/pod-group-name": "other"}, {"workload_kind": "Pod", "workload_name": "p1"}),
    ],
    ids=["no label of Kueue", "another job", "another namespace", "owned by another", "another group"],
)
def test_labels_alone_that_fit_nothing_join_nothing(labels: dict[str, str], more: dict[str, str]) -> None:
    assert demands(job("w1", 0), *labelled(labels, **more)) == {"w1", "p1"}


def test_a_workload_made_after_the_pod_is_not_its_own() -> None:
    assert demands(job("w1", 900), *labelled(LABELS)) == {"w1", "p1"}
