"""Small Kubernetes objects for the tests of this folder."""

from __future__ import annotations

from typing import Any, TypeVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant, parse_instant
from steelyard.sources.kube_api.pods import read_pod
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import parse_pod

CTX = ReadContext(file="dump.json")
F = TypeVar("F", bound=Fact)


def at(clock: str) -> Instant:
    """The instant ``HH:MM:SS`` on the day of the tests."""
    return parse_instant(f"2027-03-05T{clock}Z")


def stamp(clock: str) -> str:
    return f"2027-03-05T{clock}Z"


def container(name: str = "main", **resources: Any) -> dict[str, Any]:
    """A container with limits; ``nvidia_gpu=2`` is written as ``limits={"nvidia.com/gpu": "2"}``."""
    return {
        "name": name,
        "image": "registry.example/t:1",
        "resources": {"limits": resources.pop("limits", {})},
        **resources,
    }


def gpus(count: object, name: str = "main", **rest: Any) -> dict[str, Any]:
    return container(name, limits={"nvidia.com/gpu": count}, **rest)


def status_of(name: str = "main", **state: Any) -> dict[str, Any]:
    """``running="10:00:00"`` or ``terminated=("10:00:00", "11:00:00", 0)``."""
    if "running" in state:
        return {"name": name, "restartCount": 0, "state": {"running": {"startedAt": stamp(state["running"])}}}
    started, ended, code = state["terminated"]
    detail = {"startedAt": started and stamp(started), "finishedAt": ended and stamp(ended), "exitCode": code}
    return {"name": name, "restartCount": 0, "state": {"terminated": detail}}


def pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    metadata: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    node: str | None = "n-1",
) -> dict[str, Any]:
    """A running pod ``ns/p`` with uid ``u-1``, created 10:00:00, bound 10:00:02, whatever is given on top."""
    bound = {"nodeName": node} if node else {}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp("10:00:02")}
    return {
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u-1",
            "creationTimestamp": stamp("10:00:00"),
            **(metadata or {}),
        },
        "spec": {"initContainers": list(init), "containers": list(containers or (gpus(1),)), **bound, **(spec or {})},
        "status": {"phase": "Running", "conditions": [scheduled] if node else [], **(status or {})},
    }


def read(payload: dict[str, Any], ctx: ReadContext = CTX) -> list[Fact]:
    return list(read_pod(parse_pod(payload), ctx))


def only(facts: list[Fact], kind: type[F]) -> F:
    """The one fact of that class."""
    (fact,) = of(facts, kind)
    return fact


def of(facts: list[Fact], kind: type[F]) -> list[F]:
    return [fact for fact in facts if isinstance(fact, kind)]


def codes(facts: list[Fact]) -> list[str]:
    return [fact.code for fact in facts if type(fact).__name__ == "Finding"]  # type: ignore[attr-defined]
