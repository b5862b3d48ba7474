"""A backup or a retention run of a directory that a server holds, asked over its socket."""

from __future__ import annotations

import json
from pathlib import Path

from steelyard.surfaces.shared.client import ServerClient
from steelyard.surfaces.shared.upkeep_ports import BackupReport, RetentionReport, backup_of, retention_of


class RemoteUpkeep:
    """The two acts of ``Upkeep`` that a server does itself."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def backup(self, destination: Path) -> BackupReport:
        """Write a backup; a relative name is that of this process; see ``Upkeep``."""
        sent = json.dumps({"destination": str(destination.absolute())}).encode("ascii")
        return backup_of(
            self._client.post("/upkeep/backup", content=sent, headers={"Content-Type": "application/json"})
        )

    def retention(self, dry_run: bool) -> RetentionReport:
        """Let samples age; see ``Upkeep``."""
        sent = json.dumps({"dry_run": dry_run}).encode("ascii")
        return retention_of(
            self._client.post("/upkeep/retention", content=sent, headers={"Content-Type": "application/json"})
        )
