"""Which fields an exporter prints at all, as a status per node, said when it changes or once an hour.

A field without a row says nothing: an Xid gauge that vanished with an upgrade is no sign of health. Ledgers compare what is printed now with
what was printed before and with what the questions need. Sceptic's command: ``curl exporter:9400/metrics | grep -c XID``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.instant import AT_OBSERVATION, Instant
from steelyard.sources.dcgm.fields import GAUGES
from steelyard.sources.dcgm.rows import TEXT_MAX, Place, Row
from steelyard.sources.dcgm.xid import is_xid
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.round_memory import RoundMemory

KIND: Final = "dcgm_series"
_VERSION_LABELS: Final = ("exporter_version", "app_kubernetes_io_version", "helm_sh_chart", "version")


def series_statuses(rows: Sequence[Row], ctx: ReadContext, memory: RoundMemory) -> Iterator[SourceStatus]:
    """A status of kind ``dcgm_series`` per node (where no row tells the node: per exporter, named by its first card). ``rows``: whole scrapes.

    message: a JSON object of ``fields`` (numbers that are read, joined by commas), ``mig`` (only instances are printed), ``node``, and
    ``exporter_version`` and ``driver_version`` where labels tell them. The way of the samples (job, instance) is no part of it.
    """
    first_card: dict[str, str] = {}
    places = {id(row.place): row.place for row in rows}.values()
    for place in places:
        first_card[place.exporter] = min(place.uuid, first_card.get(place.exporter, place.uuid))

    def where(place: Place) -> str:
        return place.attributes.node or f"with {first_card[place.exporter]}"

    printed: dict[str, set[int]] = {}
    latest: dict[str, Instant] = {}
    an_example: dict[str, Row] = {}
    for row in rows:
        key = where(row.place)
        an_example.setdefault(key, row)
        latest[key] = max(row.at, latest.get(key, row.at))
        printed.setdefault(key, set()).add(row.number)
    boards = {where(place) for place in places if place.gi is None}
    for key, numbers in sorted(printed.items()):
        fields = sorted(number for number in numbers if number in GAUGES or is_xid(number))
        yield from _status(key, an_example[key], latest[key], fields, key not in boards, ctx, memory)


def _status(
    key: str, row: Row, at: Instant, fields: Sequence[int], mig: bool, ctx: ReadContext, memory: RoundMemory
) -> Iterator[SourceStatus]:
    version = next((row.labels[name][:TEXT_MAX] for name in _VERSION_LABELS if name in row.labels), None)
    told = {
        "fields": ",".join(map(str, fields)),
        "mig": mig,
        "node": row.place.attributes.node,
        "driver_version": row.place.attributes.driver_version,
        "exporter_version": version,
    }
    message = msgspec.json.encode(told, order="sorted").decode()
    seen = ctx.observed_at if at == AT_OBSERVATION else at
    if memory.is_news(f"series/{key}", message, seen):
        yield SourceStatus(
            cluster=ctx.cluster,
            source="dcgm",
            natural_key=f"{KIND}/exporter/{key}",
            occurred_at=at,
            observed_at=ctx.observed_at,
            kind=KIND,
            scope=f"exporter/{key}",
            objects_count=len(fields),
            as_of_basis="inferred" if seen == AT_OBSERVATION else "stamped",
            message=message,
        )
