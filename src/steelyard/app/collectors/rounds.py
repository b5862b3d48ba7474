"""What became of one round: the facts in columns, what failed, and the facts that say so.

``gather`` runs a collector's round to its end in the collector's own thread; nothing is stored here. The trick to know: whatever a collector
raises, what it had yielded before is kept, and the failure itself is a status and a finding, so that a source that is down shows as not
seen and never as nothing there.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from steelyard.app.collectors.contract import Collector, Resumable
from steelyard.app.refusals import SHOWN_MAX, more
from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceUnavailable, SteelyardError
from steelyard.primitives.instant import SECOND_US, DurationUs, Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.round_memory import RoundMemory
from steelyard.store.columns import by_class, fitting, join, settle

SOURCE: Final = "collection"
"""The source of findings about a round that no reader made."""

KIND: Final = "collector"
"""The kind of the status of a collector as a whole."""

FACTS_MAX: Final = 4_000_000
"""So many facts one round may bring; what comes after them is left for the next, and said."""

_AT_ONCE: Final = 50_000
_MESSAGE_CHARACTERS: Final = 500


@dataclass(slots=True)
class Round:
    """One round. ``tables``: fact class -> parts in columns, dated. ``error``: why nothing, or nothing more, was seen; ``fault``: it was our
    own mistake. ``failed_parts``: parts of the source (targets) that failed while others went on. ``cursor``: to be stored with it."""

    name: str
    at: Instant
    tables: dict[type[Fact], list[Any]] = field(default_factory=dict)
    facts_count: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    failed_parts: list[str] = field(default_factory=list)
    error: str | None = None
    fault: BaseException | None = None
    retry_after_us: DurationUs = 0
    cursor: str | None = None
    memory: RoundMemory | None = None
    """What was said before: the same finding again is said once an hour. None: everything is said."""
    _said: set[str] = field(default_factory=set)

    @property
    def status(self) -> str:
        """``ok``, ``partial`` (some parts failed) or ``failed``."""
        return "failed" if self.error is not None else "partial" if self.failed_parts else "ok"

    def joined(self) -> Mapping[type[Fact], Any]:
        """One table per class, as the store takes them."""
        return {fact: join(parts) for fact, parts in self.tables.items() if parts}

    def add(self, facts: Iterable[Fact]) -> None:
        """Take facts in; those that no column holds become findings."""
        misfits: list[Fact] = []
        for fact, rows in by_class(self._news(facts)).items():
            table, refused = fitting(fact, rows)
            misfits.extend(refused)
            if table.num_rows:
                self.tables.setdefault(fact, []).append(settle(fact, table, self.at))
                self.facts_count += table.num_rows
            self._note(rows)
        if misfits:
            self.add(_misfit_findings(misfits, ReadContext(file=self.name, observed_at=self.at)))

    def _news(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        for fact in facts:
            if self.memory is not None and isinstance(fact, Finding):
                key = f"finding/{fact.cluster}/{fact.natural_key}"
                if key not in self._said and not self.memory.is_news(key, fact.message, self.at):
                    continue
                self._said.add(key)  # another of the same key in this round tells of something else
            yield fact

    def _note(self, rows: list[Fact]) -> None:
        for row in rows:
            if isinstance(row, Finding):
                self.findings[row.code] += 1
            elif isinstance(row, SourceStatus) and row.status == "failed":
                self.failed_parts.append(f"{row.scope}: {row.message or 'failed'}"[:_MESSAGE_CHARACTERS])


def gather(collector: Collector, at: Instant, cluster: str, memory: RoundMemory) -> Round:
    """Run one round. ``memory``: of the collector as a whole, so that a source that stays down is one finding an hour."""
    found = Round(collector.name, at, memory=memory)
    ctx = ReadContext(cluster=cluster, file=collector.name, observed_at=at)
    try:
        _take(collector.collect(at), found, ctx)
        found.cursor = collector.cursor() if isinstance(collector, Resumable) else None
        memory.is_news("failure", None, at)
    except SourceUnavailable as error:
        found.error = _line(error)
        found.retry_after_us = round((error.retry_after_seconds or 0) * SECOND_US)
        found.add(failure_facts(collector, ctx, found.error, "source_unavailable", memory))
    except (SteelyardError, OSError) as error:
        found.error = _line(error)
        found.add(failure_facts(collector, ctx, found.error, "source_failed", memory))
    except Exception as error:  # a mistake of ours in one collector must not end the others: it is told in full and the round has failed
        found.error = f"a mistake of this program ({type(error).__name__}): please report it"
        found.fault = error
        found.add(failure_facts(collector, ctx, found.error, "reader_failed", memory, error))
    return found


def _take(facts: Iterable[Fact], into: Round, ctx: ReadContext) -> None:
    """All facts into the round, in bounds, those before a failure too."""
    rows: list[Fact] = []
    try:
        for fact in facts:
            rows.append(fact)
            if len(rows) >= _AT_ONCE:
                into.add(rows)
                rows.clear()
                if into.facts_count >= FACTS_MAX:
                    into.add([_too_large(ctx, into.facts_count)])
                    return
    finally:
        into.add(rows)


def failure_facts(
    collector: Collector,
    ctx: ReadContext,
    message: str,
    code: str,
    memory: RoundMemory,
    error: BaseException | None = None,
) -> Iterator[Fact]:
    """A status ``failed`` for each such round, and a finding when the reason changes, or once an hour."""
    yield SourceStatus(
        cluster=ctx.cluster,
        source=collector.source,
        natural_key=f"{KIND}/{collector.name}",
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        kind=KIND,
        scope=collector.name,
        status="failed",
        message=message,
    )
    if memory.is_news("failure", (code, message), ctx.observed_at):
        yield ctx.finding(
            collector.source,
            code,
            f"collector {collector.name}",
            message,
            severity="error",
            evidence={"where": _place(error)} if error is not None else None,
        )


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rsplit('steelyard', 1)[-1]}:{frames[-1].lineno}" if frames else ""


def _line(error: Exception) -> str:
    text = plain(str(error)).strip() or type(error).__name__
    return " ".join(text.split())[:_MESSAGE_CHARACTERS]


def _too_large(ctx: ReadContext, count: int) -> Finding:
    return ctx.finding(
        SOURCE,
        "round_too_large",
        f"collector {ctx.file}",
        f"a round was cut after {FACTS_MAX} facts: the rest was not taken in",
        severity="error",
        evidence={"count": count},
    )


def _misfit_findings(misfits: list[Fact], ctx: ReadContext) -> Iterator[Finding]:
    for fact in misfits[:SHOWN_MAX]:
        yield ctx.finding(
            SOURCE,
            "value_out_of_range",
            f"{fact.TABLE} {plain(fact.natural_key)[:200]}",
            "a value that cannot be kept: a number beyond 64 bits, text that is no Unicode, or a time outside the years 1 to 9999",
        )
    if len(misfits) > SHOWN_MAX:
        yield more(ctx, "value_out_of_range", len(misfits))
