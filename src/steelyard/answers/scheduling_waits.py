"""How long requests waited, as Q6 says it: figures for all that is asked about, and a row per group.

Q6 calls ``wait_part``. Estimates are those of ``queue_waits``; this module only names them. The trick to know: a wait is counted where it began, so a
request that was evicted and waited again has several; ``requests_*`` counts requests, ``waits_*`` counts waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from steelyard.answers.contract import Column, Figure, Table, Value
from steelyard.answers.demand_scope import DemandScope
from steelyard.answers.queue_waits import Estimate, QueueWaits, WaitScope, estimate_of, queue_waits
from steelyard.answers.reading import Reading, Record
from steelyard.definitions import kaplan_meier, percentile, queue_wait
from steelyard.definitions.kaplan_meier import NO_WAITS, NOT_REACHED
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import SECOND_US
from steelyard.primitives.unknown import Unknown

_WAITS: Final = f"queue_wait {queue_wait.VERSION}"
_ESTIMATE: Final = f"{_WAITS}, kaplan_meier {kaplan_meier.VERSION}: who still waits or gave up is censored and stays in"
_LEVELS: Final = ("p50", "p95", "p99")
_SIZES: Final = (("1", "1_gpu"), ("2-8", "2_to_8_gpus"), ("more", "more_gpus"))

METHODS: Final[Mapping[str, tuple[str, str]]] = {
    **{f"queue_wait_{level}_seconds": ("s", f"{_ESTIMATE}, over all requests") for level in _LEVELS},
    **{
        f"queue_wait_{level}_seconds_naive": (
            "s",
            f"{_WAITS}, percentile {percentile.VERSION}: linear, of the served alone, which is what most dashboards print",
        )
        for level in _LEVELS
    },
    **{
        f"queue_wait_{level}_seconds_gpu_only": ("s", f"{_ESTIMATE}, over requests that ask for GPUs")
        for level in _LEVELS
    },
    **{
        f"queue_wait_{level}_seconds_without_never_fits": ("s", f"{_ESTIMATE}, without those that can never fit")
        for level in _LEVELS
    },
    **{
        f"queue_wait_{level}_seconds_gpu_weighted": ("s", f"{_ESTIMATE}, each weighs its GPUs") for level in _LEVELS[:2]
    },
    **{f"queue_wait_p95_seconds_{word}": ("s", f"{_ESTIMATE}, by GPUs asked for") for _size, word in _SIZES},
    "incidence_scheduled_ratio": ("1", f"{_WAITS}: cumulative incidence (Aalen-Johansen) at the last end of a wait"),
    "incidence_abandoned_ratio": ("1", f"{_WAITS}: cumulative incidence (Aalen-Johansen) at the last end of a wait"),
    "requests_count": ("1", f"{_WAITS}: requests whose wait began in the window"),
    "requests_waiting": ("1", f"{_WAITS}: those of them whose last wait goes on"),
    "requests_never_fits": (
        "1",
        f"{_WAITS}: those of them that wait and can never fit, by facts, else by their decider's last word",
    ),
    "requests_abandoned": (
        "1",
        f"{_WAITS}: those of them whose last wait was given up, by whoever asked or by its controller",
    ),
    "waits_count": ("1", f"{_WAITS}: waits that began in the window and whose length is known"),
    "waits_not_recoverable_count": ("1", f"{_WAITS}: waits that were there and whose length cannot be recovered"),
}

COUNT_COLUMNS: Final = (
    Column("requests", "1"),
    Column("waits", "1"),
    Column("events", "1"),
    Column("censored", "1"),
    *(Column(f"{level}_seconds", "s") for level in _LEVELS),
    *(Column(f"{level}_seconds_naive", "s") for level in _LEVELS),
    Column("longest_pending_seconds", "s"),
    Column("waiting", "1"),
    Column("never_fits", "1"),
    Column("abandoned", "1"),
    Column("not_recoverable", "1"),
    Column("quota_fulfilment_ratio", "1"),
)


@dataclass(frozen=True, slots=True)
class WaitPart:
    """What Q6 says about waits. ``coverage``: waits whose length is known, of all that began in the window."""

    figures: Sequence[Figure]
    tables: Sequence[Table]
    coverage: float | Unknown
    requests_count: int
    blind_spots: Sequence[str] = ()


def seconds(microseconds: float | Unknown | None) -> Value:
    """A duration in seconds; None stays None, and what is not known keeps its reason, in the chosen language."""
    if isinstance(microseconds, Unknown):
        return said(microseconds)
    return None if microseconds is None else Fraction(round(microseconds), SECOND_US)


def said(unknown: Unknown) -> Unknown:
    """The reason of an estimate in the chosen language."""
    words = {
        NOT_REACHED: lambda: _("not reached: too many waits have not ended"),
        NO_WAITS: lambda: _("there is no wait to estimate from"),
    }
    word = words.get(unknown.reason)
    return unknown if word is None else Unknown(word())


def wait_part(reading: Reading, scope: DemandScope, fulfilment: Mapping[tuple[Value, ...], Value]) -> WaitPart:
    """Figures and the tables ``waits`` and ``incidence``. ``fulfilment``: by the values of the groups."""
    waits = queue_waits(reading, _wait_scope(scope))
    counts = reading.run("request_counts", of_demands=scope.asks_demands(), **scope.bound())[0]
    known, lost = waits.everyone.waits_count, waits.not_recoverable_count
    coverage = known / (known + lost) if known + lost else Unknown(_("no wait was seen"))
    values = {**_estimates(waits), **_counts(waits, counts)}
    unsized = waits.by_size.get("unknown", Estimate()).waits_count
    of_gpus = known_part(coverage, waits.everyone.waits_count, unsized)
    figures = [
        Figure(name, values[name], unit, method, of_gpus if _is_by_gpus(name) else coverage)
        for name, (unit, method) in METHODS.items()
    ]
    rows = [
        _row(row, scope, fulfilment)
        for row in reading.run(
            "wait_groups", by=list(scope.by), of_demands=scope.asks_demands(scope.by), **scope.bound()
        )
    ]
    tables = [Table("waits", (*scope.columns(), *COUNT_COLUMNS), rows)]
    if waits.incidence:
        columns = (Column("age_seconds", "s"), Column("scheduled_ratio", "1"), Column("abandoned_ratio", "1"))
        ends = [(seconds(each.time_us), each.scheduled, each.abandoned) for each in waits.incidence]
        tables.append(Table("incidence", columns, ends))
    spots = _lost(reading, scope)
    if unsized:
        spots.append(
            _(
                "{count} waits do not say how many GPUs they are for, or no number that there can be: figures by GPUs leave them out"
            ).format(count=unsized)
        )
    return WaitPart(figures, tables, coverage, int(counts["requests_count"]), spots)


def _lost(reading: Reading, scope: DemandScope) -> list[str]:
    """What of waits is not known, and why."""
    rows = reading.run("waits_lost", of_demands=scope.asks_demands(), **scope.bound())
    spots = []
    reasons = [row for row in rows if row["unknown_reason"] is not None]
    if reasons:
        spots.append(
            _("{count} waits cannot be recovered ({reasons}): they are in no estimate").format(
                count=sum(row["waits_count"] for row in reasons),
                reasons=", ".join(f"{row['unknown_reason']} {row['waits_count']}" for row in reasons),
            )
        )
    spots += [
        _(
            "{count} pods bear the name of a queue and no Workload of theirs was seen: their wait is told as the scheduler's"
            " (finding queue_label_without_workload)"
        ).format(count=row["waits_count"])
        for row in rows
        if row["unknown_reason"] is None
    ]
    return spots


def known_part(coverage: float | Unknown, waits_count: int, unsized_count: int) -> float | Unknown:
    """The coverage of figures that leave out waits of unknown size."""
    if isinstance(coverage, Unknown) or not waits_count:
        return coverage
    return coverage * (waits_count - unsized_count) / waits_count


def _is_by_gpus(name: str) -> bool:
    return name.endswith(("_gpu_only", "_gpu_weighted", *(f"_{word}" for _size, word in _SIZES)))


def _wait_scope(scope: DemandScope) -> WaitScope:
    wanted = scope.wanted
    return WaitScope(
        scope.window,
        clusters=wanted.get("cluster", ()),
        queues=wanted.get("queue", ()),
        namespaces=wanted.get("namespace", ()),
        tenants=wanted.get("tenant", ()),
        priorities=wanted.get("priority", ()),
        workloads=wanted.get("workload", ()),
        persons=wanted.get("person", ()),
        demand_ids=wanted.get("demand_id", ()),
    )


def _estimates(waits: QueueWaits) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for level in _LEVELS:
        values[f"queue_wait_{level}_seconds"] = seconds(getattr(waits.everyone, f"{level}_us"))
        values[f"queue_wait_{level}_seconds_naive"] = seconds(getattr(waits.naive, f"{level}_us"))
        values[f"queue_wait_{level}_seconds_gpu_only"] = seconds(getattr(waits.on_gpus, f"{level}_us"))
        values[f"queue_wait_{level}_seconds_without_never_fits"] = seconds(getattr(waits.fitting, f"{level}_us"))
        values[f"queue_wait_{level}_seconds_gpu_weighted"] = seconds(getattr(waits.by_gpus, f"{level}_us"))
    for size, word in _SIZES:
        values[f"queue_wait_p95_seconds_{word}"] = seconds(waits.by_size.get(size, Estimate()).p95_us)
    nothing = Unknown(_("no wait has ended"))
    last = waits.incidence[-1] if waits.incidence else None
    values["incidence_scheduled_ratio"] = last.scheduled if last else nothing
    values["incidence_abandoned_ratio"] = last.abandoned if last else nothing
    return values


def _counts(waits: QueueWaits, counts: Record) -> dict[str, Value]:
    return {
        "requests_count": int(counts["requests_count"]),
        "requests_waiting": int(counts["waiting_count"]),
        "requests_never_fits": int(counts["never_fits_count"]),
        "requests_abandoned": int(counts["abandoned_count"]),
        "waits_count": waits.everyone.waits_count,
        "waits_not_recoverable_count": waits.not_recoverable_count,
    }


def _row(row: Record, scope: DemandScope, fulfilment: Mapping[tuple[Value, ...], Value]) -> Sequence[Value]:
    estimate = estimate_of(row) if row["survival"] is not None else Estimate()
    naive = [row[f"naive_{level}_us"] for level in _LEVELS]
    group = scope.group(row)
    return (
        *group,
        row["requests_count"],
        row["waits_count"],
        row["events_count"],
        estimate.censored_count,
        *(seconds(getattr(estimate, f"{level}_us")) for level in _LEVELS),
        *(seconds(Unknown(NO_WAITS) if value is None else value) for value in naive),
        seconds(row["longest_waiting_us"]),
        row["waiting_count"],
        row["never_fits_count"],
        row["abandoned_count"],
        row["not_recoverable_count"],
        fulfilment.get(group, Unknown(_("no request within its queue's own quota is told one by one"))),
    )
