"""The store's file written anew, and put in place of the old one at a stroke: to bring it to a new layout, or to give back free space.

``Store.open`` and ``Store.compact`` use this. The tricks to know: the copy is made by the engine, table by table, compared with what it was
made from, and then renamed over the old name while the old file is still open and locked; so a kill at any point leaves the old
file or the new one, and nobody can write to the old one in between. Nothing but rows goes over: free blocks stay behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb

from steelyard.primitives.errors import InvariantError
from steelyard.store import migrations
from steelyard.store.durable import check_space, rename, sync

_TABLES_SQL = """
    SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? ORDER BY ALL
"""


def copy_into(connection: duckdb.DuckDBPyConnection, path: Path, fresh: Path) -> None:
    """Everything that the open file ``path`` holds, committed, in a new file ``fresh``, compared and on the disk.

    Raises StoreFailed where there is not space for both, InvariantError where the copy is not equal; then there is no ``fresh``.
    """
    _forget(fresh)
    connection.execute("CHECKPOINT")
    check_space(path.parent, path.stat().st_size)
    try:
        connection.execute(f"ATTACH {quoted(str(fresh))} AS fresh")
        try:
            name = str(_one(connection, "SELECT current_database()"))
            connection.execute(f'COPY FROM DATABASE "{name}" TO fresh')
            _compare(connection, name)
            connection.execute("CHECKPOINT fresh")
        finally:
            connection.execute("DETACH fresh")
        sync(fresh)
    except BaseException:
        with suppress(OSError):
            _forget(fresh)
        raise


def migrated(
    connection: duckdb.DuckDBPyConnection, path: Path, connect: Callable[[Path], duckdb.DuckDBPyConnection]
) -> duckdb.DuckDBPyConnection:
    """A connection to the file at ``path`` in the layout of this code: the one given, where it is that already or holds nothing yet.

    An older file is copied, the copy is migrated, read again and put in its place; the old one stays beside it as
    ``<name>.before-layout-<N>``. Raises UsageError where the file is newer than this code; the old file is then as it was.
    """
    known = max(step.version for step in migrations.MIGRATIONS)
    version = migrations.file_version(connection)
    migrations.refuse_newer(version, known)
    if not version or (version == known and not migrations.missing_columns(connection)):
        return connection
    fresh = path.with_name(f"{path.name}.migrating")
    copy_into(connection, path, fresh)
    with connect(fresh) as copy:
        migrations.migrate(copy)
        copy.execute("CHECKPOINT")
    with connect(fresh) as copy:
        if migrations.file_version(copy) != known or migrations.missing_columns(copy):
            raise InvariantError(f"the migrated copy of {path} is not in layout {known}")
    sync(fresh)
    _keep(connection, path, path.with_name(f"{path.name}.before-layout-{known}"))
    rename(fresh, path)
    connection.close()
    return connect(path)


def quoted(text: str) -> str:
    """A string literal for statements that take no bound values, such as ATTACH and COPY."""
    return "'" + text.replace("'", "''") + "'"


def _keep(connection: duckdb.DuckDBPyConnection, path: Path, kept: Path) -> None:
    """A second name for the file; a second file where the file system gives no second names."""
    if kept.exists() and kept.samefile(
        path
    ):  # an earlier try came this far; renaming a file's two names to one does nothing
        return
    unfinished = kept.with_name(f"{kept.name}.unfinished")
    _forget(unfinished)
    try:
        os.link(path, unfinished)
    except OSError:
        copy_into(connection, path, unfinished)
    rename(unfinished, kept)


def _compare(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    for schema, table in connection.execute(_TABLES_SQL, [name]).fetchall():
        of = f'."{schema}"."{table}" AS row'
        old, new = (
            connection.execute(f'SELECT count(*), bit_xor(hash(row)) FROM "{database}"{of}').fetchone()
            for database in (name, "fresh")
        )
        if old != new:
            raise InvariantError(f"the copy of {schema}.{table} is not equal: {old} and {new}")


def _forget(fresh: Path) -> None:
    """Remove what an earlier try left behind."""
    fresh.unlink(missing_ok=True)
    fresh.with_name(f"{fresh.name}.wal").unlink(missing_ok=True)


def _one(connection: duckdb.DuckDBPyConnection, sql: str) -> object:
    row = connection.execute(sql).fetchone()
    return None if row is None else row[0]
