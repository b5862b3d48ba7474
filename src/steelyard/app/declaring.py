"""Files that declare something about money become facts: a price book and the tenancy tree in versions, exchange rates by their day.

Two ways lead here: ``Declaring`` (``steelyard prices import`` and its like, and the routes), and the importer, for such a file among others. The
trick to know: what a version is numbered depends on the store, so reading and numbering are two steps, and the second one happens in
the transaction that writes.
"""

from __future__ import annotations

import hashlib
import os
import pwd
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from steelyard.answers.contract import Table
from steelyard.app.reading import to_text
from steelyard.app.settings import Settings
from steelyard.facts.base import Fact
from steelyard.facts.exchange_rate import ExchangeRate
from steelyard.facts.import_file import ImportFile
from steelyard.facts.price import BookWeight, Discount, Price
from steelyard.facts.tenancy import Tenancy
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import SourceMalformed, UsageError
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import Instant, format_instant
from steelyard.settlement.declared import changes, rows
from steelyard.sources import money
from steelyard.sources.shared.context import ReadContext
from steelyard.store import Store
from steelyard.surfaces.shared.money_ports import DeclaredKind, DeclareReport, DeclareRequest

SOURCE: Final = "declared"
BOOK_DEFAULT: Final = "default"
REASON_MAX: Final = 1_000

DECLARED: Final = "declared"
UNCHANGED: Final = "unchanged"
DRY_RUN: Final = "dry_run"


@dataclass(frozen=True, slots=True)
class DeclaredFile:
    """A file that was read and in which nothing was refused; ``book`` is its own name for itself."""

    kind: DeclaredKind
    lines: Sequence[Fact]
    sha256: str
    book: str | None = None


@dataclass(frozen=True, slots=True)
class Intended:
    """What a declaration does to a store: ``facts`` to append (none where it holds already), the ``version`` they make, what ``changes``."""

    facts: Sequence[Fact]
    version: int | None
    changes: Table
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Spec:
    """How it is declared. ``at``: the instant that facts bear. ``revives``: a version that was replaced may be made hold again; an import of
    files that were imported before must change nothing, so there it may not."""

    at: Instant
    book: str | None = None
    declared_by: str | None = None
    reason: str | None = None
    revives: bool = True


def machine_user() -> str:
    """The user of this machine who runs this process; its number where it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def read_declared(
    kind: DeclaredKind, text: str, sha256: str, ctx: ReadContext
) -> tuple[DeclaredFile, Sequence[SourceMalformed], int]:
    """The file, what is refused of it (kept within bounds) and how much that is; where anything is, the file has no lines."""
    if kind == "price_book":
        book = money.read_price_book(text, ctx)
        return DeclaredFile(kind, book.lines, sha256, book.book), book.refusals.kept, book.refusals.count
    if kind == "tenancy":
        tree = money.read_tenancy(text, ctx)
        return DeclaredFile(kind, tree.lines, sha256), tree.refusals.kept, tree.refusals.count
    rates = money.read_exchange_rates(text, ctx)
    return DeclaredFile(kind, rates.lines, sha256), rates.refusals.kept, rates.refusals.count


def intend(store: Store, file: DeclaredFile, spec: Spec, ctx: ReadContext) -> Intended:
    """What the file does to the store as it is: whoever writes calls it within the transaction that appends."""
    declaration = money.Declaration(file.sha256, spec.at, spec.declared_by, spec.reason)
    if file.kind == "price_book":
        return _book(store, file, spec, declaration, ctx)
    if file.kind == "tenancy":
        return _tree(store, file, spec, declaration)
    return _rates(store, file, spec)


def _book(store: Store, file: DeclaredFile, spec: Spec, declaration: money.Declaration, ctx: ReadContext) -> Intended:
    book = spec.book or file.book or BOOK_DEFAULT
    versions = rows.book_versions(store, book)
    last = versions[-1] if versions else None
    same = [each.version for each in versions if each.sha256 == file.sha256]
    if last is not None and (last.version in same or (same and not spec.revives)):
        return Intended((), same[-1], changes.no_changes(), unchanged=True)
    version = 1 if last is None else last.version + 1
    lines = [line for line in file.lines if isinstance(line, Price | Discount | BookWeight)]
    facts = money.numbered(lines, book, version, declaration, ctx)
    older = rows.book_rows(store, book, version - 1)
    return Intended(facts, version, changes.changes_of_books(older, rows.rows_of_book(lines)))


def _tree(store: Store, file: DeclaredFile, spec: Spec, declaration: money.Declaration) -> Intended:
    last = rows.tree_version(store)
    lines = [line for line in file.lines if isinstance(line, Tenancy)]
    facts = money.numbered_tree(lines, last + 1, declaration)
    declared = rows.rows_of_tree(lines)
    known = range(1 if not spec.revives else last, last + 1)
    same = [version for version in known if version and rows.tree_rows(store, version) == declared]
    if same:
        return Intended((), same[-1], changes.no_changes(), unchanged=True)
    return Intended(facts, last + 1, changes.changes_of_trees(rows.tree_rows(store, last), declared))


def _rates(store: Store, file: DeclaredFile, spec: Spec) -> Intended:
    lines = [line for line in file.lines if isinstance(line, ExchangeRate)]
    known = rows.rates_declared(store)
    new: list[Fact] = []
    told: dict[tuple[str, Instant], int] = {}
    for line in lines:
        pair = (line.natural_key, line.occurred_at)
        before = known.get(pair, [])
        if before and (before[-1] == line.rate_nano or (line.rate_nano in before and not spec.revives)):
            continue
        if line.rate_nano in before:
            raise UsageError(
                _(
                    "{pair} from {instant}: this rate was declared before and replaced; declare one from another instant"
                ).format(pair=pair[0], instant=format_instant(pair[1]))
            )
        told[pair] = line.rate_nano
        new.append(replace_declarer(line, spec))
    changed = changes.changes_of_rates({pair: rates[-1] for pair, rates in known.items()}, told)
    return Intended(new, None, changed, unchanged=not new)


def replace_declarer(line: ExchangeRate, spec: Spec) -> ExchangeRate:
    """The rate as it is seen now, by whoever declares it where the file does not say whose it is."""
    return msgspec.structs.replace(line, observed_at=spec.at, declared_by=line.declared_by or spec.declared_by)


class Declaring:
    """Declares over an open store; ``post`` posts the ledgers after facts went in and returns how many rows that appended."""

    def __init__(self, store: Store, settings: Settings, post: Callable[[Store], int], clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._post = post
        self._clock = clock

    def declare(self, request: DeclareRequest) -> DeclareReport:
        """Take a file in, whole or not at all, in one transaction with its posting; see ``Money``."""
        now = self._clock.now()
        ctx = ReadContext(
            cluster=self._settings.cluster,
            file=request.name,
            observed_at=now,
            settings=self._settings.to_read_settings(),
        )
        file = whole_file(request, ctx)
        spec = Spec(now, _book_of(request), request.declared_by or machine_user(), _reason_of(request))
        if request.dry_run:
            return _report(request, spec, file, intend(self._store, file, spec, ctx), 0)
        with self._store.transaction():
            intended = intend(self._store, file, spec, ctx)
            postings = 0
            if not intended.unchanged:
                self._store.mark_unposted()
                self._store.append([*intended.facts, _import_file(request, file, ctx)], import_id=file.sha256)
                postings = self._post(self._store)
        return _report(request, spec, file, intended, postings)


def whole_file(request: DeclareRequest, ctx: ReadContext) -> DeclaredFile:
    """The file that a request brings. Raises SourceMalformed, with all that is wrong, where anything is."""
    text, replaced_count = to_text(request.content)
    if replaced_count:
        raise SourceMalformed(
            _("{file}: nothing was taken: expected UTF-8 (in Excel: CSV UTF-8), found bytes that are none").format(
                file=request.name
            )
        )
    file, kept, count = read_declared(request.kind, text, hashlib.sha256(request.content).hexdigest(), ctx)
    if count:
        raise refused(request.name, kept, count)
    return file


def refused(name: str, kept: Sequence[SourceMalformed], count: int) -> SourceMalformed:
    """The error of a file of which nothing is taken."""
    told = [f"line {each.line}: {each.message}" if each.line else each.message for each in kept]
    text = ngettext(
        "{file}: nothing was taken, {count} mistake: {first}",
        "{file}: nothing was taken, {count} mistakes: {first}",
        count,
    ).format(file=name, count=count, first=told[0])
    others = told[1:]
    if count > len(kept):
        others.append(_("and {count} more").format(count=count - len(kept)))
    return SourceMalformed(text, kept[0].line, kept[0].excerpt, others)


def _book_of(request: DeclareRequest) -> str | None:
    if request.book is None:
        return None
    try:
        return money.book_name(request.book)
    except ValueError as error:
        raise UsageError(_("--book: {error}").format(error=error)) from None


def _reason_of(request: DeclareRequest) -> str | None:
    if request.reason is not None and len(request.reason) > REASON_MAX:
        raise UsageError(_("--reason: expected at most {count} characters").format(count=REASON_MAX))
    return request.reason or None


def _import_file(request: DeclareRequest, file: DeclaredFile, ctx: ReadContext) -> ImportFile:
    return ImportFile(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=file.sha256,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        path=request.name,
        kind=file.kind,
        bytes_count=len(request.content),
        sha256=file.sha256,
        facts_count=len(file.lines),
        as_of_basis="declared",
    )


def _report(
    request: DeclareRequest, spec: Spec, file: DeclaredFile, intended: Intended, postings: int
) -> DeclareReport:
    status = UNCHANGED if intended.unchanged else DRY_RUN if request.dry_run else DECLARED
    book = spec.book or file.book or BOOK_DEFAULT
    return DeclareReport(
        kind=file.kind,
        status=status,
        book=book if file.kind == "price_book" else None,
        version=intended.version,
        lines_count=len(file.lines),
        declared_by=spec.declared_by,
        reason=spec.reason,
        changes=intended.changes,
        postings_count=postings,
    )
