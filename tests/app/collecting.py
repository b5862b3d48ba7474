"""Collectors that do as a test tells them, and a loop over a store in memory that waits for conditions and never sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from steelyard.app.collection import CollectionLoop, CollectionSpec, CollectorOf
from steelyard.facts.base import Fact
from steelyard.facts.metric_sample import MetricSample
from steelyard.primitives.clock import WallClock
from steelyard.primitives.instant import SECOND_US, DurationUs, Instant
from steelyard.store import Store

Act = Callable[[Instant], Iterable[Fact]]

QUICK_US = 20_000
HOUR_US = 3600 * SECOND_US


def sample(key: str, at: Instant, value: float = 1.0) -> MetricSample:
    return MetricSample(
        source="test", natural_key=key, occurred_at=at, observed_at=at, family="queue", metric=key, value=value
    )


class Scripted:
    """A collector that runs ``act`` each round."""

    def __init__(self, name: str, act: Act, interval_us: DurationUs = QUICK_US) -> None:
        self.name = name
        self.source = "test"
        self.interval_us = interval_us
        self.closed = threading.Event()
        self._act = act

    def collect(self, at: Instant) -> Iterable[Fact]:
        return self._act(at)

    def close(self) -> None:
        self.closed.set()


@contextmanager
def collecting(
    makers: Sequence[CollectorOf],
    store: Store | None = None,
    post: Callable[[Store], int] = lambda store: 0,
    spec: CollectionSpec | None = None,
    on_request: bool = False,
) -> Iterator[tuple[CollectionLoop, Store]]:
    opened = store or Store.open_memory()
    loop = CollectionLoop(opened, makers, post, WallClock(), spec or CollectionSpec(), on_request)
    loop.start()
    try:
        yield loop, opened
    finally:
        loop.stop()
