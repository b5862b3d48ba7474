"""``steelyard backfill`` over a real Prometheus: alone, killed, served, in the background; and which chunks are missing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.backfill_rounds import BackfillCollector
from steelyard.app.backfilling import BackfillJobs, OwnBackfiller, Source, source_of
from steelyard.app.posting import post
from steelyard.app.retention import run_retention
from steelyard.app.settings import Settings, load_settings
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import SourceUnavailable, UsageError
from steelyard.primitives.instant import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    Instant,
    Window,
    format_instant,
    parse_instant,
)
from steelyard.store import Store
from steelyard.surfaces.shared.backfill_ports import BackfillReport, BackfillRequest, FilledChunk
from tests.app.served_directory import MAIN, environment, serving, steelyard
from tests.sources.prometheus.real_prometheus import history

START = parse_instant("2026-03-01T10:00:00Z")
"""The instant of the first sample of the remembered history, which is four hours long."""

HOURS = 4
END = START + HOURS * HOUR_US
CARD = 'gpu="0",UUID="GPU-aaaa",device="nvidia0",modelName="NVIDIA H100",hostname="n1",job="dcgm",instance="n1:9400"'
POD = 'namespace="team-a",pod="train-0",uid="uid-a",job="ksm",instance="ksm:8080"'


def lines() -> Iterator[str]:
    """A card at work and a pod that holds it, four hours, a sample a minute."""
    created = START // SECOND_US - 60
    for at in range(START // SECOND_US, END // SECOND_US, 60):
        for name, labels, value in (
            ("DCGM_FI_DEV_GPU_UTIL", CARD, 40),
            ("DCGM_FI_DEV_FB_USED", CARD, 1000 + at % 100),
            ("kube_pod_info", f'{POD},node="n1",created_by_kind="Job",created_by_name="train",host_ip="10.0.0.1"', 1),
            ("kube_pod_created", POD, created),
            ("kube_pod_status_scheduled_time", POD, created + 5),
            ("kube_pod_start_time", POD, created + 6),
            ("kube_pod_status_phase", f'{POD},phase="Running"', 1),
            ("kube_pod_container_status_running", f'{POD},container="main"', 1),
            ("kube_pod_container_state_started", f'{POD},container="main"', created + 20),
            (
                "kube_pod_container_resource_requests",
                f'{POD},container="main",node="n1",resource="nvidia_com_gpu",unit="integer"',
                1,
            ),
        ):
            yield f"{name}{{{labels}}} {value} {at}"


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that remembers those hours and scrapes nothing."""
    with history(tmp_path_factory.mktemp("history"), lines()) as url:
        yield url


def directory(folder: Path, url: str, more: str = "") -> Path:
    data = folder / "data"
    data.mkdir()
    (data / "steelyard.toml").write_text(
        f'[[prometheus]]\nname = "main"\nurl = "{url}"\ninterval = "1h"\n{more}', encoding="utf-8"
    )
    return data


def settings_of(url: str, **more: Any) -> Settings:
    return Settings.model_validate({"prometheus": [{"name": "main", "url": url, **more}]})


def span() -> list[str]:
    return ["--from", format_instant(START), "--to", format_instant(END)]


def facts(data: Path) -> dict[str, list[tuple[Any, ...]]]:
    with Store.open(data) as store:
        return {
            table: store.rows(f"SELECT fact_id FROM fact.{table} ORDER BY ALL")
            for table in ("device_sample", "request", "grant", "sighting", "source_status")
        }


def test_the_hours_that_a_prometheus_remembers_become_holdings_and_samples_with_a_line_for_each(
    remembering: str, tmp_path: Path
) -> None:
    data = directory(tmp_path, remembering)
    dry = steelyard("backfill", *span(), "--dry-run", "--data", data, "--json", cwd=tmp_path)
    planned = json.loads(dry.stdout)
    assert (planned["state"], planned["chunks_count"], planned["filled"]) == ("planned", HOURS, [])
    assert [part["from"] for part in planned["missing"]] == [format_instant(START + n * HOUR_US) for n in range(HOURS)]
    assert not (data / "steelyard.duckdb").exists(), "a look makes nothing"
    run = steelyard("backfill", *span(), "--data", data, "--json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr.decode()
    told = run.stderr.decode().splitlines()
    assert [line.split(":")[0] for line in told] == [f"{n} of {HOURS}" for n in range(1, HOURS + 1)]
    report = json.loads(run.stdout)
    assert (report["state"], report["filled_count"]) == ("done", HOURS)
    assert report["new_count"] > 0
    assert report["postings_count"] > 0
    with Store.open(data, read_only=True) as store:
        assert not store.has_collected()
        assert store.rows(
            "SELECT DISTINCT confidence FROM fact.device_sample UNION SELECT confidence FROM fact.request"
        ) == [("backfilled",)]
        assert store.rows("SELECT count(*), min(util_gpu_ratio) FROM fact.device_sample") == [(HOURS * 60, 0.4)]
        held = store.rows("SELECT DISTINCT pod_uid FROM fact.grant")
    assert held == [("uid-a",)]
    again = json.loads(steelyard("backfill", *span(), "--data", data, "--json", cwd=tmp_path).stdout)
    assert (again["chunks_count"], again["new_count"], again["postings_count"]) == (0, 0, 0)


def test_without_a_range_it_begins_on_the_first_day_that_is_remembered_and_ends_now(remembering: str) -> None:
    now = END + 3 * DAY_US
    request = BackfillRequest(dry_run=True)
    with Store.open_memory() as store:
        report = BackfillJobs(store, settings_of(remembering), FixedClock(now)).begin(request)
        assert report.window == Window(START // DAY_US * DAY_US, now - MINUTE_US)
        near = settings_of(remembering, backfill={"horizon": "2d"})
        report = BackfillJobs(store, near, FixedClock(now)).begin(request)
        assert report.window == Window(now - MINUTE_US, now - MINUTE_US), "nothing is remembered within the horizon"
        assert report.missing == []


@pytest.mark.parametrize("after", [1, 3])
def test_one_that_is_killed_goes_on_and_ends_as_one_that_was_not(remembering: str, tmp_path: Path, after: int) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()
    data = directory(whole, remembering)
    assert steelyard("backfill", *span(), "--data", data, cwd=tmp_path).returncode == 0
    expected = facts(data)
    data = directory(cut, remembering)
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "backfill", *span(), "--data", data], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment()
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for _ in range(after):
            assert b" of 4: " in process.stderr.readline()
        process.send_signal(signal.SIGKILL)
    with Store.open(data) as store:
        done = len(store.stretches("default", "backfill", "prometheus/main"))
        assert after <= done <= HOURS
    rest = json.loads(steelyard("backfill", *span(), "--data", data, "--json", cwd=tmp_path).stdout)
    assert rest["filled_count"] == HOURS - done
    assert facts(data) == expected


@pytest.mark.xdist_group("serving")
def test_on_a_served_directory_the_server_does_it_and_the_command_follows_or_leaves(
    remembering: str, tmp_path: Path
) -> None:
    data = directory(tmp_path, remembering)
    with serving(data) as server:
        half = ["--from", format_instant(START), "--to", format_instant(START + 2 * HOUR_US)]
        left = json.loads(steelyard("backfill", *half, "--detach", "--data", data, "--json", cwd=tmp_path).stdout)
        assert left["state"] == "running"
        followed = steelyard("backfill", *half, "--data", data, "--json", cwd=tmp_path)
        report = json.loads(followed.stdout)
        assert report["state"] == "done", followed.stderr
        rest = steelyard("backfill", *span(), "--data", data, "--json", cwd=tmp_path)
        assert [line.split(":")[0] for line in rest.stderr.decode().splitlines()] == ["1 of 2", "2 of 2"]
        planned = json.loads(steelyard("backfill", *span(), "--dry-run", "--data", data, "--json", cwd=tmp_path).stdout)
        assert planned["missing"] == []
        wrong = steelyard("backfill", "--prometheus", "none", "--data", data, cwd=tmp_path)
        assert wrong.returncode == 2
        assert b"no such Prometheus: none; there is main" in wrong.stderr
        assert server.end()[0] == 0
    with Store.open(data, read_only=True) as store:
        assert store.rows("SELECT count(*) FROM fact.device_sample") == [(HOURS * 60,)]
        assert not store.has_collected()


@pytest.mark.xdist_group("serving")
def test_a_server_that_is_killed_takes_the_rest_in_after_its_next_start(remembering: str, tmp_path: Path) -> None:
    data = directory(tmp_path, remembering)
    with serving(data) as server:
        with subprocess.Popen(
            [sys.executable, "-c", MAIN, "backfill", *span(), "--data", data], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment()
        ) as follower:  # fmt: skip
            assert follower.stderr is not None
            assert b"1 of 4: " in follower.stderr.readline()
            server.end(signal.SIGKILL)
            follower.communicate()
        assert follower.returncode in (0, 3)
    with serving(data) as server:
        assert steelyard("backfill", *span(), "--data", data, cwd=tmp_path).returncode == 0
        assert server.end()[0] == 0
    with Store.open(data, read_only=True) as store:
        assert store.rows("SELECT count(*), count(DISTINCT occurred_at) FROM fact.device_sample") == [
            (HOURS * 60, HOURS * 60)
        ]
        assert len(store.stretches("default", "backfill", "prometheus/main")) == HOURS


def jobs(store: Store, url: str) -> BackfillJobs:
    return BackfillJobs(store, settings_of(url), FixedClock(END + HOUR_US))


def ended(found: BackfillJobs) -> BackfillReport:
    while (report := found.report("main", 10_000, 5.0)).state == "running":
        pass
    return report


def test_a_second_one_joins_the_first_or_is_told_to_wait_and_a_failure_is_told(remembering: str) -> None:
    request = BackfillRequest("main", START, END)
    with Store.open_memory() as store:
        found = jobs(store, remembering)
        with store.transaction():  # nothing can be stored as long as this thread holds it
            first = found.begin(request)
            assert first.state == "running"
            assert found.begin(BackfillRequest(start=START, end=END)).state == "running"
            assert found.begin(BackfillRequest()).state == "running"
            with pytest.raises(UsageError, match="another stretch"):
                found.begin(BackfillRequest(start=START))
        assert ended(found).state == "done"
        assert [part.window.start for part in found.report("main", 2).filled] == [START + n * HOUR_US for n in (2, 3)]
        assert found.report("main", 2).filled_before == 2
        with pytest.raises(UsageError):
            found.report("other")
        found.stop()
        dead = jobs(store, "http://127.0.0.1:9")
        dead.begin(BackfillRequest("main", START - HOUR_US, END))
        report = ended(dead)
        assert report.state == "failed"
        assert report.message
        assert "127.0.0.1:9" in report.message


def test_a_server_that_ends_does_not_wait_for_it(remembering: str) -> None:
    with Store.open_memory() as store:
        found = jobs(store, remembering)
        with store.transaction():
            found.begin(BackfillRequest("main", START, END))
            found._stopping.set()
        found.stop()
        report = ended(found)
        assert report.state == "failed"
        assert len(report.filled) < HOURS


def collector(store: Store, url: str) -> BackfillCollector:
    settings = settings_of(url, backfill={"horizon": "30d"})
    return BackfillCollector(lambda at: Source.of(settings, settings.prometheus[0], at), MINUTE_US, store)


def stored(found: BackfillCollector, store: Store, at: Instant) -> Window | None:
    """One round, stored as the loop does; the chunk it took."""
    rows = list(found.collect(at))
    store.append(rows)
    statuses = [row for row in rows if isinstance(row, SourceStatus) and row.kind == "backfill"]
    return Window(statuses[0].observed_from_at or 0, statuses[0].observed_to_at or 0) if statuses else None


def test_in_the_background_each_round_takes_the_oldest_missing_chunk_until_none_is_missing(remembering: str) -> None:
    at = END + 2 * MINUTE_US
    day = START // DAY_US * DAY_US
    with Store.open_memory() as store:
        found = collector(store, remembering)
        found.resume(None)
        first = stored(found, store, at)
        again = collector(store, remembering)
        again.resume(found.cursor())
        taken = [first, *(stored(again, store, at + n * MINUTE_US) for n in range(1, 16))]
        parts = [part for part in taken if part is not None]
        assert [part.start for part in parts] == [day + n * HOUR_US for n in range(15)]
        assert parts[-1].end == at - MINUTE_US
        assert taken[-1] is None, "what came after its first round is the rounds' own"
        assert again.cursor() == "[]"
        assert store.rows("SELECT count(*) FROM fact.device_sample") == [(HOURS * 60,)]


def test_in_the_background_the_gap_that_a_server_left_while_it_was_down_is_taken_in_too(remembering: str) -> None:
    with Store.open_memory() as store:
        store.keep_cursor("prometheus/main", str(START + HOUR_US // 2))
        found = collector(store, remembering)
        found.resume("[]")
        taken = [stored(found, store, END) for _ in range(4)]
        assert [part and (part.start, part.end) for part in taken] == [
            (START + HOUR_US // 2, START + HOUR_US),
            (START + HOUR_US, START + 2 * HOUR_US),
            (START + 2 * HOUR_US, START + 3 * HOUR_US),
            None,
        ]
        for text in ("{", "[1]", "null", '["a"]'):
            found.resume(text)
            assert found.cursor() is None


def test_a_day_that_is_being_taken_in_is_not_reduced_or_dropped_before_the_rest_of_it_is_there(
    remembering: str, tmp_path: Path
) -> None:
    settings, now = settings_of(remembering), START // DAY_US * DAY_US + 200 * DAY_US
    half = START + 2 * HOUR_US
    quiet = lambda *_: None  # noqa: E731
    OwnBackfiller(tmp_path, settings, FixedClock(now)).run(BackfillRequest("main", START, half), quiet)
    with Store.open(tmp_path) as store:
        run_retention(store, tmp_path, settings, FixedClock(now + HOUR_US))
        assert store.rows("SELECT count(*) FROM fact.device_sample") == [(2 * 60,)]
    OwnBackfiller(tmp_path, settings, FixedClock(now + HOUR_US)).run(BackfillRequest("main", half, END), quiet)
    with Store.open(tmp_path) as store:
        report = run_retention(store, tmp_path, settings, FixedClock(now + 2 * DAY_US))
        assert report.late_count == 0
        (left,) = store.rows("SELECT count(*) FROM fact.device_sample")[0]
        assert left < 60, "the day after, it goes as any day of its age"


MISTAKES: list[tuple[dict[str, Any], BackfillRequest, str]] = [
    ({}, BackfillRequest(), r"no \[\[prometheus\]\]"),
    ({"a": {}, "b": {}}, BackfillRequest(), "name one of a, b"),
    ({"a": {}}, BackfillRequest("c"), "no such Prometheus: c; there is a"),
    ({"a": {}}, BackfillRequest(chunk_us=SECOND_US), "--chunk"),
]


@pytest.mark.parametrize(("names", "request_", "message"), MISTAKES)
def test_a_mistake_is_one_clear_line(names: dict[str, Any], request_: BackfillRequest, message: str) -> None:
    settings = Settings.model_validate({"prometheus": [{"name": name, "url": "http://n1:9090"} for name in names]})
    with pytest.raises(UsageError, match=message):
        source_of(settings, request_, END)


def test_the_past_of_a_simulated_estate_is_none(tmp_path: Path) -> None:
    (tmp_path / "demo-sources").mkdir()
    (tmp_path / "demo-sources" / "spec.json").write_text("{}")
    with pytest.raises(UsageError, match="simulated"):
        OwnBackfiller(tmp_path, settings_of("http://n1:9090"), FixedClock(END)).run(BackfillRequest(), lambda *_: None)


def test_what_was_taken_in_before_a_failure_is_posted(remembering: str, tmp_path: Path) -> None:
    settings = settings_of(remembering)
    told: list[FilledChunk] = []

    def fail(chunk: FilledChunk, done: int, total: int) -> None:
        told.append(chunk)
        if done == 2:
            raise SourceUnavailable("gone")

    with pytest.raises(SourceUnavailable):
        OwnBackfiller(tmp_path, settings, FixedClock(END + HOUR_US)).run(BackfillRequest("main", START, END), fail)
    with Store.open(tmp_path) as store:
        assert not store.has_collected()
        assert len(store.stretches("default", "backfill", "prometheus/main")) == 2
        assert post(store, settings, FixedClock(END + HOUR_US)) == 0


def test_the_settings_of_a_back_fill_belong_to_their_prometheus(tmp_path: Path) -> None:
    data = directory(tmp_path, "http://n1:9090", '[prometheus.backfill]\nhorizon = "30d"\nchunk = "10m"\n')
    setting = load_settings(data).prometheus[0]
    assert setting.backfill is not None
    assert (setting.backfill.horizon, setting.backfill.chunk, setting.backfill.interval) == (
        30 * DAY_US,
        10 * MINUTE_US,
        MINUTE_US,
    )
    source = Source.of(settings_of("http://n1:9090"), PLAIN, time.time_ns() // 1_000)
    assert (source.horizon_us, source.chunk_us) == (90 * DAY_US, HOUR_US)


PLAIN = settings_of("http://n1:9090").prometheus[0]
