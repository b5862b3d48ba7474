"""Small jobs of every job system for tests, all on one day, each asking for cards in one way."""

from __future__ import annotations

import json
from typing import Any

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.gang import Gang
from steelyard.primitives.instant import Instant, parse_instant
from steelyard.sources.shared.context import ReadContext

CTX = ReadContext(file="jobs.json")


def stamp(clock: str) -> str:
    return f"2027-03-05T{clock}Z"


def at(clock: str) -> Instant:
    return parse_instant(stamp(clock))


def template(gpus: object = "1") -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}}


def condition(kind: str, clock: str = "09:00:00", reason: str = "", status: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": stamp(clock)}


def thing(kind: str, api: str, spec: Any, status: Any = None, **metadata: Any) -> dict[str, Any]:
    """An object ``lab/j`` created 08:00:00."""
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {
            "name": "j",
            "namespace": "lab",
            "uid": "u-1",
            "creationTimestamp": stamp("08:00:00"),
            **metadata,
        },
        "spec": spec,
        "status": status or {},
    }


def gang_of(facts: list[Fact]) -> Gang:
    (found,) = [each for each in facts if isinstance(each, Gang)]
    return found


def codes(facts: list[Fact]) -> list[str]:
    return [each.code for each in facts if isinstance(each, Finding)]


def details(gang: Gang) -> dict[str, Any]:
    return dict(json.loads(gang.details))
