"""An import's report as lines of text and as JSON."""

from __future__ import annotations

from typing import Any

from steelyard.answers.contract import Column, Table
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import format_instant
from steelyard.surfaces.shared.ports import ImportReport
from steelyard.surfaces.shared.tables import Line, lay_out

_FILES = (
    Column("file"),
    Column("kind"),
    Column("status"),
    Column("facts", "1"),
    Column("new", "1"),
    Column("refused", "1"),
    Column("message"),
)


def render_import(report: ImportReport, width: int | None, rows_max: int | None = None) -> list[Line]:
    """What became of each file, what was found, and as of when."""
    rows = [(f.path, f.kind, f.status, f.facts_count, f.new_count, f.refused_count, f.message) for f in report.files]
    lines = lay_out(Table(_("files"), _FILES, rows), width, rows_max)
    if report.findings_by_code:
        found = [(code, count) for code, count in sorted(report.findings_by_code.items())]
        columns = (Column("code"), Column("count", "1"))
        lines += [Line("row", ""), *lay_out(Table(_("findings about the data"), columns, found), width, rows_max)]
    as_of = _("not known") if report.as_of is None else f"{format_instant(report.as_of)} ({report.as_of_basis})"
    text = _("as of {as_of}; {count} ledger rows posted")
    return [*lines, Line("row", ""), Line("row", text.format(as_of=as_of, count=f"{report.postings_count:,}"))]


def import_json(report: ImportReport) -> dict[str, Any]:
    """The documented JSON form of an import's report."""
    return {
        "files": [
            {
                "path": f.path,
                "kind": f.kind,
                "status": f.status,
                "facts_count": f.facts_count,
                "new_count": f.new_count,
                "refused_count": f.refused_count,
                "message": f.message,
            }
            for f in report.files
        ],
        "as_of": None if report.as_of is None else format_instant(report.as_of),
        "as_of_basis": report.as_of_basis,
        "findings_by_code": dict(report.findings_by_code),
        "postings_count": report.postings_count,
        "asks": list(report.asks),
    }
