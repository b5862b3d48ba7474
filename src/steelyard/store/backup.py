"""A backup: one consistent view of the store as Parquet files, with a manifest that names every byte of it.

``write_backup`` looks through a reader's view, so a server goes on writing meanwhile. The tricks to know: a backup is written beside its
name and renamed when it is on the disk, so what has the name is whole; views are not in it, since they belong to the code.
Whoever can write to a backup can also write its manifest: hashes find damage and slips, not a forger.

Sceptic's commands: ``sha256sum DEST/tables/*.parquet``; any Parquet reader opens the files.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec

from steelyard.primitives.errors import SteelyardError, StoreDamaged, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import parse_instant
from steelyard.store import migrations
from steelyard.store.durable import check_space, rename, sha256_of, sync, write_whole
from steelyard.store.failures import first_line
from steelyard.store.parquet_files import StoredColumn, read_rows, rows_count, stored_columns, write_rows
from steelyard.store.scratch import scratch_beside
from steelyard.store.store import Store

MANIFEST: Final = "manifest.json"
FORM: Final = 1
_TABLES: Final = "tables"
_FILES: Final = "files"
_MANIFEST_BYTES_MAX: Final = 16 << 20
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,99}\Z")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,94}\.(?:toml|tar)\Z")
"""Settings alone: nothing that a server or a store keeps in its directory comes out of a backup under its own name."""
_WORD: Final = re.compile(r"[\x20-\x7e]{1,200}\Z")
_SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")
_LAYOUT_MAX: Final = 1_000_000
_NUMBER_MAX: Final = 2**63 - 1
_SQL_TYPE: Final = re.compile(r"[A-Z][A-Z ]{0,30}(\(\d{1,3}(,\d{1,3})?\))?(\[\]){0,3}\Z")


class BackedColumn(msgspec.Struct, frozen=True):
    """One column of a table in a backup."""

    name: str
    sql_type: str
    nullable: bool


class BackedTable(msgspec.Struct, frozen=True):
    """One table in a backup: its rows and the file that holds them."""

    schema: str
    name: str
    rows_count: int
    bytes_count: int
    sha256: str
    columns: tuple[BackedColumn, ...]

    @property
    def file(self) -> str:
        """The name of its file below the backup."""
        return f"{_TABLES}/{self.schema}.{self.name}.parquet"


class BackedFile(msgspec.Struct, frozen=True):
    """A file of the data directory that is no table, such as its settings."""

    name: str
    bytes_count: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds. ``layout``: of the store it was made of. ``created_at``: RFC 3339. ``ledger_residual_gpu_us`` None: nothing was
    posted. ``sha256``: over this document with an empty ``sha256``, keys sorted."""

    form: int
    layout: int
    program: str
    created_at: str
    definitions: Mapping[str, str]
    ledger_residual_gpu_us: int | None
    tables: tuple[BackedTable, ...]
    files: tuple[BackedFile, ...] = ()
    sha256: str = ""

    @property
    def bytes_count(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(table.bytes_count for table in self.tables) + sum(file.bytes_count for file in self.files)

    @property
    def rows_count(self) -> int:
        """Rows of all tables."""
        return sum(table.rows_count for table in self.tables)


def write_backup(
    reader: Store,
    destination: Path,
    *,
    program: str,
    created_at: str,
    definitions: Mapping[str, str],
    residual_gpu_us: int | None,
    files: Iterable[Path] = (),
) -> Manifest:
    """Write all that ``reader`` sees, and ``files``, to ``destination``, which is not there yet or an empty folder.

    Raises UsageError where something is there (``UnderWay`` where another is writing it now), StoreFailed where there is no space.
    """
    _refuse_what_is_there(destination)
    destination.parent.mkdir(parents=True, exist_ok=True)
    with scratch_beside(destination) as unfinished:
        _refuse_what_is_there(destination)
        (unfinished / _TABLES).mkdir()
        (unfinished / _FILES).mkdir()
        manifest = _sealed(
            Manifest(
                form=FORM,
                layout=int(reader.rows("SELECT max(version) FROM store.migration")[0][0]),
                program=program,
                created_at=created_at,
                definitions=dict(definitions),
                ledger_residual_gpu_us=residual_gpu_us,
                tables=tuple(_write_table(reader, unfinished, schema, name) for schema, name in _tables(reader)),
                files=tuple(_write_file(path, unfinished) for path in files),
            )
        )
        for folder in (_TABLES, _FILES):
            sync(unfinished / folder)
        write_whole(unfinished / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
        try:
            rename(unfinished, destination)
        except OSError:
            _refuse_what_is_there(destination)
            raise
    return manifest


def _refuse_what_is_there(destination: Path) -> None:
    if destination.is_symlink() or (destination.exists() and not _is_empty(destination)):
        raise UsageError(_("{path} is there already: name a folder that does not exist yet").format(path=destination))


def read_manifest(source: Path) -> Manifest:
    """The manifest of a backup. Raises UsageError where there is none, or it is of a newer form or layout than this code knows;
    StoreDamaged where it is not what was written."""
    path = source / MANIFEST
    if path.is_symlink() or not path.is_file():
        raise UsageError(_("{path} is no finished backup: it has no {file}").format(path=source, file=MANIFEST))
    try:
        with path.open("rb") as stream:
            content = stream.read(_MANIFEST_BYTES_MAX + 1)
        form = msgspec.json.decode(content[:_MANIFEST_BYTES_MAX], type=dict[str, Any]).get("form")
        if isinstance(form, int) and form > FORM:
            raise UsageError(
                _("{path} was written by a newer version (form {found}; this one knows {known}): upgrade").format(
                    path=source, found=form, known=FORM
                )
            )
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise StoreDamaged(_("{path}: its manifest cannot be read").format(path=source)) from error
    if _sealed(manifest).sha256 != manifest.sha256:
        raise StoreDamaged(_("{path}: its manifest is not what was written").format(path=source))
    if (wrong := _disorder(manifest)) is not None:
        raise StoreDamaged(
            _("{path}: its manifest is not what was written: {what} is not what it may be").format(
                path=source, what=wrong
            )
        )
    known = max(step.version for step in migrations.MIGRATIONS)
    if manifest.layout > known:
        raise UsageError(
            _("{path} was written by a newer version (layout {found}; this one knows {known}): upgrade").format(
                path=source, found=manifest.layout, known=known
            )
        )
    return manifest


def is_backup(folder: Path) -> bool:
    """Whether a folder looks like a finished backup, whole or not."""
    return (folder / MANIFEST).is_file() and (folder / _TABLES).is_dir()


def check_files(source: Path, manifest: Manifest) -> None:
    """Every file is there, byte for byte, with the rows and columns that the manifest says, and no other, nor a link. Raises StoreDamaged, one
    line, where not."""
    _refuse_links(source)
    with Store.open_memory() as engine:
        for table in manifest.tables:
            path = source / table.file
            _check_file(source, table.file, table.bytes_count, table.sha256)
            found = rows_count(engine, path)
            if found != table.rows_count:
                raise StoreDamaged(
                    _("{path}: expected {expected} rows, found {found}").format(
                        path=path, expected=table.rows_count, found=found
                    )
                )
            with damage_told(path):
                _check_columns(engine, path, table)
    for file in manifest.files:
        _check_file(source, f"{_FILES}/{file.name}", file.bytes_count, file.sha256)
    named = {table.file for table in manifest.tables} | {f"{_FILES}/{file.name}" for file in manifest.files}
    there = {str(path.relative_to(source)) for path in source.rglob("*") if not path.is_dir()} - {MANIFEST}
    if strangers := sorted(there - named):
        raise StoreDamaged(
            _("{path}: a file that its manifest does not name: {file}").format(path=source, file=strangers[0])
        )


@contextmanager
def damage_told(path: Path) -> Iterator[None]:
    """Within it, a statement that the engine refuses because of what a backup holds is StoreDamaged, naming ``path``."""
    try:
        yield
    except duckdb.Error as error:
        raise StoreDamaged(
            _("{path}: what it holds is not what a store holds: {reason}").format(path=path, reason=first_line(error))
        ) from error


def load_backup(source: Path, manifest: Manifest, directory: Path, schemas: Iterable[str] | None = None) -> None:
    """Make the store of ``directory`` (which has none) from a backup that ``check_files`` found whole; only ``schemas``, where given.

    The layout is that of the backup; the next ``Store.open`` migrates it. Raises StoreFailed where there is no space.
    """
    wanted = None if schemas is None else set(schemas)
    directory.mkdir(parents=True, exist_ok=True)
    check_space(directory, manifest.bytes_count)
    with Store.create_bare(directory) as store:
        with store.transaction():
            for schema in migrations.SCHEMAS:
                store.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            for table in manifest.tables:
                _load_table(store, source, table, wanted is None or table.schema in wanted)
        store.execute("CHECKPOINT")


def restore_files(source: Path, manifest: Manifest, directory: Path) -> None:
    """Put the backup's other files into ``directory``."""
    for file in manifest.files:
        write_whole(directory / file.name, (source / _FILES / file.name).read_bytes())


def _tables(reader: Store) -> list[tuple[str, str]]:
    rows = reader.rows(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT temporary "
        "AND list_contains(?, schema_name) ORDER BY ALL",
        [list(migrations.SCHEMAS)],
    )
    return [(schema, name) for schema, name in rows]


def _write_table(reader: Store, folder: Path, schema: str, name: str) -> BackedTable:
    columns = stored_columns(reader, schema, name)
    table = BackedTable(schema, name, 0, 0, "", tuple(BackedColumn(c.name, c.sql_type, c.nullable) for c in columns))
    path = folder / table.file
    write_rows(reader, columns, f'"{schema}"."{name}"', path)
    return msgspec.structs.replace(
        table, rows_count=rows_count(reader, path), bytes_count=path.stat().st_size, sha256=sha256_of(path)
    )


def _write_file(path: Path, folder: Path) -> BackedFile:
    write_whole(folder / _FILES / path.name, path.read_bytes())
    written = folder / _FILES / path.name
    return BackedFile(path.name, written.stat().st_size, sha256_of(written))


def _load_table(store: Store, source: Path, table: BackedTable, with_rows: bool) -> None:
    columns = [StoredColumn(c.name, c.sql_type, c.nullable) for c in table.columns]
    declared = ", ".join(f'"{c.name}" {c.sql_type}{"" if c.nullable else " NOT NULL"}' for c in columns)
    store.execute(f'CREATE TABLE "{table.schema}"."{table.name}" ({declared})')
    if not with_rows:
        return
    store.execute(
        f'INSERT INTO "{table.schema}"."{table.name}" SELECT * FROM {read_rows(columns, [source / table.file])}'
    )
    found = store.rows(f'SELECT count(*) FROM "{table.schema}"."{table.name}"')[0][0]
    if found != table.rows_count:
        raise StoreDamaged(
            _("{path}: expected {expected} rows, found {found}").format(
                path=source / table.file, expected=table.rows_count, found=found
            )
        )


def _check_columns(engine: Store, path: Path, table: BackedTable) -> None:
    """Its types are types, and its file has these columns, which can be read as such."""
    columns = [StoredColumn(c.name, c.sql_type, c.nullable) for c in table.columns]
    declared = ", ".join(f'"{c.name}" {c.sql_type}' for c in columns)
    engine.execute(f"CREATE OR REPLACE TEMP TABLE found_columns ({declared})")
    engine.execute(f"INSERT INTO found_columns SELECT * FROM {read_rows(columns, [path])} LIMIT 0")


def _refuse_links(source: Path) -> None:
    for folder, folders, files in os.walk(source):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                raise StoreDamaged(_("{path}: a backup has no links in it").format(path=path))


def _check_file(source: Path, name: str, bytes_count: int, sha256: str) -> None:
    path = source / name
    if path.is_symlink() or not path.is_file():
        raise StoreDamaged(_("{path}: the backup's manifest names it, and it is not there").format(path=path))
    if path.stat().st_size != bytes_count:
        raise StoreDamaged(
            _("{path}: expected {expected} bytes, found {found}").format(
                path=path, expected=bytes_count, found=path.stat().st_size
            )
        )
    if sha256_of(path) != sha256:
        raise StoreDamaged(_("{path}: its bytes are not those that were backed up (sha256)").format(path=path))


def _sealed(manifest: Manifest) -> Manifest:
    plain = msgspec.structs.replace(manifest, sha256="")
    digest = hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()
    return msgspec.structs.replace(manifest, sha256=digest)


def _disorder(manifest: Manifest) -> str | None:
    """What in the manifest is out of order; None where nothing is. Names and types become part of statements and paths, and numbers of sums."""
    residual = manifest.ledger_residual_gpu_us
    sizes = [number for table in manifest.tables for number in (table.rows_count, table.bytes_count)]
    sizes += [file.bytes_count for file in manifest.files]
    hashes = [table.sha256 for table in manifest.tables] + [file.sha256 for file in manifest.files]
    tables = {(table.schema, table.name) for table in manifest.tables}
    rules = {
        "form": manifest.form >= 1,
        "layout": 1 <= manifest.layout <= _LAYOUT_MAX,
        "program": bool(_WORD.match(manifest.program)),
        "created_at": _is_instant(manifest.created_at),
        "definitions": all(_WORD.match(word) for entry in manifest.definitions.items() for word in entry),
        "ledger_residual_gpu_us": residual is None or 0 <= residual <= _NUMBER_MAX,
        "tables": ("store", "migration") in tables
        and len(tables) == len(manifest.tables)
        and all(_is_orderly(table) for table in manifest.tables),
        "files": len({file.name for file in manifest.files}) == len(manifest.files)
        and all(_FILE_NAME.match(file.name) for file in manifest.files),
        "rows_count or bytes_count": all(0 <= number <= _NUMBER_MAX for number in sizes),
        "sha256": all(map(_SHA256.match, hashes)),
    }
    return next((what for what, is_so in rules.items() if not is_so), None)


def _is_orderly(table: BackedTable) -> bool:
    names = [column.name for column in table.columns]
    return (
        table.schema in migrations.SCHEMAS
        and bool(_NAME.match(table.name))
        and 0 < len(names) == len(set(names))
        and all(_NAME.match(column.name) and _SQL_TYPE.match(column.sql_type) for column in table.columns)
    )


def _is_instant(text: str) -> bool:
    try:
        parse_instant(text)
    except (ValueError, SteelyardError):
        return False
    return True


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())
