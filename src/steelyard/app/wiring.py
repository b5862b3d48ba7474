"""The ports, wired: which classes stand behind the doors that a surface is given.

``main`` calls ``ports``. The tricks to know: everything heavy is imported inside the functions, so building the command line costs nothing,
and ``steelyard --help`` reaches no engine; and every command asks first whether a server holds the directory, since then it talks to that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from steelyard.answers.contract import Answer
from steelyard.primitives.errors import StoreLocked
from steelyard.primitives.instant import DurationUs, Instant
from steelyard.surfaces.shared.backfill_ports import BackfillProgress, BackfillReport, BackfillRequest
from steelyard.surfaces.shared.capacity_ports import CapacitySpec
from steelyard.surfaces.shared.doctor_ports import DoctorReport
from steelyard.surfaces.shared.money_ports import DeclareReport, DeclareRequest, Listing, Money
from steelyard.surfaces.shared.ports import (
    Demo,
    DemoSpec,
    Importer,
    ImportReport,
    ImportRequest,
    LiveDemo,
    Ports,
    Progress,
    Question,
    ReconcileRequest,
    StoryRequest,
)
from steelyard.surfaces.shared.service_ports import CollectReport, NewToken, Role, Server, Token, Tokens
from steelyard.surfaces.shared.settlement_ports import Act, DocumentFormat, Look, Settlement
from steelyard.surfaces.shared.upkeep_ports import BackupReport, RetentionReport, StandbyReport, Upkeep

if TYPE_CHECKING:
    from steelyard.app.settings import Settings
    from steelyard.store import Store
    from steelyard.surfaces.shared.client import ServerClient

T = TypeVar("T")


def _served_or_own(directory: Path, served: Callable[[ServerClient], T], own: Callable[[], T]) -> T:
    """What the server of the directory does, or, where there is none, what we do ourselves.

    A server may end or start in between: then the other way is taken, once.
    """
    from steelyard.app.holding import is_claimed, served_by, serving_process
    from steelyard.surfaces.shared.client import ServerClient, ServerGone

    address = serving_process(directory)
    if address is not None:
        try:
            return served(ServerClient(address))
        except ServerGone:
            return own()
    try:
        return own()
    except StoreLocked:
        address = serving_process(directory)
        if address is None:
            if is_claimed(directory):
                raise served_by(directory) from None
            raise
        return served(ServerClient(address))


def _settings_of(directory: Path) -> Settings:
    """The settings of a directory, checked; whatever is said from here on is said in their language."""
    from steelyard.app.settings import load_settings
    from steelyard.primitives.i18n import choose

    settings = load_settings(directory)
    choose(settings.lang)
    return settings


class DirectoryQuery:
    """Implements ``ports.Query``, ``ports.Stories``, ``ports.Reconciler`` and ``ports.Capacity`` for one data directory: its server's, else the
    file, opened
    read-only for each question."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def answer(self, number: int, question: Question) -> Answer:
        """The answer to Q``number``.

        Raises UsageError for a question that is not built, one that takes no instant (or no window), a dimension that does not exist
        a directory without data and settings that are none; StoreLocked while another process that is no server holds it.
        """
        from steelyard.app.asking import answer_over, check_question
        from steelyard.surfaces.shared.client import RemoteQuery

        def own() -> Answer:
            return _over_posted(self._directory, lambda store: answer_over(store, self._directory, number, question))

        _settings_of(self._directory)
        check_question(number, question)
        return _served_or_own(self._directory, lambda client: RemoteQuery(client).answer(number, question), own)

    def why(self, request: StoryRequest) -> Answer:
        """The story of a request; see ``Stories``. Raises as ``answer`` does."""
        from steelyard.app.asking import story_over
        from steelyard.surfaces.shared.client import RemoteStories

        def own() -> Answer:
            return _over_posted(self._directory, lambda store: story_over(store, self._directory, request))

        _settings_of(self._directory)
        return _served_or_own(self._directory, lambda client: RemoteStories(client).why(request), own)

    def capacity(self, spec: CapacitySpec) -> Answer:
        """The answer to a question about room; see ``Capacity``. Raises as ``answer`` does."""
        from steelyard.app.asking import capacity_over
        from steelyard.surfaces.shared.client import RemoteCapacity

        def own() -> Answer:
            return _over_posted(self._directory, lambda store: capacity_over(store, self._directory, spec))

        _settings_of(self._directory)
        return _served_or_own(self._directory, lambda client: RemoteCapacity(client).capacity(spec), own)

    def reconcile(self, request: ReconcileRequest) -> Answer:
        """What was requested to what the device reports; see ``Reconciler``. Raises as ``answer`` does."""
        from steelyard.app.asking import reconcile_over
        from steelyard.surfaces.shared.client import RemoteReconciler

        def own() -> Answer:
            return _over_posted(self._directory, lambda store: reconcile_over(store, self._directory, request))

        _settings_of(self._directory)
        return _served_or_own(self._directory, lambda client: RemoteReconciler(client).reconcile(request), own)


def _over_posted(directory: Path, ask: Callable[[Store], T]) -> T:
    """What is asked over the directory's store, posted where an import was cut off before it could."""
    from steelyard.store import Store

    with Store.open(directory, read_only=True) as store:
        if not (store.has_unposted() or store.has_collected()):
            return ask(store)
    _post_what_was_cut_off(directory)
    with Store.open(directory, read_only=True) as store:
        return ask(store)


def _post_what_was_cut_off(directory: Path) -> None:
    """Post for an import that was killed, where we may write; where not, the question is refused as long as the mark stands."""
    from steelyard.app.posting import post_what_was_cut_off
    from steelyard.primitives.errors import StoreFailed
    from steelyard.store import Store

    settings = _settings_of(directory)
    with suppress(StoreLocked, StoreFailed), Store.open(directory) as store:
        post_what_was_cut_off(store, settings)


class DirectoryImporter:
    """Implements ``ports.Importer`` for one data directory: its server's, else into the file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def import_paths(self, request: ImportRequest, progress: Progress) -> ImportReport:
        """Import; see ``Importer``."""

        def served(client: ServerClient) -> ImportReport:
            from steelyard.app.request_files import outgoing_files
            from steelyard.surfaces.shared.client import RemoteImporter

            return RemoteImporter(client, outgoing_files).import_paths(request, progress)

        def own() -> ImportReport:
            from steelyard.app.importer import FileImporter
            from steelyard.app.posting import post

            settings = _settings_of(self._directory)
            importer: Importer = FileImporter(self._directory, settings, lambda store: post(store, settings))
            return importer.import_paths(request, progress)

        return _served_or_own(self._directory, served, own)


class DirectoryTokens:
    """Implements ``server_ports.Tokens`` for one data directory: its server's, else in the file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def create(self, name: str, role: Role, tenant: str | None) -> NewToken:
        """Make one; see ``Tokens``."""
        return self._on(lambda tokens: tokens.create(name, role, tenant))

    def listed(self) -> Sequence[Token]:
        """All tokens; see ``Tokens``."""
        return self._on(lambda tokens: tokens.listed(), must_exist=True, read_only=True)

    def revoke(self, token_id: str) -> Token:
        """Refuse it from now on; see ``Tokens``."""
        return self._on(lambda tokens: tokens.revoke(token_id), must_exist=True)

    def _on(self, act: Callable[[Tokens], T], *, must_exist: bool = False, read_only: bool = False) -> T:
        from steelyard.surfaces.shared.client import RemoteTokens

        def own() -> T:
            from steelyard.app.tokens import StoreTokens
            from steelyard.primitives.clock import WallClock
            from steelyard.store import Store

            if must_exist and not read_only:
                Store.open(self._directory, read_only=True).close()
            with Store.open(self._directory, read_only=read_only) as store:

                @contextmanager
                def opened() -> Iterator[Store]:
                    yield store

                tokens = StoreTokens(opened, WallClock())
                tokens.load()
                return act(tokens)

        return _served_or_own(self._directory, lambda client: act(RemoteTokens(client)), own)


class DirectoryRound:
    """Implements ``service_ports.OneRound`` for one data directory: its server's, else one of our own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect_now(self, names: Collection[str]) -> CollectReport:
        """One round of each; see ``OneRound``."""

        def served(client: ServerClient) -> CollectReport:
            from steelyard.surfaces.shared.collect_text import RemoteRound

            return RemoteRound(client).collect_now(names)

        def own() -> CollectReport:
            from steelyard.app.serving import DirectoryCollection

            return DirectoryCollection(self._directory, _settings_of(self._directory)).collect_now(names)

        return _served_or_own(self._directory, served, own)


class DirectoryBackfiller:
    """Implements ``backfill_ports.Backfiller`` for one data directory: its server's, in the background, else over the file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self, request: BackfillRequest, progress: BackfillProgress, *, follow: bool = True) -> BackfillReport:
        """Take in the past; see ``Backfiller``."""

        def served(client: ServerClient) -> BackfillReport:
            from steelyard.surfaces.shared.backfill_client import RemoteBackfiller

            return RemoteBackfiller(client).run(request, progress, follow=follow)

        def own() -> BackfillReport:
            from steelyard.app.backfilling import OwnBackfiller
            from steelyard.primitives.clock import WallClock

            return OwnBackfiller(self._directory, _settings_of(self._directory), WallClock()).run(request, progress)

        return _served_or_own(self._directory, served, own)


class DirectoryUpkeep:
    """Implements ``ports.Upkeep`` for one data directory: its server's for what a server does meanwhile, else over the file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def backup(self, destination: Path) -> BackupReport:
        """Back up; see ``Upkeep``."""
        from steelyard.surfaces.shared.upkeep_client import RemoteUpkeep

        return _served_or_own(
            self._directory,
            lambda client: RemoteUpkeep(client).backup(destination),
            lambda: self._own().backup(destination),
        )

    def verify(self, source: Path) -> BackupReport:
        """Check; see ``Upkeep``."""
        return self._own().verify(source)

    def restore(self, source: Path) -> BackupReport:
        """Make the directory; see ``Upkeep``."""
        return self._own().restore(source)

    def standby(self, source: Path) -> StandbyReport:
        """Make the directory a standby; see ``Upkeep``."""
        return self._own().standby(source)

    def retention(self, dry_run: bool) -> RetentionReport:
        """Let samples age; see ``Upkeep``."""
        from steelyard.surfaces.shared.upkeep_client import RemoteUpkeep

        return _served_or_own(
            self._directory,
            lambda client: RemoteUpkeep(client).retention(dry_run),
            lambda: self._own().retention(dry_run),
        )

    def _own(self) -> Upkeep:
        from steelyard.app.upkeep import OwnUpkeep
        from steelyard.primitives.clock import WallClock

        return OwnUpkeep(self._directory, lambda: _settings_of(self._directory), WallClock())


class DirectoryDoctor:
    """Implements ``ports.Doctor`` for one data directory: its server's, which looks from where it stands, else one of our own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def examine(self, deadline_us: DurationUs) -> DoctorReport:
        """Look at everything; see ``Doctor``."""
        from steelyard.surfaces.shared.doctor_client import RemoteDoctor

        def own() -> DoctorReport:
            from steelyard.app.doctor.examining import OwnDoctor
            from steelyard.primitives.clock import WallClock

            return OwnDoctor(self._directory, settings, WallClock()).examine(deadline_us)

        settings = _settings_of(self._directory)
        return _served_or_own(self._directory, lambda client: RemoteDoctor(client).examine(deadline_us), own)


class DirectoryMoney:
    """Implements ``money_ports.Money`` for one data directory: its server's, else over the file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def declare(self, request: DeclareRequest) -> DeclareReport:
        """Take a file in; see ``Money``."""
        return self._asked(lambda money: money.declare(request))

    def prices(self, at: Instant | None, book: str | None) -> Listing:
        """The lines that hold; see ``Money``."""
        return self._asked(lambda money: money.prices(at, book))

    def price_changes(self, older: int | None, newer: int | None, book: str | None) -> Listing:
        """What a version changed; see ``Money``."""
        return self._asked(lambda money: money.price_changes(older, newer, book))

    def unpriced(self) -> Listing:
        """What no line prices; see ``Money``."""
        return self._asked(lambda money: money.unpriced())

    def tree(self, at: Instant | None) -> Listing:
        """The tenancy tree; see ``Money``."""
        return self._asked(lambda money: money.tree(at))

    def unmapped(self) -> Listing:
        """The namespaces and what maps them; see ``Money``."""
        return self._asked(lambda money: money.unmapped())

    def rates(self, at: Instant | None) -> Listing:
        """The exchange rates; see ``Money``."""
        return self._asked(lambda money: money.rates(at))

    def _asked(self, ask: Callable[[Money], T]) -> T:
        def own() -> T:
            from steelyard.app.money_doors import OwnMoney

            return ask(OwnMoney(self._directory, settings))

        def served(client: ServerClient) -> T:
            from steelyard.surfaces.shared.money_client import RemoteMoney

            return ask(RemoteMoney(client))

        settings = _settings_of(self._directory)
        return _served_or_own(self._directory, served, own)


class DirectorySettlement:
    """Implements ``settlement_ports.Settlement`` for one data directory: its server's, else over the file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def look(self, look: Look) -> dict[str, Any]:
        """The JSON form of what is looked at; see ``Settlement``."""
        return self._asked(lambda settlement: settlement.look(look))

    def act(self, act: Act) -> dict[str, Any]:
        """Do it, under the name of this machine's user where none is given; see ``Settlement``."""
        from steelyard.app.declaring import machine_user

        named = replace(act, actor=act.actor or machine_user())
        return self._asked(lambda settlement: settlement.act(named))

    def documents(self, look: Look, form: DocumentFormat) -> Sequence[tuple[str, bytes]]:
        """The documents; see ``Settlement``."""
        return self._asked(lambda settlement: settlement.documents(look, form))

    def _asked(self, ask: Callable[[Settlement], T]) -> T:
        def own() -> T:
            from steelyard.app.settlement_desk import OwnSettlement

            return ask(OwnSettlement(self._directory, settings))

        def served(client: ServerClient) -> T:
            from steelyard.surfaces.shared.settlement_client import RemoteSettlement

            return ask(RemoteSettlement(client))

        settings = _settings_of(self._directory)
        return _served_or_own(self._directory, served, own)


class DirectoryDemo:
    """Implements ``ports.Demo`` for one data directory, which no server may hold: a demo is there as a whole or not at all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self, spec: DemoSpec, progress: Progress) -> ImportReport:
        """Simulate and import; see ``Demo``. Raises StoreLocked, naming the server, where one holds the directory."""
        from steelyard.app.demo import SimulatedDemo
        from steelyard.app.holding import is_claimed, served_by
        from steelyard.app.posting import post

        if is_claimed(self._directory):
            raise served_by(self._directory)
        settings = _settings_of(self._directory)
        return SimulatedDemo(self._directory, settings, lambda store: post(store, settings)).run(spec, progress)


def _server(directory: Path) -> Server:
    from steelyard.app.serving import DirectoryServer

    return DirectoryServer(directory, _settings_of(directory))


def _live_demo(directory: Path) -> LiveDemo:
    from steelyard.app.demo_live import LiveDemo as LivingDemo

    return LivingDemo(directory, _settings_of(directory))


def _demo(directory: Path) -> Demo:
    return DirectoryDemo(directory)


def _kinds() -> Collection[str]:
    from steelyard.app.detect import ALIASES, KINDS

    return {*KINDS, *ALIASES}


def _agent(arguments: Sequence[str]) -> int:
    from steelyard.app.agent.command import main

    return main(arguments)


def ports() -> Ports:
    """All doors, wired to files, store, server and simulation."""
    return Ports(
        importer=DirectoryImporter,
        query=DirectoryQuery,
        stories=DirectoryQuery,
        reconciler=DirectoryQuery,
        capacity=DirectoryQuery,
        demo=_demo,
        kinds=_kinds,
        tokens=DirectoryTokens,
        upkeep=DirectoryUpkeep,
        server=_server,
        collection=DirectoryRound,
        live_demo=_live_demo,
        backfill=DirectoryBackfiller,
        doctor=DirectoryDoctor,
        money=DirectoryMoney,
        settlement=DirectorySettlement,
        agent=_agent,
    )
