"""``diagnose``: from a ``Survey`` to the doctor's report. Pure: the same survey gives the same report, down to the order of its lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from steelyard.app.doctor.capabilities import LIVE, NOT_IN_THIS_VERSION, STORED, judge_levels
from steelyard.app.doctor.checks import CHECKS, Found
from steelyard.app.doctor.questions import judge_questions
from steelyard.app.doctor.remedies import REMEDIES, WAYS, Remedy
from steelyard.app.doctor.survey import ClusterSeen, Survey
from steelyard.primitives.i18n import _
from steelyard.surfaces.shared.doctor_ports import (
    LEVELS,
    SEVERITIES,
    CapabilityReport,
    DoctorReport,
    LevelReport,
    NextAction,
    SourceReport,
    Symptom,
)

FAILED: Final = "failed"
PARTIAL: Final = "partial"
OK: Final = "ok"
SAID_BY_FIELDS: Final = frozenset({"profiling", "card_condition"})
"""Capabilities that the missing fields of an exporter say more exactly."""


def diagnose(survey: Survey, not_tested: Sequence[str] = ()) -> DoctorReport:
    """Everything that the checks, the levels and the questions say of a survey."""
    symptoms = sorted(
        _symptoms(survey),
        key=lambda each: (SEVERITIES.index(each.severity), each.level, each.id, each.subject, each.message),
    )
    levels = [_explained(level) for level in judge_levels(survey)]
    capabilities = [each for level in levels for each in level.capabilities]
    reached = [level.level for level in levels if level.reached]
    return DoctorReport(
        checked_at=survey.now,
        level=reached[-1] if reached else None,
        sources=sorted(_sources(survey), key=lambda each: each.name),
        symptoms=symptoms,
        levels=levels,
        questions=judge_questions(survey, capabilities),
        next_actions=_next_actions(symptoms, levels),
        not_tested=sorted(not_tested),
    )


def _symptoms(survey: Survey) -> Iterator[Symptom]:
    for name, check in CHECKS.items():
        remedy = REMEDIES[name]
        for found in check(survey):
            yield _symptom(name, remedy, found)


def _symptom(name: str, remedy: Remedy, found: Found) -> Symptom:
    lines = list(remedy.lines(found))
    return Symptom(
        name,
        remedy.severity,
        remedy.level,
        found.subject,
        found.message,
        remedy.text(),
        remedy.paste_into() if lines else "",
        lines,
    )


def _sources(survey: Survey) -> Iterator[SourceReport]:
    for cluster in survey.clusters:
        yield _cluster(cluster)
    for job in survey.scrapes:
        failed = job.targets_count if job.error is not None else len(job.failed)
        status = FAILED if failed >= job.targets_count else PARTIAL if failed else OK
        seen: dict[str, Any] = {
            "targets_count": job.targets_count,
            "failed_count": failed,
            "families": sorted(job.metrics.families),
            "dcgm_fields": sorted(job.metrics.fields),
            "devices_count": len(job.metrics.devices),
        }
        yield SourceReport(f"scrape/{job.name}", status, job.error, seen)
    for each in survey.prometheus:
        seen = {
            "version": each.version,
            "retention": each.retention,
            "families": sorted(each.metrics.families) if each.names_known else None,
            "dcgm_fields": sorted(each.metrics.fields),
            "devices_count": len(each.metrics.devices),
        }
        yield SourceReport(f"prometheus/{each.name}", FAILED if each.error is not None else OK, each.error, seen)
    for log in survey.audit_logs:
        seen = {"stages": sorted(log.stages), "levels": sorted(log.levels)}
        yield SourceReport(f"audit_log/{log.name}", FAILED if log.error is not None else OK, log.error, seen)
    for name in survey.unanswered:
        yield SourceReport(name, FAILED, _("no whole answer within the deadline"))
    for name, fault in survey.faults.items():
        yield SourceReport(name, FAILED, _("a mistake of this program ({fault})").format(fault=fault))
    stored = survey.stored
    yield SourceReport(
        "data",
        FAILED if stored.error is not None else OK,
        stored.error,
        {
            "has_data": stored.has_data,
            "posted": stored.posted,
            "is_demo": survey.directory.is_demo,
            "sources": sorted({source for _table, source in stored.rows}),
        },
    )


def _cluster(cluster: ClusterSeen) -> SourceReport:
    states = {word: kind.state for word, kind in sorted(cluster.kinds.items())}
    bad = [word for word, state in states.items() if state in ("forbidden", FAILED)]
    is_failed = cluster.error is not None or states.get("pods") != OK
    systems: Mapping[str, bool | None] = {
        "hami": cluster.hami,
        "kueue": cluster.has("clusterqueues.kueue.x-k8s.io"),
        "volcano": cluster.has("queues.scheduling.volcano.sh"),
        "dra": cluster.has("resourceslices.resource.k8s.io"),
    }
    seen = {"version": cluster.version, "kinds": states, **systems}
    return SourceReport(
        f"kubernetes/{cluster.name}", FAILED if is_failed else PARTIAL if bad else OK, cluster.error, seen
    )


def _next_actions(symptoms: Sequence[Symptom], levels: Sequence[LevelReport]) -> list[NextAction]:
    """What is broken first; then what the next level needs; then the rest, that which makes most questions better first."""
    found: dict[str, tuple[tuple[int, int, int, str], NextAction]] = {}
    for symptom in symptoms:
        if symptom.severity != "note" and symptom.id not in found:
            questions = REMEDIES[symptom.id].questions
            rank = 0 if symptom.severity == "broken" else 1 if symptom.severity == "warning" else 2
            text = f"{symptom.subject}: {symptom.message}"
            action = NextAction(symptom.id, symptom.level, questions, text)
            found[symptom.id] = ((rank, LEVELS.index(symptom.level), -len(questions), symptom.id), action)
    told = SAID_BY_FIELDS if "field_missing" in found else frozenset()
    for level in levels:
        for each in level.capabilities:
            if each.remedy and each.state != NOT_IN_THIS_VERSION and each.id not in told:
                rank = 2 if each.required else 3
                action = NextAction(f"enable/{each.id}", level.level, each.questions, f"{each.title}: {each.remedy}")
                found[action.id] = ((rank, LEVELS.index(level.level), -len(each.questions), action.id), action)
    return [action for _rank, action in sorted(found.values(), key=lambda item: item[0])]


def _explained(level: LevelReport) -> LevelReport:
    """The same with the way to what is wanting."""
    return replace(
        level, capabilities=[_with_way(each) if _is_wanting(each, level) else each for each in level.capabilities]
    )


def _with_way(capability: CapabilityReport) -> CapabilityReport:
    way = WAYS[capability.id]
    return replace(
        capability, remedy=way.text(), paste_into=way.paste_into() if way.lines else "", lines=list(way.lines)
    )


def _is_wanting(capability: CapabilityReport, level: LevelReport) -> bool:
    """It is missing, or comes only from files at a level that is about what comes by itself."""
    return capability.state != LIVE and not (capability.state == STORED and level.level == "L0")
