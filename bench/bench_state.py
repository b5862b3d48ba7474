"""Bench of posting `gpu_state` + `usage` against groupings of the same samples by card and hour.

    python -m bench.bench_state --devices 1000 --days 30 --repeat 3

Claim: both ledgers take at most 8 x one ``CREATE TABLE .. GROUP BY device, hour`` that tells of each card and hour what the two ledgers tell of it
(samples, means of 1001, 1002, 1005, 203 and the used share, mean, peak and 99th percentile of memory, samples in each state), over the same Parquet
file in the same process with the same memory and threads, with a peak of at most 2 GiB (decision 0017). ``ratio_plain`` is the same against the
grouping that a person would write first (samples, means of 1001, 1002, 1005 and 203, mean and peak of memory): it is printed, and not held to the
limit. Holding, supply and wait are posted before; both ledgers are posted from nothing, the whole history at once, with the dimensions and findings
of a posting.

Samples are one row per card and minute, each with the triple, 203, memory, power and throttle reasons. Each card does one of six things for four
hours (idle, low, busy, memory-bound, compute-bound, small kernels), with noise around it. One card in five is shared by two pods, the others
have one holder after the other; of one card in a hundred every tenth sample comes 13 seconds late (``--late-percent``).

Beside it stands the least that any posting of these ledgers must do (``least_*``): one statement that judges each sample and sums what definitions
ask of it, without holders, late samples or causes, and the writing of as many entries as there are. What lies between it and the posting is
what could be saved at most.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.bench_posting import MEMORY_LIMIT, MEMORY_MAX_MIB, SEED, START, clocked, uuid_of
from steelyard.facts.base import Fact, columns_of
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.grant import Grant
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import GPU_STATE, HOLDING, SUPPLY, USAGE, WAIT, Ledger
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from steelyard.store import Store

RATIO_MAX: Final = 8.0
MEMORY_MIB: Final = 81_920
TIMED: Final = (USAGE, GPU_STATE)
TEAMS: Final = 40

PLAIN: Final = (
    "CREATE OR REPLACE TABLE ledger.bench_grouping AS SELECT device_uuid, date_trunc('hour', occurred_at) AS hour_at, count(*) AS samples, "
    "avg(gr_active_ratio) AS engine, avg(sm_active_ratio) AS sm, avg(dram_active_ratio) AS dram, avg(util_gpu_ratio) AS util, "
    "max(memory_used_mib) AS memory_peak, avg(memory_used_mib) AS memory FROM fact.device_sample GROUP BY 1, 2"
)

SAME_FIGURES: Final = """
CREATE OR REPLACE TABLE ledger.bench_same_figures AS
SELECT
    device_uuid, date_trunc('hour', occurred_at) AS hour_at, count(*) AS samples, avg(util_gpu_ratio) AS util, avg(gr_active_ratio) AS engine,
    avg(sm_active_ratio) AS sm, avg(dram_active_ratio) AS dram, avg(greatest(sm_active_ratio, dram_active_ratio)) AS used,
    avg(memory_used_mib) AS memory, max(memory_used_mib) AS memory_peak, quantile_cont(memory_used_mib, 0.99) AS memory_p99,
    count(*) FILTER (WHERE state_no = 2) AS bound_by_both, count(*) FILTER (WHERE state_no = 3) AS memory_bound,
    count(*) FILTER (WHERE state_no = 4) AS compute_bound, count(*) FILTER (WHERE state_no = 5) AS idle, count(*) FILTER (WHERE state_no = 6) AS low,
    count(*) FILTER (WHERE state_no = 7) AS not_working, count(*) FILTER (WHERE state_no = 8) AS working,
    count(*) FILTER (WHERE state_no > 9) AS unknown
FROM (
    SELECT
        *, gpu_state_no(gr_active_ratio, sm_active_ratio, dram_active_ratio, idle_ratio, low_ratio, bound_ratio, quiet_ratio) AS state_no
    FROM fact.device_sample
    CROSS JOIN dim.state_threshold
) AS judged
GROUP BY device_uuid, date_trunc('hour', occurred_at)
"""
"""What a query over samples can tell of the figures of both ledgers: of cards and hours, not of holders, late samples or causes."""

LEAST: Final = """
CREATE OR REPLACE TABLE ledger.bench_least AS
SELECT
    device_uuid, hour_no, state_no, count(*) AS samples, bit_or(CAST(1 AS BIGINT) << minute_no % 60) AS minutes_mask, sum(memory_used_mib) AS memory,
    max(memory_used_mib, 2) AS largest, sum(util_ppm) AS util, sum(engine_ppm) AS engine, sum(sm_ppm) AS sm, sum(dram_ppm) AS dram,
    sum(used_share_ppm(sm_ppm, dram_ppm)) AS used
FROM (
    SELECT
        device_uuid, memory_used_mib, epoch_us(occurred_at) // 60000000 AS minute_no, epoch_us(occurred_at) // 3600000000 AS hour_no,
        gpu_state_no(gr_active_ratio, sm_active_ratio, dram_active_ratio, idle_ratio, low_ratio, bound_ratio, quiet_ratio) AS state_no,
        round(util_gpu_ratio * 1000000) AS util_ppm, round(gr_active_ratio * 1000000) AS engine_ppm, round(sm_active_ratio * 1000000) AS sm_ppm,
        round(dram_active_ratio * 1000000) AS dram_ppm
    FROM fact.device_sample
    CROSS JOIN dim.state_threshold
) AS judged
GROUP BY device_uuid, hour_no, state_no
"""
"""What sections 4 and 5 of the definitions ask of each sample: its state, its minute, and its figures in whole millionths."""

_DOING: Final = np.array(
    [
        (0.00, 0.00, 0.00, 0.00),
        (0.06, 0.03, 0.02, 0.30),
        (0.70, 0.55, 0.30, 0.90),
        (0.90, 0.35, 0.75, 1.00),
        (0.95, 0.85, 0.30, 1.00),
        (0.90, 0.02, 0.01, 1.00),
    ]
)
"""What a card does: 1001, 1002, 1005 and 203, around which the samples lie."""
_HOURS_EACH: Final = 4
_NOISE: Final = 0.04


def write_samples(file: Path, devices: int, days: int, late_percent: float = 1.0) -> int:
    """One Parquet file in order of arrival, written a day at a time; returns the number of rows."""
    random = np.random.default_rng(SEED)
    uuids = pa.array([uuid_of(device) for device in range(devices)])
    rows = devices * 1440
    index = np.tile(np.arange(devices, dtype=np.int32), 1440)
    late = index >= devices - round(devices * late_percent / 100)
    writer: pq.ParquetWriter | None = None
    for day in range(days):
        minutes = np.repeat(START + day * DAY_US + np.arange(1440, dtype=np.int64) * MINUTE_US, devices)
        stamps = minutes + np.where(late & (random.random(rows) < 0.1), 13 * SECOND_US, 0)
        doing = random.integers(0, len(_DOING), (24 // _HOURS_EACH, devices))
        told = _DOING[doing[minutes // HOUR_US % 24 // _HOURS_EACH, index]]
        told = np.where(told > 0, np.round(np.clip(told + random.normal(0, _NOISE, told.shape), 0, 1), 3), 0.0)
        level = random.integers(4_000, 70_000, devices)[index]
        writer = writer or pq.ParquetWriter(file, SCHEMA, compression="zstd")
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["default"])),
            pa.DictionaryArray.from_arrays(pa.array(index), uuids),
            pa.array(stamps, pa.timestamp("us")),
            pa.array(np.full(rows, MINUTE_US)),
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["dcgm"])),
            pa.array(level + random.integers(0, 8, rows)),
            pa.array(np.full(rows, MEMORY_MIB)),
            *(pa.array(told[:, place]) for place in range(4)),
            pa.array(np.round(120 + 500 * told[:, 1], 1)),
            pa.array(np.zeros(rows, np.int64)),
        ]
        writer.write_table(pa.table(columns, schema=SCHEMA), row_group_size=122_880)
    if writer is not None:
        writer.close()
    return rows * days


SCHEMA: Final = pa.schema(
    [
        ("cluster", pa.dictionary(pa.int8(), pa.string())),
        ("device_uuid", pa.dictionary(pa.int32(), pa.string())),
        ("occurred_at", pa.timestamp("us")),
        ("interval_us", pa.int64()),
        ("source", pa.dictionary(pa.int8(), pa.string())),
        ("memory_used_mib", pa.int64()),
        ("memory_total_mib", pa.int64()),
        ("gr_active_ratio", pa.float64()),
        ("sm_active_ratio", pa.float64()),
        ("dram_active_ratio", pa.float64()),
        ("util_gpu_ratio", pa.float64()),
        ("power_watts", pa.float64()),
        ("throttle_reasons", pa.int64()),
    ]
)


def facts(devices: int, days: int) -> Iterator[Fact]:
    """Cards seen at both ends, a stretch of cluster state seen throughout, and holders of 6 hours to 3 days, one after the other."""
    end = START + days * DAY_US
    random = np.random.default_rng(SEED)
    yield SourceStatus(
        source="kube_api", natural_key="pods/cluster", occurred_at=end, observed_at=end, kind="pods", complete=True,
        observed_from_at=START, observed_to_at=end,
    )  # fmt: skip
    number = 0
    for device in range(devices):
        uuid, node = uuid_of(device), f"node-{device // 8:04d}"
        for at in (START, end):
            yield Device(
                source="hami", natural_key=uuid, occurred_at=at, observed_at=end, device_uuid=uuid, node=node, memory_mib=MEMORY_MIB,
                device_index=device % 8, healthy=True, basis="vendor_register", slots_count=10,
            )  # fmt: skip
        for _tenant in range(2 if device % 5 == 0 else 1):
            at = START + int(random.integers(0, 3 * HOUR_US))
            while at < end - HOUR_US:
                stop = min(at + int(random.integers(6 * HOUR_US, 72 * HOUR_US)), end - MINUTE_US)
                number += 1
                yield from pod(
                    number, int(random.integers(TEAMS)), uuid, node, (at, stop), 50 if device % 5 == 0 else 100
                )
                at = stop + int(random.integers(0, HOUR_US))


def pod(number: int, team: int, uuid: str, node: str, life: tuple[int, int], percent: int) -> Iterator[Fact]:
    """A finished pod that held ``percent`` of a card for its life."""
    start, stop = life
    uid = f"{number:08x}-aaaa-4bbb-8ccc-{number:012x}"
    common: dict[str, Any] = {"occurred_at": stop, "observed_at": stop, "pod_uid": uid, "node": node}
    yield Request(
        source="kube_api", natural_key=uid, namespace=f"team-{team:02d}", pod=f"job-{number:06d}", phase="Succeeded", created_at=start,
        scheduled_at=start, started_at=start, first_container_at=start, last_container_end_at=stop, gpu_count=1,
        resource_names="nvidia.com/gpu", **common,
    )  # fmt: skip
    yield Grant(
        source="hami", natural_key=f"{uid}/main/{uuid}", container="main", scheme="hami", device_uuid=uuid, unit_kind="vgpu",
        memory_mib=MEMORY_MIB * percent // 100, cores_percent=percent, bound_at=start, bind_phase="success", **common,
    )  # fmt: skip


def over_parquet(store: Store, file: Path) -> None:
    """``fact.device_sample`` reads the Parquet file; columns that it lacks are not known."""
    cells = ", ".join(
        column.name if column.name in SCHEMA.names else f"CAST(NULL AS {column.sql_type}) AS {column.name}"
        for column in columns_of(DeviceSample)
    )
    store.execute("DROP TABLE fact.device_sample")
    store.execute(f"CREATE VIEW fact.device_sample AS SELECT {cells} FROM read_parquet('{file}')")


def post(store: Store, ledgers: tuple[Ledger, ...]) -> None:
    """These ledgers, from facts to entries."""
    post_ledgers(store, PostingParameters(), clock=FixedClock(START), ledgers=ledgers)


def forget(store: Store) -> None:
    """The timed ledgers without an entry, so that every round posts everything."""
    for ledger in TIMED:
        store.execute(f"DROP TABLE IF EXISTS ledger.{ledger.name}_entry")
        store.execute(f"DROP TABLE IF EXISTS ledger.{ledger.hours}")


def least(store: Store) -> tuple[float, float]:
    """Seconds and CPU seconds of judging and summing the samples, and of writing the entries that stand."""
    copies = [
        f"CREATE OR REPLACE TABLE ledger.bench_copy AS SELECT * FROM ledger.{ledger.name}_entry" for ledger in TIMED
    ]
    clocks = [clocked(lambda sql=sql: store.execute(sql)) for sql in (LEAST, *copies)]  # type: ignore[misc]
    return sum(wall for wall, _ in clocks), sum(cpu for _, cpu in clocks)


def measure(devices: int, days: int, repeat: int, late_percent: float) -> dict[str, Any]:
    """Medians of both sides, taken in turns, and the peak of this process's memory."""
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as scratch:
        folder = Path(scratch)
        rows = write_samples(folder / "samples.parquet", devices, days, late_percent)
        with Store.open(folder / "data") as store:
            store.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
            store.append(facts(devices, days))
            store.execute("CHECKPOINT")
            over_parquet(store, folder / "samples.parquet")
            post(store, (HOLDING, SUPPLY, WAIT))
            plain: list[tuple[float, float]] = []
            same: list[tuple[float, float]] = []
            posting: list[tuple[float, float]] = []
            for _round in range(repeat):
                plain.append(clocked(lambda: store.execute(PLAIN)))
                same.append(clocked(lambda: store.execute(SAME_FIGURES)))
                forget(store)
                posting.append(clocked(lambda: post(store, TIMED)))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            bounds = [least(store) for _round in range(repeat)]
            return {
                "devices": devices,
                "days": days,
                "rows": rows,
                **_medians("plain", plain),
                **_medians("same_figures", same),
                **_medians("posting", posting),
                **_medians("least", bounds),
                **_ratios("ratio", posting, same),
                **_ratios("ratio_plain", posting, plain),
                **_ratios("ratio_least", bounds, plain),
                "usage_entries": store.rows("SELECT count(*) FROM ledger.usage_entry")[0][0],
                "gpu_state_entries": store.rows("SELECT count(*) FROM ledger.gpu_state_entry")[0][0],
                "places_open": places_open(store),
                "peak_memory_mib": peak,
            }


def _medians(name: str, clocks: list[tuple[float, float]]) -> dict[str, float]:
    return {
        f"{name}_seconds": statistics.median(wall for wall, _ in clocks),
        f"{name}_cpu_seconds": statistics.median(cpu for _, cpu in clocks),
    }


def _ratios(name: str, ours: list[tuple[float, float]], peers: list[tuple[float, float]]) -> dict[str, float]:
    """Of rounds taken in turns: the median of their ratios, by the wall and by the processors."""
    pairs = list(zip(ours, peers, strict=True))
    return {
        name: statistics.median(our[0] / peer[0] for our, peer in pairs),
        f"{name}_cpu": statistics.median(our[1] / peer[1] for our, peer in pairs),
    }


def places_open(store: Store) -> int:
    """Places and grains whose states do not add up to their supply: must be 0."""
    return int(
        store.rows(
            "SELECT count(*) FROM (SELECT cluster, place_id, grain_at, sum(amount) AS residual FROM ("
            "SELECT cluster, place_id, grain_at, amount_gpu_us AS amount FROM ledger.gpu_state UNION ALL "
            "SELECT cluster, place_id, grain_at, -amount_gpu_us FROM ledger.supply WHERE account NOT IN ('supply', 'overcommitted')) "
            "GROUP BY ALL) WHERE residual <> 0"
        )[0][0]
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure and print JSON; exit status 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", "--gpus", type=int, default=1000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--late-percent", type=float, default=1.0)
    options = parser.parse_args(arguments)
    result = measure(options.devices, options.days, options.repeat, options.late_percent)
    claims = {
        "ratio_at_most_8": result["ratio"] <= RATIO_MAX,
        "peak_memory_below_2_gib": result["peak_memory_mib"] < MEMORY_MAX_MIB,
        "states_add_up_to_supply": result["places_open"] == 0,
    }
    print(json.dumps({"bench": "state", "results": result, "claims": claims}))
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
