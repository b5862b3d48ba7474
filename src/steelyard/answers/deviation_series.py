"""What monitoring is told of deviations: by how much counted and device, and the scheduler's cache and the grants, differ now, and how many findings
say so, by cluster.

The server computes it once for each posting and prints it at ``/metrics``. The trick to know: where a side was not seen there is no sample, so an
exporter that fell silent makes a gap in the series, not a difference of 0.

Sceptic's query: ``SELECT code, count(*) FROM ledger.finding WHERE source = 'ledger.deviation' GROUP BY code``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from steelyard.answers.reading import Reading, Rows

SQL: Final = Path(__file__).with_suffix(".sql")
KINDS: Final = ("counted_less_device", "scheduler_less_granted")


@dataclass(frozen=True, slots=True)
class DeviationSeries:
    """mib: by (cluster, one of ``KINDS``). findings: how many, by (cluster, code)."""

    mib: Mapping[tuple[str, str], int] = field(default_factory=dict)
    findings: Mapping[tuple[str, str], int] = field(default_factory=dict)


def deviation_series(rows: Rows) -> DeviationSeries:
    """As of the last posting."""
    reading = Reading(rows, SQL)
    return DeviationSeries(
        {(row["cluster"], row["kind"]): int(row["mib"]) for row in reading.run("deviation")},
        {(row["cluster"], row["code"]): int(row["findings"]) for row in reading.run("deviation_findings")},
    )
