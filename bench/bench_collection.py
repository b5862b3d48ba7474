"""Bench: a collection round over 1,250 nodes x 8 cards x 25 series (250,000 series) from a real Prometheus, against the least that any must do.

A Prometheus scrapes 1,250 targets, served by ``bench/exporter_crowd.py``; rounds of ``PrometheusCollector`` lie one scrape interval apart, as the
loop runs them: asked, read, appended, posted. The least: the same questions asked anew, each answer through ``orjson.loads``, and rows equal to those
that the round stored into a fresh DuckDB file. Both sides take turns in one process; the ratio is that of the medians, without the posting.
Run: ``python -m bench.bench_collection --nodes 1250 --repeat 5`` (about five minutes; Debian's package ``prometheus``).
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import httpx
import orjson
import pyarrow as pa

from bench.bench_exposition import CARDS, FIELDS
from steelyard.app.collectors.prometheus import PrometheusCollector
from steelyard.app.collectors.rounds import gather
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.app.source_settings import PrometheusSetting
from steelyard.facts.base import Fact
from steelyard.primitives.clock import WallClock
from steelyard.sources.prometheus import asking
from steelyard.sources.shared.context import ReadSettings
from steelyard.sources.shared.round_memory import RoundMemory
from steelyard.store import Store

RATIO_MAX = 4.0
PEAK_MIB_MAX = 2_048
_READY_SECONDS = 120.0

Times = dict[str, tuple[float, float]]
"""Part of a round -> (seconds on the wall, seconds of this process's CPU)."""


class Stopwatch:
    """Seconds of the parts of a round, and the questions that were asked meanwhile."""

    def __init__(self) -> None:
        self.parts: Times = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.bytes_count = 0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            known = self.parts.get(name, (0.0, 0.0))
            self.parts[name] = (known[0] + time.perf_counter() - wall, known[1] + time.process_time() - cpu)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While this lasts, the exchanges of every Prometheus client are timed as the part ``query``."""
        real = asking.Asker._exchange

        def timed(asker: asking.Asker, path: str, parameters: Mapping[str, str], method: str) -> Any:
            with self.part("query"):
                found = real(asker, path, parameters, method)
            self.bytes_count += len(found[2])
            self.asked.append((path, dict(parameters)))
            return found

        asking.Asker._exchange = timed  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            asking.Asker._exchange = real  # type: ignore[method-assign]


def measure(nodes: int = 1_250, repeat: int = 5, interval: int = 30) -> dict[str, Any]:
    """Medians of ``repeat`` rounds after one that is not counted: seconds by part, of both sides, memory at its highest, rows."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        crowd = stack.enter_context(_crowd())
        url = stack.enter_context(_prometheus(folder, crowd, nodes, interval))
        setting = PrometheusSetting.model_validate(
            {"name": "bench", "url": url, "interval": f"{interval}s", "timeout": "60s"}
        )
        collector = PrometheusCollector(setting, "default", ReadSettings())
        store = stack.enter_context(Store.open(folder / "data"))
        _await_scrapes(crowd, 4 * nodes)
        memory = RoundMemory()
        before = _peak_mib()
        first, _tables = _round(collector, store, memory)
        peak = _peak_mib()
        ours: list[Stopwatch] = []
        least: list[tuple[float, float]] = []
        rows: list[int] = []
        due = time.monotonic()
        for number in range(repeat):
            due = max(due + interval, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            watch, tables = _round(collector, store, memory)
            ours.append(watch)
            peak = _peak_mib() if number == 0 else peak
            rows.append(sum(table.num_rows for table in tables.values()))
            least.append(_least(url, watch, tables, folder / f"least{number}.duckdb"))
        collector.close()
    return {
        "series": nodes * CARDS * len(FIELDS),
        "answer_bytes": ours[-1].bytes_count,
        "rows": rows[-1],
        **{
            f"{name}_seconds": round(statistics.median(watch.parts[name][0] for watch in ours), 3)
            for name in ("query", "read", "append", "post")
        },
        **{
            f"{name}_cpu_seconds": round(statistics.median(watch.parts[name][1] for watch in ours), 3)
            for name in ("query", "read", "append", "post")
        },
        **_ratios(ours, least),
        "first_round_seconds": round(sum(wall for wall, _cpu in first.parts.values()), 3),
        "peak_mib_before": before,
        "peak_mib": peak,
        "peak_mib_max": PEAK_MIB_MAX,
    }


def _ratios(ours: list[Stopwatch], least: list[tuple[float, float]]) -> dict[str, Any]:
    """Both sides without the posting, on the wall and by CPU."""
    sums = [
        tuple(sum(watch.parts[name][place] for name in ("query", "read", "append")) for place in (0, 1))
        for watch in ours
    ]
    wall, cpu = (statistics.median(each[place] for each in sums) for place in (0, 1))
    least_wall, least_cpu = (statistics.median(each[place] for each in least) for place in (0, 1))
    return {
        "round_seconds": round(wall, 3),
        "round_cpu_seconds": round(cpu, 3),
        "least_seconds": round(least_wall, 3),
        "least_cpu_seconds": round(least_cpu, 3),
        "ratio": round(wall / least_wall, 2),
        "cpu_ratio": round(cpu / least_cpu, 2),
        "ratio_max": RATIO_MAX,
    }


def _round(
    collector: PrometheusCollector, store: Store, memory: RoundMemory
) -> tuple[Stopwatch, Mapping[type[Fact], Any]]:
    """One round, stored and posted as the loop does it."""
    gc.collect()
    watch = Stopwatch()
    with watch.listening(), watch.part("read"):
        found = gather(collector, WallClock().now(), "default", memory)
    assert found.error is None, found.error
    watch.parts["read"] = tuple(  # type: ignore[assignment]
        read - query for read, query in zip(watch.parts["read"], watch.parts["query"], strict=True)
    )
    tables = found.joined()
    with watch.part("append"), store.transaction():
        store.append_tables(tables)
        store.keep_cursor(found.name, found.cursor or "")
        store.mark_collected()
    with watch.part("post"):
        post(store, Settings())
    return watch, tables


def _least(url: str, watch: Stopwatch, tables: Mapping[type[Fact], Any], database: Path) -> tuple[float, float]:
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    with httpx.Client(trust_env=False, timeout=60.0) as client:
        parsed = []
        for path, parameters in watch.asked:
            target = f"{url}/api/v1/{path}"
            reply = client.post(target, data=parameters) if path == "query" else client.get(target, params=parameters)
            parsed.append(orjson.loads(reply.content))
    with duckdb.connect(str(database)) as connection:
        for fact, table in tables.items():
            rows = pa.Table.from_batches(table.to_batches(max_chunksize=16_384))
            connection.register("rows", rows)
            connection.execute(f'CREATE TABLE "{fact.TABLE}" AS SELECT * FROM rows')
            connection.unregister("rows")
    seconds = time.perf_counter() - wall, time.process_time() - cpu
    assert all(each["status"] == "success" for each in parsed)
    return seconds


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@contextmanager
def _crowd() -> Iterator[int]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # children inherit it: a connection for each target
    with subprocess.Popen([sys.executable, "-m", "bench.exporter_crowd"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


@contextmanager
def _prometheus(folder: Path, crowd: int, nodes: int, interval: int) -> Iterator[str]:
    """The address of a Prometheus that scrapes the crowd, each node a target of its own."""
    program = shutil.which("prometheus")
    assert program is not None, "no prometheus here: on Debian, apt-get install prometheus"
    targets = [
        {
            "targets": [f"127.0.0.1:{crowd}"],
            "labels": {"__metrics_path__": f"/node/{node}", "instance": f"gpu-{node:04d}:9400"},
        }
        for node in range(nodes)
    ]
    config = {
        "global": {"scrape_interval": f"{interval}s", "scrape_timeout": "10s"},
        "scrape_configs": [{"job_name": "dcgm", "honor_labels": True, "static_configs": targets}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
    command = [
        program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
        "--web.listen-address=127.0.0.1:0",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield f"http://127.0.0.1:{_port(folder / 'prometheus.log')}"
        finally:
            process.kill()


def _port(log: Path) -> int:
    """The port that it says it listens on, once it is ready."""
    until = time.monotonic() + _READY_SECONDS
    mark = b'Listening on" address=127.0.0.1:'
    while time.monotonic() < until:
        said = log.read_bytes()
        if b"Server is ready" in said and mark in said:
            return int(said.split(mark, 1)[1].split(b"\n", 1)[0].strip())
        time.sleep(0.1)
    raise AssertionError(f"prometheus did not start: {log.read_bytes()[-500:]!r}")


def _await_scrapes(crowd: int, count: int) -> None:
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{crowd}/stats", timeout=60) as answer:
            if json.load(answer)["served"] >= count:
                return
        time.sleep(0.5)


def main(arguments: list[str] | None = None) -> int:
    """Print the figures as one JSON object; exit status 1 where a limit is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_250)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--interval", type=int, default=30, help="seconds from scrape to scrape and from round to round"
    )
    options = parser.parse_args(arguments)
    figures = measure(options.nodes, options.repeat, options.interval)
    print(json.dumps(figures, indent=1))
    return 0 if figures["ratio"] <= RATIO_MAX and figures["peak_mib"] <= PEAK_MIB_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
