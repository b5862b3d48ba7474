"""An agent that is killed: the real loop, spool, delivery and kernel log, over a part that counts rounds; time is simulated.

Run as a process of its own by ``test_agent_crash``. Each round is ten simulated seconds and yields one sample with its number and a random figure, so
that a round that was done twice shows as two facts. How far it counted is a cursor, kept with the sample as every cursor is. ``kill_at``: the
process kills itself at so many calls into the system (files opened, renamed, removed, connections made).
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from steelyard.app.agent.delivery import Delivery, ServerLink, address_of
from steelyard.app.agent.loop import AgentLoop
from steelyard.app.agent.parts import KernelLogPart, Sight
from steelyard.app.agent.rounds import AgentRounds, RoundClock
from steelyard.app.agent.spool import Speaker, Spool
from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.primitives.instant import SECOND_US, Instant
from steelyard.sources.kernel_log import FileSource
from steelyard.sources.shared.context import ReadContext
from tests.app.agent.batches import AT, CARD, NODE

ROUND_US = 10 * SECOND_US
COUNTED = frozenset({"open", "os.rename", "os.remove", "socket.connect", "os.mkdir"})


class CountingPart:
    """One numbered sample per round. Its own clock: what it counts."""

    name = "counting"
    source = "agent"

    def __init__(self, cursor: str | None) -> None:
        self.number = int(cursor or 0)

    def now(self) -> Instant:
        return AT + (self.number + 1) * ROUND_US

    def round(self, ctx: ReadContext) -> Iterator[Fact]:
        self.number += 1
        yield DeviceSample(
            source=self.source,
            natural_key=CARD,
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            device_uuid=CARD,
            power_watts=random.random(),  # noqa: S311
        )

    def cursor(self) -> str | None:
        return str(self.number)

    def close(self) -> None:
        pass


def die_at(count: int) -> None:
    """Kill this process, as ``kill -9`` does, at the n-th call into the system."""
    left = [count]

    def hook(event: str, _arguments: tuple[object, ...]) -> None:
        if event in COUNTED:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main(folder: Path, url: str, kill_at: int, until_empty: bool) -> None:
    """Rounds until killed; with ``until_empty`` no rounds but one, until all is acknowledged."""
    with Spool(folder / "spool", Speaker(NODE), lambda: AT) as spool:
        link = ServerLink(address_of(url), folder / "token")
        delivery = Delivery(spool, link, say=lambda line: None, backoff_seconds_max=0.05)
        part = CountingPart(spool.cursors.get("counting"))
        log = KernelLogPart(FileSource(folder / "kern.log"), Sight(NODE), spool.cursors.get("kernel_log"))
        rounds = AgentRounds([part, log], RoundClock(part), NODE)
        loop = AgentLoop(rounds, 0.004, spool, delivery, None, lambda line: None)
        if kill_at:
            die_at(kill_at)
        if until_empty:
            loop.stop.set()
            seen = rounds.round()
            spool.put(seen.facts, seen.cursors)
            delivery.start()
            while spool.size()[0]:
                threading.Event().wait(0.01)
            delivery.stop(5.0)
        else:
            loop.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "drain")
