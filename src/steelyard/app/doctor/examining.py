"""``steelyard doctor`` for one data directory: survey, diagnosis, and the server's side of the same.

``app.wiring`` makes an ``OwnDoctor`` for a directory that nobody serves and hands ``doctor_endpoints`` to the server, which then looks from where
it stands: its network, its account, its open store. Nothing is stored by either.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from steelyard.app.doctor.diagnosing import diagnose
from steelyard.app.doctor.probing import survey_sources
from steelyard.app.doctor.stored import look_at_directory, look_at_file, look_at_store
from steelyard.app.doctor.survey import (
    AuditLogSeen,
    ClusterSeen,
    PrometheusSeen,
    ScrapeSeen,
    StoredSeen,
    Survey,
)
from steelyard.app.settings import Settings
from steelyard.primitives.clock import Clock
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import SECOND_US, DurationUs, Instant
from steelyard.store import Store
from steelyard.surfaces.http_api import Endpoint
from steelyard.surfaces.http_api.admission import OPERATORS
from steelyard.surfaces.http_api.problems import json_response
from steelyard.surfaces.shared.doctor_ports import DoctorReport

DEADLINE_US_MAX: Final[DurationUs] = 300 * SECOND_US
DEADLINE_US: Final[DurationUs] = 10 * SECOND_US


class OwnDoctor:
    """Implements ``doctor_ports.Doctor`` for a directory that nobody serves."""

    def __init__(self, directory: Path, settings: Settings, clock: Clock) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock

    def examine(self, deadline_us: DurationUs) -> DoctorReport:
        """Look at everything; see ``Doctor``."""
        found = look_at_file(self._directory, self._clock.now())
        return _examined(self._directory, self._settings, self._clock, lambda now: found, deadline_us)


class DoctorParameters(BaseModel):
    """How long to look."""

    model_config = ConfigDict(extra="forbid")

    deadline_us: int = Field(DEADLINE_US, ge=100_000, le=DEADLINE_US_MAX, description="Microseconds for each source.")


def doctor_endpoints(store: Store, directory: Path, settings: Settings, clock: Clock) -> tuple[Endpoint, ...]:
    """The server's side."""

    def look(now: Instant) -> StoredSeen:
        with store.reader() as reader:
            return look_at_store(reader, now)

    def examine(parameters: Annotated[DoctorParameters, Query()]) -> Response:
        return json_response(_examined(directory, settings, clock, look, parameters.deadline_us).to_json())

    return (
        Endpoint(
            "POST",
            "/doctor",
            examine,
            OPERATORS,
            "Examine the configured sources and the data: what is missing, and how to have it",
        ),
    )


def _examined(
    directory: Path, settings: Settings, clock: Clock, look: Callable[[Instant], StoredSeen], deadline_us: DurationUs
) -> DoctorReport:
    probed = survey_sources(settings, clock, deadline_us)
    now = clock.now()
    survey = Survey(
        now=now,
        directory=look_at_directory(directory, settings.retention.raw_days),
        stored=look(now),
        clusters=probed.of(ClusterSeen),
        scrapes=probed.of(ScrapeSeen),
        prometheus=probed.of(PrometheusSeen),
        audit_logs=probed.of(AuditLogSeen),
        unanswered=tuple(probed.unanswered),
        faults=probed.faults,
    )
    return diagnose(survey, _not_tested(survey))


def _not_tested(survey: Survey) -> list[str]:
    """What nobody can find out from here."""
    found = []
    if not survey.is_configured:
        found.append(_("no live source: none is configured, so only what was imported or pushed is judged"))
    if survey.stored.error is not None:
        found.append(_("what the store holds"))
    if any(not each.names_known and each.error is None for each in survey.prometheus):
        found.append(_("which metrics a Prometheus lacks that does not list them"))
    return found
