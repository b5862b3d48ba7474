"""What a store holds, in words and counts: which sources filled which table, which columns have values, which of it came lately by itself.

``app.doctor`` asks. The trick to know: a fact without an import came by collecting or pushing; ``since`` bounds what counts as lately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.metric_sample import MetricSample
from steelyard.primitives.instant import DurationUs, Instant
from steelyard.store.store import Store

WORDS_MAX: Final = 10_000
"""Different words of a column beyond which no more are looked at."""

_LIVE: Final = "import_id IS NULL AND observed_at >= make_timestamp($since::BIGINT)"


@dataclass(frozen=True, slots=True)
class Present:
    """What is there, and what of it came lately by itself."""

    all: frozenset[str]
    live: frozenset[str]


def sources_of(store: Store, fact: type[Fact], since: Instant) -> Present:
    """The sources that filled a fact table."""
    rows = store.rows(
        f"SELECT source, bool_or({_LIVE}) FROM fact.{fact.TABLE} GROUP BY source ORDER BY source", {"since": since}
    )
    return _present([(source, True, live) for source, live in rows])


def sample_columns(store: Store, columns: Sequence[str], since: Instant) -> Present:
    """The columns of device samples that have any value."""
    asked = ", ".join(f"bool_or({column} IS NOT NULL), bool_or({column} IS NOT NULL AND {_LIVE})" for column in columns)
    found = store.rows(f"SELECT {asked} FROM fact.{DeviceSample.TABLE}", {"since": since})[0]
    return _present(list(zip(columns, found[::2], found[1::2], strict=True)))


def metric_names_of(store: Store, since: Instant) -> Present:
    """The canonical names of metric samples."""
    rows = store.rows(
        f"SELECT metric, bool_or({_LIVE}) FROM fact.{MetricSample.TABLE} GROUP BY metric LIMIT {WORDS_MAX}",
        {"since": since},
    )
    return _present([(metric, True, live) for metric, live in rows])


def words_of(store: Store, fact: type[Fact], column: str) -> frozenset[str]:
    """The different values of a text column."""
    rows = store.rows(f"SELECT DISTINCT {column} FROM fact.{fact.TABLE} WHERE {column} IS NOT NULL LIMIT {WORDS_MAX}")
    return frozenset(str(word) for (word,) in rows)


def collected_span_us(store: Store) -> DurationUs | None:
    """From the first to the last round that was collected; None where none was."""
    found: DurationUs | None = store.rows(
        "SELECT epoch_us(max(observed_at)) - epoch_us(min(observed_at)) FROM fact.source_status WHERE import_id IS NULL"
    )[0][0]
    return found


def register_forms(store: Store) -> dict[str, int]:
    """Nodes by the form of the HAMi register that they had last."""
    rows = store.rows(
        "SELECT encoding, count(*) FROM (SELECT node, arg_max(encoding, occurred_at) AS encoding FROM fact.device "
        "WHERE source = 'hami' AND node IS NOT NULL AND encoding IS NOT NULL GROUP BY cluster, node) AS latest "
        "GROUP BY encoding ORDER BY encoding"
    )
    return {str(encoding): int(count) for encoding, count in rows}


def instances_by_card(store: Store) -> dict[str, int]:
    """GPU instances of each card at its latest sighting by anything but an exporter of metrics; several sources: the largest."""
    rows = store.rows(
        "SELECT device_uuid, max(instances) FROM (SELECT u.device_uuid, u.source, count(DISTINCT u.gi) AS instances "
        "FROM fact.unit AS u JOIN (SELECT device_uuid, source, max(occurred_at) AS last_at FROM fact.unit "
        "WHERE unit_kind = 'mig' AND gi IS NOT NULL AND source NOT IN ('dcgm', 'hami') GROUP BY ALL) AS latest "
        "ON u.device_uuid = latest.device_uuid AND u.source = latest.source AND u.occurred_at = latest.last_at "
        "WHERE u.unit_kind = 'mig' GROUP BY ALL) AS counted GROUP BY device_uuid ORDER BY device_uuid"
    )
    return {str(device): int(count) for device, count in rows}


def valid_tokens_count(store: Store) -> int:
    """Tokens that are not revoked."""
    count: int = store.rows("SELECT count(*) FROM store.token WHERE revoked_at IS NULL")[0][0]
    return count


def _present(rows: Sequence[tuple[str, object, object]]) -> Present:
    return Present(
        frozenset(word for word, there, _live in rows if there), frozenset(word for word, _there, live in rows if live)
    )
