"""Answers and import reports read back from their JSON form, so that a command prints what a server found as if it had found it itself.

The inverse of ``Answer.to_json`` and ``import_json``. A value that was a Fraction comes back as the float it was written as; every
renderer prints the two alike.
"""

from __future__ import annotations

from typing import Any

from steelyard.answers.contract import Answer, Column, Evidence, Figure, FindingNote, Series, Table, Value
from steelyard.primitives.errors import SourceUnsupported
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Window, parse_instant
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.shared.ports import FileReport, ImportReport


def answer_of(found: Any) -> Answer:
    """The answer. Raises SourceUnsupported where the JSON has another form: a server of another version."""
    try:
        return _answer(found)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise other_form() from error


def report_of(found: Any) -> ImportReport:
    """The report of an import. Raises SourceUnsupported as ``answer_of`` does."""
    try:
        files = [FileReport(**{name: file[name] for name in FileReport.__slots__}) for file in found["files"]]
        as_of = found["as_of"]
        return ImportReport(
            files=files,
            as_of=None if as_of is None else parse_instant(as_of),
            as_of_basis=found["as_of_basis"],
            findings_by_code=dict(found["findings_by_code"]),
            postings_count=found["postings_count"],
            asks=tuple(str(words) for words in found.get("asks", ())),
        )
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise other_form() from error


def other_form() -> SourceUnsupported:
    """The error of a server of another version."""
    return SourceUnsupported(
        _(
            "the server of this directory answers in a form that this version does not know: run the same version of both"
        )
    )


def _answer(found: Any) -> Answer:
    return Answer(
        question=found["question"],
        title=found["title"],
        window=None if found["window"] is None else Window(*map(parse_instant, found["window"])),
        as_of=None if found["as_of"] is None else parse_instant(found["as_of"]),
        figures=[_figure(item) for item in found["figures"]],
        tables=[table_of(item) for item in found["tables"]],
        series=[
            Series(item["name"], item["unit"], [(parse_instant(at), _cell(cell)) for at, cell in item["points"]])
            for item in found["series"]
        ],
        definitions=[dict(item) for item in found["definitions"]],
        sources=list(found["sources"]),
        coverage=_coverage(found),
        blind_spots=list(found["blind_spots"]),
        findings=[FindingNote(f["code"], f["severity"], f["subject"], f["message"]) for f in found["findings"]],
        evidence=[Evidence(e["what"], e["where"], e["how"]) for e in found["evidence"]],
        next_actions=list(found["next_actions"]),
        explain=dict(found.get("explain", {})),
    )


def _figure(item: Any) -> Figure:
    value: Value = Unknown(item["unknown"]) if "unknown" in item else item["value"]
    return Figure(item["name"], value, item["unit"], item["method"], _coverage(item))


def table_of(item: Any) -> Table:
    """A table behind its JSON form."""
    columns = [Column(column["name"], column["unit"]) for column in item["columns"]]
    return Table(item["name"], columns, [[_cell(cell) for cell in row] for row in item["rows"]])


def _cell(cell: Any) -> Value:
    return Unknown(cell["unknown"]) if isinstance(cell, dict) else cell


def _coverage(item: Any) -> float | Unknown:
    reason = item.get("coverage_unknown")
    return Unknown(reason) if reason is not None else float(item["coverage"])
