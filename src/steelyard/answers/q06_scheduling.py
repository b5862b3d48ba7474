"""Q6: do scheduling and quota follow the rules: who waited how long and why, what became of quota, who was refused, evicted, preempted.

``answer`` is what the registry calls. Waits come from ``ledger.wait``, quota from ``ledger.quota``, what deciders said from the dimensions that are
made of their words. The trick to know: each part is a module of its own (``scheduling_waits``, ``rule_audit``, ``jobs``) that yields figures and
tables; a further part is added in ``_parts``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from steelyard.answers import (
    dimensions,
    grounds,
    jobs,
    queue_waits,
    quota_balance,
    rule_audit,
    scheduling_cases,
    scheduling_pending,
    scheduling_quota,
    scheduling_waits,
)
from steelyard.answers.contract import Answer, Evidence, Figure, Table
from steelyard.answers.demand_scope import OF_PODS, DemandScope, require_known, scope_of
from steelyard.answers.grounds import KnownTime
from steelyard.answers.lines import grains_of
from steelyard.answers.reading import Reading, Rows
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN, Window, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
VERSION: Final = "1"
CONDITIONS: Final = OF_PODS
"""Words that narrow and do not group."""
METHODS: Final[Mapping[str, tuple[str, str]]] = {
    **scheduling_waits.METHODS,
    **scheduling_quota.METHODS,
    **scheduling_cases.METHODS,
    **rule_audit.METHODS,
    **jobs.METHODS,
}


@dataclass(frozen=True, slots=True)
class SchedulingSpec:
    """Q6 as asked: ``window`` None = all known time; ``by`` groups (default queue); ``where`` narrows (dimension -> value).

    ``confined``: whoever asks may not learn which names exist beside its own.
    """

    window: Window | None = None
    by: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    confined: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """What all parts say together."""

    figures: Sequence[Figure]
    tables: Sequence[Table]
    coverage: float | Unknown
    cause: str | None
    blind_spots: Sequence[str] = ()


def title() -> str:
    """What the question asks, in the chosen language."""
    return _("Do scheduling and quota follow the rules")


def answer(rows: Rows, spec: SchedulingSpec) -> Answer:
    """Whether waits, quota and decisions went by the rules, over ``spec.window``.

    Requests count where their wait began in the window; quota is told over its whole grains, and at the latest word. Outside the known time every
    figure is Unknown. Raises UsageError for an unknown dimension, for an empty window and for an empty store. Method: definitions 7 and 8.
    """
    if spec.window is not None and not spec.window.duration_us:
        raise UsageError(
            _("a window must end after it starts: {window} holds no time at all").format(window=spec.window)
        )
    files = (
        SQL,
        dimensions.SQL,
        grounds.SQL,
        queue_waits.SQL_FILE,
        quota_balance.SQL,
        scheduling_cases.SQL,
        scheduling_pending.SQL,
        rule_audit.SQL,
        jobs.SQL,
    )
    reading = Reading(rows, *files)
    times = grounds.known_times(reading)
    known = Window(min(time.first for time in times), max(time.last for time in times) + 1)
    scope = scope_of(
        spec.window or Window(INSTANT_MIN, INSTANT_MAX),
        spec.by or ("queue",),
        spec.where,
        reading,
        confined=spec.confined,
    )
    if not spec.confined:
        require_known(scope, reading)
    window = spec.window or Window(known.start, known.end - 1)
    names = _names_asked(reading, scope) if spec.confined or scope.is_narrowed else None
    if spec.window is not None and spec.window.start >= known.end:
        reason = _("nothing is known after {last}").format(last=format_instant(known.end - 1))
        parts = Parts(_unknown_figures(reason), (), Unknown(reason), None)
    else:
        parts = _parts(reading, scope, times, window, names, spec.confined)
    return _assemble(spec, window, parts, names, reading)


def _names_asked(reading: Reading, scope: DemandScope) -> frozenset[str]:
    """What findings call the requests that are asked about."""
    return frozenset(row["subject"] for row in reading.run("asked_names", **scope.conditions()))


def _parts(
    reading: Reading,
    scope: DemandScope,
    times: Sequence[KnownTime],
    window: Window,
    names: frozenset[str] | None,
    confined: bool,
) -> Parts:
    """Each part in turn. A further one yields its figures (named in METHODS) and tables here."""
    parameter = reading.run("grain")[0]
    grains = grains_of(scope.window, parameter["grain_us"]).whole
    quota = scheduling_quota.quota_part(reading, scope, grains, parameter["wait_ceiling_us"])
    waits = scheduling_waits.wait_part(reading, scope, quota.fulfilment)
    pending = scheduling_pending.pending_part(reading, scope, confined)
    cases = scheduling_cases.case_part(reading, scope, window, waits.requests_count, names, confined)
    audit = rule_audit.rule_audit(reading, scope, confined=confined)
    roots = jobs.jobs(reading, scope)
    spots = [
        *_blind_spots(times, window),
        *_of_limits(times, window, pending.table),
        *waits.blind_spots,
        *pending.blind_spots,
        *cases.blind_spots,
    ]
    spots += _doubled(reading, names)
    if audit.left_out:
        spots.append(_("{count} more breaches, overtakings and changes are not listed").format(count=audit.left_out))
    if roots.left_out:
        spots.append(_("{count} more jobs are not listed").format(count=roots.left_out))
    named = {*scheduling_waits.METHODS, *jobs.METHODS}
    of_requests = grounds.unless_no_pods_were_read([*waits.figures, *roots.figures], times, named)
    return Parts(
        figures=[*of_requests, *quota.figures, *cases.figures, *audit.figures],
        tables=[*waits.tables, pending.table, *quota.tables, *cases.tables, *audit.tables, *roots.tables],
        coverage=waits.coverage,
        cause=quota.cause,
        blind_spots=spots,
    )


def _blind_spots(times: Sequence[KnownTime], window: Window) -> list[str]:
    last = max(time.last for time in times)
    if window.end <= last:
        return []
    return [
        _("nothing is known after {last}: whoever waits then is told as of that instant").format(
            last=format_instant(last)
        )
    ]


def _of_limits(times: Sequence[KnownTime], window: Window, pending: Table) -> list[str]:
    """As ``why`` says it of one request: a past window is told by limits of now."""
    last = max(time.last for time in times)
    if window.end >= last or not pending.rows:
        return []
    return [
        _(
            "what queues may give and what nodes have is known as of the latest word ({now}) alone: what would have to change and what can never"
            " fit is told by it, also of {at}"
        ).format(now=format_instant(last), at=format_instant(window.end))
    ]


def _doubled(reading: Reading, names: frozenset[str] | None) -> list[str]:
    rows = [row for row in reading.run("doubled_objects") if names is None or row["subject"] in names]
    more = sum(
        (row["objects_count"] or 2) - 1 for row in rows
    )  # a finding that does not say how many says: more than one
    return (
        [
            _(
                "{count} more objects carry the uid of another: the two cannot be kept apart, and one of each is counted"
                " (finding uid_of_several_objects)"
            ).format(count=more)
        ]
        if more
        else []
    )


def _unknown_figures(reason: str) -> list[Figure]:
    unknown = Unknown(reason)
    return [Figure(name, unknown, unit, method, unknown) for name, (unit, method) in METHODS.items()]


def _assemble(
    spec: SchedulingSpec, window: Window, parts: Parts, names: frozenset[str] | None, reading: Reading
) -> Answer:
    blind = list(parts.blind_spots)
    cluster = grounds.cluster_asked(spec.where)
    notes, total = grounds.finding_notes(reading, names if spec.confined else None, cluster)
    if total > len(notes):
        blind.append(_("{count} more findings are not listed here").format(count=total - len(notes)))
    return Answer(
        question="q6",
        title=title(),
        window=window,
        as_of=window.end,
        figures=parts.figures,
        tables=parts.tables,
        definitions=grounds.definitions(reading, {"q06_scheduling": VERSION}),
        sources=(*grounds.source_lines(reading, cluster), *scheduling_cases.evidence_lines(reading)),
        coverage=parts.coverage,
        blind_spots=blind,
        findings=notes,
        evidence=[
            Evidence(_("who waited for what, from when to when"), "ledger.wait", "steelyard q6 --explain"),
            Evidence(
                _("queues, quota and requests as written"),
                _("the cluster"),
                "kubectl get workloads,clusterqueues,localqueues --all-namespaces -o yaml",
            ),
            Evidence(_("what deciders said"), _("the cluster"), "kubectl get events --all-namespaces"),
        ],
        next_actions=[parts.cause] if parts.cause else [],
        explain=dict(reading.ran) if spec.explain else {},
    )
