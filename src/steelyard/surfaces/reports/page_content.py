"""What the pages of a statement say, as plain texts and numbers that the template lays out.

The trick to know: everything that is read here was written by somebody, so each text passes through the font's characters, is cut at a bound and gets
places where a line may break; the template sets texts and evaluates none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from steelyard.primitives.instant import Instant, to_datetime
from steelyard.settlement.statement import Statement, StatementLine
from steelyard.surfaces.reports.money_text import hours_text, money_text, price_text, rounded_money
from steelyard.surfaces.reports.wording import Language, words

LINES_MAX: Final = 3_000
"""Lines of usage, and as many of corrections, that a PDF lists; what is beyond stands in the CSV, and the page says so."""
TEXT_MAX: Final = 160
TEAMS_MAX: Final = 12
NOTES_MAX: Final = 50
_RUN_MAX: Final = 14
_LABEL_MAX: Final = 40
_BREAK: Final = "\u200b"
_KINDS: Final = ("usage", "burst", "service_share", "reserved_unused", "credit", "correction", "tax")


@dataclass(frozen=True, slots=True)
class Page:
    """A statement being written down: in which language, and which characters can be set."""

    statement: Statement
    language: Language
    covered: Callable[[str], str]
    words: Mapping[str, str]

    def money(self, micro: int | None) -> str:
        """An amount as text; not known is said in words."""
        if micro is None:
            return self.words["not_known"]
        return self.covered(money_text(micro, self.statement.currency, self._tongue))

    def price(self, line: StatementLine) -> str:
        """The unit price and its unit of time, nothing where the line has none."""
        if line.unit_price_micro is None:
            return ""
        per = self.words.get(line.per or "", line.per or "")
        return self.covered(f"{price_text(line.unit_price_micro, self.statement.currency, self._tongue)} / {per}")

    def text(self, raw: str | None) -> str:
        """A text of the world: in the font's characters, cut, breakable."""
        if not raw:
            return ""
        short = raw if len(raw) <= TEXT_MAX else f"{raw[:TEXT_MAX]}…"
        return breakable(self.covered(short))

    def moment(self, instant: Instant | None) -> str:
        """An instant in the statement's own zone, to the minute."""
        if instant is None:
            return ""
        return to_datetime(instant).astimezone(ZoneInfo(self.statement.time_zone)).strftime("%Y-%m-%d %H:%M")

    @property
    def _tongue(self) -> str:
        return "en" if self.language == "both" else self.language


def breakable(text: str) -> str:
    """A text in which no run without a space is longer than fits a column: places to break are put into longer ones."""
    if len(text) <= _RUN_MAX:
        return text
    pieces = []
    for run in text.split(" "):
        parts = [run[at : at + _RUN_MAX] for at in range(0, len(run), _RUN_MAX)]
        pieces.append(_BREAK.join(parts))
    return " ".join(pieces)


def content_of(statement: Statement, language: Language, covered: Callable[[str], str], digest: str) -> dict[str, Any]:
    """All that the template needs, without the charts."""
    page = Page(statement, language, covered, {key: covered(text) for key, text in words(language).items()})
    usage = [line for line in statement.lines if line.kind != "correction"]
    corrections = [line for line in statement.lines if line.kind == "correction"]
    closed = to_datetime(statement.as_of if statement.closed_at is None else statement.closed_at)
    return {
        "words": dict(page.words),
        "language": "zh" if language == "zh" else "en",
        "number": page.text(statement.number) or page.words["no_number"],
        "state": statement.state,
        "date": [closed.year, closed.month, closed.day, closed.hour, closed.minute, closed.second],
        "digest": digest,
        "facts": _facts(page),
        "kinds": _by_kind(page),
        "figures": _figures(page),
        "notes": _notes(page),
        "lines": [_line(page, line) for line in usage[:LINES_MAX]],
        "lines_more": _more(page, usage),
        "corrections": [_correction(page, line) for line in corrections[:LINES_MAX]],
        "corrections_more": _more(page, corrections),
        "definitions": [text for key, text in page.words.items() if key.startswith("define_")],
        "versions": [[page.text(name), page.text(version)] for name, version in sorted(statement.versions.items())],
    }


def _notes(page: Page) -> list[str]:
    notes = page.statement.notes
    shown = [page.text(note) for note in notes[:NOTES_MAX]]
    return shown if len(notes) <= NOTES_MAX else [*shown, f"… (+{len(notes) - NOTES_MAX})"]


def _facts(page: Page) -> list[list[str]]:
    statement, said = page.statement, page.words
    rows = [
        [said["number"], page.text(statement.number) or said["no_number"]],
        [said["tenant"], page.text(statement.tenant)],
        [said["period"], page.text(statement.period)],
        [said["window"], f"{page.moment(statement.window.start)} - {page.moment(statement.window.end)}"],
        [said["time_zone"], page.text(statement.time_zone)],
        [said["currency"], page.text(statement.currency)],
        [said["as_of"], page.moment(statement.as_of)],
    ]
    if statement.closed_at is not None:
        rows.append([said["closed_at"], page.moment(statement.closed_at)])
    return rows


def _by_kind(page: Page) -> list[list[str]]:
    rows = []
    for kind in _KINDS:
        lines = [line for line in page.statement.lines if line.kind == kind]
        if lines:
            rows.append([
                page.words[kind], str(len(lines)), _hours(kind, sum(line.quantity_gpu_us for line in lines)),
                page.money(_sum(line.list_micro for line in lines)),
                page.money(_sum(line.discount_micro for line in lines)),
                page.money(_sum(line.amount_micro for line in lines)),
            ])  # fmt: skip
    return rows


def _figures(page: Page) -> list[list[str]]:
    statement, said = page.statement, page.words
    exact = f"{statement.amount_micro // 10**6 if statement.amount_micro >= 0 else -(-statement.amount_micro // 10**6)}"
    sign = "-" if statement.amount_micro < 0 and exact == "0" else ""
    lines = statement.lines
    rows = [
        [said["total"], page.money(statement.amount_micro)],
        [
            said["exact_total"],
            f"{sign}{exact}.{abs(statement.amount_micro) % 10**6:06d} {page.text(statement.currency)}",
        ],
    ]
    if statement.previous_micro is not None:
        rows.append([said["previous"], page.money(statement.previous_micro)])
        rows.append([said["change"], page.money(statement.amount_micro - statement.previous_micro)])
    rows.append([said["cost_book"], page.money(_sum(line.cost_micro for line in lines))])
    seen, most = _sum(line.used_micro for line in lines), _sum(line.used_upper_micro for line in lines)
    rows.append(
        [said["effective"], f"{page.money(seen)} - {page.money(most)}" if seen is not None else page.money(seen)]
    )
    for key, count in (
        ("unpriced_lines", statement.unpriced_count),
        ("estimated_lines", sum(line.estimated for line in lines)),
        ("provisional_lines", sum(line.provisional for line in lines)),
    ):
        if count:
            rows.append([said[key], str(count)])
    return rows


def _line(page: Page, line: StatementLine) -> dict[str, Any]:
    place = " ".join(page.text(part) for part in (line.model, line.node) if part)
    return {
        "id": page.text(line.line_id),
        "kind": page.words[line.kind],
        "what": page.text(line.description),
        "pod": page.text("/".join(part for part in (line.namespace, line.pod) if part)),
        "where": place,
        "whose": page.text(", ".join(part for part in (line.team, line.project) if part)),
        "hours": _hours(line.kind, line.quantity_gpu_us),
        "price": page.price(line),
        "amount": page.money(line.amount_micro) if line.amount_micro is not None else page.words["mark_unpriced"],
        "marks": [
            page.words[f"mark_{mark}"]
            for mark, holds in (
                ("estimated", line.estimated),
                ("provisional", line.provisional),
            )
            if holds
        ],
        "why": page.text(line.unpriced_reason),
    }


def _hours(kind: str, gpu_us: int) -> str:
    """GPU-hours; nothing where a kind has none by its nature."""
    return "" if gpu_us == 0 and kind in ("tax", "credit", "correction", "service_share") else hours_text(gpu_us)


def _correction(page: Page, line: StatementLine) -> list[str]:
    reason = page.words.get(line.reason or "") or page.text(line.reason)
    return [
        page.text(line.line_id), page.text(line.reference), page.text(line.description), reason,
        page.money(line.amount_micro) if line.amount_micro is not None else page.words["mark_unpriced"],
    ]  # fmt: skip


def _more(page: Page, lines: Sequence[StatementLine]) -> str:
    left = lines[LINES_MAX:]
    if not left:
        return ""
    amount = page.money(sum(line.amount_micro or 0 for line in left if line.amount_micro is not None))
    return page.words["more_lines"].replace("{count}", f"{len(left):,}").replace("{amount}", amount)


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def daily_bars(page: Page) -> list[tuple[str, float]]:
    """(month and day in the statement's zone, charge in whole currency)."""
    return [(page.moment(day)[5:10], _scaled(page, micro)) for day, micro in page.statement.daily[:400]]


def team_bars(page: Page) -> list[tuple[str, float]]:
    """(team, charge in whole currency), dearest first; what is beyond twelve comes together as the last."""
    sums: dict[str, int] = {}
    for line in page.statement.lines:
        if line.amount_micro is not None and line.kind != "tax":
            sums[line.team or ""] = sums.get(line.team or "", 0) + line.amount_micro
    ranked = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    named = ranked if len(ranked) <= TEAMS_MAX else ranked[: TEAMS_MAX - 1]
    bars: dict[str, int] = {}
    for name, micro in named:
        label = page.covered(name if len(name) <= _LABEL_MAX else f"{name[:_LABEL_MAX]}…") or page.words["unmapped"]
        bars[label] = bars.get(label, 0) + micro
    if len(ranked) > len(named):
        others = page.words["other_teams"]
        bars[others] = bars.get(others, 0) + sum(micro for _name, micro in ranked[len(named) :])
    return [(label, _scaled(page, micro)) for label, micro in bars.items()]


def _scaled(page: Page, micro: int) -> float:
    return float(rounded_money(micro, page.statement.currency))
