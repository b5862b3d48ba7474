"""A cluster watched without gaps: every kind listed once, then followed change by change, and drained once per round.

``app`` makes one ``ClusterWatch`` per cluster, calls ``start`` once and ``drain`` per round. Each kind has a thread of its own, so one that
hangs or is refused never holds up another; each has a bounded queue, so a slow round makes the cluster wait and not the memory grow. The
trick to know: coverage is claimed only up to the last proof that the stream was alive and complete (an event, a bookmark, an orderly
end), and a stretch is broken only where a relist was needed, because resuming from the last version replays what was missed.

Sceptic's command: ``kubectl get pods -A -w --output-watch-events``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.primitives.clock import Clock, WallClock
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import Instant
from steelyard.sources.kube_api.client import ClusterClient, ClusterTarget
from steelyard.sources.kube_api.kind_watch import KindWatch
from steelyard.sources.kube_api.resource_kinds import RESOURCE_KINDS, ResourceKind
from steelyard.sources.kube_api.watch_round import (
    FAILED,
    FORBIDDEN,
    NOT_INSTALLED,
    OK,
    RELIST,
    STARTING,
    WATCH_DELETED,
    WATCH_RESUMED,
    GoneObject,
    KindStatus,
    SeenObject,
    WatchBounds,
    WatchRound,
)

__all__ = [
    "FAILED",
    "FORBIDDEN",
    "NOT_INSTALLED",
    "OK",
    "RELIST",
    "STARTING",
    "WATCH_DELETED",
    "WATCH_RESUMED",
    "ClusterTarget",
    "ClusterWatch",
    "GoneObject",
    "KindStatus",
    "SeenObject",
    "WatchBounds",
    "WatchRound",
]

STOP_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.02


class ClusterWatch:
    """One cluster, watched. Safe to drain from one thread while its own threads read."""

    def __init__(
        self,
        target: ClusterTarget,
        kinds: Sequence[ResourceKind] = RESOURCE_KINDS,
        bounds: WatchBounds | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.cluster = target.cluster
        self._target = target
        self._kinds = kinds
        self._bounds = bounds or WatchBounds()
        self._clock = clock or WallClock()
        self._stopping = threading.Event()
        self._client: ClusterClient | None = None
        self._watches: list[KindWatch] = []
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start one thread per kind; returns at once. Raises SourceUnavailable where the target's configuration cannot be used: then it may be
        called again. Once started, again is harmless."""
        if self._client is not None:
            return
        if self._stopping.is_set():
            raise InvariantError("a watch that was stopped is not started again")
        self._client = client = ClusterClient(self._target, self._bounds.request_seconds)
        for kind in self._kinds:
            watch = KindWatch(kind, client, self._bounds, self._clock, self._stopping)
            self._watches.append(watch)
            name = f"watch/{self.cluster}/{kind.word}"
            self._threads.append(threading.Thread(target=watch.run, name=name, daemon=True))
        for thread in self._threads:
            thread.start()

    def drain(self, at: Instant) -> WatchRound:
        """What was seen since the last drain, without waiting. ``at``: the round's instant, now."""
        changed: list[SeenObject] = []
        gone: list[GoneObject] = []
        kinds: list[KindStatus] = []
        backlog = False
        for watch in self._watches:
            seen, ended, status, was_full = watch.drain(at)
            changed.extend(seen)
            gone.extend(ended)
            kinds.append(status)
            backlog = backlog or was_full
        return WatchRound(self.cluster, at, changed, gone, kinds, backlog)

    @property
    def is_settled(self) -> bool:
        """Whether every kind has been listed to its end or is known to be out of reach."""
        return all(watch.is_settled for watch in self._watches)

    def rounds_until_listed(self, deadline_seconds: float) -> Iterator[WatchRound]:
        """Rounds until every kind is listed or known to be out of reach, for a single collection; the last one at the deadline at the latest.
        A kind that is still ``starting`` then was not seen."""
        latest = time.monotonic() + deadline_seconds
        while True:
            settled = self.is_settled or self._stopping.is_set() or time.monotonic() >= latest
            found = self.drain(self._clock.now())
            if settled or found.changed or found.gone:
                yield found
            if settled:
                return
            if not found.backlog:
                self._stopping.wait(_POLL_SECONDS)

    def stop(self) -> None:
        """End all threads and connections within seconds; what was not drained is lost, and the next start lists it. Twice is harmless."""
        self._stopping.set()
        if self._client is not None:
            self._client.close()
        latest = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, latest - time.monotonic()))

    def __enter__(self) -> ClusterWatch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
