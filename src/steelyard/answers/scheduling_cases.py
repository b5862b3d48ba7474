"""What deciders did to whom, as Q6 says it: preemptions, refusals, evictions, gangs that hold cards and do not run, ends, decisions, contradictions.

Q6 calls ``case_part``. One row is one case, whatever number of sources tell of it: the dimensions have made them one. The trick to know: silence is
no zero. Where neither events nor an audit log were read, nobody would have told, and a count of none is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers.contract import Column, Figure, Table, Value
from steelyard.answers.demand_scope import DemandScope
from steelyard.answers.reading import Reading, Record
from steelyard.answers.scheduling_pending import gpus_not_told
from steelyard.answers.tenant_words import finding_told, rule_told
from steelyard.definitions import queue_wait
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, Window, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
DECISIONS_MAX: Final = 200
_RULES: Final = f"queue_wait {queue_wait.VERSION}"
_GPU: Final = 1_000

CONTRADICTIONS: Final = (
    "event_host_mismatch",
    "event_uid_mismatch",
    "fit_contradicts_words",
    "finished_metric_counts_slice_replacement",
    "flavor_message_mismatch",
    "kueue_wait_metric_wrong",
    "leaked_reservation",
    "overlapping_flavors",
    "overlapping_nodes",
    "podgroup_name_mismatch",
    "preemptor_uid_conflict",
    "queue_counters_mismatch",
    "queue_counters_without_objects",
    "quota_above_hardware",
    "quota_over_nominal",
    "quota_use_differs",
    "reclaimable_pods_stale",
    "replica_role_double_count",
    "reservation_kept_after_rejection",
    "stale_cluster_queue_status",
    "stale_inqueue_podgroup",
    "stale_local_queue_status",
    "stale_metric_series",
    "volcano_queue_counters_stale",
    "workload_missing_for_kueue_pod",
    "workload_object_missing",
)
"""Findings that say that what controllers tell of scheduling and quota is not so, or that two of their words exclude each other."""

METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "preemptions_count": ("1", f"{_RULES}: preemptions in the window, each once"),
    "evictions_count": ("1", f"{_RULES}: evictions as controllers count them, else as seen; a count has no date"),
    "refusals_count": (
        "1",
        f"{_RULES}: requests turned away at the door or by their queue, retries of one owner as one",
    ),
    "quota_refused_count": ("1", f"{_RULES}: requests that a quota of cards turned away, retries of one owner as one"),
    "refusal_ratio": ("1", f"{_RULES}: refusals / (requests that came to be + those refused before that)"),
    "gangs_incomplete_count": ("1", f"{_RULES}: gangs that hold cards while fewer run than they need"),
    "gangs_incomplete_idle_gpus": ("GPU", f"{_RULES}: cards that those hold"),
    "requests_admitted_unschedulable": ("1", f"{_RULES}: requests with quota whose pods nobody could place"),
    "requests_success_ratio": (
        "1",
        f"{_RULES}: succeeded / (succeeded + failed); replaced, preempted and stopped ones are neither",
    ),
    "contradictions_count": ("1", f"{_RULES}: findings that what controllers tell of scheduling is not so"),
}

_PREEMPTIONS: Final = (
    Column("at"),
    Column("time_basis"),
    Column("decided_by"),
    Column("rule"),
    Column("victim_namespace"),
    Column("victim"),
    Column("victim_queue"),
    Column("victim_priority", "1"),
    Column("victim_gpus", "GPU"),
    Column("preemptor_namespace"),
    Column("preemptor"),
    Column("preemptor_uid"),
    Column("preemptor_queue"),
    Column("preemptor_priority", "1"),
    Column("contradiction"),
    Column("evidence"),
    Column("words", "1"),
    Column("cluster"),
)
_REFUSALS: Final = (
    Column("refused_by"),
    Column("verb"),
    Column("namespace"),
    Column("tenant"),
    Column("request"),
    Column("asked_by"),
    Column("rule"),
    Column("resource"),
    Column("asked"),
    Column("used"),
    Column("limit"),
    Column("first_at"),
    Column("last_at"),
    Column("times", "1"),
    Column("message"),
    Column("cluster"),
)
_EVICTIONS: Final = (
    Column("reason"),
    Column("cause"),
    Column("requests", "1"),
    Column("evictions", "1"),
    Column("basis"),
    Column("last_at"),
)
_OUTCOMES: Final = (
    Column("scheduler"),
    Column("succeeded", "1"),
    Column("failed", "1"),
    Column("preempted", "1"),
    Column("excluded", "1"),
    Column("stopped", "1"),
    Column("pending", "1"),
    Column("degraded", "1"),
    Column("living", "1"),
    Column("not_told", "1"),
    Column("success_ratio", "1"),
)
_DECISIONS: Final = (Column("verdict"), Column("cause"), Column("rule"), Column("requests", "1"), Column("times", "1"))
_GANGS: Final = (
    Column("state"),
    Column("namespace"),
    Column("name"),
    Column("queue"),
    Column("tenant"),
    Column("scheduler"),
    Column("running", "1"),
    Column("least", "1"),
    Column("gpus_idle", "GPU"),
    Column("gpus_asked", "GPU"),
    Column("since"),
    Column("age_seconds", "s"),
    Column("cause"),
    Column("basis"),
    Column("cluster"),
)
_CONTRADICTIONS: Final = (Column("code"), Column("severity"), Column("subject"), Column("message"))


@dataclass(frozen=True, slots=True)
class CasePart:
    """What Q6 says of single cases."""

    figures: Sequence[Figure]
    tables: Sequence[Table]
    blind_spots: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Evidence:
    """From when to when each kind of evidence speaks, and over which window it is asked for."""

    spans: Mapping[str, Window]
    asked: Window

    def coverage(self, *kinds: str) -> float | Unknown:
        """The part of the window over which the best of the kinds speaks; Unknown where none was read."""
        parts = [
            self.asked.overlap_us(self.spans[kind].start, self.spans[kind].end) for kind in kinds if kind in self.spans
        ]
        if not parts or not self.asked.duration_us:
            return Unknown(_("neither events nor an audit log were read"))
        return max(parts) / self.asked.duration_us

    def count(self, value: int, *kinds: str) -> Value:
        """The count; none is unknown where none of the kinds of evidence was read."""
        if value or any(kind in self.spans for kind in kinds):
            return value
        return Unknown(_("nobody would have told: neither events, an audit log nor objects of a queue were read"))


def case_part(
    reading: Reading,
    scope: DemandScope,
    window: Window,
    requests_count: int,
    subjects: frozenset[str] | None,
    confined: bool,
) -> CasePart:
    """All tables of cases and their figures.

    ``subjects``: what findings call the requests that are asked about; None = all. ``confined``: of a preemption by one of them nothing is told,
    since its victim is somebody else's, and no free text of a decider, which may name them.
    """
    rows = reading.run("evidence", cluster_wanted=scope.conditions()["cluster_wanted"])
    evidence = _Evidence({row["kind"]: Window(row["first_us"], row["last_us"] + 1) for row in rows}, window)
    narrowed = {"is_narrowed": scope.is_narrowed, **scope.bound()}
    grouped = {"by": list(scope.by), **scope.bound()}
    preemptions = reading.run("preemptions", confined=confined, **narrowed)
    refusals = reading.run("refusals", **scope.bound())
    evictions = reading.run("evictions", **grouped)
    outcomes = reading.run("outcomes", **grouped)
    decisions = reading.run("decisions", listed_max=DECISIONS_MAX, **narrowed)
    gangs = reading.run("gangs", **scope.bound())
    contradictions = [
        row
        for row in reading.run("contradictions", codes=list(CONTRADICTIONS))
        if subjects is None or row["subject"] in subjects or (not confined and _is_of_queue(row["subject"], scope))
    ]
    figures = [
        *_counted(preemptions, evictions, refusals, requests_count, evidence),
        *_standing(gangs, outcomes, contradictions, evidence),
    ]
    tables = [
        Table("preemptions", _PREEMPTIONS, [_preemption(row, confined) for row in preemptions]),
        Table("refusals", _REFUSALS, [_refusal(row, confined) for row in refusals]),
        Table("gangs", _GANGS, [_gang(row) for row in gangs]),
        Table(
            "evictions", (*scope.columns(), *_EVICTIONS), [(*scope.group(row), *_eviction(row)) for row in evictions]
        ),
        Table("outcomes", (*scope.columns(), *_OUTCOMES), [(*scope.group(row), *_outcome(row)) for row in outcomes]),
        Table("decisions", _DECISIONS, [_decision(row, confined) for row in decisions]),
        Table("contradictions", _CONTRADICTIONS, [_contradiction(row, confined) for row in contradictions]),
    ]
    return CasePart(figures, tables, _blind_spots(decisions, evidence))


def evidence_lines(reading: Reading) -> tuple[str, ...]:
    """One line per source of words that no listing tells of, as ``grounds.source_lines`` has of the others."""
    return tuple(
        _("{kind} ({cluster}): from {first} to {last} (stamped)").format(
            kind={"audit": "audit_log audit", "queues": "kube_api queues", "metrics": "queue_metrics metrics"}[
                row["kind"]
            ],
            cluster=row["cluster"],
            first=format_instant(row["first_us"]),
            last=format_instant(row["last_us"]),
        )
        for row in reading.run("evidence_lines")
    )


def _counted(
    preemptions: Sequence[Record],
    evictions: Sequence[Record],
    refusals: Sequence[Record],
    requests_count: int,
    evidence: _Evidence,
) -> list[Figure]:
    asked = {(row["cluster"], row["namespace"], row["demand_key"]) for row in refusals if row["is_demand"]}
    unborn = {
        (row["cluster"], row["namespace"], row["demand_key"])
        for row in refusals
        if row["is_demand"] and row["is_unborn"]
    }
    by_quota = {(row["cluster"], row["namespace"], row["demand_key"]) for row in refusals if row["is_of_cards"]}
    ratio: Value = Unknown(
        _("no audit log and no events were read: what was refused before it came to be left no other trace")
    )
    if evidence.spans.keys() & {"audit", "events"} and requests_count + len(unborn):
        ratio = Fraction(len(asked), requests_count + len(unborn))
    of_words = ("audit", "events")
    values: dict[str, tuple[Value, float | Unknown]] = {
        "preemptions_count": (evidence.count(len(preemptions), *of_words, "gangs"), evidence.coverage(*of_words)),
        "evictions_count": (
            evidence.count(sum(row["evictions_count"] for row in evictions), *of_words, "gangs"),
            evidence.coverage(*of_words, "gangs") if "gangs" not in evidence.spans else 1.0,
        ),
        "refusals_count": (evidence.count(len(asked), *of_words), evidence.coverage(*of_words)),
        "quota_refused_count": (evidence.count(len(by_quota), *of_words), evidence.coverage(*of_words)),
        "refusal_ratio": (ratio, evidence.coverage(*of_words)),
    }
    return [Figure(name, value, *METHODS[name], coverage) for name, (value, coverage) in values.items()]


def _standing(
    gangs: Sequence[Record], outcomes: Sequence[Record], contradictions: Sequence[Record], evidence: _Evidence
) -> list[Figure]:
    incomplete = [row for row in gangs if row["state"] == "incomplete"]
    idle = [row["held_milli"] for row in incomplete]
    succeeded, failed = (sum(row[f"{name}_count"] for row in outcomes) for name in ("succeeded", "failed"))
    ended = succeeded + failed
    unread: Value = Unknown(_("no object of Kueue or Volcano was read"))
    read = "gangs" in evidence.spans
    held: Value = Fraction(sum(milli for milli in idle if milli is not None), _GPU)
    if None in idle:
        held = Unknown(_("of some of them it is not known how many cards they hold"))
    values: dict[str, Value] = {
        "gangs_incomplete_count": len(incomplete) if read else unread,
        "gangs_incomplete_idle_gpus": held if read else unread,
        "requests_admitted_unschedulable": len(gangs) - len(incomplete) if read else unread,
        "requests_success_ratio": Fraction(succeeded, ended)
        if ended
        else Unknown(_("no request is known to have ended")),
        "contradictions_count": len(contradictions),
    }
    return [Figure(name, value, *METHODS[name], _whole(value)) for name, value in values.items()]


def _whole(value: Value) -> float | Unknown:
    return value if isinstance(value, Unknown) else 1.0


def _blind_spots(decisions: Sequence[Record], evidence: _Evidence) -> list[str]:
    spots = []
    if decisions and decisions[0]["rows_count"] > len(decisions):
        spots.append(
            _("{count} rarer decisions are not listed").format(count=decisions[0]["rows_count"] - len(decisions))
        )
    unread: Mapping[str, Callable[[], str]] = {
        "audit": lambda: _(
            "no audit log was read: who asked, and what was refused before it came to be, is known from events alone"
        ),
        "events": lambda: _("no events were read: of decisions only the last ones are known, from the objects"),
    }
    spots += [say() for kind, say in unread.items() if kind not in evidence.spans]
    return spots


def _gpus(milli: int | None, reason: Callable[[], str]) -> Value:
    return Unknown(reason()) if milli is None else Fraction(milli, _GPU)


def _said(instant: Instant | None) -> Value:
    return None if instant is None else format_instant(instant)


def _preemption(row: Record, confined: bool) -> Sequence[Value]:
    conflict = row["preemptor_uids_count"] > 1
    hidden = confined and row["preemptor_tenant"] != row["victim_tenant"]
    side = [row[f"preemptor_{name}"] for name in ("namespace", "name", "uid", "queue", "priority")]
    preemptor: list[Value] = [Unknown(_("it is another tenant's"))] * len(side) if hidden else side
    return (
        format_instant(row["at_us"]),
        row["time_basis"],
        row["decided_by"],
        row["cause"],
        row["victim_namespace"],
        row["victim_name"],
        row["victim_queue"],
        row["victim_priority"],
        _gpus(row["victim_gpu_milli"], gpus_not_told),
        *preemptor,
        "preemptor_uid_conflict" if conflict else None,
        row["evidence"],
        row["words_count"],
        row["cluster"],
    )


def _refusal(row: Record, confined: bool) -> Sequence[Value]:
    amounts = (row[f"{name}_milli"] for name in ("asked", "used", "limit"))
    return (
        row["refused_by"],
        row["verb"],
        row["namespace"],
        row["tenant"],
        row["demand_key"],
        row["asked_by"],
        row["rule"],
        row["resource"],
        *(None if milli is None else Fraction(milli, _GPU) for milli in amounts),
        format_instant(row["first_us"]),
        format_instant(row["last_us"]),
        row["times"],
        None if confined else row["message"],
        row["cluster"],
    )


def _eviction(row: Record) -> Sequence[Value]:
    return (
        row["reason"],
        row["cause"],
        row["requests_count"],
        row["evictions_count"],
        row["basis"],
        _said(row["last_us"]),
    )


def _outcome(row: Record) -> Sequence[Value]:
    ended = row["succeeded_count"] + row["failed_count"]
    counts = (
        row[f"{name}_count"]
        for name in (
            "succeeded",
            "failed",
            "preempted",
            "excluded",
            "otherwise",
            "pending",
            "degraded",
            "living",
            "not_told",
        )
    )
    return (row["scheduler"], *counts, Fraction(row["succeeded_count"], ended) if ended else None)


def _decision(row: Record, confined: bool) -> Sequence[Value]:
    rule = rule_told(row["rule"], confined)
    hidden = rule is None and row["rule"] is not None
    told: Value = Unknown(_("it is free text, which may name others")) if hidden else rule
    return row["verdict"], row["cause"], told, row["requests_count"], row["times"]


def _gang(row: Record) -> Sequence[Value]:
    incomplete, since = row["state"] == "incomplete", row["since_us"]
    age: Value = (
        Unknown(_("since when is not known")) if since is None else Fraction(row["known_to_us"] - since, 1_000_000)
    )
    idle = _gpus(row["held_milli"], lambda: _("how many cards it holds is not known")) if incomplete else Fraction(0)
    return (
        row["state"],
        row["namespace"],
        row["name"],
        row["queue"],
        row["tenant"],
        row["scheduler"],
        row["running_count"],
        row["least_count"],
        idle,
        _gpus(row["gpu_milli"], gpus_not_told),
        _said(since),
        age,
        row["cause"],
        row["basis"],
        row["cluster"],
    )


def _is_of_queue(subject: str, scope: DemandScope) -> bool:
    """Whether a finding is about a queue that is asked about: ``clusterqueue NAME``, ``queue NAME/FLAVOR/RESOURCE``."""
    kind, _blank, name = subject.replace("cluster queue", "clusterqueue", 1).partition(" ")
    return kind in ("clusterqueue", "queue") and name.partition("/")[0] in scope.wanted.get("queue", ())


def _contradiction(row: Record, confined: bool) -> Sequence[Value]:
    message = finding_told(row["subject"], row["message"]) if confined else row["message"]
    return row["code"], row["severity"], row["subject"], message
