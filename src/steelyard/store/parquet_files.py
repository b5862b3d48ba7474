"""Rows out to Parquet and back: the one form in which they leave the store, so that any version of the engine, or none, can read them.

Backups and daily exports are made of these files. The trick to know: a type that Parquet has no exact form for goes out as text and is cast
back, so nothing is rounded on the way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.primitives.errors import StoreDamaged
from steelyard.primitives.i18n import _
from steelyard.store.durable import sync
from steelyard.store.rewriting import quoted
from steelyard.store.store import Store

_EXACT: Final = re.compile(
    r"(BIGINT|INTEGER|SMALLINT|TINYINT|VARCHAR|TIMESTAMP|BOOLEAN|DOUBLE|DATE|BLOB|DECIMAL\(\d+,\d+\))(\[\])*\Z"
)
_FORM: Final = "FORMAT parquet, COMPRESSION zstd"


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as the store has it: name, SQL type, whether it may be NULL."""

    name: str
    sql_type: str
    nullable: bool

    @property
    def outgoing(self) -> str:
        """The expression that is written."""
        return f'"{self.name}"' if _EXACT.match(self.sql_type) else f'"{self.name}"::VARCHAR AS "{self.name}"'


def stored_columns(store: Store, schema: str, table: str) -> tuple[StoredColumn, ...]:
    """The columns of a table, in order."""
    rows = store.rows(
        "SELECT column_name, data_type, is_nullable FROM duckdb_columns() "
        "WHERE database_name = current_database() AND schema_name = ? AND table_name = ? ORDER BY column_index",
        [schema, table],
    )
    return tuple(StoredColumn(name, sql_type, bool(nullable)) for name, sql_type, nullable in rows)


def write_rows(store: Store, columns: Sequence[StoredColumn], source: str, path: Path) -> None:
    """Write ``SELECT <columns> FROM <source>`` to ``path``, on the disk when this returns."""
    names = ", ".join(column.outgoing for column in columns)
    store.execute(f"COPY (SELECT {names} FROM {source}) TO {quoted(str(path))} ({_FORM})")
    sync(path)


def rows_count(store: Store, path: Path) -> int:
    """How many rows a file says it has. Raises StoreDamaged where it is no Parquet file."""
    try:
        return int(store.rows("SELECT num_rows FROM parquet_file_metadata(?)", [str(path)])[0][0])
    except Exception as error:  # the engine has no one class for what a broken file can do to it
        raise StoreDamaged(_("{path}: expected a Parquet file: it cannot be read").format(path=path)) from error


def read_rows(columns: Sequence[StoredColumn], paths: Sequence[Path]) -> str:
    """The FROM item of files with these columns, cast to their types."""
    files = ", ".join(quoted(str(path)) for path in paths)
    casts = ", ".join(f'CAST("{column.name}" AS {column.sql_type}) AS "{column.name}"' for column in columns)
    return f"(SELECT {casts} FROM read_parquet([{files}], hive_partitioning = false, union_by_name = true))"
