"""From points of catalogued metrics to ``fact.metric_sample``: one fact per series and instant, under current names.

Called by the readers of engines, queues and gateways. The labels of a fact are the exporter's own; a sample whose way names no pod keeps
``instance``, because two servers must not become one series. The trick to know: a release that renames a metric exposes both names for
a while; the current one counts, the other is passed over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.metric_sample import MetricSample
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_catalogue import BUCKET, Catalogue, Found
from steelyard.sources.shared.metric_labels import LabelResolver, Resolved
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.refusals import Refusals

_BOUND_LABELS: Final = ("le", "quantile")
LABEL_CHARACTERS_MAX: Final = 4_096

Rule = Callable[[Found, dict[str, str], float], float | None]
"""Adjusts a sample: may change the labels in place; returns the value in the unit of the fact, None where it says nothing."""


@dataclass(slots=True)
class _Sample:
    point: MetricPoint
    rank: int
    fact: MetricSample


def canonical_bound(text: str) -> str:
    """A bucket bound or quantile in one spelling: ``1.0`` and ``1`` are ``1``, ``+Inf`` is ``+Inf``. Raises ValueError where it is no number."""
    if len(text) > 64 or "_" in text or not text.isascii():
        raise ValueError(f"expected a number, found {text[:60]!r}")
    bound = float(text)
    if math.isnan(bound):
        raise ValueError("expected a number, found NaN")
    if math.isinf(bound):
        return "+Inf" if bound > 0 else "-Inf"
    return str(int(bound)) if bound.is_integer() and abs(bound) < 2**53 else repr(bound)


def read_samples(
    points: Iterable[MetricPoint],
    catalogue: Catalogue,
    resolver: LabelResolver,
    ctx: ReadContext,
    source: str,
    tally: MetricTally,
    rule: Rule | None = None,
) -> Iterator[Fact]:
    """A MetricSample per series and instant; values that cannot be are stored as not known, with a finding."""
    refusals = Refusals(ctx, source)
    best: dict[tuple[str, str | None, str, Instant, str], _Sample] = {}
    for point in points:
        found = catalogue.find(point.name)
        if found is None:
            tally.ignore(point.name)
            continue
        resolved = resolver.resolve(point.labels)
        labels = {name: text[:LABEL_CHARACTERS_MAX] for name, text in resolved.labels.items()}
        try:
            for name in _BOUND_LABELS:
                if name in labels:
                    labels[name] = canonical_bound(labels[name])
            if found.kind == BUCKET and "le" not in labels:
                raise ValueError("expected the bound of a bucket in the label le, found none")
        except ValueError as error:
            tally.refuse(point.name)
            yield from refusals.find(
                "bucket_bound_unreadable",
                f"metric {point.name}",
                str(error),
                evidence={"labels": dict(resolved.labels)},
            )
            continue
        value = rule(found, labels, point.value) if rule is not None else point.value
        value, problem = _within(found, value)
        if problem is not None:
            yield from refusals.find(
                "sample_above_physical_limit",
                f"metric {found.name}",
                f"{found.name} is {point.value:g}, {problem}; it is taken as not known",
                evidence={"labels": dict(resolved.labels), "value": repr(point.value)},
            )
        fact = _fact(ctx, source, found, labels, resolved, value, point.at)
        key = (fact.natural_key, fact.le, fact.kind, point.at, f"{resolved.target.key}")
        known = best.get(key)
        if known is None or found.rank < known.rank:
            best[key] = _Sample(point, found.rank, fact)
            if known is not None:
                tally.repeat(known.point.name)
        else:
            tally.repeat(point.name)
    for sample in best.values():
        tally.use(sample.point.name)
        yield sample.fact
    yield from refusals.rest()


def _within(found: Found, value: float | None) -> tuple[float | None, str | None]:
    """The value where it can be stored, and why not where it is impossible. NaN (a quantile without observations) is merely not known."""
    if value is None or math.isnan(value):
        return None, None
    least, largest = found.metric.least, found.metric.largest
    if found.kind in ("counter", "bucket", "count"):
        least = 0.0
    if least is not None and value < least:
        return None, f"below {least:g}"
    if largest is not None and value > largest:
        return None, f"above {largest:g}"
    return value, None


def _fact(
    ctx: ReadContext,
    source: str,
    found: Found,
    labels: dict[str, str],
    resolved: Resolved,
    value: float | None,
    at: Instant,
) -> MetricSample:
    target = resolved.target
    namespace, pod, node = (
        labels.get("namespace") or target.namespace,
        labels.get("pod") or target.pod,
        labels.get("node"),
    )
    if pod is None and target.instance is not None:
        labels["instance"] = target.instance
    le = labels.pop("le", None) if found.kind == BUCKET else None
    text = _json(labels)
    place = {"namespace": namespace, "pod": pod, **({"le": le} if le is not None else {})}
    key = _json({**{name: word for name, word in place.items() if word is not None}, **labels})
    return MetricSample(
        cluster=ctx.cluster,
        source=source,
        natural_key=f"{found.name}{key}",
        occurred_at=at,
        observed_at=ctx.observed_at,
        family=found.metric.family,
        metric=found.name,
        kind=found.kind,
        labels=text,
        le=le,
        value=value,
        namespace=namespace,
        pod=pod,
        node=node or target.node or ctx.node,
    )


def _json(labels: Mapping[str, str]) -> str:
    return msgspec.json.encode(dict(labels), order="sorted").decode()
