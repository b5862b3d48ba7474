"""What monitoring is told of states: GPU-time of the last day that is booked, by cluster, state and cause.

The server computes it once for each posting and prints it at ``/metrics``. The trick to know: states and causes are words of the definition, so the
series are bounded; who is behind them is Q3's to tell.

Sceptic's query: ``SELECT state, sum(amount_gpu_us) / 1e6 FROM ledger.gpu_state WHERE grain_at > now() - INTERVAL 1 DAY GROUP BY state``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from steelyard.answers.reading import Reading, Rows
from steelyard.primitives.instant import DurationUs

SQL: Final = Path(__file__).with_suffix(".sql")
METRIC: Final = "gpu_seconds_by_state"

StateSeries: TypeAlias = "Mapping[tuple[str, str, str], DurationUs]"
"""GPU-microseconds by (cluster, state, cause); a state without a cause has an empty one."""


def state_series(rows: Rows) -> StateSeries:
    """As of the last posting."""
    return {
        (row["cluster"], row["state"], row["cause"] or ""): int(row["amount_gpu_us"])
        for row in Reading(rows, SQL).run("states")
    }
