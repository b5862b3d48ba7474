"""What the HTTP server may ask of the application: protocols and plain values.

``app.serving`` implements them and hands them to ``http_api.create``. The trick to know: everything here is called from several threads at
once; whoever implements it keeps writers in a queue and gives each reader a view of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from steelyard.answers.cost_series import CostSeries
from steelyard.answers.deviation_series import DeviationSeries
from steelyard.answers.overuse_series import OveruseSeries
from steelyard.answers.queue_series import QueueSeries
from steelyard.answers.state_series import StateSeries
from steelyard.primitives.instant import Instant
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.shared.capacity_ports import Capacity
from steelyard.surfaces.shared.money_ports import Money
from steelyard.surfaces.shared.ports import ImportReport, ImportRequest, Query, Reconciler, Stories
from steelyard.surfaces.shared.service_ports import Collectors, Gate, Tokens


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file that a client sent. ``path`` and ``name`` are what the sender calls it, for reports and findings, and name nothing on this
    machine; ``spooled`` is where its bytes lie (None: the sender could not read it, ``refusal`` is the finding's code and message). ``size`` is what
    the sender says (None: not known before the end). ``cut``: it was longer than ``Receiver.file_bytes_max``, and not all of it was kept."""

    path: str
    name: str
    kind: str | None
    spooled: Path | None
    size: int | None = None
    cut: bool = False
    modified_at: Instant | None = None
    refusal: tuple[str, str] | None = None


class Receiver(Protocol):
    """Takes the files of one import command that came over the network, by the same rules as ``ports.Importer``."""

    @property
    def file_bytes_max(self) -> int:
        """Bytes of one file beyond which it is refused, so that nobody need keep more of it."""
        ...

    def import_received(self, request: ImportRequest, files: Sequence[ReceivedFile]) -> ImportReport:
        """Import and post, in one transaction. ``request.paths`` and ``companions`` are empty: the files say it all.

        Raises UsageError as ``Importer`` does."""
        ...


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of a push: facts in it, how many of them were new, and how many items could not be read."""

    facts_count: int
    new_count: int
    refused_count: int


class AuditReceiver(Protocol):
    """Takes what an API server's audit webhook sends."""

    def take_audit(self, body: bytes, cluster: str | None) -> Taken:
        """Store the events of one body, each once by its audit id and stage; ``cluster`` None = that of the settings.

        Raises SourceMalformed where the body is no JSON within bounds, StoreFailed where it cannot be stored: then nothing of it is."""
        ...


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in a stable order, as JSON values. ``after`` is the key of the last row where more follow, else None."""

    rows: Sequence[Mapping[str, Any]]
    after: Sequence[str | int] | None


class Listings(Protocol):
    """Plain listings of the estate, a page at a time. ``after``: the key that the page before ended with, None = from the start."""

    def findings(self, after: Sequence[str | int] | None, limit: int) -> Page:
        """Findings about the data, gravest first. Raises UsageError for a key that no page ended with."""
        ...

    def devices(self, after: Sequence[str | int] | None, limit: int) -> Page:
        """The cards, by cluster, UUID and node. Raises UsageError for a key that no page ended with."""
        ...


@dataclass(frozen=True, slots=True)
class Standing:
    """How the books stand as of the last posting. All None or Unknown where nothing was posted yet. ``coverage``: observed share of the
    supply over the last day that is known, 0 to 1. ``agents_known``: node agents heard of in the last day (None: none ever was), of which
    ``agents_silent`` for five minutes were not. ``queues``, ``deviations``: what monitoring is told of queues and deviations.
    ``free_share_ratios``: (metric, measure) -> how much of what is free no typical request can use. ``states``: GPU-time of the last booked day.
    ``over_use``: episodes of the last day that is known. ``costs``: money of the last booked day."""

    posted_at: Instant | None = None
    as_of: Instant | None = None
    residual_gpu_us: int | None = None
    coverage: float | Unknown = field(default_factory=lambda: Unknown("nothing was posted yet"))
    agents_known: int | None = None
    agents_silent: int | None = None
    queues: QueueSeries = field(default_factory=QueueSeries)
    deviations: DeviationSeries = field(default_factory=DeviationSeries)
    free_share_ratios: Mapping[tuple[str, str], float] = field(default_factory=dict)
    states: StateSeries = field(default_factory=dict)
    over_use: OveruseSeries = field(default_factory=dict)
    costs: CostSeries = field(default_factory=CostSeries)


class Health(Protocol):
    """Whether the server can do its work."""

    def standing(self) -> Standing:
        """How the books stand. Raises StoreLocked or UsageError where the store cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class ServerPorts:
    """All doors that the HTTP server is given. ``spool``: a folder of its own for uploads, on the disk of the data directory."""

    query: Query
    stories: Stories
    reconciler: Reconciler
    capacity: Capacity
    money: Money
    receiver: Receiver
    listings: Listings
    tokens: Tokens
    gate: Gate
    health: Health
    collectors: Collectors
    spool: Path
