"""The collection loop: every collector in a thread of its own, on its own schedule, into one writer.

``app.serving`` starts a ``CollectionLoop`` over its open store; ``steelyard collect`` runs one round of the same thing. A source that is slow, down
or wrong keeps its own thread busy and nobody else's: its rounds fail, are said to have failed, and are asked for again after a while that
grows. The trick to know: a collector whose round was lost, or which raised what it should not, is made anew, so that what it remembers
never runs ahead of what is stored.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from steelyard.app.collectors.contract import Collector, Resumable
from steelyard.app.collectors.pace import Moment, PostingPace, Schedule
from steelyard.app.collectors.rounds import Round, failure_facts, gather
from steelyard.app.collectors.writing import RoundWriter
from steelyard.facts.base import Fact
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import SECOND_US, DurationUs, Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.round_memory import RoundMemory
from steelyard.store import Store
from steelyard.surfaces.shared.service_ports import CollectorStatus, CollectReport, RoundReport

__all__ = ["CollectionLoop", "CollectionSpec", "Collector", "CollectorOf", "Resumable"]

CollectorOf = Callable[[], Collector]
"""Makes one collector; called again where its memory can no longer be trusted. It opens nothing yet."""

_CUT_SHORT_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """How to collect. ``post_interval_us``: the least time from one posting to the next. ``round_us_max``: a round that takes longer has
    failed and is cut short (an interval that is longer counts instead). ``grace_us``: how long the end waits for rounds under way."""

    cluster: str = "default"
    post_interval_us: DurationUs = 30 * SECOND_US
    round_us_max: DurationUs = 120 * SECOND_US
    backoff_us_max: DurationUs = 600 * SECOND_US
    grace_us: DurationUs = 15 * SECOND_US


def nothing_configured() -> UsageError:
    """What is said to somebody who wants a round of no source."""
    return UsageError(_("nothing is configured to be collected: name sources in steelyard.toml"))


class CollectionLoop:
    """Implements ``service_ports.Collectors`` over one open store. ``on_request``: rounds are run only when asked for.

    Raises UsageError where two collectors have one name.
    """

    def __init__(
        self,
        store: Store,
        makers: Sequence[CollectorOf],
        post: Callable[[Store], int],
        clock: Clock,
        spec: CollectionSpec | None = None,
        on_request: bool = False,
    ) -> None:
        self._spec = spec or CollectionSpec()
        pace = PostingPace(self._spec.post_interval_us)
        self._writer = RoundWriter(store, post, pace, queue_max=len(makers) + 1)
        self._runners = [_Runner(make, store, self._writer, clock, self._spec, on_request) for make in makers]
        names = [runner.name for runner in self._runners]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(_("two collectors are called {name}: give each a name of its own").format(name=name))

    def start(self) -> None:
        """Begin; returns at once."""
        self._writer.start()
        for runner in self._runners:
            runner.start()

    def stop(self) -> None:
        """Finish the rounds under way within the grace, begin no other, write and post what came in. A round that hangs is left to itself."""
        self._writer.hurry()
        until = _moment() + self._spec.grace_us
        for runner in self._runners:
            runner.tell_to_stop()
        for runner in self._runners:
            runner.join(max(0.0, (until - _moment()) / SECOND_US))
        for runner in self._runners:
            runner.close()
        for runner in self._runners:
            runner.join(_CUT_SHORT_SECONDS)
        self._writer.stop()

    def status(self) -> Sequence[CollectorStatus]:
        """One entry per collector, in the order of the settings. A store that takes nothing is everybody's trouble."""
        trouble = self._writer.trouble
        found = [runner.status() for runner in self._runners]
        return found if trouble is None else [replace(each, state="failing", message=trouble) for each in found]

    def collect_now(self, names: Collection[str]) -> CollectReport:
        """One round of each, now; see ``OneRound``."""
        chosen = self._chosen(names)
        tickets = [(runner, runner.request()) for runner in chosen]
        rounds = [runner.await_round(ticket) for runner, ticket in tickets]
        return CollectReport(rounds, self._writer.post_now())

    def take(self, name: str, facts: Iterable[Fact], at: Instant) -> int:
        """Store what somebody pushed, as one round; how many facts were new. Raises what kept it from being stored: then nothing of it is."""
        found = Round(name, at)
        found.add(facts)
        written = self._writer.store(found)
        if written.error is not None:
            raise written.error
        return written.new_count

    def _chosen(self, names: Collection[str]) -> list[_Runner]:
        sources = [runner for runner in self._runners if not runner.is_upkeep]
        if not self._runners or not (names or sources):
            raise nothing_configured()
        known = {runner.name: runner for runner in self._runners}
        for name in names:
            if name not in known:
                raise UsageError(
                    _("no such collector: {name}; there is {known}").format(name=name[:100], known=", ".join(known))
                )
        return [runner for runner in self._runners if runner.name in names] if names else sources


class _Runner:
    """One collector, its thread, its schedule and how it is doing."""

    def __init__(
        self,
        make: CollectorOf,
        store: Store,
        writer: RoundWriter,
        clock: Clock,
        spec: CollectionSpec,
        on_request: bool,
    ) -> None:
        self._make = make
        self._store = store
        self._writer = writer
        self._clock = clock
        self._spec = spec
        self._on_request = on_request
        self._collector = make()
        self._is_fresh = True
        self._is_doubtful = False
        self._is_cut = False
        self.name = self._collector.name
        self.is_upkeep: bool = getattr(self._collector, "is_upkeep", False)
        backoff_us_max = min(spec.backoff_us_max, getattr(self._collector, "backoff_us_max", spec.backoff_us_max))
        self._schedule = Schedule(self.name, self._collector.interval_us, backoff_us_max)
        self._memory = RoundMemory()
        self._changed = threading.Condition()
        self._stopping = False
        self._requested = self._served = 0
        self._running_since: Moment | None = None
        self._due: Moment = 0
        self._status = CollectorStatus(self.name, "starting")
        self._last = RoundReport(self.name, "failed", message="no round yet")
        self._thread = threading.Thread(target=self._run, name=f"steelyard-{self.name}", daemon=True)

    def start(self) -> None:
        """Begin its rounds."""
        self._due = self._schedule.begin(_moment())
        self._thread.start()

    def tell_to_stop(self) -> None:
        """Begin no other round; returns at once."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, seconds: float) -> None:
        """Wait for its thread to end, so long at most."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def close(self) -> None:
        """Close the collector; what it waits for is cut short."""
        self._is_cut = True
        try:
            self._collector.close()
        except Exception:  # the end of the program goes on, whatever one collector does at its own
            traceback.print_exc()

    def request(self) -> int:
        """Ask for a round that begins after this call; the ticket to wait with."""
        with self._changed:
            self._requested += 1
            self._changed.notify_all()
            return self._requested

    def await_round(self, ticket: int) -> RoundReport:
        """The report of the round that was asked for, or of its not being done in time."""
        seconds = 2 * self._round_us_max() / SECOND_US
        with self._changed:
            if self._changed.wait_for(lambda: self._served >= ticket or self._stopping, seconds):
                if self._served >= ticket:
                    return self._last
                return RoundReport(self.name, "failed", message=_("the server is ending"))
        return RoundReport(
            self.name, "failed", message=_("no answer within {seconds} s").format(seconds=round(seconds))
        )

    def status(self) -> CollectorStatus:
        """How it is doing now."""
        with self._changed:
            found, running_since = self._status, self._running_since
            due_in = self._due - _moment()
        if found.state == "stopped":
            return found
        running_us = 0 if running_since is None else _moment() - running_since
        if running_us > self._round_us_max():
            message = _("a round has been under way for {seconds} s").format(seconds=running_us // SECOND_US)
            return replace(found, state="failing", message=message, next_round_at=None)
        due_at = None if self._on_request or running_since is not None else self._clock.now() + max(0, due_in)
        return replace(found, next_round_at=due_at)

    def _run(self) -> None:
        while (ticket := self._wait()) is not None:
            report, failed, retry_after_us = self._round()
            with self._changed:
                failures = self._status.consecutive_failures_count if failed else 0
                due = self._schedule.after(_moment(), failures, retry_after_us)
                self._due = due.at
                self._status = replace(self._status, skipped_count=self._status.skipped_count + due.skipped_count)
                self._last, self._served = report, ticket
                self._changed.notify_all()
        with self._changed:
            self._status = replace(self._status, state="stopped", next_round_at=None)
            self._changed.notify_all()

    def _wait(self) -> int | None:
        """Until a round is due or asked for: the requests that it will have answered. None = the end."""
        with self._changed:
            while not self._stopping:
                if self._requested > self._served:
                    return self._requested
                wait = (self._due - _moment()) / SECOND_US
                if self._on_request:
                    self._changed.wait()
                elif wait <= 0:
                    return self._requested
                else:
                    self._changed.wait(wait)
        return None

    def _round(self) -> tuple[RoundReport, bool, DurationUs]:
        """One round, stored: its report, whether it failed, and how long the source asked to be left alone."""
        at, began = self._clock.now(), _moment()
        with self._changed:
            self._running_since = began
        watch = threading.Timer(self._round_us_max() / SECOND_US, self._overdue, (at,))
        watch.daemon = True
        watch.start()
        try:
            found = self._gathered(at)
            if (
                found.error is not None and self._is_cut
            ):  # a part of a round: that it was cut has been said, or it is the end
                found = Round(self.name, at, error=found.error, fault=found.fault)
                self._memory = RoundMemory()
            written = self._writer.store(found)
        finally:
            watch.cancel()
            with self._changed:
                self._running_since = None
        lost = written.error
        if found.fault is not None:
            _tell(found.fault)
        if lost is not None:
            _tell(lost)
        self._is_doubtful = self._is_doubtful or found.fault is not None or lost is not None
        message = found.error or "; ".join(found.failed_parts[:3]) or None
        if lost is not None:
            message = _("the round could not be stored: {reason}").format(reason=str(lost)[:300])
        status = "failed" if lost is not None else found.status
        report = RoundReport(
            self.name, status, found.facts_count, written.new_count, dict(sorted(found.findings.items())), message
        )
        self._note(report, at, _moment() - began)
        return report, status == "failed", found.retry_after_us

    def _gathered(self, at: Instant) -> Round:
        try:
            self._make_ready()
        except Exception as error:  # settings that name a file which is gone, a store that cannot be read: the round has failed, no more
            return Round(self.name, at, error=" ".join(str(error).split()) or type(error).__name__)
        return gather(self._collector, at, self._spec.cluster, self._memory)

    def _note(self, report: RoundReport, at: Instant, duration_us: DurationUs) -> None:
        failed = report.status == "failed"
        with self._changed:
            known = self._status
            self._status = replace(
                known,
                state="failing" if failed else report.status,
                rounds_count=known.rounds_count + 1,
                failures_count=known.failures_count + failed,
                consecutive_failures_count=known.consecutive_failures_count + 1 if failed else 0,
                last_round_at=at,
                last_success_at=known.last_success_at if failed else at,
                rows_count=known.rows_count + report.new_count,
                last_duration_us=duration_us,
                message=report.message,
            )

    def _make_ready(self) -> None:
        """A new collector where the old one's memory is in doubt; and the cursor, before its first round."""
        if self._is_doubtful:
            self.close()
            self._collector, self._is_fresh, self._is_doubtful = self._make(), True, False
            self._is_cut = False
        if self._is_fresh and isinstance(self._collector, Resumable):
            with self._store.reader() as reader:
                self._collector.resume(reader.cursor(self.name))
        self._is_fresh = False

    def _overdue(self, at: Instant) -> None:
        """The round that began at ``at`` takes too long: say so in the store, and cut it short."""
        with self._changed:
            if self._running_since is None:
                return
            self._is_doubtful = True
        seconds = self._round_us_max() // SECOND_US
        late = Round(self.name, self._clock.now())
        ctx = ReadContext(cluster=self._spec.cluster, file=self.name, observed_at=late.at)
        message = f"no end of a round within {seconds} s"
        late.add(failure_facts(self._collector, ctx, message, "round_overdue", RoundMemory()))
        self.close()
        self._writer.store(late)

    def _round_us_max(self) -> DurationUs:
        return max(self._spec.round_us_max, self._collector.interval_us)


def _tell(error: BaseException) -> None:
    """A mistake of ours, in full, where whoever runs the server will look."""
    sys.stderr.write("".join(traceback.format_exception(error)))


def _moment() -> Moment:
    return time.monotonic_ns() // 1_000
