"""``FileImporter``: files into the store, each whole or not at all, then one posting of the ledgers.

All files of a command are read first, because the instant of a snapshot may stand in another file than its pods; then each file's facts are
dated (``app.dating`` says how) and appended, small files together. Importing the same bytes as of the same instant again adds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from steelyard.answers.askable import askable
from steelyard.app.asking import check_posted
from steelyard.app.dating import (
    DECLARED,
    FUTURE_US,
    INFERRED,
    INTERVAL_MAX_US,
    AsOf,
    as_of_command,
    as_of_files,
    disagreements,
)
from steelyard.app.declaring import Spec, intend, machine_user
from steelyard.app.demo_mark import refuse_in_demo
from steelyard.app.detect import KINDS
from steelyard.app.kubernetes_objects import KubernetesObjects, all_readers
from steelyard.app.parsing import (
    Batch,
    ParsedFile,
    detect,
    quiet_collector,
    read_file,
)
from steelyard.app.reading import FileRefused, InputFile, read_content
from steelyard.app.refusals import READER_FAULTS, SOURCE, fault, malformed
from steelyard.app.request_files import files_of
from steelyard.app.settings import Settings
from steelyard.facts.base import Fact
from steelyard.facts.import_file import ImportFile
from steelyard.primitives.clock import Clock, WallClock
from steelyard.primitives.errors import SourceMalformed, SourceUnsupported, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import AT_OBSERVATION, DAY_US, INSTANT_MAX, Instant, format_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.store import AppendResult, Store
from steelyard.store.columns import join, settle
from steelyard.surfaces.shared.money_ports import DECLARED_KINDS
from steelyard.surfaces.shared.ports import FileReport, ImportReport, ImportRequest, Progress

IMPORTED: Final = "imported"
UNCHANGED: Final = "unchanged"
REFUSED: Final = "refused"


FILES_AT_ONCE: Final = 200
FACTS_AT_ONCE: Final = 50_000
"""So many small files, with so many facts, go into one transaction: all of each file's facts or none, and each transaction costs."""


class FileImporter:
    """Implements ``ports.Importer`` for one data directory. ``post`` is called once after all files and returns how many postings it made.
    ``opened``: a store of that directory which the caller keeps open over many imports. ``as_one``: facts and postings are one transaction, so
    that whoever reads meanwhile never sees facts that the ledgers do not know yet. ``simulated``: the files are a demo's."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        post: Callable[[Store], int],
        clock: Clock | None = None,
        opened: Store | None = None,
        as_one: bool = False,
        simulated: bool = False,
    ) -> None:
        self._simulated = simulated
        self._opened = opened
        self._as_one = as_one
        self._directory = directory
        self._settings = settings
        self._read_settings = settings.to_read_settings()
        self._post = post
        self._clock = clock or WallClock()

    def import_paths(self, request: ImportRequest, progress: Progress) -> ImportReport:
        """Import; one bad file never stops the others.

        Raises UsageError where a path or kind does not exist, the declared instant or interval is none that could be meant, or the data
        directory holds a demo; StoreLocked where another process holds it. Then nothing was stored.
        """
        return self.import_files(files_of(request), request, progress)

    def import_files(self, files: Sequence[InputFile], request: ImportRequest, progress: Progress) -> ImportReport:
        """As ``import_paths``, for files that were found already; ``request`` tells the rest."""
        if not self._simulated:
            refuse_in_demo(self._directory)
            _check_request(request, self._clock.now())
        with nullcontext(self._opened) if self._opened is not None else Store.open(self._directory) as store:
            with quiet_collector():
                parsed = self._parse_all(files, request, progress)
            as_of = as_of_command(parsed, request.as_of, self._clock.now())
            instants = as_of_files(parsed, as_of)
            for each, evidence in disagreements(parsed, instants):
                ctx = self._context(request, each.file)
                each.add([_disagreement(ctx, evidence)], ctx)
            reports: list[FileReport] = []
            with store.transaction() if self._as_one else nullcontext():
                store.mark_unposted()
                progress(_("storing"), 0, len(parsed))
                for together in _batches(list(zip(parsed, instants, strict=True))):
                    reports.extend(self._store(store, together, request))
                    progress(_("storing"), len(reports), len(parsed))
                postings = self._post(store)
            asks = () if self._simulated else self._asks(store)
        findings: Counter[str] = Counter()
        for each in parsed:
            findings.update(each.findings)
        return ImportReport(reports, as_of.instant, as_of.basis, dict(sorted(findings.items())), postings, asks)

    def _asks(self, store: Store) -> tuple[str, ...]:
        """The commands that have an answer now; none where nothing was posted. Read beside whoever writes: a server's rounds go on."""
        with store.reader() as view:
            try:
                check_posted(view, self._directory)
            except UsageError:
                return ()
            return askable(view)

    def _context(self, request: ImportRequest, file: InputFile) -> ReadContext:
        settings = self._read_settings
        if request.epoch is not None:
            settings = replace(settings, trace_epoch=request.epoch)
        cluster = request.cluster if request.cluster != "default" else self._settings.cluster
        return ReadContext(
            cluster=cluster,
            file=file.name,
            node=request.node,
            settings=settings,
            expected_interval_us=request.expected_interval_us,
        )

    def _parse_all(self, files: Sequence[InputFile], request: ImportRequest, progress: Progress) -> list[ParsedFile]:
        """All files in the order given; those that name cards by index or address are read after the others."""
        basis = DECLARED if request.as_of is not None else INFERRED
        batch = Batch(KubernetesObjects(all_readers, request.expected_interval_us, basis, request.all_namespaces))
        parsed = [ParsedFile(file) for file in files]
        later: list[ParsedFile] = []
        done = 0
        for each in parsed:
            progress(_("reading"), done, len(files))
            if self._parse(each, request, batch, deferring=True):
                done += 1
            else:
                later.append(each)
        for each in later:
            progress(_("reading"), done, len(files))
            self._parse(each, request, batch, deferring=False)
            done += 1
        self._read_across(parsed, batch, request)
        for each in parsed:
            each.find_latest(self._context(request, each.file))
        progress(_("reading"), len(files), len(files))
        return parsed

    def _parse(self, into: ParsedFile, request: ImportRequest, batch: Batch, *, deferring: bool) -> bool:
        """Read one file into ``into``; False where it has to wait for the others."""
        ctx = self._context(request, into.file)
        try:
            now = self._clock.now()
            content = read_content(into.file, ctx.settings.decompressed_bytes_max, now)
            into.content_bytes, into.sha256 = content.bytes_count, content.sha256
            # A file written in the future was written by a wrong clock: it dates nothing, and stamps beyond now are findings.
            into.modified_at = now if content.modified_at > now + FUTURE_US else content.modified_at
            detected = detect(content, KINDS[into.file.kind] if into.file.kind else None)
            if deferring and detected.by_place:
                return False
            if detected.kind.name in DECLARED_KINDS and not request.may_declare:
                into.kind = detected.kind.name
                raise FileRefused(
                    "not_allowed", "what is declared of money comes in by the roles finance and admin alone"
                )
            facts = read_file(content, detected, into, ctx, batch)
            del content
            _add_guarded(into, facts, ctx)
        except FileRefused as refused:
            into.add([_refusal(refused, ctx)], ctx)
        return True

    def _read_across(self, parsed: list[ParsedFile], batch: Batch, request: ImportRequest) -> None:
        """Allocations, with the registers of all files, each in its own file; then what only all files together tell, which belongs to
        the last file that has a part in it, and to its transaction."""
        objects = batch.objects
        claims = next((each for each in reversed(parsed) if each.later.has_claims), None)
        contradictions = next((each for each in reversed(parsed) if each.later.is_compared), None)
        for each in parsed:
            ctx = self._context(request, each.file)
            if each.later.pods:
                cards = batch.the_directory().devices
                _add_guarded(each, objects.read_allocations(each.later.pods, ctx, cards), ctx)
                each.later.pods = []
        for last, read in ((claims, objects.read_claims), (contradictions, objects.read_contradictions)):
            if last is not None:
                ctx = self._context(request, last.file)
                _add_guarded(last, read(ctx), ctx)

    def _store(
        self, store: Store, together: Sequence[tuple[ParsedFile, AsOf]], request: ImportRequest
    ) -> list[FileReport]:
        """Append what these files hold, in one transaction."""
        with store.transaction():  # what version a declaration is, is only known while nobody else writes
            return self._append(store, together, request)

    def _append(
        self, store: Store, together: Sequence[tuple[ParsedFile, AsOf]], request: ImportRequest
    ) -> list[FileReport]:
        counted, files = [], []
        for parsed, as_of in together:
            ctx = self._context(request, parsed.file)
            holds_already = False
            if parsed.declared is not None:
                spec = Spec(as_of.instant, declared_by=request.declared_by or machine_user(), revives=False)
                intended = intend(store, parsed.declared, spec, ctx)
                holds_already = intended.unchanged
                parsed.add(intended.facts, ctx)
            counted.append(parsed.facts_count)
            if parsed.sha256 is not None and not holds_already:
                parsed.add([_import_file(parsed, as_of, ctx)], ctx)
            tables = {fact: settle(fact, join(parts), as_of.instant) for fact, parts in parsed.tables.items()}
            parsed.tables.clear()
            files.append((tables, parsed.sha256))
        results = store.append_files(files)
        return [
            _report(parsed, count, result)
            for (parsed, _), count, result in zip(together, counted, results, strict=True)
        ]


def _batches(files: Sequence[tuple[ParsedFile, AsOf]]) -> Iterator[list[tuple[ParsedFile, AsOf]]]:
    """The files in order, as many together as fit in one transaction; a big one is alone, and one that declares a version, which the next
    one is numbered after."""
    batch: list[tuple[ParsedFile, AsOf]] = []
    facts_count = 0
    for each in files:
        alone = each[0].declared is not None or (bool(batch) and batch[-1][0].declared is not None)
        if batch and (alone or len(batch) >= FILES_AT_ONCE or facts_count + each[0].facts_count > FACTS_AT_ONCE):
            yield batch
            batch, facts_count = [], 0
        batch.append(each)
        facts_count += each[0].facts_count
    if batch:
        yield batch


def _report(parsed: ParsedFile, facts_count: int, result: AppendResult) -> FileReport:
    return FileReport(
        path=str(parsed.file.path) if parsed.file.shown is None else parsed.file.shown,
        kind=parsed.kind,
        status=_status(parsed, result),
        facts_count=facts_count,
        new_count=result.new - result.new_by_table.get(ImportFile.TABLE, 0),
        refused_count=parsed.refused_count,
        message=parsed.first_trouble or (parsed.first_finding if parsed.told_count <= 1 else None),
    )


def _check_request(request: ImportRequest, now: Instant) -> None:
    """Raises UsageError for an instant that has not come yet and for an interval that no listing has."""
    if request.as_of is not None and request.as_of > now + FUTURE_US:
        raise UsageError(
            _("--as-of: {instant} is more than a day from now in the future: no snapshot can show it").format(
                instant=format_instant(min(request.as_of, INSTANT_MAX))
            )
        )
    interval = request.expected_interval_us
    if interval is not None and not 0 < interval <= INTERVAL_MAX_US:
        raise UsageError(
            _("--expected-interval: expected more than 0 and at most {days} days").format(
                days=INTERVAL_MAX_US // DAY_US
            )
        )


def _disagreement(ctx: ReadContext, evidence: Mapping[str, object]) -> Fact:
    return ctx.finding(
        SOURCE,
        "listings_disagree",
        f"file {ctx.file}",
        "another file lists other pods for the same scope and instant: one of the two is not of that instant; name it with --as-of, in an "
        "import of its own",
        evidence=evidence,
    )


def _add_guarded(into: ParsedFile, facts: Iterable[Fact], ctx: ReadContext) -> None:
    """Take the facts in; a reader that fails on them leaves one finding and what it had yielded in full batches before."""
    try:
        into.add(facts, ctx)
    except SourceMalformed as error:
        into.add([malformed(ctx, error)], ctx)
    except SourceUnsupported as error:
        into.add([_refusal(FileRefused("kind_not_supported", str(error)), ctx)], ctx)
    except READER_FAULTS as error:
        into.add([fault(error, ctx)], ctx)


def _status(parsed: ParsedFile, result: AppendResult) -> str:
    of_file = int(parsed.sha256 is not None)
    if parsed.usable_count <= of_file and parsed.findings:
        return REFUSED
    if parsed.refused_count and parsed.told_count <= of_file:
        return REFUSED  # that it was read is all that is left of it
    return IMPORTED if result.new else UNCHANGED


def _import_file(parsed: ParsedFile, as_of: AsOf, ctx: ReadContext) -> ImportFile:
    return ImportFile(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=parsed.sha256 or "",
        occurred_at=AT_OBSERVATION,
        observed_at=AT_OBSERVATION,
        path=parsed.file.name,
        kind=parsed.kind,
        bytes_count=parsed.content_bytes,
        sha256=parsed.sha256 or "",
        facts_count=parsed.facts_count,
        refused_count=parsed.refused_count,
        as_of_basis=as_of.basis,
    )


def _refusal(refused: FileRefused, ctx: ReadContext) -> Fact:
    return ctx.finding(SOURCE, refused.code, f"file {ctx.file}", refused.message)
