"""Which profiling fields a card would print if its counters worked: those of its earlier rounds, and those of its like beside it.

A blank value has no row, so a counter that died looks like a field that was never switched on. The trick to know: only cards of the same
model are alike, because on a mixed node the exporter probes card 0 alone. Sceptic's command: ``curl exporter:9400/metrics | grep 1001``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.primitives.instant import Instant
from steelyard.sources.dcgm.fields import GAUGES, is_blank
from steelyard.sources.dcgm.rows import Row
from steelyard.sources.shared.round_memory import RoundMemory

KEY: Final = "dcgm_profiled"
CARDS_MAX: Final = 100_000
_Like = tuple[Instant, str, str | None]


class Profiled:
    """Made of the rows of one round, whole scrapes; ``memory`` keeps what each card printed."""

    def __init__(self, rows: Sequence[Row], memory: RoundMemory) -> None:
        kept = memory.kept.setdefault(KEY, {})
        self._before: dict[str, frozenset[str]] = kept if isinstance(kept, dict) else {}
        self._beside: dict[_Like, set[str]] = {}
        for row in rows:
            column = _column(row)
            if column is not None:
                self._beside.setdefault(_like(row), set()).add(column)

    def of(self, card: Sequence[Row]) -> frozenset[str]:
        """The columns of one card at one instant; what it prints now is remembered."""
        uuid = card[0].place.uuid
        before = self._before.get(uuid, frozenset())
        beside = frozenset().union(*(self._beside.get(key, ()) for key in {_like(row) for row in card}))
        printed = {column for row in card if (column := _column(row)) is not None}
        if printed and (before or len(self._before) < CARDS_MAX):
            self._before[uuid] = before | printed
        return before | beside


def _column(row: Row) -> str | None:
    """The profiling column that the row fills; None where it is another field's, or blank."""
    gauge = GAUGES.get(row.number)
    if gauge is None or not (gauge.is_prof or gauge.is_traffic) or row.value != row.value or is_blank(row.value):
        return None
    return gauge.column


def _like(row: Row) -> _Like:
    return row.at, row.place.exporter, row.place.attributes.model
