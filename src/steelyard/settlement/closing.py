"""Closing a period: judge, freeze, render, and only then say that it is closed.

``app`` calls ``close``, ``close_report`` and, whenever it has opened the store for writing, ``recover``. The tricks to know: everything is written in
a folder beside the period's own, which gets its name in one rename after all of it is on the disk, and only then does the row turn ``closed``;
so whoever dies in between leaves either no folder (the close is taken back) or a whole one (the close is finished), and never half of one.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import StoreDamaged, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import SECOND_US, Instant, Window, format_instant
from steelyard.settlement.assembly import Sheet
from steelyard.settlement.blockers import NEVER_WAIVED, WAIVABLE, Blocker, Scene, blockers
from steelyard.settlement.corrections import (
    Correction,
    Due,
    book_declarers,
    book_versions,
    closed_periods,
    correction_lines,
    corrections_due,
    write_corrected,
)
from steelyard.settlement.disputes import dispute_lines, mark_corrected
from steelyard.settlement.documents import FORMATS, Documents, Format
from steelyard.settlement.people import is_same_person
from steelyard.settlement.registers import (
    PeriodRow,
    StatementRow,
    begin,
    finish,
    number_of,
    period_row,
    period_rows,
    roll_back,
    statement_rows,
)
from steelyard.settlement.rules import SettlementRules
from steelyard.settlement.snapshot import (
    FOLDER,
    FORMAT_VERSION,
    MANIFEST,
    Manifest,
    StatementEntry,
    encoded,
    entries,
    read_manifest,
    render,
    write_corrections,
    write_documents,
    write_inputs,
    write_lines,
)
from steelyard.settlement.statement import Statement
from steelyard.settlement.tables import lay_out_ledgers, model_text
from steelyard.store import Store
from steelyard.store.durable import rename, sha256_of, sync, write_whole
from steelyard.store.scratch import scratch_beside


@dataclass(frozen=True, slots=True)
class CloseRequest:
    """What is to be closed, by whom. ``accepted``: codes of blockers that are waived -> why. ``formats``, ``document_style``:
    of documents, the latter as ``app`` reads it."""

    label: str
    actor: str
    shadow: bool = False
    accepted: Mapping[str, str] = field(default_factory=dict)
    formats: Sequence[Format] = FORMATS
    document_style: str = ""


@dataclass(frozen=True, slots=True)
class CloseReport:
    """What speaks against a close, or what it made. ``state``: ``open`` or ``closed``. ``corrections``: of earlier periods that it carries."""

    label: str
    shadow: bool
    state: str
    window: Window
    blockers: Sequence[Blocker]
    waived: Mapping[str, str]
    statements: Sequence[StatementRow] = ()
    corrections: Sequence[Correction] = ()
    closed_at: Instant | None = None
    folder: str | None = None
    manifest_sha256: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Run:
    run_id: int | None
    definitions: Mapping[str, str]
    settings_sha256: str
    as_of: Instant | None


_NO_RUN: Final = _Run(None, {}, "", None)


def _last_run(store: Store) -> _Run:
    rows = store.rows(model_text("last_run"))
    if not rows:
        return _NO_RUN
    return _Run(rows[0][0], msgspec.json.decode(rows[0][1], type=dict[str, str]), rows[0][2] or "", rows[0][3])


def close_report(store: Store, directory: Path, rules: SettlementRules, request: CloseRequest) -> CloseReport:
    """What speaks against the close now, and what it would carry over; nothing is written. Raises UsageError for a label that is none."""
    row = period_row(store, request.label, request.shadow)
    window = rules.periods.window(request.label)
    if row is not None and row.state == "closed":
        return _closed_report(store, directory, row)
    due = Due() if request.shadow else corrections_due(store, directory)
    lay_out_ledgers(store, rules.periods, request.label)
    scene = Scene(
        request.label, rules, _last_run(store).as_of, period_rows(store), request.shadow, due.untold, due.corrections, statement_rows(store)
    )  # fmt: skip
    found = blockers(store, scene)
    waived = {
        each.code: request.accepted[each.code] for each in found if each.code in request.accepted and each.can_be_waived
    }
    left = [each for each in found if each.code not in waived]
    return CloseReport(request.label, request.shadow, "open", window, left, waived, (), due.corrections)


def _closed_report(store: Store, directory: Path, row: PeriodRow) -> CloseReport:
    folder = directory / FOLDER / row.folder_name
    statements = [each for each in statement_rows(store, row.label) if each.shadow == row.shadow]
    return CloseReport(
        row.label, row.shadow, "closed", row.window, (), dict(row.waived or {}), statements, (), row.closed_at,
        str(folder), row.manifest_sha256, read_manifest(folder).left_out,
    )  # fmt: skip


def check_two_people(store: Store, actor: str) -> None:
    """Raises UsageError where the one who closes declared the prices that count: two people, whatever their roles."""
    book = next((book for name, book in book_declarers(store).items() if is_same_person(name, actor)), None)
    if book is not None:
        raise UsageError(
            _(
                "{actor} declared the price book {book}, so somebody else has to close: two people, whatever their roles"
            ).format(actor=actor, book=book)
        )


def close(
    store: Store, directory: Path, rules: SettlementRules, request: CloseRequest, documents: Documents, clock: Clock
) -> CloseReport:
    """Close the period. Twice is harmless: what is closed is told again. Raises UsageError where anything blocks that was not waived, a waiver has no
    reason or names what cannot be waived, or the actor declared the prices; then nothing was written."""
    row = period_row(store, request.label, request.shadow)
    if row is not None and row.state == "closed":
        return _closed_report(store, directory, row)
    check_two_people(store, request.actor)
    _check_waivers(request)
    window = rules.periods.window(request.label)
    destination = directory / FOLDER / (f"{request.label}-shadow" if request.shadow else request.label)
    destination.parent.mkdir(mode=0o700, exist_ok=True)
    with scratch_beside(destination) as scratch:
        begin(store, request.label, request.shadow, window, request.actor, clock.now())
        try:
            manifest = _freeze(store, directory, scratch, rules, request, documents, clock)
            rename(scratch, destination)
        except BaseException:
            roll_back(store, request.label, request.shadow)
            raise
    _finish(store, destination, manifest)
    done = period_row(store, request.label, request.shadow)
    assert done is not None  # noqa: S101 (it was just written)
    return _closed_report(store, directory, done)


def _check_waivers(request: CloseRequest) -> None:
    for code, reason in request.accepted.items():
        if not reason.strip():
            raise UsageError(_("--accept {code}: say why with --reason").format(code=code[:60]))
        if code not in WAIVABLE and code not in NEVER_WAIVED:
            raise UsageError(
                _("--accept {code}: expected one of {codes}").format(code=repr(code[:60]), codes=", ".join(WAIVABLE))
            )


def _freeze(
    store: Store,
    directory: Path,
    scratch: Path,
    rules: SettlementRules,
    request: CloseRequest,
    documents: Documents,
    clock: Clock,
) -> Manifest:
    """Everything of the period in ``scratch``, on the disk, over one unchanged view of the store."""
    with store.reader() as view:
        report = close_report(view, directory, rules, request)
        _refuse_blocked(report, request)
        run = _last_run(view)
        closed = [] if request.shadow else closed_periods(view, directory)
        lines = correction_lines(view, report.corrections, closed, rules)
        lines += [] if request.shadow else dispute_lines(view, [each.folder for each in closed])
        previous = {
            each.tenant: each.amount_micro
            for each in statement_rows(view, rules.periods.calendar.previous_label(request.label))
            if not each.shadow
        }
        write_inputs(view, scratch)
        write_corrections(scratch, lines)
        write_corrected(scratch, report.corrections)
        closed_at = clock.now() // SECOND_US * SECOND_US  # documents stamp whole seconds
        versions = {
            **run.definitions,
            **{f"price book {name}": version for name, version in book_versions(view).items()},
        }
        sheet = Sheet(request.label, run.as_of or closed_at, request.shadow, closed_at, {}, previous, lines, versions)
        found = [
            _numbered(each, request, place) for place, each in enumerate(render(view, scratch, sheet, rules), start=1)
        ]
        write_lines(scratch, found)
        left_out = write_documents(scratch, found, documents, request.formats)
        manifest = Manifest(
            format=FORMAT_VERSION,
            label=request.label,
            shadow=request.shadow,
            closed_at=closed_at,
            closed_by=request.actor,
            as_of=run.as_of or closed_at,
            run_id=run.run_id,
            definitions=dict(run.definitions),
            posting_settings_sha256=run.settings_sha256,
            books=book_versions(view),
            rules=rules.to_json(),
            waived=dict(report.waived),
            previous=previous,
            statements=[_entry(each) for each in found],
            files=entries(scratch),
            formats=[each for each in request.formats if each not in left_out],
            left_out=left_out,
            document_style=request.document_style,
        )
    write_whole(scratch / MANIFEST, encoded(manifest))
    sync(scratch)
    return manifest


def _refuse_blocked(report: CloseReport, request: CloseRequest) -> None:
    if report.blockers:
        lines = [f"{each.code}: {each.message}; {each.todo}" for each in report.blockers]
        raise UsageError("; ".join([_("{label} cannot be closed yet").format(label=request.label), *lines]))


def _numbered(statement: Statement, request: CloseRequest, place: int) -> Statement:
    return replace(statement, number=number_of(request.label, request.shadow, place))


def _entry(statement: Statement) -> StatementEntry:
    if abs(statement.amount_micro) >= 1 << 63:
        raise UsageError(_("{tenant}: the total is beyond what can be booked").format(tenant=statement.tenant))
    return StatementEntry(
        str(statement.number), statement.tenant, statement.currency, statement.time_zone, statement.window.start, statement.window.end,
        len(statement.lines), statement.unpriced_count, statement.amount_micro,
    )  # fmt: skip


def _finish(store: Store, folder: Path, manifest: Manifest) -> None:
    """The row and the numbers, from what the folder says."""
    row = period_row(store, manifest.label, manifest.shadow)
    if row is None or row.state != "closing":
        return
    statements = [
        StatementRow(
            each.number, manifest.label, manifest.shadow, each.tenant, each.currency, each.time_zone, Window(each.start, each.end),
            each.lines_count, each.unpriced_count, each.amount_micro,
        )
        for each in manifest.statements
    ]  # fmt: skip
    with store.transaction():
        finish(
            store, row, manifest.closed_at, manifest.run_id, sha256_of(folder / MANIFEST), manifest.waived, statements
        )
        if not manifest.shadow:
            mark_corrected(store, manifest.label, folder)


def recover(store: Store, directory: Path) -> list[str]:
    """Bring closes that were cut off to an end: finished where their folder is whole, taken back where not. What was done, in words.

    Only whoever holds the store for writing, with no close of its own under way, may call it.
    """
    told = []
    for row in period_rows(store):
        if row.state != "closing":
            continue
        folder = directory / FOLDER / row.folder_name
        manifest = None
        with suppress(StoreDamaged):
            manifest = read_manifest(folder)
        if manifest is not None:
            _finish(store, folder, manifest)
            told.append(_("the close of {label}, cut off at its end, is finished").format(label=row.label))
        else:
            for left in (folder, folder.with_name(f".{folder.name}.unfinished")):
                shutil.rmtree(left, ignore_errors=True)
            roll_back(store, row.label, row.shadow)
            told.append(_("the close of {label}, cut off in the middle, is taken back").format(label=row.label))
    return told


def report_json(report: CloseReport) -> dict[str, Any]:
    """The documented JSON form."""
    return {
        "period": report.label,
        "shadow": report.shadow,
        "state": report.state,
        "from": format_instant(report.window.start),
        "to": format_instant(report.window.end),
        "can_close": not report.blockers and report.state == "open",
        "blockers": [
            {
                "code": each.code,
                "count": each.count,
                "message": each.message,
                "todo": each.todo,
                "can_be_waived": each.can_be_waived,
            }
            for each in report.blockers
        ],
        "waived": dict(report.waived),
        "statements": [statement_row_json(each) for each in report.statements],
        "corrections_count": len(report.corrections),
        "closed_at": None if report.closed_at is None else format_instant(report.closed_at),
        "folder": report.folder,
        "manifest_sha256": report.manifest_sha256,
        "left_out": dict(report.left_out),
    }


def statement_row_json(row: StatementRow) -> dict[str, Any]:
    """The documented JSON form of a closed statement's head."""
    return {
        "number": row.number,
        "period": row.label,
        "shadow": row.shadow,
        "tenant": row.tenant,
        "currency": row.currency,
        "time_zone": row.time_zone,
        "from": format_instant(row.window.start),
        "to": format_instant(row.window.end),
        "lines_count": row.lines_count,
        "unpriced_count": row.unpriced_count,
        "amount_micro": row.amount_micro,
    }
