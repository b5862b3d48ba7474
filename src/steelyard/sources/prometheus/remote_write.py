"""Remote write 1.0, received: a snappy-compressed protobuf of series becomes points.

Called by ``app`` for each request. Nothing that the sender says is believed before it is checked: the decompressed size is read off the
snappy header, series are walked by hand so that no message is larger than its bytes allow, and a body that is wrong anywhere yields nothing.
Method: Prometheus Remote-Write 1.0, ``prometheus.WriteRequest``. Sceptic's command: ``promtool push metrics URL < text`` (Prometheus 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.errors import SourceMalformed, SourceUnsupported
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.metric_points import MetricPoint

REPLY_HEADERS: Final[Mapping[str, str]] = {}


class UnsupportedWrite(SourceUnsupported):
    """A content type or encoding that this receiver does not take: answered by 415."""


@dataclass(frozen=True, slots=True)
class Received:
    """What a request held. ``points``: in its order, without stale marks. ``stale_count``: marks that a series ended."""

    points: list[MetricPoint]
    series_count: int
    stale_count: int


def check_write_headers(content_type: str | None, content_encoding: str | None) -> None:
    """Raises UnsupportedWrite for anything but a protobuf of version 1 in snappy."""
    raise NotImplementedError


def read_write_request(body: bytes, received_at: Instant) -> Received:
    """The points of a request. Raises SourceMalformed for a body that is none, or beyond the bounds."""
    raise SourceMalformed("not written")
