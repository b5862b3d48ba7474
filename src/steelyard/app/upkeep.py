"""``Upkeep`` for a data directory: its server's where one holds it, else over its file; and the server's side of the same.

``app.wiring`` makes an ``OwnUpkeep`` for the command line and hands ``upkeep_endpoints`` to the server. The trick to know: a path that a request
names is one on the server's machine, so only the owner of the directory, over its socket, may name any.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from steelyard.app import backups
from steelyard.app.retention import run_retention
from steelyard.app.settings import Settings
from steelyard.primitives.clock import Clock
from steelyard.primitives.i18n import _
from steelyard.store import Store
from steelyard.store.scratch import UnderWay
from steelyard.surfaces.http_api import Endpoint
from steelyard.surfaces.http_api.admission import ADMINS, principal_of
from steelyard.surfaces.http_api.problems import Problem, json_response
from steelyard.surfaces.shared.upkeep_ports import BackupReport, RetentionReport, StandbyReport


class OwnUpkeep:
    """Implements ``upkeep_ports.Upkeep`` for a directory that nobody serves. ``settings_of``: read where they are needed, since a
    directory to be made has none."""

    def __init__(self, directory: Path, settings_of: Callable[[], Settings], clock: Clock) -> None:
        self._directory = directory
        self._settings_of = settings_of
        self._clock = clock

    def backup(self, destination: Path) -> BackupReport:
        """Back up; see ``Upkeep``."""
        with Store.open(self._directory, read_only=True) as store:
            return backups.back_up(store, self._directory, destination, self._clock)

    def verify(self, source: Path) -> BackupReport:
        """Check; see ``Upkeep``."""
        return backups.verify(source)

    def restore(self, source: Path) -> BackupReport:
        """Make the directory; see ``Upkeep``."""
        return backups.restore(source, self._directory)

    def standby(self, source: Path) -> StandbyReport:
        """Make the directory a standby; see ``Upkeep``."""
        return backups.stand_by(source, self._directory, self._clock)

    def retention(self, dry_run: bool) -> RetentionReport:
        """Let samples age; see ``Upkeep``."""
        settings = self._settings_of()
        Store.open(self._directory, read_only=True).close()  # a directory without data is refused, not made
        with Store.open(self._directory, read_only=dry_run) as store:
            return run_retention(store, self._directory, settings, self._clock, dry_run=dry_run)


class BackupRequest(BaseModel):
    """What a backup is asked with."""

    model_config = ConfigDict(extra="forbid")

    destination: str = Field(
        min_length=1, max_length=4_000, pattern=r"^/", description="A folder on the server's machine."
    )


class RetentionRequest(BaseModel):
    """What a retention run is asked with."""

    model_config = ConfigDict(extra="forbid")

    dry_run: bool = Field(False, description="Only say what would go.")


def upkeep_endpoints(store: Store, directory: Path, settings: Settings, clock: Clock) -> tuple[Endpoint, ...]:
    """The server's side."""

    def backup(wanted: BackupRequest, request: Request) -> Response:
        if principal_of(request).token_id is not None:
            raise Problem("forbidden", _("a backup is written by the owner alone, on the server's machine"))
        try:
            report = backups.back_up(store, directory, Path(wanted.destination), clock)
        except UnderWay as error:
            raise Problem("conflict", str(error)) from None
        return json_response(report.to_json(), 201)

    def retention(wanted: RetentionRequest) -> Response:
        return json_response(run_retention(store, directory, settings, clock, dry_run=wanted.dry_run).to_json())

    return (
        Endpoint("POST", "/upkeep/backup", backup, ADMINS, "Write a backup; only over the owner's socket"),
        Endpoint("POST", "/upkeep/retention", retention, ADMINS, "Export facts and let samples age"),
    )
