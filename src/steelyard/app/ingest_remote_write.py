"""``POST /ingest/remote-write``: a Prometheus pushes its samples, and hears "taken" only once their facts are durable.

``app.serving`` mounts the endpoint over its open store. Requests that come while a transaction runs go into the next one together, so a
sender with many shards costs few transactions. The trick to know: what is taken twice is stored once (a sample's stamp is part of its
fact), so whoever did not hear an answer may send again; and a batch that cannot be read is refused for good (400), because a sender
repeats whatever ends in 5xx before it sends anything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import MINUTE_US
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
_NONE_WRITTEN: Final = 0
_BODY: Final = {
    "content": {"application/x-protobuf": {"schema": {"type": "string", "format": "binary"}}},
    "required": True,
}


@dataclass(slots=True)
class _Batch:
    """The samples of one request on their way. ``refused``: a reader failed on them, and a finding says so."""

    points: Sequence[MetricPoint]
    done: asyncio.Future[None]
    refused: bool = False


class RemoteWrite:
    """Takes requests over one open store; its methods are called on the server's event loop. ``patience_seconds``: how long a request waits
    for the store before its sender is asked to come again."""

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
        503 with Retry-After while the store is busy."""
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
            try:
                received = await run_in_threadpool(read_write_request, body)
            except SourceMalformed as error:
                raise Problem("bad_request", error.message, headers=nothing) from None
            del body
            refused = await self._stored(received.points) if received.points else False
        finally:
            self._under_way -= 1
        return self._answer(received, refused)

    def _answer(self, received: Received, refused: bool) -> Response:
        written = written_headers(0 if refused else len(received.points))
        if refused:
            raise Problem("bad_request", _("a reader failed on these samples: a finding says where"), headers=written)
        if received.refused_count:
            raise Problem(
                "bad_request",
                _("{count} samples cannot be taken: {reasons}; the others are stored").format(
                    count=received.refused_count, reasons="; ".join(received.refused)
                ),
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

    async def _stored(self, points: Sequence[MetricPoint]) -> bool:
        """Wait until the points' facts are durable; whether a reader failed on them. Raises Problem where that takes too long."""
        batch = _Batch(points, asyncio.get_running_loop().create_future())
        self._waiting.append(batch)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._drain())
        try:
            await asyncio.wait_for(batch.done, self._patience_seconds)
        except TimeoutError:
            raise self._busy() from None
        return batch.refused

    async def _drain(self) -> None:
        """Write what waits, all of it in one transaction, until nothing waits. A batch that nobody waits for any more is left out."""
        while self._waiting:
            batches = [batch for batch in self._waiting if not batch.done.done()]
            self._waiting.clear()
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
        with self._store.transaction():
            if self._store.append_tables(found.joined()).new:
                self._store.mark_collected()

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
