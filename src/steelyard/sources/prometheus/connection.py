"""The one connection that an ``Asker`` has open, so that it can be cut from another thread.

The trick to know: a second descriptor of the same connection is kept, by which it is shut down whatever layer (TLS too) is reading it.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from steelyard.sources.shared.time_limit import TimeLimit, shut, time_limit


class OpenConnection:
    """Used by one thread that asks; ``cut`` may be called from any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: socket.socket | None = None
        self._is_cut = False

    def note(self, event: str, told: Mapping[str, Any]) -> None:
        """What the client's ``trace`` tells: a new connection takes the place of the one before, which it would have used again if it could."""
        if event != "connection.connect_tcp.complete":
            return
        found = told["return_value"].get_extra_info("socket")
        if not isinstance(found, socket.socket):
            return
        second = socket.socket(found.family, found.type, found.proto, fileno=os.dup(found.fileno()))
        with self._lock:
            before, self._open = self._open, second
            is_cut = self._is_cut
        if before is not None:
            before.close()
        if is_cut:
            self._shut()

    def within(self, seconds: float) -> AbstractContextManager[TimeLimit]:
        """For the length of an exchange: cut the connection after so many seconds."""
        return time_limit(seconds, self._shut)

    def cut(self) -> None:
        """End what is under way, and whatever is opened from now on. Twice is harmless."""
        with self._lock:
            self._is_cut = True
        self._shut()
        with self._lock:
            found, self._open = self._open, None
        if found is not None:
            found.close()

    def _shut(self) -> None:
        with self._lock:
            if self._open is not None:
                shut(self._open)
