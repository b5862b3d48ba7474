"""``read_dcgm(points, resolver, ctx, ...)``: the facts of one round of dcgm-exporter rows, of any number of targets and instants.

Yields Device (when something about it is new), DeviceSample per board and GPU instance, PartitionSample per pod that has a figure or a label
of its own, Event ``xid_last_seen``, MetricSample of counters of clocks held down, findings and one SourceStatus. What has no row is not 0:
a card without a series gets no sample.
Method: field numbers of dcgm_fields.h; one exporter per card and instant. Sceptic's command: ``curl exporter:9400/metrics``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.i18n import ngettext
from steelyard.primitives.instant import AT_OBSERVATION, MINUTE_US, Instant
from steelyard.primitives.unknown import Unknown
from steelyard.sources.dcgm.fields import (
    CLOCK_EVENTS,
    FB_USED,
    GAUGES,
    GPU_UTIL,
    HELD_DOWN_NS,
    OUT_OF_RANGE,
    PROF_SUSPECT,
    WHILE_BUSY,
    XID_COUNT,
    field_number,
)
from steelyard.sources.dcgm.held_down import held_down_samples
from steelyard.sources.dcgm.profiled import Profiled
from steelyard.sources.dcgm.reduction import (
    CardTruth,
    Truth,
    Value,
    prints_rows_per_pod,
    reduce_card,
    unit_is_uncertain,
)
from steelyard.sources.dcgm.rows import Attributes, Holder, Place, Row, is_of_card, place_of
from steelyard.sources.dcgm.series import series_statuses
from steelyard.sources.dcgm.xid import is_xid, xid_events
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver, Resolved
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.refusals import Refusals
from steelyard.sources.shared.round_memory import RoundMemory
from steelyard.sources.shared.sample_gap import sample_gap_max_us

SOURCE: Final = "dcgm"
_WHOLE: Final = frozenset(gauge.column for gauge in GAUGES.values() if gauge.whole)
CARDS_MAX: Final = 1_000_000
_INTERVAL_US: Final = 2 * MINUTE_US
_ATTRIBUTION_SETTINGS: Final = (
    "DCGM_EXPORTER_KUBERNETES=true",
    "hostPath volume /var/lib/kubelet/pod-resources",
    "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE=device-name (GKE), else uid",
    "NVIDIA_RESOURCE_NAMES=<every resource name beside nvidia.com/gpu>",
)
_NOT_STORED: Final = frozenset({"memory_free_mib"})


def read_dcgm(
    points: Iterable[MetricPoint],
    resolver: LabelResolver,
    ctx: ReadContext,
    tally: MetricTally | None = None,
    memory: RoundMemory | None = None,
    *,
    whole: bool = True,
) -> Iterator[Fact]:
    """The facts of a round. ``memory`` (over rounds) keeps unchanged cards, labels and Xids from being said each time; None = say all.
    ``whole``: the points are whole scrapes, so that a field without a row is one that its exporter does not print."""
    yield from _Round(resolver, ctx, tally or MetricTally(), memory or RoundMemory(), whole).read(points)


class _Round:
    def __init__(
        self, resolver: LabelResolver, ctx: ReadContext, tally: MetricTally, memory: RoundMemory, whole: bool
    ) -> None:
        self._whole = whole
        self.ctx = ctx
        self.refusals = Refusals(ctx, SOURCE)
        self._resolver = resolver
        self._tally = tally
        self._memory = memory
        self._places: dict[int, tuple[Resolved, Place | None]] = {}
        self._doubled: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._unlabelled: dict[str, tuple[int, int]] = {}
        self._under_mig: dict[str, set[str]] = defaultdict(set)
        self._shown: dict[str, Device] = {}

    def read(self, points: Iterable[MetricPoint]) -> Iterator[Fact]:
        every: list[Row] = []
        for point in points:
            row = yield from self._row(point)
            if row is not None:
                every.append(row)
        rows = list(self._of_one_exporter(every))
        cards: dict[tuple[Instant, str], list[Row]] = defaultdict(list)
        exporters: dict[tuple[Instant, str], list[Row]] = defaultdict(list)
        for row in rows:
            cards[row.at, row.place.uuid].append(row)
            if row.number == FB_USED or row.number == GPU_UTIL:
                exporters[row.at, row.place.exporter].append(row)
        per_pod = {key for key, group in exporters.items() if prints_rows_per_pod(group)}
        uncertain = {key for key, group in exporters.items() if unit_is_uncertain(group)}
        profiled = Profiled(rows, self._memory) if self._whole else None
        kept: list[Row] = []
        for (at, uuid), group in sorted(cards.items(), key=lambda item: item[0]):
            kept.extend(group)
            exporter = (at, group[0].place.exporter)
            truth = reduce_card(
                group,
                per_pod=exporter in per_pod,
                uncertain_unit=exporter in uncertain,
                profiled=profiled.of(group) if profiled is not None else (),
                busy_percent=self.ctx.settings.prof_suspect_util_percent,
            )
            yield from self._card_facts(uuid, at, group, truth)
        yield from xid_events(kept, self.ctx, self._memory)
        yield from held_down_samples(kept, self.ctx, self._memory)
        yield from self._round_findings()
        if cards:
            yield self._status(cards)
        if self._whole:
            yield from self._last_sightings()
            yield from series_statuses(kept, self.ctx, self._memory)
        yield from self.refusals.rest()

    def _row(self, point: MetricPoint) -> Generator[Fact, None, Row | None]:
        """The row of a sample, tallied; None where it is none of a card's."""
        number = field_number(point.name)
        resolved = self._resolver.resolve(point.labels)
        used = point.name in (XID_COUNT, CLOCK_EVENTS) or (
            number is not None and (number in GAUGES or number in HELD_DOWN_NS or is_xid(number))
        )
        known = self._places.get(id(resolved))
        if known is None:  # the resolver keeps each Resolved for the whole round, so its identity is its name
            known = (resolved, place_of(resolved, self.ctx) if is_of_card(resolved.labels) else None)
            self._places[id(resolved)] = known
        place = known[1]
        if place is None:
            if used and is_of_card(resolved.labels):
                self._tally.refuse(point.name)
                yield from self.refusals.find(
                    "row_without_device",
                    f"metric {point.name}",
                    "expected the UUID of a card among the labels, found none: the value belongs to no card",
                    evidence={"labels": dict(list(resolved.labels.items())[:20]), "value": repr(point.value)},
                )
            else:
                self._tally.ignore(point.name)
            return None
        (self._tally.use if used else self._tally.ignore)(point.name)
        number = -1 if number is None else number
        return Row(number, point.name, point.value, point.at, place, resolved.labels, point.declared)

    def _of_one_exporter(self, rows: Sequence[Row]) -> Iterator[Row]:
        """The rows without those that a second exporter of the same card prints beside the first one's, at the same instants or between them."""
        printed: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            printed[row.place.uuid][row.place.exporter].append(row)
        for uuid, by_exporter in printed.items():
            if len(by_exporter) == 1:
                yield from next(iter(by_exporter.values()))
                continue
            better: list[tuple[str, list[Instant]]] = []
            for exporter in sorted(by_exporter, key=lambda each: _rank(by_exporter[each], each)):
                for row in by_exporter[exporter]:
                    beside = next((key for key, instants in better if self._is_beside(row.at, instants)), None)
                    if beside is None:
                        yield row
                    else:
                        self._doubled[beside, exporter].add(uuid)
                better.append((exporter, sorted({row.at for row in by_exporter[exporter]})))

    def _is_beside(self, at: Instant, instants: Sequence[Instant]) -> bool:
        """Whether another exporter's samples surround the instant closely. One that began where the other ended has moved: it is no second one."""
        place = bisect_left(instants, at)
        if place < len(instants) and instants[place] == at:
            return True
        if place in (0, len(instants)):
            return False
        return instants[place] - instants[place - 1] <= 2 * (self.ctx.expected_interval_us or _INTERVAL_US)

    def _card_facts(self, uuid: str, at: Instant, rows: Sequence[Row], truth: CardTruth) -> Iterator[Fact]:
        attributes = _merged(rows)
        device = self._device(uuid, at, attributes, truth)
        if self._memory.is_news(f"device/{uuid}", (attributes, bool(truth.instances)), self._when(at)):
            yield device
        if uuid in self._shown or len(self._shown) < CARDS_MAX:
            self._shown[uuid] = device
        yield from self._sample(uuid, None, at, truth.board)
        for gi, unit in truth.instances.items():
            yield from self._sample(uuid, gi, at, unit)
        for (owner_gi, holder), figures in truth.pods.items():
            yield from self._pod_sample(uuid, owner_gi, holder, at, figures, attributes.node)
        for instance, label in sorted(truth.labels, key=repr):
            if self._memory.is_news(f"label/{uuid}/{instance}/{label!r}", True, self._when(at)):
                yield self._partition(uuid, instance, label, at, "dcgm_label", attributes.node)
        for code, message, evidence in truth.problems:
            if self._memory.is_news(f"{code}/{uuid}/{evidence.get('column', '')}", True, self._when(at)):
                yield from self.refusals.find(code, f"device {uuid}", message, evidence=evidence)
        self._note_attribution(rows, truth)
        if truth.instances:
            self._under_mig[rows[0].place.exporter].add(uuid)

    def _last_sightings(self) -> Iterator[Device]:
        """The last sighting of each card that the round before showed and this one does not: what does not change is said once an hour,
        so without it the history of a card that was taken out would end up to an hour early."""
        before = self._memory.kept.get(SOURCE)
        if isinstance(before, dict):
            for uuid, device in before.items():
                if uuid not in self._shown:
                    yield device
        self._memory.kept[SOURCE] = {
            uuid: msgspec.structs.replace(device, occurred_at=self._when(device.occurred_at))
            for uuid, device in self._shown.items()
        }

    def _when(self, at: Instant) -> Instant:
        return self.ctx.observed_at if at == AT_OBSERVATION else at

    def _device(self, uuid: str, at: Instant, attributes: Attributes, truth: CardTruth) -> Device:
        total = truth.board.values.get("memory_total_mib")
        return Device(
            cluster=self.ctx.cluster,
            source=SOURCE,
            natural_key=uuid,
            occurred_at=at,
            observed_at=self.ctx.observed_at,
            device_uuid=uuid,
            node=attributes.node,
            model=attributes.model,
            serial=attributes.serial,
            pci_address=attributes.pci_address,
            device_index=attributes.index,
            memory_mib=int(total) if isinstance(total, float) and total > 0 else None,
            mode="mig" if truth.instances else None,
            driver_version=attributes.driver_version,
            mig_enabled=True if truth.instances else None,
        )

    def _sample(self, uuid: str, gi: int | None, at: Instant, unit: Truth) -> Iterator[Fact]:
        known: dict[str, float | int] = {}
        unknown: dict[str, str] = {}
        for column, value in sorted(unit.values.items()):
            settled = yield from self._settled(uuid, gi, column, value)
            if column in _NOT_STORED:
                continue
            if isinstance(settled, Unknown):
                unknown[column] = settled.reason
            else:
                known[column] = int(settled) if column in _WHOLE else settled
        if not known and not unknown:
            return
        row = {
            "cluster": self.ctx.cluster,
            "source": SOURCE,
            "natural_key": uuid if gi is None else f"{uuid}/gi{gi}",
            "occurred_at": at,
            "observed_at": self.ctx.observed_at,
            "device_uuid": uuid,
            "gi": gi,
            "unknown": _json(unknown),
            **known,
        }
        yield msgspec.convert(row, DeviceSample)

    def _settled(self, uuid: str, gi: int | None, column: str, value: Value) -> Generator[Fact, None, Value]:
        """The value to store: a ratio in (1, 1.05] counts as 1, what is impossible is not known; both with a finding."""
        subject = f"device {uuid}" if gi is None else f"device {uuid}/gi{gi}"
        if isinstance(value, Unknown):
            is_told = "MIG" in value.reason or WHILE_BUSY in value.reason
            if value.reason.startswith((OUT_OF_RANGE, f"{PROF_SUSPECT}: ")) and not is_told:
                yield from self.refusals.find(
                    "sample_above_physical_limit",
                    subject,
                    f"{column} is {value.reason}; it is taken as not known",
                    evidence={"column": column, "reason": value.reason},
                )
            return value
        if column.endswith("_ratio") and value > 1:
            yield from self.refusals.find(
                "ratio_above_one",
                subject,
                f"{column} is {value:g}; up to 1.05 it counts as 1",
                evidence={"column": column, "value": value},
            )
            return 1.0
        return value

    def _pod_sample(
        self,
        uuid: str,
        gi: int | None,
        holder: Holder,
        at: Instant,
        figures: Mapping[int, Value],
        node: str | None,
    ) -> Iterator[Fact]:
        unknown: dict[str, str] = {}
        util: float | None = None
        counted: int | None = None
        if GPU_UTIL in figures:
            value = yield from self._settled(uuid, gi, "util_gpu_ratio", figures[GPU_UTIL])
            util = None if isinstance(value, Unknown) else value
            if isinstance(value, Unknown):
                unknown["sm_ratio"] = value.reason
        elif gi is not None:
            unknown["sm_ratio"] = "the share of a pod is not measurable under MIG"
        if FB_USED in figures:
            value = figures[FB_USED]
            counted = None if isinstance(value, Unknown) else int(value)
            if isinstance(value, Unknown):
                unknown["memory_counted_mib"] = value.reason
        sample = self._partition(uuid, gi, holder, at, "dcgm_per_process", node)
        yield msgspec.structs.replace(sample, sm_ratio=util, memory_counted_mib=counted, unknown=_json(unknown))

    def _partition(
        self, uuid: str, gi: int | None, holder: Holder, at: Instant, origin: str, node: str | None
    ) -> PartitionSample:
        pod = holder.pod or f"uid:{holder.pod_uid}"
        unit = uuid if gi is None else f"{uuid}/gi{gi}"
        return PartitionSample(
            cluster=self.ctx.cluster,
            source=SOURCE,
            natural_key=f"{holder.namespace or ''}/{pod}/{holder.container or ''}/{unit}",
            occurred_at=at,
            observed_at=self.ctx.observed_at,
            origin=origin,
            node=node,
            device_uuid=uuid,
            gi=gi,
            namespace=holder.namespace,
            pod=holder.pod,
            pod_uid=holder.pod_uid,
            container=holder.container,
        )

    def _note_attribution(self, rows: Sequence[Row], truth: CardTruth) -> None:
        """Counts, per exporter, cards with memory in use or at work, and those of them whose rows name no pod."""
        values = truth.board.values
        in_use = any(
            isinstance(v, float) and v > 0 for v in (values.get("util_gpu_ratio"), values.get("gr_active_ratio"))
        )
        in_use = in_use or any(
            isinstance(v, float) and v > 0
            for unit in truth.instances.values()
            for v in [unit.values.get("gr_active_ratio")]
        )
        if in_use:
            key = rows[0].place.exporter
            used, labelled = self._unlabelled.get(key, (0, 0))
            self._unlabelled[key] = (used + 1, labelled + bool(truth.labels or truth.pods))

    def _round_findings(self) -> Iterator[Fact]:
        when = self.ctx.observed_at
        for (kept, dropped), uuids in sorted(self._doubled.items()):
            if self._memory.is_news(f"doubled/{kept}/{dropped}", len(uuids), when):
                yield from self.refusals.find(
                    "exporters_doubled",
                    f"exporter {dropped}",
                    ngettext(
                        "{count} card is exported by {kept} too", "{count} cards are exported by {kept} too", len(uuids)
                    ).format(count=len(uuids), kept=kept)
                    + ": one of the two is read, none is added up",
                    evidence={"kept": kept, "dropped": dropped, "devices": sorted(uuids)[:20], "count": len(uuids)},
                )
        for exporter, (used, labelled) in sorted(self._unlabelled.items()):
            if labelled < used and self._memory.is_news(f"attribution/{exporter}", (used, labelled), when):
                yield from self.refusals.find(
                    "pod_labels_missing",
                    f"exporter {exporter}",
                    f"{labelled} of {used} sightings of cards at work name a pod (attribution {100 * labelled // used} %): the others are used by "
                    "nobody that the exporter knows, which is not idleness; see that it reaches the kubelet's PodResources socket, "
                    "asks for the ids that the kubelet gives and knows the resource's name",
                    severity="info" if labelled else "warning",
                    evidence={
                        "expected": used,
                        "found": labelled,
                        "attribution_percent": 100 * labelled // used,
                        "exporter_settings": list(_ATTRIBUTION_SETTINGS),
                    },
                )
        for exporter, under_mig in sorted(self._under_mig.items()):
            if self._memory.is_news(f"under_mig/{exporter}", frozenset(under_mig), when):
                yield from self.refusals.find(
                    "gpu_util_not_under_mig",
                    f"exporter {exporter}",
                    ngettext("{count} card is in MIG mode", "{count} cards are in MIG mode", len(under_mig)).format(
                        count=len(under_mig)
                    )
                    + ": 203 (GPU_UTIL) and 204 (MEM_COPY_UTIL) are not measurable under MIG and are not 0 %; "
                    "1001 (GR_ENGINE_ACTIVE) of each instance is used; power, temperature and clocks are the board's, once",
                    severity="info",
                    evidence={"devices": sorted(under_mig)[:20], "count": len(under_mig), "not_measurable": [203, 204]},
                )

    def _status(self, sampled: Collection[tuple[Instant, str]]) -> SourceStatus:
        instants: dict[str, list[Instant]] = defaultdict(list)
        for sampled_at, uuid in sampled:
            instants[uuid].append(sampled_at)
        at = max(sampled_at for sampled_at, _ in sampled)
        scope = f"node/{self.ctx.node}" if self.ctx.node is not None else "cluster"
        return SourceStatus(
            cluster=self.ctx.cluster,
            source=SOURCE,
            natural_key=f"{SOURCE}/{scope}",
            occurred_at=at,
            observed_at=self.ctx.observed_at,
            kind=SOURCE,
            scope=scope,
            status="partial" if self.refusals.of("row_without_device") else "ok",
            objects_count=len(instants),
            as_of_basis="inferred" if self._when(at) == AT_OBSERVATION else "stamped",
            gap_max_us=sample_gap_max_us(instants.values(), self.ctx.expected_interval_us),
        )


def _rank(rows: Sequence[Row], exporter: str) -> tuple[float, int, str]:
    """Which of several exporters of a card is read: the one that names pods, else the one with more fields, else the first by name."""
    named = sum(row.place.holder is not None for row in rows) / len(rows)
    return -named, -len({row.number for row in rows}), exporter


def _merged(rows: Sequence[Row]) -> Attributes:
    """The first word of each attribute over all rows of the card."""
    places = {id(row.place): row.place for row in rows}
    seen = list(dict.fromkeys(place.attributes for place in places.values()))
    if len(seen) == 1:
        return seen[0]
    return Attributes(
        *(
            next((value for each in seen if (value := getattr(each, name)) is not None), None)
            for name in Attributes.__dataclass_fields__
        )
    )


def _json(unknown: Mapping[str, str]) -> str:
    return msgspec.json.encode(dict(unknown), order="sorted").decode() if unknown else "{}"
