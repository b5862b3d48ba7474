"""One round of the agent: every part once, each in its own failure, and a word about the agent itself.

``loop`` keeps what comes of it. The trick to know: the agent's own status is the sign of life that the server counts agents by, so it is there
in each round, and says what this agent cannot see.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from steelyard.app.agent.parts import Part
from steelyard.facts.base import Fact
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import SourceUnavailable, SteelyardError
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.round_memory import RoundMemory

SOURCE: Final = "agent"
MESSAGE_CHARACTERS: Final = 500
_GRAIN_US: Final = 1_000
"""Facts are dated to the millisecond, which is what metrics can say too: delivered or scraped, they are the same facts."""


class RoundClock:
    """Another clock, which stands still within a round and is floored to the millisecond: all facts of a round are of one instant."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._instant = self._floored()

    def begin(self) -> Instant:
        """A round begins now; its instant."""
        self._instant = self._floored()
        return self._instant

    def now(self) -> Instant:
        """The instant of the round."""
        return self._instant

    def _floored(self) -> Instant:
        return self._clock.now() // _GRAIN_US * _GRAIN_US


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a round. ``blind``: what could not be seen, part by part. ``cursors``: to be kept with the facts."""

    at: Instant
    facts: Sequence[Fact]
    cursors: dict[str, str]
    blind: Sequence[str]


@dataclass(slots=True)
class AgentRounds:
    """All parts of one agent, round by round."""

    parts: Sequence[Part]
    clock: RoundClock
    node: str
    cluster: str = "default"
    _memory: RoundMemory = field(default_factory=RoundMemory)

    def round(self) -> Seen:
        """Look once. Never raises for what the world does; a mistake of ours in one part is told and costs that part alone."""
        at = self.clock.begin()
        ctx = ReadContext(cluster=self.cluster, file="agent", node=self.node, observed_at=at)
        facts: list[Fact] = []
        blind: list[str] = []
        for part in self.parts:
            reason = self._look(part, ctx, facts)
            if reason is not None:
                blind.append(f"{part.name}: {reason}")
        facts.append(self._status(ctx, len(facts), blind))
        cursors = {part.name: word for part in self.parts if (word := part.cursor()) is not None}
        return Seen(at, facts, cursors, blind)

    def close(self) -> None:
        """Let all parts go."""
        for part in self.parts:
            part.close()

    def _look(self, part: Part, ctx: ReadContext, into: list[Fact]) -> str | None:
        """The facts of one part; why it could not be seen, in whole or in part."""
        found: list[Fact] = []
        try:
            found.extend(part.round(ctx))
        except (SteelyardError, OSError) as error:
            reason = " ".join(plain(str(error) or type(error).__name__).split())[:MESSAGE_CHARACTERS]
            code = "source_unavailable" if isinstance(error, SourceUnavailable) else "source_failed"
            found.extend(self._failure(part, ctx, reason, code))
        except Exception as error:  # a mistake of ours in one part must not end what the others see
            traceback.print_exc(file=sys.stderr)
            reason = f"a mistake of this program ({type(error).__name__}): please report it"
            found.extend(self._failure(part, ctx, reason, "reader_failed"))
        else:
            self._memory.is_news(f"failure/{part.name}", None, ctx.observed_at)
        into.extend(found)
        said = [
            fact for fact in found if isinstance(fact, SourceStatus) and fact.kind == part.name and fact.status != "ok"
        ]
        return None if not said else said[-1].message or said[-1].status

    def _failure(self, part: Part, ctx: ReadContext, reason: str, code: str) -> Iterator[Fact]:
        """A status each round, and a finding when the reason changes, or once an hour."""
        scope = f"node/{self.node}"
        yield SourceStatus(
            cluster=self.cluster,
            source=part.source,
            natural_key=f"{part.name}/{scope}",
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            kind=part.name,
            scope=scope,
            status="failed",
            message=reason,
        )
        if self._memory.is_news(f"failure/{part.name}", reason, ctx.observed_at):
            yield ctx.finding(
                part.source,
                code,
                f"node {self.node}: {part.name}",
                reason,
                severity="error",
                evidence={"node": self.node},
            )

    def _status(self, ctx: ReadContext, count: int, blind: Sequence[str]) -> SourceStatus:
        scope = f"node/{self.node}"
        return SourceStatus(
            cluster=self.cluster,
            source=SOURCE,
            natural_key=f"{SOURCE}/{scope}",
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            kind=SOURCE,
            scope=scope,
            status="partial" if blind else "ok",
            objects_count=count,
            message=None if not blind else f"cannot see: {'; '.join(blind)}"[: 2 * MESSAGE_CHARACTERS],
        )


def as_json(seen: Seen, node: str, cluster: str) -> bytes:
    """One round as a JSON document: facts by table, in the order in which they were seen."""
    tables: dict[str, list[Fact]] = {}
    for fact in seen.facts:
        tables.setdefault(fact.TABLE, []).append(fact)
    document = {"node": node, "cluster": cluster, "at": seen.at, "blind": list(seen.blind), "facts": tables}
    return msgspec.json.format(msgspec.json.encode(document), indent=2)
