"""What stands behind the server's doors: one open store, shared by all threads.

``app.serving`` builds a ``Served`` and hands its ports to the HTTP server. The trick to know: readers look at the store through views of their
own and never wait for a writer; writers queue in the store's transaction, so a round of a collector and an import may come at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from steelyard.answers import cost_series, deviation_series, listings, overuse_series, queue_series, state_series
from steelyard.answers.contract import Answer
from steelyard.answers.fragmentation import free_share_ratios
from steelyard.app.asking import answer_over, capacity_over, check_posted, reconcile_over, story_over
from steelyard.app.importer import FileImporter
from steelyard.app.money_doors import served_money
from steelyard.app.posting import post
from steelyard.app.request_files import received_files
from steelyard.app.settings import Settings
from steelyard.app.tokens import StoreTokens
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.store import Store
from steelyard.surfaces.shared.capacity_ports import CapacitySpec
from steelyard.surfaces.shared.ports import ImportReport, ImportRequest, Question, ReconcileRequest, StoryRequest
from steelyard.surfaces.shared.server_ports import Page, ReceivedFile, ServerPorts, Standing
from steelyard.surfaces.shared.service_ports import Collectors, CollectorStatus, CollectReport

Key = Sequence[str | int]


class NoCollectors:
    """Implements ``Collectors`` where nothing is configured to be collected."""

    def start(self) -> None:
        """Nothing to begin."""

    def stop(self) -> None:
        """Nothing to finish."""

    def status(self) -> Sequence[CollectorStatus]:
        """None."""
        return ()

    def collect_now(self, names: Collection[str]) -> CollectReport:
        """Nothing to collect. Raises UsageError."""
        raise UsageError(_("nothing is configured to be collected: name sources in steelyard.toml"))


class Served:
    """Implements ``Query``, ``Stories``, ``Reconciler``, ``Capacity``, ``Receiver``, ``Listings`` and ``Health`` over one open store."""

    def __init__(self, store: Store, directory: Path, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._states: state_series.StateSeries = {}
        self._over_use: overuse_series.OveruseSeries = {}
        self._costs = cost_series.CostSeries()
        self._books: tuple[listings.Books, queue_series.QueueSeries, deviation_series.DeviationSeries] | None = None
        self._ratios: Mapping[tuple[str, str], float] = {}
        self._books_lock = threading.Lock()
        self.tokens = StoreTokens(self._shared, clock)
        self.tokens.load()

    def ports(self, collectors: Collectors, spool: Path) -> ServerPorts:
        """All doors."""
        return ServerPorts(
            query=self,
            stories=self,
            reconciler=self,
            capacity=self,
            money=served_money(self._store, self._settings, self._clock),
            receiver=self,
            listings=self,
            tokens=self.tokens,
            gate=self.tokens,
            health=self,
            collectors=collectors,
            spool=spool,
        )

    @contextmanager
    def _shared(self) -> Iterator[Store]:
        """The store as a context that leaves it open."""
        yield self._store

    @contextmanager
    def _posted(self) -> Iterator[Store]:
        with self._store.reader() as reader:
            check_posted(reader, self._directory)
            yield reader

    def answer(self, number: int, question: Question) -> Answer:
        """The answer to Q``number`` over what is committed now; see ``Query``."""
        with self._store.reader() as reader:
            return answer_over(reader, self._directory, number, question)

    def why(self, request: StoryRequest) -> Answer:
        """The story of a request over what is committed now; see ``Stories``."""
        with self._store.reader() as reader:
            return story_over(reader, self._directory, request)

    def capacity(self, spec: CapacitySpec) -> Answer:
        """The answer to a question about room over what is committed now; see ``Capacity``."""
        with self._store.reader() as reader:
            return capacity_over(reader, self._directory, spec)

    def reconcile(self, request: ReconcileRequest) -> Answer:
        """The comparison over what is committed now; see ``Reconciler``."""
        with self._store.reader() as reader:
            return reconcile_over(reader, self._directory, request)

    @property
    def file_bytes_max(self) -> int:
        """The importer's bound of one file."""
        return self._settings.import_limits.decompressed_bytes_max

    def import_received(self, request: ImportRequest, files: Sequence[ReceivedFile]) -> ImportReport:
        """Import and post; see ``Receiver``."""
        found = received_files(request, files, self.file_bytes_max)
        importer = FileImporter(
            self._directory, self._settings, self._post, self._clock, opened=self._store, as_one=True
        )
        return importer.import_files(found, request, _silent)

    def _post(self, store: Store) -> int:
        return post(store, self._settings, self._clock)

    def findings(self, after: Key | None, limit: int) -> Page:
        """A page of findings; see ``Listings``."""
        return self._page(listings.findings_listed, after, limit)

    def devices(self, after: Key | None, limit: int) -> Page:
        """A page of cards; see ``Listings``."""
        return self._page(listings.devices_listed, after, limit)

    def _page(
        self, listing: Callable[[Store, Key | None, int], listings.Listed], after: Key | None, limit: int
    ) -> Page:
        with self._posted() as reader:
            found = listing(reader, after, limit)
        return Page(found.rows, found.after)

    def standing(self) -> Standing:
        """How the books stand; computed once for each posting; see ``Health``."""
        with self._store.reader() as reader:
            known, silent = listings.agents_heard(reader, self._clock.now()) or (None, None)
            try:
                check_posted(reader, self._directory)
            except UsageError:
                return Standing(agents_known=known, agents_silent=silent)
            run_id = listings.last_run_id(reader)
            with self._books_lock:
                if self._books is None or self._books[0].run_id != run_id:
                    self._books = (
                        listings.books(reader),
                        queue_series.queue_series(reader),
                        deviation_series.deviation_series(reader),
                    )
                    self._ratios = _ratios(reader)
                    self._states = state_series.state_series(reader)
                    self._over_use = overuse_series.overuse_series(reader)
                    self._costs = cost_series.cost_series(reader)
                found, queues, deviations = self._books
                ratios, states, over_use = self._ratios, self._states, self._over_use
                costs = self._costs
        return Standing(
            found.posted_at,
            found.as_of,
            found.residual_gpu_us,
            found.coverage,
            known,
            silent,
            queues,
            deviations,
            ratios,
            states,
            over_use,
            costs,
        )


def _ratios(reader: Store) -> Mapping[tuple[str, str], float]:
    """None where nothing of the estate is known yet."""
    try:
        return free_share_ratios(reader)
    except UsageError:
        return {}


def _silent(what: str, done: int, total: int) -> None:
    """Nobody watches the server import: the client shows that it waits."""
