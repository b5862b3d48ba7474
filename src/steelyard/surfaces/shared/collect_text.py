"""A collection's report as lines of text and as JSON, and back from JSON; and the state of the collectors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from steelyard.answers.contract import Column, Table
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, format_instant
from steelyard.surfaces.shared.client import ServerClient
from steelyard.surfaces.shared.replies import other_form
from steelyard.surfaces.shared.service_ports import CollectorStatus, CollectReport, RoundReport
from steelyard.surfaces.shared.tables import Line, lay_out

_ROUNDS = (Column("collector"), Column("status"), Column("facts", "1"), Column("new", "1"), Column("message"))


def collect_json(report: CollectReport) -> dict[str, Any]:
    """The documented JSON form of a collection's report."""
    return {
        "rounds": [
            {
                "name": each.name,
                "status": each.status,
                "facts_count": each.facts_count,
                "new_count": each.new_count,
                "findings_by_code": dict(each.findings_by_code),
                "message": each.message,
            }
            for each in report.rounds
        ],
        "postings_count": report.postings_count,
    }


def collect_of(found: Any) -> CollectReport:
    """The report behind that form."""
    rounds = [RoundReport(**{name: each[name] for name in RoundReport.__slots__}) for each in found["rounds"]]
    return CollectReport(rounds, found["postings_count"])


def render_collect(report: CollectReport, width: int | None, rows_max: int | None = None) -> list[Line]:
    """What became of each round, and what was found."""
    rows = [(each.name, each.status, each.facts_count, each.new_count, each.message) for each in report.rounds]
    lines = lay_out(Table(_("rounds"), _ROUNDS, rows), width, rows_max)
    found: dict[str, int] = {}
    for each in report.rounds:
        for code, count in each.findings_by_code.items():
            found[code] = found.get(code, 0) + count
    if found:
        columns = (Column("code"), Column("count", "1"))
        table = Table(_("findings about the data"), columns, sorted(found.items()))
        lines += [Line("row", ""), *lay_out(table, width, rows_max)]
    posted = _("{count} ledger rows posted").format(count=f"{report.postings_count:,}")
    return [*lines, Line("row", ""), Line("row", posted)]


def collector_json(status: CollectorStatus) -> dict[str, Any]:
    """The documented JSON form of a collector's state."""
    return {
        "name": status.name,
        "state": status.state,
        "rounds_count": status.rounds_count,
        "failures_count": status.failures_count,
        "consecutive_failures_count": status.consecutive_failures_count,
        "skipped_count": status.skipped_count,
        "rows_count": status.rows_count,
        "last_round_at": _stamp(status.last_round_at),
        "last_success_at": _stamp(status.last_success_at),
        "last_duration_us": status.last_duration_us,
        "next_round_at": _stamp(status.next_round_at),
        "message": status.message,
    }


class RemoteRound:
    """Implements ``OneRound`` by asking the server."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def collect_now(self, names: Collection[str]) -> CollectReport:
        """One round of each, by the server. Raises what the server's own raises, and SourceUnavailable where it goes away."""
        found = self._client.post("/collect", [("only", name) for name in names])
        try:
            return collect_of(found)
        except (AttributeError, LookupError, TypeError) as error:
            raise other_form() from error


def _stamp(instant: Instant | None) -> str | None:
    return None if instant is None else format_instant(instant)
