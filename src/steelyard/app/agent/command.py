"""``steelyard agent``: the process, from its options to its end. ``app.main`` calls ``main`` before anything else is loaded.

The trick to know: nothing here imports the command line's libraries, the store or the engine, for on a node every megabyte is somebody's job.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Final

from steelyard.app.agent.delivery import Delivery, ServerLink, address_of, token_of
from steelyard.app.agent.loop import AgentLoop
from steelyard.app.agent.options import Options, options
from steelyard.app.agent.parts import CardPart, HostPart, KernelLogPart, KubeletPart, Part, Sight
from steelyard.app.agent.rounds import AgentRounds, RoundClock, Seen, as_json
from steelyard.app.agent.spool import Speaker, Spool
from steelyard.primitives.clock import Clock, WallClock
from steelyard.primitives.errors import SteelyardError
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import SECOND_US
from steelyard.sources.kernel_log import FileSource, JournalSource, KmsgSource, LogSource
from steelyard.sources.nvml.driver import NvmlDriver
from steelyard.sources.pod_resources import KubeletClient
from steelyard.sources.shared.plain_text import plain

EXIT_TROUBLE: Final = 3
EXIT_INTERRUPTED: Final = 130
KERNEL_LOGS: Final = (Path("/dev/kmsg"), Path("/var/log/kern.log"), Path("/var/log/messages"), Path("/var/log/syslog"))
"""Where a kernel log is looked for, in this order."""

RESTART_SECONDS_MIN: Final = 600.0
_GAP_ROUNDS: Final = 3
"""Rounds no further apart than so many intervals are one stretch."""


def main(arguments: Sequence[str]) -> int:
    """Run the agent; the exit code. What a person did wrong, or the world, is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        asked = options(arguments)
        return _once(asked) if asked.once else _serve(asked)
    except SteelyardError as error:
        say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def say(line: str) -> None:
    """One line to whoever runs the agent."""
    print(f"steelyard agent: {plain(line)}", file=sys.stderr, flush=True)


def rounds_of(asked: Options, clock: Clock, cursors: dict[str, str]) -> AgentRounds:
    """The parts that the options ask for. The kubelet comes first: who holds a card is told with the card."""
    cluster = asked.cluster or "default"
    dated = RoundClock(clock)
    sight = Sight(asked.node)
    parts: list[Part] = []
    if asked.pod_resources is not None:
        parts.append(KubeletPart(KubeletClient(asked.pod_resources), sight))
    gap_max_us = round(_GAP_ROUNDS * asked.interval_seconds * SECOND_US)
    driver = NvmlDriver(asked.nvml_library)
    parts.append(
        CardPart(
            driver,
            dated,
            sight,
            cluster=cluster,
            proc_root=asked.proc,
            gap_max_us=gap_max_us,
            state=cursors.get(CardPart.name),
            pause=None if asked.once else time.sleep,
        )
    )
    if asked.cgroup is not None:
        parts.append(HostPart(sight, asked.cgroup, asked.proc))
    if asked.kernel_log != "none":
        log = log_source(asked.kernel_log, asked.node)
        parts.append(KernelLogPart(log, sight, cursors.get(KernelLogPart.name)))
    return AgentRounds(parts, dated, asked.node, cluster)


def log_source(asked: str, node: str, places: Sequence[Path] = KERNEL_LOGS) -> LogSource:
    """The kernel log that is asked for; ``auto``: the first place that can be opened, else the first of all, which then says what is missing."""
    if asked == "journal":
        return JournalSource()
    path = Path(asked)
    if asked == "auto":
        path = next((place for place in places if _opens(place)), places[0])
    return KmsgSource(path, node) if path.is_char_device() or path.name == "kmsg" else FileSource(path)


def _opens(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except OSError:
        return False


def _once(asked: Options) -> int:
    rounds = rounds_of(asked, WallClock(), {})
    try:
        seen = rounds.round()
    finally:
        rounds.close()
    if asked.as_json:
        sys.stdout.write(as_json(seen, asked.node, asked.cluster or "default").decode() + "\n")
    else:
        sys.stdout.write("".join(f"{plain(line)}\n" for line in _told(seen, asked.node)))
    sys.stdout.flush()
    return EXIT_TROUBLE if seen.blind else 0


def _told(seen: Seen, node: str) -> list[str]:
    """A round in a few lines for a person."""
    counts: dict[str, int] = {}
    for fact in seen.facts:
        counts[fact.TABLE] = counts.get(fact.TABLE, 0) + 1
    return [
        ngettext("node {node}: {count} fact", "node {node}: {count} facts", len(seen.facts)).format(
            node=node, count=len(seen.facts)
        ),
        *(f"  {table}: {count}" for table, count in sorted(counts.items())),
        *(_("cannot see {what}").format(what=each) for each in seen.blind),
    ]


def _serve(asked: Options) -> int:
    clock = WallClock()
    with ExitStack() as stack:
        spool, delivery = _delivering(asked, clock, stack)
        rounds = rounds_of(asked, clock, {} if spool is None else spool.cursors)
        stack.callback(rounds.close)
        shown = None
        if asked.metrics is not None:
            from steelyard.app.agent.metrics_port import MetricsPort

            shown = stack.enter_context(MetricsPort.open(asked.metrics, spool, delivery))
        cards = [part for part in rounds.parts if isinstance(part, CardPart)]
        began = time.monotonic()
        loop = AgentLoop(
            rounds,
            asked.interval_seconds,
            spool,
            delivery,
            shown,
            say,
            lambda: restart_reason(cards, time.monotonic() - began),
        )
        loop.end_on_signals()
        reason = loop.run()
    if reason is not None:
        say(_("only a new process can go on: {reason}").format(reason=reason))
        return EXIT_TROUBLE
    return 0


def restart_reason(cards: Sequence[CardPart], age_seconds: float) -> str | None:
    """Why only a new process can go on; None while this one is young, for a trouble that a new one has too must not keep the other parts from
    being looked at."""
    if age_seconds < RESTART_SECONDS_MIN:
        return None
    return next((part.restart_reason for part in cards if part.restart_reason is not None), None)


def _delivering(asked: Options, clock: Clock, stack: ExitStack) -> tuple[Spool | None, Delivery | None]:
    """The spool and what sends from it; neither where nothing is delivered."""
    if asked.server is None:
        return None, None
    address = address_of(asked.server, asked.insecure_http)
    if address.scheme == "http" and asked.insecure_http:
        say(
            _("WARNING: the token and all facts pass to {host} in the clear (--insecure-http)").format(
                host=address.host
            )
        )
    if asked.token_file is not None:
        token_of(asked.token_file)
    link = ServerLink(address, asked.token_file, asked.ca_file)
    speaker = Speaker(asked.node, asked.cluster, version("steelyard"))
    spool = stack.enter_context(Spool(asked.spool, speaker, clock.now, asked.spool_bytes_max))
    return spool, Delivery(spool, link, say)
