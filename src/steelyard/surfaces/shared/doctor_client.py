"""The doctor of a directory that a server holds, asked over its socket."""

from __future__ import annotations

from steelyard.primitives.instant import DurationUs
from steelyard.surfaces.shared.client import ServerClient
from steelyard.surfaces.shared.doctor_ports import DoctorReport, doctor_of


class RemoteDoctor:
    """Implements ``Doctor`` by asking the server, which looks from where it stands."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def examine(self, deadline_us: DurationUs) -> DoctorReport:
        """Let the server look; see ``Doctor``."""
        return doctor_of(self._client.post("/doctor", [("deadline_us", str(deadline_us))]))
