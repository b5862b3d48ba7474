"""``POST /ingest/agent``: a node agent delivers a batch, and hears "taken" only once its facts are durable.

``app.wiring`` mounts the endpoint over the open store. Batches that come while a transaction runs go into the next one together, so that a
thousand agents cost few transactions. The trick to know: how far each agent has come is a cursor in the same transaction as its facts, so a
batch that is sent again, because its answer was lost, is acknowledged and changes nothing; what slips past that is the same fact by identity.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from steelyard.app.agent.batch import BODY_BYTES_MAX, MEDIA_TYPE, PROTOCOL, Batch, decode
from steelyard.app.collectors.rounds import Round
from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import SourceMalformed, SourceUnsupported, StoreFailed
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, INSTANT_MAX, MINUTE_US, Instant, format_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.physical_limits import within_limits
from steelyard.sources.shared.round_memory import RoundMemory
from steelyard.surfaces.http_api import Endpoint
from steelyard.surfaces.http_api.admission import AGENTS
from steelyard.surfaces.http_api.problems import Problem, json_response

if TYPE_CHECKING:
    from steelyard.app.settings import Settings
    from steelyard.store import Store

NAME: Final = "agent"
SOURCES: Final = frozenset({"agent", "kernel_log", "pod_resources"})
"""In whose name an agent speaks."""

UNDER_WAY_MAX: Final = 256
AT_ONCE_MAX: Final = 64
"""Batches of one transaction."""

AHEAD_US_MAX: Final = 5 * MINUTE_US
"""An agent's clock may be ahead by so much before it is said."""
DATED_AHEAD_US_MAX: Final = DAY_US
"""What an agent dates later than so long after now is not taken: facts never change, and the ledgers go by the latest of them."""
PATIENCE_SECONDS: Final = 20.0
RETRY_SECONDS: Final = 5
IMPOSSIBLE_SHOWN_MAX: Final = 200
"""So many impossible figures of one batch have a finding each; each figure says itself why it is not known."""

_BODY: Final = {"content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}, "required": True}


class _Mark(msgspec.Struct, frozen=True):
    """How far an agent has come: the sequence of the last batch that was taken of its process ``boot``."""

    boot: str
    sequence: int


@dataclass(slots=True)
class _Delivery:
    """One batch on its way into the store. ``new_count`` None: it had been taken before. ``ahead_count``: facts left out for their dates."""

    batch: Batch
    done: asyncio.Future[None]
    new_count: int | None = 0
    ahead_count: int = 0


class AgentIntake:
    """Takes batches over one open store; its methods are called on the server's event loop. ``patience_seconds``: how long a delivery waits
    for the store before its agent is asked to come again."""

    def __init__(
        self, store: Store, clock: Clock, cluster: str = "default", patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._store = store
        self._clock = clock
        self._cluster = cluster
        self._patience_seconds = patience_seconds
        self._memory = RoundMemory()
        self._marks: dict[str, _Mark | None] = {}
        self._waiting: list[_Delivery] = []
        self._under_way = 0
        self._writing: asyncio.Task[None] | None = None

    def endpoint(self) -> Endpoint:
        """The route."""
        return Endpoint(
            "POST",
            "/ingest/agent",
            self.take,
            AGENTS,
            f"Take a batch of a node agent (protocol {PROTOCOL})",
            body_bytes_max=BODY_BYTES_MAX,
            request_body=_BODY,
        )

    async def take(self, request: Request) -> Response:
        """200 once all is durable; 422 where the body is no batch and never will be; 415 for another protocol; 503 with Retry-After while
        the store is busy or full."""
        if self._under_way >= UNDER_WAY_MAX:
            raise self._busy()
        self._under_way += 1
        try:
            try:
                batch = await run_in_threadpool(decode, await request.body())
            except SourceUnsupported as error:
                raise Problem("unsupported", str(error), status=415) from None
            except SourceMalformed as error:
                raise Problem("malformed", error.message) from None
            delivery = await self._stored(batch)
        finally:
            self._under_way -= 1
        return json_response(
            {
                "sequence": batch.head.sequence,
                "new_count": delivery.new_count or 0,
                "known": delivery.new_count is None,
                "refused_count": batch.refused_count + delivery.ahead_count,
            }
        )

    def _busy(self) -> Problem:
        return Problem(
            "busy",
            _("the store is busy: send again soon"),
            headers={"Retry-After": str(RETRY_SECONDS)},
            retry_after_seconds=RETRY_SECONDS,
        )

    async def _stored(self, batch: Batch) -> _Delivery:
        """Wait until the batch is durable. Raises Problem where that takes too long, or the store has no room."""
        delivery = _Delivery(batch, asyncio.get_running_loop().create_future())
        self._waiting.append(delivery)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._drain())
        try:
            await asyncio.wait_for(delivery.done, self._patience_seconds)
        except (TimeoutError, StoreFailed):
            raise self._busy() from None
        return delivery

    async def _drain(self) -> None:
        """Write what waits, in its order, until nothing waits. A batch that nobody waits for any more is left out."""
        while self._waiting:
            chosen = [each for each in self._waiting[:AT_ONCE_MAX] if not each.done.done()]
            del self._waiting[:AT_ONCE_MAX]
            if await self._written(chosen) or len(chosen) < 2:
                continue
            for each in chosen:
                await self._written([each])

    async def _written(self, deliveries: Sequence[_Delivery]) -> bool:
        """Write these in one transaction and tell who waits; False: a mistake of ours in one of several, so that each is to be tried alone."""
        try:
            await run_in_threadpool(self._write, deliveries)
        except BaseException as error:  # whoever waits is told; the next try anew
            self._memory, self._marks = RoundMemory(), {}  # what they say was said is not stored
            ours = isinstance(error, Exception) and not isinstance(error, StoreFailed)
            if ours and len(deliveries) > 1:
                return False
            if ours:
                traceback.print_exc(file=sys.stderr)
            for each in deliveries:
                if not each.done.done():
                    each.done.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for each in deliveries:
                if not each.done.done():
                    each.done.set_result(None)
        return True

    def _write(self, deliveries: Sequence[_Delivery]) -> None:
        """The facts and marks of the batches in one transaction; the ledgers follow when rounds are posted."""
        now = self._clock.now()
        with self._store.transaction():
            new = 0
            for each in deliveries:
                each.new_count = self._append(each, now)
                new += each.new_count or 0
            if new:
                self._store.mark_collected()

    def _append(self, delivery: _Delivery, now: Instant) -> int | None:
        """How many of its facts were new; None where the batch was taken before."""
        batch = delivery.batch
        head = batch.head
        cluster = head.cluster or self._cluster
        key = f"{NAME}/{cluster}/{head.agent}"
        mark = self._mark(key)
        if mark is not None and mark.boot == head.boot and head.sequence <= mark.sequence:
            return None
        ctx = ReadContext(cluster=cluster, file=f"{NAME}/{head.agent}", node=head.agent, observed_at=now)
        found, told = Round(NAME, now), Round(NAME, now, memory=self._memory)
        ahead = [fact for fact in batch.facts if fact.source in SOURCES and _dated(fact) > now + DATED_AHEAD_US_MAX]
        delivery.ahead_count = len(ahead)
        own = _own(batch.facts, cluster, now)  # an agent says itself how often it says a thing
        possible, impossible = _possible(own, ctx)
        found.add(possible)
        told.add(impossible)
        told.add(_told(batch, ctx, mark, ahead))
        new = self._store.append_tables(found.joined()).new + self._store.append_tables(told.joined()).new
        self._marks[key] = _Mark(head.boot, head.sequence)
        self._store.keep_cursor(key, msgspec.json.encode(self._marks[key]).decode())
        return new

    def _mark(self, key: str) -> _Mark | None:
        if key not in self._marks:
            kept = self._store.cursor(key)
            self._marks[key] = None if kept is None else msgspec.json.decode(kept, type=_Mark)
        return self._marks[key]


def _own(facts: Sequence[Fact], cluster: str, now: Instant) -> Iterator[Fact]:
    """The facts that an agent may state and that can have been seen by ``now``, as facts of the cluster."""
    for fact in facts:
        if fact.source in SOURCES and _dated(fact) <= now + DATED_AHEAD_US_MAX:
            yield fact if fact.cluster == cluster else msgspec.structs.replace(fact, cluster=cluster)


def _possible(facts: Iterable[Fact], ctx: ReadContext) -> tuple[list[Fact], list[Fact]]:
    """The facts without figures that no card can show, and the findings about those, in bounds."""
    kept: list[Fact] = []
    said: list[Fact] = []
    for fact in facts:
        first, *findings = within_limits(fact, ctx, NAME)
        kept.append(first)
        said.extend(findings[: max(0, IMPOSSIBLE_SHOWN_MAX - len(said))])
    return kept, said


def _dated(fact: Fact) -> Instant:
    """The latest instant at which the fact says that somebody saw something."""
    latest = max(fact.occurred_at, fact.observed_at)
    to_at = fact.observed_to_at if isinstance(fact, SourceStatus) else None
    return latest if to_at is None else max(latest, to_at)


def _told(batch: Batch, ctx: ReadContext, mark: _Mark | None, ahead: Sequence[Fact]) -> Iterator[Finding]:
    """What is wrong with a batch although it is taken. ``ahead``: its facts that are left out because they are dated too late."""
    head, subject = batch.head, f"node {batch.head.agent}"
    foreign = sum(fact.source not in SOURCES for fact in batch.facts)
    reasons = [*batch.refused, *([f"{foreign} in the name of a source that is none of an agent's"] if foreign else [])]
    if reasons:
        yield ctx.finding(
            NAME,
            "agent_facts_refused",
            subject,
            f"{batch.refused_count + foreign} facts of batch {head.sequence} were not taken: {'; '.join(reasons)[:500]}",
            evidence={"boot": head.boot, "sequence": head.sequence, "version": head.version},
        )
    expected = mark.sequence + 1 if mark is not None and mark.boot == head.boot else 1
    if head.sequence > expected:
        yield ctx.finding(
            NAME,
            "agent_batches_missing",
            subject,
            "numbers of the agent's batches are missing: its own findings say what was given up; without such, two agents speak for one node",
            evidence={"boot": head.boot, "expected": expected, "found": head.sequence},
        )
    if ahead or head.made_at > ctx.observed_at + AHEAD_US_MAX:
        yield _clock_ahead(batch, ctx, ahead)


def _clock_ahead(batch: Batch, ctx: ReadContext, ahead: Sequence[Fact]) -> Finding:
    """That the node's clock is ahead: an error where facts were left out for it."""
    evidence: dict[str, object] = {"ahead_seconds": (batch.head.made_at - ctx.observed_at) // 1_000_000}
    if ahead:
        latest = min(max(map(_dated, ahead)), INSTANT_MAX)
        evidence |= {"refused_count": len(ahead), "latest": format_instant(latest), "sequence": batch.head.sequence}
    return ctx.finding(
        NAME,
        "agent_clock_ahead",
        f"node {batch.head.agent}",
        "facts dated more than a day after the server's now were left out and do not come again: set the clock of the node (NTP), or the server's"
        if ahead
        else "the node's clock is ahead of the server's: what it sees is dated too late; set both by NTP",
        severity="error" if ahead else "warning",
        evidence=evidence,
    )


def agent_endpoints(store: Store, settings: Settings, clock: Clock) -> tuple[Endpoint, ...]:
    """The endpoints by which node agents deliver, over an open store."""
    return (AgentIntake(store, clock, settings.cluster).endpoint(),)
