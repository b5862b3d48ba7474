"""What a watched cluster hands over: objects seen, objects gone, and how each kind is doing.

``watch.ClusterWatch.drain`` makes one ``WatchRound`` per round, ``app`` turns it into facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.instant import DurationUs, Instant

STARTING: Final = "starting"
OK: Final = "ok"
NOT_INSTALLED: Final = "not_installed"
FORBIDDEN: Final = "forbidden"
FAILED: Final = "failed"

WATCH_DELETED: Final = "watch_deleted"
WATCH_RESUMED: Final = "watch_resumed"
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
    ``watch_resumed``: the server reported it after an interruption; ``relist``: a list did not name it any more. Then its end lies between.
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
    complete listing. lag_us: from the last proof to the round. complete: every object of the kind is known. earlier: stretches (from, to)
    that ended within this round. first_listing_at: only in the round that ends the first listing: what it did not name does not exist.
    last_error: the last trouble, also after it is over. refused_count: objects that could not be read since the start.
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
    earlier: Sequence[tuple[Instant, Instant]] = ()
    first_listing_at: Instant | None = None
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
    """What a watch may take: entries of a page, bytes of a page, of an object and of a queue (per kind), objects of an index (per kind), and
    times in seconds.

    timeout_seconds: how long the server is asked to hold one watch; silence for silence_seconds longer than that is a hanging watch.
    reconnects_max: attempts to resume before everything is listed anew. recheck_seconds: until a kind that is not installed or forbidden is
    tried again. late_seconds: an interruption longer than that makes the instant of a deletion reported right after it uncertain.
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
    late_seconds: float = 5.0
