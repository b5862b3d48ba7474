"""``kill -9`` of the agent and of the server at random points: nothing that was kept is lost, nothing is there twice.

``STEELYARD_SOAK`` multiplies the blows: 50 in ``make test``, 500 in ``make soak``, over some ten simulated minutes and more.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from steelyard.app.agent.delivery import Delivery, ServerLink, address_of
from steelyard.app.agent.spool import Speaker, Spool
from steelyard.app.tokens import StoreTokens
from steelyard.primitives.clock import WallClock
from steelyard.primitives.instant import SECOND_US, format_instant
from steelyard.store import Store
from tests.app.agent.batches import AT, NODE, event, sample, status
from tests.app.served_directory import MARKED, Running, environment, serving

BLOWS = 50 * int(os.environ.get("STEELYARD_SOAK", "1"))
LIVES_OF_A_SERVER = 6
CALLS_MAX = 400
MARKS_MAX = 400
DEADLINE_SECONDS = 120
PATIENCE_SECONDS = DEADLINE_SECONDS * BLOWS // 50
"""The last life delivers what all the others left, batch by batch: the more blows, the more of it."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Site:
    """A data directory with a token, a log that grows, and a server that is killed at a mark and started again."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self.lines = 0
        self.servers_killed = 0
        self._stack = stack
        self._server: Running | None = None
        with Store.open(self.data) as store:
            tokens = StoreTokens(lambda: nullcontext(store), WallClock())
            (folder / "token").write_text(tokens.create("agents", "agent", None).secret)
        (folder / "kern.log").touch()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def write_lines(self, count: int) -> None:
        """Events in the log, each with a pid of its own."""
        with (self.folder / "kern.log").open("a", encoding="utf-8") as file:
            for _ in range(count):
                self.lines += 1
                stamp = format_instant(AT + self.lines * SECOND_US)
                file.write(f"{stamp} {NODE} kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid={self.lines}, name=x\n")

    def serve(self, until_mark: int | None = None) -> None:
        """A server, killed at its n-th statement; one that lives already stays."""
        if self._server is not None and self._server.process.poll() is None:
            return
        program = {} if until_mark is None else {"program": MARKED}
        self._server = self._stack.enter_context(serving(self.data, "--listen", f"127.0.0.1:{self.port}", **program))
        process = self._server.process

        def count() -> None:
            assert process.stdout is not None
            for number, _line in enumerate(process.stdout):
                if until_mark is not None and number == until_mark:
                    process.kill()
                    self.servers_killed += 1

        threading.Thread(target=count, daemon=True).start()

    def serve_calmly(self) -> None:
        """A server that nobody kills, in the place of one that somebody would."""
        if self._server is not None:
            self._server.process.kill()
            self._server.process.wait(DEADLINE_SECONDS)
        self.serve()

    def end(self) -> None:
        """The server ends as it is asked to."""
        assert self._server is not None
        self._server.process.send_signal(signal.SIGTERM)
        assert self._server.process.wait(DEADLINE_SECONDS) == 0

    def agent(self, kill_at: int, how: str = "run") -> int:
        """One life of the agent; how it ended."""
        command = [sys.executable, "-m", "tests.app.agent.tiny_agent", str(self.folder), self.url, str(kill_at), how]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode


@pytest.mark.xdist_group("serving")
def test_whoever_is_killed_nothing_that_was_kept_is_lost_and_nothing_is_there_twice(tmp_path: Path) -> None:
    chance = random.Random(20261130)  # noqa: S311 (a choice of moments)
    with ExitStack() as stack:
        site = Site(tmp_path, stack)
        lives = 0
        while lives + site.servers_killed < BLOWS:
            if lives % LIVES_OF_A_SERVER == 0:
                site.serve(until_mark=chance.randrange(20, MARKS_MAX))
            site.write_lines(chance.randrange(4))
            assert site.agent(chance.randrange(10, CALLS_MAX)) == -signal.SIGKILL
            lives += 1
        assert site.servers_killed > 0
        site.serve_calmly()
        assert site.agent(0, "drain") == 0
        assert list((tmp_path / "spool").glob("*.batch")) == []
        assert not (tmp_path / "spool" / "aside").exists()
        site.end()
    with Store.open(site.data) as store:
        numbers = store.rows(
            "SELECT (epoch_us(occurred_at) - ?) // 10000000 FROM fact.device_sample ORDER BY ALL", [AT]
        )
        assert [row[0] for row in numbers] == list(range(1, len(numbers) + 1))  # each round once, none missing
        assert len(numbers) > lives
        events = store.rows("SELECT pid, count FROM fact.event ORDER BY pid")
        assert events == [(pid, 1) for pid in range(1, site.lines + 1)]
        lost = store.rows("SELECT code, message FROM fact.finding WHERE code LIKE 'agent%' OR code LIKE 'spool%'")
        assert lost == []


@pytest.mark.xdist_group("serving")
def test_after_an_hour_without_a_server_every_event_and_every_sample_arrives(tmp_path: Path) -> None:
    with ExitStack() as stack:
        site = Site(tmp_path, stack)
        spool = stack.enter_context(Spool(tmp_path / "spool", Speaker(NODE), lambda: AT))
        delivery = Delivery(spool, ServerLink(address_of(site.url), tmp_path / "token"), say=lambda line: None)
        for number in range(360):
            cards = [sample(number, f"GPU-{card}") for card in range(8)]
            spool.put([*([event(number)] if number % 10 == 0 else []), *cards, status(number)])
            if number % 60 == 0:
                found = spool.oldest()
                assert found is not None and delivery.step(*found) > 0
        site.serve()
        while (found := spool.oldest()) is not None:
            assert delivery.step(*found) == 0.0
        site.end()
    with Store.open(site.data) as store:
        assert store.rows("SELECT count(*), count(DISTINCT fact_id) FROM fact.device_sample") == [(2_880, 2_880)]
        assert store.rows("SELECT count(*) FROM fact.event") == [(36,)]
        assert store.rows("SELECT count(*) FROM fact.finding WHERE source = 'agent'") == [(0,)]
