"""Remote write 1.0, received: a snappy-compressed protobuf of series becomes points.

Called by ``app`` for each request. Nothing that the sender says is believed before it is checked: the decompressed size is read off the
snappy header, series are walked one by one so that no message grows beyond what its bytes allow, and a body that is wrong anywhere yields
nothing. What is well-formed but cannot be a sample (a series without a name) is counted and the rest goes on.
Method: Prometheus Remote-Write 1.0, ``prometheus.WriteRequest``. Sceptic's command: ``promtool push metrics URL < text`` (release 3).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from steelyard.primitives.errors import SourceMalformed, SourceUnsupported
from steelyard.primitives.i18n import ngettext
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN, Instant
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.plain_text import plain

BODY_BYTES_MAX: Final = 16 << 20
DECOMPRESSED_BYTES_MAX: Final = 64 << 20
SERIES_BYTES_MAX: Final = 1 << 20
SERIES_MAX: Final = 200_000
SAMPLES_MAX: Final = 1_000_000
LABELS_MAX: Final = 200
REFUSALS_SHOWN_MAX: Final = 20

STALE_MARK: Final = 0x7FF0000000000002
"""The bits of the NaN by which a sender says that a series ended."""

_SNAPPY_RATIO_MAX: Final = 32  # a copy of 3 bytes makes at most 64
_VARINT_BYTES_MAX: Final = 10
_SERIES_TAG: Final = (1 << 3) | 2
_NAME: Final = "__name__"
_MESSAGE: Final = "prometheus.WriteRequest"
_MEDIA_TYPE: Final = "application/x-protobuf"


class UnsupportedWrite(SourceUnsupported):
    """A content type or encoding that this receiver does not take: answered by 415, so that the sender may fall back to version 1."""


@dataclass(frozen=True, slots=True)
class Received:
    """What a request held. ``points``: in its order, without stale marks. ``stale_count``: marks that a series ended. ``refused``: the first
    reasons why series or samples were left out, ``refused_count`` of them in all. ``histograms_count``: native histograms, which are not read."""

    points: list[MetricPoint]
    series_count: int
    stale_count: int
    histograms_count: int
    refused_count: int
    refused: tuple[str, ...]


def written_headers(samples_count: int) -> dict[str, str]:
    """The headers by which a receiver says how much it wrote (version 2 demands them; a sender of version 1 passes them over)."""
    prefix = "X-Prometheus-Remote-Write"
    return {
        f"{prefix}-Samples-Written": str(samples_count),
        f"{prefix}-Histograms-Written": "0",
        f"{prefix}-Exemplars-Written": "0",
    }


def check_write_headers(content_type: str | None, content_encoding: str | None) -> None:
    """Raises UnsupportedWrite for anything but a protobuf of version 1 in snappy. No ``proto`` parameter means version 1."""
    media_type, *parameters = [part.strip() for part in (content_type or "").split(";")]
    protos = [part.partition("=")[2].strip('" ') for part in parameters if part.lower().startswith("proto=")]
    if media_type.lower() != _MEDIA_TYPE or any(proto != _MESSAGE for proto in protos):
        raise UnsupportedWrite(
            f"expected the content type {_MEDIA_TYPE} of remote write 1.0 ({_MESSAGE}), found {plain((content_type or 'none')[:100])}"
        )
    if (content_encoding or "").strip().lower() != "snappy":
        raise UnsupportedWrite(
            f"expected the content encoding snappy, found {plain((content_encoding or 'none')[:100])}"
        )


def read_write_request(body: bytes, not_after: Instant = INSTANT_MAX) -> Received:
    """The points of a request, those stamped later than ``not_after`` left out and counted. Raises SourceMalformed for a body that is none, or
    beyond the bounds; then nothing of it counts."""
    return _Reader(min(not_after, INSTANT_MAX)).read(_decompressed(body))


def _decompressed(body: bytes) -> memoryview:
    """The snappy block's content; its header is checked first, so that nothing is allocated on the word of the sender."""
    import cramjam

    if len(body) > BODY_BYTES_MAX:
        raise SourceMalformed(f"expected a body of at most {BODY_BYTES_MAX} bytes, found {len(body)}")
    declared, _position = _varint(body, 0)
    if declared > DECOMPRESSED_BYTES_MAX:
        raise SourceMalformed(f"expected at most {DECOMPRESSED_BYTES_MAX} bytes decompressed, found {declared}")
    if declared > _SNAPPY_RATIO_MAX * len(body):
        raise SourceMalformed(f"no snappy block: {len(body)} bytes cannot hold {declared}")
    try:
        return memoryview(bytes(cramjam.snappy.decompress_raw(body)))
    except (cramjam.DecompressionError, ValueError) as error:
        raise SourceMalformed(f"no snappy block: {plain(str(error)[:200])}") from None


def _varint(body: bytes | memoryview, position: int) -> tuple[int, int]:
    """(value, position behind it). Raises SourceMalformed where none ends within 10 bytes."""
    value = shift = 0
    for place in range(position, min(position + _VARINT_BYTES_MAX, len(body))):
        byte = body[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise SourceMalformed("expected a length, found the end of the body")


def _fields(body: memoryview) -> Iterator[memoryview]:
    """The series of a WriteRequest, each as its bytes. Other fields (metadata) are passed over. Raises SourceMalformed."""
    position = 0
    while position < len(body):
        tag, position = _varint(body, position)
        wire = tag & 7
        if not tag >> 3:
            raise SourceMalformed("no protobuf of remote write: a field without a number")
        if wire == 0:
            _value, position = _varint(body, position)
            continue
        if wire == 2:
            length, position = _varint(body, position)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise SourceMalformed(f"no protobuf of remote write: a field of wire type {wire}")
        end = position + length
        if end > len(body):
            raise SourceMalformed("no protobuf of remote write: a field reaches beyond the end")
        if tag == _SERIES_TAG:
            yield body[position:end]
        position = end


class _Reader:
    def __init__(self, not_after: Instant) -> None:
        self._not_after = not_after
        self._points: list[MetricPoint] = []
        self._series_count = self._stale_count = self._histograms_count = self._samples_count = 0
        self._refused: dict[str, int] = {}

    def read(self, body: memoryview) -> Received:
        parse = _series_parser()
        for part in _fields(body):
            self._series_count += 1
            if self._series_count > SERIES_MAX:
                raise SourceMalformed(f"expected at most {SERIES_MAX} series in a request")
            if len(part) > SERIES_BYTES_MAX:
                raise SourceMalformed(f"expected at most {SERIES_BYTES_MAX} bytes in a series, found {len(part)}")
            self._series(parse(bytes(part)))
        return Received(
            self._points,
            self._series_count,
            self._stale_count,
            self._histograms_count,
            sum(self._refused.values()),
            tuple(
                f"{reason} ({ngettext('once', '{count} times', count).format(count=count)})"
                for reason, count in list(self._refused.items())[:REFUSALS_SHOWN_MAX]
            ),
        )

    def _series(self, series: Any) -> None:
        self._histograms_count += len(series.histograms)
        self._samples_count += len(series.samples)
        if self._samples_count > SAMPLES_MAX:
            raise SourceMalformed(f"expected at most {SAMPLES_MAX} samples in a request")
        if len(series.labels) > LABELS_MAX:
            self._refuse(f"a series with more than {LABELS_MAX} labels", len(series.samples))
            return
        labels = {plain(label.name): plain(label.value) for label in series.labels if label.value}
        name = labels.pop(_NAME, "")
        if not name:
            self._refuse("a series without the name of a metric", len(series.samples))
            return
        for sample in series.samples:
            value, at = sample.value, sample.timestamp * 1_000
            if value != value and struct.unpack("<Q", struct.pack("<d", value))[0] == STALE_MARK:
                self._stale_count += 1
            elif INSTANT_MIN <= at <= self._not_after:
                self._points.append(MetricPoint(name, labels, value, at))
            elif self._not_after < at <= INSTANT_MAX:
                self._refuse("a sample stamped more than a day after the server's now: set the sender's clock", 1)
            else:
                self._refuse("a sample with a stamp outside the years 1 to 9999", 1)

    def _refuse(self, reason: str, samples_count: int) -> None:
        self._refused[reason] = self._refused.get(reason, 0) + max(1, samples_count)


@cache
def _series_parser() -> Callable[[bytes], Any]:
    """Parses the bytes of one TimeSeries. The message is described here, field by field, so that no generated code is kept; histograms stay
    bytes, whose number alone is told, and exemplars are unknown fields."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="steelyard/remote_write.proto", package="steelyard.remote_write", syntax="proto3"
    )
    messages: Mapping[str, tuple[tuple[str, int, int, str | None], ...]] = {
        "Label": (("name", 1, kinds.TYPE_STRING, None), ("value", 2, kinds.TYPE_STRING, None)),
        "Sample": (("value", 1, kinds.TYPE_DOUBLE, None), ("timestamp", 2, kinds.TYPE_INT64, None)),
        "TimeSeries": (
            ("labels", 1, kinds.TYPE_MESSAGE, "Label"),
            ("samples", 2, kinds.TYPE_MESSAGE, "Sample"),
            ("histograms", 4, kinds.TYPE_BYTES, None),
        ),
    }
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of in fields:
            message.field.add(
                name=field,
                number=number,
                type=kind,
                label=kinds.LABEL_REPEATED if name == "TimeSeries" else kinds.LABEL_OPTIONAL,
                type_name=f".{file.package}.{of}" if of else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    series = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.TimeSeries"))

    def parse(part: bytes) -> Any:
        try:
            return series.FromString(part)
        except (DecodeError, UnicodeDecodeError) as error:
            raise SourceMalformed(f"no protobuf of remote write: {plain(str(error)[:200])}") from None

    return parse
