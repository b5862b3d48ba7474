"""``read_hami_metrics(points, resolver, ctx, ...)``: what HAMi's scheduler and monitor export, of all releases, as facts.

PartitionSample: per pod and card what the scheduler has allocated (origin ``scheduler``; without a pod: the card's own total), per container and
card what is enforced and counted (``monitor``). DeviceSample: the host's view of a card (203 and NVML memory). MetricSample: quotas, slots in
use, the build. Unit: MIG instances with their ids. The tricks to know: figures are the exporter's and only reconcile, the pods'
annotations are the truth; what is absent is not 0; ``container_index`` names no container (since 2.10 it is always 0), so it only keeps
two series of one name apart. Sceptic's command: ``curl scheduler:31993/metrics``, ``curl node:31992/metrics``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.unit import Unit
from steelyard.primitives.i18n import ngettext
from steelyard.primitives.instant import AT_OBSERVATION, Instant
from steelyard.primitives.unknown import Unknown
from steelyard.sources.hami.metric_names import (
    BUILD,
    COMPONENT,
    DERIVED,
    HOST,
    MIG,
    MONITOR,
    NAMES,
    QUOTA,
    SCHEDULER,
)
from steelyard.sources.hami.metric_rows import Group, Key, Row, one_replica, row_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.refusals import Refusals
from steelyard.sources.shared.round_memory import RoundMemory
from steelyard.sources.shared.sample_gap import sample_gap_max_us

SOURCE: Final = "hami"
MIB: Final = 2**20
BYTES_MAX: Final = float(2**46)  # 64 TiB: above any board; an unsigned underflow is near 2^64
RATIO_SLACK: Final = 1.05
FRESH_KERNEL_SECONDS: Final = 5.0
NO_LIMIT: Final = "no limit is set"
DEVICE_TYPE: Final = "hami_device_type"
"""A row of our own: which model the monitor's labels name for a card."""
_LEVEL_TYPED_COUNTER: Final = "Device_memory_desc_of_container"
_COMPONENT_NAMES: Final = [name for name, meaning in NAMES.items() if meaning.subject == COMPONENT]


def read_hami_metrics(
    points: Iterable[MetricPoint],
    resolver: LabelResolver,
    ctx: ReadContext,
    tally: MetricTally | None = None,
    memory: RoundMemory | None = None,
) -> Iterator[Fact]:
    """The facts of a round. ``memory`` (over rounds) keeps unchanged MIG instances and notes from being said each time."""
    yield from _Round(resolver, ctx, tally or MetricTally(), memory or RoundMemory()).read(points)


class _Round:
    def __init__(self, resolver: LabelResolver, ctx: ReadContext, tally: MetricTally, memory: RoundMemory) -> None:
        self._ctx = ctx
        self._resolver = resolver
        self._tally = tally
        self._memory = memory
        self._refusals = Refusals(ctx, SOURCE)
        self._groups: dict[Key, Group] = defaultdict(Group)
        self._twice: dict[tuple[str, str], int] = defaultdict(int)
        self._percents: Mapping[tuple[Instant, str], Percents] = {}

    def read(self, points: Iterable[MetricPoint]) -> Iterator[Fact]:
        rows: list[Row] = []
        for point in points:
            row = yield from self._row(point)
            if row is not None:
                rows.append(row)
        kept, dropped = one_replica(rows)
        for row in dropped:
            self._tally.repeat(row.name)
        for row in kept:
            self._group(row)
        self._percents = _percents(self._groups)
        for key, group in sorted(self._groups.items(), key=lambda item: item[0]):
            yield from self._facts(key, group)
        yield from self._types(kept)
        yield from self._gap(kept)
        yield from self._singles([row for row in kept if row.meaning.subject in (QUOTA, MIG, BUILD, "count")])
        yield from self._notes(kept)
        yield from self._refusals.rest()

    def _row(self, point: MetricPoint) -> Generator[Fact, None, Row | None]:
        meaning = NAMES.get(point.name)
        if meaning is None or meaning.subject == DERIVED:
            self._tally.ignore(point.name)
            return None
        resolved = self._resolver.resolve(point.labels)
        row = row_of(point, meaning, resolved)
        if row.uuid is None and meaning.subject not in (QUOTA, BUILD):
            self._tally.refuse(point.name)
            yield from self._refusals.find(
                "row_without_device",
                f"metric {point.name}",
                "expected the UUID of a card among the labels, found none: the value belongs to no card",
                evidence={"labels": dict(list(row.raw.items())[:20])},
            )
            return None
        return row

    def _group(self, row: Row) -> None:
        subject = row.meaning.subject
        if subject in (QUOTA, MIG, BUILD, "count"):
            return
        labels = row.labels
        of_pod = subject not in ("card", HOST)
        key = (
            row.at,
            "container" if subject == COMPONENT else subject,
            row.uuid or "",
            labels.get("namespace", "") if of_pod else "",
            labels.get("pod", "") if of_pod else "",
            labels.get("container", "") if subject in ("container", COMPONENT) else "",
        )
        same = self._groups[key].rows[row.meaning.column][row.name]
        if same.setdefault(labels.get("ordinal", ""), row) is not row:
            self._tally.repeat(row.name)  # the same series once more, with labels that tell nothing

    def _facts(self, key: Key, group: Group) -> Iterator[Fact]:
        at, subject, uuid, namespace, pod, container = key
        for column, names in group.rows.items():
            yield from self._count_names(column, names)
        if subject == HOST:
            yield from self._host(uuid, at, group)
            return
        known: dict[str, float | int] = {}
        unknown: dict[str, str] = {}
        for column in group.rows:
            value = yield from self._value(column, group.best(column), f"{namespace}/{pod}", uuid, group)
            if isinstance(value, Unknown):
                unknown[column] = value.reason
            elif value is not None:
                known[column] = value
        if known.get("sm_ratio") == 0 and known.get("last_kernel_seconds", math.inf) <= FRESH_KERNEL_SECONDS:
            unknown["sm_ratio"] = "0 although a kernel just ran: the layer measures only where it limits cores"
            del known["sm_ratio"]
        yield from self._check_components(group, namespace, pod, uuid)
        row = group.any()
        sample = {
            "cluster": self._ctx.cluster,
            "source": SOURCE,
            "natural_key": f"{namespace}/{pod}/{container}/{uuid}",
            "occurred_at": at,
            "observed_at": self._ctx.observed_at,
            "origin": row.meaning.origin,
            "node": row.node or self._ctx.node,
            "device_uuid": uuid,
            "namespace": namespace or None,
            "pod": pod or None,
            "container": container or None,
            "unknown": _json(unknown),
            **known,
        }
        if known or unknown:
            yield msgspec.convert(sample, PartitionSample)

    def _value(
        self, column: str, rows: Sequence[Row], who: str, uuid: str, group: Group
    ) -> Generator[Fact, None, float | int | Unknown | None]:
        """The figure of a column from the rows of its best name (several ordinals add up); None for columns that are only checked."""
        if not rows or rows[0].meaning.subject == COMPONENT:
            return None
        values = [row.value for row in rows]
        if any(value != value for value in values):
            return Unknown("NaN")
        total = min(values) if rows[0].meaning.unit == "seconds" else sum(values)
        unit = rows[0].meaning.unit
        if total < 0 or (unit == "bytes" and total > BYTES_MAX) or (unit == "percent" and total > 1e6):
            names = sorted(
                name
                for name, by_ordinal in group.rows[column].items()
                if any(not 0 <= each.value <= BYTES_MAX for each in by_ordinal.values())
            )
            yield from self._refusals.find(
                "value_above_physical",
                f"{'pod ' + who if who != '/' else 'device ' + uuid}",
                f"{column}: {total:g} {unit} is no figure of a card (an unsigned underflow?): discarded, not 0",
                evidence={
                    "device_uuid": uuid,
                    "raw": total,
                    "unit": unit,
                    "metrics": names or [rows[0].name],
                    "rejected_samples_count": max(1, len(names)),
                },
            )
            return Unknown(f"outside its physical range: {total:g} {unit}")
        if unit == "bytes":
            if column == "memory_limit_mib" and total == 0 and rows[0].meaning.subject == "container":
                return Unknown(NO_LIMIT)
            return int(total) // MIB
        if column == "sm_ratio":
            return (yield from self._share(total, who, uuid, rows[0].at))
        if unit == "percent":
            return int(total) if column == "cores_allocated_percent" else total / 100
        return total

    def _share(self, percent: float, who: str, uuid: str, at: Instant) -> Generator[Fact, None, float | Unknown]:
        """Percent of a card as 0 to 1; above 105 it is not known (a sum over processes that were not sampled together)."""
        if percent <= 100:
            return round(percent / 100, 6)
        card = self._percents.get((at, uuid), Percents())
        yield from self._refusals.find(
            "utilisation_over_100",
            f"pod {who}" if who else f"device {uuid}",
            f"{percent:g} percent of one card: samples of several processes were added up",
            evidence={
                "device_uuid": uuid,
                "raw_percent": percent,
                "clamped_percent": 100,
                "device_utilisation_percent": card.device,
                "sum_over_containers_after_clamp_percent": card.containers,
            },
        )
        return 1.0 if percent <= 100 * RATIO_SLACK else Unknown(f"prof_suspect: {percent:g} percent of one card")

    def _host(self, uuid: str, at: Instant, group: Group) -> Iterator[Fact]:
        known: dict[str, float | int] = {}
        unknown: dict[str, str] = {}
        for column in group.rows:
            rows = group.best(column)
            if rows[0].meaning.unit == "percent" and rows[0].value == rows[0].value and rows[0].value >= 0:
                value: float | Unknown | None = yield from self._share(rows[0].value, "", uuid, at)
            else:
                value = yield from self._value(column, rows[:1], "/", uuid, group)
            if isinstance(value, Unknown):
                unknown[column] = value.reason
            elif value is not None:
                known[column] = value
        sample = {
            "cluster": self._ctx.cluster,
            "source": SOURCE,
            "natural_key": uuid,
            "occurred_at": at,
            "observed_at": self._ctx.observed_at,
            "device_uuid": uuid,
            "unknown": _json(unknown),
            **known,
        }
        yield msgspec.convert(sample, DeviceSample)

    def _count_names(self, column: str, names: Mapping[str, Mapping[str, Row]]) -> Iterator[Fact]:
        """Tallies the rows of a column: the best name is used, the others say the same once more, or a finding says that they do not."""
        ranked = sorted(names, key=lambda each: (NAMES[each].rank, each))
        for name in ranked:
            for _ in names[name]:
                (self._tally.use if name == ranked[0] else self._tally.ignore)(name)
        first = {ordinal: row.value for ordinal, row in names[ranked[0]].items()}
        for name in ranked[1:]:
            other = {ordinal: row.value for ordinal, row in names[name].items()}
            if repr(sorted(other.items())) == repr(sorted(first.items())):
                self._twice[ranked[0], name] += 1
            else:
                row = next(iter(names[name].values()))
                yield from self._refusals.find(
                    "duplicate_names_disagree",
                    f"device {row.uuid}",
                    f"{column}: {ranked[0]} and {name} should be one figure and are not; the first one counts",
                    evidence={"names": [ranked[0], name], "values": [repr(first), repr(other)]},
                )

    def _check_components(self, group: Group, namespace: str, pod: str, uuid: str) -> Iterator[Fact]:
        parts = [row.value for column in ("context", "module", "buffer") for row in group.best(column)]
        used = sum(row.value for row in group.best("memory_counted_mib"))
        if (
            len(parts) >= 3
            and sum(parts) != used
            and self._memory.is_news(f"components/{namespace}/{pod}/{uuid}", True, self._now)
        ):
            yield from self._refusals.find(
                "components_do_not_add_up",
                f"pod {namespace}/{pod}",
                f"context, module and buffer add up to {sum(parts):.0f} bytes, {used:.0f} are counted",
                severity="info",
                evidence={
                    "device_uuid": uuid,
                    "components_sum_bytes": sum(parts),
                    "used_bytes": used,
                    "metrics": _COMPONENT_NAMES,
                },
            )

    def _gap(self, rows: Sequence[Row]) -> Iterator[Fact]:
        """How far apart rounds may lie, so that a sample stands for the time until the next; nothing where nobody declares it."""
        instants: dict[str | None, list[Instant]] = defaultdict(list)
        for row in rows:
            instants[row.uuid].append(row.at)
        gap_max_us = sample_gap_max_us(instants.values(), self._ctx.expected_interval_us)
        if not rows or gap_max_us is None or not self._memory.is_news("gap", gap_max_us, self._now):
            return
        scope = f"node/{self._ctx.node}" if self._ctx.node is not None else "cluster"
        yield SourceStatus(
            cluster=self._ctx.cluster,
            source=SOURCE,
            natural_key=f"{SOURCE}/{scope}",
            occurred_at=max(row.at for row in rows),
            observed_at=self._ctx.observed_at,
            kind=SOURCE,
            scope=scope,
            status="ok",
            objects_count=len({row.uuid for row in rows if row.uuid is not None}),
            gap_max_us=gap_max_us,
        )

    def _types(self, rows: Sequence[Row]) -> Iterator[Fact]:
        """What the monitor calls the model of each card, to be held against the node's register; said again each hour only."""
        for row in {row.uuid: row for row in rows if row.meaning.subject == HOST and row.labels.get("type")}.values():
            word = row.labels["type"][:200]
            if self._memory.is_news(f"type/{row.uuid}", word, self._now if row.at == AT_OBSERVATION else row.at):
                labels = _json({"device_uuid": str(row.uuid), "device_type": word})
                yield MetricSample(
                    cluster=self._ctx.cluster,
                    source=SOURCE,
                    natural_key=f"{DEVICE_TYPE}{labels}",
                    occurred_at=row.at,
                    observed_at=self._ctx.observed_at,
                    family=MONITOR,
                    metric=DEVICE_TYPE,
                    labels=labels,
                    value=1.0,
                    node=row.node or self._ctx.node,
                )

    def _singles(self, rows: Sequence[Row]) -> Iterator[Fact]:
        best: dict[tuple[Instant, str, str], Row] = {}
        for row in rows:
            if row.meaning.subject == MIG:
                yield from self._mig(row)
                continue
            key = (row.at, row.meaning.column, _json(self._labels_of(row)))
            known = best.get(key)
            if known is None or row.meaning.rank < known.meaning.rank:
                best[key] = row
                if known is not None:
                    self._tally.repeat(known.name)
            else:
                self._tally.repeat(row.name)
        limits = {
            (row.at, row.labels.get("namespace"), row.labels.get("quota_name"))
            for row in rows
            if row.meaning.column == "hami_resource_quota_limit"
        }
        for row in best.values():
            self._tally.use(row.name)
            yield self._metric(row, row.meaning.column, row.value)
            limit = row.raw.get("limit")
            place = (row.at, row.labels.get("namespace"), row.labels.get("quota_name"))
            if row.meaning.column == "hami_resource_quota_used" and limit is not None:
                yield from self._limit(row, limit, place in limits)

    def _limit(self, row: Row, limit: str, has_own: bool) -> Iterator[Fact]:
        """The quota's limit as the label of its use says it; 0 is no limit (``+Inf``). An own series of the limit goes before."""
        if not (limit.isascii() and limit.isdecimal() and len(limit) <= 18):
            yield from self._refusals.find(
                "quota_limit_unreadable",
                f"namespace {row.labels.get('namespace')}",
                f"expected a number, found {limit[:60]!r}",
            )
            return
        namespace, quota = row.labels.get("namespace"), row.labels.get("quota_name")
        if int(limit) == 0 and self._memory.is_news(f"quota/{namespace}/{quota}", 0, self._now):
            yield from self._refusals.find(
                "quota_limit_zero_is_unlimited",
                f"namespace {namespace}",
                f"{quota}: the limit 0 means that there is none",
                severity="info",
                evidence={"namespace": namespace, "quota_name": quota, "used": row.value},
            )
        if not has_own:
            yield self._metric(row, "hami_resource_quota_limit", float(limit) if int(limit) else math.inf)

    def _mig(self, row: Row) -> Iterator[Fact]:
        """A realised MIG instance with its ids; rows of releases without ids are passed over."""
        labels = row.labels
        gi, ci = _small(labels.get("gi")), _small(labels.get("ci"))
        mig_uuid = labels.get("mig_uuid", "")
        if row.value != 1 or gi is None or not mig_uuid.startswith("MIG-") or len(mig_uuid) > 160:
            self._tally.ignore(row.name)
            return
        self._tally.use(row.name)
        unit_id = f"MIG-{mig_uuid[4:].lower()}"
        known = (row.uuid, gi, ci, labels.get("profile"), row.node)
        if self._memory.is_news(f"mig/{unit_id}", known, self._now if row.at == AT_OBSERVATION else row.at):
            yield Unit(
                cluster=self._ctx.cluster,
                source=SOURCE,
                natural_key=unit_id,
                occurred_at=row.at,
                observed_at=self._ctx.observed_at,
                unit_kind="mig",
                unit_id=unit_id,
                device_uuid=row.uuid,
                node=row.node or self._ctx.node,
                gi=gi,
                ci=ci,
                profile=labels.get("profile"),
                placement_start=_small(row.raw.get("placement_start")),
                placement_size=_small(row.raw.get("placement_size")),
            )

    def _labels_of(self, row: Row) -> dict[str, str]:
        if row.meaning.subject == BUILD:
            return {name: row.raw[name] for name in ("version", "revision") if name in row.raw}
        named = {name: row.labels[name] for name in ("namespace", "quota_name", "node") if name in row.labels}
        return {**named, **({"device_uuid": row.uuid} if row.uuid is not None else {})}

    def _metric(self, row: Row, metric: str, value: float) -> MetricSample:
        labels = _json(self._labels_of(row))
        return MetricSample(
            cluster=self._ctx.cluster,
            source=SOURCE,
            natural_key=f"{metric}{labels}",
            occurred_at=row.at,
            observed_at=self._ctx.observed_at,
            family="queue" if row.meaning.subject == QUOTA else SCHEDULER,
            metric=metric,
            labels=labels,
            value=None if value != value or value < 0 else value,
            namespace=row.labels.get("namespace"),
            node=row.node or self._ctx.node,
        )

    @property
    def _now(self) -> Instant:
        return self._ctx.observed_at

    def _notes(self, rows: Sequence[Row]) -> Iterator[Fact]:
        """What is to be known of this exporter's figures as a whole, once an hour."""
        names = {row.name for row in rows}
        if self._twice and self._memory.is_news("twice", frozenset(self._twice), self._now):
            for (first, other), count in sorted(self._twice.items()):
                yield from self._note(
                    "duplicate_metric_names",
                    other,
                    ngettext(
                        "{count} figure stands under {first} too: counted once",
                        "{count} figures stand under {first} too: counted once",
                        count,
                    ).format(count=count, first=first),
                    {"names": [other, first]},
                )
        if _LEVEL_TYPED_COUNTER in names and self._memory.is_news(_LEVEL_TYPED_COUNTER, True, self._now):
            yield from self._note(
                "counter_typed_level",
                _LEVEL_TYPED_COUNTER,
                "typed as a counter and a level: it is never differentiated; its labels carry byte counts and are not kept",
                {"metric": _LEVEL_TYPED_COUNTER},
            )
        nodeless = sorted({row.name for row in rows if row.meaning.subject == HOST and not row.node})
        if nodeless and self._ctx.node is None and self._memory.is_news("nodeless", tuple(nodeless), self._now):
            for name in nodeless:
                yield from self._note(
                    "series_without_node_label",
                    name,
                    "names no node: joined by the card's UUID through the node's register",
                    {"metric": name},
                )
        indexed = [row for row in rows if "container_index" in row.raw]
        if (
            len(indexed) > 1
            and all(row.raw["container_index"] == "0" for row in indexed)
            and self._memory.is_news("indices", True, self._now)
        ):
            yield from self._note(
                "container_index_always_zero",
                "container_index",
                "every series has container_index 0: it names no container and is never joined to one",
                {"series": len(indexed)},
            )

    def _note(self, code: str, metric: str, message: str, evidence: Mapping[str, object]) -> Iterator[Fact]:
        yield from self._refusals.find(code, f"metric {metric}", message, severity="info", evidence=evidence)


@dataclass(frozen=True, slots=True)
class Percents:
    """Of one card in one round: its own utilisation, and the sum of its containers', each at most 100. None = not told."""

    device: float | None = None
    containers: float | None = None


def _percents(groups: Mapping[Key, Group]) -> Mapping[tuple[Instant, str], Percents]:
    device: dict[tuple[Instant, str], float] = {}
    containers: dict[tuple[Instant, str], float] = defaultdict(float)
    for (at, subject, uuid, *_who), group in groups.items():
        if subject == HOST and (rows := group.best("util_gpu_ratio")):
            device[at, uuid] = rows[0].value
        elif subject == "container" and (rows := group.best("sm_ratio")):
            percent = sum(row.value for row in rows)
            if percent >= 0:  # not NaN either
                containers[at, uuid] += min(100.0, percent)
    return {key: Percents(device.get(key), containers.get(key)) for key in device.keys() | containers.keys()}


def _small(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) <= 4 else None


def _json(items: Mapping[str, str]) -> str:
    return msgspec.json.encode(dict(items), order="sorted").decode() if items else "{}"
