"""What is seen of periods, statements and budgets: each look of ``settlement_ports`` over one reader's view of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.primitives.errors import NotFound, UsageError
from steelyard.primitives.i18n import _, language
from steelyard.primitives.instant import HOUR_US, Instant, Window, format_instant
from steelyard.primitives.unknown import Unknown
from steelyard.settlement import budgets, disputes
from steelyard.settlement.assembly import Sheet, statements
from steelyard.settlement.closing import CloseRequest, close_report, report_json
from steelyard.settlement.control import ControlSpec, control_tables
from steelyard.settlement.corrections import Correction, Due, book_versions, corrections_due
from steelyard.settlement.documents import Documents, Format
from steelyard.settlement.drilling import Ground, drilled, find_line, line_facts
from steelyard.settlement.notices import notices
from steelyard.settlement.registers import PeriodRow, period_row, period_rows, statement_rows
from steelyard.settlement.rules import SettlementRules
from steelyard.settlement.snapshot import DOCUMENTS, FOLDER, differences, read_manifest, render, sheet_of
from steelyard.settlement.statement import Statement
from steelyard.settlement.statement_json import statement_json
from steelyard.settlement.tables import filled, lay_out_ledgers, model_text
from steelyard.store import Store
from steelyard.surfaces.shared.money_ports import Listing
from steelyard.surfaces.shared.settlement_ports import DocumentFormat, Look

_FORMATS: Final[Mapping[DocumentFormat, tuple[Format, str]]] = {
    "csv": ("csv", "statement.csv"),
    "xlsx": ("xlsx", "statement.xlsx"),
    "pdf": ("pdf", "statement-{language}.pdf"),
    "parquet": ("parquet", "statement.parquet"),
    "focus-1.2": ("focus", "focus-1.2-cost-and-usage.csv"),
    "focus-1.4": ("focus", "focus-1.4-cost-and-usage.csv"),
}
"""Format -> what ``documents`` calls it, and its file."""


@dataclass(frozen=True, slots=True)
class Style:
    """``now``: the style of documents by the settings of now, as JSON. ``written``: who writes in a style."""

    now: str
    written: Callable[[str], Documents]


@dataclass(frozen=True, slots=True)
class Scope:
    """A period that statements are looked at in. ``row`` None: it is open. ``rules``: of the close, where it is closed."""

    label: str
    row: PeriodRow | None
    rules: SettlementRules
    folder: Path | None


class Views:
    """All looks over one view of the store; made anew for each."""

    def __init__(self, store: Store, directory: Path, rules: SettlementRules, style: Style, now: Instant) -> None:
        self._store = store
        self._directory = directory
        self._rules = rules
        self._style = style
        self._now = now

    def look(self, look: Look) -> dict[str, Any]:
        """The JSON form of what is looked at."""
        kinds: Mapping[str, Callable[[Look], dict[str, Any]]] = {
            "periods": self._periods,
            "close": self._close,
            "verify": self._verify,
            "statements": self._statements,
            "line": self._line,
            "restatement": self._restatement,
            "control": self._control,
            "disputes": self._disputes,
            "dispute": self._dispute,
            "budgets": self._budgets,
            "budget_check": self._budget_check,
            "approvals": self._approvals,
            "notices": self._notices,
        }
        return kinds[look.kind](look)

    def documents(self, look: Look, form: DocumentFormat) -> Sequence[tuple[str, bytes]]:
        """(file name, bytes) of each statement; a closed one's as the close wrote it, where it did."""
        scope, found = self.found(look)
        if not found:
            raise NotFound(_("there is no statement of {period}").format(period=scope.label))
        written, pattern = _FORMATS[form]
        name = pattern.format(language="zh" if language().startswith("zh") else "en")
        documents = []
        for each in found:
            kept = None if scope.folder is None else scope.folder / DOCUMENTS / str(each.number) / name
            file, content = (
                (name, kept.read_bytes())
                if kept is not None and kept.is_file()
                else self._rendered(each, written, name)
            )
            documents.append((f"{each.number or f'draft-{each.period}-{_safe(each.tenant)}'}-{file}", content))
        return documents

    def _rendered(self, statement: Statement, written: Format, name: str) -> tuple[str, bytes]:
        """The file of that name; where the site has no page in this language, its first in another."""
        kept: dict[str, bytes] = {}

        class Memory:
            def write(self, name: str, content: bytes) -> None:
                kept[name] = content

        self._style.written(self._style.now).write(statement, Memory(), [written])
        ending = name.rpartition(".")[2]
        file = name if name in kept else next(each for each in kept if each.rpartition(".")[2] == ending)
        return file, kept[file]

    def found(self, look: Look) -> tuple[Scope, list[Statement]]:
        """The statements that a look names, and where they come from."""
        scope = self.scope(look)
        made = self._made(scope)
        return scope, [each for each in made if look.tenant is None or each.tenant == look.tenant]

    def scope(self, look: Look) -> Scope:
        """The period that a look names, else the one that the last known instant lies in."""
        label = look.period or self._rules.periods.label_at(self._as_of() - 1)
        self._rules.periods.window(label)
        row = period_row(self._store, label, look.shadow)
        if row is None or row.state != "closed":
            return Scope(label, None, self._rules, None)
        folder = self._directory / FOLDER / row.folder_name
        return Scope(label, row, read_manifest(folder).settlement_rules(), folder)

    def _made(self, scope: Scope) -> list[Statement]:
        """The statements of a period: out of its snapshot, else drafts; the tables that they were made from are left laid out."""
        if scope.folder is not None:
            manifest = read_manifest(scope.folder)
            return render(self._store, scope.folder, sheet_of(manifest, scope.folder), scope.rules)
        lay_out_ledgers(self._store, self._rules.periods, scope.label)
        before = self._rules.periods.calendar.previous_label(scope.label)
        previous = {each.tenant: each.amount_micro for each in statement_rows(self._store, before) if not each.shadow}
        versions = {f"price book {name}": version for name, version in book_versions(self._store).items()}
        return statements(
            self._store, self._rules, Sheet(scope.label, self._as_of(), previous=previous, versions=versions)
        )

    def _as_of(self) -> Instant:
        rows = self._store.rows(model_text("last_run"))
        return self._now if not rows or rows[0][3] is None else int(rows[0][3])

    def _periods(self, look: Look) -> dict[str, Any]:
        rows = {(row.label, row.shadow): row for row in period_rows(self._store)}
        labels = {label for label, shadow in rows if not shadow} | set(self._open_labels())
        listed = [(label, False) for label in sorted(labels, key=lambda each: self._rules.periods.window(each).start)]
        cells = [
            self._period(label, shadow, rows.get((label, shadow)))
            for label, shadow in [*listed, *sorted(key for key in rows if key[1])]
        ]
        names = ("period", "state", "shadow", "from", "to", "closed_at", "closed_by", "statements")
        return Listing(_("Periods"), [Table("periods", [Column(name) for name in names], cells)]).to_json()

    def _open_labels(self) -> Sequence[str]:
        """Periods in which the charge or the cost ledger has a row, up to the running one."""
        start, end = self._store.rows(model_text("ledger_span"))[0]
        if start is None:
            return ()
        return self._rules.periods.labels(Window(start, max(end, start + 1)))

    def _period(self, label: str, shadow: bool, row: PeriodRow | None) -> Sequence[str | int | bool | None]:
        window = row.window if row is not None else self._rules.periods.window(label)
        count = sum(each.shadow == shadow for each in statement_rows(self._store, label))
        closed_at = None if row is None or row.closed_at is None else format_instant(row.closed_at)
        return (
            label, "open" if row is None else row.state, shadow, format_instant(window.start), format_instant(window.end), closed_at,
            None if row is None else row.started_by, count,
        )  # fmt: skip

    def _close(self, look: Look) -> dict[str, Any]:
        request = CloseRequest(look.period or "", "", look.shadow, dict.fromkeys(look.accepted, "-"))
        return report_json(close_report(self._store, self._directory, self._rules, request))

    def _verify(self, look: Look) -> dict[str, Any]:
        scope = self.scope(look)
        if scope.row is None or scope.folder is None:
            raise UsageError(_("{label} is not closed: there is nothing to verify").format(label=scope.label))
        manifest = read_manifest(scope.folder)
        with TemporaryDirectory() as scratch:
            documents = self._style.written(manifest.document_style or self._style.now)
            found = differences(self._store, scope.folder, scope.row.manifest_sha256, documents, Path(scratch))
        files = len(manifest.files)
        return {
            "period": scope.label,
            "shadow": look.shadow,
            "files_count": files,
            "is_same": not found,
            "differences": found,
        }

    def _statements(self, look: Look) -> dict[str, Any]:
        scope, found = self.found(look)
        return {"period": scope.label, "statements": [statement_json(each) for each in found]}

    def _line(self, look: Look) -> dict[str, Any]:
        for label in self._labels_of_line(look):
            scope, found = self.found(Look("statements", label, look.tenant, look.shadow))
            line = find_line(found, look.key or "")
            if line is not None:
                tables = [line_facts(line), *drilled(Ground(self._store, scope.rules, self._snapshot_at), line)]
                title = _("Line {line} of {tenant}, {period}").format(
                    line=look.key, tenant=line.statement.tenant, period=scope.label
                )
                return Listing(title, tables).to_json()
        raise NotFound(_("no statement has a line {line}").format(line=repr((look.key or "")[:40])))

    def _snapshot_at(self, instant: Instant) -> Path | None:
        """The snapshot of the closed period that an instant lies in."""
        row = period_row(self._store, self._rules.periods.label_at(instant))
        return None if row is None or row.state != "closed" else self._directory / FOLDER / row.folder_name

    def _labels_of_line(self, look: Look) -> Sequence[str]:
        """The periods in which a line may stand: the one that is named, else all, the newest first."""
        if look.period is not None:
            return [look.period]
        closed = [row.label for row in period_rows(self._store) if row.state == "closed" and row.shadow == look.shadow]
        return list(dict.fromkeys([*sorted(self._open_labels(), key=self._start, reverse=True), *reversed(closed)]))

    def _start(self, label: str) -> Instant:
        return self._rules.periods.window(label).start

    def _restatement(self, look: Look) -> dict[str, Any]:
        label = look.period or ""
        row = period_row(self._store, label)
        self._rules.periods.window(label)
        if row is None or row.state != "closed":
            raise UsageError(
                _("{label} is not closed: its drafts follow the ledgers, so nothing is restated").format(label=label)
            )
        due = corrections_due(self._store, self._directory, label)
        own = (
            [each for each in found if look.tenant is None or each.tenant == look.tenant]
            for found in (due.corrections, due.untold)
        )
        return _restatement(label, Due(*own)).to_json()

    def _control(self, look: Look) -> dict[str, Any]:
        scope, made = self.found(Look("statements", look.period, None, look.shadow))
        residual, supply = 0, None
        if scope.folder is None:
            window = self._rules.periods.window(scope.label)
            bounds = {"from_us": window.start, "to_us": window.end}
            residual, supply = self._store.rows(filled("residual_of_period", bounds))[0]
        spec = ControlSpec(scope.rules, residual, supply, _declared(look.declared))
        state = _("draft") if scope.row is None else _("closed as {folder}").format(folder=scope.row.folder_name)
        notes = [
            _(
                "Amounts are millionths of the currency; over- and under-recovery compare the charge book with all of the cost book."
            )
        ]
        if scope.rules.periods.tenant_zones:
            notes.append(
                _("Tenants with a time zone of their own are booked by their month, what is nobody's by the estate's.")
            )
        title = _("Control page of {period} ({state})").format(period=scope.label, state=state)
        return Listing(title, control_tables(self._store, made, spec), notes).to_json()

    def _disputes(self, look: Look) -> dict[str, Any]:
        return {"disputes": [each.to_json(self._now) for each in disputes.disputes(self._store, look.tenant)]}

    def _dispute(self, look: Look) -> dict[str, Any]:
        found = disputes.dispute(self._store, look.key or "")
        if look.tenant is not None and found.tenant != look.tenant:
            raise NotFound(_("no dispute has the id {dispute}").format(dispute=(look.key or "")[:40]))
        return {"dispute": found.to_json(self._now), "events": disputes.events(self._store, found.dispute_id)}

    def _budgets(self, look: Look) -> dict[str, Any]:
        found = [
            each
            for each in budgets.budgets(self._store, look.tenant)
            if look.period is None or each.label == look.period
        ]
        return {"budgets": [budgets.budget_json(each) for each in found]}

    def _budget_check(self, look: Look) -> dict[str, Any]:
        scope, made = self.found(Look("statements", look.period, None, look.shadow))
        by_tenant = {each.tenant: each for each in made}
        checks = [
            budgets.check(self._store, self._rules, each, by_tenant.get(each.tenant), min(self._now, self._as_of()))
            for each in budgets.in_force(self._store, scope.label, look.tenant)
        ]
        worst = max((budgets.EXIT_CODES[each.verdict] for each in checks), default=3)
        return {"period": scope.label, "checks": [budgets.check_json(each) for each in checks], "exit_code": worst}

    def _approvals(self, look: Look) -> dict[str, Any]:
        rows = [
            ("prices", "finance, admin", _("whoever declares prices closes no period that uses them")),
            ("close", "finance, admin", _("somebody who declared none of the price books that count")),
        ]
        for what, said in (
            ("budget", _("somebody other than who proposed it")),
            ("dispute", _("somebody other than who opened it")),
            ("waiver", _("recorded by name and reason in the manifest")),
        ):
            roles = self._rules.approvers.get(what)
            default = _("nobody: a budget counts at once") if what == "budget" else "finance, admin"
            rows.append((what, default if roles is None else ", ".join(roles), said))
        return Listing(
            _("Who approves what"), [Table("approvals", (Column("what"), Column("roles"), Column("rule")), rows)]
        ).to_json()

    def _notices(self, look: Look) -> dict[str, Any]:
        return {"notices": [each.to_json() for each in notices(self._store)]}


def _restatement(label: str, due: Due) -> Listing:
    columns = (
        Column("ledger"), Column("statement"), Column("tenant"), Column("what"), Column("line"), Column("reason"), Column("started_at"),
        Column("ended_at"), Column("gpu_hours", "GPU-h"), Column("amount_micro", "micro"), Column("currency"),
    )  # fmt: skip
    amounts: list[tuple[Correction, Value]] = [(each, each.amount_micro) for each in due.corrections]
    amounts += [(each, Unknown(_("no price now"))) for each in due.untold]
    rows = [
        (
            each.ledger, each.number, each.tenant, each.name, each.line, each.reason, format_instant(each.started_at),
            format_instant(each.ended_at), each.quantity_gpu_us / HOUR_US, amount, each.currency,
        )
        for each, amount in amounts
    ]  # fmt: skip
    sums: dict[tuple[str, str, str | None], int] = {}
    for each in due.corrections:
        key = (each.ledger, each.reason, each.currency)
        sums[key] = sums.get(key, 0) + each.amount_micro
    totals = Table(
        "by_reason",
        (Column("ledger"), Column("reason"), Column("currency"), Column("amount_micro", "micro")),
        [(*key, amount) for key, amount in sorted(sums.items(), key=str)],
    )
    notes = [
        _("The documents of the closed period stay as they are; the next close carries these as correction lines.")
    ]
    if due.untold:
        notes.append(_("What has no price now is carried by the first close after it has one."))
    return Listing(
        _("What {period} would be corrected by").format(period=label),
        [Table("corrections", columns, rows), totals],
        notes,
    )


def _declared(texts: Sequence[str]) -> dict[str, tuple[str, int]]:
    """``name=12345.67 USD`` as name -> (currency, millionths). Raises UsageError for another form."""
    found = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        amount, _space, currency = value.strip().partition(" ")
        try:
            micro = Decimal(amount) * 1_000_000
            whole = int(micro)
        except (InvalidOperation, ValueError, OverflowError):
            micro, whole = Decimal(0), 1
        if not equals or not name.strip() or not currency.strip() or micro != whole or abs(whole) >= 2**62:
            raise UsageError(
                _(
                    "--declared: expected NAME=AMOUNT CURRENCY, such as 'depreciation=120000.00 USD'; found {text!r}"
                ).format(text=text[:80])
            )
        found[name.strip()] = (currency.strip(), whole)
    return found


def _safe(text: str) -> str:
    return "".join(each if each.isalnum() or each in "-_." else "_" for each in text)[:100]
