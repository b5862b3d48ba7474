"""Calls into a driver that may never come back: each has a thread of its own, is waited for in bounds, and can be left behind.

The tricks to know: a thread that hangs in the driver cannot be ended, so it is a daemon, is given nothing more to do until it returns, and
dies with the process; and a caller that waits for many cards waits for all of them at once, so that one that hangs costs one deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.device_driver import CardReading, DriverError, Progress

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StuckCall:
    """A call that has not returned. since: when it was made."""

    call: str
    since: Instant


class Errand(Generic[T]):
    """One job of a worker. ``result``, else ``error``, once ``done`` is set. ``identity``: the card it reads, where it came so far."""

    def __init__(self, job: Callable[[Progress], T], clock: Clock) -> None:
        self._job = job
        self._clock = clock
        self._last = StuckCall("start", clock.now())
        self.done = threading.Event()
        self.result: T | None = None
        self.error: DriverError | None = None
        self.failure: Exception | None = None
        self.identity: CardReading | None = None

    @property
    def last_call(self) -> StuckCall:
        """The call that was made last."""
        return self._last

    def value(self) -> T:
        """The result of a job that is done and did not fail."""
        if self.result is None:
            raise InvariantError("a job that is done has a result or an error")
        return self.result

    def run(self) -> None:
        """Does the job in this thread and sets ``done``, whatever happens."""
        try:
            self.result = self._job(self)
        except DriverError as error:
            self.error = error
        except Exception as error:  # raised again where the round can end with it
            self.failure = error
        finally:
            self.done.set()

    def __call__(self, call: str) -> None:
        """The job is about to make a call."""
        self._last = StuckCall(call, self._clock.now())

    def identified(self, card: CardReading) -> None:
        """The job knows which card it reads."""
        self.identity = card


class DriverWorker(Generic[T]):
    """A thread for the calls about one card (or about the library), one job at a time."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._errands: SimpleQueue[Errand[T] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._current: Errand[T] | None = None

    @property
    def stuck(self) -> StuckCall | None:
        """The call in which the last job still hangs, or None where the thread is free."""
        current = self._current
        return current.last_call if current is not None and not current.done.is_set() else None

    @property
    def last(self) -> Errand[T]:
        """The last job."""
        if self._current is None:
            raise InvariantError("a worker that was given nothing has no last job")
        return self._current

    def start(self, job: Callable[[Progress], T]) -> Errand[T] | None:
        """Begins a job; None where the last one has not returned."""
        if self.stuck is not None:
            return None
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        errand = Errand(job, self._clock)
        self._current = errand
        self._errands.put(errand)
        return errand

    def end(self) -> None:
        """Lets the thread go when it is free again."""
        self._errands.put(None)

    def _work(self) -> None:
        while (errand := self._errands.get()) is not None:
            errand.run()


def wait_for(errands: Iterable[Errand[T]], seconds: float) -> None:
    """Waits until all are done or ``seconds`` have passed since the call, whichever comes first."""
    until = time.monotonic() + seconds
    for errand in errands:
        errand.done.wait(max(0.0, until - time.monotonic()))
