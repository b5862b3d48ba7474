"""What monitoring is told of money: the cost of the last booked day by cluster, account and currency, and what of it has no price.

The server computes it once for each posting and prints it at ``/metrics``. The trick to know: accounts, sides and reasons are words of the ledgers,
so the series are bounded; who pays is Q9's to tell.

Sceptic's query: ``SELECT account, currency, sum(cost_micro) / 1e6 FROM ledger.cost WHERE grain_at > now() - INTERVAL 1 DAY GROUP BY ALL``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from steelyard.answers.reading import Reading, Rows
from steelyard.primitives.instant import DurationUs

SQL: Final = Path(__file__).with_suffix(".sql")
COSTS: Final = "cost_currency_units"
UNPRICED: Final = "cost_unpriced_gpu_seconds"


@dataclass(frozen=True, slots=True)
class CostSeries:
    """``costs``: millionths by (cluster, account, currency). ``unpriced``: GPU-microseconds by (cluster, side, reason)."""

    costs: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    unpriced: Mapping[tuple[str, str, str], DurationUs] = field(default_factory=dict)


def cost_series(rows: Rows) -> CostSeries:
    """As of the last posting; empty where nothing has a price."""
    reading = Reading(rows, SQL)
    return CostSeries(
        {(row["cluster"], row["account"], row["currency"]): int(row["cost_micro"]) for row in reading.run("costs")},
        {
            (row["cluster"], row["side"], row["unpriced_reason"] or ""): int(row["amount_gpu_us"])
            for row in reading.run("unpriced")
        },
    )
