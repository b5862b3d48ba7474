"""What every source says every round is thinned to what it says that is new: and nothing that stands on it moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.app.posting import post
from steelyard.app.retention import run_retention
from steelyard.app.settings import Settings
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.grant import Grant
from steelyard.facts.node import Node
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, Instant, parse_instant
from steelyard.store import Store

START = parse_instant("2026-11-01T00:00:00Z")
DAYS = 4
CLOCK = FixedClock(START + DAYS * DAY_US + HOUR_US)
SETTINGS = Settings(retention={"status_days": 1})  # type: ignore[arg-type]
"""Days 0 to 2 are thinned, day 3 stays as it is."""


def status(kind: str, at: Instant, scope: str = "cluster", **more: Any) -> SourceStatus:
    source = {"pods": "kube_api", "nvml": "agent"}.get(kind, "scrape")
    return SourceStatus(
        source=source, natural_key=f"{kind}/{scope}", kind=kind, scope=scope, occurred_at=at, observed_at=at, **more
    )


def rounds(step_us: int) -> list[Fact]:
    """A watch that is interrupted once, a scrape that fails for a quarter of an hour, an agent that misses a card for good."""
    found: list[Fact] = []
    broke, failing = START + 30 * HOUR_US, START + 40 * HOUR_US
    for number, at in enumerate(range(START + step_us, START + DAYS * DAY_US, step_us)):
        if not broke <= at < broke + 3 * step_us:
            found.append(
                status(
                    "pods",
                    at,
                    complete=True,
                    objects_count=number % 7,
                    observed_from_at=at - step_us,
                    observed_to_at=at,
                )
            )
        is_failing = failing <= at < failing + 15 * MINUTE_US
        word = (
            {"status": "failed", "message": f"timed out after {number % 9}.1 s"}
            if is_failing
            else {"message": "5 of 5 targets"}
        )
        found.append(status("exposition", at, "job/dcgm", objects_count=1_000 + number, **word))
        found.append(status("nvml", at, "node/n1", complete=True, objects_count=2))
    return found


def estate() -> list[Fact]:
    seen = {"occurred_at": START, "observed_at": START}
    lost = START + 20 * HOUR_US + 13 * MINUTE_US
    found: list[Fact] = [
        Node(source="kube_api", natural_key="n1", node="n1", ready=True, gpu_count=2, **seen),
        status("pods", START, complete=True, objects_count=1),
        Request(
            source="kube_api", natural_key="u1", pod_uid="u1", namespace="t", pod="p", node="n1", phase="Running", created_at=START,
            scheduled_at=START, gpu_count=1, **seen,
        ),
        Grant(
            source="hami", natural_key="u1/c/GPU-a", pod_uid="u1", container="c", scheme="hami", device_uuid="GPU-a", unit_kind="vgpu",
            node="n1", memory_mib=1_024, cores_percent=0, **seen,
        ),
    ]  # fmt: skip
    for at in range(START, START + DAYS * DAY_US, 30 * MINUTE_US):
        for card in ("GPU-a", "GPU-b"):
            if card == "GPU-a" or at < lost:
                found.append(
                    Device(
                        source="agent", natural_key=card, device_uuid=card, node="n1", memory_mib=4_096, basis="inventory",
                        occurred_at=at, observed_at=at,
                    )
                )  # fmt: skip
                found.append(status("nvml", at, "node/n1", complete=True, objects_count=2))
    return found


def filled(folder: Path, step_us: int) -> Store:
    store = Store.open(folder)
    store.append([*estate(), *rounds(step_us)])
    post(store, SETTINGS, CLOCK)
    return store


def thin(store: Store, folder: Path, **more: Any) -> Any:
    return run_retention(store, folder, SETTINGS, CLOCK, **more)


def kept(store: Store, kind: str, days: int = 3) -> int:
    return int(
        store.rows(
            "SELECT count(*) FROM fact.source_status WHERE kind = ? AND occurred_at < make_timestamp(?::BIGINT)",
            [kind, START + days * DAY_US],
        )[0][0]
    )


def covered(store: Store) -> list[tuple[Any, ...]]:
    """What was seen throughout, joined."""
    stretches = store.rows(
        "SELECT epoch_us(observed_from_at), epoch_us(observed_to_at) FROM fact.source_status WHERE kind = 'pods' "
        "AND observed_to_at IS NOT NULL ORDER BY 1, 2"
    )
    joined: list[tuple[int, int]] = []
    for start, end in stretches:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def books(store: Store) -> list[list[tuple[Any, ...]]]:
    return [
        store.rows(f"SELECT * FROM ledger.{name} ORDER BY ALL") for name in ("holding", "supply", "usage", "finding")
    ]


def test_nothing_that_stands_on_the_rounds_moves(tmp_path: Path) -> None:
    with filled(tmp_path, 2 * MINUTE_US) as store:
        before, seen, spans = books(store), covered(store), store.rows("SELECT * FROM dim.known_span ORDER BY ALL")
        cards = store.rows("SELECT * FROM dim.device ORDER BY ALL")
        assert [
            row[-2:]
            for row in store.rows(
                "SELECT device_uuid, gone_by_at, gone_code FROM dim.device WHERE gone_by_at IS NOT NULL"
            )
        ]
        thin(store, tmp_path)
        store.mark_unposted()
        post(store, SETTINGS, CLOCK)
        assert len(seen) == 2, "one interruption"
        assert covered(store) == seen
        assert books(store) == before
        assert store.rows("SELECT * FROM dim.known_span ORDER BY ALL") == spans
        assert store.rows("SELECT * FROM dim.device ORDER BY ALL") == cards


def test_what_is_kept_grows_with_what_happens_and_not_with_how_often_one_looks(tmp_path: Path) -> None:
    sizes = []
    for step in (4 * MINUTE_US, MINUTE_US):
        folder = tmp_path / str(step)
        folder.mkdir()
        with filled(folder, step) as store:
            assert kept(store, "exposition") >= 3 * DAY_US // step - 1
            thin(store, folder)
            sizes.append({kind: kept(store, kind) for kind in ("pods", "exposition", "nvml")})
            assert kept(store, "exposition", DAYS) - kept(store, "exposition") == DAY_US // step, (
                "a day of late is as it was"
            )
    assert all(abs(sizes[0][kind] - sizes[1][kind]) <= 2 for kind in sizes[0]), "four times the rounds, the same rows"
    assert all(count <= 3 * (24 + 6) for count in sizes[0].values()), sizes


def test_every_change_keeps_both_its_sides(tmp_path: Path) -> None:
    with filled(tmp_path, 5 * MINUTE_US) as store:
        thin(store, tmp_path)
        found = store.rows(
            "SELECT epoch_us(occurred_at), status FROM fact.source_status WHERE kind = 'exposition' ORDER BY 1"
        )
    failing = START + 40 * HOUR_US
    around = [row for row in found if failing - 5 * MINUTE_US <= row[0] <= failing + 20 * MINUTE_US]
    assert around == [
        (failing - 5 * MINUTE_US, "ok"), (failing, "failed"), (failing + 10 * MINUTE_US, "failed"), (failing + 15 * MINUTE_US, "ok"),
        (failing + 20 * MINUTE_US, "ok"),
    ][: len(around)]  # fmt: skip
    assert len(around) >= 4


def test_what_goes_is_exported_first_told_and_gone_only_once(tmp_path: Path) -> None:
    with filled(tmp_path, 5 * MINUTE_US) as store:
        count = store.rows("SELECT count(*) FROM fact.source_status")[0][0]
        said = {row.table: row for row in thin(store, tmp_path, dry_run=True).tables}["source_status"]
        done = {row.table: row for row in thin(store, tmp_path).tables}["source_status"]
        assert (said.reduced_count, done.dropped_count) == (done.reduced_count, 0)
        left = store.rows("SELECT count(*) FROM fact.source_status")[0][0]
        assert left == count - done.reduced_count + done.made_count
        (written,) = store.rows(
            f"SELECT count(DISTINCT fact_id) FROM read_parquet('{tmp_path}/facts/source_status/*/*.parquet')"
        )
        assert written == (count,)
        told = store.rows(
            "SELECT sum(removed_count) FROM store.thinned WHERE fact_table = 'source_status' AND level = 'reduced'"
        )
        assert told == [(done.reduced_count,)]
        again = {row.table: row for row in thin(store, tmp_path).tables}["source_status"]
        assert (again.exported_count, again.reduced_count, again.made_count) == (0, 0, 0)


@pytest.mark.parametrize(
    "more",
    [{"kind": "trace"}, {"kind": "backfill"}, {"kind": "pods", "complete": True}],
    ids=["traces", "back-fills", "listings of pods"],
)
def test_what_tells_an_absence_or_a_stretch_of_its_own_stays_as_it_was_seen(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    kind = more.pop("kind")
    with filled(tmp_path, HOUR_US) as store:
        extra = [status(kind, START + HOUR_US + number * MINUTE_US, "cluster", **more) for number in range(30)]
        store.append(extra)
        before = kept(store, kind)
        thin(store, tmp_path)
        assert kept(store, kind) == before


def test_two_stretches_of_an_hour_that_touch_are_one_as_many_are(tmp_path: Path) -> None:
    with filled(tmp_path, 30 * MINUTE_US) as store:
        before = covered(store)
        thin(store, tmp_path)
        per_hour = store.rows(
            "SELECT count(*) FROM fact.source_status WHERE kind = 'pods' AND observed_to_at IS NOT NULL "
            "AND occurred_at < make_timestamp(?::BIGINT) GROUP BY date_trunc('hour', occurred_at)",
            [START + 3 * DAY_US],
        )
        assert {count for (count,) in per_hour} == {1}
        assert covered(store) == before
