"""What a surface may ask of the application: protocols that ``app`` implements and hands in, so that no surface imports it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from steelyard.answers.contract import Answer
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import DurationUs, Instant, Window
from steelyard.surfaces.shared.backfill_ports import Backfiller
from steelyard.surfaces.shared.capacity_ports import Capacity
from steelyard.surfaces.shared.doctor_ports import Doctor
from steelyard.surfaces.shared.money_ports import Money
from steelyard.surfaces.shared.service_ports import OneRound, Server, Started, Tokens
from steelyard.surfaces.shared.settlement_ports import Settlement
from steelyard.surfaces.shared.upkeep_ports import Upkeep

Progress = Callable[[str, int, int], None]
"""Called with (what, done, total); total 0 = not known."""


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to import. ``kind`` None = detect per file. ``as_of`` None = inferred. ``expected_interval_us`` declares that between two
    complete listings no further apart the world was seen throughout. ``companions``: role -> file (``nodes`` of an openb trace).
    ``all_namespaces`` declares that every listing of pods is of the whole cluster, even where it shows one namespace only, or none. ``declared_by``:
    who imports, None = the user of this machine; ``may_declare``: whether that may declare prices, the tenancy tree and rates."""

    paths: Sequence[Path]
    kind: str | None = None
    as_of: Instant | None = None
    cluster: str = "default"
    node: str | None = None
    epoch: Instant | None = None
    expected_interval_us: DurationUs | None = None
    companions: Mapping[str, Path] = field(default_factory=dict)
    all_namespaces: bool = False
    declared_by: str | None = None
    may_declare: bool = True


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of one file. ``status``: imported, unchanged (same bytes and as-of seen before), refused (nothing usable in it)."""

    path: str
    kind: str
    status: str
    facts_count: int
    new_count: int
    refused_count: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of an import: per file, the as-of instant with its basis, how many findings it raised by code, and the words of the commands
    that what is known now has an answer to (``asks``; empty = not told)."""

    files: Sequence[FileReport]
    as_of: Instant | None
    as_of_basis: str
    findings_by_code: Mapping[str, int]
    postings_count: int
    asks: Sequence[str] = ()


class Importer(Protocol):
    """Takes files into the store, one transaction a file, and posts the ledgers."""

    def import_paths(self, request: ImportRequest, progress: Progress) -> ImportReport:
        """Import; one bad file never stops the others. Raises UsageError where a path does not exist or the kind is unknown."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """A question as asked: ``at`` for an instant, ``window`` for a stretch; both None = the whole of the stored time, now = its end.
    ``by``: dimensions or labels to group by. ``where``: dimension -> value filters. ``explain``: add SQL and definitions. ``confined``: who
    asks may not learn which names exist."""

    at: Instant | None = None
    window: Window | None = None
    by: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    confined: bool = False


class Query(Protocol):
    """Answers the ten questions from the data directory."""

    def answer(self, number: int, question: Question) -> Answer:
        """The answer to Q``number``. Raises UsageError for a question that is not built or a dimension that does not exist."""
        ...


@dataclass(frozen=True, slots=True)
class StoryRequest:
    """Whose story is asked for: ``name`` (``namespace/name``, a name alone, or a uid) of a ``kind`` (pod, job, workload; None = any). ``at``:
    as of when, None = now. ``tenant``: who asks may see that tenant's requests alone."""

    name: str
    kind: str | None = None
    cluster: str | None = None
    at: Instant | None = None
    explain: bool = False
    tenant: str | None = None


class Stories(Protocol):
    """Tells the story of a request from the data directory."""

    def why(self, request: StoryRequest) -> Answer:
        """The story. Raises UsageError for a name that nothing has, or that several things have."""
        ...


@dataclass(frozen=True, slots=True)
class ReconcileRequest:
    """What is laid side by side: ``at`` an instant, or ``window`` means over time; both None = the last that is known. ``by``: pod, card, tenant;
    none = all. ``where``: dimension -> value. ``tenant``: who asks may see that tenant's pods alone."""

    at: Instant | None = None
    window: Window | None = None
    by: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    tenant: str | None = None


class Reconciler(Protocol):
    """Lays side by side what was requested, granted, enforced, counted and used by the device."""

    def reconcile(self, request: ReconcileRequest) -> Answer:
        """The comparison. Raises UsageError for a table, dimension or name that does not exist."""
        ...


@dataclass(frozen=True, slots=True)
class DemoSpec:
    """A simulated estate: how many GPUs and days, and the seed that fixes everything. ``troubles``: beside it a small cluster in which
    things are wrong."""

    gpus: int = 64
    days: int = 14
    seed: int = 7
    troubles: bool = True


class Demo(Protocol):
    """Simulates an estate, reads it back through the real readers and leaves it in the data directory."""

    def run(self, spec: DemoSpec, progress: Progress) -> ImportReport:
        """Write the simulated sources, import them, post. The same spec gives the same bytes."""
        ...


class LiveDemo(Protocol):
    """A simulated estate that lives now, collected and served as a real one would be."""

    def run(self, spec: DemoSpec, listen: str, started: Started) -> None:
        """Until a signal says to stop. Raises UsageError where the directory holds anything else, StoreLocked where it is served."""
        ...


def _no_live_demo(directory: Path) -> LiveDemo:
    raise InvariantError("these ports have no live demo")


def _no_server(directory: Path) -> Server:
    raise InvariantError("these ports have no server")


def _no_tokens(directory: Path) -> Tokens:
    raise InvariantError("these ports have no tokens")


def _no_collection(directory: Path) -> OneRound:
    raise InvariantError("these ports collect nothing")


def _no_upkeep(directory: Path) -> Upkeep:
    raise InvariantError("these ports have no upkeep")


def _no_backfill(directory: Path) -> Backfiller:
    raise InvariantError("these ports take in no past")


def _no_doctor(directory: Path) -> Doctor:
    raise InvariantError("these ports have no doctor")


def _no_stories(directory: Path) -> Stories:
    raise InvariantError("these ports tell no stories")


def _no_capacity(directory: Path) -> Capacity:
    raise InvariantError("these ports tell nothing of room")


def _no_reconciler(directory: Path) -> Reconciler:
    raise InvariantError("these ports reconcile nothing")


def _no_money(directory: Path) -> Money:
    raise InvariantError("these ports know nothing of money")


def _no_settlement(directory: Path) -> Settlement:
    raise InvariantError("these ports settle nothing")


def _no_agent(arguments: Sequence[str]) -> int:
    raise InvariantError("these ports have no node agent")


@dataclass(frozen=True, slots=True)
class Ports:
    """All doors a surface is given. ``kinds``: the names of the kinds of file that an import may be told. ``agent``: runs the node agent with the
    words of its command line; its exit code."""

    importer: Callable[[Path], Importer]
    query: Callable[[Path], Query]
    demo: Callable[[Path], Demo]
    kinds: Callable[[], Collection[str]] = tuple
    server: Callable[[Path], Server] = _no_server
    tokens: Callable[[Path], Tokens] = _no_tokens
    upkeep: Callable[[Path], Upkeep] = _no_upkeep
    collection: Callable[[Path], OneRound] = _no_collection
    live_demo: Callable[[Path], LiveDemo] = _no_live_demo
    backfill: Callable[[Path], Backfiller] = _no_backfill
    doctor: Callable[[Path], Doctor] = _no_doctor
    stories: Callable[[Path], Stories] = _no_stories
    reconciler: Callable[[Path], Reconciler] = _no_reconciler
    capacity: Callable[[Path], Capacity] = _no_capacity
    money: Callable[[Path], Money] = _no_money
    settlement: Callable[[Path], Settlement] = _no_settlement
    agent: Callable[[Sequence[str]], int] = _no_agent
