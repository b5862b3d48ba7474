"""Bench: a cluster of 50,000 pods with 200 changes a second, watched for two minutes: lag from the change to its facts, and memory.

The cluster runs in a process of its own (``bench/churning_cluster.py``); a third of the way through it cuts the watch, two thirds through it
forgets all versions, so that everything is listed anew under churn. Each second a round is drained and read by the readers of an import.
At the end every pod must be known and every end have been told exactly once. Lag is judged apart for the changes that came over the watch and
for those that had to wait for a list. Run: ``python -m bench.bench_watch --seconds 120``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from bench.churning_cluster import SENT_AT
from steelyard.primitives.clock import WallClock
from steelyard.primitives.instant import SECOND_US
from steelyard.sources.kube_api.pods import read_pod
from steelyard.sources.kube_api.resource_kinds import PODS
from steelyard.sources.kube_api.transitions import read_transitions
from steelyard.sources.kube_api.watch import ClusterTarget, ClusterWatch, WatchRound
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import parse_pod

LAG_SECONDS_MAX = 5.0
GROWTH_MIB_MAX = 64
ROUND_SECONDS = 1.0


class Reader:
    """Reads rounds as a collector does, and keeps what the bench judges. Before ``is_churning`` nothing is timed."""

    def __init__(self) -> None:
        self.lags_us: list[int] = []
        self.facts_count = self.changes_count = self.gone_count = 0
        self.gone: set[str] = set()
        self.busy_seconds = 0.0
        self.is_churning = False

    def read(self, found: WatchRound) -> None:
        started = time.process_time()
        for seen in found.changed:
            ctx = ReadContext(observed_at=seen.seen_at)
            payload = orjson.loads(seen.raw)
            self.facts_count += sum(1 for _ in read_pod(parse_pod(payload), ctx))
            self.facts_count += sum(1 for _ in read_transitions(payload, "Pod", ctx))
            self.changes_count += 1
            if self.is_churning:
                self.lags_us.append(WallClock().now() - int(payload["metadata"]["annotations"][SENT_AT]))
        for gone in found.gone:
            self.gone_count += 1
            self.gone.add(gone.uid)
        self.busy_seconds += time.process_time() - started


def measure(pods: int = 50_000, rate: int = 200, seconds: float = 120.0) -> dict[str, Any]:
    """Lags in seconds, resident memory in MiB at its highest, and whether nothing was lost or doubled."""
    with _cluster(pods, rate, seconds) as port:
        reader = Reader()
        started = time.perf_counter()
        with ClusterWatch(ClusterTarget(address=f"http://127.0.0.1:{port}"), (PODS,)) as watch:
            for found in watch.rounds_until_listed(300.0):
                reader.read(found)
            listed_seconds = time.perf_counter() - started
            before, busy = _peak_mib(), reader.busy_seconds
            reader.is_churning = True
            status, peak_before_relist = _follow(watch, reader, port, seconds)
        stats = _stats(port)
    lags = sorted(reader.lags_us)
    return {
        "pods": pods,
        "changes_per_second": rate,
        "seconds": seconds,
        "listed_seconds": round(listed_seconds, 2),
        "changes": stats["changes"],
        "changes_read": len(lags),
        "facts": reader.facts_count,
        "lag_seconds_median": round(lags[len(lags) // 2] / SECOND_US, 3) if lags else None,
        "lag_seconds_p99": round(lags[len(lags) * 99 // 100] / SECOND_US, 3) if lags else None,
        "lag_seconds_max": round(lags[-1] / SECOND_US, 3) if lags else None,
        "lag_seconds_limit": LAG_SECONDS_MAX,
        "reading_cpu_share": round((reader.busy_seconds - busy) / seconds, 3),
        "relists": status.relists_count,
        "reconnects": status.reconnects_count,
        "peak_mib_listed": before,
        "peak_mib_before_relist": peak_before_relist,
        "peak_mib": _peak_mib(),
        "growth_mib_limit": GROWTH_MIB_MAX,
        "all_known": status.objects_count == stats["live"],
        "ends_told_once": reader.gone_count == len(reader.gone) == stats["deleted"],
    }


def _follow(watch: ClusterWatch, reader: Reader, port: int, seconds: float) -> tuple[Any, int]:
    """Rounds until the last change was read (or a minute after it); the last status, and the peak of memory before the relist."""
    latest = time.monotonic() + seconds + 60.0
    peak = _peak_mib()
    quiet = 0
    while True:
        began = time.monotonic()
        found = watch.drain(WallClock().now())
        reader.read(found)
        (status,) = found.kinds
        if status.relists_count == 0:
            peak = _peak_mib()
        quiet = quiet + 1 if not found.changed and not found.gone and _stats(port)["over"] else 0
        if quiet >= 3 or began > latest:
            return status, peak
        time.sleep(0.0 if found.backlog else max(0.0, ROUND_SECONDS - (time.monotonic() - began)))


def _stats(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats", timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@contextmanager
def _cluster(pods: int, rate: int, seconds: float) -> Iterator[int]:
    command = [
        sys.executable,
        "-m",
        "bench.churning_cluster",
        "--pods",
        str(pods),
        "--rate",
        str(rate),
        "--seconds",
        str(seconds),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def main(arguments: list[str] | None = None) -> int:
    """Print the figures as one JSON object; exit status 1 where a limit is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120.0)
    options = parser.parse_args(arguments)
    figures = measure(options.pods, options.rate, options.seconds)
    print(json.dumps(figures, indent=1))
    kept = (
        figures["lag_seconds_max"] is not None
        and figures["lag_seconds_max"] < LAG_SECONDS_MAX
        and figures["peak_mib"] - figures["peak_mib_listed"] <= GROWTH_MIB_MAX
        and figures["all_known"]
        and figures["ends_told_once"]
    )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
