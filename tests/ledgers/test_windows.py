"""Windows in which ledgers of samples are posted: as long as their samples allow, and shared by ledgers of which each has its own changed hours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steelyard.facts.device_sample import DeviceSample
from steelyard.ledgers import windows
from steelyard.ledgers.posting import PostingParameters, ensure_ledgers, post_ledgers
from steelyard.ledgers.registry import GPU_STATE, HOLDING, SUPPLY, USAGE, WAIT, Ledger
from steelyard.ledgers.windows import windows_together
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.ledgers.supply_worlds import BASE, COMMON, HOUR, MINUTE
from tests.ledgers.test_usage_reference import ON_NODE


@pytest.fixture
def store() -> Iterator[Store]:
    """One card with a sample a minute over six hours, one of them late."""
    with Store.open_memory() as opened:
        ensure_ledgers(opened)
        opened.append([ON_NODE, *(sample(minute) for minute in range(360))])
        post_ledgers(opened, PostingParameters(), clock=FixedClock(BASE + 7 * HOUR), ledgers=(HOLDING, USAGE))
        yield opened


def sample(minute: int) -> DeviceSample:
    return DeviceSample(
        natural_key="GPU-1", occurred_at=BASE + minute * MINUTE + (7 if minute == 130 else 0), device_uuid="GPU-1", interval_us=MINUTE,
        memory_used_mib=700 + minute, memory_total_mib=1000, util_gpu_ratio=0.9, gr_active_ratio=0.8, sm_active_ratio=minute / 400,
        dram_active_ratio=0.1, **COMMON,
    )  # fmt: skip


def hours(*numbers: int) -> list[int]:
    return [BASE + number * HOUR for number in numbers]


SHARED: dict[str, tuple[int, list[list[int]], list[tuple[tuple[int, int], list[tuple[int, int] | None]]]]] = {
    "both changed in the same hours": (10**6, [[1, 2], [1, 2]], [((0, 4), [(0, 4), (0, 4)])]),
    "one changed earlier than the other": (10**6, [[1], [2]], [((0, 4), [(0, 3), (1, 4)])]),
    "far apart each has a window of its own": (
        10**6,
        [[1], [9]],
        [((0, 3), [(0, 3), None]), ((8, 11), [None, (8, 11)])],
    ),
    "cut by the number of samples": (130, [[1, 2], [1]], [((0, 2), [(0, 2), (0, 2)]), ((2, 4), [(2, 4), (2, 3)])]),
    "one with two spans within a window": (10**6, [[1, 6], [1, 2, 3, 4, 5, 6]], [((0, 8), [(0, 8), (0, 8)])]),
    "nothing changed": (10**6, [[], []], []),
}
"""How many samples a window may have; the changed hours of two ledgers; what each shared window spans, and of that each ledger's part."""


@pytest.mark.parametrize("case", SHARED)
def test_ledgers_share_windows_and_compute_of_each_what_is_theirs(
    store: Store, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_max, changed, expected = SHARED[case]
    monkeypatch.setattr(windows, "WINDOW_ROWS_MAX", rows_max)
    found = [
        (
            ((shared.from_us - BASE) // HOUR, (shared.to_us - BASE) // HOUR),
            [part and ((part.from_us - BASE) // HOUR, (part.to_us - BASE) // HOUR) for part in parts],
        )
        for shared, parts in windows_together(store, [hours(*own) for own in changed])
    ]
    assert found == expected


def entries(store: Store, ledgers: tuple[tuple[Ledger, ...], ...]) -> list[list[object]]:
    """What stands in `usage` and `gpu_state` after these postings, one after the other."""
    for ledger in (HOLDING, SUPPLY, WAIT, USAGE, GPU_STATE):
        store.execute(f"DELETE FROM ledger.{ledger.name}_entry")
        if ledger.hours is not None:
            store.execute(f"DELETE FROM ledger.{ledger.hours}")
    for posting in ledgers:
        post_ledgers(store, PostingParameters(), clock=FixedClock(BASE + 7 * HOUR), ledgers=posting)
    return [list(store.rows(f"SELECT * FROM ledger.{name} ORDER BY ALL")) for name in ("usage", "gpu_state")]


def test_ledgers_posted_together_have_what_each_has_posted_alone(store: Store) -> None:
    together = entries(store, ((HOLDING, SUPPLY, USAGE, WAIT, GPU_STATE),))
    assert all(together)
    assert entries(store, ((HOLDING, SUPPLY, WAIT), (GPU_STATE,), (USAGE,))) == together
