"""Small Kueue objects and events, and one way to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.primitives.instant import Instant, parse_instant
from steelyard.sources.kueue import has_facts, read_event, read_object
from steelyard.sources.shared.context import ReadContext

SEEN = parse_instant("2026-03-01T12:00:00Z")
CTX = ReadContext(cluster="c", file="x", observed_at=SEEN)
V2 = "kueue.x-k8s.io/v1beta2"
V1 = "kueue.x-k8s.io/v1beta1"

F = TypeVar("F", bound=Fact)


def stamp(clock: str) -> str:
    return f"2026-03-01T{clock}Z"


def at(clock: str) -> Instant:
    return parse_instant(stamp(clock))


def condition(kind: str, status: bool, clock: str, reason: str = "r", message: str = "") -> dict[str, Any]:
    return {
        "type": kind,
        "status": str(status),
        "lastTransitionTime": stamp(clock),
        "reason": reason,
        "message": message,
    }


def pod_set(count: int = 1, gpus: int = 1, name: str = "main", **requests: str) -> dict[str, Any]:
    asked = {"nvidia.com/gpu": str(gpus), **requests}
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": asked}}]}}
    return {"name": name, "count": count, "template": template}


def assignment(count: int = 1, gpus: int = 1, name: str = "main", flavor: str = "h100", **more: Any) -> dict[str, Any]:
    """One pod set's admission; ``gpus``: of all its pods together."""
    return {
        "name": name,
        "count": count,
        "flavors": {"nvidia.com/gpu": flavor},
        "resourceUsage": {"nvidia.com/gpu": str(gpus)},
        **more,
    }


def workload(
    *conditions: dict[str, Any],
    name: str = "w",
    uid: str | None = None,
    spec: dict[str, Any] | None = None,
    admission: Iterable[dict[str, Any]] = (),
    owner: dict[str, Any] | None = None,
    version: str = V2,
    **status: Any,
) -> dict[str, Any]:
    rows = list(admission)
    admitted = {"admission": {"clusterQueue": "cq", "podSetAssignments": rows}} if rows else {}
    owners = [{"kind": "Job", "name": name, "uid": f"job-{name}", "controller": True, **(owner or {})}]
    return {
        "apiVersion": version,
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "a",
            "uid": uid or f"u-{name}",
            "creationTimestamp": stamp("08:00:00"),
            "ownerReferences": owners,
        },
        "spec": {"queueName": "lq", "priority": 5, "podSets": [pod_set()], **(spec or {})},
        "status": {"conditions": list(conditions), **admitted, **status},
    }


def admitted(clock: str = "08:01:00") -> list[dict[str, Any]]:
    return [
        condition("QuotaReserved", True, clock, "QuotaReserved", "Quota reserved in ClusterQueue cq"),
        condition("Admitted", True, clock, "Admitted", "The workload is admitted"),
    ]


def cluster_queue(
    *conditions: dict[str, Any], name: str = "cq", spec: dict[str, Any] | None = None, **status: Any
) -> dict[str, Any]:
    flavors = [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]
    return {
        "apiVersion": V2,
        "kind": "ClusterQueue",
        "metadata": {"name": name, "uid": f"u-{name}"},
        "spec": {"resourceGroups": groups, **(spec or {})},
        "status": {"conditions": list(conditions), **status},
    }


def local_queue(*conditions: dict[str, Any], name: str = "lq", parent: str = "cq", **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": V2,
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": "a", "uid": f"u-{name}"},
        "spec": {"clusterQueue": parent},
        "status": {"conditions": list(conditions), **status},
    }


def event(reason: str, message: str = "", clock: str = "09:00:00", **more: Any) -> dict[str, Any]:
    """An event in the new recorder's form, about Workload ``a/w``."""
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": "e", "namespace": "a", "uid": f"e-{reason}-{clock}"},
        "involvedObject": {"apiVersion": V2, "kind": "Workload", "namespace": "a", "name": "w", "uid": "u-w"},
        "reason": reason,
        "message": message,
        "eventTime": stamp(clock),
        "firstTimestamp": None,
        "lastTimestamp": None,
        "reportingComponent": "kueue-admission",
        "type": "Normal",
        **more,
    }


def pod(name: str, *, labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    spec = {"nodeName": more.pop("node", "n1"), **more.pop("spec", {})}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "a",
            "uid": f"u-{name}",
            "creationTimestamp": stamp("09:00:00"),
            "labels": {"kueue.x-k8s.io/podset": "main", **(labels or {})},
            **more.pop("metadata", {}),
        },
        "spec": spec,
        "status": {"phase": more.pop("phase", "Running")},
    }


def read(*payloads: dict[str, Any], ctx: ReadContext = CTX) -> list[Fact]:
    return [fact for payload in payloads for fact in _read(payload, ctx)]


def _read(payload: dict[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    if payload["kind"] == "Event":
        return read_event(payload, ctx)
    assert has_facts(payload["kind"], payload)
    return read_object(payload, payload["kind"], ctx)


def each(facts: Iterable[Fact], table: type[F]) -> list[F]:
    return [fact for fact in facts if isinstance(fact, table)]


def only(facts: Iterable[Fact], table: type[F]) -> F:
    (found,) = each(facts, table)
    return found


def codes(facts: Iterable[Fact]) -> list[str]:
    return [fact.code for fact in facts if isinstance(fact, Finding)]
