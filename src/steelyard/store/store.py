"""``Store``: the data directory's one DuckDB file.

Facts go in by ``append`` (idempotent, one transaction); everything else is SQL over ``fact.*``, ``dim.*`` and ``ledger.*``.
Conventions for authors of SQL: instants are TIMESTAMP in UTC; ``rows`` gives them back as naive UTC datetimes, so select
``epoch_us(x)`` where you want an Instant, and write ``make_timestamp(?)`` to bind one. Values are always bound, never pasted.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import duckdb
import pyarrow as pa

from steelyard.definitions.macros import macro_sql
from steelyard.facts.base import Fact
from steelyard.primitives.errors import InvariantError, StoreDamaged, StoreFailed, StoreLocked, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, Window
from steelyard.store import appending, migrations, rewriting
from steelyard.store.appending import BATCH, AppendResult
from steelyard.store.columns import ARROW_TYPES, by_class, check, join, table_of
from steelyard.store.durable import rename
from steelyard.store.failures import failures_told, first_line, is_damage

FILE_NAME: Final = "steelyard.duckdb"
_MACRO: Final = re.compile(r"\bCREATE\s+OR\s+REPLACE\s+MACRO\b")
_IDENTIFIER: Final = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?\Z")
_MAGIC: Final = b"DUCK"
_HEADERS_BYTES: Final = 3 * 4096
_BATCH_ROWS: Final = 16_384
_CLOSED: Final = "books/closed_until"
_SETTINGS: Final = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


class Store:
    """One open data directory; one process writes at a time.

    Threads that share a store write inside ``transaction`` (``append`` does), where they queue, and read through ``reader``. A statement outside
    both waits until another thread's transaction has ended: the engine would take it for a part of that one.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path | None = None) -> None:
        self._connection = connection
        self._path = path
        self._depth = 0
        self._writing = threading.RLock()
        self._turn = threading.Condition()
        self._readers_count = 0

    @classmethod
    def open(cls, directory: Path, *, read_only: bool = False) -> Store:
        """The store in ``directory``, made and migrated where needed: the migration is done on a copy, which then takes the file's place.

        Raises StoreLocked (one line, with the other process where the engine names it) while another process holds it, StoreDamaged where
        the file is none that the engine wrote, StoreFailed where it cannot be opened, and UsageError where it is newer than this code, or
        (``read_only``) is not there or not yet migrated.
        """
        path = directory / FILE_NAME
        if read_only and not path.is_file():
            raise UsageError(
                _(
                    "no data in {directory}: expected {file}; run `steelyard import` first, or name it with --data"
                ).format(directory=directory, file=FILE_NAME)
            )
        try:
            if not read_only:
                directory.mkdir(parents=True, exist_ok=True)
            return cls._prepare(_connect(path, read_only), read_only, path)
        except (duckdb.Error, OSError) as error:
            raise _opening_error(path, error) from error

    @classmethod
    def create_bare(cls, directory: Path) -> Store:
        """A new file in ``directory`` without any table: a backup is loaded into it as it was, layout and all. Raises UsageError where
        a store is there."""
        path = directory / FILE_NAME
        if path.exists():
            raise UsageError(_("{path} is there already").format(path=path))
        try:
            connection = _connect(path, False)
            connection.execute("SET TimeZone = 'UTC'")
            return cls(connection, path)
        except (duckdb.Error, OSError) as error:
            raise _opening_error(path, error) from error

    @classmethod
    def open_memory(cls) -> Store:
        """An empty store that lives in memory, for tests."""
        return cls._prepare(duckdb.connect(":memory:", config=dict(_SETTINGS)), read_only=False)

    @classmethod
    def _prepare(cls, connection: duckdb.DuckDBPyConnection, read_only: bool, path: Path | None = None) -> Store:
        try:
            if read_only:
                _check_layout(connection)
            else:
                if path is not None:
                    connection = rewriting.migrated(connection, path, lambda file: _connect(file, False))
                migrations.migrate(connection)
            _make_ready(connection)
        except BaseException:
            connection.close()
            raise
        return cls(connection, None if read_only else path)

    @contextmanager
    def reader(self) -> Iterator[Store]:
        """A view of the same data for one thread: what is committed now, unchanged while it is open, refusing every write.

        A writer never waits for it, nor it for a writer. It opens in about 10 ms (the macros are its own).
        """
        with self._turn:
            connection = self._connection.cursor()
            self._readers_count += 1
        try:
            with failures_told():
                _make_ready(connection)
                connection.execute("BEGIN TRANSACTION READ ONLY")
                connection.execute("SELECT 1 FROM store.migration").fetchall()  # the engine looks at the clock only now
            reader = Store(connection)
            reader._depth = 1
            yield reader
        finally:
            connection.close()
            with self._turn:
                self._readers_count -= 1
                self._turn.notify_all()

    def compact(self, free_ratio_min: float = 0.3, patience_seconds: float = 30.0) -> bool:
        """Write the file anew where at least ``free_ratio_min`` of its blocks are free, and let the new one take its place.

        Writers wait meanwhile, readers only for the exchange. False: there was not enough to gain, the store has no file, or readers
        were there for ``patience_seconds`` without a pause. Raises StoreFailed where there is not space for both files.
        """
        with self._writing, failures_told():
            if self._depth:
                raise InvariantError("a file is not written anew within a transaction")
            if self._path is None or not self._is_worth_it(free_ratio_min):
                return False
            fresh = self._path.with_name(f"{self._path.name}.compacting")
            rewriting.copy_into(self._connection, self._path, fresh)
            with self._turn:
                if not self._turn.wait_for(lambda: not self._readers_count, patience_seconds):
                    fresh.unlink()
                    return False
                rename(fresh, self._path)
                self._connection.close()
                self._connection = _connect(self._path, False)
                _make_ready(self._connection)
        return True

    def _is_worth_it(self, free_ratio_min: float) -> bool:
        try:
            self._connection.execute("CHECKPOINT")
        except duckdb.TransactionException:  # a reader still needs what was deleted: another time
            return False
        total, free = self.rows(
            "SELECT total_blocks, free_blocks FROM pragma_database_size() WHERE database_name = current_database()"
        )[0]
        return bool(total) and free / total >= free_ratio_min

    def append(self, facts: Iterable[Fact], *, import_id: str | None = None) -> AppendResult:
        """Add the facts that are not there yet, in one transaction (or within the open one).

        The same identity seen again adds nothing; its ``observed_at`` is the earliest of all sightings, whatever the order of
        arrival. Raises InvariantError for AT_OBSERVATION, an instant outside the years 1 to 9999, or NULL where the class
        allows none; then nothing of the batch is stored.
        """
        groups = by_class(facts)
        return self.append_tables({fact: table_of(fact, rows) for fact, rows in groups.items()}, import_id=import_id)

    def append_tables(self, tables: Mapping[type[Fact], pa.Table], *, import_id: str | None = None) -> AppendResult:
        """As ``append``, for facts that are Arrow tables already (``columns.table_of``)."""
        for fact, table in tables.items():
            check(fact, table)
        new: dict[str, int] = {}
        with self.transaction():
            for fact, table in tables.items():
                new[fact.TABLE] = self._append_table(fact, table, import_id) if table.num_rows else 0
        return AppendResult(sum(table.num_rows for table in tables.values()), sum(new.values()), new)

    def append_files(self, files: Sequence[tuple[Mapping[type[Fact], pa.Table], str | None]]) -> list[AppendResult]:
        """As ``append_tables`` for each file's (tables, import_id) in turn, with the same end, in one transaction: many small files cost
        little more than one. One result per file."""
        if len(files) == 1:
            return [self.append_tables(files[0][0], import_id=files[0][1])]
        parts: dict[type[Fact], list[pa.Table]] = {}
        for number, (tables, import_id) in enumerate(files):
            for fact, table in tables.items():
                check(fact, table)
                if table.num_rows:
                    named = table.append_column(
                        "import_id", pa.repeat(pa.scalar(import_id, pa.string()), table.num_rows)
                    )
                    numbered = named.append_column("file_no", pa.repeat(pa.scalar(number, pa.int32()), table.num_rows))
                    parts.setdefault(fact, []).append(numbered)
        new: list[dict[str, int]] = [{fact.TABLE: 0 for fact in tables} for tables, _import_id in files]
        with self.transaction():
            for fact, found in parts.items():
                for number, count in self._append_table_of_files(fact, join(found)):
                    new[number][fact.TABLE] = count
        return [
            AppendResult(sum(table.num_rows for table in tables.values()), sum(added.values()), added)
            for (tables, _import_id), added in zip(files, new, strict=True)
        ]

    def _append_table_of_files(self, fact: type[Fact], table: pa.Table) -> list[tuple[int, int]]:
        """How many rows were new, by number of the file."""
        self._connection.register(BATCH, table)
        try:
            self.execute(appending.batch_of_files_sql(fact))
        finally:
            self._let_go_of_batch()
        low, high, repeated = self.rows(appending.BATCH_SHAPE_SQL)[0]
        if repeated:
            self.execute(appending.REPEATED_IN_FILES_SQL)
        if self.rows(appending.known_sql(fact), [low, high])[0][0]:
            self.execute(appending.earlier_sql(fact), [low, high])
            self.execute(appending.only_new_sql(fact), [low, high])
        added = self.rows(appending.NEW_BY_FILE_SQL)
        self.execute(appending.insert_sql(fact, False))
        self.execute(f"DROP TABLE {BATCH}_rows")
        return [(int(number), int(count)) for number, count in added]

    def _append_table(self, fact: type[Fact], table: pa.Table, import_id: str | None) -> int:
        # In several record batches the engine reads the rows with all its threads.
        self._connection.register(BATCH, pa.Table.from_batches(table.to_batches(max_chunksize=_BATCH_ROWS)))
        try:
            self.execute(appending.batch_sql(fact), [import_id])
        finally:
            self._let_go_of_batch()
        low, high, repeated = self.rows(appending.BATCH_SHAPE_SQL)[0]
        if repeated:
            self.execute(appending.REPEATED_SQL)
        known = self.rows(appending.known_sql(fact), [low, high])[0][0] > 0
        if known:
            self.execute(appending.earlier_sql(fact), [low, high])
        added = self.rows(appending.insert_sql(fact, known), [low, high] if known else ())[0][0]
        self.execute(f"DROP TABLE {BATCH}_rows")
        return int(added)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. A transaction inside another is part of the outer one; another thread's waits until this one has ended."""
        with self._writing:
            if self._depth:
                yield
                return
            self._run("BEGIN", ())
            self._depth = 1
            try:
                yield
                self._run("COMMIT", ())
            except BaseException:
                with suppress(
                    duckdb.Error, RuntimeError
                ):  # the engine may have ended it already: the first error is the one to tell
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth = 0

    def mark_unposted(self) -> None:
        """Say that facts go in which the ledgers do not know. It lasts until ``mark_posted``, whatever happens to this process."""
        with self.transaction():
            self.execute(
                "INSERT INTO store.pending SELECT now() AT TIME ZONE 'UTC' WHERE NOT EXISTS (FROM store.pending)"
            )

    def mark_posted(self) -> None:
        """Say that the ledgers know all facts: within the transaction that posts them."""
        if self.has_unposted():
            self.execute("DELETE FROM store.pending")
        if self.has_collected():
            self.execute("DELETE FROM store.collected")

    def has_unposted(self) -> bool:
        """Whether facts went in whose posting never came: an import was cut off, or is under way in this very process."""
        return bool(self.rows("SELECT count(*) FROM store.pending")[0][0])

    def mark_collected(self) -> None:
        """Say that a round's facts go in which are posted later: answers meanwhile speak as of the last posting. In the round's transaction."""
        if not self.has_collected():
            self.execute("INSERT INTO store.collected SELECT now() AT TIME ZONE 'UTC'")

    def has_collected(self) -> bool:
        """Whether rounds came in since the last posting."""
        return bool(self.rows("SELECT count(*) FROM store.collected")[0][0])

    def cursor(self, name: str) -> str | None:
        """Where the collector of that name stood after its last stored round; None = nowhere."""
        found = self.rows("SELECT value FROM store.cursor WHERE name = ?", [name])
        return str(found[0][0]) if found else None

    def keep_cursor(self, name: str, value: str) -> None:
        """Remember where a collector stands: within the transaction of the round."""
        self.execute("DELETE FROM store.cursor WHERE name = ?", [name])
        self.execute("INSERT INTO store.cursor VALUES (?, ?)", [name, value])

    def closed_until(self) -> Instant | None:
        """The end of the last period whose books are closed: nothing from before it is taken in afterwards. None = no period is closed."""
        found = self.cursor(_CLOSED)
        return None if found is None else int(found)

    def close_until(self, end: Instant) -> None:
        """Say that the books are closed up to ``end``; within the transaction that closes them. It never goes back."""
        known = self.closed_until()
        self.keep_cursor(_CLOSED, str(end if known is None else max(end, known)))

    def stretches(self, cluster: str, kind: str, scope: str) -> list[Window]:
        """The stretches that good statuses of this kind and scope say were seen or taken in, oldest first."""
        found = self.rows(
            "SELECT epoch_us(observed_from_at), epoch_us(observed_to_at) FROM fact.source_status "
            "WHERE cluster = ? AND kind = ? AND scope = ? AND status = 'ok' AND observed_to_at >= observed_from_at ORDER BY ALL",
            [cluster, kind, scope],
        )
        return [Window(start, end) for start, end in found]

    def rows(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        """The result as tuples; TIMESTAMP as naive UTC datetime, DECIMAL as Decimal."""
        with self._writing, failures_told():
            return self._run(sql, parameters).fetchall()

    def records(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[dict[str, Any]]:
        """The result as one dict per row, keyed by column name."""
        with self._writing, failures_told():
            result = self._run(sql, parameters)
            names = [column[0] for column in result.description or ()]
            return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def columns(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> dict[str, list[Any]]:
        """The result as one list per column, NULL as None: where rows come by the thousand, in half the time of ``records``.

        For text, integers and truth values; a DECIMAL comes as a float, a TIMESTAMP without its type.
        """
        with self._writing, failures_told():
            found = self._run(sql, parameters).fetchnumpy()
            return {name: cells.tolist() for name, cells in found.items()}

    def execute(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> None:
        """Run one or several statements and drop the result."""
        with self._writing:
            self._run(sql, parameters)

    def load_rows(self, table: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]]) -> None:
        """Create or replace ``table`` (such as ``dim.tenant_rule``) with ``columns`` (name, SQL type) and ``rows``.

        TIMESTAMP cells are Instants (int) or datetimes; None is NULL. Types beyond ``columns.ARROW_TYPES`` (DECIMAL and so on) are cast
        from the cell's text. Raises InvariantError for a name that is no identifier.
        """
        for name in (table, *(name for name, _type in columns)):
            if not _IDENTIFIER.match(name):
                raise InvariantError(f"no identifier: {name!r}")
        cells = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
        arrays = [_array(values, sql_type) for (_name, sql_type), values in zip(columns, cells, strict=True)]
        with self._writing:
            self._connection.register(BATCH, pa.table(arrays, names=[name for name, _type in columns]))
            try:
                select = ", ".join(f'"{name}"::{sql_type} AS "{name}"' for name, sql_type in columns)
                self.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT {select} FROM {BATCH}")
            finally:
                self._let_go_of_batch()

    def close(self) -> None:
        """Let go of the file, once a transaction that is under way has ended. Twice is harmless."""
        with self._writing, suppress(duckdb.Error):
            self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, sql: str, parameters: Sequence[object] | Mapping[str, object]) -> duckdb.DuckDBPyConnection:
        with failures_told():
            if not parameters:
                return self._connection.execute(sql)
            bound = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
            return self._connection.execute(sql, bound)

    def _let_go_of_batch(self) -> None:
        with suppress(
            duckdb.Error, RuntimeError
        ):  # after a failure the engine may refuse this too, and the failure is what to tell
            self._connection.unregister(BATCH)


def _array(values: Sequence[object], sql_type: str) -> Any:
    kind = ARROW_TYPES.get(sql_type.upper())
    if kind is not None:
        return pa.array(values, kind)
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _connect(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(str(path), read_only=read_only, config=dict(_SETTINGS))
    except duckdb.IOException:
        if read_only or not _is_stillborn(path):
            raise
    path.unlink()
    return duckdb.connect(str(path), config=dict(_SETTINGS))


def _is_stillborn(path: Path) -> bool:
    """A file whose making was cut off before its headers were written: nothing was ever stored in it."""
    if not path.is_file() or path.stat().st_size >= _HEADERS_BYTES:
        return False
    start = path.read_bytes()
    return not start or start[8:12] == _MAGIC


def _opening_error(path: Path, error: Exception) -> Exception:
    text = str(error)
    if "set lock on" in text or "different configuration" in text:
        match = re.search(r"PID (\d+)", text)
        who = _("process {pid}").format(pid=match.group(1)) if match else _("another process")
        return StoreLocked(
            _("{path} is in use by {who}: wait until it ends, or name another directory with --data").format(
                path=path, who=who
            )
        )
    line = _("cannot open {path}: {reason}").format(path=path, reason=first_line(error))
    return StoreDamaged(line) if is_damage(error) or isinstance(error, duckdb.InternalException) else StoreFailed(line)


def _check_layout(connection: duckdb.DuckDBPyConnection) -> None:
    known = max(step.version for step in migrations.MIGRATIONS)
    version = migrations.file_version(connection)
    migrations.refuse_newer(version, known)
    if version < known or migrations.missing_columns(connection):
        raise UsageError(
            _("the data directory was written by an older version: run `steelyard import` once to migrate it")
        )


def _make_ready(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("SET TimeZone = 'UTC'")
    _load_macros(connection)


def _load_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """The definitions' macros, as temporary ones: they belong to the code, not to the file, and work where it is read only."""
    connection.execute(_MACRO.sub("CREATE OR REPLACE TEMP MACRO", macro_sql()))
