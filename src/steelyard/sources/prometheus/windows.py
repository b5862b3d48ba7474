"""Windows cut into pieces that stay the same however often they are cut: the ground for a back-fill that goes on where it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from steelyard.primitives.instant import DurationUs, Window


def chunks_of(window: Window, chunk_us: DurationUs) -> Iterator[Window]:
    """The window's pieces, oldest first; they end at multiples of ``chunk_us`` since the epoch, so a later run cuts at the same instants.

    Raises ValueError for a length that is none.
    """
    if chunk_us <= 0:
        raise ValueError(f"expected a chunk longer than nothing, found {chunk_us} us")
    start = window.start
    while start < window.end:
        end = min((start // chunk_us + 1) * chunk_us, window.end)
        yield Window(start, end)
        start = end


def chunks_from_start(window: Window, chunk_us: DurationUs) -> Iterator[Window]:
    """The window's pieces of one length, counted from its own start; the last may be shorter."""
    start = window.start
    while start < window.end:
        end = min(start + chunk_us, window.end)
        yield Window(start, end)
        start = end


def missing_chunks(window: Window, chunk_us: DurationUs, done: Iterable[Window]) -> Iterator[Window]:
    """The pieces of ``window`` that no window in ``done`` (nor several that touch) covers, oldest first, cut as ``chunks_of`` does."""
    for gap in _gaps(window, done):
        yield from chunks_of(gap, chunk_us)


def _gaps(window: Window, done: Iterable[Window]) -> Iterator[Window]:
    start = window.start
    for each in sorted(done):
        if each.start > start and start < window.end:
            yield Window(start, min(each.start, window.end))
        start = max(start, each.end)
    if start < window.end:
        yield Window(start, window.end)
