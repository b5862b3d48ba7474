"""A back-fill of a directory that a server holds: the server does it in the background, the command asks how far it is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import Window, format_instant, parse_instant
from steelyard.surfaces.shared.backfill_ports import (
    FAILED,
    RUNNING,
    BackfillProgress,
    BackfillReport,
    BackfillRequest,
    FilledChunk,
)
from steelyard.surfaces.shared.client import ServerClient
from steelyard.surfaces.shared.replies import other_form

WAIT_SECONDS: Final = 5
"""How long the server may wait for news before it answers all the same."""


class RemoteBackfiller:
    """Implements ``Backfiller`` by asking the server."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def run(self, request: BackfillRequest, progress: BackfillProgress, *, follow: bool = True) -> BackfillReport:
        """Let the server begin, or join the one under way, and follow it to its end; see ``Backfiller``."""
        sent = json.dumps(request_json(request)).encode("ascii")
        report = report_of(self._client.post("/backfill", content=sent, headers={"Content-Type": "application/json"}))
        filled: list[FilledChunk] = []
        while True:
            for chunk in report.filled:
                filled.append(chunk)
                progress(chunk, len(filled), report.chunks_count or 0)
            if report.state != RUNNING or not follow:
                break
            asked = [("prometheus", report.prometheus), ("after", str(len(filled))), ("wait", str(WAIT_SECONDS))]
            report = report_of(self._client.get("/backfill", asked))
        if report.state == FAILED:
            raise SourceUnavailable(report.message or FAILED)
        return replace(report, filled=filled, filled_before=0)


def request_json(request: BackfillRequest) -> dict[str, Any]:
    """What the server is sent."""
    return {
        "prometheus": request.prometheus,
        "from": None if request.start is None else format_instant(request.start),
        "to": None if request.end is None else format_instant(request.end),
        "chunk_us": request.chunk_us,
        "dry_run": request.dry_run,
    }


def report_of(found: Any) -> BackfillReport:
    """The report behind its JSON form. Raises SourceUnsupported where that is of another form."""
    try:
        filled = [FilledChunk(_window(part), part["new_count"]) for part in found["filled"]]
        return BackfillReport(
            found["prometheus"],
            found["state"],
            None if found["from"] is None else _window(found),
            found["chunks_count"],
            [_window(part) for part in found["missing"]],
            filled,
            found["filled_count"] - len(filled),
            found["new_count"],
            found["postings_count"],
            found["message"],
        )
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise other_form() from error


def _window(found: Any) -> Window:
    return Window(parse_instant(found["from"]), parse_instant(found["to"]))
