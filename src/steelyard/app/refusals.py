"""What becomes a finding instead of an end: objects that cannot be read, and readers that fail on one."""

from __future__ import annotations

from typing import Final

from steelyard.facts.finding import Finding
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.shared.context import ReadContext

SOURCE: Final = "import"
"""The source of findings that the importer itself makes."""

SHOWN_MAX: Final = 200
"""So many findings of one code are written per file; the rest is one finding with their number."""

READER_FAULTS: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a reader may raise where it trusted its input too much. InvariantError is not among them: it is never caught."""


def malformed(ctx: ReadContext, error: SourceMalformed) -> Finding:
    """The finding of a line, document or object that cannot be read."""
    return ctx.finding(
        SOURCE, "source_malformed", f"file {ctx.file}", error.message, line=error.line or None, excerpt=error.excerpt
    )


def fault(error: Exception, ctx: ReadContext, subject: str | None = None) -> Finding:
    """The finding of a reader that failed, with the place in our code, so that everything else is still read."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_filename.rsplit('steelyard', 1)[-1]}:{place.tb_lineno}" if place else ""
    return ctx.finding(
        SOURCE,
        "reader_failed",
        subject or f"file {ctx.file}",
        f"a reader failed here ({type(error).__name__}): please report it",
        severity="error",
        evidence={"error": type(error).__name__, "where": where},
    )


def more(ctx: ReadContext, code: str, count: int) -> Finding:
    """The finding that stands for those beyond ``SHOWN_MAX``."""
    return ctx.finding(
        SOURCE,
        "more_findings",
        f"file {ctx.file}: {code}",
        f"{count - SHOWN_MAX} more findings {code} in this file",
        evidence={"code": code, "count": count, "shown": SHOWN_MAX},
    )
