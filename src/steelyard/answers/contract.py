"""The answer contract: one shape for all ten questions and all surfaces.

Frozen dataclasses; ``to_json`` gives the documented JSON form. A value that is not known is ``Unknown(reason)`` and renders as
``null`` with its reason, never as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias, overload

from steelyard.primitives.instant import Instant, Window, format_instant
from steelyard.primitives.unknown import Unknown

Value: TypeAlias = "int | float | str | bool | Fraction | Unknown | None"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that answers. ``name`` is stable, lower snake case; ``unit`` is its unit (``GPU-h``, ``MiB``, ``1``); ``method`` the
    definition with its version; ``coverage`` observed / expected, 0 to 1, or Unknown."""

    name: str
    value: Value
    unit: str
    method: str
    coverage: float | Unknown


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table, with its unit (empty for names)."""

    name: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns. Cells may be Unknown."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]

    def to_json(self) -> dict[str, Any]:
        """The documented JSON form: an unknown cell is an object with its reason."""
        return {
            "name": self.name,
            "columns": [{"name": column.name, "unit": column.unit} for column in self.columns],
            "rows": [[_cell(cell) for cell in row] for row in self.rows],
        }


class RowsByColumn(Sequence[Sequence[Value]]):
    """Rows that stand as columns of one length; a row is put together when it is read. For tables with rows by the thousand."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Sequence[Sequence[Value]]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0]) if self._columns else 0

    def __iter__(self) -> Iterator[Sequence[Value]]:
        return zip(*self._columns, strict=True)

    @overload
    def __getitem__(self, place: int) -> Sequence[Value]: ...
    @overload
    def __getitem__(self, place: slice) -> RowsByColumn: ...
    def __getitem__(self, place: int | slice) -> Sequence[Value] | RowsByColumn:
        if isinstance(place, slice):
            return RowsByColumn([column[place] for column in self._columns])
        return tuple(column[place] for column in self._columns)


@dataclass(frozen=True, slots=True)
class Series:
    """Values over time: points are (instant, value)."""

    name: str
    unit: str
    points: Sequence[tuple[Instant, Value]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What backs a number: what it is, where it stands, how to see it yourself (a command)."""

    what: str
    where: str
    how: str


@dataclass(frozen=True, slots=True)
class FindingNote:
    """A finding about the data, as an answer quotes it."""

    code: str
    severity: str
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question."""

    question: str
    title: str
    window: Window | None
    as_of: Instant | None
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    series: Sequence[Series] = ()
    definitions: Sequence[Mapping[str, str]] = ()
    sources: Sequence[str] = ()
    coverage: float | Unknown = field(default_factory=lambda: Unknown("nothing was observed"))
    blind_spots: Sequence[str] = ()
    findings: Sequence[FindingNote] = ()
    evidence: Sequence[Evidence] = ()
    next_actions: Sequence[str] = ()
    explain: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The documented JSON form: instants as RFC 3339, unknown values as null beside their reason."""
        return {
            "question": self.question,
            "title": self.title,
            "window": [format_instant(self.window.start), format_instant(self.window.end)] if self.window else None,
            "as_of": format_instant(self.as_of) if self.as_of is not None else None,
            "figures": [_figure(figure) for figure in self.figures],
            "tables": [table.to_json() for table in self.tables],
            "series": [
                {
                    "name": s.name,
                    "unit": s.unit,
                    "points": [[format_instant(at), _cell(value)] for at, value in s.points],
                }
                for s in self.series
            ],
            "definitions": [dict(item) for item in self.definitions],
            "sources": list(self.sources),
            **_with_reason("coverage", self.coverage),
            "blind_spots": list(self.blind_spots),
            "findings": [
                {"code": f.code, "severity": f.severity, "subject": f.subject, "message": f.message}
                for f in self.findings
            ],
            "evidence": [{"what": e.what, "where": e.where, "how": e.how} for e in self.evidence],
            "next_actions": list(self.next_actions),
            **({"explain": dict(self.explain)} if self.explain else {}),
        }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        **_with_reason("value", figure.value, reason_key="unknown"),
        "unit": figure.unit,
        "method": figure.method,
        **_with_reason("coverage", figure.coverage),
    }


def _with_reason(key: str, value: Value, reason_key: str | None = None) -> dict[str, Any]:
    if isinstance(value, Unknown):
        return {key: None, reason_key or f"{key}_unknown": value.reason}
    return {key: _cell(value)}


def _cell(value: Value) -> Any:
    if isinstance(value, Unknown):
        return {"unknown": value.reason}
    if isinstance(value, Fraction):
        return float(value)
    return value
