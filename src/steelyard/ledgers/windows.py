"""Which hours of a ledger of samples must be computed again, and in which windows: a live estate has hundreds of millions of samples, of which
a round touches the last minutes.

What each hour was computed from stands as one number in ``ledger.<hours>``, written when the hour is posted. The trick to know: a sample stands until
the next one, so an hour whose ground changed draws in its neighbours, as far as the widest gap that a source declares (an hour at least); and
the samples that a window reads reach as far beyond it on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from steelyard.ledgers.emptiness import EmptyTables
from steelyard.ledgers.registry import Ledger, model_text
from steelyard.primitives.instant import HOUR_US, DurationUs, Instant
from steelyard.store import Store

WINDOW_ROWS_MAX: Final = 9_000_000
"""Samples that are computed at once: a bound of memory."""
WINDOW_HOURS_MAX: Final = 24 * 3
"""What holders and waiting requests a window has is bounded by this."""
SAMPLED_HOURS_MAX: Final = 2 * WINDOW_HOURS_MAX
"""The same of ledgers whose windows are bounded by their samples: to plan a window's statements takes 0.14 s of CPU, whatever is in it."""
_UNCUT: Final[DurationUs] = 1 << 62


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """Grains from ``from_us`` up to ``to_us`` are computed, from samples of ``read_from_us`` to ``read_to_us``, both included: never older than the
    history nor beyond the horizon, so that a stage that reads samples need not look at either."""

    from_us: Instant
    to_us: Instant
    read_from_us: Instant
    read_to_us: Instant

    def bound(self) -> Mapping[str, Instant]:
        """The values that a window's stages bind."""
        return asdict(self)


def ensure_hours(store: Store, ledger: Ledger) -> None:
    """The table of the hours that were posted, where the ledger has one."""
    if ledger.hours is not None:
        store.execute(
            f"CREATE TABLE IF NOT EXISTS ledger.{ledger.hours} (basis VARCHAR, hour_at TIMESTAMP, is_open BOOLEAN, ground_no BIGINT)"
        )


def changed_windows(store: Store, ledger: Ledger, basis: str, empty: EmptyTables | None = None) -> list[ReadWindow]:
    """The windows to compute of one ledger, oldest first."""
    hours = changed_hours(store, ledger, basis, empty or EmptyTables(store))
    return [shared for shared, _windows in windows_together(store, [hours])]


def changed_hours(store: Store, ledger: Ledger, basis: str, empty: EmptyTables) -> list[Instant]:
    """The hours whose ground changed, oldest first.

    An hour is drawn in where its ground is not what it was posted from, where it was open and is over, where its samples are gone, or
    where it was posted by another ``basis``.
    """
    now, posted = f"dim.{ledger.hours}", f"ledger.{ledger.hours}"
    empty.build(str(ledger.hours), model_text(f"{ledger.hours}.sql"))
    return [
        int(hour)
        for (hour,) in store.rows(
            f"SELECT DISTINCT epoch_us(hour_at) AS hour_us FROM (SELECT hour_at, is_open, ground_no, count(*) AS sides FROM ("
            f"SELECT hour_at, is_open, ground_no FROM {now} UNION ALL "
            f"SELECT hour_at, is_open, ground_no FROM {posted} WHERE basis = ?) AS both_sides GROUP BY ALL) AS counted "
            "WHERE sides <> 2 ORDER BY hour_us",
            [basis],
        )
    ]


def windows_together(
    store: Store, hours_of: Sequence[Sequence[Instant]], hours_max: int = WINDOW_HOURS_MAX
) -> Iterator[tuple[ReadWindow, list[ReadWindow | None]]]:
    """The windows of several ledgers, each of which has changed hours of its own: what is read for all, and what of it is each one's to compute.

    None: nothing of that window. Between two of its changed hours a ledger may compute some again that did not change.
    """
    hours = sorted({hour for own in hours_of for hour in own})
    if not hours:
        return
    reach = _reach(store)
    oldest, latest = _known_span(store)
    length = _window_length(store, hours[0] - reach, hours[-1] + HOUR_US + reach, hours_max)
    own_spans = [list(spans(own, reach, _UNCUT)) for own in hours_of]
    for start, end in spans(hours, reach, length):
        shared = ReadWindow(start, end, max(start - reach, oldest), min(end + reach, latest))
        yield shared, [_part_of(shared, own) for own in own_spans]


def _part_of(shared: ReadWindow, own: list[tuple[Instant, Instant]]) -> ReadWindow | None:
    """What of a window lies in a ledger's own spans, from the first to the last; those that end before it are taken off the list."""
    while own and own[0][1] <= shared.from_us:
        own.pop(0)
    inside = [(low, high) for low, high in own if low < shared.to_us]
    if not inside:
        return None
    return replace(shared, from_us=max(shared.from_us, inside[0][0]), to_us=min(shared.to_us, inside[-1][1]))


def _window_length(store: Store, from_us: Instant, to_us: Instant, hours_max: int) -> DurationUs:
    """As many whole hours as have ``WINDOW_ROWS_MAX`` samples on average, an hour at least."""
    between = f"occurred_at BETWEEN make_timestamp({from_us}) AND make_timestamp({to_us})"
    samples = store.rows(
        f"SELECT (SELECT count(*) FROM fact.device_sample WHERE {between}) + (SELECT count(*) FROM fact.process_sample WHERE {between})"
    )[0][0]
    hours = (to_us - from_us) // HOUR_US * WINDOW_ROWS_MAX // max(1, int(samples))
    return max(1, min(hours, hours_max)) * HOUR_US


def keep_hours(store: Store, ledger: Ledger, basis: str) -> None:
    """Write down what the hours were posted from."""
    now, posted = f"dim.{ledger.hours}", f"ledger.{ledger.hours}"
    store.execute(
        f"DELETE FROM {posted} AS old WHERE basis <> ? OR NOT EXISTS (SELECT 1 FROM {now} AS new WHERE new.hour_at = old.hour_at "
        "AND new.is_open = old.is_open AND new.ground_no = old.ground_no)",
        [basis],
    )
    store.execute(
        f"INSERT INTO {posted} SELECT ?, hour_at, is_open, ground_no FROM {now} AS new "
        f"WHERE NOT EXISTS (SELECT 1 FROM {posted} AS old WHERE old.hour_at = new.hour_at)",
        [basis],
    )


def spans(hours: Iterable[Instant], reach: DurationUs, length_max: DurationUs) -> Iterator[tuple[Instant, Instant]]:
    """Hours in rising order, each drawn out by ``reach`` (whole hours) on both sides, as windows of ``length_max`` at most that do not overlap."""
    start = end = None
    for hour in hours:
        low, high = hour - reach, hour + HOUR_US + reach
        if end is not None and start is not None and low <= end:
            end = high
            continue
        if start is not None and end is not None:
            yield from _cut(start, end, length_max)
        start, end = low, high
    if start is not None and end is not None:
        yield from _cut(start, end, length_max)


def _cut(start: Instant, end: Instant, length_max: DurationUs) -> Iterator[tuple[Instant, Instant]]:
    for low in range(start, end, length_max):
        yield low, min(end, low + length_max)


def _known_span(store: Store) -> tuple[Instant, Instant]:
    """The instants of which samples are evidence; without facts every instant, as there is nothing to read."""
    found = store.rows("SELECT min(epoch_us(history_from_at)), max(epoch_us(horizon_at)) FROM dim.parameter")[0]
    return (0, 1 << 62) if None in found else (int(found[0]), int(found[1]))


def _reach(store: Store) -> DurationUs:
    """How far a sample may stand for time beyond its own hour, in whole hours."""
    widest = store.rows("SELECT coalesce(max(gap_max_us), 0) FROM dim.usage_gap")[0][0]
    return max(1, -(-int(widest) // HOUR_US)) * HOUR_US
