"""A Pod object parsed once, in the shape that every reader of pods needs.

``app`` calls ``parse_pod`` once per payload and hands the result to every reader registered for pods (kube_api, hami, ...).
Nothing here judges: stamps, requests and statuses are taken as they stand; what cannot be read is a PodProblem that the
kube_api reader turns into a finding. The trick to know: most of the time goes into stamps, so the one form that the API server
writes (``2026-09-01T10:06:13Z``) has a short way of its own, and a stamp that comes again is remembered.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant, parse_instant
from steelyard.sources.shared.quantity import parse_count

APP: Final = "app"
INIT: Final = "init"
SIDECAR: Final = "sidecar"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_INT64: Final = 2**63


class ContainerView(msgspec.Struct, frozen=True):
    """One container: kind ``app``, ``init`` or ``sidecar``; resources = limits over requests, as written; state stamps or None.

    previous_started_at, previous_ended_at: the run before the present one, where it restarted (``lastState``: no earlier run is kept).
    """

    name: str
    kind: str
    position: int
    resources: Mapping[str, Any]
    image: str | None = None
    state: str | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    exit_code: int | None = None
    reason: str | None = None
    restart_count: int = 0
    container_id: str | None = None
    previous_started_at: Instant | None = None
    previous_ended_at: Instant | None = None

    @property
    def has_run(self) -> bool:
        """Whether it ever ran, by its own status."""
        return self.state in ("running", "terminated") or self.restart_count > 0 or self.previous_ended_at is not None

    def count(self, resource: str) -> int:
        """The whole number asked for of an extended resource; 0 where it is absent or unreadable."""
        value = self.resources.get(resource)
        if value is None:
            return 0
        try:
            return parse_count(value)
        except ValueError:
            return 0


class PodView(msgspec.Struct, frozen=True):
    """One Pod. ``containers`` lists init containers (sidecars among them) first, then app containers, as HAMi >= 2.9 counts slots."""

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner_references: Sequence[Mapping[str, Any]]
    node: str | None
    phase: str
    status_reason: str | None
    scheduler: str | None
    priority: int | None
    created_at: Instant | None
    deletion_at: Instant | None
    scheduled_at: Instant | None
    started_at: Instant | None
    containers: Sequence[ContainerView]
    tolerations: Sequence[Mapping[str, Any]]
    qos: str | None
    raw: Mapping[str, Any]
    problems: Sequence[str] = ()
    conditions: Sequence[Mapping[str, Any]] = ()

    @property
    def subject(self) -> str:
        """How findings name it."""
        return f"pod {self.namespace}/{self.name}"


def mapping_of(value: object) -> Mapping[str, Any]:
    """The value where it is a JSON object, else an empty one: a hostile shape reads as absent, never as a crash."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> Sequence[Mapping[str, Any]]:
    """The objects of a JSON array; anything else in it, or anything that is no array, is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) and value else ()


def text_of(value: object) -> str | None:
    """The value where it is a non-empty string, else None."""
    return value if isinstance(value, str) and value else None


def texts_of(value: object) -> Mapping[str, str]:
    """A string map such as labels or annotations; entries that are no strings are left out."""
    return {key: item for key, item in value.items() if isinstance(item, str)} if isinstance(value, dict) else {}


def integer_of(value: object) -> int | None:
    """The value where it is a JSON integer that a 64-bit column holds, else None (``true`` is no integer)."""
    return value if type(value) is int and -_INT64 <= value < _INT64 else None


@lru_cache(maxsize=65_536)
def _server_stamp(text: str) -> Instant:
    """A stamp as the API server writes it, 20 characters; whatever else is that long goes the long way."""
    if (
        text[11:13] != "24"
        and text[4] == text[7] == "-"
        and text[10] == "T"
        and text[13] == text[16] == ":"
        and text[19] == "Z"
    ):
        try:
            return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
        except ValueError:
            pass
    return parse_instant(text)


def stamp(text: str) -> Instant:
    """``parse_instant`` with a memory for the common form. Raises ValueError as that does."""
    return _server_stamp(text) if len(text) == 20 else parse_instant(text)


def instant_of(value: object, problems: list[str], where: str) -> Instant | None:
    """The stamp, or None where it is absent; an unreadable one is noted in ``problems``."""
    if value is None:
        return None
    if not isinstance(value, str):
        problems.append(f"{where}: expected a time, found {type(value).__name__}")
        return None
    try:
        return stamp(value)
    except ValueError as error:
        problems.append(f"{where}: {error}")
        return None


def parse_pod(payload: Mapping[str, Any]) -> PodView:
    """A Pod object as a PodView. Raises SourceMalformed where it has no name; every lesser trouble is in ``problems``."""
    problems: list[str] = []
    metadata, spec, status = (mapping_of(payload.get(key)) for key in ("metadata", "spec", "status"))
    name = text_of(metadata.get("name"))
    if name is None:
        raise SourceMalformed("expected metadata.name in a Pod, found none", excerpt=reprlib.repr(metadata))
    namespace = text_of(metadata.get("namespace")) or "default"
    scheduled_at = None
    conditions = list_of(status.get("conditions"))
    for condition in conditions:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            scheduled_at = instant_of(condition.get("lastTransitionTime"), problems, "PodScheduled.lastTransitionTime")
    containers = [
        *_containers(list_of(spec.get("initContainers")), list_of(status.get("initContainerStatuses")), True, problems),
        *_containers(list_of(spec.get("containers")), list_of(status.get("containerStatuses")), False, problems),
    ]
    return PodView(
        uid=text_of(metadata.get("uid")) or f"name:{namespace}/{name}",
        namespace=namespace,
        name=name,
        labels=texts_of(metadata.get("labels")),
        annotations=texts_of(metadata.get("annotations")),
        owner_references=list_of(metadata.get("ownerReferences")),
        node=text_of(spec.get("nodeName")),
        phase=text_of(status.get("phase")) or "Unknown",
        status_reason=text_of(status.get("reason")),
        scheduler=text_of(spec.get("schedulerName")),
        priority=integer_of(spec.get("priority")),
        created_at=instant_of(metadata.get("creationTimestamp"), problems, "metadata.creationTimestamp"),
        deletion_at=instant_of(metadata.get("deletionTimestamp"), problems, "metadata.deletionTimestamp"),
        scheduled_at=scheduled_at,
        started_at=instant_of(status.get("startTime"), problems, "status.startTime"),
        containers=containers,
        tolerations=list_of(spec.get("tolerations")),
        qos=text_of(status.get("qosClass")),
        raw=payload,
        problems=problems,
        conditions=conditions,
    )


def _containers(
    specs: Sequence[Mapping[str, Any]], statuses: Sequence[Mapping[str, Any]], init: bool, problems: list[str]
) -> list[ContainerView]:
    by_name = {name: status for status in statuses if isinstance(name := status.get("name"), str)}
    views = []
    for position, spec in enumerate(specs):
        name = text_of(spec.get("name")) or f"#{position}"
        sidecar = init and spec.get("restartPolicy") == "Always"
        status = by_name.get(name, {})
        states = mapping_of(status.get("state"))
        state = next((key for key in ("running", "terminated", "waiting") if isinstance(states.get(key), dict)), None)
        detail: Mapping[str, Any] = states[state] if state else {}
        started = detail.get("startedAt")
        ended = detail.get("finishedAt") if state == "terminated" else None
        last = status.get("lastState")
        previous = mapping_of(last.get("terminated")) if isinstance(last, dict) and last else {}
        views.append(
            ContainerView(
                name=name,
                kind=SIDECAR if sidecar else INIT if init else APP,
                position=position,
                resources=_resources(spec.get("resources")),
                image=text_of(spec.get("image")),
                state=state,
                started_at=None if started is None else instant_of(started, problems, f"{name}.startedAt"),
                ended_at=None if ended is None else instant_of(ended, problems, f"{name}.finishedAt"),
                exit_code=integer_of(detail.get("exitCode")),
                reason=text_of(detail.get("reason")),
                restart_count=max(0, integer_of(status.get("restartCount")) or 0),
                container_id=text_of(status.get("containerID")),
                previous_started_at=instant_of(previous.get("startedAt"), problems, f"{name}.lastState.startedAt")
                if previous
                else None,
                previous_ended_at=instant_of(previous.get("finishedAt"), problems, f"{name}.lastState.finishedAt")
                if previous
                else None,
            )
        )
    return views


def _resources(value: object) -> Mapping[str, Any]:
    """Limits over requests: an extended resource has both equal, and HAMi reads limits first."""
    resources = mapping_of(value)
    requests, limits = mapping_of(resources.get("requests")), mapping_of(resources.get("limits"))
    return {**requests, **limits} if requests and limits else limits or requests
