"""A cluster watched without gaps: every kind listed once, then followed change by change, and drained once per round.

``app`` makes one ``ClusterWatch`` per cluster, calls ``start`` once and ``drain`` per round. Each kind has a thread of its own, so one that
hangs or is refused never holds up another; each has a bounded queue, so a slow round makes the cluster wait and not the memory grow. The
trick to know: coverage is claimed only up to the last proof that the stream was alive and complete (an event, a bookmark, an orderly
end), and a stretch is broken only where a relist was needed, because resuming from the last version replays what was missed.

Sceptic's command: ``kubectl get pods -A -w --output-watch-events``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.clock import Clock, WallClock
from steelyard.primitives.instant import DurationUs, Instant
from steelyard.sources.kube_api.client import ClusterTarget
from steelyard.sources.kube_api.resource_kinds import RESOURCE_KINDS, ResourceKind

STARTING: Final = "starting"
OK: Final = "ok"
NOT_INSTALLED: Final = "not_installed"
FORBIDDEN: Final = "forbidden"
FAILED: Final = "failed"

WATCH_DELETED: Final = "watch_deleted"
RELIST: Final = "relist"


@dataclass(frozen=True, slots=True)
class SeenObject:
    """One version of one object: ``word`` of its kind (``pods``), its JSON text as the server wrote it, and when it was seen.

    object_kind and api_version are what the object itself would say; an item of a list does not say it.
    """

    word: str
    object_kind: str
    api_version: str
    raw: bytes
    seen_at: Instant


@dataclass(frozen=True, slots=True)
class GoneObject:
    """An object that is no more: it was there at ``last_seen_at`` and was not at ``gone_at``.

    basis ``watch_deleted``: the server reported the deletion at ``gone_at`` over a live stream, and last_seen_at is the same instant;
    ``relist``: it went unseen, its end lies between the two.
    """

    word: str
    object_kind: str
    uid: str
    last_seen_at: Instant
    gone_at: Instant
    basis: str


@dataclass(frozen=True, slots=True)
class KindStatus:
    """How one kind is doing at the instant of a round.

    status: ``starting`` (not yet listed to its end), ``ok``, ``not_installed``, ``forbidden`` (``grant`` names what to grant), ``failed``
    (``last_error``). observed_from_at, observed_to_at: the stretch this round adds, seen throughout; both None where it adds none. The
    stretches of successive rounds join where nothing was missed. healthy_since_at: since when the stretches join. listed_at: the last
    complete listing. lag_us: from the last proof to the round. complete: every object of the kind is in the index.
    """

    word: str
    status: str
    api_version: str | None = None
    objects_count: int = 0
    complete: bool = False
    listed_at: Instant | None = None
    healthy_since_at: Instant | None = None
    observed_from_at: Instant | None = None
    observed_to_at: Instant | None = None
    lag_us: DurationUs | None = None
    last_error: str | None = None
    grant: str | None = None
    relists_count: int = 0
    reconnects_count: int = 0
    refused_count: int = 0


@dataclass(frozen=True, slots=True)
class WatchRound:
    """What a cluster did since the last round. ``backlog``: a queue was full, so drain again at once."""

    cluster: str
    at: Instant
    changed: Sequence[SeenObject]
    gone: Sequence[GoneObject]
    kinds: Sequence[KindStatus]
    backlog: bool


@dataclass(frozen=True, slots=True)
class WatchBounds:
    """What a watch may take: entries of a page, bytes of a page, of an object and of a queue, objects of an index, and times in seconds.

    timeout_seconds: how long the server is asked to hold one watch; silence for silence_seconds longer than that is a hanging watch.
    """

    page_limit: int = 500
    page_bytes_max: int = 256 * 1024 * 1024
    object_bytes_max: int = 8 * 1024 * 1024
    queue_bytes_max: int = 16 * 1024 * 1024
    queue_objects_max: int = 20_000
    index_entries_max: int = 1_000_000
    request_seconds: float = 30.0
    timeout_seconds: int = 120
    silence_seconds: float = 15.0
    backoff_seconds: float = 0.5
    backoff_seconds_max: float = 30.0
    reconnects_max: int = 5
    recheck_seconds: float = 300.0


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
        self._kinds = kinds
        self._bounds = bounds or WatchBounds()
        self._clock = clock or WallClock()

    def start(self) -> None:
        """Start one thread per kind. Raises SourceUnavailable where the target's configuration cannot be read."""
        raise NotImplementedError

    def drain(self, at: Instant) -> WatchRound:
        """What was seen since the last drain, without waiting. ``at``: the round's instant."""
        raise NotImplementedError

    def rounds_until_listed(self, deadline_seconds: float) -> Iterator[WatchRound]:
        """Rounds until every kind is listed or known to be out of reach, for a single collection; ends at the deadline at the latest."""
        raise NotImplementedError

    def stop(self) -> None:
        """End all threads and connections; what was not drained is lost and will be listed by the next start."""
        raise NotImplementedError

    def __enter__(self) -> ClusterWatch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
