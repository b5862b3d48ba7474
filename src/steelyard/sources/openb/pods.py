"""The pod list of an openb trace: who asked for which share of how many cards, and when it was scheduled and deleted.

The trick to know: the trace tells whole lives but no placement. A pod that ran becomes a request and one grant without a
device; a pod that was never scheduled becomes a request only. A Running pod whose deletion is the last stamp of the file was
still alive there: its end is not known, and its hours count up to that stamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.owner import Owner
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant
from steelyard.sources.openb.cells import SOURCE, cpu_milli, stamp, whole
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.csv_table import CsvRow, CsvTable, malformed

POD_COLUMNS: Final = ("name", "num_gpu", "gpu_milli", "pod_phase", "creation_time", "deletion_time", "scheduled_time")
"""Without these a file tells no pod's life; ``gpu_spec``, ``qos`` and ``cpu_milli`` may be absent."""

NAMESPACE: Final = "openb"
NO_PLACEMENT: Final = "the trace has no placement"
_CARDS_MAX: Final = 1_000_000
_NAME_MAX: Final = 253
_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class _Pod:
    line: int
    name: str
    phase: str
    qos: str
    gpu_spec: str
    cards_count: int
    gpu_milli: int
    cpu_milli: int | None
    cpu_unreadable: bool
    created_at: Instant
    scheduled_at: Instant | None
    deleted_at: Instant | None

    @property
    def uid(self) -> str:
        return f"{NAMESPACE}/{self.name}"


def read_openb_pods(lines: Iterable[str] | str, ctx: ReadContext) -> Iterator[Fact]:
    """Requests, owners, grants and one source status of a pod list; refused rows and contradictions as findings.

    Columns are found by header. Times are seconds from ``ctx.settings.trace_epoch``; a share is ``gpu_milli`` thousandths of
    each of ``num_gpu`` cards. A file without the columns of ``POD_COLUMNS`` yields one finding and nothing else.
    Check: ``awk -F, '$11 {h += $4 * $5 / 1000 * ($10 - $11) / 3600} END {print h}'`` on the file gives the GPU-hours granted.
    """
    table = CsvTable(lines, ctx, SOURCE)
    missing = [column for column in POD_COLUMNS if column not in table.columns]
    if missing:
        yield ctx.finding(
            SOURCE,
            "trace_columns_missing",
            f"file {ctx.file}",
            f"expected the columns {', '.join(POD_COLUMNS)}; missing: {', '.join(missing)}; nothing was taken from it",
            severity="error",
            evidence={"missing": missing, "found": list(table.columns)[:50]},
        )
        return
    pods: list[_Pod] = []
    names: set[str] = set()
    for row in table:
        if isinstance(row, Finding):
            yield row
            continue
        try:
            pod = _pod(row, ctx.settings.trace_epoch, names)
        except SourceMalformed as error:
            yield malformed(ctx, SOURCE, error)
            continue
        names.add(pod.name)
        pods.append(pod)
    if not pods:
        return
    first, last = _span(pods)
    for pod in pods:
        yield from _facts(pod, last, ctx)
    yield _status(ctx, first, last, len(pods))


def _pod(row: CsvRow, epoch: Instant, names: set[str]) -> _Pod:
    """The row as a pod. Raises SourceMalformed where a cell cannot be read or the stamps cannot all be true."""
    name = row.get("name")
    if not name or len(name) > _NAME_MAX:
        raise SourceMalformed(f"name: expected 1 to {_NAME_MAX} characters, found {name[:40]!r}", row.line, row.text)
    if name in names:
        raise SourceMalformed(f"name: {name!r} stands twice in this file; the first row counts", row.line, row.text)
    created = stamp(row, "creation_time", epoch)
    scheduled = stamp(row, "scheduled_time", epoch)
    deleted = stamp(row, "deletion_time", epoch)
    if created is None:
        raise SourceMalformed("creation_time: expected seconds, found nothing", row.line, row.text)
    if scheduled is not None and scheduled < created:
        raise SourceMalformed("scheduled_time is before creation_time", row.line, row.text)
    if deleted is not None and deleted < (created if scheduled is None else scheduled):
        raise SourceMalformed("deletion_time is before the pod was created or scheduled", row.line, row.text)
    return _Pod(
        line=row.line,
        name=name,
        phase=row.get("pod_phase") or "Unknown",
        qos=row.get("qos"),
        gpu_spec=row.get("gpu_spec"),
        cards_count=whole(row, "num_gpu", _CARDS_MAX),
        gpu_milli=whole(row, "gpu_milli", 1000),
        cpu_milli=cpu_milli(row),
        cpu_unreadable=bool(row.get("cpu_milli")) and cpu_milli(row) is None,
        created_at=created,
        scheduled_at=scheduled,
        deleted_at=deleted,
    )


def _span(pods: list[_Pod]) -> tuple[Instant, Instant]:
    """The first creation and the last stamp of all."""
    stamps = [at for pod in pods for at in (pod.created_at, pod.scheduled_at, pod.deleted_at) if at is not None]
    return min(pod.created_at for pod in pods), max(stamps)


def _facts(pod: _Pod, last: Instant, ctx: ReadContext) -> Iterator[Fact]:
    alive = pod.phase not in _ENDED and pod.deleted_at == last
    end = None if alive else pod.deleted_at
    ran = pod.scheduled_at is not None
    yield Request(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=pod.uid,
        occurred_at=pod.created_at,
        observed_at=ctx.observed_at,
        pod_uid=pod.uid,
        namespace=NAMESPACE,
        pod=pod.name,
        phase=pod.phase,
        created_at=pod.created_at,
        scheduled_at=pod.scheduled_at,
        last_container_end_at=end if ran else None,
        deletion_at=end,
        gpu_count=pod.cards_count,
        gpu_milli=pod.gpu_milli,
        gpu_model=pod.gpu_spec or None,
        qos=pod.qos or None,
        cpu_milli=pod.cpu_milli,
    )
    labels = {key: value for key, value in (("gpu_spec", pod.gpu_spec), ("qos", pod.qos)) if value}
    yield Owner(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=pod.uid,
        occurred_at=pod.created_at,
        observed_at=ctx.observed_at,
        pod_uid=pod.uid,
        namespace=NAMESPACE,
        labels=msgspec.json.encode(labels).decode(),
    )
    if pod.cards_count and ran:
        yield _grant(pod, end, ctx)
    yield from _contradictions(pod, ctx)


def _grant(pod: _Pod, end: Instant | None, ctx: ReadContext) -> Fact:
    return Grant(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{pod.uid}/*/0",
        occurred_at=pod.created_at,
        observed_at=ctx.observed_at,
        pod_uid=pod.uid,
        container="*",
        scheme="trace",
        device_unknown_reason=NO_PLACEMENT,
        unit_kind="gpu" if pod.gpu_milli == 1000 else "vgpu",
        quantity=pod.cards_count,
        share_ppm=pod.gpu_milli * 1000,
        valid_from_at=pod.scheduled_at,
        valid_to_at=end,
    )


def _contradictions(pod: _Pod, ctx: ReadContext) -> Iterator[Finding]:
    found = []
    if pod.cpu_unreadable:
        found.append(("trace_cpu_unreadable", "cpu_milli is no amount of CPU: what it asks for is not known"))
    if pod.cards_count and not pod.gpu_milli:
        found.append(("trace_share_missing", "it asks for cards with a share of 0: it is booked with no share"))
    if not pod.cards_count and pod.gpu_milli:
        found.append(
            ("trace_share_without_cards", "it names a share of a card and asks for no card: nothing is booked")
        )
    if pod.scheduled_at is None and pod.phase in ("Running", *_ENDED):
        found.append(("trace_schedule_missing", f"phase {pod.phase} without scheduled_time: when it ran is not known"))
    if pod.scheduled_at is not None and pod.phase == "Pending":
        found.append(("trace_phase_contradicts", "phase Pending with a scheduled_time: the stamp counts"))
    if pod.scheduled_at is not None and pod.deleted_at is None:
        found.append(("trace_end_missing", "no deletion_time: it is taken as alive at the trace's last stamp"))
    for code, message in found:
        yield ctx.finding(SOURCE, code, f"pod {pod.uid}", message, line=pod.line)


def _status(ctx: ReadContext, first: Instant, last: Instant, count: int) -> SourceStatus:
    return SourceStatus(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key="trace/cluster",
        occurred_at=last,
        observed_at=ctx.observed_at,
        kind="trace",
        complete=True,
        objects_count=count,
        as_of_basis="stamped",
        observed_from_at=first,
        observed_to_at=last,
    )
