"""``survey_points``: what a round of metric points shows of its exporters: which fields, whose pods, which instances, and what is there twice.

Pure; called by the probes of scrape jobs and of Prometheus servers alike. The trick to know: the same label resolver and the same places are
used as by the reader, so the doctor calls hidden exactly what the reader cannot see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from steelyard.app.doctor.metric_families import families_of
from steelyard.app.doctor.survey import ExporterSeen, MetricsSeen
from steelyard.sources.dcgm import field_names, field_number
from steelyard.sources.dcgm.rows import Place, is_of_card, place_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import EXPORTED, LabelResolver, Resolved
from steelyard.sources.shared.metric_points import MetricPoint

WORK: Final = frozenset({203, 1001})
PER_INSTANCE: Final = frozenset({252, 1001})
SUMMED_UP: Final = (252, 203, 1001, 1002, 1005)
"""The fields whose series tell all there is to know of an exporter: what a Prometheus is asked for."""


@dataclass(slots=True)
class _Exporter:
    key: str
    fields: set[int] = field(default_factory=set)
    current_names: bool = False
    devices: set[str] = field(default_factory=set)
    working: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    shadowed: set[str] = field(default_factory=set)
    host_is_pod: bool = False
    instances: dict[tuple[str | None, str], dict[int, set[int]]] = field(default_factory=dict)

    def take(self, number: int, point: MetricPoint, place: Place, resolved: Resolved) -> None:
        self.fields.add(number)
        names = field_names(number)
        self.current_names = self.current_names or (len(names) > 1 and point.name.upper() == names[0])
        self.devices.add(place.uuid)
        if number in WORK and point.value > 0:
            self.working.add(place.uuid)
        if place.holder is not None:
            self.named.add(place.uuid)
        elif resolved.target.pod is not None and not any(label.startswith(EXPORTED) for label in point.labels):
            self.shadowed.add(place.uuid)
        host = resolved.labels.get("hostname") or resolved.labels.get("Hostname")
        if host and place.attributes.node is None:
            self.host_is_pod = True
        if place.gi is not None and number in PER_INSTANCE:
            card = self.instances.setdefault((place.attributes.node, place.uuid), {})
            card.setdefault(number, set()).add(place.gi)

    def seen(self, elsewhere: Collection[int]) -> ExporterSeen:
        return ExporterSeen(
            key=self.key,
            fields=frozenset(self.fields) | frozenset(elsewhere),
            current_names=self.current_names,
            devices=frozenset(self.devices),
            working=len(self.working),
            named=len(self.named & self.working),
            shadowed=len(self.shadowed & self.working - self.named),
            host_is_pod=self.host_is_pod,
            instances={
                card: {number: frozenset(gis) for number, gis in fields.items()}
                for card, fields in self.instances.items()
            },
        )


class MetricSurvey:
    """Takes points, target by target or all at once; ``seen`` then sums up. Holds one entry per exporter and card, no points."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._exporters: dict[str, _Exporter] = {}
        self._printed_by: dict[str, set[str]] = defaultdict(set)

    def take(self, points: Collection[MetricPoint]) -> None:
        """The points of whole targets: labels of one target are only understood together."""
        resolver = LabelResolver(points)
        ctx = ReadContext()
        places: dict[int, tuple[Resolved, Place | None]] = {}
        for point in points:
            self._names.add(point.name)
            number = field_number(point.name)
            if number is None:
                continue
            resolved = resolver.resolve(point.labels)
            known = places.get(id(resolved))
            if known is None:
                known = (resolved, place_of(resolved, ctx) if is_of_card(resolved.labels) else None)
                places[id(resolved)] = known
            if known[1] is not None:
                self._take(number, point, known[1], resolved)

    def take_names(self, names: Iterable[str]) -> None:
        """Names of metrics that are there, whose points were not asked for."""
        self._names.update(names)

    def _take(self, number: int, point: MetricPoint, place: Place, resolved: Resolved) -> None:
        exporter = self._exporters.get(place.exporter)
        if exporter is None:
            exporter = self._exporters[place.exporter] = _Exporter(place.exporter)
        exporter.take(number, point, place, resolved)
        self._printed_by[place.uuid].add(place.exporter)

    def seen(self, asked: Collection[int] | None = None) -> MetricsSeen:
        """``asked``: the fields whose points were asked for; of others it is only known that some exporter has them. None = all were."""
        elsewhere: set[int] = set()
        if asked is not None:
            elsewhere = {number for name in self._names if (number := field_number(name)) is not None} - set(asked)
        pairs: dict[tuple[str, str], int] = defaultdict(int)
        for exporters in self._printed_by.values():
            first, *others = sorted(exporters)
            for other in others:
                pairs[first, other] += 1
        return MetricsSeen(
            families=families_of(self._names),
            exporters=tuple(self._exporters[key].seen(elsewhere) for key in sorted(self._exporters)),
            doubled=tuple((one, two, count) for (one, two), count in sorted(pairs.items())),
        )


def survey_points(points: Collection[MetricPoint]) -> MetricsSeen:
    """What one round shows."""
    survey = MetricSurvey()
    survey.take(points)
    return survey.seen()
