"""A file is brought to a new layout, or freed of its gaps, on a copy: killed anywhere it is the old one or the new one, and never less."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path

import duckdb
import pytest

from steelyard.facts.base import columns_of
from steelyard.facts.node import Node
from steelyard.primitives.errors import InvariantError, StoreFailed, StoreLocked, UsageError
from steelyard.store import Store, durable, migrations, rewriting
from steelyard.store.store import FILE_NAME
from tests.conftest import REPOSITORY

Usage = namedtuple("Usage", "total used free")

LAYOUT = max(step.version for step in migrations.MIGRATIONS)
KEPT = f"{FILE_NAME}.before-layout-{LAYOUT}"
NAMES = [f"n{number}" for number in range(500)]


def nodes() -> list[Node]:
    return [
        Node(source="s", natural_key=name, occurred_at=1_000_000, observed_at=2_000_000, node=name) for name in NAMES
    ]


def older(directory: Path) -> Path:
    """A store with facts, of an older layout: a column and a table that this one has are not there."""
    with Store.open(directory) as store:
        store.append(nodes())
        store.execute("CREATE VIEW ledger.seen AS SELECT node FROM fact.node")
    with duckdb.connect(str(directory / FILE_NAME)) as connection:
        connection.execute("ALTER TABLE fact.node DROP COLUMN gpu_product")
        connection.execute("DROP TABLE store.thinned")
        connection.execute("DROP TABLE store.exported")
        connection.execute("DELETE FROM store.migration WHERE version > 4")
    return directory


def in_file(path: Path) -> tuple[int, int, list[tuple[str]]]:
    """Layout, number of columns of fact.node, and the names of its rows, as they stand in a file."""
    with duckdb.connect(str(path), read_only=True) as connection:
        columns = connection.execute("SELECT count(*) FROM duckdb_columns() WHERE table_name = 'node'").fetchone()
        names = connection.execute("SELECT node FROM fact.node ORDER BY node").fetchall()
        assert columns is not None
        return migrations.file_version(connection), columns[0], names


def test_an_older_file_is_kept_as_it_was_beside_the_migrated_one(tmp_path: Path) -> None:
    older(tmp_path)
    before = in_file(tmp_path / FILE_NAME)
    with Store.open(tmp_path) as store:
        assert store.rows("SELECT count(*), count(gpu_product) FROM fact.node") == [(len(NAMES), 0)]
        assert store.rows("SELECT count(*) FROM ledger.seen") == [(len(NAMES),)]
        assert store.append(nodes()).new == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE_NAME, KEPT]
    assert in_file(tmp_path / KEPT) == before
    assert in_file(tmp_path / FILE_NAME) == (LAYOUT, len(columns_of(Node)) + 2, before[2])


def test_a_column_that_is_always_known_stays_so_in_the_migrated_file(tmp_path: Path) -> None:
    with Store.open(older(tmp_path)) as store, pytest.raises(duckdb.ConstraintException):
        store.execute("INSERT INTO fact.node (cluster) VALUES ('c')")


def test_a_file_in_the_layout_of_this_code_is_opened_as_it_is(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    inode = (tmp_path / FILE_NAME).stat().st_ino
    Store.open(tmp_path).close()
    assert ((tmp_path / FILE_NAME).stat().st_ino, len(list(tmp_path.iterdir()))) == (inode, 1)


def test_without_space_for_a_copy_the_old_file_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older(tmp_path)
    before = (tmp_path / FILE_NAME).read_bytes()
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: Usage(1 << 40, 1 << 40, 1 << 20))
    with pytest.raises(StoreFailed, match="no space"):
        Store.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_a_copy_that_is_not_equal_takes_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older(tmp_path)
    before = in_file(tmp_path / FILE_NAME)
    real = rewriting._compare

    def lost_a_row(connection: duckdb.DuckDBPyConnection, name: str) -> None:
        connection.execute("DELETE FROM fresh.fact.node WHERE node = 'n7'")
        real(connection, name)

    monkeypatch.setattr(rewriting, "_compare", lost_a_row)
    with pytest.raises(InvariantError, match=r"fact\.node is not equal"):
        Store.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert in_file(tmp_path / FILE_NAME) == before


def test_where_a_file_can_have_no_second_name_the_old_one_is_kept_as_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_names: object) -> None:
        raise PermissionError(1, "not here")

    monkeypatch.setattr(os, "link", refuse)
    older(tmp_path)
    before = in_file(tmp_path / FILE_NAME)
    Store.open(tmp_path).close()
    assert in_file(tmp_path / KEPT) == before


KILLED = """
import shutil, sys
from pathlib import Path
from steelyard.store import Store, durable, migrations, rewriting
from tests.store.killed_anywhere import killed_at
template, folder = Path(sys.argv[1]), Path(sys.argv[2])
act = sys.argv[3]
number = 0
while True:
    data = folder / f"d{number}"
    shutil.copytree(template, data)
    def done():
        with Store.open(data) as store:
            if act == "compact":
                assert store.compact(0.1)
    if not killed_at(number, (rewriting, durable), done):
        break
    number += 1
print(number)
"""


def killed_everywhere(template: Path, folder: Path, act: str) -> list[Path]:
    """The directories that are left of an act that was killed at each of its lines, and of one that was not."""
    folder.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, template, folder, act],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr
    left = sorted(folder.iterdir())
    assert len(left) == int(ended.stdout) + 1 > 20
    return left


def test_a_migration_killed_at_any_line_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    template = older(tmp_path / "template")
    old = in_file(template / FILE_NAME)
    new = (LAYOUT, len(columns_of(Node)) + 2, old[2])
    found = set()
    for data in killed_everywhere(template, tmp_path / "killed", "migrate"):
        standing = in_file(data / FILE_NAME)
        assert standing in (old, new)
        found.add(standing[0])
        if standing == new:
            assert in_file(data / KEPT) == old
        with Store.open(data) as store:
            assert store.rows("SELECT count(*) FROM fact.node") == [(len(NAMES),)]
        assert in_file(data / FILE_NAME) == new
        assert sorted(path.name for path in data.iterdir()) == [FILE_NAME, KEPT]
    assert found == {4, LAYOUT}


def with_gaps(directory: Path) -> Path:
    """A store most of whose blocks are free."""
    with Store.open(directory) as store:
        store.append(nodes())
        store.execute("CREATE TABLE store.ballast AS SELECT range AS a, md5(range::VARCHAR) AS b FROM range(400000)")
        store.execute("CHECKPOINT")
        store.execute("DELETE FROM store.ballast WHERE a % 50 <> 0")
    return directory


def test_a_file_with_gaps_becomes_smaller_and_nothing_is_lost(tmp_path: Path) -> None:
    with_gaps(tmp_path)
    size = (tmp_path / FILE_NAME).stat().st_size
    with Store.open(tmp_path) as store:
        assert store.compact()
        assert store.rows("SELECT count(*) FROM store.ballast") == [(8_000,)]
        assert store.append(nodes()).new == 0
        assert not store.compact()
    assert (tmp_path / FILE_NAME).stat().st_size < size / 4
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_killed_at_any_line_a_file_written_anew_holds_all_it_held(tmp_path: Path) -> None:
    template = with_gaps(tmp_path / "template")
    for data in killed_everywhere(template, tmp_path / "killed", "compact"):
        with Store.open(data) as store:
            assert store.rows("SELECT count(*) FROM store.ballast") == [(8_000,)]
            assert store.rows("SELECT count(*) FROM fact.node") == [(len(NAMES),)]


def test_a_reader_keeps_its_view_and_the_exchange_waits_for_it(tmp_path: Path) -> None:
    with Store.open(with_gaps(tmp_path)) as store:
        with store.reader() as reader:
            assert not store.compact(patience_seconds=0)
            assert reader.rows("SELECT count(*) FROM store.ballast") == [(8_000,)]
        done = threading.Event()
        with store.reader() as reader:
            writer = threading.Thread(target=lambda: (store.compact(patience_seconds=60), done.set()))
            writer.start()
            assert reader.rows("SELECT count(*) FROM store.ballast") == [(8_000,)]
        writer.join(60)
        assert done.is_set()
        with store.reader() as reader:
            assert reader.rows("SELECT count(*) FROM store.ballast") == [(8_000,)]


def test_within_a_transaction_no_file_is_written_anew(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.transaction(), pytest.raises(InvariantError):
        store.compact()


def test_nobody_else_gets_hold_of_the_old_file_while_it_is_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older(tmp_path)
    seen = []
    real = durable.rename

    def look(old: Path, new: Path) -> None:
        other = "import sys; from pathlib import Path; from steelyard.store import Store; Store.open(Path(sys.argv[1]))"
        ended = subprocess.run([sys.executable, "-c", other, tmp_path], capture_output=True, text=True)
        seen.append(StoreLocked.__name__ in ended.stderr)
        real(old, new)

    monkeypatch.setattr(rewriting, "rename", look)
    Store.open(tmp_path).close()
    assert seen == [True, True]


def test_a_newer_file_is_not_copied(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.execute("INSERT INTO store.migration VALUES (1000, 'the future', now())")
    with pytest.raises(UsageError, match="newer"):
        Store.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
