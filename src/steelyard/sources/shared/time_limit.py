"""How long an exchange with a server may take, as a whole, whatever it does.

The trick to know: a read on a socket waits for its next byte only, so a server that sends a byte now and then is never late. So the limit
ends from another thread what the exchange waits for: it shuts the connection, and the read that waits sees its end.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass(slots=True)
class TimeLimit:
    """Over one exchange. ``is_over``: its ``seconds`` passed, and it was ended."""

    seconds: float
    is_over: bool = False


@contextmanager
def time_limit(seconds: float, end: Callable[[], None]) -> Iterator[TimeLimit]:
    """For the length of an exchange: call ``end`` after so many seconds, in a thread of its own; never once the exchange is over."""
    limit = TimeLimit(seconds)
    lock = threading.Lock()
    ended = False

    def over() -> None:
        with lock:
            if not ended:
                limit.is_over = True
                end()

    timer = threading.Timer(seconds, over)
    timer.daemon = True
    timer.start()
    try:
        yield limit
    finally:
        with lock:
            ended = True
        timer.cancel()


def shut(opened: socket.socket) -> None:
    """End a connection under whoever reads it, of TLS too: that layer is not asked, it may be waiting. A closed one is left as it is."""
    with suppress(OSError, ValueError):
        socket.socket.shutdown(opened, socket.SHUT_RDWR)
