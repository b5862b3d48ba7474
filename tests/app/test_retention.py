"""Samples age without a trace in the books: exported first, then reduced to one a minute, then dropped; again changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from steelyard.app.posting import post
from steelyard.app.retention import LATE, RetentionCollector, run_retention
from steelyard.app.settings import Settings, load_settings
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.registry import FACTS
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import StoreDamaged, UsageError
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from steelyard.store import Store
from steelyard.store import retention as thinning
from steelyard.store.retention import SAMPLES
from tests.app.aged_estate import CARDS, CLOCK, DAYS, FIRST_DAY, SETTINGS, aged, instants, samples
from tests.app.served_directory import serving, steelyard
from tests.store.test_rewriting import FILE_NAME

ROUNDS = len(instants(0))
MINUTES = 90


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return aged(tmp_path_factory.mktemp("aged"))


@pytest.fixture
def data(template: Path, tmp_path: Path) -> Path:
    (tmp_path / FILE_NAME).write_bytes((template / FILE_NAME).read_bytes())
    return tmp_path


@pytest.fixture
def store(data: Path) -> Iterator[Store]:
    with Store.open(data) as opened:
        yield opened


def run(store: Store, data: Path, days_later: int = 0, **more: Any) -> Any:
    return run_retention(store, data, SETTINGS, FixedClock(CLOCK.now() + days_later * DAY_US), **more)


def by_day(store: Store, table: str) -> list[int]:
    found = dict(store.rows(f"SELECT epoch_us(date_trunc('day', occurred_at)), count(*) FROM fact.{table} GROUP BY 1"))
    return [found.get(FIRST_DAY + day * DAY_US, 0) for day in range(DAYS)]


def exported(data: Path, table: str) -> list[str]:
    return [
        fact_id
        for path in sorted((data / "facts" / table).rglob("*.parquet"))
        for fact_id in pq.ParquetFile(path).read(columns=["fact_id"]).column(0).to_pylist()
    ]


def net(store: Store, ledger: str) -> list[tuple[Any, ...]]:
    return store.rows(f"SELECT * FROM ledger.{ledger} ORDER BY ALL")


def test_each_table_has_raw_rows_then_one_a_minute_then_its_witnesses(store: Store, data: Path) -> None:
    report = run(store, data)
    raw = 2 * ROUNDS
    minutes = 2 * MINUTES
    assert by_day(store, "device_sample") == [2, 0, minutes, minutes, raw, raw]
    assert by_day(store, "process_sample")[:2] == [4, 4]
    assert by_day(store, "process_sample")[4:] == [raw, raw]
    assert by_day(store, "partition_sample") == [0, 0, MINUTES, MINUTES, ROUNDS, ROUNDS]
    assert by_day(store, "metric_sample") == [0, 0, minutes, minutes, raw, raw]
    rows = {row.table: row for row in report.tables}
    assert rows["device_sample"].dropped_count == 2 * raw - 2
    assert rows["device_sample"].made_count == 2 * minutes
    assert rows["device_sample"].reduced_count == 2 * raw


def test_every_fact_that_went_is_in_exactly_one_file(store: Store, data: Path) -> None:
    before = {
        fact.TABLE: sorted(fact_id for (fact_id,) in store.rows(f"SELECT fact_id FROM fact.{fact.TABLE}"))
        for fact in FACTS
    }
    run(store, data, days_later=1)
    for fact in FACTS:
        assert sorted(exported(data, fact.TABLE)) == before[fact.TABLE], fact.TABLE
    day = data / "facts" / "device_sample" / "day=2026-11-03"
    (file,) = day.iterdir()
    keys = [(row["natural_key"], row["occurred_at"]) for row in pq.ParquetFile(file).read().to_pylist()]
    assert keys == sorted(keys)
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_minute_is_the_mean_of_its_gauges_the_top_of_its_temperatures_and_the_last_of_its_counters(
    store: Store, data: Path
) -> None:
    minute = FIRST_DAY + 2 * DAY_US + 600 * MINUTE_US
    seen = [sample for at in instants(2) if minute <= at < minute + MINUTE_US for sample in samples(at)]
    cards = [sample for sample in seen if isinstance(sample, DeviceSample) and sample.natural_key == CARDS[0]]
    counters = [sample for sample in seen if getattr(sample, "le", None) == "1"]
    run(store, data)
    (made,) = store.records(
        "SELECT *, epoch_us(occurred_at) AS at FROM fact.device_sample WHERE natural_key = ? AND occurred_at >= make_timestamp(?::BIGINT) "
        "AND occurred_at < make_timestamp(?::BIGINT)",
        [CARDS[0], minute, minute + MINUTE_US],
    )
    assert len(cards) == 4
    assert (made["at"], made["interval_us"]) == (minute, MINUTE_US)
    assert made["memory_used_mib"] == int(sum(c.memory_used_mib or 0 for c in cards) / 4 + 0.5)
    assert made["util_gpu_ratio"] == pytest.approx(sum(c.util_gpu_ratio or 0 for c in cards) / 4)
    assert made["temperature_celsius"] == max(c.temperature_celsius or 0 for c in cards)
    assert made["gr_active_ratio"] is None
    (value,) = store.rows(
        "SELECT value FROM fact.metric_sample WHERE le = '1' AND occurred_at >= make_timestamp(?::BIGINT) "
        "AND occurred_at < make_timestamp(?::BIGINT)",
        [minute, minute + MINUTE_US],
    )
    assert value == (counters[-1].value,)  # type: ignore[attr-defined]


def test_again_nothing_is_exported_removed_or_made(store: Store, data: Path) -> None:
    run(store, data)
    rows = [by_day(store, fact.TABLE) for fact in SAMPLES]
    files = sorted((data / "facts").rglob("*.parquet"))
    again = run(store, data)
    assert all(
        (row.exported_count, row.reduced_count, row.made_count, row.dropped_count) == (0, 0, 0, 0)
        for row in again.tables
    )
    assert [by_day(store, fact.TABLE) for fact in SAMPLES] == rows
    assert sorted((data / "facts").rglob("*.parquet")) == files


def test_a_dry_run_says_what_goes_and_does_nothing(store: Store, data: Path) -> None:
    before = [by_day(store, fact.TABLE) for fact in SAMPLES]
    said = {row.table: row for row in run(store, data, dry_run=True).tables}
    assert [by_day(store, fact.TABLE) for fact in SAMPLES] == before
    assert not (data / "facts").exists()
    done = {row.table: row for row in run(store, data).tables}
    for table, row in done.items():
        told = said[table]
        assert (told.exported_count, told.reduced_count, told.dropped_count) == (
            row.exported_count,
            row.reduced_count,
            row.dropped_count,
        )


def test_the_books_stand_as_they_were_posted(store: Store, data: Path) -> None:
    """Neither the thinning nor the postings after it change a row; a late fact of a day that is still whole does."""
    books = {ledger: net(store, ledger) for ledger in ("holding", "supply", "usage")}
    run(store, data)
    assert {ledger: net(store, ledger) for ledger in books} == books
    thinned = store.rows("SELECT count(DISTINCT day_at) FROM store.thinned WHERE level IN ('reduced', 'dropped')")
    assert thinned[0][0] > 3
    post(store, SETTINGS, CLOCK)
    assert {ledger: net(store, ledger) for ledger in books} == books
    store.append(samples(FIRST_DAY + 700 * MINUTE_US + 30 * SECOND_US)[:1])
    post(store, SETTINGS, CLOCK)
    assert net(store, "usage") == books["usage"]
    store.append(samples(FIRST_DAY + (DAYS - 1) * DAY_US + 700 * MINUTE_US + 30 * SECOND_US)[:1])
    post(store, SETTINGS, CLOCK)
    assert net(store, "usage") != books["usage"]


def test_what_is_reduced_measures_the_same_minutes(store: Store, data: Path) -> None:
    measured = "SELECT cluster, device_uuid, hour_at, minutes_mask FROM dim.measured_hour WHERE hour_at >= make_timestamp(?::BIGINT) ORDER BY ALL"
    kept_from = [FIRST_DAY + 2 * DAY_US]
    before = store.rows(measured, kept_from)
    run(store, data)
    post(store, SETTINGS, CLOCK)
    assert store.rows(measured, kept_from) == before


def test_late_facts_of_an_exported_day_go_to_a_further_file(store: Store, data: Path) -> None:
    run(store, data)
    at = FIRST_DAY + 5 * DAY_US + 700 * MINUTE_US
    late = samples(at)[:1]
    store.append(late)
    report = run(store, data)
    assert {row.table: row.exported_count for row in report.tables}["device_sample"] == 1
    assert len(list((data / "facts" / "device_sample" / "day=2026-11-06").iterdir())) == 2
    assert len(exported(data, "device_sample")) == len(set(exported(data, "device_sample"))) == DAYS * 2 * ROUNDS + 1
    assert report.late_count == 0


def test_late_samples_of_a_reduced_day_are_exported_told_and_reduced_away(store: Store, data: Path) -> None:
    run(store, data)
    rows = by_day(store, "device_sample")
    at = instants(3)[0] + SECOND_US
    store.append(samples(at)[:1])
    run(store, data)
    assert by_day(store, "device_sample") == rows
    assert len(exported(data, "device_sample")) == DAYS * 2 * ROUNDS + 1
    assert store.rows("SELECT subject FROM fact.finding WHERE code = ?", [LATE]) == [("day 2026-11-04",)]


def test_a_run_that_is_cut_off_is_finished_by_the_next(
    store: Store, data: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_given: object) -> None:
        raise KeyboardInterrupt

    for number in (1, 3, 6):
        calls = []
        with monkeypatch.context() as patch:
            real = thinning._mark

            def counted(*given: Any, calls: list[int] = calls, number: int = number, real: Any = real) -> None:
                calls.append(1)
                (stumble if len(calls) == number else real)(*given)

            patch.setattr(thinning, "_mark", counted)
            with pytest.raises(KeyboardInterrupt):
                run(store, data)
    run(store, data)
    other = aged(tmp_path_factory.mktemp("calm"))
    with Store.open(other) as calm:
        run(calm, other)
        for fact in SAMPLES:
            same = f"SELECT fact_id FROM fact.{fact.TABLE} ORDER BY ALL"
            assert store.rows(same) == calm.rows(same)
            assert sorted(exported(data, fact.TABLE)) == sorted(exported(other, fact.TABLE))


def test_an_export_that_cannot_be_read_stops_the_run_before_anything_goes(store: Store, data: Path) -> None:
    before = by_day(store, "device_sample")
    day = data / "facts" / "device_sample" / "day=2026-11-01"
    day.mkdir(parents=True)
    (day / "a.parquet").write_bytes(b"PAR1 this is not")
    with pytest.raises(StoreDamaged):
        run(store, data)
    assert by_day(store, "device_sample") == before


def test_exports_that_were_moved_away_are_written_again_before_anything_goes(store: Store, data: Path) -> None:
    run(store, data)
    (data / "facts").rename(data / "elsewhere")
    run(store, data, days_later=1)
    day = data / "facts" / "device_sample" / "day=2026-11-05"
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in day.iterdir()) == 2 * ROUNDS


def test_the_file_stays_in_proportion_to_what_is_kept(store: Store, data: Path) -> None:
    store.execute(
        "INSERT INTO fact.device_sample BY NAME SELECT * EXCLUDE (number) REPLACE (occurred_at + to_microseconds(1 + number * 100) AS occurred_at, "
        "md5(fact_id || number) AS fact_id) FROM fact.device_sample, (SELECT unnest(range(400)) AS number) AS step"
    )
    store.execute("CHECKPOINT")
    report = run(store, data)
    assert report.compacted
    assert report.bytes_after < 0.6 * report.bytes_before
    with store.reader() as reader:
        assert reader.rows("SELECT count(*) > 0 FROM fact.device_sample") == [(True,)]


def test_the_collector_runs_it_and_yields_nothing(store: Store, data: Path) -> None:
    collector = RetentionCollector(store, data, SETTINGS, CLOCK)
    assert collector.interval_us == DAY_US
    assert list(collector.collect(CLOCK.now())) == []
    assert by_day(store, "partition_sample")[:2] == [0, 0]


def test_samples_that_are_not_booked_yet_are_booked_first(store: Store, data: Path) -> None:
    before = store.rows("SELECT count(*) FROM ledger.usage")
    store.append([DeviceSample(source="dcgm", natural_key="GPU-z", device_uuid="GPU-z", memory_used_mib=5, occurred_at=at, observed_at=at)
                  for at in range(FIRST_DAY + 3 * HOUR_US, FIRST_DAY + 4 * HOUR_US, MINUTE_US)])  # fmt: skip
    store.mark_collected()
    run(store, data)
    assert not store.has_collected()
    assert store.rows("SELECT count(*) FROM ledger.usage") > before


@pytest.mark.parametrize(
    "text", ["raw_days = 0", "raw_days = 20\nminute_days = 10", "free_ratio_min = 2.0", "days = 1"]
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "steelyard.toml").write_text(f"[retention]\n{text}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="retention"):
        load_settings(tmp_path)


def test_the_stock_settings_are_fourteen_and_ninety_days() -> None:
    assert (Settings().retention.raw_days, Settings().retention.minute_days) == (14, 90)


def test_a_server_thins_by_itself_and_on_request(data: Path) -> None:
    with serving(data) as server:
        asked = steelyard("collect", "--only", "maintenance/retention", "--data", data, cwd=data)
        assert (asked.returncode, asked.stderr) == (0, b"")
        assert server.end()[0] == 0
    with Store.open(data) as store:
        assert store.rows("SELECT count(*) > 0 FROM store.thinned WHERE level IN ('reduced', 'dropped')") == [(True,)]
    assert exported(data, "device_sample")
