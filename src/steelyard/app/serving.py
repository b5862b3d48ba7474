"""``steelyard serve``: one process that holds a data directory, collects, and answers over HTTP and a local socket.

The order is the point: claim the directory, open the store, listen, say where, serve; and back in reverse, so that at every moment a command
either finds the server, waits for it, or opens the file itself. Whatever a killed server left behind is swept at the next start.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from fastapi import Response

from steelyard.app import backfill_rounds
from steelyard.app.backfill_endpoints import backfill_endpoints
from steelyard.app.backfilling import BackfillJobs
from steelyard.app.collection import CollectionLoop, CollectionSpec, CollectorOf, nothing_configured
from steelyard.app.collectors.configured import configured
from steelyard.app.demo_mark import refuse_in_demo
from steelyard.app.doctor.examining import doctor_endpoints
from steelyard.app.holding import DirectoryClaim
from steelyard.app.ingest_agent import agent_endpoints
from steelyard.app.ingest_remote_write import ingest_endpoints
from steelyard.app.intake import AuditIntake
from steelyard.app.posting import post, post_what_was_cut_off
from steelyard.app.retention import RetentionCollector
from steelyard.app.served import Served
from steelyard.app.settings import Settings
from steelyard.app.settled_memory import loaded_once
from steelyard.app.settlement_desk import served_settlement
from steelyard.app.settlement_endpoints import settlement_endpoints
from steelyard.app.upkeep import upkeep_endpoints
from steelyard.primitives.clock import Clock, WallClock
from steelyard.primitives.errors import UsageError
from steelyard.store import Store
from steelyard.surfaces.http_api import Endpoint, Listening, create, serve_until_stopped
from steelyard.surfaces.http_api.audit_webhook import audit_endpoints
from steelyard.surfaces.http_api.problems import Problem
from steelyard.surfaces.shared.service_ports import CollectReport, ServerAddress, Started, Tokens

SPOOL: Final = "uploads"


class DirectoryServer:
    """Implements ``server_ports.Server`` for one data directory. ``simulated``: the settings name a simulated estate's sources, so a demo's
    directory is what they belong to; else it is refused to collect into one."""

    def __init__(
        self, directory: Path, settings: Settings, clock: Clock | None = None, *, simulated: bool = False
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock or WallClock()
        self._simulated = simulated

    def run(self, listen: str, started: Started) -> None:
        """Serve until SIGTERM or SIGINT. Raises StoreLocked and UsageError as ``Server`` says; then nothing is left behind."""
        makers = configured(self._settings)
        if makers and not self._simulated:
            refuse_in_demo(self._directory)
        with DirectoryClaim(self._directory) as claim, Store.open(self._directory) as store:
            post_what_was_cut_off(store, self._settings, self._clock)
            spool = _empty_spool(self._directory)
            keep = partial(RetentionCollector, store, self._directory, self._settings, self._clock)
            makers = [*makers, *backfill_rounds.makers(self._settings, store), keep]
            collectors = collection_over(store, self._settings, makers, self._clock)
            backfills = BackfillJobs(store, self._settings, self._clock)
            served = Served(store, self._directory, self._settings, self._clock)
            further = self._further(store, collectors, backfills, served.tokens)
            app = create(served.ports(collectors, spool), self._clock, further)
            listening = Listening.open(self._directory, listen)
            address = ServerAddress(listening.path, os.getpid(), listening.address, self._clock.now())

            def ready() -> None:
                claim.announce(address)
                started(address)

            collectors.start()
            try:
                # All that answers need is loaded by now: full collections would walk it, for tens of milliseconds, within somebody's answer.
                with loaded_once():
                    serve_until_stopped(app, listening, ready)
            finally:
                claim.withdraw()
                listening.close()
                backfills.stop()
                collectors.stop()
                shutil.rmtree(spool, ignore_errors=True)

    def _further(
        self, store: Store, collectors: CollectionLoop, backfills: BackfillJobs, tokens: Tokens
    ) -> tuple[Endpoint, ...]:
        """The endpoints of all other parts of the program, over the open store. What is pushed is real: a demo takes none of it."""
        settings, clock = self._settings, self._clock
        pushed = (
            *audit_endpoints(AuditIntake(collectors, settings, clock)),
            *ingest_endpoints(store, settings, clock),
            *agent_endpoints(store, settings, clock),
        )
        return (
            *(refusing_in_demo(each, self._directory) for each in pushed),
            *backfill_endpoints(backfills),
            *doctor_endpoints(store, self._directory, settings, clock),
            *upkeep_endpoints(store, self._directory, settings, clock),
            *settlement_endpoints(served_settlement(store, self._directory, settings, clock), tokens),
        )


def refusing_in_demo(endpoint: Endpoint, directory: Path) -> Endpoint:
    """The endpoint, or where the directory holds a demo one that answers 409 with what an import of real files is told."""
    try:
        refuse_in_demo(directory)
    except UsageError as error:
        said = str(error)
    else:
        return endpoint

    async def refused() -> Response:
        raise Problem("usage", said, status=409)

    return replace(endpoint, call=refused)


def collection_over(
    store: Store, settings: Settings, makers: Sequence[CollectorOf], clock: Clock, *, on_request: bool = False
) -> CollectionLoop:
    """The loop over an open store, as the settings say. Raises UsageError where two collectors have one name."""
    asked = settings.collection
    spec = CollectionSpec(settings.cluster, asked.post_interval, asked.round_timeout, asked.backoff_max)
    return CollectionLoop(store, makers, lambda store: post(store, settings, clock), clock, spec, on_request)


class DirectoryCollection:
    """Implements ``service_ports.OneRound`` for one data directory that nobody serves: one round of what the settings name."""

    def __init__(self, directory: Path, settings: Settings, clock: Clock | None = None) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock or WallClock()

    def collect_now(self, names: Collection[str]) -> CollectReport:
        """One round of each, side by side; see ``OneRound``. Raises UsageError, before anything is made, where nothing is configured, and
        StoreLocked while another process holds the directory."""
        makers = configured(self._settings)
        if not makers:
            raise nothing_configured()
        refuse_in_demo(self._directory)
        with Store.open(self._directory) as store:
            loop = collection_over(store, self._settings, makers, self._clock, on_request=True)
            loop.start()
            try:
                return loop.collect_now(names)
            finally:
                loop.stop()


def _empty_spool(directory: Path) -> Path:
    """The folder for uploads, without what a killed server had in it, closed to others."""
    spool = directory / SPOOL
    if spool.is_symlink():
        spool.unlink()
    shutil.rmtree(spool, ignore_errors=True)
    spool.mkdir(mode=0o700, exist_ok=True)
    return spool
