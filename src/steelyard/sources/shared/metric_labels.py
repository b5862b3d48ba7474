"""Labels of a sample, parted: what the exporter said, and what only tells the way it came (the scrape target).

Called once per round by ``app``'s routing, before a reader of meaning sees a point. Prometheus adds labels of its own; where they hide one of
the exporter's, that one is renamed ``exported_<name>`` (``honorLabels: false``), and where nothing is renamed a ``pod`` may still be
the exporter's own. The trick to know: what one series of a target reveals (it has ``exported_pod``) holds for all series of that
target, so a free card, which has no pod of its own, is not taken for a card of the exporter's pod; unless ``pod`` takes several values in one
scrape, which a label of the target never does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.instant import Instant
from steelyard.sources.shared.metric_points import MetricPoint

EXPORTED: Final = "exported_"
WAY: Final = frozenset(
    {"job", "instance", "prometheus", "prometheus_replica", "__replica__", "__name__", "metrics_path", "__address__"}
)
"""Labels that are never the exporter's."""

TargetKey = tuple[str | None, str | None]
TARGETS_MAX: Final = 100_000
_PLACE: Final = ("namespace", "pod", "container")
_MONITOR: Final = ("endpoint", "service")
_EXPORTER_PODS: Final = ("dcgm-exporter", "nvidia-dcgm-exporter", "gpu-operator-dcgm-exporter")
_EXPORTER_CONTAINERS: Final = frozenset({"exporter", "dcgm-exporter", "nvidia-dcgm-exporter"})


@dataclass(frozen=True, slots=True)
class Target:
    """Where a sample was scraped; None: the way does not say."""

    job: str | None = None
    instance: str | None = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    node: str | None = None

    @property
    def key(self) -> str:
        """The target in one word, for comparing and for findings."""
        return "/".join(part for part in (self.job, self.instance or self.pod) if part) or "direct"


@dataclass(frozen=True, slots=True)
class Resolved:
    """``labels``: the exporter's own, without empty ones. ``target``: where they were scraped."""

    labels: Mapping[str, str]
    target: Target


class LabelResolver:
    """Made of all points of a round; ``resolve`` then parts the labels of each. Equal labels are parted once and give one ``Resolved``.

    ``hidden``: what earlier rounds revealed, kept by the caller and added to, where one scrape may come in several pieces.
    """

    def __init__(self, points: Iterable[MetricPoint], hidden: dict[TargetKey, set[str]] | None = None) -> None:
        self._hidden: dict[TargetKey, set[str]] = {} if hidden is None else hidden
        if len(self._hidden) > TARGETS_MAX:
            self._hidden.clear()
        self._done: dict[tuple[tuple[str, str], ...], Resolved] = {}
        self._done_by_identity: dict[int, tuple[Mapping[str, str], Resolved]] = {}
        seen: dict[int, tuple[Mapping[str, str], Instant]] = {}  # kept here, labels keep their identity
        varying: dict[TargetKey, set[str]] = {}
        places: dict[tuple[TargetKey, Instant], dict[str, str]] = {}
        for point in points:
            labels = point.labels
            last = seen.get(id(labels))
            if last is not None and last[1] == point.at:
                continue  # another metric of the same card and scrape
            seen[id(labels)] = (labels, point.at)
            target = (labels.get("job"), labels.get("instance"))
            exported = [name.removeprefix(EXPORTED) for name in labels if name.startswith(EXPORTED)]
            if exported:
                self._hidden.setdefault(target, set()).update(exported)
            if target == (None, None):
                continue
            for name in _PLACE:
                if name in labels:
                    known = places.setdefault((target, point.at), {}).setdefault(name, labels[name])
                    if known != labels[name]:
                        varying.setdefault(target, set()).add(name)
        for target, names in varying.items():
            self._hidden.get(target, set()).difference_update(names)

    def resolve(self, labels: Mapping[str, str]) -> Resolved:
        """The exporter's labels and the target's."""
        known = self._done_by_identity.get(id(labels))
        if known is not None:
            return known[1]
        key = tuple(labels.items())
        done = self._done.get(key)
        if done is None:
            done = self._done[key] = self._part(labels)
        self._done_by_identity[id(labels)] = (labels, done)
        return done

    def _part(self, labels: Mapping[str, str]) -> Resolved:
        job, instance = labels.get("job"), labels.get("instance")
        if job is None and instance is None:
            return _without_way(labels, self._hidden.get((None, None), ()))
        hidden: Collection[str] = self._hidden.get((job, instance), ())
        own: dict[str, str] = {}
        way: dict[str, str] = {}
        for name, value in labels.items():
            if name.startswith(EXPORTED):
                own[name.removeprefix(EXPORTED)] = value
            elif name in WAY or name in hidden or f"{EXPORTED}{name}" in labels:
                way[name] = value
            else:
                own.setdefault(name, value)
        if {"endpoint", "namespace", "pod"} <= labels.keys():  # a ServiceMonitor's or PodMonitor's target labels
            for name in _MONITOR:
                if f"{EXPORTED}{name}" not in labels and name in own:
                    way[name] = own.pop(name)
        if "pod" in own and f"{EXPORTED}pod" not in labels and _is_target(own, labels):
            way.update({name: own.pop(name) for name in _PLACE if name in own and f"{EXPORTED}{name}" not in labels})
        return Resolved(
            {name: value for name, value in own.items() if value and name not in WAY},
            Target(
                job=job,
                instance=instance,
                namespace=way.get("namespace"),
                pod=way.get("pod"),
                container=way.get("container"),
                node=way.get("node"),
            ),
        )


def _without_way(labels: Mapping[str, str], hidden: Collection[str]) -> Resolved:
    """Labels of a text that does not say how it came. What is named ``exported_<name>`` was renamed all the same, by whoever scraped it before; the
    label that hid it is that scraper's target."""
    renamed = {
        name.removeprefix(EXPORTED): value for name, value in labels.items() if name.startswith(EXPORTED) and value
    }
    own = {name: value for name, value in labels.items() if value and name not in WAY and not name.startswith(EXPORTED)}
    way = {name: own.pop(name) for name in _PLACE if name in own and name in hidden}
    target = (
        Target(namespace=way.get("namespace"), pod=way.get("pod"), container=way.get("container")) if way else Target()
    )
    return Resolved({**own, **{name: value for name, value in renamed.items() if name not in WAY}}, target)


def _is_target(own: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether ``pod`` is the scraped pod itself: named after the service or job that was scraped, an exporter by name, or the host it reports."""
    pod = own["pod"]
    stems = [stem for stem in (labels.get("service"), labels.get("job"), *_EXPORTER_PODS) if stem]
    return (
        any(pod.startswith(f"{stem}-") for stem in stems)
        or own.get("container") in _EXPORTER_CONTAINERS
        or pod in (own.get("Hostname"), own.get("hostname"))
    )
