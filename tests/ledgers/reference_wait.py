"""Kueue's waits the slow way: from the changes of one workload, walked in time, to its segments. Written from the rules, not from the models.

A change is (second, what): ``reserved``/``unreserved`` (QuotaReserved), ``admitted``, ``evicted``, ``deactivated`` (an eviction after which
the request may not wait), ``ready`` (PodsReady), ``finished``. ``backoffs``: until when it was told to stay away. All of it may be told twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

ORDER = ("evicted", "deactivated", "unreserved", "backoff", "reserved", "admitted", "ready", "finished")
"""What comes first of changes that share a second."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One stage; ``end`` None: still so when last seen."""

    stage: str
    start: int
    end: int | None
    by: str | None = None
    unknown: str | None = None


@dataclass
class Walk:
    """Where a workload stands while its changes are walked."""

    created: int
    seen_at: int
    evictions: int
    state: str = "waiting"
    since: int = 0
    admitted: bool = False
    ready: bool = False
    counted: int = 0
    segments: list[Segment] = field(default_factory=list)

    def add(self, stage: str, start: int, end: int | None, by: str | None = None, unknown: str | None = None) -> None:
        self.segments.append(Segment(stage, start, end, by, unknown))


def waits(
    created: int, changes: Iterable[tuple[int, str]], backoffs: Iterable[int], seen_at: int, evictions: int
) -> list[Segment]:
    """The segments of stages ``queue``, ``release_lag``, ``backoff`` and ``admission_check``, in time."""
    told = {(at, what) for at, what in changes} | {(at, "backoff") for at in backoffs}
    walk = Walk(created, seen_at, evictions, since=created)
    for at, what in sorted(told, key=lambda change: (change[0], ORDER.index(change[1]))):
        _step(walk, at, what)
    _last(walk)
    if walk.counted < evictions:  # one that nobody saw may hide in any wait that was seen to end by a reservation
        walk.segments = [
            Segment(each.stage, each.start, each.end, each.by, each.unknown or "evictions_not_seen")
            if each.stage == "queue" and each.end is not None
            else each
            for each in walk.segments
        ]
    return walk.segments


def _step(walk: Walk, at: int, what: str) -> None:
    if walk.state == "over":
        return
    if what == "backoff":
        if walk.state == "waiting" and walk.since != walk.created and at <= walk.seen_at:
            walk.add("backoff", walk.since, at, "requeued")
            walk.since, walk.state = at, "waiting again"
        elif walk.state == "waiting" and walk.since != walk.created:
            walk.state = "staying away"
    elif what == "reserved":
        _reserve(walk, at)
    elif what == "unreserved":
        _release(walk, at)
    elif what in ("evicted", "deactivated"):
        _evict(walk, at, what)
    elif what == "admitted":
        if walk.state == "reserved" and not walk.admitted and at > walk.since:
            walk.add("admission_check", walk.since, at, "admitted")
        walk.admitted = True
    elif what == "finished":
        if walk.state.startswith("waiting"):
            walk.add("queue", walk.since, at, "abandoned")
        walk.state = "over"


def _reserve(walk: Walk, at: int) -> None:
    if walk.state.startswith("waiting"):
        walk.add("queue", walk.since, at, "reserved")
    walk.state, walk.since, walk.admitted = "reserved", at, False


def _evict(walk: Walk, at: int, what: str) -> None:
    walk.counted += 1
    walk.state, walk.since = what, at


def _release(walk: Walk, at: int) -> None:
    if walk.state in ("evicted", "deactivated"):
        walk.add("release_lag", walk.since, at, "released")
        walk.state = "off" if walk.state == "deactivated" else "waiting"
        walk.since = at
    elif walk.state == "reserved":
        walk.counted += 1
        walk.state, walk.since = "waiting", at


def _last(walk: Walk) -> None:
    if walk.state == "staying away":
        walk.add("backoff", walk.since, None)
    elif walk.state.startswith("waiting"):
        walk.add("queue", walk.since, None)
    elif walk.state in ("evicted", "deactivated"):
        walk.add("release_lag", walk.since, None)
