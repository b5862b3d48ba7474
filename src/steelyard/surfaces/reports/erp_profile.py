"""Export profiles: a statement's lines as the CSV that a site's ERP system takes, laid out by a column map from the settings.

The trick to know: an ERP system posts what it reads, so amounts that a profile rounds are rounded together: each line down or up by largest
remainder, such that the file sums to the rounded total. A line without a price has no row, since an empty amount would be posted as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal
from zoneinfo import ZoneInfo

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import to_datetime
from steelyard.settlement.statement import Statement, StatementLine
from steelyard.surfaces.reports.columns import COLUMNS, Cell, Kind, LineColumn, instant_or_none
from steelyard.surfaces.reports.delimited import delimited, neutral

Encoding = Literal["utf-8", "gb18030"]
_STATEMENT_LEVEL: Final = frozenset(
    {"statement", "period", "tenant", "state", "currency", *("closed_at", "window_start", "window_end")}
)
_SOURCES: Final[dict[str, LineColumn]] = {
    **{column.name: column for column in COLUMNS},
    "closed_at": LineColumn("closed_at", "instant", "when the period was closed", lambda s, _line: s.closed_at),
    "window_start": LineColumn("window_start", "instant", "start of the period", lambda s, _line: s.window.start),
    "window_end": LineColumn("window_end", "instant", "its end, not included", lambda s, _line: s.window.end),
}
SOURCES: Final = tuple(_SOURCES)
"""What a column of a profile can be taken from: the columns of ``statement.csv``, and three of the statement itself."""


@dataclass(frozen=True, slots=True)
class ProfileColumn:
    """A column: its ``name`` in the file, and either ``source``, one of ``SOURCES``, or a fixed ``value``. ``digits``: decimal places of an amount, 0
    to 6, None = six."""

    name: str
    source: str | None = None
    value: str | None = None
    digits: int | None = None


@dataclass(frozen=True, slots=True)
class ErpProfile:
    """How one ERP system wants its file.

    by: sum lines that are alike in these sources into one row; empty = a row per line. date_format: as strftime has it, in the statement's time
    zone. decimal_comma: ``1234,50`` instead of ``1234.50``. encoding: gb18030 for systems that take no UTF-8; bom for UTF-8 alone.
    """

    name: str
    columns: Sequence[ProfileColumn] = field(default_factory=tuple)
    by: Sequence[str] = ()
    delimiter: str = ","
    decimal_comma: bool = False
    date_format: str = "%Y-%m-%d"
    header: bool = True
    encoding: Encoding = "utf-8"
    bom: bool = False

    def check(self) -> None:
        """Raises UsageError for a profile that cannot be carried out: the message names the column and what is wrong."""
        if not self.columns:
            raise UsageError(_("the profile {profile} has no columns").format(profile=self.name))
        for column in self.columns:
            self._check_column(column)
        for source in self.by:
            if source not in _SOURCES or _SOURCES[source].kind not in ("text", "flag"):
                raise UsageError(
                    _("the profile {profile} sums by {source}, which is no text column").format(
                        profile=self.name, source=source
                    )
                )

    def _check_column(self, column: ProfileColumn) -> None:
        where = {"profile": self.name, "column": column.name}
        if (column.source is None) == (column.value is None):
            raise UsageError(
                _("{column} of the profile {profile}: expected source or value, one of them").format(**where)
            )
        if column.source is None:
            return
        if column.source not in _SOURCES:
            raise UsageError(
                _("{column} of the profile {profile}: there is no source {source}; expected one of {sources}").format(
                    **where, source=column.source, sources=", ".join(SOURCES)
                )
            )
        kind = _SOURCES[column.source].kind
        if column.digits is not None and kind != "money":
            raise UsageError(_("{column} of the profile {profile}: digits are for amounts").format(**where))
        summed = kind in ("money", "hours", "integer") and column.source not in ("unit_price", "coverage_ppm")
        if self.by and not summed and column.source not in {*self.by, *_STATEMENT_LEVEL}:
            raise UsageError(
                _(
                    "{column} of the profile {profile}: {source} differs within a row that sums lines; add it to by"
                ).format(**where, source=column.source)
            )


def profile_csv(statement: Statement, profile: ErpProfile) -> bytes:
    """The priced lines of a statement in the layout of a profile. Raises UsageError for one that cannot be carried out."""
    profile.check()
    groups = _groups(statement, profile)
    columns = [_column_texts(statement, profile, column, groups) for column in profile.columns]
    header = [column.name for column in profile.columns] if profile.header else None
    bom = profile.bom and profile.encoding == "utf-8"
    content = delimited(header, zip(*columns, strict=True), delimiter=profile.delimiter, bom=bom)
    return content if profile.encoding == "utf-8" else content.decode("utf-8").encode(profile.encoding)


def _groups(statement: Statement, profile: ErpProfile) -> list[list[StatementLine]]:
    """The lines of each row, in the order of the first of them."""
    priced = [line for line in statement.lines if line.amount_micro is not None]
    if not profile.by:
        return [[line] for line in priced]
    groups: dict[tuple[Cell, ...], list[StatementLine]] = {}
    for line in priced:
        groups.setdefault(tuple(_SOURCES[source].read(statement, line) for source in profile.by), []).append(line)
    return list(groups.values())


def _column_texts(
    statement: Statement, profile: ErpProfile, column: ProfileColumn, groups: Sequence[Sequence[StatementLine]]
) -> list[str]:
    if column.source is None:
        return [neutral(column.value or "")] * len(groups)
    source = _SOURCES[column.source]
    cells = [_cell(statement, source, lines) for lines in groups]
    if source.kind == "money":
        places = 6 if column.digits is None else column.digits
        cells = list(_rounded_together([cell if isinstance(cell, Decimal) else None for cell in cells], places))
    return [_text(statement, profile, source.kind, cell) for cell in cells]


def _cell(statement: Statement, source: LineColumn, lines: Sequence[StatementLine]) -> Cell:
    """The cell of a row: of its one line, or the sum of what is known of its lines; alike texts are the first's."""
    found = [source.read(statement, line) for line in lines]
    if len(found) == 1 or source.kind not in ("money", "hours", "integer"):
        return found[0]
    known = [cell for cell in found if cell is not None]
    if not known:
        return None
    if source.kind == "integer":
        return sum(cell for cell in known if isinstance(cell, int))
    return Decimal(f"{sum(_millionths(cell) for cell in known if isinstance(cell, Decimal))}E-6")


def _millionths(value: Decimal) -> int:
    """A decimal of six places as a whole number, whatever the decimal context's precision."""
    sign, digits, _exponent = value.as_tuple()
    whole = int("".join(map(str, digits)))
    return -whole if sign else whole


def _rounded_together(cells: Sequence[Decimal | None], places: int) -> Sequence[Decimal | None]:
    """Amounts with that many places whose sum is the rounded sum (half to even): floored, the rest by largest remainder, ties to the earlier row."""
    step = 10 ** (6 - places)
    whole = [None if cell is None else _millionths(cell) for cell in cells]
    floors = [None if each is None else each // step for each in whole]
    total = sum(each for each in whole if each is not None)
    nearest = (total + step // 2) // step
    if 2 * (total % step) == step and nearest % 2:
        nearest -= 1
    rest = nearest - sum(each for each in floors if each is not None)
    known = [number for number, each in enumerate(whole) if each is not None]
    for number in sorted(known, key=lambda n: (-((whole[n] or 0) % step), n))[:rest]:
        floors[number] = (floors[number] or 0) + 1
    return [None if each is None else Decimal(f"{each}E-{places}") for each in floors]


def _text(statement: Statement, profile: ErpProfile, kind: Kind, cell: Cell) -> str:
    if cell is None:
        return ""
    instant = instant_or_none(cell) if kind == "instant" else None
    if instant is not None:
        return to_datetime(instant).astimezone(ZoneInfo(statement.time_zone)).strftime(profile.date_format)
    if isinstance(cell, bool):
        return "1" if cell else "0"
    if isinstance(cell, Decimal):
        return f"{cell:f}".replace(".", ",") if profile.decimal_comma else f"{cell:f}"
    return str(cell) if isinstance(cell, int) else neutral(cell)
