"""``POST /backfill`` and ``GET /backfill``: the server's side of ``steelyard backfill``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from steelyard.app.backfilling import BackfillJobs
from steelyard.primitives.instant import Instant
from steelyard.surfaces.http_api import Endpoint
from steelyard.surfaces.http_api.admission import ESTATE, OPERATORS
from steelyard.surfaces.http_api.problems import json_response
from steelyard.surfaces.shared.backfill_ports import RUNNING, BackfillRequest
from steelyard.surfaces.shared.options import instant_of


class BackfillBody(BaseModel):
    """What a back-fill is asked with."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    prometheus: str | None = Field(None, max_length=100, description="Its name in the settings; null: the only one.")
    start: str | None = Field(None, alias="from", max_length=100, description="Null: as far back as it reaches.")
    end: str | None = Field(None, alias="to", max_length=100, description="Null: now.")
    chunk_us: int | None = Field(None, gt=0, description="How much at a time; null: as the settings say.")
    dry_run: bool = Field(False, description="Only say what is missing.")


class BackfillParameters(BaseModel):
    """Which back-fill, and what is known of it."""

    model_config = ConfigDict(extra="forbid")

    prometheus: str = Field(max_length=100, description="Its name in the settings.")
    after: int = Field(0, ge=0, description="So many chunks are known and left out.")
    wait: int = Field(0, ge=0, le=10, description="Seconds to wait for another one.")


def backfill_endpoints(jobs: BackfillJobs) -> tuple[Endpoint, ...]:
    """Both routes."""

    def begin(wanted: BackfillBody) -> Response:
        request = BackfillRequest(
            wanted.prometheus,
            _instant(wanted.start, "from"),
            _instant(wanted.end, "to"),
            wanted.chunk_us,
            wanted.dry_run,
        )
        report = jobs.begin(request)
        return json_response(report.to_json(), 202 if report.state == RUNNING else 200)

    def report(parameters: Annotated[BackfillParameters, Query()]) -> Response:
        return json_response(jobs.report(parameters.prometheus, parameters.after, parameters.wait).to_json())

    return (
        Endpoint("POST", "/backfill", begin, OPERATORS, "Take in what a Prometheus remembers, in the background"),
        Endpoint("GET", "/backfill", report, ESTATE, "How a back-fill stands"),
    )


def _instant(text: str | None, name: str) -> Instant | None:
    return instant_of(text, name)
