"""Whose an object is, of every kind that may stand between a pod and the workload that people know.

``app`` calls ``read_ownership`` for each object that ``has_ownership`` names, from files and from a watch alike; only its metadata is read. The
trick to know: an object without an owner is a fact too, for only that tells the end of a chain from a link that nobody saw.

Sceptic's command: ``kubectl get OBJECT -o jsonpath='{.metadata.ownerReferences}'``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.ownership import Ownership
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kube_api.owners import SOURCE, controlling
from steelyard.sources.kube_api.transitions import group_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import list_of, mapping_of, text_of, texts_of

OWNERS_MAX: Final = 1_024
"""A Kueue pod group has as many owners as it has pods; what is beyond is counted in a finding."""
NAME_CHARACTERS_MAX: Final = 316

OWNERSHIP_KINDS: Final[Mapping[str, frozenset[str]]] = {
    "ReplicaSet": frozenset({"apps"}),
    "Deployment": frozenset({"apps"}),
    "StatefulSet": frozenset({"apps"}),
    "DaemonSet": frozenset({"apps"}),
    "Job": frozenset({"batch", "batch.volcano.sh"}),
    "CronJob": frozenset({"batch", "batch.volcano.sh"}),
    "JobFlow": frozenset({"flow.volcano.sh"}),
    "JobSet": frozenset({"jobset.x-k8s.io"}),
    "LeaderWorkerSet": frozenset({"leaderworkerset.x-k8s.io"}),
    "Workload": frozenset({"kueue.x-k8s.io"}),
    "PodGroup": frozenset({"scheduling.volcano.sh", "scheduling.x-k8s.io"}),
    "RayJob": frozenset({"ray.io"}),
    "RayCluster": frozenset({"ray.io"}),
    "RayService": frozenset({"ray.io"}),
    "RayCronJob": frozenset({"ray.io"}),
    "PyTorchJob": frozenset({"kubeflow.org"}),
    "MPIJob": frozenset({"kubeflow.org"}),
    "TFJob": frozenset({"kubeflow.org"}),
    "XGBoostJob": frozenset({"kubeflow.org"}),
    "PaddleJob": frozenset({"kubeflow.org"}),
    "JAXJob": frozenset({"kubeflow.org"}),
    "TrainJob": frozenset({"trainer.kubeflow.org"}),
    "Notebook": frozenset({"kubeflow.org"}),
    "InferenceService": frozenset({"serving.kserve.io"}),
    "SparkApplication": frozenset({"sparkoperator.k8s.io"}),
    "ScheduledSparkApplication": frozenset({"sparkoperator.k8s.io"}),
    "Rollout": frozenset({"argoproj.io"}),
    "Workflow": frozenset({"argoproj.io"}),
    "CronWorkflow": frozenset({"argoproj.io"}),
}
"""Kinds whose owner is a fact, with the groups that a kind of that name counts in."""

_JOB_UID: Final = "kueue.x-k8s.io/job-uid"


def has_ownership(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether the owner of this object is a fact."""
    return group_of(payload) in OWNERSHIP_KINDS.get(kind, ())


def read_ownership(payload: Mapping[str, Any], kind: str, ctx: ReadContext) -> Iterator[Fact]:
    """The object's controller; where it has none, each of its owners; where it has none of those either, that it belongs to nobody.

    A Kueue workload without a reference is taken by the uid of its job, which its label tells. Raises SourceMalformed for an object without
    uid and name; findings: ``owners_too_many``, and ``owner_is_itself`` for an object that names itself (then it belongs to nobody).
    """
    metadata = mapping_of(payload.get("metadata"))
    name, namespace, uid = (_plain(metadata.get(key)) for key in ("name", "namespace", "uid"))
    uid = uid or (f"name:{namespace or 'default'}/{name}" if name else None)
    if uid is None:
        raise SourceMalformed(f"expected metadata.name in a {kind[:80]}, found none", excerpt=reprlib.repr(metadata))
    references = list_of(metadata.get("ownerReferences"))
    controller = controlling(references)
    owners: Sequence[Mapping[str, Any]] = [controller] if controller else references
    if not owners and (job := texts_of(metadata.get("labels")).get(_JOB_UID)):
        owners = [{"uid": job, "controller": True}]
    subject = f"{kind.lower()} {namespace + '/' if namespace else ''}{name or uid}"
    others = [owner for owner in owners if owner.get("uid") != uid]
    if len(others) < len(owners):
        yield ctx.finding(SOURCE, "owner_is_itself", subject, "the object names itself as its owner")
    for owner in others[:OWNERS_MAX] or [{}]:
        version = text_of(owner.get("apiVersion"))
        yield Ownership(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=uid,
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            object_uid=uid,
            object_kind=kind,
            object_group=plain(group_of(payload)[:NAME_CHARACTERS_MAX]),
            namespace=namespace,
            object_name=name,
            owner_uid=_plain(owner.get("uid")),
            owner_kind=_plain(owner.get("kind")),
            owner_group=None if version is None else plain(version.rpartition("/")[0][:NAME_CHARACTERS_MAX]),
            owner_name=_plain(owner.get("name")),
            is_controller=len(others) <= 1,
        )
    if len(others) > OWNERS_MAX:
        text = f"{len(others)} owners; the first {OWNERS_MAX} are kept"
        yield ctx.finding(SOURCE, "owners_too_many", subject, text, evidence={"count": len(others)})


def _plain(value: object) -> str | None:
    return plain(value[:NAME_CHARACTERS_MAX]) if isinstance(value, str) and value else None
