"""Xids as DCGM tells them: the last one it saw, as a gauge that stays. A hint; the kernel log is the authority.

The gauge (field 230) keeps its value until the driver or the exporter restarts, hides repeats and shows only the last of several. So an event
``xid_last_seen`` says "last XID seen by DCGM was N, first observed at scrape T; not proof that it is current", is made when the
value is new, and never counts. No row, or 0, is not health.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.event import Event
from steelyard.primitives.instant import AT_OBSERVATION, INSTANT_MAX, INSTANT_MIN, format_instant
from steelyard.sources.dcgm.fields import XID, XID_COUNT
from steelyard.sources.dcgm.rows import Row
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.round_memory import RoundMemory

KIND: Final = "xid_last_seen"
_XID_MAX: Final = 1_000_000


def is_xid(number: int) -> bool:
    """Whether the field is the Xid gauge."""
    return number == XID


def xid_events(rows: Sequence[Row], ctx: ReadContext, memory: RoundMemory) -> Iterator[Fact]:
    """An event per card where the gauge shows an Xid that it did not show before. ``rows`` in order of time; MIG instances repeat the board's."""
    for row in rows:
        code = _code(row)
        if code is None:
            continue
        when = ctx.observed_at if row.at == AT_OBSERVATION else row.at
        key = f"xid/{row.place.uuid}" if row.number == XID else f"xid/{row.place.uuid}/{row.name}/{code}"
        if memory.is_news(key, code, when, once=row.number == XID) and code > 0:
            yield _event(row, code, ctx)


def _code(row: Row) -> int | None:
    """The Xid of a row, 0 where the gauge shows none; None for a value that is no Xid, or a row of something else."""
    value: float
    if row.number == XID:
        value = row.value
    elif row.name == XID_COUNT and row.value > 0:
        text = row.labels.get("xid", "")
        value = float(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else -1
    else:
        return None
    return int(value) if 0 <= value <= _XID_MAX else None


def _event(row: Row, code: int, ctx: ReadContext) -> Event:
    attributes = row.place.attributes
    details: dict[str, object] = {"field": row.name}
    if row.labels.get("err_msg"):
        details["text"] = row.labels["err_msg"][:500]
    if row.number != XID:
        details["window_ms"] = row.labels.get("window_size_in_ms", "")[:20]
        details["in_window"] = row.value
    when = ctx.observed_at if row.at == AT_OBSERVATION else row.at
    seen = f"scrape {format_instant(when)}" if INSTANT_MIN <= when <= INSTANT_MAX else "this scrape"
    return Event(
        cluster=ctx.cluster,
        source="dcgm",
        natural_key=f"{row.place.uuid}/{KIND}/{code}",
        occurred_at=row.at,
        observed_at=ctx.observed_at,
        kind=KIND,
        reason=f"Xid {code}",
        message=f"last XID seen by DCGM was {code}, first observed at {seen}; not proof that it is current",
        component="dcgm-exporter",
        node=attributes.node,
        device_uuid=row.place.uuid,
        pci_address=attributes.pci_address,
        code=code,
        details=msgspec.json.encode(details, order="sorted").decode(),
    )
