"""Jobs as their owners know them: queueing, retries, success and GPU-hours of a RayJob, PyTorchJob or JobSet in one row.

Q6 calls ``jobs``. A job is the root of the owner chain of its requests (``dim.workload``), so the pods of three RayClusters of one RayJob are
one job. The trick to know: how a job ended is its own word where it has one (the job, its Workload, a Volcano job); where its pods are all that was
seen, it succeeded only if the last pod of each name did, and what was replaced, or never had an owner, is neither success nor failure.

Sceptic's query: ``SELECT workload_kind, workload_name, count(*) FROM dim.demand GROUP BY ALL``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers.contract import Column, Figure, Table, Value
from steelyard.answers.demand_scope import DemandScope
from steelyard.answers.reading import Reading, Record
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, SECOND_US, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
VERSION: Final = "1"
METHOD: Final = f"jobs {VERSION}"
ROWS_MAX: Final = 1_000
METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "jobs_count": ("1", f"{METHOD}: roots of owner chains of which a request was made in the window"),
    "jobs_success_ratio": (
        "1",
        f"{METHOD}: succeeded / (succeeded + failed); preempted, replaced and living ones are neither",
    ),
    "gpu_hours_per_job": ("GPU-h", f"{METHOD}: granted GPU-hours of finished jobs that held any / their number"),
}

_GOOD: Final = frozenset({"succeeded", "succeeded_with_failed_pods"})
_NEITHER: Final = (
    "preempted",
    "evicted",
    "replaced",
    "out_of_sync",
    "owner_not_found",
    "aborted",
    "terminated",
    "vanished",
    "unknown",
)


@dataclass(frozen=True, slots=True)
class Jobs:
    """What Q6 says of jobs. ``left_out``: jobs that are not listed."""

    figures: Sequence[Figure]
    tables: Sequence[Table]
    left_out: int = 0


def jobs(reading: Reading, scope: DemandScope) -> Jobs:
    """The jobs of the scope; ``reading`` has the statements of ``SQL``. Durations in seconds, amounts in GPU-hours over the whole life of a job."""
    rows = reading.run("jobs", rows_max=ROWS_MAX, **scope.bound())
    outcomes = [outcome_of(row) for row in rows]
    listed = [row for row in rows if row["place"] is not None]
    succeeded, failed = (
        _count(row for row, outcome in zip(rows, outcomes, strict=True) if outcome in kinds)
        for kinds in (_GOOD, {"failed"})
    )
    ratio: Value = (
        Fraction(succeeded, succeeded + failed)
        if succeeded + failed
        else Unknown(_("no job is known to have ended by itself"))
    )
    done = [row for row in rows if row["ended_us"] is not None and _weighs(row)]
    told = [row for row in done if row["holders_count"] and not isinstance(_hours(row), Unknown)]
    per_job: Value = Unknown(_("of no finished job is it known how many GPU-hours it held"))
    if told:
        per_job = Fraction(sum(int(row["gpu_us"]) for row in told), _count(told) * HOUR_US)
    coverage = {
        "gpu_hours_per_job": _count(told) / _count(done)
        if done
        else Unknown(_("no job that asked for GPUs is known to have finished"))
    }
    values: dict[str, Value] = {"jobs_count": _count(rows), "jobs_success_ratio": ratio, "gpu_hours_per_job": per_job}
    figures = [Figure(name, value, *METHODS[name], coverage.get(name, 1.0)) for name, value in values.items()]
    tables = [_table(listed, outcomes)] if listed else []
    return Jobs(figures, tables, _count(rows) - len(listed))


def outcome_of(row: Record) -> str | None:
    """How a job ended: by its own word, else by its gangs', else by its pods; None = it lives, or nobody tells."""
    if row["own_outcome"] is not None:
        return str(row["own_outcome"])
    if row["living_count"] or (row["has_own_word"] and row["ended_us"] is None):
        return None
    told = list(row["outcomes"] or ()) if row["gangs_count"] else list(row["pod_outcomes"] or ())
    if not told:
        return None
    if "failed" in told:
        return "failed"
    for outcome in _NEITHER:
        if outcome in told and not _GOOD & set(told):
            return outcome
    good = sorted(_GOOD & set(told), key=len)
    return good[-1] if good else str(told[0])


def _count(rows: Iterable[Record]) -> int:
    """How many jobs the rows stand for."""
    return sum(int(row["jobs_count"]) for row in rows)


def _weighs(row: Record) -> bool:
    """Whether a job counts for GPU-hours per job: it held cards, or asked for some and not all of its pods were seen."""
    return bool(
        row["holders_count"] or ((row["gpu_milli"] or not row["gpus_known"]) and isinstance(_hours(row), Unknown))
    )


def _table(rows: Sequence[Record], outcomes: Sequence[str | None]) -> Table:
    columns = [Column(name) for name in ("cluster", "kind", "namespace", "job", "tenant", "person", "queue")]
    columns += [
        Column("requests", "1"),
        Column("gpus", "GPU"),
        Column("created_at"),
        Column("ended_at"),
        Column("waited", "s"),
        Column("waiting"),
    ]
    columns += [
        Column("evictions", "1"),
        Column("retries", "1"),
        Column("pods_failed", "1"),
        Column("pods_seen", "1"),
        Column("outcome"),
    ]
    columns += [Column("gpu_hours", "GPU-h"), Column("samples_per_second", "1/s")]
    return Table("jobs", columns, [_row(row, outcome) for row, outcome in zip(rows, outcomes, strict=False)])


def _row(row: Record, outcome: str | None) -> list[Value]:
    waited: Value = (
        Unknown(_("not all of its waits can be recovered"))
        if row["lost_count"]
        else Unknown(_("no source tells when it began to wait"))
    )
    if row["wait_us"] is not None and not row["lost_count"]:
        waited = row["wait_us"] // SECOND_US
    return [
        row["cluster"],
        row["job_kind"],
        row["namespace"],
        row["job_name"],
        row["tenant"],
        row["person"],
        row["queue"],
        row["requests_count"],
        Fraction(int(row["gpu_milli"]), 1_000) if row["gpus_known"] else Unknown(_("it does not say in cards")),
        format_instant(row["created_us"]),
        format_instant(row["ended_us"]) if row["ended_us"] is not None else None,
        waited,
        row["is_waiting"],
        row["evictions_count"],
        row["retries_count"],
        row["pods_failed_count"],
        row["pods_seen_count"],
        outcome
        if outcome is not None
        else (None if row["living_count"] else Unknown(_("no source tells how it ended"))),
        _hours(row),
        _samples_per_second(row),
    ]


def _samples_per_second(row: Record) -> Fraction | Unknown:
    """What its pods say by annotation; no log of a job is read."""
    if row["rate_micro"] is not None:
        return Fraction(int(row["rate_micro"]), 1_000_000)
    if row["rates_said_count"]:
        return Unknown(_("what its pods say of it is no number"))
    return Unknown(_("no job log was given, and no pod of it says so by annotation (setting rate_annotations)"))


def _hours(row: Record) -> Fraction | Unknown:
    """GPU-hours that its pods held; Unknown where not all of them were seen, or where a share is not known, with the least that it is."""
    hours = Fraction(int(row["gpu_us"]), HOUR_US)
    least = _("; at least {least} GPU-h").format(least=f"{float(hours):.3f}") if hours else ""
    if row["shares_unknown_count"]:
        return Unknown(_("how much of a card it held is not known") + least)
    if not row["pods_seen_count"]:
        return Unknown(_("none of its pods was seen"))
    if row["pods_seen_count"] < row["pods_asked_count"]:
        return Unknown(_("not all of its pods were seen") + least)
    return hours
