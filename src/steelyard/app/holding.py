"""Which process serves a data directory: a lock that dies with its holder, and ``server.json`` beside it.

``app.serving`` takes the ``DirectoryClaim``; ``app.wiring`` asks ``serving_process`` whom a command should talk to. The trick to know: the
lock is the truth and the file only says where, so what a killed server left behind is told apart from a live one without any guess at
process numbers.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Final

from steelyard.primitives.errors import StoreLocked
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import format_instant
from steelyard.surfaces.shared.client import SERVER_FILE, find_server, read_address
from steelyard.surfaces.shared.service_ports import ServerAddress

LOCK_FILE: Final = "server.lock"
_STEP_SECONDS: Final = 0.05
_CLAIM_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 15.0


class DirectoryClaim:
    """While it is held, this process is the server of the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor: int | None = None

    def __enter__(self) -> DirectoryClaim:
        """Take it. Raises StoreLocked, naming the other server, where one has it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        until = time.monotonic() + _CLAIM_SECONDS  # a command that only looks may hold it for a moment
        while not _take(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > until:
                os.close(descriptor)
                raise served_by(self._directory)
            time.sleep(_STEP_SECONDS)
        self._descriptor = descriptor
        return self

    def announce(self, address: ServerAddress) -> None:
        """Write ``server.json``, whole or not at all."""
        content = {
            "socket": str(address.socket),
            "pid": address.pid,
            "address": address.address,
            "started_at": format_instant(address.started_at),
            "version": version("steelyard"),
        }
        unfinished = self._directory / f"{SERVER_FILE}.new"
        unfinished.write_text(json.dumps(content) + "\n", encoding="ascii")
        unfinished.replace(self._directory / SERVER_FILE)

    def withdraw(self) -> None:
        """Remove ``server.json``: no command shall come any more."""
        (self._directory / SERVER_FILE).unlink(missing_ok=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it up; the lock file stays, since another may be waiting for it."""
        self.withdraw()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def serving_process(directory: Path) -> ServerAddress | None:
    """The server to talk to; None where nobody serves the directory.

    Waits a little for a server that is just starting or ending. Raises StoreLocked where the server belongs to another user.
    """
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        found = find_server(directory)
        if found is not None or not is_claimed(directory) or time.monotonic() > until:
            return found
        time.sleep(_STEP_SECONDS)


def is_claimed(directory: Path) -> bool:
    """Whether a server, starting or ending ones too, has the directory."""
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _take(descriptor, fcntl.LOCK_SH)
    except OSError:  # a file system without locks: no server can have claimed it
        return False
    finally:
        os.close(descriptor)


def served_by(directory: Path) -> StoreLocked:
    """The error that says who serves the directory."""
    address = read_address(directory)
    if address is None:
        return StoreLocked(_("{directory} is being served by another process").format(directory=directory))
    return StoreLocked(
        _(
            "{directory} is served by process {pid} at {address}: end it first, or name another directory with --data"
        ).format(directory=directory, pid=address.pid, address=address.address)
    )


def _take(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
