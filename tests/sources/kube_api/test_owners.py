"""Whose a pod is."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.owner import Owner
from steelyard.sources.shared.context import ReadContext, ReadSettings
from tests.sources.kube_api.kube_objects import codes, only, pod, read


def _ref(kind: str, name: str, api: str = "apps/v1", controller: bool = True) -> dict[str, object]:
    return {"apiVersion": api, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": controller}


@pytest.mark.parametrize(
    ("references", "labels", "workload"),
    [
        ([], {}, ("Pod", "p")),
        ([_ref("ReplicaSet", "web-7c9f")], {"pod-template-hash": "7c9f"}, ("Deployment", "web")),
        ([_ref("ReplicaSet", "web-7c9f")], {}, ("ReplicaSet", "web-7c9f")),
        ([_ref("ReplicaSet", "web-7c9f")], {"rollouts-pod-template-hash": "7c9f"}, ("Rollout", "web")),
        ([_ref("ReplicaSet", "web-0000")], {"pod-template-hash": "7c9f"}, ("ReplicaSet", "web-0000")),
        ([_ref("ReplicaSet", "-7c9f")], {"pod-template-hash": "7c9f"}, ("ReplicaSet", "-7c9f")),
        ([_ref("Job", "nightly-28391", "batch/v1")], {}, ("Job", "nightly-28391")),
        ([_ref("Job", "mpi", "batch.volcano.sh/v1alpha1")], {"volcano.sh/job-name": "mpi"}, ("vcjob", "mpi")),
        ([], {"volcano.sh/job-name": "mpi"}, ("vcjob", "mpi")),
        ([], {"batch.kubernetes.io/job-name": "orphan"}, ("Job", "orphan")),
        ([_ref("Job", "sweep-w-0", "batch/v1")], {"jobset.sigs.k8s.io/jobset-name": "sweep"}, ("JobSet", "sweep")),
        ([_ref("RayCluster", "tune-abc", "ray.io/v1")], {"ray.io/cluster": "tune-abc"}, ("RayCluster", "tune-abc")),
        (
            [_ref("RayCluster", "tune-abc", "ray.io/v1")],
            {
                "ray.io/cluster": "tune-abc",
                "ray.io/originated-from-crd": "RayJob",
                "ray.io/originated-from-cr-name": "tune",
            },
            ("RayJob", "tune"),
        ),
        ([_ref("StatefulSet", "nb")], {"notebook-name": "nb"}, ("Notebook", "nb")),
        ([_ref("StatefulSet", "llm-0")], {"leaderworkerset.sigs.k8s.io/name": "llm"}, ("LeaderWorkerSet", "llm")),
        ([_ref("StatefulSet", "db")], {}, ("StatefulSet", "db")),
        ([_ref("DaemonSet", "dcgm")], {}, ("DaemonSet", "dcgm")),
        ([_ref("PyTorchJob", "ft", "kubeflow.org/v1")], {}, ("PyTorchJob", "ft")),
        (
            [_ref("Job", "ft-launcher", "batch/v1")],
            {"training.kubeflow.org/operator-name": "mpi-operator", "training.kubeflow.org/job-name": "ft"},
            ("MPIJob", "ft"),
        ),
        ([_ref("Node", "n-1", "v1")], {}, ("Pod", "p")),
        ([{"kind": ["Job"], "name": 7, "controller": True}], {}, ("Pod", "p")),
    ],
)
def test_the_workload_is_the_root_that_people_know(references, labels, workload):
    owner = only(read(pod(metadata={"ownerReferences": references, "labels": labels})), Owner)
    assert (owner.workload_kind, owner.workload_name) == workload


def test_the_direct_owner_is_the_controller_among_several():
    references = [_ref("Workload", "a", controller=False), _ref("Job", "b", "batch/v1")]
    owner = only(read(pod(metadata={"ownerReferences": references})), Owner)
    assert (owner.owner_kind, owner.owner_name, owner.owner_uid) == ("Job", "b", "uid-b")


def test_labels_are_kept_whole_and_annotations_without_the_bulky_ones():
    metadata = {
        "labels": {"b": "2", "a": "1"},
        "annotations": {
            "team": "x",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1,1:;",
            "volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,1,1:",
            "big": "x" * 5000,
            "number": 7,
        },
    }
    facts = read(pod(metadata=metadata))
    owner = only(facts, Owner)
    assert owner.labels == '{"a":"1","b":"2"}'
    assert json.loads(owner.annotations) == {"team": "x"}
    assert codes(facts) == []


def test_a_flood_of_annotations_is_cut_and_said_so():
    ctx = ReadContext(settings=ReadSettings(annotations_max=10))
    facts = read(pod(metadata={"annotations": {f"k{n}": "v" for n in range(100_000)}}), ctx)
    assert len(json.loads(only(facts, Owner).annotations)) == 10
    assert codes(facts) == ["annotations_too_many"]


def test_a_lone_surrogate_in_a_label_is_replaced():
    owner = only(read(pod(metadata={"labels": {"k": "a\ud800b"}})), Owner)
    assert json.loads(owner.labels) == {"k": "a?b"}
