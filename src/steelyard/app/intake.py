"""What is pushed to the server, as rounds of its one writer: nothing is acknowledged before it is stored."""

from __future__ import annotations

from collections import Counter
from typing import Final

from steelyard.app.audit import parsed, read_audit
from steelyard.app.collection import CollectionLoop
from steelyard.app.settings import Settings
from steelyard.facts.audit_event import AuditEvent
from steelyard.facts.base import Fact
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.shared.context import ReadContext
from steelyard.surfaces.shared.server_ports import Taken

AUDIT: Final = "ingest/audit"


class AuditIntake:
    """Implements ``server_ports.AuditReceiver`` over the loop's writer."""

    def __init__(self, loop: CollectionLoop, settings: Settings, clock: Clock) -> None:
        self._loop = loop
        self._settings = settings
        self._clock = clock

    def take_audit(self, body: bytes, cluster: str | None) -> Taken:
        """Read and store; see ``AuditReceiver``."""
        ctx = ReadContext(
            cluster=cluster or self._settings.cluster,
            file=AUDIT,
            observed_at=self._clock.now(),
            settings=self._settings.to_read_settings(),
        )
        document = parsed(body, ctx)
        if isinstance(document, SourceMalformed):
            raise document
        facts: list[Fact] = list(read_audit([(0, document)], ctx))
        counts = Counter(type(fact) for fact in facts)
        refused = sum(getattr(fact, "code", None) == "source_malformed" for fact in facts)
        return Taken(counts[AuditEvent], self._loop.take(AUDIT, facts, ctx.observed_at), refused)
