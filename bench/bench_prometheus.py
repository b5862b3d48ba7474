"""Bench of one question, GPU-hours used by namespace and hour: from the posted ledger, from raw Parquet, from a Prometheus with the same samples.

    python -m bench.bench_prometheus --devices 100 --days 7

Claims: the ledger answers at least 10 x faster than a real Prometheus, the raw Parquet file (samples joined with who held the card) at least 3 x, and
all three give the same sums. What posting took is printed beside it: the ledger's answer is prepared, the other two are not. One series for each
pod and card of ``DCGM_FI_PROF_SM_ACTIVE``, as dcgm-exporter tells it on Kubernetes, backfilled by ``promtool tsdb create-blocks-from openmetrics``
(Debian's package ``prometheus``). Each side is asked once unmeasured, then in turns; times are of the whole question, over loopback and with its
JSON read for the Prometheus.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.bench_collection import _port
from bench.bench_posting import SEED, START, clocked, uuid_of
from bench.bench_state import MEMORY_MIB, SCHEMA, over_parquet, pod, post
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.registry import HOLDING, SUPPLY, USAGE
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from steelyard.store import Store

LEDGER_RATIO_MIN: Final = 10.0
PARQUET_RATIO_MIN: Final = 3.0
TEAMS: Final = 40
HOURS_DIFFER_MAX: Final = 1e-6
METRIC: Final = "DCGM_FI_PROF_SM_ACTIVE"

Life = tuple[int, int, int, int, int]
"""Number of the pod, its team and card, first minute and the one after its last."""
Hours = dict[tuple[str, int], float]
"""GPU-hours by namespace and the instant at which the hour begins."""

FROM_LEDGER: Final = (
    "SELECT pod.namespace, epoch_us(usage.grain_at), sum(usage.sm_gpu_us) / 3.6e9 FROM ledger.usage AS usage "
    "JOIN (SELECT DISTINCT cluster, pod_uid, namespace FROM ledger.holding) AS pod ON pod.cluster = usage.cluster AND pod.pod_uid = usage.pod_uid "
    "WHERE usage.path = 'exclusive' GROUP BY ALL"
)
FROM_PARQUET: Final = (
    "SELECT holding.namespace, epoch_us(date_trunc('hour', sample.occurred_at)), sum(sample.sm_active_ratio) / 60 "
    "FROM read_parquet('{file}') AS sample JOIN ledger.holding AS holding ON holding.device_uuid = sample.device_uuid "
    "AND sample.occurred_at >= holding.started_at AND sample.occurred_at < holding.ended_at GROUP BY ALL"
)


def lives(devices: int, days: int) -> list[Life]:
    """Pods of 6 hours to 3 days that hold a whole card, one after the other, from minute to minute."""
    random = np.random.default_rng(SEED)
    found: list[Life] = []
    for device in range(devices):
        at = int(random.integers(0, 180))
        while at < days * 1440 - 60:
            stop = min(at + int(random.integers(360, 4320)), days * 1440 - 1)
            found.append((len(found) + 1, int(random.integers(TEAMS)), device, at, stop))
            at = stop + int(random.integers(0, 60))
    return found


def facts(devices: int, days: int, held: list[Life]) -> Iterator[Fact]:
    """Cards, a stretch of cluster state seen throughout, and the pods."""
    end = START + days * DAY_US
    yield SourceStatus(
        source="kube_api", natural_key="pods/cluster", occurred_at=end, observed_at=end, kind="pods", complete=True,
        observed_from_at=START, observed_to_at=end,
    )  # fmt: skip
    for device in range(devices):
        for at in (START, end):
            yield Device(
                source="hami", natural_key=uuid_of(device), occurred_at=at, observed_at=end, device_uuid=uuid_of(device),
                node=f"node-{device // 8:04d}", memory_mib=MEMORY_MIB, device_index=device % 8, healthy=True, basis="vendor_register",
                slots_count=10,
            )  # fmt: skip
    for number, team, device, first, last in held:
        life = START + first * MINUTE_US, START + last * MINUTE_US
        yield from pod(number, team, uuid_of(device), f"node-{device // 8:04d}", life, 100)


def write_parquet(file: Path, told: np.ndarray[Any, Any]) -> None:
    """The samples, ``told[minute, device]``, in order of arrival."""
    minutes, devices = told.shape
    count = minutes * devices
    cells: dict[str, Any] = {
        "cluster": pa.array(["default"] * count),
        "device_uuid": pa.DictionaryArray.from_arrays(
            pa.array(np.tile(np.arange(devices, dtype=np.int32), minutes)),
            pa.array([uuid_of(n) for n in range(devices)]),
        ),
        "occurred_at": pa.array(np.repeat(START + np.arange(minutes) * MINUTE_US, devices), pa.timestamp("us")),
        "interval_us": pa.array(np.full(count, MINUTE_US)),
        "source": pa.array(["dcgm"] * count),
        "sm_active_ratio": pa.array(told.ravel()),
    }
    columns = [
        cells[field.name].cast(field.type) if field.name in cells else pa.nulls(count, field.type) for field in SCHEMA
    ]
    pq.write_table(pa.table(columns, schema=SCHEMA), file, compression="zstd", row_group_size=122_880)


def write_openmetrics(file: Path, told: np.ndarray[Any, Any], held: list[Life]) -> None:
    """The same samples as a Prometheus knows them: a series for each pod and card."""
    stamps = [START // SECOND_US + minute * 60 for minute in range(told.shape[0])]
    with file.open("w", encoding="utf-8") as out:
        out.write(f"# TYPE {METRIC} gauge\n")
        for number, team, device, first, last in held:
            labels = f'UUID="{uuid_of(device)}",namespace="team-{team:02d}",pod="job-{number:06d}",Hostname="node-{device // 8:04d}"'
            series = f"{METRIC}{{{labels}}}"
            values = told[first:last, device].tolist()
            out.writelines(
                f"{series} {value} {stamp}\n" for value, stamp in zip(values, stamps[first:last], strict=True)
            )
        out.write("# EOF\n")


@contextmanager
def prometheus(folder: Path, openmetrics: Path) -> Iterator[str]:
    """The address of a Prometheus that holds these samples and scrapes nothing."""
    programs = [shutil.which(name) for name in ("prometheus", "promtool")]
    assert all(programs), "no prometheus here: on Debian, apt-get install prometheus"
    blocks = [
        str(programs[1]),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "--quiet",
        str(openmetrics),
        str(folder / "tsdb"),
    ]
    subprocess.run(blocks, check=True, stdout=subprocess.DEVNULL)
    (folder / "prometheus.yml").write_text("{}", encoding="utf-8")
    command = [
        str(programs[0]), f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
        "--storage.tsdb.retention.time=20y", "--web.listen-address=127.0.0.1:0",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield f"http://127.0.0.1:{_port(folder / 'prometheus.log')}"
        finally:
            process.kill()


def from_prometheus(client: httpx.Client, url: str, days: int) -> Hours:
    """A range holds both its ends, so each hour is asked for a millisecond before it is over."""
    end = START // SECOND_US + days * 86_400
    reply = client.get(
        f"{url}/api/v1/query_range",
        params={
            "query": f"sum by (namespace) (sum_over_time({METRIC}[1h])) / 60",
            "start": f"{START // SECOND_US + 3_599.999:.3f}", "end": f"{end}", "step": "3600",
        },
    )  # fmt: skip
    series = reply.json()["data"]["result"]
    return {
        (one["metric"]["namespace"], round(float(at) + 0.001) * SECOND_US - HOUR_US): float(value)
        for one in series
        for at, value in one["values"]
    }


def from_store(store: Store, question: str) -> Hours:
    """The same from a query of namespace, hour and GPU-hours."""
    return {(str(namespace), int(hour)): float(hours) for namespace, hour, hours in store.rows(question)}


def measure(devices: int, days: int, repeat: int) -> dict[str, Any]:
    """Medians of all three sides, in turns."""
    held = lives(devices, days)
    told = np.round(np.random.default_rng(SEED).random((days * 1440, devices)), 3)
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as scratch:
        folder = Path(scratch)
        write_parquet(folder / "samples.parquet", told)
        write_openmetrics(folder / "samples.om", told, held)
        with Store.open(folder / "data") as store, prometheus(folder, folder / "samples.om") as url:
            store.append(facts(devices, days, held))
            over_parquet(store, folder / "samples.parquet")
            post(store, (HOLDING, SUPPLY))
            posting = clocked(lambda: post(store, (USAGE,)))
            with httpx.Client(trust_env=False, timeout=120.0) as client:
                sides: dict[str, Callable[[], Hours]] = {
                    "prometheus": lambda: from_prometheus(client, url, days),
                    "parquet": lambda: from_store(store, FROM_PARQUET.format(file=folder / "samples.parquet")),
                    "ledger": lambda: from_store(store, FROM_LEDGER),
                }
                found = {name: side() for name, side in sides.items()}
                seconds: dict[str, list[float]] = {name: [] for name in sides}
                for _turn in range(repeat):
                    for name, side in sides.items():
                        start = time.perf_counter()
                        side()
                        seconds[name].append(time.perf_counter() - start)
    middle = {name: statistics.median(each) for name, each in seconds.items()}
    return {
        "devices": devices,
        "days": days,
        "samples": int(sum(last - first for *_, first, last in held)),
        "series": len(held),
        "figures": len(found["ledger"]),
        "gpu_hours": sum(found["ledger"].values()),
        "posting_seconds": posting[0],
        "posting_cpu_seconds": posting[1],
        **{f"{name}_seconds": value for name, value in middle.items()},
        "ledger_ratio": middle["prometheus"] / middle["ledger"],
        "parquet_ratio": middle["prometheus"] / middle["parquet"],
        "hours_differ_most": max(differ(found["ledger"], found[name]) for name in ("prometheus", "parquet")),
    }


def differ(one: Hours, other: Hours) -> float:
    """By how many GPU-hours two answers differ at most, in any namespace and hour."""
    return max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys())


def main(arguments: list[str] | None = None) -> int:
    """Measure and print JSON; exit status 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", "--gpus", type=int, default=100)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args(arguments)
    result = measure(options.devices, options.days, options.repeat)
    claims = {
        "ledger_10_times_faster": result["ledger_ratio"] >= LEDGER_RATIO_MIN,
        "parquet_3_times_faster": result["parquet_ratio"] >= PARQUET_RATIO_MIN,
        "same_sums": result["hours_differ_most"] <= HOURS_DIFFER_MAX,
    }
    print(json.dumps({"bench": "prometheus", "results": result, "claims": claims}))
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
