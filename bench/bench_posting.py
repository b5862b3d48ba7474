"""Bench of posting: `holding` + `supply` against the plain grouping of the same samples, and Q1 at past instants over that history.

    python -m bench.bench_posting --devices 1000 --days 30 --repeat 5

Claims: (a) posting takes at most 6 x ``CREATE TABLE .. AS SELECT device, date_trunc('hour', ts), count(*), avg(sm) .. GROUP BY 1, 2`` on
the same Parquet file in the same process, with a peak of at most 2 GiB of memory; (b) the time per GPU at 250, 500 and 1,000 GPUs
lies within 20 % of their mean, fixed costs included (the time of posting an empty estate is printed beside it); (c) Q1 at a random past
instant answers within 50 ms at the 99th percentile in a warm process.

How long pods live decides how many holdings and edges of grains there are, so (a) and (b) are measured and told for each of three mixes
(``--lives-hours``): 2 to 20 days, 1 to 7 days, and 6 to 42 hours. The ratio of (a) is judged at the largest size only, for fixed costs weigh more
at the smaller ones.

Samples are one row per device and minute in one Parquet file; holdings come from facts of three tenants a card. Each size
runs in a process of its own, so that its peak memory is its own. The store lies in a file, as in production.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.answers import q01_holders
from steelyard.app.settled_memory import loaded_once
from steelyard.facts.base import Fact, columns_of
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.grant import Grant
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import HOLDING, SUPPLY
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US
from steelyard.store import Store

START: Final = 1_788_000_000_000_000 // DAY_US * DAY_US
TENANTS: Final = 3
SEED: Final = 20261130
RATIO_MAX: Final = 6.0
MEMORY_MAX_MIB: Final = 2048
SPREAD_MAX: Final = 0.20
Q1_P99_MAX_MS: Final = 50.0
MEMORY_LIMIT: Final = "1200MB"
"""What the engine may hold: the process itself, its results and the allocator need the rest of the 2 GiB."""

LIVES_HOURS: Final = ((48, 480), (24, 168), (6, 42))
"""How long pods live: days to weeks, days, hours. Shorter lives are more holdings, more edges of grains and a higher ratio."""

GROUPING: Final = (
    "CREATE OR REPLACE TABLE ledger.bench_grouping AS SELECT device_uuid, date_trunc('hour', occurred_at) AS hour_at, "
    "count(*) AS samples, avg(sm_active_ratio) AS sm FROM fact.device_sample GROUP BY 1, 2"
)


def uuid_of(device: int) -> str:
    """A UUID in the vendor's form."""
    return f"GPU-{device:08x}-0000-4000-8000-{device:012x}"


def write_samples(file: Path, devices: int, days: int) -> int:
    """One Parquet file in order of arrival, written a day at a time; returns the number of rows."""
    random = np.random.default_rng(SEED)
    uuids = pa.array([uuid_of(device) for device in range(devices)])
    rows = devices * 1440
    index = pa.array(np.tile(np.arange(devices, dtype=np.int32), 1440))
    writer: pq.ParquetWriter | None = None
    for day in range(days):
        minutes = START + day * DAY_US + np.arange(1440, dtype=np.int64) * MINUTE_US
        table = pa.table(
            {
                "cluster": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["default"])),
                "device_uuid": pa.DictionaryArray.from_arrays(index, uuids),
                "occurred_at": pa.array(np.repeat(minutes, devices), pa.timestamp("us")),
                "interval_us": pa.array(np.full(rows, MINUTE_US)),
                "memory_used_mib": pa.array(random.integers(1_000, 80_000, rows)),
                "util_gpu_ratio": pa.array(np.round(random.random(rows), 2)),
                "sm_active_ratio": pa.array(np.round(random.random(rows), 2)),
            }
        )
        writer = writer or pq.ParquetWriter(file, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=122_880)
    if writer is not None:
        writer.close()
    return rows * days


def facts(devices: int, days: int, lives_hours: tuple[int, int] = LIVES_HOURS[0]) -> Iterator[Fact]:
    """Cards seen at both ends, a stretch of cluster state seen throughout, and three tenants a card with one pod after the other, each living
    between the two numbers of hours."""
    end = START + days * DAY_US
    random = np.random.default_rng(SEED)
    seen: dict[str, Any] = {"observed_at": end}
    yield SourceStatus(
        source="kube_api", natural_key="pods/cluster", occurred_at=end, kind="pods", complete=True,
        observed_from_at=START, observed_to_at=end, **seen,
    )  # fmt: skip
    number = 0
    for device in range(devices):
        uuid, node = uuid_of(device), f"node-{device // 8:04d}"
        for at in (START, end):
            yield Device(
                source="hami", natural_key=uuid, occurred_at=at, device_uuid=uuid, node=node, memory_mib=81_920,
                device_index=device % 8, healthy=True, basis="vendor_register", slots_count=10, **seen,
            )  # fmt: skip
        for tenant in range(TENANTS):
            at = START + int(random.integers(0, 6 * HOUR_US))
            while at < end - HOUR_US:
                stop = min(
                    at + int(random.integers(lives_hours[0] * HOUR_US, lives_hours[1] * HOUR_US)), end - MINUTE_US
                )
                number += 1
                yield from pod(f"{number:08x}-aaaa-4bbb-8ccc-{number:012x}", tenant, uuid, node, at, stop, end)
                at = stop + int(random.integers(0, 2 * HOUR_US))


def pod(uid: str, tenant: int, uuid: str, node: str, start: int, stop: int, seen_at: int) -> Iterator[Fact]:
    """A finished pod with a vGPU grant of three tenths of a card."""
    common: dict[str, Any] = {"occurred_at": seen_at, "observed_at": seen_at, "pod_uid": uid, "node": node}
    yield Request(
        source="kube_api", natural_key=uid, namespace=f"team-{tenant}", pod=f"job-{uid[:8]}", phase="Succeeded",
        created_at=start, scheduled_at=start, started_at=start, first_container_at=start, last_container_end_at=stop,
        gpu_count=1, resource_names="nvidia.com/gpu", **common,
    )  # fmt: skip
    yield Grant(
        source="hami", natural_key=f"{uid}/main/{uuid}", container="main", scheme="hami", device_uuid=uuid,
        unit_kind="vgpu", memory_mib=24_576, cores_percent=30, bound_at=start, bind_phase="success", **common,
    )  # fmt: skip


def over_parquet(store: Store, file: Path) -> None:
    """``fact.device_sample`` reads the Parquet file; columns that they lack are not known."""
    present = {
        "cluster",
        "device_uuid",
        "occurred_at",
        "interval_us",
        "memory_used_mib",
        "util_gpu_ratio",
        "sm_active_ratio",
    }
    cells = ", ".join(
        column.name if column.name in present else f"CAST(NULL AS {column.sql_type}) AS {column.name}"
        for column in columns_of(DeviceSample)
    )
    store.execute("DROP TABLE fact.device_sample")
    store.execute(f"CREATE VIEW fact.device_sample AS SELECT {cells} FROM read_parquet('{file}')")


def timed(work: Callable[[], object]) -> float:
    """Seconds that the work takes."""
    return clocked(work)[0]


def clocked(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the wall and by the processors: on a busy machine only the latter can be compared."""
    start, start_cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - start_cpu


def measure(devices: int, days: int, repeat: int, questions: int, lives_hours: tuple[int, int]) -> dict[str, Any]:
    """One size and mix, in this process: medians of the grouping and of posting into empty ledgers, peak memory, Q1."""
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as scratch:
        folder = Path(scratch)
        rows = write_samples(folder / "samples.parquet", devices, days)
        empty = post_nothing(folder / "empty")
        with Store.open(folder / "data") as store:
            store.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
            store.append(facts(devices, days, lives_hours))
            store.execute("CHECKPOINT")
            over_parquet(store, folder / "samples.parquet")
            grouping, posting = [], []
            for _round in range(repeat):
                grouping.append(clocked(lambda: store.execute(GROUPING)))
                forget(store)
                posting.append(clocked(lambda: post(store)))
            result = {
                "devices": devices,
                "days": days,
                "lives_hours": "-".join(map(str, lives_hours)),
                "rows": rows,
                "grouping_seconds": statistics.median(wall for wall, _ in grouping),
                "posting_seconds": statistics.median(wall for wall, _ in posting),
                "ratio": statistics.median(p[0] / g[0] for p, g in zip(posting, grouping, strict=True)),
                "posting_empty_seconds": empty,
                "ratio_cpu": statistics.median(p[1] / g[1] for p, g in zip(posting, grouping, strict=True)),
                "posting_cpu_seconds": statistics.median(cpu for _, cpu in posting),
                "grouping_all_seconds": [wall for wall, _ in grouping],
                "posting_all_seconds": [wall for wall, _ in posting],
                "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "holdings": store.rows("SELECT count(*) FROM ledger.holding")[0][0],
                "entries": store.rows("SELECT count(*) FROM ledger.supply_entry")[0][0],
                "places_open": places_open(store),
            }
            return result | ask(store, days, questions)


def post(store: Store) -> None:
    """Holding and supply, from facts to entries."""
    post_ledgers(store, PostingParameters(), clock=FixedClock(START), ledgers=(HOLDING, SUPPLY))


def post_nothing(folder: Path) -> float:
    """Seconds of posting an estate without facts: what planning some fifty statements costs (median of five)."""
    with Store.open(folder) as store:
        post(store)
        seconds = []
        for _round in range(5):
            forget(store)
            seconds.append(timed(lambda: post(store)))
        return statistics.median(seconds)


def forget(store: Store) -> None:
    """Empty ledgers, so that every round posts everything."""
    for ledger in (HOLDING, SUPPLY):
        store.execute(f"DROP TABLE IF EXISTS ledger.{ledger.name}_entry")
    store.execute("DROP TABLE IF EXISTS ledger.posting_run")


def places_open(store: Store) -> int:
    """Places and grains whose books do not close: must be 0."""
    return int(
        store.rows(
            "SELECT count(*) FROM (SELECT sum(CASE account WHEN 'supply' THEN amount_gpu_us WHEN 'overcommitted' THEN 0 "
            "ELSE -amount_gpu_us END) AS residual FROM ledger.supply GROUP BY cluster, place_id, grain_at) WHERE residual <> 0"
        )[0][0]
    )


def ask(store: Store, days: int, questions: int) -> dict[str, Any]:
    """Q1 at random past instants, after five unmeasured ones; what is loaded is kept out of full collections, as the server does."""
    random = np.random.default_rng(SEED)
    store.execute("CREATE TABLE IF NOT EXISTS ledger.bench_grouping (nothing BIGINT)")
    instants = [START + int(offset) for offset in random.integers(0, days * DAY_US, questions + 5)]
    with loaded_once():
        seconds = [timed(partial(q01_holders.answer, store, q01_holders.HoldersSpec(at=at))) for at in instants][5:]
    if not seconds:
        return {}
    return {
        "q1_p50_ms": float(np.percentile(seconds, 50)) * 1000,
        "q1_p99_ms": float(np.percentile(seconds, 99)) * 1000,
        "q1_questions": len(seconds),
    }


def measure_apart(devices: int, days: int, repeat: int, questions: int, lives_hours: tuple[int, int]) -> dict[str, Any]:
    """``measure`` in a process of its own."""
    command = [sys.executable, "-m", "bench.bench_posting", "--one", str(devices), "--days", str(days)]
    command += [
        "--repeat",
        str(repeat),
        "--questions",
        str(questions),
        "--lives-hours",
        "-".join(map(str, lives_hours)),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def verdicts(results: list[dict[str, Any]]) -> dict[str, bool]:
    """Which claims hold. ``results``: of each mix of lives the sizes in rising order; a claim holds where it holds for every mix."""
    mixes: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        mixes.setdefault(result["lives_hours"], []).append(result)
    largest = [sizes[-1] for sizes in mixes.values()]
    claims: dict[str, bool] = {}
    for lives, sizes in mixes.items():
        claims[f"ratio_at_most_6_lives_{lives}_hours"] = sizes[-1]["ratio"] <= RATIO_MAX
        if len(sizes) > 1:
            claims[f"time_per_gpu_constant_to_20_percent_lives_{lives}_hours"] = spread(sizes) <= SPREAD_MAX
    claims["peak_memory_below_2_gib"] = all(one["peak_memory_mib"] < MEMORY_MAX_MIB for one in largest)
    claims["books_close"] = all(result["places_open"] == 0 for result in results)
    claims["q1_p99_below_50_ms"] = all(one.get("q1_p99_ms", 0.0) < Q1_P99_MAX_MS for one in largest)
    return claims


def spread(sizes: list[dict[str, Any]], seconds: str = "posting_seconds") -> float:
    """By how much the time per GPU of a size differs from the mean of all sizes, at most, as a part of the mean."""
    per_gpu = [float(result[seconds]) / int(result["devices"]) for result in sizes]
    mean = statistics.mean(per_gpu)
    return max(abs(one - mean) for one in per_gpu) / mean


def table(results: list[dict[str, Any]]) -> str:
    """The results for a person."""
    names = (
        "lives_hours",
        "devices",
        "holdings",
        "grouping_seconds",
        "posting_seconds",
        "posting_cpu_seconds",
        "posting_empty_seconds",
        "ratio",
        "ratio_cpu",
        "peak_memory_mib",
        "q1_p99_ms",
    )
    lines = ["  ".join(f"{name:>21}" for name in names)]
    for result in results:
        cells = [result.get(name, "-") for name in names]
        lines.append("  ".join(f"{cell:21.3f}" if isinstance(cell, float) else f"{cell!s:>21}" for cell in cells))
    return "\n".join(lines)


def lives(text: str) -> tuple[int, int]:
    """``6-42``: from 6 to 42 hours. Raises ValueError, which argparse tells."""
    low, high = (int(part) for part in text.split("-"))
    if not 0 < low < high:
        raise ValueError(text)
    return low, high


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table and JSON; exit status 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument(
        "--lives-hours", type=lives, nargs="+", default=list(LIVES_HOURS), help="how long pods live, such as 6-42"
    )
    parser.add_argument("--one", type=int, help="measure this one size in this process and print its JSON")
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(measure(options.one, options.days, options.repeat, options.questions, options.lives_hours[0])))
        return 0
    results = [
        measure_apart(n, options.days, options.repeat, options.questions, mix)
        for mix in options.lives_hours
        for n in sorted(options.devices)
    ]
    held = verdicts(results)
    print(table(results))
    print(json.dumps({"bench": "posting", "results": results, "claims": held}))
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
