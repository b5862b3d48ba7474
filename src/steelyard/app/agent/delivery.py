"""Delivery: the oldest batch of the spool to the server, again and again until it is acknowledged, then the next.

A thread of its own, so that no round waits for the network. The trick to know: only the server's own problem document may say that a batch is
wrong for good; whatever else comes back (a proxy's page, a token that was revoked, another version) passes some day, and until then
everything is kept.
"""

from __future__ import annotations

import http.client
import ipaddress
import random
import socket
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from steelyard.app.agent.batch import MEDIA_TYPE, PATH
from steelyard.app.agent.spool import Entry, Spool
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _, ngettext
from steelyard.sources.shared.plain_text import plain

CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 60.0
BACKOFF_SECONDS: Final = 1.0
BACKOFF_SECONDS_MAX: Final = 60.0
TOKEN_BYTES_MAX: Final = 4_096
ANSWER_BYTES_MAX: Final = 65_536
FAULTS_MAX: Final = 20
"""After so many answers in a row that the server made a mistake with this batch, it is set aside."""

_PROBLEM: Final = "urn:steelyard:problem:"
_REFUSALS: Final = frozenset({"malformed", "usage"})


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is. ``path``: what stands before the route, behind a proxy."""

    scheme: str
    host: str
    port: int
    path: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What the server said to one batch. outcome: ``taken``, ``refused`` (never), ``fault`` (a mistake of the server's), ``later``."""

    outcome: str
    reason: str = ""
    retry_after_seconds: float | None = None


class _Problem(msgspec.Struct):
    type: str = ""
    detail: str = ""


def address_of(url: str, insecure_http: bool = False) -> Address:
    """The address of a URL. Raises UsageError for one that is none, and for plain HTTP to another machine unless that is asked for."""
    parts = urlsplit(url.strip())
    try:
        port = parts.port
    except ValueError:
        port = -1
    usable = parts.scheme in ("http", "https") and parts.hostname and port != -1
    if not usable or parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(_("--server: expected https://HOST[:PORT], found {url}").format(url=plain(url)[:200]))
    host = str(parts.hostname)
    if parts.scheme == "http" and not _is_loopback(host) and not insecure_http:
        raise UsageError(
            _(
                "--server: http:// sends the token in the clear to {host}: use https://, or say --insecure-http where the way is protected"
            ).format(host=host)
        )
    return Address(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), parts.path.rstrip("/"))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def token_of(path: Path) -> str:
    """The token in a file; read again for each batch, so that it may be rotated. Raises UsageError where there is none."""
    try:
        with path.open("rb") as file:
            text = file.read(TOKEN_BYTES_MAX + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else _("no token")
        raise UsageError(_("--token-file {path} cannot be read: {reason}").format(path=path, reason=reason)) from None
    if not text or len(text) > TOKEN_BYTES_MAX or any(not 33 <= ord(each) <= 126 for each in text):
        raise UsageError(
            _("--token-file {path}: expected one token, as `steelyard token create` prints it").format(path=path)
        )
    return text


class ServerLink:
    """One kept connection to the server. ``ca_file``: the authorities that vouch for it, None = the system's."""

    def __init__(self, address: Address, token_file: Path | None, ca_file: Path | None = None) -> None:
        self._address = address
        self._token_file = token_file
        self._context: ssl.SSLContext | None = None
        if address.scheme == "https":
            try:
                self._context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
            except (OSError, ssl.SSLError) as error:
                raise UsageError(
                    _("--ca-file {path} cannot be used: {reason}").format(path=ca_file, reason=error)
                ) from None
        self._connection: http.client.HTTPConnection | None = None

    def send(self, body: bytes) -> Told:
        """Deliver one batch. Never raises for what the network or the server does."""
        try:
            headers = {"Content-Type": MEDIA_TYPE, "Accept": "application/json"}
            if self._token_file is not None:
                headers["Authorization"] = f"Bearer {token_of(self._token_file)}"
            for attempt in (1, 2):
                reused = self._connection is not None
                try:
                    return self._exchange(body, headers)
                except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                    self.close()
                    if attempt == 2 or not reused:  # a kept connection may have been closed meanwhile
                        raise
        except (OSError, http.client.HTTPException, UsageError) as error:
            self.close()
            return Told("later", " ".join(plain(str(error) or type(error).__name__).split())[:300])
        raise AssertionError("one of two attempts returns or raises")

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None

    def _exchange(self, body: bytes, headers: dict[str, str]) -> Told:
        connection = self._connection or self._connected()
        connection.request("POST", self._address.path + PATH, body, headers)
        response = connection.getresponse()
        text = response.read(ANSWER_BYTES_MAX + 1)
        if response.will_close or len(text) > ANSWER_BYTES_MAX:
            self.close()
        return _told(response.status, text, response.getheader("Retry-After"))

    def _connected(self) -> http.client.HTTPConnection:
        address = self._address
        connection: http.client.HTTPConnection
        if self._context is not None:
            connection = http.client.HTTPSConnection(
                address.host, address.port, timeout=CONNECT_SECONDS, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=CONNECT_SECONDS)
        connection.connect()
        sock = connection.sock
        if sock is not None:
            sock.settimeout(ANSWER_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        return connection


def _told(status: int, text: bytes, retry_after: str | None) -> Told:
    if status == 200:
        return Told("taken")
    problem = _Problem()
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        problem = msgspec.json.decode(text, type=_Problem)
    kind = problem.type.removeprefix(_PROBLEM) if problem.type.startswith(_PROBLEM) else ""
    reason = f"HTTP {status}: {plain(problem.detail)[:300]}" if kind else f"HTTP {status}, not from a Steelyard server"
    if status == 422 and kind in _REFUSALS:
        return Told("refused", reason)
    if status == 500 and kind == "internal":
        return Told("fault", reason)
    wait = float(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdecimal() else None
    return Told("later", reason, wait)


@dataclass(slots=True)
class Standing:
    """How delivery goes, for whoever asks. Instants by the monotonic clock, in seconds."""

    taken_count: int = 0
    failures_count: int = 0
    trouble: str | None = None
    taken_at_seconds: float | None = None


@dataclass(slots=True)
class Delivery:
    """Sends from a thread between ``start`` and ``stop``. ``say`` tells a person a line."""

    spool: Spool
    link: ServerLink
    say: Callable[[str], None] = lambda line: print(f"steelyard agent: {line}", file=sys.stderr, flush=True)
    backoff_seconds_max: float = BACKOFF_SECONDS_MAX
    standing: Standing = field(default_factory=Standing)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _faults: int = 0

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread = threading.Thread(target=self._run, name="steelyard-delivery", daemon=True)
        self._thread.start()

    def stop(self, grace_seconds: float) -> None:
        """Send what waits for so long at most, then end. What is left stays in the spool."""
        until = time.monotonic() + grace_seconds
        while self.spool.size()[0] and self.standing.trouble is None and time.monotonic() < until:
            time.sleep(0.02)
        self._stopping.set()
        self.spool.wake()
        if self._thread is not None:
            self._thread.join(max(0.1, until - time.monotonic()))

    def _run(self) -> None:
        wait = 0.0
        while not self._stopping.wait(wait):
            try:
                found = self.spool.oldest()
                if found is None:
                    self.spool.wait(5.0)
                    wait = 0.0
                else:
                    wait = self.step(*found)
            except Exception:  # a mistake of ours at one batch must not end the delivery of all
                traceback.print_exc(file=sys.stderr)
                wait = self.backoff_seconds_max
        self.link.close()

    def step(self, entry: Entry, body: bytes) -> float:
        """Send one batch and do what the answer asks for; how long to wait before the next, in seconds."""
        told = self.link.send(body)
        if told.outcome == "fault":
            self._faults += 1
        if told.outcome == "taken":
            self.spool.acknowledge(entry.ordinal)
            self._went_well()
            return 0.0
        if told.outcome == "refused" or self._faults >= FAULTS_MAX:
            self.say(_("a batch was refused and is set aside: {reason}").format(reason=told.reason))
            self.spool.refuse(entry.ordinal, told.reason)
            self._faults = 0
            return 0.0
        standing = self.standing
        standing.failures_count += 1
        if told.reason != standing.trouble:
            self.say(_("not delivered, kept in the spool: {reason}").format(reason=told.reason))
        standing.trouble = told.reason
        pause = min(BACKOFF_SECONDS * (1 << min(standing.failures_count - 1, 10)), self.backoff_seconds_max)
        pause = max(pause, min(told.retry_after_seconds or 0.0, self.backoff_seconds_max))
        return pause * random.uniform(0.75, 1.25)  # noqa: S311 (so that agents do not come all at once)

    def _went_well(self) -> None:
        standing = self.standing
        if standing.trouble is not None:
            waiting = self.spool.size()[0]
            text = ngettext("delivered again: {count} batch waits", "delivered again: {count} batches wait", waiting)
            self.say(text.format(count=waiting))
        standing.trouble, standing.failures_count, self._faults = None, 0, 0
        standing.taken_count += 1
        standing.taken_at_seconds = time.monotonic()
