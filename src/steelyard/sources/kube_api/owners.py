"""Whose a pod is: the controller that made it, and the workload that people know by name.

``pods`` calls ``read_owner``. The trick to know: the controller is one step up only (a Deployment's pod belongs to a ReplicaSet), so the
root told here is found by the labels that each framework puts on its pods, then by the form of names. It is what counts where the chain of
references was not seen; ``dim.pod`` climbs that (``ownership`` reads its steps).

Sceptic's command: ``kubectl get pod POD -o jsonpath='{.metadata.ownerReferences}{.metadata.labels}'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.owner import Owner
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView, text_of

SOURCE: Final = "kube_api"
VALUE_BYTES_MAX: Final = 4_096

_ROOT_BY_LABEL: Final = (
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("ray.io/cluster", "RayCluster"),
    ("serving.kserve.io/inferenceservice", "InferenceService"),
    ("sparkoperator.k8s.io/app-name", "SparkApplication"),
)
_OPERATOR: Final = {
    "pytorchjob-controller": "PyTorchJob", "tfjob-controller": "TFJob", "mpijob-controller": "MPIJob", "mpi-operator": "MPIJob",
    "xgboostjob-controller": "XGBoostJob", "paddlejob-controller": "PaddleJob", "jaxjob-controller": "JAXJob",
}  # fmt: skip
_BULKY: Final = frozenset({
    "kubectl.kubernetes.io/last-applied-configuration",
    "hami.io/vgpu-mig-allocations", "hami.io/vgpu-node", "hami.io/vgpu-time", "hami.io/bind-phase", "hami.io/bind-time",
    "volcano.sh/vgpu-ids-new", "volcano.sh/vgpu-node", "volcano.sh/vgpu-time", "volcano.sh/bind-phase", "volcano.sh/bind-time",
})  # fmt: skip
_BULKY_ENDINGS: Final = ("devices-allocated", "devices-to-allocate")
_ENCODE: Final = msgspec.json.Encoder(order="sorted").encode


def read_owner(view: PodView, ctx: ReadContext) -> Iterator[Fact]:
    """One Owner, and a finding where the pod carries more labels or annotations than the settings allow (the first ones are kept)."""
    reference = controller_of(view)
    kind, name = workload_of(view, reference)
    labels = bounded(view.labels, ctx.settings.annotations_max) if view.labels else view.labels
    annotations = bounded(view.annotations, ctx.settings.annotations_max) if view.annotations else view.annotations
    yield Owner(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=view.uid,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        pod_uid=view.uid,
        namespace=view.namespace,
        owner_kind=text_of(reference.get("kind")),
        owner_name=text_of(reference.get("name")),
        owner_uid=text_of(reference.get("uid")),
        workload_kind=kind,
        workload_name=name,
        labels=json_text(labels),
        annotations=json_text(annotations),
    )
    for what, found in (("labels", view.labels), ("annotations", view.annotations)):
        if len(found) > ctx.settings.annotations_max:
            text = f"{len(found)} {what}; the first {ctx.settings.annotations_max} are kept"
            yield ctx.finding(SOURCE, f"{what}_too_many", view.subject, text, evidence={"count": len(found)})


def controller_of(view: PodView) -> Mapping[str, Any]:
    """The owner reference that controls the pod; an only one counts although it does not say so. Empty where there is none."""
    return controlling(view.owner_references)


def controlling(references: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Of an object's owner references the one that controls it; see ``controller_of``."""
    for reference in references:
        if reference.get("controller") is True:
            return reference
    return references[0] if len(references) == 1 else {}


def workload_of(view: PodView, reference: Mapping[str, Any]) -> tuple[str, str]:
    """(kind, name) of the root: a framework's label first, then the controller, ReplicaSet read as its Deployment; a pod of nobody is its own.

    A Volcano job is called ``vcjob``, as its own tools do, to tell it from a batch Job.
    """
    labels = view.labels
    kind, name = text_of(reference.get("kind")), text_of(reference.get("name"))
    if labels:
        labelled = _root_by_label(labels, kind, name)
        if labelled is not None:
            return labelled
    if kind is None or name is None:
        job = labels.get("batch.kubernetes.io/job-name") or labels.get("job-name")
        if job:
            return "Job", job
        vcjob = labels.get("volcano.sh/job-name")
        return ("vcjob", vcjob) if vcjob else ("Pod", view.name)
    if kind == "ReplicaSet":
        return _replica_set_root(labels, name)
    if kind == "Job" and str(reference.get("apiVersion", "")).startswith("batch.volcano.sh/"):
        return "vcjob", name
    if kind == "Node":
        return "Pod", view.name
    return kind, name


def json_text(texts: Mapping[str, str]) -> str:
    """A JSON object with sorted keys; what is no valid Unicode (a lone surrogate) is replaced by ``?``."""
    if not texts:
        return "{}"
    try:
        return _ENCODE(texts).decode()
    except UnicodeEncodeError:
        return _ENCODE({_valid(key): _valid(value) for key, value in texts.items()}).decode()


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _root_by_label(labels: Mapping[str, str], kind: str | None, name: str | None) -> tuple[str, str] | None:
    origin_kind, origin = labels.get("ray.io/originated-from-crd"), labels.get("ray.io/originated-from-cr-name")
    if origin_kind and origin:
        return origin_kind, origin
    for label, root in _ROOT_BY_LABEL:
        value = labels.get(label)
        if value:
            return root, value
    operator = _OPERATOR.get(labels.get("training.kubeflow.org/operator-name", ""))
    job = labels.get("training.kubeflow.org/job-name")
    if operator and job:
        return operator, job
    notebook = labels.get("notebook-name")
    if notebook and kind == "StatefulSet" and name == notebook:
        return "Notebook", notebook
    return None


def _replica_set_root(labels: Mapping[str, str], name: str) -> tuple[str, str]:
    for label, root in (("pod-template-hash", "Deployment"), ("rollouts-pod-template-hash", "Rollout")):
        template = labels.get(label)
        if template and name.endswith(f"-{template}") and len(name) > len(template) + 1:
            return root, name[: -len(template) - 1]
    return "ReplicaSet", name


def bounded(texts: Mapping[str, str], count_max: int) -> Mapping[str, str]:
    """The first ``count_max`` of them, without what machines write for themselves and what is too long to be meant for people."""
    kept = {
        key: value
        for key, value in texts.items()
        if key not in _BULKY
        and len(value) <= VALUE_BYTES_MAX
        and len(key) <= VALUE_BYTES_MAX
        and not key.endswith(_BULKY_ENDINGS)
    }
    return kept if len(kept) <= count_max else dict(islice(kept.items(), count_max))
