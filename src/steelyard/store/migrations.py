"""How the file grows with the code: numbered steps, and one general step that adds declared columns to existing tables.

``store.migration`` records each step once. A file that a newer version wrote is refused with a clear line; nothing is ever
dropped or rewritten here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import msgspec

from steelyard.facts.base import Column, Fact, columns_of
from steelyard.facts.registry import FACTS
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.store.appending import KEY_COLUMNS

SCHEMAS: Final = ("store", "fact", "dim", "ledger")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: its number, what it does in one phrase, and the doing."""

    version: int
    name: str
    apply: Callable[[duckdb.DuckDBPyConnection], None]


def _first(connection: duckdb.DuckDBPyConnection) -> None:
    for schema in SCHEMAS:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")


def _tokens(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        "CREATE TABLE store.token (token_id VARCHAR NOT NULL, sha256 VARCHAR NOT NULL, name VARCHAR NOT NULL, "
        "role VARCHAR NOT NULL, tenant VARCHAR, created_at TIMESTAMP NOT NULL, revoked_at TIMESTAMP)"
    )


def _pending(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE store.pending (since TIMESTAMP NOT NULL)")


def _rounds(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE store.collected (since TIMESTAMP NOT NULL)")
    connection.execute("CREATE TABLE store.cursor (name VARCHAR NOT NULL, value VARCHAR NOT NULL)")


def _retention(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        "CREATE TABLE store.thinned (fact_table VARCHAR NOT NULL, cluster VARCHAR NOT NULL, day_at TIMESTAMP NOT NULL, "
        "level VARCHAR NOT NULL, removed_count BIGINT NOT NULL, thinned_at TIMESTAMP NOT NULL)"
    )
    connection.execute(
        "CREATE TABLE store.exported (fact_table VARCHAR NOT NULL, day_at TIMESTAMP NOT NULL, rows_count BIGINT NOT NULL, "
        "fingerprint VARCHAR NOT NULL)"
    )


_MEASURED_USE: Final = (
    "engine_upper_gpu_us",
    "sm_gpu_us",
    "dram_gpu_us",
    "used_gpu_us",
    "used_of_gpu_us",
    "engine_observed_us",
    "sm_observed_us",
    "dram_observed_us",
    "used_observed_us",
)


def _measured_use(connection: duckdb.DuckDBPyConnection) -> None:
    """Columns of the usage ledger, not known in rows that were posted before: the next posting computes what the facts still tell."""
    found = connection.execute(
        "SELECT column_name FROM duckdb_columns() WHERE schema_name = 'ledger' AND table_name = 'usage_entry'"
    ).fetchall()
    present = {name for (name,) in found}
    if not present:
        return
    for column in _MEASURED_USE:
        if column not in present:
            connection.execute(f"ALTER TABLE ledger.usage_entry ADD COLUMN {column} BIGINT")
    connection.execute(
        "CREATE OR REPLACE VIEW ledger.usage AS SELECT * EXCLUDE (run_id, sign, entry_id, is_open) FROM ledger.usage_entry "
        "WHERE sign = 1 AND entry_id NOT IN (SELECT entry_id FROM ledger.usage_entry WHERE sign = -1)"
    )


def _node_zones(connection: duckdb.DuckDBPyConnection) -> None:
    """A dimension that an answer reads, without rows: a file whose ledgers were posted before it can be asked at once."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS dim.node_zone (cluster VARCHAR, node VARCHAR, zone VARCHAR, zone_type VARCHAR, resource VARCHAR, "
        "capacity_count BIGINT, allocatable_count BIGINT, available_count BIGINT, policies VARCHAR, valid_from_at TIMESTAMP, "
        "valid_to_at TIMESTAMP)"
    )


def _settlement(connection: duckdb.DuckDBPyConnection) -> None:
    """What was decided about money: periods, the numbers of their statements, disputes, budgets, and what was told to others."""
    text, whole, instant = "VARCHAR NOT NULL", "BIGINT NOT NULL", "TIMESTAMP NOT NULL"
    for table, columns in {
        "period": f"label {text}, shadow BOOLEAN NOT NULL, state {text}, from_at {instant}, to_at {instant}, started_at {instant}, "
        f"started_by {text}, closed_at TIMESTAMP, run_id BIGINT, manifest_sha256 VARCHAR, waived VARCHAR",
        "statement": f"number {text}, label {text}, shadow BOOLEAN NOT NULL, tenant {text}, currency {text}, time_zone {text}, from_at {instant}, "
        f"to_at {instant}, lines_count {whole}, unpriced_count {whole}, amount_micro {whole}",
        "dispute": f"dispute_id {text}, number {text}, line_id {text}, tenant {text}, reason {text}, owner {text}, deadline_at {instant}, "
        f"state {text}, opened_at {instant}, currency {text}, amount_micro BIGINT, correction_micro BIGINT, corrected_in VARCHAR",
        "dispute_event": f"dispute_id {text}, occurred_at {instant}, actor {text}, action {text}, detail {text}",
        "budget": f"tenant {text}, label {text}, version {whole}, amount_micro {whole}, currency {text}, state {text}, set_by {text}, "
        f"set_at {instant}, approved_by VARCHAR, approved_at TIMESTAMP",
        "notice": f"notice_id {text}, label {text}, shadow BOOLEAN NOT NULL, target {text}, body {text}, state {text}, tries_count {whole}, "
        "last_at TIMESTAMP, message VARCHAR",
    }.items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS store.{table} ({columns})")


def _least_over_use(connection: duckdb.DuckDBPyConnection) -> None:
    """What over-use comes to at least, in both ledgers of it: what was known before. The file counts as not posted, so that whoever holds it next
    computes what is new beside them."""
    found = connection.execute(
        "SELECT table_name, bool_or(column_name = 'excess_least_gpu_us') FROM duckdb_columns() "
        "WHERE schema_name = 'ledger' AND table_name IN ('excess_entry', 'over_use_entry') GROUP BY table_name"
    ).fetchall()
    for table, is_there in sorted(found):
        if not is_there:
            connection.execute(f"ALTER TABLE ledger.{table} ADD COLUMN excess_least_gpu_us BIGINT")
            connection.execute(f"UPDATE ledger.{table} SET excess_least_gpu_us = excess_gpu_us")
        connection.execute(
            f"CREATE OR REPLACE VIEW ledger.{table.removesuffix('_entry')} AS SELECT * EXCLUDE (run_id, sign, entry_id, is_open) FROM ledger.{table} "
            f"WHERE sign = 1 AND entry_id NOT IN (SELECT entry_id FROM ledger.{table} WHERE sign = -1)"
        )
    if found:
        connection.execute(
            "INSERT INTO store.pending SELECT now() AT TIME ZONE 'UTC' WHERE NOT EXISTS (FROM store.pending)"
        )


MIGRATIONS: Final[tuple[Migration, ...]] = (
    Migration(1, "schemas for facts, dimensions and ledgers", _first),
    Migration(2, "bearer tokens, as SHA-256", _tokens),
    Migration(3, "the mark of facts that the ledgers do not know yet", _pending),
    Migration(4, "rounds that are not posted yet, and where collectors stand", _rounds),
    Migration(5, "days whose facts were exported, reduced or dropped", _retention),
    Migration(6, "measured use in the usage ledger, each basis in columns of its own", _measured_use),
    Migration(7, "zones of nodes", _node_zones),
    Migration(8, "periods, statements, disputes, budgets and notices", _settlement),
    Migration(9, "what over-use comes to at least", _least_over_use),
)


def file_version(connection: duckdb.DuckDBPyConnection) -> int:
    """The last step the file has seen; 0 for a new file."""
    found = connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'store' AND table_name = 'migration'"
    ).fetchone()
    if not found or not found[0]:
        return 0
    row = connection.execute("SELECT coalesce(max(version), 0) FROM store.migration").fetchone()
    return int(row[0]) if row else 0


def migrate(
    connection: duckdb.DuckDBPyConnection,
    migrations: Sequence[Migration] = MIGRATIONS,
    facts: Sequence[type[Fact]] = FACTS,
) -> None:
    """Bring the file to the code's version, all or nothing. Raises UsageError where the file is newer than the code."""
    known = max(step.version for step in migrations)
    version = file_version(connection)
    refuse_newer(version, known)
    connection.execute("BEGIN")
    try:
        connection.execute("CREATE SCHEMA IF NOT EXISTS store")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS store.migration (version BIGINT, name VARCHAR, applied_at TIMESTAMP)"
        )
        for step in migrations:
            if step.version > version:
                step.apply(connection)
                connection.execute(
                    "INSERT INTO store.migration VALUES (?, ?, now() AT TIME ZONE 'UTC')", [step.version, step.name]
                )
        for fact, missing in missing_columns(connection, facts).items():
            _bring_table(connection, fact, missing)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def refuse_newer(version: int, known: int) -> None:
    """Raises UsageError where the file's version is beyond what this code knows."""
    if version > known:
        raise UsageError(
            _(
                "the data directory was written by a newer version (layout {found}; this one knows {known}): upgrade"
            ).format(found=version, known=known)
        )


def missing_columns(
    connection: duckdb.DuckDBPyConnection, facts: Sequence[type[Fact]] = FACTS
) -> dict[type[Fact], list[Column]]:
    """Declared columns that the file's tables lack, of those tables that lack any. Raises UsageError for columns or types that this code does
    not declare. One look at the catalogue for all: each costs as much as a table does."""
    stored: dict[str, list[tuple[str, str]]] = {}
    for table, name, sql_type in connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = 'fact'"
    ).fetchall():
        stored.setdefault(table, []).append((name, sql_type))
    missing = {fact: _missing(fact, stored.get(fact.TABLE, [])) for fact in facts}
    return {fact: columns for fact, columns in missing.items() if columns}


def _missing(fact: type[Fact], stored: Sequence[tuple[str, str]]) -> list[Column]:
    declared = {column.name: column for column in (*columns_of(fact), *KEY_COLUMNS)}
    for name, sql_type in stored:
        if name not in declared or declared[name].sql_type != sql_type:
            raise UsageError(
                _("fact.{table} has a column {name} {type} that this version does not declare: upgrade").format(
                    table=fact.TABLE, name=name, type=sql_type
                )
            )
    present = {name for name, _type in stored}
    return [column for name, column in declared.items() if name not in present]


def _bring_table(connection: duckdb.DuckDBPyConnection, fact: type[Fact], missing: Sequence[Column]) -> None:
    if len(missing) == len(columns_of(fact)) + len(KEY_COLUMNS):
        columns = ", ".join(f'"{c.name}" {c.sql_type}{"" if c.nullable else " NOT NULL"}' for c in missing)
        connection.execute(f"CREATE TABLE fact.{fact.TABLE} ({columns})")
        return
    defaults = {item.name: item.default for item in msgspec.structs.fields(fact)}
    for column in missing:
        connection.execute(f'ALTER TABLE fact.{fact.TABLE} ADD COLUMN "{column.name}" {column.sql_type}')
        default: Any = defaults.get(column.name)
        if default is not None and default is not msgspec.NODEFAULT:
            connection.execute(f'UPDATE fact.{fact.TABLE} SET "{column.name}" = ?', [default])
