"""Saturation beside utilisation: what was asked for and not given, in GPU-time, and how long requests wait.

``demand_part`` is what Q3 calls. Saturation is never inferred from utilisation: a full card may have nobody waiting, and an idle estate a queue that
holds everybody back. The trick to know: requests have no node and no card, so under a condition on those no demand is told.

Sceptic's query: ``SELECT cause, count(*) FROM ledger.wait WHERE ended_at IS NULL GROUP BY cause``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from steelyard.answers.contract import Column, Figure, Table, Value
from steelyard.answers.dimensions import Filter
from steelyard.answers.queue_waits import WaitScope, queue_waits
from steelyard.answers.reading import Reading, Record
from steelyard.answers.scheduling_waits import said
from steelyard.definitions import kaplan_meier
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, SECOND_US, Window
from steelyard.primitives.unknown import Unknown

_SCOPE: Final = {
    "cluster": "clusters",
    "namespace": "namespaces",
    "tenant": "tenants",
    "queue": "queues",
    "workload": "workloads",
    "owner": "workloads",
    "person": "persons",
}
"""Conditions that requests know, and where a scope of waits has them."""
LEAST_US: Final = HOUR_US // 10
"""Below a tenth of a GPU-hour nobody is named."""
_COLUMN: Final = {"owner": "workload"}
_KM: Final = f"kaplan_meier {kaplan_meier.VERSION}"
METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "gpu_hours_pending": (
        "GPU-h",
        "waits for quota, gang or scheduler x GPUs asked for; without requests that never fit",
    ),
    "saturation_ratio": ("1", "gpu_hours_pending / gpu_hours_supply"),
    "queue_wait_p50_seconds": ("s", f"{_KM}: waits that began in the window"),
    "queue_wait_p95_seconds": ("s", f"{_KM}: waits that began in the window"),
}
COLUMNS: Final = (
    Column("cause"),
    Column("gpu_hours_pending", "GPU-h"),
    Column("requests", "1"),
    Column("tenant"),
    Column("queue"),
)


@dataclass(frozen=True, slots=True)
class Demand:
    """Figures, the table of what was pending, and its total in GPU-microseconds (None: not told apart as asked). ``asking``: whose
    requests free time was matched with, by cause."""

    figures: Sequence[Figure]
    table: Table
    pending_us: int | None
    asking: Sequence[Record] = ()


def demand_part(reading: Reading, window: Window, where: Sequence[Filter], supply_us: int) -> Demand:
    """What was pending in the window, of the requests that meet the conditions. ``reading`` has the statements of ``queue_waits`` too."""
    unfit = sorted({condition.dimension.name for condition in where} - set(_SCOPE))
    if unfit:
        reason = Unknown(
            _("requests have no {names}: what waits for these cards alone is not told").format(names=", ".join(unfit))
        )
        figures = [Figure(name, reason, unit, method, reason) for name, (unit, method) in METHODS.items()]
        return Demand(figures, Table("pending", COLUMNS, ()), None)
    rows, matched = (
        [
            row
            for row in map(_with_workload, reading.run(name, from_us=window.start, to_us=window.end))
            if all((row[_COLUMN.get(c.dimension.name, c.dimension.name)] or "") == c.wanted for c in where)
        ]
        for name in ("pending", "waiting_owners")
    )
    pending_us = sum(int(row["milli_us"]) for row in rows) // 1000
    waits = queue_waits(reading, WaitScope(window, **{_SCOPE[c.dimension.name]: (c.wanted,) for c in where}))
    values: dict[str, Value] = {
        "gpu_hours_pending": Fraction(pending_us, HOUR_US),
        "saturation_ratio": float(Fraction(pending_us, supply_us))
        if supply_us > 0
        else Unknown(_("no supply is known")),
        "queue_wait_p50_seconds": _seconds(waits.everyone.p50_us),
        "queue_wait_p95_seconds": _seconds(waits.everyone.p95_us),
    }
    figures = [Figure(name, values[name], unit, method, 1.0) for name, (unit, method) in METHODS.items()]
    groups: dict[tuple[str, str | None, str | None], list[int]] = {}
    for row in rows:
        amount = groups.setdefault((row["cause"], row["tenant"], row["queue"]), [0, 0])
        amount[0] += int(row["milli_us"])
        amount[1] += int(row["requests_count"])
    ordered = sorted(groups.items(), key=lambda item: (-item[1][0], item[0][0], item[0][1] or "", item[0][2] or ""))
    table = [
        (cause, Fraction(milli_us, 1000 * HOUR_US), requests, tenant, queue)
        for (cause, tenant, queue), (milli_us, requests) in ordered
    ]
    return Demand(figures, Table("pending", COLUMNS, table), pending_us, matched)


def who_asked(
    asking: Sequence[Record], cause: str | None, cluster: str | None = None
) -> list[tuple[str, list[Record]]]:
    """Whose requests free time was matched with under a cause, those with most first, each with their requests; with less than a tenth of a GPU-hour
    one is named only where nobody has more."""
    by_owner: dict[str, list[Record]] = {}
    for row in asking:
        if row["cause"] == cause and cluster in (None, row["cluster"]):
            owner = f"{row['namespace']}/{row['workload']}" if row["workload"] else str(row["namespace"])
            by_owner.setdefault(owner, []).append(row)
    ordered = sorted(by_owner, key=lambda owner: (-matched_us(by_owner[owner]), owner))
    named = [owner for owner in ordered if matched_us(by_owner[owner]) >= LEAST_US] or ordered[:1]
    return [(owner, by_owner[owner]) for owner in named]


def matched_us(rows: Sequence[Record]) -> int:
    """Free GPU-time that these requests were matched with."""
    return sum(int(row["matched_us"]) for row in rows)


def asker_shown(named: Sequence[tuple[str, list[Record]]]) -> str | None:
    """Whose requests most was matched with, and how many more there are; None where nobody is known."""
    if len(named) > 1:
        return _("{owner} and {count} more").format(owner=named[0][0], count=len(named) - 1)
    return named[0][0] if named else None


def _with_workload(row: Record) -> Record:
    return {**row, "workload": _workload(row["workload_kind"], row["workload_name"])}


def _workload(kind: str | None, name: str | None) -> str | None:
    return f"{kind}/{name}" if kind is not None and name is not None else None


def _seconds(length_us: int | Unknown) -> Value:
    return said(length_us) if isinstance(length_us, Unknown) else length_us / SECOND_US
