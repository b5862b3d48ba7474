"""Which node agents were heard of lately: the ground of the alert on silent agents.

An agent's every delivery has a ``source_status`` of its node with source ``agent``; one that sent none for ``SILENT_US`` is silent.
"""

from __future__ import annotations

from typing import Final

from steelyard.primitives.instant import DAY_US, MINUTE_US, DurationUs, Instant
from steelyard.store import Store

SOURCE: Final = "agent"
SILENT_US: Final[DurationUs] = 5 * MINUTE_US
KNOWN_US: Final[DurationUs] = DAY_US


def agents_heard(reader: Store, now: Instant) -> tuple[int, int] | None:
    """(agents heard of within ``KNOWN_US``, those of them that are silent); None: none was."""
    known, silent = reader.rows(
        "SELECT count(*), count(*) FILTER (WHERE last_at < make_timestamp($silent::BIGINT)) FROM ("
        "SELECT max(observed_at) AS last_at FROM fact.source_status WHERE source = $source AND scope LIKE 'node/%' "
        "AND status <> 'failed' AND occurred_at >= make_timestamp($known::BIGINT) GROUP BY cluster, scope) AS heard",
        {"source": SOURCE, "silent": now - SILENT_US, "known": now - KNOWN_US},
    )[0]
    return (int(known), int(silent)) if known else None
