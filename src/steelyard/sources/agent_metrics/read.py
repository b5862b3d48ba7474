"""``read_agent_metrics(points, resolver, ctx, tally)``: metrics of our own agent, back to the facts that it made them of.

The trick to know: a fact's metrics share its labels and its stamp, so points are gathered by (family, key, stamp) and a fact is made of each
gathering; a column without a metric is not known, with the reason where one was exposed. Sceptic's command: ``curl NODE:9480/metrics``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from steelyard.facts.base import Column, Fact, columns_of
from steelyard.primitives.instant import AT_OBSERVATION, Instant
from steelyard.sources.agent_metrics.catalogue import BY_METRIC, SOURCE, Family, Figure, label_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.refusals import Refusals

_INTEGER_END: Final = 1 << 62
_TRUTH: Final = {"true": True, "false": False}

Key = tuple[str, tuple[Any, ...], Instant]
"""(presence metric, key columns, stamp)."""


class _Odd(Exception):
    """A label or value that is not what the catalogue says."""


@dataclass(slots=True)
class _Gathering:
    """What is known of one fact."""

    family: Family
    columns: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    present: bool = False
    at: Instant = AT_OBSERVATION


def read_agent_metrics(
    points: Iterable[MetricPoint], resolver: LabelResolver, ctx: ReadContext, tally: MetricTally | None = None
) -> Iterator[Fact]:
    """Device, Unit, Grant, DeviceSample, ProcessSample, MetricSample and SourceStatus facts, and findings."""
    tally = tally or MetricTally()
    refusals = Refusals(ctx, SOURCE)
    gathered: dict[Key, _Gathering] = {}
    for point in points:
        found = BY_METRIC.get(point.name)
        if found is None:
            tally.use(point.name)  # about the agent itself: read by people
            continue
        try:
            _gather(gathered, found[0], found[1], point, resolver.resolve(point.labels).labels)
        except (_Odd, ValueError, OverflowError) as error:
            tally.refuse(point.name)
            reason = f"{point.name}: {plain(str(error))[:200]}"
            yield from refusals.find("agent_metric_malformed", f"metric {point.name}", reason)
        else:
            tally.use(point.name)
    for gathering in gathered.values():
        if not gathering.present:
            continue
        try:
            yield _fact(gathering, ctx)
        except (TypeError, KeyError) as error:  # a column that is always known has no label
            reason = f"{gathering.family.presence}: {plain(str(error))[:200]}"
            yield from refusals.find("agent_metric_malformed", f"metric {gathering.family.presence}", reason)
    yield from refusals.rest()


def _gather(
    gathered: dict[Key, _Gathering],
    family: Family,
    figure: Figure | None,
    point: MetricPoint,
    labels: Mapping[str, str],
) -> None:
    types = {column.name: column for column in columns_of(family.fact)}
    is_presence = point.name == family.presence
    named = family.labels if is_presence else family.keys
    columns = {name: _word(types[name], labels.get(label_of(name))) for name in named}
    if is_presence and family.key is None:
        columns |= {"natural_key": _needed(labels, "key"), "source": _needed(labels, "source")}
    identity = family.keys or ("source", "natural_key")
    key = (family.presence, tuple(columns[name] for name in identity), point.at)
    gathering = gathered.setdefault(key, _Gathering(family, at=point.at))
    if is_presence:
        gathering.present = True
        if family.value is not None:
            columns[family.value] = _number(types[family.value], point.value)
        gathering.columns.update(columns)
    elif figure is not None:
        gathering.columns[figure.column] = _number(types[figure.column], point.value, figure)
    else:
        column = _needed(labels, "column")
        if column not in types:
            raise _Odd(f"expected a column of {family.fact.TABLE}, found {column!r}")
        gathering.unknown[column] = _needed(labels, "reason")


def _word(column: Column, text: str | None) -> Any:
    """A label as the column's value; None where it is absent. Raises _Odd, ValueError."""
    if text is None:
        return None
    if column.sql_type == "BOOLEAN":
        if text not in _TRUTH:
            raise _Odd(f"{column.name}: expected true or false, found {text!r}")
        return _TRUTH[text]
    if column.sql_type in ("BIGINT", "TIMESTAMP"):
        number = int(text) if len(text) <= 20 and text.isascii() else _INTEGER_END
        if not -_INTEGER_END < number < _INTEGER_END:
            raise _Odd(f"{column.name}: expected a whole number, found {text!r}")
        return number
    return text


def _number(column: Column, value: float, figure: Figure | None = None) -> Any:
    """A metric's value as the column's: whole where that is. Raises _Odd, ValueError, OverflowError."""
    if math.isnan(value):
        raise _Odd("expected a number, found NaN")
    times, over = (figure.times, figure.over) if figure is not None else (1, 1)
    if column.sql_type != "BIGINT":
        return value * over / times if (times, over) != (1, 1) else value
    whole = round(value * over) / times
    if whole != int(whole) or abs(whole) >= _INTEGER_END:
        raise _Odd(f"expected a multiple of {times}, found {value}")
    return int(whole)


def _needed(labels: Mapping[str, str], name: str) -> str:
    text = labels.get(name)
    if text is None:
        raise _Odd(f"expected the label {name}")
    return text


def _fact(gathering: _Gathering, ctx: ReadContext) -> Fact:
    family = gathering.family
    types = {column.name: column for column in columns_of(family.fact)}
    columns = {name: value for name, value in gathering.columns.items() if value is not None or types[name].nullable}
    if family.unknown is not None:
        columns["unknown"] = msgspec.json.encode(gathering.unknown, order="sorted").decode()
    if family.key is not None:
        columns |= {"natural_key": family.key(columns), "source": SOURCE}
    return family.fact(cluster=ctx.cluster, occurred_at=gathering.at, observed_at=ctx.observed_at, **columns)
