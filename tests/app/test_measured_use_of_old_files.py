"""A file of layout 5, whose usage rows have no columns of measured use: it migrates, posts again, and says nothing of days whose samples went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from steelyard.app.posting import post
from steelyard.app.retention import run_retention
from steelyard.store import Store
from steelyard.store.migrations import MIGRATIONS, file_version
from tests.app.aged_estate import CLOCK, SETTINGS, aged
from tests.store.test_rewriting import FILE_NAME, KEPT

MEASURED = (
    "engine_upper_gpu_us", "sm_gpu_us", "dram_gpu_us", "used_gpu_us", "used_of_gpu_us",
    "engine_observed_us", "sm_observed_us", "dram_observed_us", "used_observed_us",
)  # fmt: skip
THINNED = "date_trunc('day', grain_at) IN (SELECT day_at FROM store.thinned WHERE level IN ('reduced', 'dropped'))"


def book(store: Store, where: str, names: str = "* EXCLUDE (is_open)") -> list[tuple[Any, ...]]:
    """The usage ledger's rows as they stand, by column name."""
    net = "SELECT * FROM ledger.usage_entry WHERE sign = 1 AND entry_id NOT IN (SELECT entry_id FROM ledger.usage_entry WHERE sign = -1)"
    return store.rows(f"SELECT {names} FROM ({net}) AS net WHERE {where} ORDER BY ALL")


OLD = f"* EXCLUDE ({', '.join(MEASURED)}, used_basis, run_id, entry_id)"
NEW = (
    "cluster, device_uuid, gi, grain_at, pod_uid, path, used_basis, memory_mib_us, memory_peak_mib, memory_p99_mib, compute_upper_gpu_us, "
    f"observed_us, compute_observed_us, samples_count, unknown_reason, sign, is_open, {', '.join(MEASURED)}"
)


def as_layout_five(path: Path) -> None:
    """Takes from a file what the steps after layout 5 brought, and what a posting of then would not have written."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("DROP VIEW ledger.usage")
        for column in MEASURED:
            connection.execute(f"ALTER TABLE ledger.usage_entry DROP COLUMN {column}")
        connection.execute(
            "UPDATE ledger.usage_entry SET used_basis = "
            "CASE WHEN compute_upper_gpu_us IS NOT NULL THEN 'util_gpu_203_upper_bound' ELSE 'memory_only' END"
        )
        connection.execute("UPDATE ledger.usage_hour SET basis = 'the formulas of then'")
        connection.execute("DROP TABLE dim.node_zone")
        connection.execute("DELETE FROM store.migration WHERE version > 5")
        connection.execute(
            "CREATE VIEW ledger.usage AS SELECT * EXCLUDE (run_id, sign, entry_id, is_open) FROM ledger.usage_entry WHERE sign = 1 "
            "AND entry_id NOT IN (SELECT entry_id FROM ledger.usage_entry WHERE sign = -1)"
        )
        assert file_version(connection) == 5


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """A thinned directory of layout 5; the rows of its thinned days without their use, and those of its other days as they ought to be."""
    directory = aged(tmp_path_factory.mktemp("old"))
    with Store.open(directory) as store:
        run_retention(store, directory, SETTINGS, CLOCK)
        thinned, whole = book(store, THINNED, OLD), book(store, f"NOT {THINNED}", NEW)
    as_layout_five(directory / FILE_NAME)
    return directory, thinned, whole


@pytest.fixture
def directory(old: tuple[Path, list[Any], list[Any]], tmp_path: Path) -> Path:
    (tmp_path / FILE_NAME).write_bytes((old[0] / FILE_NAME).read_bytes())
    return tmp_path


NULLS = " AND ".join(f"{column} IS NULL" for column in MEASURED)


def test_on_opening_the_columns_are_there_and_not_known(
    directory: Path, old: tuple[Path, list[Any], list[Any]]
) -> None:
    with Store.open(directory) as store:
        assert store.rows("SELECT max(version) FROM store.migration") == [(MIGRATIONS[-1].version,)]
        assert book(store, THINNED, OLD) == old[1]
        rows = len(old[1]) + len(old[2])
        assert store.rows(f"SELECT count(*) FROM ledger.usage WHERE {NULLS}") == [(rows,)]
        assert store.rows("SELECT count(*) FROM ledger.usage WHERE used_basis LIKE 'max_%'") == [(0,)]
    with duckdb.connect(str(directory / KEPT), read_only=True) as connection:
        assert file_version(connection) == 5


def test_the_next_posting_measures_whole_days_and_leaves_thinned_ones_unknown(
    directory: Path, old: tuple[Path, list[Any], list[Any]]
) -> None:
    with Store.open(directory) as store:
        assert post(store, SETTINGS, CLOCK) > 0
        assert book(store, THINNED, OLD) == old[1]
        assert book(store, f"{THINNED} AND NOT ({NULLS})") == []
        assert book(store, f"NOT {THINNED}", NEW) == old[2]
        assert len(book(store, f"NOT {THINNED} AND used_gpu_us IS NOT NULL AND path = 'exclusive'")) > 0
        assert store.rows(
            "SELECT count(*) FROM ledger.usage_entry WHERE run_id NOT IN (SELECT run_id FROM ledger.posting_run)"
        ) == [(0,)]
        assert post(store, SETTINGS, CLOCK) == 0
    with Store.open(directory) as store:
        assert book(store, f"NOT {THINNED}", NEW) == old[2]
