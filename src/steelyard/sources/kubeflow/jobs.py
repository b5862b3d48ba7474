"""A training job of Kubeflow (PyTorchJob, MPIJob and their kin) as a Gang: what its replicas ask for and how it ended.

The trick to know: ``Running`` and ``Restarting`` take each other's place among the conditions, so a job that runs shows no restart that it had; how
often it was restarted is told only of an MPIJob, whose launcher's failed pods are counted.

Sceptic's command: ``kubectl get pytorchjob JOB -o jsonpath='{.status.conditions}'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.job_gang import (
    JobWords,
    PodPart,
    count_of,
    ended_by,
    holding_conditions,
    pod_spec,
    read_job_gang,
    retries_of,
)
from steelyard.sources.shared.object_identity import short
from steelyard.sources.shared.pods import instant_of, integer_of, mapping_of, text_of

SOURCE: Final = "kubeflow"
GROUP: Final = "kubeflow.org"
_REPLICAS: Final[Mapping[str, str]] = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}


def is_training_job(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether the object is one of the training operator's jobs."""
    version = text_of(payload.get("apiVersion")) or ""
    return kind in _REPLICAS and version.rpartition("/")[0] == GROUP


def read_training_job(payload: Mapping[str, Any], kind: str, ctx: ReadContext) -> Iterator[Fact]:
    """One Gang. phase: ``suspended``, ``pending``, ``running``, ``restarting``, ``finished``. outcome: ``succeeded``, ``failed``, None
    while it lives.

    retry_count: of an MPIJob its launcher's failed pods less the one that ended it; of the others None, not told. Finding ``job_malformed``. Raises
    SourceMalformed for an object without a name.
    """
    problems: list[str] = []
    spec, status = mapping_of(payload.get("spec")), mapping_of(payload.get("status"))
    policy = {**spec, **mapping_of(spec.get("runPolicy"))}
    scheduling = mapping_of(policy.get("schedulingPolicy"))
    conditions = holding_conditions(status, problems)
    outcome, condition = ended_by(conditions, "Succeeded", "Failed", problems)
    suspended = policy.get("suspend") is True
    completed_at = instant_of(status.get("completionTime"), problems, "status.completionTime")
    counts = mapping_of(status.get("replicaStatuses"))
    words = JobWords(
        phase="finished",
        parts=[
            PodPart(
                str(name)[:80], count_of(mapping_of(row).get("replicas"), 1), pod_spec(mapping_of(row).get("template"))
            )
            for name, row in mapping_of(spec.get(_REPLICAS[kind])).items()
        ],
        condition=condition,
        outcome=outcome,
        min_count=integer_of(scheduling.get("minAvailable")),
        queue=short(scheduling.get("queue")),
        priority_class=short(scheduling.get("priorityClass")),
        active=not suspended,
        retry_max=integer_of(policy.get("backoffLimit")),
        running_count=_total(counts, "active"),
        succeeded_count=_total(counts, "succeeded"),
        failed_count=_total(counts, "failed"),
        details={"suspended": True if suspended else None},
    )
    if condition is not None:
        words.finished_at = condition.at if completed_at is None else completed_at
    else:
        words.phase, words.condition = "pending", conditions.get("Created")
        for held, phase in (("Restarting", "restarting"), ("Running", "running"), ("Suspended", "suspended")):
            if held in conditions:
                words.phase, words.condition = phase, conditions[held]
                break
    if kind == "MPIJob" and isinstance(counts.get("Launcher"), dict):
        words.retry_count = retries_of(integer_of(counts["Launcher"].get("failed")) or 0, outcome)
    yield from read_job_gang(payload, words, problems, SOURCE, ctx)


def _total(counts: Mapping[str, Any], key: str) -> int | None:
    """Pods of all replica types; one that is not counted has none, as the API leaves zeros out."""
    if not counts:
        return None
    return sum(count_of(mapping_of(row).get(key), 0) for row in counts.values())
