"""The open connections of a client that many threads share: which exchange uses which, so that one can be ended from another thread.

``client.ClusterClient`` makes one ``Exchange`` per request and lets the library tell it of its steps. The trick to know: the library tells of a
connection that it opens, and names that of an answer once its head is there, but not the idle one that it takes for a request. So a head
that takes too long over a connection of before ends all connections of which nobody is known to have an answer: the idle ones, which are opened again
when they are needed, and at worst another request of the same server that also waits for its head, which is asked again.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from math import inf
from typing import Any, Final
from weakref import WeakKeyDictionary

from steelyard.sources.shared.time_limit import TimeLimit, shut, time_limit

_OPENED: Final = (".connect_tcp.complete", ".start_tls.complete")
_HEAD_BEGINS: Final = ".receive_response_headers.started"


class Connections:
    """All that one client has open. Safe to use from any thread; nothing is kept alive by being known here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: WeakKeyDictionary[socket.socket, Exchange | None] = WeakKeyDictionary()
        self.is_closed = False

    def used(self, opened: socket.socket, exchange: Exchange | None) -> None:
        """Who uses a connection; None = nobody is known to. One that is opened after ``close`` is shut at once."""
        with self._lock:
            self._users[opened] = exchange
            is_closed = self.is_closed
        if is_closed:
            shut(opened)

    def released(self, exchange: Exchange) -> None:
        """The exchange is over: what it used may be used again."""
        with self._lock:
            for opened in [each for each, user in self._users.items() if user is exchange]:
                self._users[opened] = None

    def shut_unclaimed(self, exchange: Exchange) -> None:
        """End the connections that nobody but the exchange is known to use."""
        with self._lock:
            found = [each for each, user in self._users.items() if user is None or user is exchange]
        for each in found:
            shut(each)

    def close(self) -> None:
        """End all connections; a read that waits in another thread ends at once. Twice is harmless."""
        with self._lock:
            self.is_closed = True
            found = list(self._users)
        for each in found:
            shut(each)


class Exchange:
    """One request with its answer, in the thread that asks. ``head_seconds``: so long it may take, as a whole, until the head of an answer is
    there that is handed on; an answer before that, which asks for another token, is of the same measure for itself."""

    def __init__(self, connections: Connections, head_seconds: float) -> None:
        self._connections = connections
        self._head_seconds = head_seconds
        self._opened: socket.socket | None = None
        self._own: socket.socket | None = None
        self._of_head: TimeLimit | None = None
        self._waiting = ExitStack()

    @property
    def is_late(self) -> bool:
        """Whether it was ended because the head took too long."""
        return self._of_head is not None and self._of_head.is_over

    def note(self, event: str, told: Mapping[str, Any]) -> None:
        """What the library's ``trace`` tells, in the thread that asks."""
        if event.endswith(_OPENED):
            self._opened = self._claimed(told["return_value"])
        elif event.endswith(_HEAD_BEGINS):
            self._waiting.close()
            self._own, self._opened = self._opened, None
            self._of_head = self._waiting.enter_context(time_limit(self._head_seconds, self._end))

    def answered(self, stream: Any) -> None:
        """The head is there, and this is the connection over which the rest comes."""
        self._waiting.close()
        self._own = self._claimed(stream)

    def within(self, seconds: float | None) -> AbstractContextManager[TimeLimit]:
        """For the rest of the answer: end it after so many seconds; None = never."""
        return nullcontext(TimeLimit(inf)) if seconds is None else time_limit(seconds, self._end)

    def close(self) -> None:
        """It is over."""
        self._waiting.close()
        self._own = self._opened = None
        self._connections.released(self)

    def _claimed(self, stream: Any) -> socket.socket | None:
        opened = stream.get_extra_info("socket") if stream is not None else None
        if not isinstance(opened, socket.socket):
            return None
        self._connections.used(opened, self)
        return opened

    def _end(self) -> None:
        if self._own is not None:
            shut(self._own)
        else:
            self._connections.shut_unclaimed(self)
