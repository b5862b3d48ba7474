"""The doctor's report as lines of text: the level, the sources, what is wrong, what is missing at each level, the questions, what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from steelyard.answers.contract import Column, Table
from steelyard.primitives.i18n import _
from steelyard.surfaces.shared.doctor_ports import LEVELS, DoctorReport, Level, LevelReport, Symptom
from steelyard.surfaces.shared.printable import printable
from steelyard.surfaces.shared.tables import GAP, Line, lay_out, wrapped

_SOURCES = (Column("source"), Column("status"), Column("message"))
_QUESTIONS = (Column("question"), Column("title"), Column("answered"), Column("because"))


def up_to(report: DoctorReport, level: Level) -> DoctorReport:
    """Only what concerns the levels up to this one; what is broken stays whatever it concerns."""
    wanted = LEVELS[: LEVELS.index(level) + 1]
    return replace(
        report,
        symptoms=[each for each in report.symptoms if each.level in wanted or each.severity == "broken"],
        levels=[each for each in report.levels if each.level in wanted],
        next_actions=[each for each in report.next_actions if each.level in wanted],
    )


def render_doctor(report: DoctorReport, width: int | None, rows_max: int | None = None) -> list[Line]:
    """All of it."""
    level = report.level or _("none")
    lines = [Line("heading", _("level reached: {level}").format(level=level)), Line("row", "")]
    rows = [(each.name, each.status, each.message or _seen(each.seen)) for each in report.sources]
    lines += lay_out(Table(_("sources"), _SOURCES, rows), width, rows_max)
    for symptom in report.symptoms:
        lines += [Line("row", ""), *_symptom(symptom, width)]
    for each in report.levels:
        lines += [Line("row", ""), *_level(each, width)]
    answered = [(f"q{each.number}", each.title, each.state, each.reason or None) for each in report.questions]
    lines += [Line("row", ""), *lay_out(Table(_("questions"), _QUESTIONS, answered), width, rows_max)]
    lines += [Line("row", ""), Line("title", _("what to do next"))]
    for number, action in enumerate(report.next_actions, start=1):
        unlocks = ", ".join(f"Q{question}" for question in action.questions) or "-"
        lines += _folded(f"{number}. ", f"{action.text} [{action.level}; {unlocks}]", width)
    if not report.next_actions:
        lines.append(Line("row", GAP + _("nothing: all is well")))
    if report.not_tested:
        lines += [Line("row", ""), Line("title", _("not tested"))]
        for text in report.not_tested:
            lines += _folded("- ", text, width)
    return lines


def _seen(seen: object) -> str | None:
    """The short words of what a source shows."""
    if not isinstance(seen, dict):
        return None
    parts = []
    for name, value in sorted(seen.items()):
        if isinstance(value, list) and value:
            parts.append(f"{name} {' '.join(map(str, value))}")
        elif value is True:
            parts.append(name)
        elif isinstance(value, str | int) and not isinstance(value, bool):
            parts.append(f"{name} {value}")
    return "; ".join(parts) or None


def _symptom(symptom: Symptom, width: int | None) -> list[Line]:
    title = f"{symptom.severity}: {symptom.subject}: {symptom.message} [{symptom.id}]"
    lines = [Line("title", text) for text in wrapped([printable(title)], width, "")]
    return [*lines, *_way(symptom.remedy, symptom.paste_into, symptom.lines, width)]


def _level(level: LevelReport, width: int | None) -> list[Line]:
    state = _("reached") if level.reached else _("not reached")
    lines = [Line("title", f"{level.level}: {state}")]
    for each in level.capabilities:
        by = f" ({', '.join(each.by)})" if each.by else ""
        need = f", {_('required')}" if each.required else ""
        lines += _folded("- ", f"{each.title}: {each.state}{by}{need}", width)
        lines += _way(each.remedy, each.paste_into, each.lines, width)
    return lines


def _way(remedy: str, paste_into: str, pasted: Sequence[str], width: int | None) -> list[Line]:
    lines = [Line("row", text) for text in wrapped([remedy], width, GAP)] if remedy else []
    if pasted:
        lines.append(Line("note", GAP + _("into {place}:").format(place=paste_into)))
        lines += [Line("row", GAP + GAP + printable(text)) for text in pasted]
    return lines


def _folded(bullet: str, text: str, width: int | None) -> list[Line]:
    first, *rest = wrapped([printable(text)], None if width is None else width - len(bullet), "") or [""]
    return [Line("row", f"{bullet}{first}"), *(Line("row", " " * len(bullet) + more) for more in rest)]
