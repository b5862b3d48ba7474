"""How long one read may go on: a bound for whoever takes apart what a target sent, looked at between pieces of work.

A fetch has a deadline of its own, on the network. The trick to know: what is taken apart is measured in processor time of the thread that
does it, so a hostile text cannot hold a round and a busy machine does not refuse a decent one; and a round that is cut from outside ends at
the next piece, however much is left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from steelyard.primitives.errors import SourceUnavailable

Item = TypeVar("Item")

AT_ONCE: Final = 1_024
"""So many points pass between two looks."""


class Cut:
    """A word from another thread: what is under way is to end."""

    def __init__(self) -> None:
        self._said = threading.Event()

    def say(self) -> None:
        """End what is under way. Twice is harmless."""
        self._said.set()

    def check(self) -> None:
        """Raises SourceUnavailable where it was said."""
        if self._said.is_set():
            raise SourceUnavailable("cut short: the round took too long, or its collector was closed")

    def watched(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items; ``check`` is asked before the first and after every ``AT_ONCE`` of them."""
        for number, each in enumerate(items):
            if not number % AT_ONCE:
                self.check()
            yield each


class ReadBound:
    """From now on ``seconds`` of processor time of this thread, and until ``cut``. ``what``: is done within that, for the message."""

    def __init__(self, seconds: float, what: str, cut: Cut | None = None) -> None:
        self._until = time.thread_time() + seconds
        self._seconds = seconds
        self._what = what
        self._cut = cut

    def check(self) -> None:
        """Raises SourceUnavailable where the time is over."""
        if self._cut is not None:
            self._cut.check()
        if time.thread_time() > self._until:
            raise SourceUnavailable(f"{self._what} takes more than {self._seconds:g} s of processor time")
