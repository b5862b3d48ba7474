"""The HTTP/1.1 protocol of one connection, with the bounds that uvicorn's own lacks.

``listening`` gives it to uvicorn. It marks connections of the local socket, closes those that dawdle (a request's head that does not
come, an answer that nobody takes), holds down their number, and refuses what is no HTTP with a problem document. The trick to know: the
timer for a head runs from the moment the last answer was complete and is not set back by bytes that trickle in.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from steelyard.primitives.i18n import _
from steelyard.surfaces.http_api.admission import LOCAL
from steelyard.surfaces.http_api.problems import dumped
from steelyard.surfaces.shared import problems

HEAD_SECONDS: Final = 20.0
WRITE_SECONDS: Final = 60.0
CONNECTIONS_MAX: Final = 256
_PEER: Final = struct.Struct("3i")


class BoundedProtocol(H11Protocol):
    """One connection. See the module for its bounds."""

    head_seconds = HEAD_SECONDS
    write_seconds = WRITE_SECONDS
    connections_max = CONNECTIONS_MAX

    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _close_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a stream has this transport
        """Take the connection, or drop it where there are too many or its peer may not use the local socket."""
        super().connection_made(transport)
        local = _is_unix(transport)
        self.app_state = {**self.app_state, LOCAL: local}
        too_many = (
            not local and sum(1 for each in self.connections if not each.app_state.get(LOCAL)) > self.connections_max
        )
        if too_many or (local and not _is_owner(transport)):
            transport.abort()
            return
        self._await_head()
        self._await_close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers with the connection."""
        for timer in (self._head_timer, self._write_timer, self._close_timer):
            self._stop(timer)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """As uvicorn's; a head that has come stops the timer for it."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and not self.cycle.response_complete:
            self._stop(self._head_timer)

    def on_response_complete(self) -> None:
        """As uvicorn's; the time for the next head begins."""
        self._await_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The peer takes nothing at the moment: it has ``write_seconds`` to go on."""
        super().pause_writing()
        self._stop(self._write_timer)
        self._write_timer = self.loop.call_later(self.write_seconds, self._abort)

    def resume_writing(self) -> None:
        """The peer goes on."""
        self._stop(self._write_timer)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has too large a head, and close; where an answer is under way, only close."""
        error = sys.exc_info()[1]
        status = getattr(error, "error_status_hint", 400)
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self._abort()
            return
        kind = "headers_too_large" if status == 431 else "bad_request"
        detail = _("no readable HTTP request: {reason}").format(
            reason=_("its head is too large") if status == 431 else _("see RFC 9112")
        )
        body = dumped(problems.document(kind, detail))
        headers = [
            (b"content-type", problems.MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=problems.KINDS[kind].status, headers=headers),
            h11.Data(body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
        if self.cycle is not None:  # a body broke off in its middle: whoever reads it is told, and answers nobody
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _await_head(self) -> None:
        self._stop(self._head_timer)
        self._head_timer = self.loop.call_later(self.head_seconds, self._abort)

    def _await_close(self) -> None:
        """A connection that was closed, whose last bytes nobody takes, is dropped; others are looked at again later."""
        if self._close_timer is not None and self.transport.is_closing():
            self._abort()
            return
        self._close_timer = self.loop.call_later(self.write_seconds, self._await_close)

    def _abort(self) -> None:
        self.transport.abort()

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


def _is_unix(transport: asyncio.Transport) -> bool:
    found: Any = transport.get_extra_info("socket")
    return found is not None and found.family == socket.AF_UNIX


def _is_owner(transport: asyncio.Transport) -> bool:
    """Whether the peer is this user or root: what the socket's file mode says already, asked of the kernel once more."""
    found: Any = transport.get_extra_info("socket")
    try:
        _pid, user, _group = _PEER.unpack(found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    except (AttributeError, OSError):  # no such option on this system: the file mode alone decides
        return True
    return user in (0, os.geteuid())
