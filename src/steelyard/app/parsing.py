"""From a file to its facts in columns: read, detect, give to the readers, and keep what came of it until the as-of instant is known.

Called by the importer, once per file; nothing is stored here. The trick to know: facts become Arrow tables as soon as their file
is read, so a big import holds columns, not Python objects.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

from steelyard.app.declaring import DeclaredFile, read_declared
from steelyard.app.detect import (
    BINARY,
    HEAD_CHARACTERS,
    JSON,
    KINDS,
    Detected,
    Kind,
    detect_json,
    detect_text,
    looks_like_json,
    readable_kinds,
    smi_form,
)
from steelyard.app.json_documents import documents_of_lines, is_lines, parse
from steelyard.app.kubernetes_objects import KubernetesObjects, Later
from steelyard.app.reading import Content, FileRefused, InputFile, is_binary, to_text, to_utf8
from steelyard.app.refusals import SHOWN_MAX, SOURCE, malformed, more
from steelyard.facts.base import Fact
from steelyard.facts.bill_line import BillLine
from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.service_use import ServiceUse
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.unit import Unit
from steelyard.primitives.errors import InvariantError, SourceMalformed
from steelyard.primitives.i18n import ngettext
from steelyard.primitives.instant import DAY_US, Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_directory import DeviceDirectory
from steelyard.store.columns import Stamps, by_class, fitting, stamps_of
from steelyard.surfaces.shared.money_ports import DECLARED_KINDS, DeclaredKind

DEADLINES: Final = frozenset(
    {"valid_from_at", "valid_to_at", "warranty_to_at", "purchased_at", "deletion_at", "requeue_at"}
)
"""Instant columns that are agreed or planned, not seen: they say nothing about when a dump was made."""

UNDATED: Final = frozenset({ServiceUse, BillLine})
"""Facts of periods, which end beyond what a dump shows: they say nothing about when one was made either."""

FUTURE_US: Final = DAY_US
"""A stamp later than this after the file's own time is a broken clock, not the snapshot's instant."""

UNREADABLE: Final = "unknown"
"""The kind of a file whose kind was not found."""

NO_ROWS: Final = "no_rows"
"""The code of a table's finding that it has a header alone."""

TABLES: Final = frozenset({"openb", "openb_nodes", "helios", "inventory", "holdings", "service_use", "bill"})
SMI_TABLES: Final = frozenset({"smi_query_gpu", "smi_compute_apps", "smi_accounted_apps"})
"""Kinds of file, and forms of nvidia-smi, that are a header with rows below it."""

_SAID: Final = re.compile(r"^[ \t]*[^#\s]", re.MULTILINE)
"""The beginning of a line that is neither blank nor a comment."""

PARQUET: Final = b"PAR1"
"""How a Parquet file begins."""

_ROWS_AT_ONCE: Final = 200_000


@dataclass(slots=True)
class ParsedFile:
    """What one file yielded. ``tables``: fact class -> its rows in columns, AT_OBSERVATION still in them. ``latest``: its latest plausible stamp.
    ``first_trouble``: the first line that could not be read, or that there are none to read. ``declared``: what it declares,
    to be numbered when it is stored."""

    file: InputFile
    kind: str = UNREADABLE
    content_bytes: int = 0
    sha256: str | None = None
    modified_at: Instant | None = None
    tables: dict[type[Fact], list[Any]] = field(default_factory=dict)
    facts_count: int = 0
    refused_count: int = 0
    statuses_count: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    first_finding: str | None = None
    first_trouble: str | None = None
    latest: Instant | None = None
    declared: DeclaredFile | None = None
    later: Later = field(default_factory=Later)

    @property
    def usable_count(self) -> int:
        """Facts that are not findings."""
        return self.facts_count - self.findings.total()

    @property
    def told_count(self) -> int:
        """Of those, the ones that tell more than that the source was read."""
        return self.usable_count - self.statuses_count

    def add(self, facts: Iterable[Fact], ctx: ReadContext) -> None:
        """Take facts in, in columns. Facts with values that no column holds become findings."""
        misfits: list[Fact] = []
        source = iter(facts)
        while rows := by_class(islice(source, _ROWS_AT_ONCE)):
            for fact, group in rows.items():
                table, refused = fitting(fact, group)
                misfits.extend(refused)
                self._take(fact, table)
                if issubclass(fact, Finding):
                    self._count([row for row in group if isinstance(row, Finding)])
        if misfits:
            self.add(_misfit_findings(misfits, ctx), ctx)

    def _take(self, fact: type[Fact], table: Any) -> None:
        if table.num_rows:
            self.tables.setdefault(fact, []).append(table)
            self.facts_count += table.num_rows
            self.statuses_count += table.num_rows if fact is SourceStatus else 0

    def _count(self, findings: list[Finding]) -> None:
        self.findings.update(finding.code for finding in findings)
        self.refused_count += sum(finding.code == "source_malformed" for finding in findings)
        if self.first_finding is None and findings:
            self.first_finding = _told(findings[0])
        if self.first_trouble is None:
            troubles = (each for each in findings if each.code == NO_ROWS or (each.line and each.severity != "info"))
            self.first_trouble = next(map(_told, troubles), None)

    def find_latest(self, ctx: ReadContext) -> None:
        """Set ``latest``; stamps beyond the file's own time by more than a day are one finding and count for nothing."""
        if self.modified_at is None:
            return
        found = [
            stamps_of(fact, table, self.modified_at + FUTURE_US, DEADLINES)
            for fact, tables in self.tables.items()
            if fact not in UNDATED
            for table in tables
        ]
        self.latest = max((stamps.latest for stamps in found if stamps.latest is not None), default=None)
        if any(stamps.beyond_count for stamps in found):
            self.add([_future_finding(found, ctx)], ctx)


def _told(finding: Finding) -> str:
    """A finding as a person is told of it beside its file."""
    return finding.message if finding.line is None else f"line {finding.line}: {finding.message}"


def _future_finding(found: list[Stamps], ctx: ReadContext) -> Finding:
    count = sum(stamps.beyond_count for stamps in found)
    return ctx.finding(
        SOURCE,
        "stamp_in_future",
        f"file {ctx.file}",
        ngettext(
            "{count} stamp lies more than a day after the file was written: it does not date the snapshot",
            "{count} stamps lie more than a day after the file was written: they do not date the snapshot",
            count,
        ).format(count=count),
        evidence={"count": count, "latest_us": max(s.beyond_latest for s in found if s.beyond_latest is not None)},
    )


def _misfit_findings(misfits: list[Fact], ctx: ReadContext) -> Iterator[Finding]:
    for fact in misfits[:SHOWN_MAX]:
        if isinstance(fact, Finding):
            raise InvariantError(f"a finding that no column holds: {fact.code}")
        key = fact.natural_key.encode("utf-8", "replace").decode()[:200]
        yield ctx.finding(
            SOURCE,
            "value_out_of_range",
            f"{fact.TABLE} {key}",
            "a value that cannot be kept: a number beyond 64 bits, text that is no Unicode, or a time outside the years 1 to 9999",
        )
    if len(misfits) > SHOWN_MAX:
        yield more(ctx, "value_out_of_range", len(misfits))


_PLACING: Final = (Device, Unit, ProcessSample)


@dataclass(slots=True)
class Batch:
    """What the files of one import share: the Kubernetes objects to be seen together, and which card an index means."""

    objects: KubernetesObjects
    placed: list[Fact] = field(default_factory=list)
    directory: DeviceDirectory | None = None

    def note(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Hand the facts on and remember those that tell which card stands where."""
        for fact in facts:
            if isinstance(fact, _PLACING) and (not isinstance(fact, ProcessSample) or fact.gi is not None):
                self.placed.append(fact)
            yield fact

    def the_directory(self) -> DeviceDirectory:
        """The cards of all files that were read first."""
        if self.directory is None:
            from steelyard.sources.shared.device_directory import directory_of

            self.directory = directory_of(self.placed)
        return self.directory


def detect(content: Content, forced: Kind | None) -> Detected:
    """The kind of a file by its head; JSON is only told apart from text (``UNDECIDED``). Raises FileRefused where it is no known kind."""
    head = to_text(content.data[: 4 * HEAD_CHARACTERS])[0][:HEAD_CHARACTERS]
    if forced is not None and not (forced.name == "bill" and content.data.startswith(PARQUET)):
        form = smi_form(head) if forced.name == "nvidia_smi" else None
        if forced.name == "nvidia_smi" and form is None:
            raise FileRefused("unrecognised_file", "expected an output of nvidia-smi, found none of its forms")
        return Detected(forced, form, head if form is not None else None)
    if content.data.startswith(PARQUET):
        return Detected(KINDS["bill_parquet"])
    if is_binary(content.data[:4096]):
        raise FileRefused("binary_file", "expected text or JSON, found binary data")
    if looks_like_json(head):
        return Detected(UNDECIDED_BY_PLACE if _may_name_cards_by_index(head) else UNDECIDED)
    detected = detect_text(head)
    if detected is None:
        raise FileRefused(
            "unrecognised_file",
            f"no mark of any kind of file that can be imported; name its KIND if you know it, one of {readable_kinds()}",
        )
    return detected


UNDECIDED: Final = Kind(UNREADABLE, JSON)
"""JSON whose kind its parse will tell."""

UNDECIDED_BY_PLACE: Final = Kind(UNREADABLE, JSON, by_place=True)
"""The same, by its beginning an answer of a kubelet, which may name cards by their index (``nvidia0/vgpu1``)."""


def _may_name_cards_by_index(head: str) -> bool:
    from steelyard.sources.pod_resources import sniff

    return sniff(head.encode("utf-8", "replace")) is not None


def read_file(content: Content, detected: Detected, into: ParsedFile, ctx: ReadContext, batch: Batch) -> Iterator[Fact]:
    """The facts of a file; sets ``into.kind``. Raises FileRefused."""
    into.kind = detected.kind.name
    if detected.kind.shape == JSON:
        return _read_json(to_utf8(content.data), detected.kind, into, ctx, batch)
    _refuse_without_reader(detected.kind)
    declared = next((kind for kind in DECLARED_KINDS if kind == detected.kind.name), None)
    if declared is not None:
        return _read_declared(content, declared, into, ctx)
    if detected.kind.shape == BINARY:
        from steelyard.sources.money import read_bill_parquet

        return read_bill_parquet(content.data, content.sha256, ctx)
    return _read_text(content, detected, ctx, batch)


def _read_declared(content: Content, kind: DeclaredKind, into: ParsedFile, ctx: ReadContext) -> Iterator[Finding]:
    """Keep what a file declares, to be numbered when it is stored; or a finding for each line that is refused, and then nothing of it is kept."""
    text, replaced_count = to_text(content.data)
    if replaced_count:
        yield _invalid_utf8(ctx)
        yield _nothing_declared(ctx, 1)
        return
    file, kept, count = read_declared(kind, text, content.sha256, ctx)
    if not count:
        into.declared = file
        return
    for refusal in kept:
        yield malformed(ctx, refusal)
    yield _nothing_declared(ctx, count)


def _nothing_declared(ctx: ReadContext, count: int) -> Finding:
    return ctx.finding(
        SOURCE,
        "nothing_declared",
        f"file {ctx.file}",
        "a file that declares something is taken whole or not at all: nothing of it holds",
        severity="error",
        evidence={"refused_count": count},
    )


def _refuse_without_reader(kind: Kind) -> None:
    if kind.advice is not None:
        raise FileRefused("kind_not_supported", f"recognised as {kind.name}: {kind.advice}")


def _read_json(data: bytes, kind: Kind, into: ParsedFile, ctx: ReadContext, batch: Batch) -> Iterator[Fact]:
    limit, depth_max = ctx.settings.line_bytes_max, ctx.settings.json_depth_max
    lines = is_lines(data, limit)
    replaced = False
    if lines:
        first = next(
            (each for _n, each in documents_of_lines(data, limit, depth_max) if not isinstance(each, SourceMalformed)),
            None,
        )
        documents = documents_of_lines(data, limit, depth_max)
    else:
        first, replaced = parse(data, depth_max)
        documents = iter([(0, first)])
    found = kind if kind.name != UNREADABLE else detect_json(first)
    if found is None:
        raise FileRefused(
            "unrecognised_file",
            f"JSON of a shape that no reader knows; name its KIND if you know it, one of {readable_kinds()}",
        )
    into.kind = found.name
    _refuse_without_reader(found)
    facts = _of_documents(found, documents, into, ctx, batch, listing=not lines)
    return chain([_invalid_utf8(ctx)], facts) if replaced else facts


def _of_documents(
    kind: Kind, documents: Iterator[tuple[int, Any]], into: ParsedFile, ctx: ReadContext, batch: Batch, *, listing: bool
) -> Iterator[Fact]:
    if kind.name == "kubernetes":
        return batch.note(batch.objects.read(documents, ctx, into.later, listing=listing))
    if kind.name == "audit_log":
        from steelyard.app.audit import read_audit

        return read_audit(documents, ctx)
    if kind.name == "service_log":
        from steelyard.sources.money import read_service_log

        return read_service_log(documents, ctx)
    return _pod_resources(documents, ctx, batch)


def _invalid_utf8(ctx: ReadContext) -> Finding:
    return ctx.finding(
        SOURCE,
        "invalid_utf8",
        f"file {ctx.file}",
        "bytes that are no UTF-8, or halves of a character, were replaced by U+FFFD",
    )


def _pod_resources(documents: Iterable[tuple[int, Any]], ctx: ReadContext, batch: Batch) -> Iterator[Fact]:
    from steelyard.sources.pod_resources import read_pod_resources

    for line, document in documents:
        if isinstance(document, SourceMalformed):
            yield malformed(ctx, document)
            continue
        try:
            yield from batch.note(read_pod_resources(document, ctx, batch.the_directory()))
        except SourceMalformed as error:
            yield malformed(ctx, SourceMalformed(error.message, error.line or line, error.excerpt))


def _is_header_alone(text: str) -> bool:
    """Whether one line says something and no further does: a table without rows."""
    said = _SAID.finditer(text)
    return next(said, None) is not None and next(said, None) is None


def _no_rows(detected: Detected, ctx: ReadContext) -> Finding:
    """A table that has a header and nothing below it. nvidia-smi says so of a card without processes; a list that is empty is a slip."""
    form = detected.smi_form
    text = "no rows: a header and nothing below it"
    text += "; no process was listed" if form == "smi_compute_apps" else "; nothing was taken from it"
    severity = "info" if form is not None else "warning"
    return ctx.finding(SOURCE, NO_ROWS, f"file {ctx.file}", text, severity=severity)


def _read_text(content: Content, detected: Detected, ctx: ReadContext, batch: Batch) -> Iterator[Fact]:
    """The facts of a text file of a known kind."""
    kind = detected.kind
    text, replaced_count = to_text(content.data)
    if replaced_count:
        yield _invalid_utf8(ctx)
    if (kind.name in TABLES or detected.smi_form in SMI_TABLES) and _is_header_alone(text):
        yield _no_rows(detected, ctx)
    if detected.is_lines:
        text, too_long = _without_long_lines(text, ctx)
        yield from too_long
    if kind.name == "nvidia_smi":
        from steelyard.sources.nvidia_smi import read_smi

        yield from batch.note(
            read_smi(detected.smi_form or "", text, ctx, batch.the_directory() if detected.by_place else None)
        )
    elif kind.name == "kernel_log":
        from steelyard.sources.kernel_log import read_kernel_log

        yield from read_kernel_log(text, ctx, batch.the_directory())
    elif kind.name in ("openb", "openb_nodes"):
        from steelyard.sources.openb import read_openb_nodes, read_openb_pods

        yield from (read_openb_pods if kind.name == "openb" else read_openb_nodes)(text, ctx)
    elif kind.name == "helios":
        from steelyard.sources.helios import read_helios

        yield from read_helios(text, ctx)
    elif kind.name == "metrics_text":
        from steelyard.app.metric_readers import read_metrics_text

        yield from batch.note(read_metrics_text(text, ctx))
    elif kind.name == "service_use":
        from steelyard.sources.money import read_service_use

        yield from read_service_use(text, ctx)
    elif kind.name == "bill":
        from steelyard.sources.money import read_bill_csv

        yield from read_bill_csv(text, content.sha256, ctx)
    elif kind.name in ("inventory", "holdings"):
        from steelyard.sources.site_csv import read_holdings, read_inventory

        yield from (read_inventory if kind.name == "inventory" else read_holdings)(text, ctx)
    else:
        raise InvariantError(f"no reader is wired for {kind.name}")


def _without_long_lines(text: str, ctx: ReadContext) -> tuple[str, list[Finding]]:
    """The text with lines beyond the limit emptied (so that numbers stay), and a finding for each."""
    limit = ctx.settings.line_bytes_max
    if len(text) <= limit // 4:
        return text, []
    parts: list[str] = []
    findings: list[Finding] = []
    start = kept = number = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        number += 1
        if end - start > limit // 4 and len(text[start:end].encode("utf-8", "replace")) > limit:
            parts.append(text[kept:start])
            kept = end
            findings.append(
                ctx.finding(
                    SOURCE,
                    "source_malformed",
                    f"file {ctx.file}",
                    f"expected a line of at most {limit} bytes",
                    line=number,
                    excerpt=text[start : start + 200],
                )
            )
        start = end + 1
    return ("".join((*parts, text[kept:])), findings) if findings else (text, [])


@contextmanager
def quiet_collector() -> Iterator[None]:
    """No cyclic garbage collection while millions of parsed objects come and go: they form no cycles, and each pass would visit them all."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
