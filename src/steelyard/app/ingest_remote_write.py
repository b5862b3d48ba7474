"""``POST /ingest/remote-write``: a Prometheus pushes its samples, and hears "taken" only once their facts are durable.

``app.serving`` mounts the endpoint over its open store. Requests that come while a transaction runs go into the next one together, in
bounds, so a sender with many shards costs few transactions. The tricks to know: what is taken twice is stored once (a sample's stamp is part
of its fact), so whoever did not hear an answer may send again, and a body that comes again while it is being stored, or soon after, gets the
answer of the first; patience is for waiting, never for work, so a large request on a slow machine is not sent away again and again; and a
batch that cannot be read is refused for good (400), because a sender repeats whatever ends in 5xx before it sends anything else. It is never
429, which a Prometheus drops unless it was told to repeat it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from steelyard.app.collectors.rounds import Round
from steelyard.app.metric_readers import read_points
from steelyard.app.refusals import READER_FAULTS, fault
from steelyard.facts.base import Fact
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import DAY_US, MINUTE_US
from steelyard.sources.prometheus import UnsupportedWrite, check_write_headers, read_write_request, written_headers
from steelyard.sources.prometheus.remote_write import BODY_BYTES_MAX
from steelyard.sources.shared.context import ReadContext, ReadSettings
from steelyard.sources.shared.round_memory import RoundMemory
from steelyard.surfaces.http_api import Endpoint
from steelyard.surfaces.http_api.admission import OPERATORS
from steelyard.surfaces.http_api.problems import Problem

if TYPE_CHECKING:
    from steelyard.app.settings import Settings
    from steelyard.sources.prometheus import Received
    from steelyard.sources.shared.metric_labels import TargetKey
    from steelyard.sources.shared.metric_points import MetricPoint
    from steelyard.store import Store

NAME: Final = "remote_write"
UNDER_WAY_MAX: Final = 32
PATIENCE_SECONDS: Final = 20.0
RETRY_SECONDS: Final = 5
POINTS_AT_ONCE: Final = 50_000
"""Requests go into one transaction together up to so many samples; a larger one is alone."""
REMEMBERED_MAX: Final = 256
"""So many answers are kept for a body that comes again."""
_NONE_WRITTEN: Final = 0
_BODY: Final = {
    "content": {"application/x-protobuf": {"schema": {"type": "string", "format": "binary"}}},
    "required": True,
}


@dataclass(slots=True)
class _Batch:
    """The samples of one request on their way. ``refused``: a reader failed on them, and a finding says so. ``waiters_count``: requests that wait
    for it, more than one where a body came again. ``has_begun``: it is being stored, whoever waits."""

    received: Received
    done: asyncio.Future[None]
    refused: bool = False
    waiters_count: int = 0
    has_begun: bool = False

    @property
    def points(self) -> Sequence[MetricPoint]:
        """The samples."""
        return self.received.points


@dataclass(frozen=True, slots=True)
class _Taken:
    """What became of a body that is durable. ``received``: without its points, of which there were ``points_count``."""

    received: Received
    points_count: int
    refused: bool


class RemoteWrite:
    """Takes requests over one open store; its methods are called on the server's event loop. ``patience_seconds``: how long a request waits
    for its turn, and for the store, before its sender is asked to come again; once it is being worked on, it waits for the end."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        cluster: str = "default",
        settings: ReadSettings | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._cluster = cluster
        self._settings = settings or ReadSettings()
        self._patience_seconds = patience_seconds
        self._memory = RoundMemory()
        self._hidden: dict[TargetKey, set[str]] = {}
        self._waiting: list[_Batch] = []
        self._coming: dict[bytes, _Batch] = {}
        self._taken: OrderedDict[bytes, _Taken] = OrderedDict()
        self._store_awaited_since: float | None = None
        self._under_way = 0
        self._writing: asyncio.Task[None] | None = None

    def endpoint(self) -> Endpoint:
        """The route."""
        return Endpoint(
            "POST",
            "/ingest/remote-write",
            self.take,
            OPERATORS,
            "Take samples that a Prometheus writes (remote write 1.0)",
            body_bytes_max=BODY_BYTES_MAX,
            request_body=_BODY,
        )

    async def take(self, request: Request) -> Response:
        """204 once all is durable; 400 where the body, or a part of it, cannot be taken (the rest is durable then); 415 for another version;
        503 with Retry-After where more requests wait than are held, or one waited too long for its turn or the store: it may be sent again."""
        nothing = written_headers(_NONE_WRITTEN)
        try:
            check_write_headers(request.headers.get("content-type"), request.headers.get("content-encoding"))
        except UnsupportedWrite as error:
            raise Problem("unsupported", str(error), status=415, headers=nothing) from None
        if self._under_way >= UNDER_WAY_MAX:
            raise self._busy()
        self._under_way += 1
        try:
            body = await request.body()
            digest = hashlib.sha256(body).digest()
            taken = self._taken.get(digest)
            if taken is None:
                taken = await self._stored(digest, self._under_way_as(digest) or await self._read(body))
        finally:
            self._under_way -= 1
        return self._answer(taken)

    async def _read(self, body: bytes) -> Received:
        try:
            return await run_in_threadpool(read_write_request, body, self._clock.now() + DAY_US)
        except SourceMalformed as error:
            raise Problem("bad_request", error.message, headers=written_headers(_NONE_WRITTEN)) from None

    def _answer(self, taken: _Taken) -> Response:
        written = written_headers(0 if taken.refused else taken.points_count)
        if taken.refused:
            raise Problem("bad_request", _("a reader failed on these samples: a finding says where"), headers=written)
        if taken.received.refused_count:
            raise Problem(
                "bad_request",
                ngettext(
                    "{count} sample cannot be taken: {reasons}; the others are stored",
                    "{count} samples cannot be taken: {reasons}; the others are stored",
                    taken.received.refused_count,
                ).format(count=taken.received.refused_count, reasons="; ".join(taken.received.refused)),
                headers=written,
            )
        return Response(status_code=204, headers=written)

    def _busy(self) -> Problem:
        return Problem(
            "busy",
            _("the store is busy: send again soon"),
            headers={**written_headers(_NONE_WRITTEN), "Retry-After": str(RETRY_SECONDS)},
            retry_after_seconds=RETRY_SECONDS,
        )

    async def _stored(self, digest: bytes, found: _Batch | Received) -> _Taken:
        """Wait until the samples' facts are durable. Raises Problem where they wait too long for that."""
        batch = found if isinstance(found, _Batch) else self._under_way_as(digest)
        if batch is None:
            assert not isinstance(found, _Batch)  # noqa: S101 (it would have been taken above)
            batch = _Batch(found, asyncio.get_running_loop().create_future())
            if not batch.points:
                return _Taken(batch.received, 0, False)
            self._coming[digest] = batch
            self._waiting.append(batch)
            batch.done.add_done_callback(lambda _done: self._note(digest, batch))
            if self._writing is None or self._writing.done():
                self._writing = asyncio.create_task(self._drain())
        batch.waiters_count += 1
        try:
            await self._await(batch)
        finally:
            batch.waiters_count -= 1
        return _Taken(batch.received, len(batch.points), batch.refused)

    def _under_way_as(self, digest: bytes) -> _Batch | None:
        """The batch of the same body that is on its way; None where there is none, or it was just given up."""
        batch = self._coming.get(digest)
        return None if batch is None or batch.done.cancelled() else batch

    async def _await(self, batch: _Batch) -> None:
        """Until the batch is durable. Raises Problem where it waited ``patience_seconds`` for its turn, or the store for as long."""
        left = self._patience_seconds
        while not (await asyncio.wait({batch.done}, timeout=left))[0]:
            since = self._store_awaited_since
            left = self._patience_seconds if since is None else since + self._patience_seconds - time.monotonic()
            if not batch.has_begun or left <= 0:
                raise self._busy()
        batch.done.result()

    def _note(self, digest: bytes, batch: _Batch) -> None:
        """A batch is done: a body that comes again is answered alike, unless it failed, or was given up before it began."""
        if self._coming.get(digest) is batch:
            del self._coming[digest]
        if batch.done.cancelled() or batch.done.exception() is not None:
            return
        self._taken[digest] = _Taken(replace(batch.received, points=[]), len(batch.points), batch.refused)
        while len(self._taken) > REMEMBERED_MAX:
            self._taken.popitem(last=False)

    def _next(self) -> list[_Batch]:
        """What goes into the next transaction, oldest first. A batch that nobody waits for any more is given up."""
        found: list[_Batch] = []
        points_count = 0
        while self._waiting:
            batch = self._waiting[0]
            if batch.waiters_count:
                points_count += len(batch.points)
                if found and points_count > POINTS_AT_ONCE:
                    break
                batch.has_begun = True
                found.append(batch)
            else:
                batch.done.cancel()
            del self._waiting[0]
        return found

    async def _drain(self) -> None:
        """Write what waits, as much as fits in one transaction at a time, until nothing waits."""
        while batches := self._next():
            try:
                await run_in_threadpool(self._write, batches)
            except BaseException as error:  # whoever waits is told; the next requests try anew
                self._memory = RoundMemory()
                for batch in batches:
                    if not batch.done.done():
                        batch.done.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                for batch in batches:
                    if not batch.done.done():
                        batch.done.set_result(None)

    def _write(self, batches: Sequence[_Batch]) -> None:
        """The facts of the batches in one transaction; the ledgers follow when rounds are posted."""
        ctx = ReadContext(cluster=self._cluster, file=NAME, observed_at=self._clock.now(), settings=self._settings)
        found = Round(NAME, ctx.observed_at, memory=self._memory)
        try:
            found.add(self._facts([point for batch in batches for point in batch.points], ctx))
        except READER_FAULTS:
            self._memory = RoundMemory()  # what it says was said is not stored
            found = Round(NAME, ctx.observed_at, memory=self._memory)
            for batch in batches:
                self._add_alone(batch, found, ctx)
        tables = found.joined()
        self._store_awaited_since = time.monotonic()
        try:
            with self._store.transaction():
                self._store_awaited_since = None
                if self._store.append_tables(tables).new:
                    self._store.mark_collected()
        finally:
            self._store_awaited_since = None

    def _add_alone(self, batch: _Batch, found: Round, ctx: ReadContext) -> None:
        """One batch by itself: where a reader fails on it, the finding goes in and nothing else of it."""
        try:
            facts = list(self._facts(batch.points, ctx))
        except READER_FAULTS as error:
            batch.refused = True
            facts = [fault(error, ctx, NAME)]
        found.add(facts)

    def _facts(self, points: Sequence[MetricPoint], ctx: ReadContext) -> Iterator[Fact]:
        for fact in read_points(points, ctx, self._memory, hidden=self._hidden):
            # One scrape comes in many requests: that a source was seen is said once a minute.
            if not isinstance(fact, SourceStatus) or self._memory.is_news(
                f"status/{fact.natural_key}/{fact.status}", fact.occurred_at // MINUTE_US, fact.occurred_at, once=True
            ):
                yield fact


def ingest_endpoints(store: Store, settings: Settings, clock: Clock) -> tuple[Endpoint, ...]:
    """The endpoints by which samples come in, over an open store."""
    return (RemoteWrite(store, clock, settings.cluster, settings.to_read_settings()).endpoint(),)
