"""Two files of a Helios trace: the sequence of every tenant's GPUs minute by minute, and the quota of every tenant day by day.

A row becomes one ``Quota`` fact of kind ``tenant``; what it says holds for one step of its file. The trick to know: stamps are local time without a
zone, and a conversion would fold an hour of the trace onto another where summer time ends, so the digits are taken as UTC and a finding says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.quota import Quota
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import DAY_US, MINUTE_US, DurationUs, Instant
from steelyard.sources.helios.cells import MILLI, NAME_MAX, RESOURCE, SOURCE, gpus_milli, local_stamp, tenant_name
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.csv_table import CsvRow, CsvTable, malformed

MINUTE_COLUMNS: Final = ("time", "vc", "total_gpu_num", "running_gpu_num", "pending_gpu_num", "idle_gpu_num")
DAY_COLUMN: Final = "date"
TOTAL_COLUMN: Final = "total"
TENANT: Final = "tenant"

_PEEKED: Final = 1_000
"""So many rows are looked at to find the step of a sequence."""

_TENANTS_SEVERAL: Final = 3
"""With so many tenants in a file, a day on which one of them has everything was not recorded."""

_CONTRADICTIONS_MAX: Final = 100
"""So many rows that contradict themselves are named one by one; beyond, they are counted."""


@dataclass(slots=True)
class _Span:
    """What the rows of a file reached over."""

    first: Instant | None = None
    last: Instant | None = None
    count: int = 0
    contradictions: int = 0
    stamps: dict[str, Instant] = field(default_factory=dict)

    def stamp(self, row: CsvRow, column: str) -> Instant:
        """The row's instant; the same text is read once. Raises SourceMalformed where it is none."""
        text = row.get(column)
        at = self.stamps.get(text)
        if at is None:
            at = local_stamp(text)
            if at is None:
                raise SourceMalformed(
                    f"{column}: expected a time such as 2020-05-01 00:00:00, found {text[:40]!r}", row.line, row.text
                )
            if len(self.stamps) < 1_000_000:
                self.stamps[text] = at
        return at

    def note(self, at: Instant) -> None:
        """A row at this instant was taken."""
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)
        self.count += 1


def is_day_header(header: Sequence[str]) -> bool:
    """Whether a header is that of the quota of days: ``date``, one column per virtual cluster (``vcXyz``), ``total``."""
    names = [name for name in header if name]
    return (
        len(names) >= 3
        and names[0] == DAY_COLUMN
        and names[-1] == TOTAL_COLUMN
        and all(name.startswith("vc") for name in names[1:-1])
    )


def read_helios(lines: Iterable[str] | str, ctx: ReadContext) -> Iterator[Fact]:
    """Quota facts of either file and one source status; refused rows and contradictions as findings. Amounts in thousandths of a GPU.

    A file with neither header yields one finding and nothing else. Check: the sum of ``running_gpu_num`` over that of ``total_gpu_num``
    (``awk -F, 'NR > 1 {r += $4; t += $3} END {print r / t}'``) is the part of the quota that was used.
    """
    table = CsvTable(lines, ctx, SOURCE)
    by_day = is_day_header(table.columns)
    missing = [column for column in MINUTE_COLUMNS if column not in table.columns]
    if missing and not by_day:
        yield ctx.finding(
            SOURCE,
            "trace_columns_missing",
            f"file {ctx.file}",
            f"expected the columns {', '.join(MINUTE_COLUMNS)}, or {DAY_COLUMN}, one per tenant and {TOTAL_COLUMN}; missing of the first: "
            f"{', '.join(missing)}; nothing was taken from it",
            severity="error",
            evidence={"missing": missing, "found": list(table.columns)[:50]},
        )
        return
    span = _Span()
    step = DAY_US
    if by_day:
        yield from _days(table, span, ctx)
    else:
        rows = iter(table)
        head = list(islice(rows, _PEEKED))
        step = _step(head)
        yield from _minutes(chain(_emptied(head), rows), step, span, ctx)
    yield from _closing(span, step, ctx)


def _emptied(head: list[CsvRow | Finding]) -> Iterator[CsvRow | Finding]:
    """The rows that were looked at, each let go once it is handed on."""
    waiting = deque(head)
    head.clear()
    while waiting:
        yield waiting.popleft()


def _step(head: Sequence[CsvRow | Finding]) -> DurationUs:
    """The smallest step forwards of one tenant among the first rows, from a second to a day; a minute where there is none."""
    before: dict[str, Instant] = {}
    steps: list[DurationUs] = []
    for row in head:
        at = local_stamp(row.get("time")) if isinstance(row, CsvRow) else None
        if at is None or not isinstance(row, CsvRow):
            continue
        tenant = row.get("vc")
        if tenant in before and 0 < at - before[tenant] <= DAY_US:
            steps.append(at - before[tenant])
        before[tenant] = at
    return min(steps, default=MINUTE_US)


def _minutes(rows: Iterable[CsvRow | Finding], step: DurationUs, span: _Span, ctx: ReadContext) -> Iterator[Fact]:
    for row in rows:
        if isinstance(row, Finding):
            yield row
            continue
        try:
            fact = _minute(row, step, span, ctx)
        except SourceMalformed as error:
            yield malformed(ctx, SOURCE, error)
            continue
        span.note(fact.occurred_at)
        yield fact
        if (fact.used_milli or 0) + (fact.idle_milli or 0) != fact.nominal_milli:
            span.contradictions += 1
            if span.contradictions <= _CONTRADICTIONS_MAX:
                yield _contradiction(fact, row, ctx)


def _minute(row: CsvRow, step: DurationUs, span: _Span, ctx: ReadContext) -> Quota:
    at = span.stamp(row, "time")
    tenant = tenant_name(row, "vc")
    return Quota(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{TENANT}/{tenant}/{RESOURCE}",
        occurred_at=at,
        observed_at=ctx.observed_at,
        queue_kind=TENANT,
        queue=tenant,
        resource=RESOURCE,
        nominal_milli=gpus_milli(row, "total_gpu_num"),
        used_milli=gpus_milli(row, "running_gpu_num"),
        pending_milli=gpus_milli(row, "pending_gpu_num"),
        idle_milli=gpus_milli(row, "idle_gpu_num", below_zero=True),
        interval_us=step,
    )


def _contradiction(fact: Quota, row: CsvRow, ctx: ReadContext) -> Finding:
    return ctx.finding(
        SOURCE,
        "trace_quota_contradicts",
        f"tenant {fact.queue}",
        f"running and idle GPUs are not the total: {row.get('running_gpu_num')} + {row.get('idle_gpu_num')}, not "
        f"{row.get('total_gpu_num')}; each is taken as it stands",
        line=row.line,
        excerpt=row.text,
    )


def _days(table: CsvTable, span: _Span, ctx: ReadContext) -> Iterator[Fact]:
    tenants = [name for name in table.columns if name not in (DAY_COLUMN, TOTAL_COLUMN)]
    too_long = [name for name in tenants if len(name) > NAME_MAX]
    if too_long:
        tenants = [name for name in tenants if len(name) <= NAME_MAX]
        yield malformed(
            ctx, SOURCE, SourceMalformed(f"a tenant's name of more than {NAME_MAX} characters", 1, too_long[0])
        )
    days: set[Instant] = set()
    for row in table:
        if isinstance(row, Finding):
            yield row
            continue
        try:
            at = span.stamp(row, DAY_COLUMN)
            if at in days:
                raise SourceMalformed(
                    f"{DAY_COLUMN}: {row.get(DAY_COLUMN)} stands twice in this file; the first row counts",
                    row.line,
                    row.text,
                )
            amounts = {tenant: gpus_milli(row, tenant) for tenant in tenants}
            total = gpus_milli(row, TOTAL_COLUMN)
        except SourceMalformed as error:
            yield malformed(ctx, SOURCE, error)
            continue
        days.add(at)
        found = list(_day_findings(row, amounts, total, ctx))
        yield from found
        if any(finding.code == "trace_day_not_recorded" for finding in found):
            continue
        span.note(at)
        yield from (_day(tenant, amount, at, ctx) for tenant, amount in amounts.items())


def _day_findings(row: CsvRow, amounts: Mapping[str, int], total_milli: int, ctx: ReadContext) -> Iterator[Finding]:
    """A day without any GPU, or with all of them at one of several tenants, is a gap of the recording and no change of quota."""
    day, tenants_milli = row.get(DAY_COLUMN), sum(amounts.values())
    holders = [tenant for tenant, amount in amounts.items() if amount]
    if not holders or (len(holders) == 1 and len(amounts) >= _TENANTS_SEVERAL):
        told = f"{holders[0]} alone has {tenants_milli // MILLI} GPUs" if holders else "no tenant has a GPU"
        yield ctx.finding(
            SOURCE,
            "trace_day_not_recorded",
            f"day {day}",
            f"{told} on that day, all others none: that is no quota, the day's is not known",
            line=row.line,
            excerpt=row.text,
        )
    elif total_milli != tenants_milli:
        yield ctx.finding(
            SOURCE,
            "trace_quota_contradicts",
            f"day {day}",
            f"the tenants have {tenants_milli // 1000} GPUs, the day's total is {total_milli // 1000}; the tenants' are taken",
            line=row.line,
            excerpt=row.text,
        )


def _day(tenant: str, amount: int, at: Instant, ctx: ReadContext) -> Quota:
    return Quota(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{TENANT}/{tenant}/{RESOURCE}",
        occurred_at=at,
        observed_at=ctx.observed_at,
        queue_kind=TENANT,
        queue=tenant,
        resource=RESOURCE,
        nominal_milli=amount,
        interval_us=DAY_US,
    )


def _closing(span: _Span, step: DurationUs, ctx: ReadContext) -> Iterator[Fact]:
    if span.first is None or span.last is None:
        return
    if span.contradictions > _CONTRADICTIONS_MAX:
        yield ctx.finding(
            SOURCE,
            "trace_quota_contradicts",
            f"file {ctx.file}",
            f"running and idle GPUs are not the total in {span.contradictions} rows; the first {_CONTRADICTIONS_MAX} are told one by one",
            evidence={"count": span.contradictions},
        )
    yield ctx.finding(
        SOURCE,
        "trace_time_zone_unknown",
        f"file {ctx.file}",
        "its stamps are local time without a zone: they are taken as UTC, so hours of the day are the trace's own",
        severity="info",
    )
    yield SourceStatus(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"quota/file/{ctx.file}",
        occurred_at=span.last,
        observed_at=ctx.observed_at,
        kind="quota",
        scope="cluster",
        objects_count=span.count,
        as_of_basis="stamped",
        observed_from_at=span.first,
        observed_to_at=span.last + step,
    )
