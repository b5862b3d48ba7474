"""What monitoring is told of over-use: episodes that go on or ended within a day, and what they took, by cluster, rule and severity.

The server computes it once for each posting and prints it at ``/metrics``. The trick to know: rules and severities are words of the definition, so
the series are bounded; who is behind them is Q7's to tell.

Sceptic's query: ``SELECT rule, severity, count(*) FROM ledger.over_use WHERE ended_at IS NULL GROUP BY ALL``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from steelyard.answers.reading import Reading, Rows
from steelyard.primitives.instant import DurationUs

SQL: Final = Path(__file__).with_suffix(".sql")
EPISODES: Final = "overuse_episodes"
GPU_SECONDS: Final = "overuse_gpu_seconds"

OveruseSeries: TypeAlias = "Mapping[tuple[str, str, str], tuple[int, DurationUs]]"
"""By (cluster, rule, severity): how many, and the GPU-microseconds that they took as far as that is known."""


def overuse_series(rows: Rows) -> OveruseSeries:
    """As of the last posting."""
    return {
        (row["cluster"], row["rule"], row["severity"]): (int(row["episodes"]), int(row["gpu_us"]))
        for row in Reading(rows, SQL).run("episodes")
    }
