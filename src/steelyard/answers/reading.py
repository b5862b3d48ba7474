"""How a question reads: named statements of its ``.sql`` file, run over whatever holds the tables, and remembered for ``--explain``.

Every question and ``grounds`` use this. The trick to know: SQL is never assembled. A statement stands whole in the file under a
line ``-- name: x``; values are bound by name; grouping by a chosen dimension happens on the integer rows that come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from steelyard.primitives.errors import InvariantError

Record: TypeAlias = dict[str, Any]
"""One row, keyed by column name."""

Columns: TypeAlias = dict[str, list[Any]]
"""Rows column by column: one list of cells per column name, all of one length."""

_HEAD = "-- name: "


class Rows(Protocol):
    """Whatever runs SQL over ``ledger.*``, ``dim.*`` and the few readable ``fact.*`` tables: the store."""

    def records(self, sql: str, parameters: Mapping[str, object]) -> list[Record]:
        """The result, one dict per row; values are bound by name (``$at``)."""
        ...

    def columns(self, sql: str, parameters: Mapping[str, object]) -> Columns:
        """The result, one list per column: for rows by the thousand. Text, integers and truth values only."""
        ...


@cache
def statements(path: Path) -> Mapping[str, str]:
    """The statements of a ``.sql`` file by name. Raises InvariantError where a name is missing or used twice."""
    found: dict[str, str] = {}
    for block in ("\n" + path.read_text(encoding="utf-8")).split("\n" + _HEAD)[1:]:
        name, _, sql = block.partition("\n")
        if name.strip() in found:
            raise InvariantError(f"{path.name}: the statement {name.strip()!r} stands there twice")
        found[name.strip()] = sql.strip().removesuffix(";")
    if not found:
        raise InvariantError(f"{path.name}: no statement has a name")
    return found


class Reading:
    """The statements of one answer, as they ran: ``ran`` maps their name to SQL text with the values in a comment."""

    def __init__(self, rows: Rows, *paths: Path) -> None:
        self._rows = rows
        self._statements = {name: sql for path in paths for name, sql in statements(path).items()}
        self.ran: dict[str, str] = {}

    def run(self, name: str, **values: object) -> list[Record]:
        """Run one statement by name. Raises InvariantError for a name that no file holds."""
        return self._rows.records(self._sql(name, values), values)

    def columns(self, name: str, **values: object) -> Columns:
        """As ``run``, column by column: half the time where rows come by the thousand."""
        return self._rows.columns(self._sql(name, values), values)

    def _sql(self, name: str, values: Mapping[str, object]) -> str:
        if name not in self._statements:
            raise InvariantError(f"no statement is called {name!r}")
        bound = "".join(f"-- ${key} = {value!r}\n" for key, value in sorted(values.items()))
        self.ran[name] = bound + self._statements[name]
        return self._statements[name]


def int_or_none(value: object) -> int | None:
    """A sum as a plain int (DuckDB may hand a Decimal back), NULL as None."""
    return None if value is None else int(value)  # type: ignore[call-overload]  # cells are objects to the checker; a sum's is a number
