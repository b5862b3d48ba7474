"""Whose an object is."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.ownership import Ownership
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kube_api.ownership import OWNERS_MAX, OWNERSHIP_KINDS, has_ownership, read_ownership
from steelyard.sources.kube_api.resource_kinds import RESOURCE_KINDS
from tests.sources.kube_api.kube_objects import CTX, codes, of, only


def thing(kind: str = "Job", api: str = "batch/v1", **metadata: Any) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": api, "metadata": {"name": "x", "namespace": "ns", "uid": "u-x", **metadata}}


def ref(kind: str, name: str, api: str, controller: bool | None = True) -> dict[str, Any]:
    flag = {} if controller is None else {"controller": controller}
    return {"apiVersion": api, "kind": kind, "name": name, "uid": f"u-{name}", **flag}


def read(payload: dict[str, Any]) -> list[Any]:
    return list(read_ownership(payload, payload["kind"], CTX))


def test_an_objects_controller_is_a_fact_and_its_other_owners_are_not() -> None:
    references = [ref("Queue", "q", "x.example/v1", None), ref("JobSet", "s", "jobset.x-k8s.io/v1alpha2")]
    row = only(read(thing(ownerReferences=references)), Ownership)
    assert (row.object_uid, row.object_kind, row.object_group, row.namespace, row.object_name) == (
        "u-x", "Job", "batch", "ns", "x",
    )  # fmt: skip
    assert (row.owner_uid, row.owner_kind, row.owner_group, row.owner_name, row.is_controller) == (
        "u-s", "JobSet", "jobset.x-k8s.io", "s", True,
    )  # fmt: skip


def test_an_object_of_nobody_is_a_fact_too() -> None:
    row = only(read(thing("Deployment", "apps/v1")), Ownership)
    assert (row.object_uid, row.owner_uid, row.owner_kind, row.owner_name, row.is_controller) == (
        "u-x", None, None, None, True,
    )  # fmt: skip


def test_a_pod_group_has_each_of_its_pods_for_an_owner() -> None:
    references = [ref("Pod", "a", "v1", None), ref("Pod", "b", "v1", None)]
    rows = of(read(thing("Workload", "kueue.x-k8s.io/v1beta2", ownerReferences=references)), Ownership)
    assert [(row.owner_uid, row.owner_group, row.is_controller) for row in rows] == [
        ("u-a", "", False),
        ("u-b", "", False),
    ]


def test_a_workload_without_a_reference_is_told_by_the_uid_of_its_job() -> None:
    row = only(read(thing("Workload", "kueue.x-k8s.io/v1beta1", labels={"kueue.x-k8s.io/job-uid": "u-j"})), Ownership)
    assert (row.owner_uid, row.owner_kind, row.owner_group) == ("u-j", None, None)


def test_the_reference_of_a_workload_counts_before_the_label_that_names_a_job() -> None:
    references = [ref("Job", "j", "batch/v1")]
    labelled = thing(
        "Workload", "kueue.x-k8s.io/v1beta1", labels={"kueue.x-k8s.io/job-uid": "u-other"}, ownerReferences=references
    )
    row = only(read(labelled), Ownership)
    assert (row.owner_uid, row.owner_kind, row.owner_group, row.owner_name) == ("u-j", "Job", "batch", "j")


def test_an_object_that_names_itself_belongs_to_nobody_and_is_told() -> None:
    facts = read(thing(ownerReferences=[ref("Job", "x", "batch/v1")]))
    assert only(facts, Ownership).owner_uid is None
    assert codes(facts) == ["owner_is_itself"]


def test_a_flood_of_owners_is_cut_and_said_so() -> None:
    references = [ref("Pod", str(number), "v1", None) for number in range(OWNERS_MAX + 500)]
    facts = read(thing("Workload", "kueue.x-k8s.io/v1beta2", ownerReferences=references))
    assert len(of(facts, Ownership)) == OWNERS_MAX
    assert codes(facts) == ["owners_too_many"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": {"kind": "Job"}},
        {"ownerReferences": [7, None, "x"]},
        {"ownerReferences": [{"kind": ["Job"], "name": 7, "uid": {}, "controller": True}]},
        {"ownerReferences": [{"apiVersion": 3, "controller": "yes"}]},
        {"namespace": 5, "labels": [], "ownerReferences": None},
        {"name": "a\ud800b\x00", "ownerReferences": [{"kind": "\ud800", "name": "n" * 100_000, "uid": "u"}]},
    ],
)
def test_hostile_metadata_reads_as_what_it_is(metadata: dict[str, Any]) -> None:
    (row,) = of(read(thing(**metadata)), Ownership)
    for text in (row.object_name, row.owner_kind, row.owner_name):
        assert text is None or (len(text) <= 316 and "\0" not in text and text.encode())


def test_an_object_without_uid_and_name_is_refused() -> None:
    with pytest.raises(SourceMalformed):
        read({"kind": "Job", "apiVersion": "batch/v1", "metadata": {}})


def test_a_name_in_another_group_is_another_kind() -> None:
    assert has_ownership("Job", thing()) and has_ownership("Job", thing(api="batch.volcano.sh/v1alpha1"))
    assert not has_ownership("Job", thing(api="example.com/v1"))
    assert not has_ownership("Pod", thing("Pod", "v1")), "a pod's own step is its Owner"


def test_every_kind_that_is_watched_for_its_owner_alone_is_read() -> None:
    alone = {(kind.kind, kind.group) for kind in RESOURCE_KINDS if kind.metadata_only}
    assert alone == {(kind, group) for kind, group in alone if group in OWNERSHIP_KINDS.get(kind, ())}
    assert ("CronJob", "batch") in alone
