"""Small objects of Volcano's for the tests of this folder, all on one day."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from steelyard.facts.base import Fact
from steelyard.facts.gang import Gang
from steelyard.primitives.instant import Instant, parse_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.volcano import has_volcano, read_volcano

CTX = ReadContext(file="dump.json")
F = TypeVar("F", bound=Fact)


def stamp(clock: str) -> str:
    return f"2027-03-05T{clock}Z"


def at(clock: str) -> Instant:
    return parse_instant(stamp(clock))


def of(facts: list[Fact], table: type[F]) -> list[F]:
    return [fact for fact in facts if isinstance(fact, table)]


def read(payload: dict[str, Any]) -> list[Fact]:
    assert has_volcano(payload["kind"], payload)
    return list(read_volcano(payload, payload["kind"], CTX))


def gang(payload: dict[str, Any]) -> Gang:
    (found,) = of(read(payload), Gang)
    return found


def details(fact: Any) -> dict[str, Any]:
    return dict(json.loads(fact.details))


def task(name: str = "worker", replicas: int = 1, gpus: object = "1", **more: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus, "cpu": "8"}}}
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": [container]}}, **more}


def job(phase: str, *phases: tuple[str, str], spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """A job ``lab/j`` created 08:00:00; ``phases``: (phase, clock) of its conditions, in the order in which they stand."""
    conditions = [{"status": each, "lastTransitionTime": stamp(clock)} for each, clock in phases]
    last = dict(phases).get(phase, "08:00:00")
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "lab", "uid": "job-1", "creationTimestamp": stamp("08:00:00")},
        "spec": {"minAvailable": 1, "queue": "q", "tasks": [task()], **(spec or {})},
        "status": {
            "state": {"phase": phase, "lastTransitionTime": stamp(last)},
            "conditions": conditions,
            **status,
        },
    }


def pod_group(phase: str, *conditions: dict[str, Any], name: str = "j-job-1", **more: Any) -> dict[str, Any]:
    """A pod group of two cards in queue ``q``, created 08:00:00."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": f"uid-of-{name}",
            "creationTimestamp": stamp("08:00:00"),
            "ownerReferences": [{"kind": "Job", "name": "j", "uid": "job-1", "controller": True}],
        },
        "spec": {"minMember": 2, "queue": "q", "minResources": {"nvidia.com/gpu": "2"}},
        "status": {"phase": phase, "conditions": list(conditions), **more},
    }


def unschedulable(clock: str, message: str, reason: str = "NotEnoughResources") -> dict[str, Any]:
    return {
        "type": "Unschedulable",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp(clock),
    }


def queue(name: str = "q", spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"uid-of-{name}"},
        "spec": spec or {},
        "status": {"state": "Open", **status},
    }


def event(kind: str, reason: str, message: str, component: str = "volcano", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"uid": f"event-{reason}", "namespace": "lab"},
        "involvedObject": {"kind": kind, "namespace": "lab", "name": "x", "uid": "x-1"},
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "firstTimestamp": stamp("09:00:00"),
        "lastTimestamp": stamp("09:30:00"),
        "count": 4,
        **more,
    }
