"""``steelyard serve``: one process that holds a data directory, collects, and answers over HTTP and a local socket.

The order is the point: claim the directory, open the store, listen, say where, serve; and back in reverse, so that at every moment a command
either finds the server, waits for it, or opens the file itself. Whatever a killed server left behind is swept at the next start.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from steelyard.app.holding import DirectoryClaim
from steelyard.app.posting import post_what_was_cut_off
from steelyard.app.served import NoCollectors, Served
from steelyard.app.settings import Settings
from steelyard.primitives.clock import Clock, WallClock
from steelyard.store import Store
from steelyard.surfaces.http_api import Endpoint, Listening, create, serve_until_stopped
from steelyard.surfaces.shared.service_ports import Collectors, ServerAddress, Started

SPOOL: Final = "uploads"

CollectorsOf = Callable[[Store, Settings, Clock], Collectors]
"""Makes the collectors over the server's open store: they write with ``append`` from threads of their own."""


def no_collectors(store: Store, settings: Settings, clock: Clock) -> Collectors:
    """Nothing is collected: files come by ``steelyard import`` alone."""
    return NoCollectors()


class DirectoryServer:
    """Implements ``server_ports.Server`` for one data directory. ``further``: endpoints of other parts of the program, over the open store."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        clock: Clock | None = None,
        collectors: CollectorsOf = no_collectors,
        further: Callable[[Store], tuple[Endpoint, ...]] = lambda store: (),
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock or WallClock()
        self._collectors = collectors
        self._further = further

    def run(self, listen: str, started: Started) -> None:
        """Serve until SIGTERM or SIGINT. Raises StoreLocked and UsageError as ``Server`` says; then nothing is left behind."""
        with DirectoryClaim(self._directory) as claim, Store.open(self._directory) as store:
            post_what_was_cut_off(store, self._settings, self._clock)
            spool = _empty_spool(self._directory)
            collectors = self._collectors(store, self._settings, self._clock)
            served = Served(store, self._directory, self._settings, self._clock)
            app = create(served.ports(collectors, spool), self._clock, self._further(store))
            listening = Listening.open(self._directory, listen)
            address = ServerAddress(listening.path, os.getpid(), listening.address, self._clock.now())

            def ready() -> None:
                claim.announce(address)
                collectors.start()
                started(address)

            try:
                serve_until_stopped(app, listening, ready)
            finally:
                claim.withdraw()
                listening.close()
                collectors.stop()
                shutil.rmtree(spool, ignore_errors=True)


def _empty_spool(directory: Path) -> Path:
    """The folder for uploads, without what a killed server had in it, closed to others."""
    spool = directory / SPOOL
    if spool.is_symlink():
        spool.unlink()
    shutil.rmtree(spool, ignore_errors=True)
    spool.mkdir(mode=0o700, exist_ok=True)
    return spool
