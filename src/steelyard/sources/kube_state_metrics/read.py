"""``read_pods``: pods of a past stretch as the objects they were, rebuilt from what kube-state-metrics exported of them.

``app`` asks a Prometheus with the expressions of ``questions`` and hands the points here; the objects then go to the reader of pods, so that
a pod means the same whether it was listed, watched or remembered. The trick to know: a pod that vanished has no stamp of its own end; its
series simply stop, so its end is the first step without it in which kube-state-metrics itself was there.
Sceptic's command: ``curl 'PROMETHEUS/api/v1/query?query=kube_pod_info{pod="NAME"}'``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from steelyard.facts.finding import Finding
from steelyard.primitives.instant import (
    INSTANT_MAX,
    INSTANT_MIN,
    SECOND_US,
    DurationUs,
    Instant,
    Window,
    format_instant,
)
from steelyard.sources.kube_state_metrics.names import (
    CONTAINER_STARTED,
    INIT_REQUESTS,
    NOT_EXTENDED,
    POD_METRICS,
    PRESENCE,
    REQUESTS,
    RUNNING,
    STAMPS,
    resource_name,
)
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.refusals import Refusals

SOURCE: Final = "kube_state_metrics"
_TERMINAL: Final = ("Succeeded", "Failed")
_LABEL: Final = "label_"
_COUNT_MAX: Final = 2**40
_CONTAINERS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod of the stretch. ``payload``: its object as far as the metrics tell it, None where only its end falls into the stretch.
    ``seen_from_at``, ``seen_to_at``: within a step; ``gone_at``: from then on it was not there any more, None: it still was at the end."""

    uid: str
    payload: dict[str, Any] | None
    seen_from_at: Instant
    seen_to_at: Instant
    gone_at: Instant | None


@dataclass(frozen=True, slots=True)
class Questions:
    """Expressions for a range query. ``presence``, ``coverage``: with the short step, from one step before the stretch; ``pods``: by metric,
    with one step as long as the stretch."""

    presence: str
    coverage: str
    pods: Mapping[str, str]


def questions(step_text: str, stretch_text: str) -> Questions:
    """What to ask a Prometheus for, of pods that ask for an extended resource. The texts spell the lengths of the range selectors."""

    def of_holders(metric: str, length: str) -> str:
        asked = " or ".join(
            f'last_over_time({name}{{resource!~"{NOT_EXTENDED}"}}[{length}])' for name in (REQUESTS, INIT_REQUESTS)
        )
        return f"last_over_time({metric}[{length}]) and on (uid) ({asked})"

    return Questions(
        presence=of_holders(PRESENCE, step_text),
        coverage=f"count by (job, instance) (last_over_time({PRESENCE}[{step_text}]))",
        pods={metric: of_holders(metric, stretch_text) for metric in POD_METRICS},
    )


def covered_stretches(coverage: Iterable[MetricPoint], window: Window, step_us: DurationUs) -> list[Window]:
    """The stretches of the window in which kube-state-metrics was there in each step, with as many instances as it mostly has (shards)."""
    instances = Counter(point.at for point in coverage)
    if not instances:
        return []
    usual = Counter(instances.values()).most_common(1)[0][0]
    stretches: list[Window] = []
    for at in sorted(at for at, count in instances.items() if count >= usual and window.start <= at < window.end):
        end = min(at + step_us, window.end)
        if stretches and stretches[-1].end == at:
            stretches[-1] = Window(stretches[-1].start, end)
        else:
            stretches.append(Window(at, end))
    return stretches


def read_pods(
    points: Iterable[MetricPoint],
    presence: Iterable[MetricPoint],
    covered: Iterable[Window],
    window: Window,
    step_us: DurationUs,
    ctx: ReadContext,
    known: Mapping[str, str],
) -> Iterator[SeenPod | Finding]:
    """The pods of the window, and findings for what cannot be read. ``points``: answers to ``Questions.pods``; ``presence``: to
    ``Questions.presence``, with ``at`` the start of each step; ``known``: as ``names.known_resources`` gives it."""
    refusals = Refusals(ctx, SOURCE)
    points = list(points)
    resolver = LabelResolver(points)
    pods: dict[str, _Pod] = {}
    for point in points:
        labels = resolver.resolve(point.labels).labels
        uid = _uid(labels)
        if uid is not None:
            for code, message in pods.setdefault(uid, _Pod()).take(point.name, labels, point.value, known):
                yield from refusals.find(code, f"pod {labels.get('namespace')}/{labels.get('pod')}", message)
    seen: dict[str, list[Instant]] = {}
    presence = list(presence)
    resolver = LabelResolver(presence)
    for point in presence:
        uid = _uid(resolver.resolve(point.labels).labels)
        if uid is not None:
            seen.setdefault(uid, []).append(point.at)
    covered = list(covered)
    for uid, steps in seen.items():
        last = max(steps) + step_us
        inside = [at for at in steps if at >= window.start]
        gone = last if any(each.start <= last < each.end for each in covered) else None
        if inside or gone is not None:
            pod = pods.get(uid) if inside else None
            yield SeenPod(
                uid,
                pod.payload(uid) if pod is not None else None,
                min(inside, default=last - step_us) + step_us,
                last,
                gone,
            )
    yield from refusals.rest()


def _uid(labels: Mapping[str, str]) -> str | None:
    """The pod's uid; its name where an old release exports none; None where the series is of no pod."""
    if labels.get("uid"):
        return labels["uid"]
    return f"name:{labels['namespace']}/{labels['pod']}" if labels.get("namespace") and labels.get("pod") else None


@dataclass(slots=True)
class _Pod:
    name: str = ""
    namespace: str = ""
    node: str | None = None
    owner: tuple[str, str] | None = None
    phase: str | None = None
    reason: str | None = None
    stamps: dict[str, Instant] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    containers: dict[tuple[bool, str], dict[str, str]] = field(default_factory=dict)
    started: dict[str, Instant] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)

    def take(
        self, metric: str, labels: Mapping[str, str], value: float, known: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        """One sample about the pod; (code, message) of what cannot be read of it."""
        self.name = self.name or labels.get("pod", "")
        self.namespace = self.namespace or labels.get("namespace", "")
        self.node = self.node or labels.get("node")
        container = labels.get("container", "")
        if metric in STAMPS or metric == CONTAINER_STARTED:
            at = _instant(value)
            if at is None:
                yield "stamp_malformed", f"{metric}: expected seconds since 1970, found {value!r}"
            elif metric == CONTAINER_STARTED:
                self.started[container] = at
            else:
                self.stamps[STAMPS[metric]] = at
        elif metric in (REQUESTS, INIT_REQUESTS):
            yield from self._asked(metric == INIT_REQUESTS, container, labels.get("resource", ""), value, known)
        elif metric == "kube_pod_labels":
            self.labels.update(
                {name.removeprefix(_LABEL): text for name, text in labels.items() if name.startswith(_LABEL)}
            )
        elif metric in (PRESENCE, "kube_pod_owner"):
            kind, name = (
                labels.get(key, "")
                for key in (
                    ("owner_kind", "owner_name") if metric != PRESENCE else ("created_by_kind", "created_by_name")
                )
            )
            if kind and name and not kind.startswith("<"):
                self.owner = (kind, name)
        elif value == 1:
            if metric == "kube_pod_status_phase":
                self.phase = labels.get("phase")
            elif metric == "kube_pod_status_reason":
                self.reason = labels.get("reason")
            elif metric == RUNNING:
                self.running.add(container)

    def _asked(
        self, init: bool, container: str, written: str, value: float, known: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        if not container or len(self.containers) >= _CONTAINERS_MAX:
            return
        asked = self.containers.setdefault((init, container), {})
        name = resource_name(written, known)
        if name is None:
            return
        if not value.is_integer() or not 0 <= value <= _COUNT_MAX:
            yield "quantity_malformed", f"{container}: {plain(name)[:120]}: expected a whole count, found {value!r}"
        else:
            asked[name] = str(int(value))

    def payload(self, uid: str) -> dict[str, Any]:
        """The object, as the API server would have shown it then."""
        metadata: dict[str, Any] = {"name": self.name, "namespace": self.namespace, "labels": self.labels}
        if not uid.startswith("name:"):
            metadata["uid"] = uid
        for key, stamp in (("creationTimestamp", "created"), ("deletionTimestamp", "deleted")):
            if stamp in self.stamps:
                metadata[key] = format_instant(self.stamps[stamp])
        if self.owner is not None:
            metadata["ownerReferences"] = [{"kind": self.owner[0], "name": self.owner[1], "controller": True}]
        spec: dict[str, Any] = {
            "initContainers": [_container(name, asked) for (init, name), asked in self.containers.items() if init],
            "containers": [_container(name, asked) for (init, name), asked in self.containers.items() if not init],
        }
        if self.node:
            spec["nodeName"] = self.node
        return {"metadata": metadata, "spec": spec, "status": self._status()}

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = {"phase": self.phase or "Unknown"}
        if self.reason:
            status["reason"] = self.reason
        if "started" in self.stamps:
            status["startTime"] = format_instant(self.stamps["started"])
        if "scheduled" in self.stamps:
            stamp = format_instant(self.stamps["scheduled"])
            status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp}]
        states = [(name, self._state(name)) for init, name in self.containers if not init]
        status["containerStatuses"] = [{"name": name, "state": state} for name, state in states if state]
        return status

    def _state(self, container: str) -> dict[str, Any] | None:
        started = {"startedAt": format_instant(self.started[container])} if container in self.started else {}
        if self.phase in _TERMINAL:
            ended = self.stamps.get("completed")
            return {"terminated": {**started, "finishedAt": format_instant(ended)}} if ended is not None else None
        return {"running": started} if container in self.running or started else None


def _container(name: str, asked: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": dict(asked)}}


def _instant(seconds: float) -> Instant | None:
    if not math.isfinite(seconds) or not 0 < seconds * SECOND_US <= INSTANT_MAX or seconds * SECOND_US < INSTANT_MIN:
        return None
    return round(seconds * SECOND_US)
