"""Calm hours, which one grouping tells, have in the usage ledger what they have stretch by stretch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.ledgers import posting, windows
from steelyard.ledgers.posting import ensure_ledgers
from steelyard.ledgers.registry import USAGE, model_text
from steelyard.store import Store
from tests.ledgers.reference_supply import Row
from tests.ledgers.supply_worlds import BASE, COMMON, HOUR, MINUTE
from tests.ledgers.test_usage_reference import ON_NODE, by_reference, by_sql, held_card

HOURS = 4


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """What the stages of the last window hold can be looked at."""
    with pytest.MonkeyPatch.context() as patch, Store.open_memory() as opened:
        patch.setattr(posting, "_let_go_of_stages", lambda store, ledger: None)
        ensure_ledgers(opened, (USAGE,))
        yield opened


def minute_samples(seed: int, gi: int | None = None) -> list[Fact]:
    """One sample a minute, on the minute, with figures that are unknown, beyond their limits or suspect now and then; some minutes are missing."""
    drawn = random.Random(seed)  # noqa: S311  # worlds, no secrets

    def ratio() -> float | None:
        return drawn.choice([None, 0.0, 1.03, 1.2, -0.1, *[round(drawn.random(), 4) for _ in range(9)]])

    return [
        DeviceSample(
            natural_key=f"GPU-1/{gi}", occurred_at=BASE + minute * MINUTE, device_uuid="GPU-1", gi=gi, interval_us=MINUTE,
            memory_used_mib=drawn.choice([None, -3, 1200, *[drawn.randrange(1000) for _ in range(9)]]), memory_total_mib=1000,
            util_gpu_ratio=ratio(), gr_active_ratio=ratio(), sm_active_ratio=ratio(), dram_active_ratio=ratio(), **COMMON,
        )
        for minute in range(HOURS * 60)
        if drawn.random() > 0.03 and not 2 * 60 <= minute < 2 * 60 + 59
    ]  # fmt: skip


def held(start_minute: int, end_minute: int, **more: Any) -> Row:
    end = BASE + end_minute * MINUTE
    return held_card(started_at=BASE + start_minute * MINUTE, ended_at=end, known_to_at=end, **more)


def process(minute: int, pod_uid: str = "p-9") -> ProcessSample:
    return ProcessSample(
        natural_key="7", occurred_at=BASE + minute * MINUTE, device_uuid="GPU-1", pid=7, pod_uid=pod_uid, memory_used_mib=40,
        interval_us=MINUTE, **COMMON,
    )  # fmt: skip


LATE = DeviceSample(
    natural_key="GPU-1/late", occurred_at=BASE + HOUR + 7 * MINUTE + 1, device_uuid="GPU-1", interval_us=MINUTE, memory_used_mib=5, **COMMON
)  # fmt: skip
AGAIN = DeviceSample(
    **{**COMMON, "source": "other"}, natural_key="GPU-1/again", occurred_at=BASE + 90 * MINUTE, device_uuid="GPU-1", interval_us=MINUTE,
    memory_used_mib=999,
)  # fmt: skip
LONG = DeviceSample(
    natural_key="GPU-1/long", occurred_at=BASE + 119 * MINUTE, device_uuid="GPU-1", interval_us=HOUR, memory_used_mib=999, **COMMON
)  # fmt: skip
WORLDS: dict[str, tuple[list[Fact], list[Row], tuple[int, int]]] = {
    "nobody holds it": ([], [], (4, 4)),
    "one holder throughout": ([], [held(0, 240)], (4, 4)),
    "a holder from hour to hour": ([], [held(60, 180)], (4, 4)),
    "holders who come and go within hours": ([], [held(10, 70), held(70, 200, pod_uid="p2")], (4, 1)),
    "two holders": ([], [held(0, 240, share_ppm=500_000), held(60, 130, pod_uid="p2", share_ppm=500_000)], (4, 3)),
    "a holder on an unknown card of the node": (
        [], [held(0, 240), held(75, 180, pod_uid="p2", place_kind="node", place_id="n1", device_uuid=None)], (4, 3),
    ),
    "processes": ([process(3), process(61)], [held(0, 30)], (4, 1)),
    "processes of the holder itself": ([process(3, "p1"), process(61, "p1")], [held(0, 240)], (4, 4)),
    "processes of somebody who holds nothing": ([process(61), process(63)], [held(0, 240)], (4, 2)),
    "a sample off the minute": ([LATE], [held(0, 240)], (2, 2)),
    "two samples of one instant": ([AGAIN], [held(0, 240)], (2, 2)),
    "a sample that reaches into the next hour": ([LONG], [held(0, 240)], (2, 2)),
    "an instance beside the board": (minute_samples(2, gi=3), [held(0, 240)], (0, 0)),
}  # fmt: skip
"""Facts, holders, and of how many hours the sums tell what the card did, and what its holders did."""


def without_calm(file: str) -> str:
    text = model_text(file)
    return text.replace("$ledger <> 'deviation'", "$ledger = 'none'") if file == "usage_calm.sql" else text


@pytest.mark.parametrize("world", WORLDS)
def test_calm_hours_have_what_they_have_stretch_by_stretch(
    store: Store, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more, holders, calm_hours = WORLDS[world]
    facts = [ON_NODE, *minute_samples(1), *more]
    rows = by_sql(store, facts, holders, HOUR)
    assert store.rows("SELECT count(*), count(*) FILTER (WHERE NOT is_turned) FROM temp.usage_calm") == [calm_hours]
    assert rows == by_reference(store, holders, HOUR)
    monkeypatch.setattr(posting, "model_text", without_calm)
    assert by_sql(store, facts, holders, HOUR) == rows
    assert store.rows("SELECT count(*) FROM temp.usage_calm") == [(0,)]


def test_hours_are_calm_only_where_the_ledgers_grains_are_hours(store: Store) -> None:
    facts = [ON_NODE, *minute_samples(1)]
    rows = by_sql(store, facts, [held(0, 240)], HOUR // 2)
    assert store.rows("SELECT count(*) FROM temp.usage_calm") == [(0,)]
    assert rows == by_reference(store, [held(0, 240)], HOUR // 2)


@pytest.mark.parametrize("world", WORLDS)
def test_windows_of_an_hour_have_what_one_window_has(store: Store, world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    more, holders, _calm_hours = WORLDS[world]
    facts = [ON_NODE, *minute_samples(1), *more]
    whole = by_sql(store, facts, holders, HOUR)
    monkeypatch.setattr(windows, "WINDOW_ROWS_MAX", 1)
    assert by_sql(store, facts, holders, HOUR) == whole
