"""How long requests wait: the statistics of ledger ``wait`` that Q6 and forecasts of a wait stand on.

``queue_waits`` reads every figure of a window from the posted rows; the engine does the estimate (``queue_waits.sql``), by the rules of
``definitions.kaplan_meier``, and a test holds both together. The trick to know: the cohort is the waits that *began* in the window, known to
``known_to_at``; who still waits, gave up or was deactivated is censored and stays in. The naive figures are those of the served alone, which is
what most dashboards print: the longer a queue is stuck, the better they look.

Sceptic's query: ``SELECT * FROM ledger.wait WHERE stage IN ('queue', 'scheduler') AND unknown_reason IS NULL``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from steelyard.answers.reading import Reading, Record
from steelyard.definitions.kaplan_meier import NO_WAITS, NOT_REACHED, Incidence
from steelyard.primitives.instant import HOUR_US, MINUTE_US, DurationUs, Window
from steelyard.primitives.unknown import Unknown

SQL_FILE: Final = Path(__file__).with_suffix(".sql")

LEVELS: Final = (0.5, 0.95, 0.99)
SIZES: Final = ("unknown", "none", "1", "2-8", "more")
"""How many GPUs a request asks for: it does not say, none, at most one, up to eight, more."""

HORIZONS_US: Final = (MINUTE_US, 10 * MINUTE_US, HOUR_US, 6 * HOUR_US, 24 * HOUR_US)
"""At which ages the cumulative incidence is told, as far as any wait was seen that old, beside the age of the last end."""

Quantile = DurationUs | Unknown


@dataclass(frozen=True, slots=True)
class WaitScope:
    """Whose waits: those that began in ``window``. Empty sequences mean all, '' means not set. ``queues`` are cluster queues or Volcano queues,
    ``workloads`` are ``kind/name``."""

    window: Window
    clusters: Sequence[str] = ()
    queues: Sequence[str] = ()
    namespaces: Sequence[str] = ()
    tenants: Sequence[str] = ()
    priorities: Sequence[str] = ()
    workloads: Sequence[str] = ()
    persons: Sequence[str] = ()
    demand_ids: Sequence[str] = ()

    def bound(self) -> Mapping[str, object]:
        """The values that the statements bind."""
        return {
            "from_us": self.window.start,
            "to_us": self.window.end,
            "clusters": list(self.clusters),
            "queues": list(self.queues),
            "namespaces": list(self.namespaces),
            "tenants": list(self.tenants),
            "priorities": list(self.priorities),
            "workloads": list(self.workloads),
            "persons": list(self.persons),
            "demand_ids": list(self.demand_ids),
            "of_demands": bool(self.tenants or self.priorities or self.workloads or self.persons),
        }


@dataclass(frozen=True, slots=True)
class Estimate:
    """A product-limit estimate. ``waits_count`` of which ``events_count`` were served, the rest censored. ``survival``: the part that
    still waits after the last event. Quantiles in microseconds; Unknown where they are not reached."""

    waits_count: int = 0
    events_count: int = 0
    survival: float | Unknown = field(default_factory=lambda: Unknown(NO_WAITS))
    p50_us: Quantile = field(default_factory=lambda: Unknown(NO_WAITS))
    p95_us: Quantile = field(default_factory=lambda: Unknown(NO_WAITS))
    p99_us: Quantile = field(default_factory=lambda: Unknown(NO_WAITS))

    @property
    def censored_count(self) -> int:
        """Waits that have not ended, or not by being served."""
        return self.waits_count - self.events_count


@dataclass(frozen=True, slots=True)
class NaiveFigures:
    """Linear percentiles of the served alone, in microseconds."""

    p50_us: float | Unknown
    p95_us: float | Unknown
    p99_us: float | Unknown


@dataclass(frozen=True, slots=True)
class QueueWaits:
    """All of it. ``everyone``: each wait counts once. ``on_gpus``: those that ask for a GPU; one that does not say is none of them. ``fitting``:
    without those that can never fit. ``by_gpus``: weighted by the GPUs asked for (thousandths of a card). ``by_size``: by SIZES. ``incidence``: at
    HORIZONS_US and at the last end. ``not_recoverable_count``: waits that began in the window, or were bounded by it, of unknown length."""

    everyone: Estimate
    on_gpus: Estimate
    fitting: Estimate
    by_gpus: Estimate
    by_size: Mapping[str, Estimate]
    naive: NaiveFigures
    incidence: Sequence[Incidence]
    not_recoverable_count: int
    longest_waiting_us: DurationUs | None


def queue_waits(reading: Reading, scope: WaitScope) -> QueueWaits:
    """Every figure of the scope, from the posted ledger; ``reading`` knows the statements of ``SQL_FILE``."""
    rows = reading.run("wait_figures", horizons_us=list(HORIZONS_US), **scope.bound())
    curves = {row["curve"]: estimate_of(row) for row in rows if row["what"] == "curve"}
    naive = {row["level"]: row["value_us"] for row in rows if row["what"] == "naive"}
    counts = next(row for row in rows if row["what"] == "counts")
    return QueueWaits(
        everyone=curves.get("everyone", Estimate()),
        on_gpus=curves.get("on_gpus", Estimate()),
        fitting=curves.get("fitting", Estimate()),
        by_gpus=curves.get("by_gpus", Estimate()),
        by_size={size: curves[f"size/{size}"] for size in SIZES if f"size/{size}" in curves},
        naive=NaiveFigures(*(_naive(naive.get(level)) for level in (50, 95, 99))),
        incidence=[
            Incidence(row["horizon_us"], row["scheduled"], row["abandoned"])
            for row in rows
            if row["what"] == "incidence"
        ],
        not_recoverable_count=counts["not_recoverable_count"],
        longest_waiting_us=counts["longest_waiting_us"],
    )


def estimate_of(row: Record) -> Estimate:
    """The estimate of a row with the columns of an estimate."""
    quantiles = [row[f"p{level}_us"] for level in (50, 95, 99)]
    p50, p95, p99 = (Unknown(NOT_REACHED) if value is None else int(value) for value in quantiles)
    return Estimate(int(row["waits_count"]), int(row["events_count"]), float(row["survival"]), p50, p95, p99)


def _naive(value: float | None) -> float | Unknown:
    return Unknown(NO_WAITS) if value is None else float(value)
