"""``Money`` for a data directory: over the server's open store, or over the file that a command opens; one behaviour behind both.

``app.served`` takes ``served_money``, ``app.wiring`` ``OwnMoney``. The trick to know: what is declared goes in with its posting in one
transaction, so whoever reads meanwhile sees the old prices everywhere or the new ones everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from steelyard.app.declared_money import Listed
from steelyard.app.declaring import Declaring
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.primitives.clock import Clock, WallClock
from steelyard.primitives.instant import Instant
from steelyard.store import Store
from steelyard.store.store import FILE_NAME
from steelyard.surfaces.shared.money_ports import DeclareReport, DeclareRequest, Listing


class OpenedMoney:
    """Implements ``Money``. ``writing`` and ``reading`` open a store for as long as one of its methods needs it."""

    def __init__(
        self,
        writing: Callable[[], AbstractContextManager[Store]],
        reading: Callable[[], AbstractContextManager[Store]],
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._writing = writing
        self._reading = reading
        self._settings = settings
        self._clock = clock

    def declare(self, request: DeclareRequest) -> DeclareReport:
        """Take a file in; see ``Money``."""
        with self._reading() if request.dry_run else self._writing() as store:
            return Declaring(store, self._settings, self._post, self._clock).declare(request)

    def prices(self, at: Instant | None, book: str | None) -> Listing:
        """The lines that hold; see ``Money``."""
        return self._listed(lambda listed: listed.prices(at, book))

    def price_changes(self, older: int | None, newer: int | None, book: str | None) -> Listing:
        """What a version changed; see ``Money``."""
        return self._listed(lambda listed: listed.price_changes(older, newer, book))

    def unpriced(self) -> Listing:
        """What no line prices; see ``Money``."""
        return self._listed(lambda listed: listed.unpriced())

    def tree(self, at: Instant | None) -> Listing:
        """The tenancy tree; see ``Money``."""
        return self._listed(lambda listed: listed.tree(at))

    def unmapped(self) -> Listing:
        """The namespaces and what maps them; see ``Money``."""
        return self._listed(lambda listed: listed.unmapped())

    def rates(self, at: Instant | None) -> Listing:
        """The exchange rates; see ``Money``."""
        return self._listed(lambda listed: listed.rates(at))

    def _listed(self, ask: Callable[[Listed], Listing]) -> Listing:
        with self._reading() as store:
            return ask(Listed(store, self._clock))

    def _post(self, store: Store) -> int:
        return post(store, self._settings, self._clock)


def served_money(store: Store, settings: Settings, clock: Clock) -> OpenedMoney:
    """Over the store that a server keeps open: each reader sees what is committed when it asks."""

    @contextmanager
    def shared() -> Iterator[Store]:
        yield store

    return OpenedMoney(shared, store.reader, settings, clock)


class OwnMoney(OpenedMoney):
    """Over the file of a directory that nobody serves. A dry run on a directory without data compares with nothing."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self._directory = directory
        super().__init__(lambda: Store.open(directory), self._looking, settings, WallClock())

    def _looking(self) -> AbstractContextManager[Store]:
        return Store.open(self._directory, read_only=True)

    def declare(self, request: DeclareRequest) -> DeclareReport:
        """Take a file in; see ``Money``."""
        if request.dry_run and not (self._directory / FILE_NAME).is_file():
            with Store.open_memory() as nothing:
                return Declaring(nothing, self._settings, self._post, self._clock).declare(request)
        return super().declare(request)
