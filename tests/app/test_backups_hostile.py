"""Manifests and folders that mean harm are refused in one line before anything is made; and of two backups to one place, one wins."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from steelyard.app import backups
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import StoreDamaged, StoreFailed, UsageError
from steelyard.primitives.instant import parse_instant
from steelyard.store import Store, backup
from steelyard.store.scratch import UnderWay
from steelyard.store.store import FILE_NAME
from tests.app.aged_estate import frame
from tests.app.served_directory import serving, steelyard
from tests.conftest import REPOSITORY

CLOCK = FixedClock(parse_instant("2026-11-08T00:00:00Z"))
TABLE = "tables/fact.node.parquet"


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few facts, nothing posted, and settings."""
    folder = tmp_path_factory.mktemp("estate")
    with Store.open(folder) as store:
        store.append(frame()[:4])
    (folder / "steelyard.toml").write_text("grain_minutes = 60\n", encoding="ascii")
    return folder


@pytest.fixture
def copy(estate: Path, tmp_path: Path) -> Path:
    with Store.open(estate, read_only=True) as store:
        backups.back_up(store, estate, tmp_path / "copy", CLOCK)
    return tmp_path / "copy"


Change = Callable[[dict[str, Any]], object]


def sealed(folder: Path, change: Change) -> None:
    """The manifest changed by somebody who seals it again, as far as what it says has the types that a seal is over."""
    path = folder / backup.MANIFEST
    document = json.loads(path.read_bytes())
    change(document)
    try:
        path.write_bytes(msgspec.json.encode(backup._sealed(msgspec.convert(document, backup.Manifest))))
    except (msgspec.MsgspecError, OverflowError):
        path.write_text(json.dumps(document), encoding="ascii")


def table(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in document["tables"] if each["name"] == "node")
    return found


def of_table(**more: Any) -> Change:
    return lambda document: table(document).update(more)


def of_column(**more: Any) -> Change:
    return lambda document: table(document)["columns"][0].update(more)


def of_file(**more: Any) -> Change:
    return lambda document: document["files"][0].update(more)


def of(**more: Any) -> Change:
    return lambda document: document.update(more)


MANIFESTS: dict[str, Change] = {
    "an instant that is none": of(created_at="junk"),
    "an instant beyond time": of(created_at="99999-01-01T00:00:00Z"),
    "an empty instant": of(created_at=""),
    "an instant that is a number": of(created_at=7),
    "a layout below all": of(layout=-5),
    "layout zero": of(layout=0),
    "a layout that is a text": of(layout="5"),
    "a layout that is a truth": of(layout=True),
    "a layout that is a fraction": of(layout=1.5),
    "a layout without end": of(layout=10**400),
    "a form below all": of(form=0),
    "a form that is a list": of(form=[1]),
    "no form": lambda document: document.pop("form"),
    "a program of control characters": of(program="\x1b[2J"),
    "a program without end": of(program="x" * 100_000),
    "definitions that are a list": of(definitions=[]),
    "definitions of numbers": of(definitions={"a": 1}),
    "definitions of line ends": of(definitions={"a\nb": "1"}),
    "a residual that is a text": of(ledger_residual_gpu_us="0"),
    "a residual without end": of(ledger_residual_gpu_us=10**30),
    "a residual below zero": of(ledger_residual_gpu_us=-1),
    "tables that are an object": of(tables={}),
    "tables that are null": of(tables=None),
    "no tables": of(tables=[]),
    "a table that is a number": of(tables=[7]),
    "a table twice": lambda document: document["tables"].append(dict(table(document))),
    "a schema of its own": of_table(schema="pg_catalog"),
    "a schema that leads out": of_table(schema="../../fact"),
    "rows below zero": of_table(rows_count=-1),
    "rows without end": of_table(rows_count=2**63),
    "bytes below zero": of_table(bytes_count=-1),
    "bytes that are null": of_table(bytes_count=None),
    "a hash that is none": of_table(sha256="x"),
    "no columns": of_table(columns=[]),
    "a column twice": lambda document: table(document)["columns"].append(table(document)["columns"][0]),
    "a column that is a statement": of_column(name='a"; DROP TABLE x; --'),
    "a type that is a statement": of_column(sql_type="VARCHAR); DROP TABLE x; --"),
    "a type that is no type": of_column(sql_type="NO SUCH TYPE"),
    "a type beyond its bounds": of_column(sql_type="DECIMAL(999,999)"),
    "a column that the file has not": of_column(name="no_such_column"),
    "nullable as a text": of_column(nullable="yes"),
    "a file that is the store": of_file(name=FILE_NAME),
    "a file that is the lock": of_file(name="server.lock"),
    "a file that leads out": of_file(name="../x.toml"),
    "a file twice": lambda document: document["files"].append(document["files"][0]),
    "a file that is null": of(files=[None]),
    "a list for a manifest": lambda document: document.clear(),
}  # fmt: skip


def links_tables(folder: Path) -> None:
    shutil.move(folder / "tables", folder.parent / "elsewhere")
    (folder / "tables").symlink_to(folder.parent / "elsewhere", target_is_directory=True)


def links_manifest(folder: Path) -> None:
    shutil.move(folder / "manifest.json", folder.parent / "elsewhere")
    (folder / "manifest.json").symlink_to(folder.parent / "elsewhere")


def links_file(folder: Path) -> None:
    shutil.move(folder / TABLE, folder.parent / "elsewhere")
    (folder / TABLE).symlink_to(folder.parent / "elsewhere")


def waits_for_ever(folder: Path) -> None:
    (folder / TABLE).unlink()
    os.mkfifo(folder / TABLE)


FOLDERS: dict[str, Callable[[Path], object]] = {
    "a folder that is a link": links_tables,
    "a manifest that is a link": links_manifest,
    "a file that is a link": links_file,
    "a further link": lambda folder: (folder / "x").symlink_to("/etc"),
    "a further link to nothing": lambda folder: (folder / "tables" / "x").symlink_to("nowhere"),
    "a pipe for a file": waits_for_ever,
    "a folder for a file": lambda folder: ((folder / TABLE).unlink(), (folder / TABLE).mkdir()),
}


@pytest.mark.parametrize("what", [*MANIFESTS, *FOLDERS])
def test_what_means_harm_is_refused_in_one_line_before_anything_is_made(
    copy: Path, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what in MANIFESTS:
        sealed(copy, MANIFESTS[what])
    else:
        FOLDERS[what](copy)
    made: list[Path] = []
    monkeypatch.setattr(Path, "mkdir", lambda self, *_args, **_more: made.append(self))
    for act in (
        backups.verify,
        lambda source: backups.restore(source, tmp_path / "a" / "back"),
        lambda source: backups.stand_by(source, tmp_path / "b" / "standby", CLOCK),
    ):
        with pytest.raises((StoreDamaged, UsageError)) as raised:
            act(copy)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 2_000
    assert made == []


def test_types_that_the_values_are_not_are_damage_and_nothing_is_left(copy: Path, tmp_path: Path) -> None:
    sealed(copy, lambda document: [each.update(sql_type="BLOB[][]") for each in table(document)["columns"]])
    with pytest.raises(StoreDamaged):
        backups.restore(copy, tmp_path / "a" / "back")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_a_backup_that_is_decent_is_restored(copy: Path, tmp_path: Path) -> None:
    backups.restore(copy, tmp_path / "a" / "back")
    assert {path.name for path in (tmp_path / "a" / "back").iterdir()} == {FILE_NAME, "steelyard.toml", "server.lock"}


@pytest.mark.parametrize("there", [False, True], ids=["a new directory", "an empty one"])
def test_a_restore_that_fails_leaves_nothing_behind(
    copy: Path, tmp_path: Path, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = tmp_path / "a" / "back"
    if there:
        back.mkdir(parents=True)

    def full(_path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backups, "sync", full)
    with pytest.raises(OSError, match="No space"):
        backups.restore(copy, back)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_relative_to(copy)}
    assert left == ({"a", "a/back", "a/back/server.lock"} if there else set())
    monkeypatch.undo()
    backups.restore(copy, back)


def test_what_a_killed_backup_left_goes_with_the_next_one_and_what_a_living_one_writes_stays(
    estate: Path, tmp_path: Path
) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    dead, living = int(ended.stdout), os.getpid()
    for name in (f".kept.unfinished-{dead}", f".kept.unfinished-{living}", ".kept.unfinished", ".other.unfinished-1"):
        (tmp_path / name / "tables").mkdir(parents=True)
        (tmp_path / name / "tables" / "half.parquet").write_bytes(b"x")
    with Store.open(estate, read_only=True) as store:
        backups.back_up(store, estate, tmp_path / "kept", CLOCK)
    backups.verify(tmp_path / "kept")
    assert {path.name for path in tmp_path.iterdir()} == {"kept", f".kept.unfinished-{living}", ".other.unfinished-1"}


KILLED = """
import os, signal, sys
from pathlib import Path
from steelyard.app import backups
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store, backup
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
backup._write_file = die
data, destination = Path(sys.argv[1]), Path(sys.argv[2])
with Store.open(data, read_only=True) as store:
    backups.back_up(store, data, destination, FixedClock(0))
"""


def test_after_a_kill_the_same_backup_is_made_and_nothing_else_is_left(estate: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, estate, tmp_path / "kept"]
    killed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".kept.unfinished"]
    with Store.open(estate, read_only=True) as store:
        backups.back_up(store, estate, tmp_path / "kept", CLOCK)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_of_two_backups_to_one_place_one_wins_and_the_other_hears_so(
    estate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, told = threading.Event(), threading.Event()
    usual = backup._write_file

    def slow(path: Path, folder: Path) -> backup.BackedFile:
        begun.set()
        assert told.wait(60)
        return usual(path, folder)

    monkeypatch.setattr(backup, "_write_file", slow)
    with Store.open(estate, read_only=True) as store:
        first = threading.Thread(target=backups.back_up, args=(store, estate, tmp_path / "kept", CLOCK))
        first.start()
        assert begun.wait(60)
        with pytest.raises(UnderWay, match="being written by another"):
            backups.back_up(store, estate, tmp_path / "kept", CLOCK)
        told.set()
        first.join()
        with pytest.raises(UsageError, match="there already"):
            backups.back_up(store, estate, tmp_path / "kept", CLOCK)
    backups.verify(tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.xdist_group("serving")
def test_the_command_and_the_server_say_that_another_writes_the_same_backup(
    estate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Path(shutil.copytree(estate, tmp_path / "data"))
    (tmp_path / ".kept.unfinished").mkdir()
    held = os.open(tmp_path / ".kept.unfinished", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        alone = steelyard("backup", "kept", "--data", data, cwd=tmp_path)
        with serving(data) as server:
            over_it = steelyard("backup", "kept", "--data", data, cwd=tmp_path)
            transport = httpx.HTTPTransport(uds=str(server.said["socket"]))
            with httpx.Client(transport=transport, base_url="http://x", timeout=60) as client:
                asked = client.post("/api/v1/upkeep/backup", json={"destination": str(tmp_path / "kept")})
    finally:
        os.close(held)
    for ended in (alone, over_it):
        assert (ended.returncode, ended.stdout, ended.stderr.count(b"\n")) == (2, b"", 1)
        assert b"being written by another" in ended.stderr
    assert asked.status_code == 409
    assert not (tmp_path / "kept").exists()


def test_without_space_nothing_of_a_backup_is_left(
    estate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: Any) -> None:
        raise StoreFailed("no space for the store")

    monkeypatch.setattr(backup, "write_rows", full)
    with Store.open(estate, read_only=True) as store, pytest.raises(StoreFailed):
        backups.back_up(store, estate, tmp_path / "kept", CLOCK)
    assert list(tmp_path.iterdir()) == []
