"""Sockets and the loop around the app: the local socket and one TCP address, served until a signal says to stop.

``app.serving`` calls ``Listening.open`` and ``serve_until_stopped``. The trick to know: the local socket is bound under a umask, so there is
no moment in which its file is open to others; and a path too long for a socket address gives way to a short one in a private folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _

SOCKET_FILE: Final = "server.sock"
SOCKET_PATH_BYTES_MAX: Final = 107
DRAIN_SECONDS: Final = 60
THREADS: Final = 24
_BACKLOG: Final = 256
_umask_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Listening:
    """Both sockets, bound and listening: whoever connects before the app runs waits in the queue."""

    local: socket.socket
    remote: socket.socket
    path: Path

    @classmethod
    def open(cls, directory: Path, listen: str) -> Listening:
        """Bind both. A socket file that nobody serves any more is replaced: call this only while the directory is yours.

        Raises UsageError for an address that is none or cannot be listened on.
        """
        remote = _listen_at(listen)
        try:
            path = socket_path(directory)
            local = _bind_local(path)
        except OSError as error:
            remote.close()
            raise UsageError(
                _("cannot make the socket file in {directory}: {reason}").format(
                    directory=directory, reason=error.strerror or error
                )
            ) from error
        return cls(local, remote, path)

    @property
    def address(self) -> str:
        """The HTTP address as a URL, with the port that was really taken."""
        host, port = self.remote.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the HTTP address."""
        host: str = self.remote.getsockname()[0]
        return host == "::1" or host.startswith("127.")

    def close(self) -> None:
        """Let go of both, and of the socket file."""
        for each in (self.local, self.remote):
            each.close()
        self.path.unlink(missing_ok=True)


def address_of(text: str) -> tuple[str, int]:
    """``HOST:PORT``, ``[IPv6]:PORT`` or ``PORT`` as host and port. Raises UsageError for anything else."""
    host, _colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65_535):
        raise UsageError(
            _("--listen: expected HOST:PORT, such as 127.0.0.1:8780; found {text!r}").format(text=text[:80])
        )
    return host, int(port)


def _listen_at(text: str) -> socket.socket:
    host, port = address_of(text)
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            _("--listen {text}: no such address: {reason}").format(text=text[:80], reason=error)
        ) from error
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(_BACKLOG)
        found.setblocking(False)
    except OSError as error:
        found.close()
        raise UsageError(
            _("cannot listen at {text}: {reason}; name another address with --listen").format(
                text=text[:80], reason=error.strerror
            )
        ) from error
    return found


def socket_path(directory: Path) -> Path:
    """Where the socket file of a data directory belongs: in it, or, where that path is too long, in a private folder of the user."""
    path = directory.resolve() / SOCKET_FILE
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        return path
    name = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:24]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folders = [Path(runtime)] if runtime and Path(runtime).is_absolute() else []
    for folder in (*folders, Path("/tmp")):  # noqa: S108 (a folder of mode 0700 below it, checked)
        short = folder / f"steelyard-{os.geteuid()}" / f"{name}.sock"
        if len(os.fsencode(short)) <= SOCKET_PATH_BYTES_MAX and _is_private(short.parent):
            return short
    raise OSError(36, _("its path is too long for a socket, and there is no private folder for a shorter one"))


def _is_private(folder: Path) -> bool:
    """Make the folder; whether it is a real one, ours, and closed to others."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077


def _bind_local(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _umask_lock:
            before = os.umask(0o177)
            try:
                found.bind(str(path))
            finally:
                os.umask(before)
        found.listen(_BACKLOG)
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found


def serve_until_stopped(app: Any, listening: Listening, started: Callable[[], None]) -> None:
    """Serve the app on both sockets until SIGTERM or SIGINT; then finish what is under way, at most ``DRAIN_SECONDS``, and return.

    ``started`` is called once requests are answered. A second SIGINT does not wait for connections. An import that has begun always ends.
    """
    import uvicorn

    from steelyard.surfaces.http_api.bounds import HEAD_BYTES_MAX
    from steelyard.surfaces.http_api.protocol import BoundedProtocol

    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        backlog=_BACKLOG,
    )
    server = _server(config, started)
    asyncio.run(server.serve(sockets=[listening.local, listening.remote]))


def _server(config: Any, started: Callable[[], None]) -> Any:
    import signal
    from types import FrameType

    import anyio.to_thread
    import uvicorn

    class StoppableServer(uvicorn.Server):
        """Tells when it has started; ends by returning, not by raising the signal that stopped it once more."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
            started()

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            if self.should_exit and sig == signal.SIGINT:
                self.force_exit = True
            self.should_exit = True

    return StoppableServer(config)
