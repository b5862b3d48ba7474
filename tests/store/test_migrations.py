"""A file grows with the code, is never rewritten by older code, and a migration happens whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import duckdb
import pytest

from steelyard.facts.base import Fact
from steelyard.facts.registry import FACTS
from steelyard.primitives.errors import UsageError
from steelyard.store import Store
from steelyard.store.appending import fact_id_sql
from steelyard.store.migrations import MIGRATIONS, Migration, file_version, migrate
from steelyard.store.store import FILE_NAME


class Cup(Fact, frozen=True, kw_only=True):
    TABLE: ClassVar[str] = "cup"
    colour: str


class LaterCup(Fact, frozen=True, kw_only=True):
    TABLE: ClassVar[str] = "cup"
    colour: str
    handles: int = 1
    glaze: str | None = None
    cracked: bool = False


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as opened:
        yield opened


def columns(connection: duckdb.DuckDBPyConnection) -> set[str]:
    return {
        name
        for (name,) in connection.execute(
            "SELECT column_name FROM duckdb_columns() WHERE table_name = 'cup'"
        ).fetchall()
    }


def test_columns_that_a_class_gained_are_added_with_their_defaults_and_old_rows_stay(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    migrate(connection, facts=(Cup,))
    connection.execute("INSERT INTO fact.cup VALUES ('c', 's', 'k', now(), now(), 'red', 'id', NULL)")
    migrate(connection, facts=(LaterCup,))
    assert connection.execute("SELECT colour, handles, glaze, cracked, fact_id FROM fact.cup").fetchall() == [
        ("red", 1, None, False, "id")
    ]


def test_a_column_at_its_default_does_not_change_the_identity_of_a_fact(connection: duckdb.DuckDBPyConnection) -> None:
    row = "SELECT 'c' AS cluster, 's' AS source, 'k' AS natural_key, TIMESTAMP '2026-01-01' AS occurred_at, 'red' AS colour"
    later = f"{row}, 1::BIGINT AS handles, NULL::VARCHAR AS glaze, false AS cracked"
    old = connection.execute(f"SELECT {fact_id_sql(Cup)} FROM ({row})").fetchall()
    new = connection.execute(f"SELECT {fact_id_sql(LaterCup)} FROM ({later})").fetchall()
    other = connection.execute(f"SELECT {fact_id_sql(LaterCup)} FROM ({later.replace('1::', '2::')})").fetchall()
    assert old == new
    assert new != other


def test_each_step_runs_once(connection: duckdb.DuckDBPyConnection) -> None:
    ran = []
    steps = (*MIGRATIONS, Migration(99, "count", lambda _connection: ran.append(1)))
    for _ in range(3):
        migrate(connection, steps, facts=(Cup,))
    assert (ran, file_version(connection)) == ([1], 99)


def test_a_step_that_fails_leaves_the_file_as_it_was(connection: duckdb.DuckDBPyConnection) -> None:
    migrate(connection, facts=(Cup,))

    def fail(inner: duckdb.DuckDBPyConnection) -> None:
        inner.execute("ALTER TABLE fact.cup ADD COLUMN half_done BIGINT")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        migrate(connection, (*MIGRATIONS, Migration(99, "fail", fail)), facts=(Cup,))
    assert "half_done" not in columns(connection)
    assert file_version(connection) == MIGRATIONS[-1].version


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path, read_only: bool) -> None:
    Store.open(tmp_path).close()
    with duckdb.connect(str(tmp_path / FILE_NAME)) as connection:
        connection.execute("INSERT INTO store.migration VALUES (1000, 'the future', now())")
    with pytest.raises(UsageError, match="newer"):
        Store.open(tmp_path, read_only=read_only)


@pytest.mark.parametrize("change", ["ADD COLUMN colour VARCHAR", "ALTER COLUMN gpu_count TYPE VARCHAR"])
def test_columns_that_this_code_does_not_declare_are_a_newer_file(tmp_path: Path, change: str) -> None:
    Store.open(tmp_path).close()
    with duckdb.connect(str(tmp_path / FILE_NAME)) as connection:
        connection.execute(f"ALTER TABLE fact.node {change}")
    with pytest.raises(UsageError, match="upgrade"):
        Store.open(tmp_path)


def test_a_file_of_an_older_version_is_not_read_before_it_is_migrated(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    with duckdb.connect(str(tmp_path / FILE_NAME)) as connection:
        connection.execute("ALTER TABLE fact.node DROP COLUMN gpu_product")
    with pytest.raises(UsageError, match="older"):
        Store.open(tmp_path, read_only=True)
    Store.open(tmp_path).close()
    Store.open(tmp_path, read_only=True).close()


def test_every_table_has_a_name_of_its_own() -> None:
    assert len({fact.TABLE for fact in FACTS}) == len(FACTS)


def test_over_use_that_was_posted_before_is_at_least_what_was_known_and_is_posted_again(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    migrate(connection, [step for step in MIGRATIONS if step.version < 9])
    connection.execute(
        "CREATE TABLE ledger.excess_entry (run_id BIGINT, sign BIGINT, entry_id BIGINT, is_open BOOLEAN, excess_gpu_us BIGINT)"
    )
    connection.execute(
        "INSERT INTO ledger.excess_entry VALUES (1, 1, 1, FALSE, 7), (1, 1, 2, FALSE, NULL), (1, 1, 3, FALSE, 9), (2, -1, 3, FALSE, 9)"
    )
    migrate(connection)
    found = connection.execute(
        "SELECT excess_gpu_us, excess_least_gpu_us FROM ledger.excess ORDER BY 1 NULLS LAST"
    ).fetchall()
    assert found == [(7, 7), (None, None)]
    assert connection.execute("SELECT count(*) FROM store.pending").fetchall() == [(1,)]


def test_a_file_without_ledgers_of_over_use_has_nothing_to_post(connection: duckdb.DuckDBPyConnection) -> None:
    migrate(connection)
    assert connection.execute("SELECT count(*) FROM store.pending").fetchall() == [(0,)]
