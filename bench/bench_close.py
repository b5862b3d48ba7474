"""Bench of closing a month against the plain sum of the same rows by card and hour, and of posting the two money ledgers.

    python -m bench.bench_close --devices 10000 --days 30 --repeat 5

Claims: (a) what a close does with the rows of a month (lay out who and what stands in them, write the sorted snapshot, sum it to the lines of
statements, write those) takes at most 8 x ``CREATE TABLE .. AS SELECT device, hour, sum(..) GROUP BY 1, 2`` over the rows of ``ledger.cost``, in the
same process with the same memory, with a peak below 3 GiB; (b) what ``cost`` + ``charge`` take of a posting is printed per million rows.

Three tenants share each card, hour by hour: 10,000 cards and 30 days are 21.6 million rows in either ledger. The first hour is posted from facts
of all cards by the whole of ``post_ledgers``; the others are that hour's entries again, later, as rows of a quiet month are. Blockers,
corrections and documents are left out: their size is that of what is wrong, or of what is printed.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.bench_posting import MEMORY_LIMIT, clocked, uuid_of
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.grant import Grant
from steelyard.facts.price import Price
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import CHARGE, COST, LEDGERS, Ledger
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import HOUR_US, Instant, parse_instant
from steelyard.settlement.assembly import Sheet
from steelyard.settlement.rules import SettlementRules
from steelyard.settlement.snapshot import render, write_corrections, write_inputs, write_lines
from steelyard.settlement.tables import lay_out_ledgers
from steelyard.store import Store

RATIO_MAX: Final = 8.0
MEMORY_MAX_MIB: Final = 3 * 1024
LABEL: Final = "2026-11"
START: Final[Instant] = parse_instant("2026-11-01T00:00:00Z")
CORES: Final = (20, 30, 50)
TEAMS: Final = 40
GROUPING: Final = (
    "CREATE OR REPLACE TABLE ledger.bench_grouping AS SELECT device_uuid, date_trunc('hour', grain_at) AS hour_at, "
    "sum(amount_gpu_us) AS amount_gpu_us, sum(cost_micro) AS cost_micro FROM ledger.cost GROUP BY 1, 2"
)


def facts(devices: int) -> Iterator[Fact]:
    """One hour: cards of two models, three pods on each, a price for each side whose thirds leave a remainder."""
    end = START + HOUR_US
    yield SourceStatus(
        source="kube_api", natural_key="pods/cluster", occurred_at=end, observed_at=end, kind="pods", complete=True,
        observed_from_at=START, observed_to_at=end,
    )  # fmt: skip
    for side, micro in (("cost", 2_400_001), ("charge", 3_100_007)):
        yield Price(
            source="bench", natural_key=f"b@1/{side}", occurred_at=START, observed_at=START, book="b", version=1, price_id=side, side=side,
            currency="USD", price_micro=micro,
        )  # fmt: skip
    for device in range(devices):
        uuid, node = uuid_of(device), f"node-{device // 8:04d}"
        for at in (START, end):
            yield Device(
                source="hami", natural_key=uuid, occurred_at=at, observed_at=end, device_uuid=uuid, node=node, memory_mib=81_920,
                model="NVIDIA-H100-80GB-HBM3" if device % 2 else "NVIDIA-A100-SXM4-80GB", healthy=True, basis="vendor_register",
            )  # fmt: skip
        for place, cores in enumerate(CORES):
            uid = f"{device:08d}-1111-4222-8333-{place:012d}"
            yield Request(
                source="kube_api", natural_key=uid, occurred_at=end, observed_at=end, pod_uid=uid, namespace=f"team-{(device + place) % TEAMS:02d}",
                pod=f"p{device}-{place}", node=node, phase="Running", created_at=START, scheduled_at=START, first_container_at=START,
            )  # fmt: skip
            yield Grant(
                source="hami", natural_key=uid, occurred_at=end, observed_at=end, pod_uid=uid, container="main", scheme="hami", node=node,
                device_uuid=uuid, unit_kind="vgpu", memory_mib=1, cores_percent=cores,
            )  # fmt: skip


def fill(store: Store, devices: int, hours: int) -> dict[str, float]:
    """The month: its first hour posted, the others as that one. Seconds of posting everything, and of the money ledgers in it."""
    store.append(facts(devices))
    clock = FixedClock(START + HOUR_US)
    before = tuple(ledger for ledger in LEDGERS if ledger not in (COST, CHARGE))
    others = clocked(lambda: post_ledgers(store, PostingParameters(), clock=clock, ledgers=before))
    together = clocked(lambda: post_ledgers(store, PostingParameters(), clock=clock))
    again = clocked(lambda: post_ledgers(store, PostingParameters(), clock=clock))
    for ledger in (COST, CHARGE):
        repeat(store, ledger, hours)
    store.execute("CHECKPOINT")
    rows = 2 * devices * len(CORES)
    return {
        "others_seconds": others[1],
        "money_seconds_per_million_rows": (together[1] - again[1]) * 1_000_000 / rows,
        "nothing_new_seconds": again[1],
    }


def repeat(store: Store, ledger: Ledger, hours: int) -> None:
    """The hour's entries for each of the hours after it, hour after hour as time would bring them."""
    entry = f"ledger.{ledger.name}_entry"
    columns = [column.name for column in ledger.stored_columns]
    later = ", ".join(f"{name} + to_hours(h)" if name == "grain_at" else name for name in columns)
    store.execute(f"UPDATE {entry} SET is_open = FALSE")
    store.execute(
        f"INSERT INTO {entry} SELECT {later}, run_id, sign, CAST(hash(entry_id, h) >> 1 AS BIGINT), FALSE "
        f"FROM (SELECT * FROM {entry}) AS hour CROSS JOIN (SELECT CAST(range AS INTEGER) AS h FROM range(1, {hours})) AS later"
    )


def freeze(store: Store, folder: Path) -> int:
    """The heavy work of a close, as ``settlement.closing`` does it; how many lines the statements have."""
    rules = SettlementRules()
    with store.reader() as view:
        lay_out_ledgers(view, rules.periods, LABEL)
        write_inputs(view, folder)
        write_corrections(folder, [])
        found = render(view, folder, Sheet(LABEL, START, closed_at=START), rules)
        write_lines(folder, found)
    return sum(len(statement.lines) for statement in found)


def keep(lines: list[int], store: Store, folder: Path) -> None:
    """Freeze, and write down how many lines that made."""
    lines.append(freeze(store, folder))


def measure(devices: int, days: int, rounds: int) -> dict[str, Any]:
    """Medians of the grouping and of the close, peak memory, cost of posting."""
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as scratch:
        folder = Path(scratch)
        with Store.open(folder / "data") as store:
            store.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
            posting = fill(store, devices, days * 24)
            counted = [
                store.rows(f"SELECT count(*) FROM ledger.{ledger.name}_entry")[0][0] for ledger in (COST, CHARGE)
            ]
            grouping, closing = [], []
            lines: list[int] = []
            for number in range(rounds):
                grouping.append(clocked(lambda: store.execute(GROUPING)))
                target = folder / f"period-{number}"
                target.mkdir()
                closing.append(clocked(partial(keep, lines, store, target)))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    medians = [statistics.median(one[1] for one in side) for side in (grouping, closing)]
    return {
        "devices": devices, "days": days, "rows": counted, "lines": lines[-1], "grouping_seconds": medians[0], "close_seconds": medians[1],
        "close_wall_seconds": statistics.median(one[0] for one in closing), "ratio": medians[1] / medians[0], "peak_mib": peak, **posting,
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Print the figures as JSON; 1 where a limit is not kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args(arguments)
    result = measure(chosen.devices, chosen.days, chosen.repeat)
    kept = result["ratio"] <= RATIO_MAX and result["peak_mib"] < MEMORY_MAX_MIB
    print(json.dumps({**result, "ratio_max": RATIO_MAX, "peak_mib_max": MEMORY_MAX_MIB, "kept": kept}, indent=2))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
