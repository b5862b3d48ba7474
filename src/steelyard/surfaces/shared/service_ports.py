"""The server of a data directory as others see it: who may ask it, what collects in it, where it is reached.

``app`` implements these protocols; the command line and the HTTP server are handed the same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from steelyard.primitives.instant import DurationUs, Instant

Role = Literal["viewer", "operator", "finance", "admin", "agent"]
ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "finance", "admin", "agent")
"""viewer: the rows of one tenant. operator: the estate, and imports. finance: the estate, and what is declared of money. admin: everything,
tokens too. agent: a node agent, which delivers what it sees and reads nothing."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. ``tenant`` is set for a viewer and None for everybody else. ``token_id`` None: the owner, over the local socket."""

    role: Role
    tenant: str | None = None
    token_id: str | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token; the secret itself is nowhere. ``revoked_at`` None: it is valid."""

    token_id: str
    name: str
    role: Role
    tenant: str | None
    created_at: Instant
    revoked_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made, with its secret: the only time that anybody sees it."""

    token: Token
    secret: str


class Tokens(Protocol):
    """The bearer tokens of a data directory."""

    def create(self, name: str, role: Role, tenant: str | None) -> NewToken:
        """Make one. Raises UsageError for a role that is none, a viewer without a tenant, or a tenant for another role."""
        ...

    def listed(self) -> Sequence[Token]:
        """All tokens, the revoked ones too, oldest first."""
        ...

    def revoke(self, token_id: str) -> Token:
        """From now on it is refused; twice is harmless. Raises UsageError where there is no such token."""
        ...


class Gate(Protocol):
    """Tells who a secret belongs to."""

    def principal(self, secret: str) -> Principal | None:
        """The holder of a valid token, None for any other text. Takes as long whether the text is nearly right or not."""
        ...


@dataclass(frozen=True, slots=True)
class CollectorStatus:
    """How a collector is doing. ``state``: ``starting``, ``ok``, ``partial`` (parts of the last round failed, others went on), ``failing`` or
    ``stopped``. Instants are None where there was no such round. ``consecutive_failures_count``: 0 after a round that was well. ``skipped_count``:
    rounds that were not begun because the one before was not done. ``rows_count``: facts that were new. ``message``: what is wrong."""

    name: str
    state: str
    rounds_count: int = 0
    failures_count: int = 0
    last_round_at: Instant | None = None
    last_success_at: Instant | None = None
    message: str | None = None
    consecutive_failures_count: int = 0
    skipped_count: int = 0
    rows_count: int = 0
    last_duration_us: DurationUs | None = None
    next_round_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What became of one round. ``status``: ``ok``, ``partial``, ``failed``. ``new_count``: facts that were not known yet."""

    name: str
    status: str
    facts_count: int = 0
    new_count: int = 0
    findings_by_code: Mapping[str, int] = field(default_factory=dict)
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CollectReport:
    """One round of each collector that was asked for, in a stable order, and how many ledger rows their posting appended."""

    rounds: Sequence[RoundReport]
    postings_count: int


class OneRound(Protocol):
    """Collects once, on request."""

    def collect_now(self, names: Collection[str]) -> CollectReport:
        """One round of the collectors so named (none named: of all), stored and posted; one that fails never stops the others.

        Raises UsageError where no collector has such a name, or none is configured.
        """
        ...


class Collectors(OneRound, Protocol):
    """Whatever collects on its own while the server runs. It writes through the store that ``app.serving`` hands it, from threads of its own: a
    round is one ``transaction``, and rounds are posted soon after (``Store.mark_collected``); until then answers speak as of the last posting."""

    def start(self) -> None:
        """Begin; returns at once."""
        ...

    def stop(self) -> None:
        """Finish the rounds that are under way and begin no other; returns when all have ended."""
        ...

    def status(self) -> Sequence[CollectorStatus]:
        """One entry per collector, in a stable order."""
        ...


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server of a data directory is reached: its socket file, its process, its HTTP address, since when."""

    socket: Path
    pid: int
    address: str
    started_at: Instant


class Server(Protocol):
    """The server of one data directory."""

    def run(self, listen: str, started: Started) -> None:
        """Serve until a signal says to stop; what is under way is finished first. ``started`` is called once requests are taken.

        Raises StoreLocked where another process holds the directory, UsageError for an address that cannot be listened on.
        """
        ...


class Started(Protocol):
    """Told once, when the server takes requests."""

    def __call__(self, address: ServerAddress) -> None:
        """The server is reached at ``address``."""
        ...
