"""``Settlement`` for a data directory: over the server's open store, or over the file that a command opens; one behaviour behind both.

``app.wiring`` makes an ``OwnSettlement``, ``app.serving`` a ``ServedSettlement`` for its routes. The trick to know: whoever looks gets a reader's
view, in which the temporary tables of ``settlement.tables`` are its own; only acts write, one at a time.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from steelyard.app.asking import check_posted
from steelyard.app.declaring import machine_user
from steelyard.app.document_settings import DocumentsSetting
from steelyard.app.settings import Settings
from steelyard.app.settlement_acts import Acts, Office
from steelyard.app.settlement_views import Style, Views
from steelyard.primitives.clock import Clock, WallClock
from steelyard.primitives.errors import StoreFailed, StoreLocked
from steelyard.primitives.instant import HOUR_US, MINUTE_US
from steelyard.settlement.closing import recover
from steelyard.settlement.documents import Documents
from steelyard.settlement.periods import PeriodRules
from steelyard.settlement.rules import SettlementRules
from steelyard.store import Store
from steelyard.surfaces.shared.settlement_ports import Act, DocumentFormat, Look

T = TypeVar("T")


def settlement_rules(settings: Settings) -> SettlementRules:
    """What the settings say about periods and statements."""
    money = settings.money
    periods = PeriodRules(
        calendar=money.calendar.calendar(),
        time_zone=money.time_zone,
        tenant_zones={name: each.time_zone for name, each in money.tenants.items() if each.time_zone is not None},
        grain_us=settings.grain_minutes * MINUTE_US,
    )
    return SettlementRules(
        periods=periods,
        currency=money.currency,
        tenant_currencies={name: each.currency for name, each in money.tenants.items() if each.currency is not None},
        taxes=tuple(each.rule() for each in money.taxes),
        credits=tuple(each.rule() for each in money.credits),
        services=money.services.weights(),
        idle_sharing=money.idle_sharing,
        coverage_min_ppm=round(money.coverage_min_percent * 10_000),
        late_after_us=round(money.late_after_hours * HOUR_US),
        alerts_ppm=tuple(sorted(round(each * 10_000) for each in money.budget_alerts_percent)),
        approvers={what: tuple(roles) for what, roles in money.approvers.items()},
        settings_sha256=hashlib.sha256(settings.model_dump_json().encode()).hexdigest(),
    )


class OpenedSettlement:
    """Implements ``Settlement``. ``writing`` and ``reading`` open a store for as long as one of its methods needs it."""

    def __init__(
        self,
        writing: Callable[[], AbstractContextManager[Store]],
        reading: Callable[[], AbstractContextManager[Store]],
        directory: Path,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._writing = writing
        self._reading = reading
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._acting = threading.Lock()

    def look(self, look: Look) -> dict[str, Any]:
        """The JSON form of what is looked at; see ``Settlement``."""
        return self._seen(lambda views: views.look(look))

    def documents(self, look: Look, form: DocumentFormat) -> Sequence[tuple[str, bytes]]:
        """The documents; see ``Settlement``."""
        return self._seen(lambda views: views.documents(look, form))

    def act(self, act: Act) -> dict[str, Any]:
        """Do it; see ``Settlement``."""
        money = self._settings.money
        with self._acting, self._writing() as store:
            check_posted(store, self._directory, "price_line", "tenancy_pod")
            recover(store, self._directory)
            office = Office(
                self._directory,
                settlement_rules(self._settings),
                style_of(self._settings),
                money.formats,
                money.webhook,
                self._clock,
            )
            return Acts(store, office).act(replace(act, actor=act.actor or machine_user()))

    def _seen(self, see: Callable[[Views], T]) -> T:
        with self._reading() as store, store.reader() as view:
            check_posted(view, self._directory, "price_line", "tenancy_pod")
            views = Views(
                view, self._directory, settlement_rules(self._settings), style_of(self._settings), self._clock.now()
            )
            return see(views)


class OwnSettlement(OpenedSettlement):
    """Over the file of a directory that nobody serves; a close that was cut off is brought to its end first, where we may write."""

    def __init__(self, directory: Path, settings: Settings, clock: Clock | None = None) -> None:
        super().__init__(self._opened, self._looked, directory, settings, clock or WallClock())

    @contextmanager
    def _opened(self) -> Iterator[Store]:
        Store.open(self._directory, read_only=True).close()  # a directory without data is refused, not made
        with Store.open(self._directory) as store:
            yield store

    @contextmanager
    def _looked(self) -> Iterator[Store]:
        with Store.open(self._directory, read_only=True) as store:
            unfinished = bool(store.rows("SELECT 1 FROM store.period WHERE state = 'closing' LIMIT 1"))
        if unfinished:
            with suppress(StoreLocked, StoreFailed), Store.open(self._directory) as store:
                recover(store, self._directory)
        with Store.open(self._directory, read_only=True) as store:
            yield store


def served_settlement(store: Store, directory: Path, settings: Settings, clock: Clock) -> OpenedSettlement:
    """Over the server's open store. Closes that were cut off before it started are brought to their end now."""

    @contextmanager
    def shared() -> Iterator[Store]:
        yield store

    recover(store, directory)
    return OpenedSettlement(shared, shared, directory, settings, clock)


def style_of(settings: Settings) -> Style:
    """Who writes statements down, and in which style; a snapshot keeps the style, so that it can be rendered again after the settings changed."""

    def written(style: str) -> Documents:
        return DocumentsSetting.model_validate_json(style).documents()

    return Style(settings.documents.model_dump_json(), written)
