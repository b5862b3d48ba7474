"""Audit events on their three ways in, an imported file, a followed file and a webhook, to the one reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from steelyard.app.json_documents import RawList, item_of, parse
from steelyard.app.reading import FileRefused
from steelyard.app.refusals import READER_FAULTS
from steelyard.facts.base import Fact
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.audit_log import AuditReader
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.refusals import Refusals

SOURCE: Final = "audit_log"

Numbered = tuple[int, Any]
"""A line (0: not known) and what stands in it: an event, a list of them, or the SourceMalformed that it is."""


def read_audit(documents: Iterable[Numbered], ctx: ReadContext) -> Iterator[Fact]:
    """The facts of events and of lists of them; what cannot be read is a finding, in bounds, and stops nothing."""
    reader = AuditReader(ctx)
    refusals = Refusals(ctx, SOURCE)
    for line, document in documents:
        for event in _events(document):
            try:
                if isinstance(event, SourceMalformed):
                    raise event
                yield from reader.read(event, line)
            except SourceMalformed as error:
                yield from refusals.refuse(error.message, error.line or line, error.excerpt)
            except READER_FAULTS as error:
                yield from refusals.refuse(f"an event that cannot be read ({type(error).__name__})", line, "")
    yield from refusals.rest()
    yield from reader.rest()


def documents_of(lines: Iterable[bytes], ctx: ReadContext) -> Iterator[Numbered]:
    """Each line parsed, within the bound of nesting."""
    for line in lines:
        if line.strip():
            yield 0, parsed(line, ctx)


def parsed(data: bytes, ctx: ReadContext) -> Any:
    """The document in ``data``, or the SourceMalformed that it is."""
    try:
        return parse(data, ctx.settings.json_depth_max)[0]
    except FileRefused as error:
        return SourceMalformed(error.message, excerpt=data[:200].decode("utf-8", "replace"))
    except SourceMalformed as error:
        return error


def _events(document: Any) -> Iterator[Any]:
    if isinstance(document, RawList):
        for raw in document.items:
            try:
                yield item_of(raw)[0]
            except SourceMalformed as error:
                yield error
    elif isinstance(document, dict) and isinstance(document.get("items"), list):
        yield from document["items"]
    elif isinstance(document, list):
        yield from document
    else:
        yield document
