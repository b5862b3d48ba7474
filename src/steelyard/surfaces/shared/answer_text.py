"""An answer as lines of text: title, figures, tables, findings, blind spots, next actions, evidence and, if asked, the explanation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from steelyard.answers.contract import Answer, Column, Figure, FindingNote, Table
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import format_instant
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.shared.cells import number_text
from steelyard.surfaces.shared.printable import printable
from steelyard.surfaces.shared.tables import GAP, Line, lay_out, wrapped

_FINDINGS_SHOWN: Final = 8
_REASON_LEAST: Final = 20
"""Narrower than this no reason is written beside a name."""


def render_answer(answer: Answer, width: int | None, rows_max: int | None = None) -> list[Line]:
    """All lines of an answer; ``width`` and ``rows_max`` as in ``tables.lay_out``."""
    heading = f"{answer.question.upper()}  {printable(answer.title)}"
    lines = [Line("heading", text) for text in wrapped([heading], width, "")]
    lines += [*_when(answer, width), Line("row", ""), *_figures(answer, width)]
    for table in answer.tables:
        lines += [Line("row", ""), *lay_out(table, width, rows_max)]
    lines += _findings(answer, width)
    for title, texts in (
        (_("blind spots"), answer.blind_spots),
        (_("next"), answer.next_actions),
        (_("see for yourself"), [f"{item.how} ({item.what}; {item.where})" for item in answer.evidence]),
        (_("sources"), answer.sources),
    ):
        lines += _paragraph(title, [printable(text) for text in texts], width)
    return lines + _explanation(answer, width)


def _when(answer: Answer, width: int | None) -> list[Line]:
    parts = []
    if answer.window is not None:
        parts.append(_("window {window}").format(window=answer.window))
    elif answer.as_of is not None:
        parts.append(_("as of {instant}").format(instant=format_instant(answer.as_of)))
    if isinstance(answer.coverage, Unknown):
        parts.append(_("coverage unknown, because {reason}").format(reason=printable(answer.coverage.reason)))
    else:
        parts.append(_("coverage {percent} %").format(percent=number_text(answer.coverage * 100, "%")))
    return [Line("note", text) for text in wrapped([" · ".join(parts)], width, "")]


def _figures(answer: Answer, width: int | None) -> list[Line]:
    names = max((len(figure.name) for figure in answer.figures), default=0)
    numbers = [_figure_value(figure) for figure in answer.figures if not isinstance(figure.value, Unknown)]
    values = max(map(len, numbers), default=0)
    values_room = max(values + len(GAP) + len("MiB-h"), _REASON_LEAST if len(numbers) < len(answer.figures) else 0)
    narrow = width is not None and names + len(GAP) + values_room > width
    lines = []
    for figure in answer.figures:
        unknown = isinstance(figure.value, Unknown)
        text = _unknown_text(figure) if unknown else f"{_figure_value(figure):>{0 if narrow else values}}"
        if not unknown:
            text += ("" if figure.unit == "1" else f" {figure.unit}") + _partial(figure, answer)
        kind = "unknown" if unknown else "figure"
        if narrow:
            lines += [Line(kind, part) for part in wrapped([figure.name], width, "")]
            lines += [Line(kind, more) for more in wrapped([text], width, GAP)]
        else:
            first, *rest = wrapped([text], width and width - names - len(GAP), "") if unknown else [text]
            lines.append(Line(kind, f"{figure.name:<{names}}{GAP}{first}"))
            lines += [Line(kind, " " * (names + len(GAP)) + more) for more in rest]
    return lines


def _unknown_text(figure: Figure) -> str:
    reason = figure.value.reason if isinstance(figure.value, Unknown) else ""
    return _("unknown, because {reason}").format(reason=printable(reason))


def _figure_value(figure: Figure) -> str:
    return "-" if figure.value is None else number_text(figure.value, figure.unit)  # type: ignore[arg-type]  # an unknown value was told before


def _partial(figure: Figure, answer: Answer) -> str:
    """The figure's own coverage, where it is known and not the answer's."""
    if isinstance(figure.coverage, Unknown) or figure.coverage in (answer.coverage, 1.0):
        return ""
    return GAP + _("(coverage {percent} %)").format(percent=number_text(figure.coverage * 100, "%"))


def _findings(answer: Answer, width: int | None) -> list[Line]:
    notes = answer.findings
    if not notes:
        return []
    columns = (Column("severity"), Column("code"), Column("subject"), Column("message"))
    shown = _spread(notes)
    rows = [(note.severity, note.code, note.subject, note.message) for note in shown]
    lines = [Line("row", ""), *lay_out(Table(_("findings about the data"), columns, rows), width)]
    if len(shown) < len(notes):
        counts = Counter(note.code for note in notes)
        texts = [f"{code} {count}" for code, count in sorted(counts.items())]
        lines += [
            Line("note", text) for text in wrapped([_("in all: {counts}").format(counts=" · ".join(texts))], width, GAP)
        ]
    return lines


def _spread(notes: Sequence[FindingNote]) -> list[FindingNote]:
    """At most a handful, of each code the first, so that one frequent code does not hide the others."""
    listed = list(notes)
    if len(listed) <= _FINDINGS_SHOWN:
        return listed
    firsts: dict[str, FindingNote] = {}
    for note in listed:
        firsts.setdefault(note.code, note)
    return list(firsts.values())[:_FINDINGS_SHOWN]


def _paragraph(title: str, texts: list[str], width: int | None) -> list[Line]:
    if not texts:
        return []
    lines = [Line("row", ""), Line("title", title)]
    for text in texts:
        first, *rest = wrapped([text], width and width - len(GAP), "")
        lines += [Line("row", f"- {first}"), *(Line("row", GAP + more) for more in rest)]
    return lines


def _explanation(answer: Answer, width: int | None) -> list[Line]:
    if not answer.explain:
        return []
    named = [f"{item['name']} {item['version']}" for item in answer.definitions]
    lines = _paragraph(_("definitions and their versions"), [printable(name) for name in named], width)
    methods = [f"{figure.name}: {figure.method}" for figure in answer.figures]
    lines += _paragraph(_("how each figure is made"), [printable(method) for method in methods], width)
    for name, sql in answer.explain.items():
        lines += [Line("row", ""), Line("title", f"SQL {name}")]
        lines += [Line("row", GAP + printable(text)) for text in sql.splitlines()]
    return lines
