"""A batch: the facts of one round on their way from an agent to the server, numbered so that none is lost or taken twice.

The agent writes one with ``encode``, the server reads it with ``decode``. On the wire and in the spool it is one JSON object, gzipped, so that
``zcat FILE | jq`` shows it. The trick to know: facts are read one by one only where a whole table of them cannot be, so one bad row costs
itself; and a table or a field that this version does not know is said or passed over, never a reason to stop the delivery.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.event import Event
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.transition import Transition
from steelyard.facts.unit import Unit
from steelyard.primitives.errors import SourceMalformed, SourceUnsupported
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN, Instant

PROTOCOL: Final = 1
MEDIA_TYPE: Final = "application/vnd.steelyard.agent-batch+json"
PATH: Final = "/api/v1/ingest/agent"
BODY_BYTES_MAX: Final = 4 << 20
"""Gzipped bytes that the server takes."""

EXPANDED_BYTES_MAX: Final = 64 << 20
FACTS_MAX: Final = 100_000
"""Facts that the server takes in one batch."""

REFUSED_SHOWN_MAX: Final = 20
SAMPLES: Final[tuple[type[Fact], ...]] = (DeviceSample, ProcessSample, MetricSample)
"""What may be thinned while nobody takes it. Everything else is kept as long as there is room for it alone."""

TABLES: Final[Mapping[str, type[Fact]]] = {
    fact.TABLE: fact
    for fact in (
        Device,
        Unit,
        Grant,
        Sighting,
        DeviceSample,
        ProcessSample,
        MetricSample,
        Event,
        Transition,
        Finding,
        SourceStatus,
    )
}
"""What an agent may say: what it sees of its node, nothing of pods' lives, quotas or money."""

_LEVEL: Final = 6
_WINDOW_GZIP: Final = 31
_NUMBER_END: Final = 1 << 62
_DECODERS: Final[dict[str, msgspec.json.Decoder[Any]]] = {}


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch says of itself. ``agent``: the node it speaks for, once per cluster. ``boot``: a random id of the agent's process, so that
    ``sequence`` (from 1, without a gap) never means two things. ``cursors``: how far the agent had read once it had these facts; the server
    passes them over."""

    protocol: int
    agent: str
    boot: str
    sequence: int
    made_at: Instant
    cluster: str | None = None
    version: str = ""
    cursors: dict[str, str] = {}


class _Batch(Head, frozen=True, kw_only=True):
    facts: dict[str, msgspec.Raw] = {}


class _Protocol(msgspec.Struct):
    protocol: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as read. ``refused``: why rows were left out, the first of them; ``refused_count`` of them in all."""

    head: Head
    facts: Sequence[Fact]
    refused: Sequence[str] = ()
    refused_count: int = 0


def encode(head: Head, facts: Iterable[Fact]) -> bytes:
    """The batch's bytes, gzipped. Text that is no Unicode must not be in it (readers replace it)."""
    tables: dict[str, list[Fact]] = {}
    for fact in facts:
        tables.setdefault(fact.TABLE, []).append(fact)
    document = {**msgspec.structs.asdict(head), "facts": tables}
    return gzip.compress(msgspec.json.encode(document), _LEVEL, mtime=0)


def decode(body: bytes) -> Batch:
    """The batch of these bytes. Raises SourceUnsupported for another protocol, SourceMalformed where it is none, or beyond a bound."""
    text = expand(body)
    try:
        found = msgspec.json.decode(text, type=_Batch)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        _refuse_other_protocol(text)
        raise SourceMalformed(f"expected a batch of an agent: {error}") from None
    if found.protocol != PROTOCOL:
        raise _other_protocol(found.protocol)
    named = found.agent and len(found.agent) <= 253 and found.boot and len(found.boot) <= 64
    if not named or not 1 <= found.sequence < _NUMBER_END or not INSTANT_MIN <= found.made_at <= INSTANT_MAX:
        raise SourceMalformed("expected agent, boot, an instant and a sequence from 1 in a batch")
    refused: list[str] = []
    count = 0
    facts: list[Fact] = []
    for table, rows in found.facts.items():
        for fact in _rows(table, rows):
            if isinstance(fact, Fact):
                facts.append(fact)
            else:
                count += 1
                if len(refused) < REFUSED_SHOWN_MAX:
                    refused.append(fact)
            if len(facts) > FACTS_MAX:
                raise SourceMalformed(f"expected at most {FACTS_MAX} facts in a batch")
    values = {name: getattr(found, name) for name in Head.__struct_fields__}
    return Batch(Head(**values), facts, refused, count)


def expand(body: bytes) -> bytes:
    """The JSON text of gzipped bytes. Raises SourceMalformed where they are none, are cut off, or are larger than is taken."""
    reader = zlib.decompressobj(_WINDOW_GZIP)
    try:
        text = reader.decompress(body, EXPANDED_BYTES_MAX)
    except zlib.error as error:
        raise SourceMalformed(f"expected gzip: {error}") from None
    if not reader.eof:
        cut = "larger than is taken" if reader.unconsumed_tail else "cut off"
        raise SourceMalformed(f"a batch that is {cut}")
    return text


def _rows(table: str, rows: msgspec.Raw) -> Iterator[Fact | str]:
    """The facts of one table; a reason in place of each that cannot be read."""
    fact = TABLES.get(table)
    if fact is None:
        yield f"{table[:60]!r} is no table that an agent fills"
        return
    decoder = _DECODERS.get(table)
    if decoder is None:
        decoder = _DECODERS[table] = msgspec.json.Decoder(list[fact])  # type: ignore[valid-type]  # the class is chosen when it runs
    try:
        yield from decoder.decode(rows)
        return
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        each = msgspec.json.decode(rows, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError) as error:
        yield f"{table}: {error}"
        return
    for row in each:
        try:
            yield msgspec.json.decode(row, type=fact)
        except (msgspec.MsgspecError, RecursionError) as error:
            yield f"{table}: {error}"


def _refuse_other_protocol(text: bytes) -> None:
    try:
        said = msgspec.json.decode(text, type=_Protocol).protocol
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return
    if said != PROTOCOL:
        raise _other_protocol(said)


def _other_protocol(said: int) -> SourceUnsupported:
    return SourceUnsupported(f"expected protocol {PROTOCOL} of a batch, found {said}")
