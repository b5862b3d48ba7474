"""An answer of the query API taken apart: series with their samples, what it warns of, what it refuses.

``api`` hands over whole bodies within its bound. The trick to know: the metrics of one exporter bear the same labels but for their name, so
labels are remembered by their JSON text without the name: an estate of 25 metrics per card is decoded once per card, and next round not at all.
Format: ``/api/v1/query`` and ``/api/v1/query_range`` of Prometheus (also of Thanos, Mimir and VictoriaMetrics).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant, Window
from steelyard.sources.shared.plain_text import plain

LABELS_MAX: Final = 200
TEXTS_MAX: Final = 50
TEXT_CHARACTERS_MAX: Final = 1_000
ENTRIES_MAX: Final = 1_000_000
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NAME: Final = "__name__"
_NAME_KEY: Final = b'"__name__":"'
_VALUE_CHARACTERS_MAX: Final = 64
_MILLISECONDS_MAX: Final = 2**53


class Row(msgspec.Struct):
    """One series as it stands in an answer: its labels as JSON, and (seconds, number as text) pairs."""

    metric: msgspec.Raw
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None
    histograms: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    histogram: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    @property
    def has_histograms(self) -> bool:
        """Whether native histograms stand there."""
        if self.histograms is msgspec.UNSET and self.histogram is msgspec.UNSET:
            return False  # asked of each series
        parts = (self.histograms, self.histogram)
        return any(part is not msgspec.UNSET and bytes(part) not in (b"null", b"[]") for part in parts)


class _Rows(msgspec.Struct):
    result: list[Row]


class _Head(msgspec.Struct, rename="camel"):
    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None
    infos: list[str] | None = None
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer. ``data``: its JSON; ``warnings``, ``infos``: what it says beside it, cut to a bound; ``is_partial``: VictoriaMetrics
    says that a part of the storage did not answer."""

    data: bytes
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    is_partial: bool = False

    def rows(self) -> list[Row]:
        """The series of a vector or a matrix. Raises SourceMalformed where the data is neither."""
        try:
            return msgspec.json.decode(self.data, type=_Rows).result
        except _UNREADABLE as error:
            raise _malformed(error, self.data) from None

    def texts(self) -> list[str]:
        """The values of a label. Raises SourceMalformed where the data is no list of texts."""
        try:
            return msgspec.json.decode(self.data, type=list[str])
        except _UNREADABLE as error:
            raise _malformed(error, self.data) from None

    def text_of(self, key: str) -> str | None:
        """A text of an object, cut to a bound; None where it has none of that name. Raises SourceMalformed where the data is no object."""
        try:
            found = msgspec.json.decode(self.data, type=dict[str, Any]).get(key)
        except _UNREADABLE as error:
            raise _malformed(error, self.data) from None
        return _cut(found) if isinstance(found, str) and found else None


@dataclass(frozen=True, slots=True)
class Refused:
    """The API's own word for why it gives no answer. ``kind``: its errorType, such as ``execution``."""

    kind: str
    reason: str


def parse_answer(body: bytes) -> Answer | Refused:
    """The answer in a body. Raises SourceMalformed where it is no JSON of this API."""
    try:
        head = msgspec.json.decode(body, type=_Head)
    except _UNREADABLE as error:
        raise _malformed(error, body) from None
    if head.status != "success":
        return Refused(_cut(head.error_type), _cut(head.error))
    return Answer(bytes(head.data), _cuts(head.warnings), _cuts(head.infos), head.is_partial)


class LabelMemory:
    """Labels by their JSON text without the name: what the last two rounds named is remembered, while there is room."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._fresh: dict[bytes, Mapping[str, str]] = {}
        self._stale: dict[bytes, Mapping[str, str]] = {}
        self._entries_max = entries_max

    def turn(self) -> None:
        """A new round begins."""
        self._stale, self._fresh = self._fresh, {}

    def read(self, metric: bytes) -> tuple[str, Mapping[str, str]]:
        """Name ('' where the series has none) and the other labels, which all series with equal ones share: never change them.

        Raises SourceMalformed for what is no object of texts, or has more labels than the bound.
        """
        start = metric.find(_NAME_KEY)
        end = metric.find(b'"', start + len(_NAME_KEY)) if start >= 0 else -1
        if end < 0 or b"\\" in metric[start:end]:
            name, labels = _labels(metric)
            return name, labels
        key = metric[:start] + metric[end + 1 :]
        known = self._fresh.get(key)
        if known is None:
            known = self._stale.get(key)
            if known is None:
                known = _labels(metric)[1]
            if len(self._fresh) < self._entries_max:
                self._fresh[key] = known
        return metric[start + len(_NAME_KEY) : end].decode(), known


def _labels(metric: bytes) -> tuple[str, Mapping[str, str]]:
    try:
        labels = msgspec.json.decode(metric, type=dict[str, str])
    except _UNREADABLE as error:
        raise _malformed(error, metric) from None
    if len(labels) > LABELS_MAX:
        raise SourceMalformed(f"expected at most {LABELS_MAX} labels, found {len(labels)}", 0, plain(str(labels)[:200]))
    name = labels.pop(_NAME, "")
    if any("\0" in label or "\0" in text for label, text in labels.items()):
        labels = {plain(label): plain(text) for label, text in labels.items()}
    return plain(name), labels


def samples_of(row: Row) -> Iterator[tuple[Instant, float]]:
    """The samples of a series, in its order. Raises SourceMalformed for a number that is none."""
    for seconds, text in row.values or ([row.value] if row.value is not None else ()):
        yield _instant(seconds), _number(text)


def last_of(row: Row, window: Window) -> Iterator[tuple[Instant, float]]:
    """The last sample of a series within the window, if there is one; nothing else of it is read. Raises as ``samples_of`` does."""
    for seconds, text in reversed(row.values or ([row.value] if row.value is not None else [])):
        at = _instant(seconds)
        if at < window.end:
            if at >= window.start:
                yield at, _number(text)
            return


def _number(text: str) -> float:
    try:
        if "_" not in text and text.isascii() and len(text) <= _VALUE_CHARACTERS_MAX:
            return float(text)
    except ValueError:
        pass
    raise SourceMalformed(f"expected a number, found {plain(text[:60])!r}", 0, plain(text[:200]))


def _instant(seconds: float) -> Instant:
    milliseconds = seconds * 1_000
    if not -_MILLISECONDS_MAX < milliseconds < _MILLISECONDS_MAX:
        raise SourceMalformed(f"expected a time in seconds, found {seconds!r}")
    return round(milliseconds) * 1_000


def _malformed(error: Exception, body: bytes) -> SourceMalformed:
    reason = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
    excerpt = plain(body[:200].decode("utf-8", "replace"))
    return SourceMalformed(f"no answer of a Prometheus API: {reason[:300]}", 0, excerpt)


def _cut(text: str) -> str:
    return plain(text[:TEXT_CHARACTERS_MAX])


def _cuts(texts: list[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_cut(text) for text in (texts or ())[:TEXTS_MAX]))
