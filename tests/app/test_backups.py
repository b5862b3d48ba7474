"""A backup is whole or not there, tells what became of it in one line, and gives back the same answers; also while a server writes."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from steelyard.app import backups
from steelyard.app.retention import run_retention
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import StoreDamaged, StoreFailed, UsageError
from steelyard.primitives.instant import DAY_US, parse_instant
from steelyard.store import Store, backup, durable
from steelyard.store.migrations import MIGRATIONS
from steelyard.store.store import FILE_NAME
from tests.app.aged_estate import CLOCK, DAYS, SETTINGS, aged, frame, instants, samples
from tests.app.served_directory import serving, steelyard
from tests.conftest import REPOSITORY

TABLE = "tables/ledger.supply_entry.parquet"


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Posted; the last day has not come yet."""
    return aged(tmp_path_factory.mktemp("estate"), days=range(DAYS - 1))


@pytest.fixture(scope="module")
def kept(estate: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    destination = tmp_path_factory.mktemp("kept") / "one"
    with Store.open(estate, read_only=True) as store:
        backups.back_up(store, estate, destination, CLOCK)
    return destination


@pytest.fixture
def copy(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "copy"))


def answers(data: Path) -> list[dict[str, Any]]:
    found = []
    for number in (1, 2):
        ended = steelyard(f"q{number}", "--json", "--data", data, cwd=data)
        assert ended.returncode == 0, ended.stderr
        found.append(json.loads(ended.stdout))
    return found


def rows_of(data: Path) -> dict[str, list[tuple[Any, ...]]]:
    with duckdb.connect(str(data / FILE_NAME), read_only=True) as connection:
        tables = connection.execute("SELECT schema_name, table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        return {
            f"{schema}.{name}": connection.execute(f'SELECT * FROM "{schema}"."{name}" ORDER BY ALL').fetchall()
            for schema, name in tables
        }


def test_a_restored_directory_holds_the_same_rows_and_answers_byte_for_byte(
    estate: Path, kept: Path, tmp_path: Path
) -> None:
    report = backups.restore(kept, tmp_path / "back")
    assert report.residual_gpu_us == 0
    assert rows_of(tmp_path / "back") == rows_of(estate)
    assert answers(tmp_path / "back") == answers(estate)
    with Store.open(tmp_path / "back") as store:
        assert store.append(frame()).new == 0
        with pytest.raises(duckdb.ConstraintException):
            store.execute("INSERT INTO fact.node (cluster) VALUES ('c')")


def test_a_whole_backup_is_found_whole_and_no_data_directory_is_touched(kept: Path, estate: Path) -> None:
    before = {path: path.stat().st_mtime_ns for folder in (kept, estate) for path in folder.rglob("*")}
    report = backups.verify(kept)
    assert (report.residual_gpu_us, report.layout, report.created_at) == (0, MIGRATIONS[-1].version, CLOCK.now())
    assert {path: path.stat().st_mtime_ns for folder in (kept, estate) for path in folder.rglob("*")} == before


def resealed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The manifest changed by somebody who seals it again."""
    path = folder / backup.MANIFEST
    document = json.loads(path.read_bytes())
    change(document)
    manifest = msgspec.convert(document, backup.Manifest)
    path.write_bytes(msgspec.json.encode(backup._sealed(manifest)))


def flipped(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def rewritten(folder: Path) -> None:
    """A table with a posting less, and a manifest that says so: hashes and counts agree, and the books do not close."""
    path = folder / TABLE
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * FROM '{path}' WHERE account <> 'held' OR entry_id <> (SELECT min(entry_id) FROM '{path}' "
            f"WHERE account = 'held' AND amount_gpu_us > 0)) TO '{path}.new' (FORMAT parquet)"
        )
    Path(f"{path}.new").rename(path)

    def said(document: dict[str, Any]) -> None:
        (table,) = (table for table in document["tables"] if table["name"] == "supply_entry")
        table.update(
            rows_count=table["rows_count"] - 1, bytes_count=path.stat().st_size, sha256=durable.sha256_of(path)
        )

    resealed(folder, said)


DAMAGES: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "half written": (lambda folder: (folder / "manifest.json").unlink(), UsageError, "no finished backup"),
    "a manifest cut off": (lambda folder: (folder / "manifest.json").write_bytes(b'{"form": 1, "lay'), StoreDamaged, "cannot be read"),
    "a manifest of nonsense": (lambda folder: (folder / "manifest.json").write_bytes(b"[" * 100_000), StoreDamaged, "cannot be read"),
    "a manifest changed": (
        lambda folder: (folder / "manifest.json").write_bytes(
            (folder / "manifest.json").read_bytes().replace(b'"residual', b'"residual').replace(b"2026-11-07", b"2026-11-08")
        ),
        StoreDamaged,
        "not what was written",
    ),
    "a bit flipped": (lambda folder: flipped(folder / TABLE, 100), StoreDamaged, "sha256"),
    "a file cut off": (lambda folder: (folder / TABLE).write_bytes((folder / TABLE).read_bytes()[:-7]), StoreDamaged, "bytes"),
    "a file gone": (lambda folder: (folder / TABLE).unlink(), StoreDamaged, "not there"),
    "a file more": (lambda folder: (folder / "tables/x.parquet").write_bytes(b"x"), StoreDamaged, "does not name"),
    "a link for a file": (
        lambda folder: ((folder / TABLE).rename(folder.parent / "x"), (folder / TABLE).symlink_to(folder.parent / "x")),
        StoreDamaged,
        "no links",
    ),
    "a newer layout": (lambda folder: resealed(folder, lambda m: m.update(layout=1_000)), UsageError, "newer version"),
    "a newer form": (
        lambda folder: (folder / "manifest.json").write_bytes(b'{"form": 2, "what": "ever"}'), UsageError, "newer version"
    ),
    "a count that is wrong": (
        lambda folder: resealed(folder, lambda m: m["tables"][0].update(rows_count=7)), StoreDamaged, "expected 7 rows"
    ),
    "a name that is a statement": (
        lambda folder: resealed(folder, lambda m: m["tables"][0].update(name='x" AS SELECT 1; DROP TABLE y; --')),
        StoreDamaged,
        "not what was written",
    ),
    "a path that leads out": (
        lambda folder: resealed(folder, lambda m: m.update(files=[{"name": "../../x", "bytes_count": 1, "sha256": ""}])),
        StoreDamaged,
        "not what was written",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_backup_that_is_not_whole_is_told_in_one_line_and_nothing_is_made_of_it(
    copy: Path, tmp_path: Path, damage: str
) -> None:
    harm, error, words = DAMAGES[damage]
    harm(copy)
    for act in (backups.verify, lambda source: backups.restore(source, tmp_path / "back")):
        with pytest.raises(error, match=words) as raised:
            act(copy)
        assert "\n" not in str(raised.value)
        assert not (tmp_path / "back").exists()


def test_books_that_do_not_close_are_found_though_every_hash_agrees(copy: Path) -> None:
    rewritten(copy)
    with pytest.raises(StoreDamaged, match="do not close"):
        backups.verify(copy)


def test_books_of_a_version_without_one_of_the_ledgers_are_posted_anew_to_be_judged(copy: Path, tmp_path: Path) -> None:
    (copy / "tables/ledger.usage_entry.parquet").unlink()
    resealed(copy, lambda m: m.update(tables=[table for table in m["tables"] if table["name"] != "usage_entry"]))
    assert backups.verify(copy).residual_gpu_us == 0
    report = backups.stand_by(copy, tmp_path / "standby", CLOCK)
    assert report.backup.residual_gpu_us == 0
    answers(tmp_path / "standby")


@pytest.mark.parametrize(
    ("damage", "code"), [("a bit flipped", 3), ("a newer layout", 2), ("half written", 2), ("a file gone", 3)]
)
def test_the_command_ends_with_the_code_of_who_is_at_fault(copy: Path, tmp_path: Path, damage: str, code: int) -> None:
    DAMAGES[damage][0](copy)
    ended = steelyard("verify-backup", copy, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr.count(b"\n")) == (code, b"", 1)


def test_nothing_that_is_there_is_written_over(estate: Path, kept: Path, tmp_path: Path) -> None:
    with Store.open(estate, read_only=True) as store, pytest.raises(UsageError, match="there already"):
        backups.back_up(store, estate, kept, CLOCK)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("x", encoding="ascii")
    with pytest.raises(UsageError, match="not empty"):
        backups.restore(kept, full)
    with pytest.raises(UsageError, match="not empty"):
        backups.stand_by(kept, full, CLOCK)
    assert [path.name for path in full.iterdir()] == ["mine"]


def test_the_settings_come_with_it_and_only_the_owner_may_look_in(estate: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(estate, tmp_path / "data"))
    (data / "steelyard.toml").write_text("grain_minutes = 60\n", encoding="ascii")
    with Store.open(data) as store:
        backups.back_up(store, data, tmp_path / "kept", CLOCK)
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    backups.verify(tmp_path / "kept")
    backups.restore(tmp_path / "kept", tmp_path / "back")
    assert (tmp_path / "back" / "steelyard.toml").read_text(encoding="ascii") == "grain_minutes = 60\n"


def test_a_backup_of_an_older_layout_is_migrated_when_it_is_restored(estate: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(estate, tmp_path / "data"))
    with Store.open(data) as store:
        store.execute("DROP TABLE store.thinned")
        store.execute("DROP TABLE store.exported")
        store.execute("DELETE FROM store.migration WHERE version > 4")
        store.execute("ALTER TABLE fact.node DROP COLUMN gpu_product")
        assert backups.back_up(store, data, tmp_path / "kept", CLOCK).layout == 4
    backups.restore(tmp_path / "kept", tmp_path / "back")
    with Store.open(tmp_path / "back", read_only=True) as store:
        assert store.rows("SELECT max(version) FROM store.migration") == [(MIGRATIONS[-1].version,)]
    assert answers(tmp_path / "back") == answers(estate)


KILLED = """
import sys
from pathlib import Path
from steelyard.app import backups
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store, backup, durable, parquet_files
from tests.store.killed_anywhere import killed_at
folder = Path(sys.argv[1])
number = 0
def act():
    with Store.open(folder / "data", read_only=True) as store:
        backups.back_up(store, folder / "data", folder / f"kept{number}", FixedClock(0))
while killed_at(number, (backup, durable, parquet_files), act):
    number += 1
print(number)
"""


def test_killed_at_any_line_a_backup_is_whole_or_has_no_name(tmp_path: Path) -> None:
    with Store.open(tmp_path / "data") as store:
        store.append(frame()[:4])
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path], cwd=REPOSITORY, capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stderr
    number = int(ended.stdout)
    assert number > 20
    named = sorted(tmp_path.glob("kept*"))
    assert tmp_path / f"kept{number}" in named
    assert 0 < len(named) < number
    for destination in named:
        backup.check_files(destination, backup.read_manifest(destination))


def test_without_space_for_it_nothing_is_restored(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_folder: Path, _needed: int) -> None:
        raise StoreFailed("no space")

    monkeypatch.setattr(backup, "check_space", full)
    with pytest.raises(StoreFailed, match="no space"):
        backups.restore(kept, tmp_path / "back")
    assert not (tmp_path / "back" / FILE_NAME).exists()
    monkeypatch.undo()
    backups.restore(kept, tmp_path / "back")


@pytest.mark.xdist_group("serving")
def test_a_served_directory_is_backed_up_while_it_is_written_to(estate: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(estate, tmp_path / "data"))
    before = answers(data)
    smi = tmp_path / "x.csv"
    smi.write_text("timestamp, uuid, memory.used [MiB]\n2026/11/06 01:00:00.000, GPU-a, 5 MiB\n", encoding="ascii")
    with serving(data) as server:
        writing = threading.Thread(target=steelyard, args=("import", smi, "--data", data), kwargs={"cwd": tmp_path})
        writing.start()
        ended = steelyard("backup", "kept", "--data", data, "--json", cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        writing.join()
        assert json.loads(ended.stdout)["path"] == str(tmp_path / "kept")
        again = steelyard("backup", "kept", "--data", data, cwd=tmp_path)
        assert (again.returncode, again.stderr.count(b"\n")) == (2, 1)
        dry = steelyard("retention", "--dry-run", "--data", data, "--json", cwd=tmp_path)
        assert (dry.returncode, json.loads(dry.stdout)["dry_run"]) == (0, True)
        token = json.loads(
            steelyard(
                "token", "create", "--role", "admin", "--name", "a", "--data", data, "--json", cwd=tmp_path
            ).stdout
        )
        asked = subprocess.run(
            ["curl", "-s", "-X", "POST", "-H", f"Authorization: Bearer {token['secret']}", "-H", "Content-Type: application/json",
             "-d", json.dumps({"destination": str(tmp_path / "taken")}), f"{server.said['address']}/api/v1/upkeep/backup"],
            capture_output=True, check=True,
        )  # fmt: skip
        assert json.loads(asked.stdout)["status"] == 403
        assert not (tmp_path / "taken").exists()
    backups.verify(tmp_path / "kept")
    backups.restore(tmp_path / "kept", tmp_path / "back")
    assert answers(tmp_path / "back") in (before, answers(data))


def test_a_standby_has_the_newest_backup_and_the_exports_written_since(
    estate: Path, kept: Path, tmp_path: Path
) -> None:
    live = Path(shutil.copytree(estate, tmp_path / "live"))
    copies = tmp_path / "copies"
    shutil.copytree(kept, copies / "backups" / "new")
    with Store.open(live) as store:
        store.append([fact for at in instants(DAYS - 1) for fact in samples(at)])
        store.mark_unposted()
        run_retention(
            store,
            live,
            SETTINGS.model_copy(update={"retention": type(SETTINGS.retention)()}),
            FixedClock(CLOCK.now() + DAY_US),
        )
        backups.post(store, SETTINGS, CLOCK)
    shutil.copytree(live / "facts", copies / "facts")
    report = backups.stand_by(copies, tmp_path / "standby", CLOCK)
    assert report.exports_count > 0
    assert report.new_count == len(instants(DAYS - 1)) * 7
    assert report.facts_until == parse_instant("2026-11-07T00:00:00Z")
    assert answers(tmp_path / "standby") == answers(live)
    again = backups.stand_by(copies, tmp_path / "standby", CLOCK)
    assert (again.new_count, again.facts_until) == (report.new_count, report.facts_until)
    assert answers(tmp_path / "standby") == answers(live)
    with Store.open(tmp_path / "standby") as store:
        store.append(samples(CLOCK.now()))
    with pytest.raises(UsageError, match="written to"):
        backups.stand_by(copies, tmp_path / "standby", CLOCK)


def test_a_standby_takes_the_newest_of_several_backups_and_minds_no_other_folders(
    estate: Path, kept: Path, tmp_path: Path
) -> None:
    shutil.copytree(kept, tmp_path / "copies" / "b")
    with Store.open(estate, read_only=True) as store:
        backups.back_up(store, estate, tmp_path / "copies" / "a", FixedClock(CLOCK.now() + DAY_US))
    (tmp_path / "copies" / "c").mkdir()
    (tmp_path / "copies" / "c" / "manifest.json").write_text("{}", encoding="ascii")
    assert backups.stand_by(tmp_path / "copies", tmp_path / "s", CLOCK).backup.created_at == CLOCK.now() + DAY_US
    with pytest.raises(UsageError, match="no backup"):
        backups.stand_by(tmp_path / "copies" / "c", tmp_path / "t", CLOCK)
