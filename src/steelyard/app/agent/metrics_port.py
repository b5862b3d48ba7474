"""``--metrics``: the last round to whoever scrapes it, from one thread, in bounds.

``command`` opens it; ``loop`` hands each round over. The text is made when it is asked for. One request at a time is answered, and one that is
slow is cut short, so that a port that is open to others costs the node nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from socket import AF_INET, AF_INET6, has_dualstack_ipv6
from typing import Any, Final

from steelyard.app.agent.delivery import Delivery
from steelyard.app.agent.exposition import MEDIA_TYPE, Board
from steelyard.app.agent.rounds import Seen
from steelyard.app.agent.spool import Spool
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _

REQUEST_SECONDS: Final = 5.0
_PATHS: Final = frozenset({"/metrics", "/"})


class MetricsPort:
    """Shows rounds at an address. ``spool`` and ``delivery``: how delivery goes is shown too, where there is one."""

    def __init__(self, spool: Spool | None, delivery: Delivery | None) -> None:
        self._board = Board()
        self._lock = threading.Lock()
        self._spool = spool
        self._delivery = delivery
        self._rounds_count = 0
        self._blind_count = 0
        self.port = 0

    @classmethod
    @contextmanager
    def open(cls, address: tuple[str, int], spool: Spool | None, delivery: Delivery | None) -> Iterator[MetricsPort]:
        """Listen until the end. Raises UsageError where the address cannot be taken."""
        found = cls(spool, delivery)
        host, port = address
        try:
            server = _Server(host, port, found)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                _("--metrics {host}:{port}: {reason}").format(host=host, port=port, reason=reason)
            ) from None
        found.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, name="steelyard-metrics", daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            server.server_close()

    def show(self, seen: Seen) -> None:
        """Answer with this round from now on."""
        with self._lock:
            self._board.take(seen.facts)
            self._rounds_count += 1
            self._blind_count = len(seen.blind)

    def text(self) -> bytes:
        """What is answered now."""
        with self._lock:
            return self._board.text(dict(self._own()))

    def _own(self) -> Iterator[tuple[str, tuple[str, float]]]:
        yield "steelyard_agent_rounds_total", ("Rounds since the agent began.", self._rounds_count)
        yield "steelyard_agent_blind_parts", ("Parts that could not be seen in the last round.", self._blind_count)
        if self._spool is not None:
            batches, size = self._spool.size()
            yield "steelyard_agent_spool_batches", ("Batches that wait to be acknowledged.", batches)
            yield "steelyard_agent_spool_bytes", ("Bytes of them.", size)
        if self._delivery is not None:
            standing = self._delivery.standing
            yield "steelyard_agent_delivered_total", ("Batches that were acknowledged.", standing.taken_count)
            yield (
                "steelyard_agent_delivery_failures",
                ("Attempts that failed since the last success.", standing.failures_count),
            )
            if standing.taken_at_seconds is not None:
                age = time.monotonic() - standing.taken_at_seconds
                yield "steelyard_agent_delivered_age_seconds", ("Since the last acknowledgement.", age)


class _Server(HTTPServer):
    """One request after another. A host that is empty means every address."""

    allow_reuse_address = True
    request_queue_size = 16

    def __init__(self, host: str, port: int, shown: MetricsPort) -> None:
        dual = not host and has_dualstack_ipv6()
        self.address_family = AF_INET6 if dual or ":" in host else AF_INET
        self.shown = shown
        super().__init__((host or ("::" if dual else "0.0.0.0"), port), _Handler)  # noqa: S104 (as asked)

    def server_bind(self) -> None:
        """Bind, for both families where the host is empty."""
        if self.address_family == AF_INET6:
            from socket import IPPROTO_IPV6, IPV6_V6ONLY

            self.socket.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 0)
        super(HTTPServer, self).server_bind()  # without asking the resolver for the host's name
        self.server_name, self.server_port = "steelyard-agent", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's trouble."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    timeout = REQUEST_SECONDS
    server_version = f"steelyard-agent/{version('steelyard')}"
    sys_version = ""

    def do_GET(self) -> None:
        """The metrics; 404 elsewhere."""
        if self.path.split("?", 1)[0] not in _PATHS:
            self._answer(404, b"only /metrics is here\n", {"Content-Type": "text/plain"})
            return
        shown = self.server.shown  # type: ignore[attr-defined]  # always ours, and declared as its base
        self._answer(200, shown.text(), {"Content-Type": MEDIA_TYPE})

    def log_message(self, format: str, *arguments: Any) -> None:
        """Scrapes are not logged."""

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
