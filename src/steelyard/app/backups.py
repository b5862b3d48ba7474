"""Backups of a data directory, their check, their return, and a standby made of them and the daily exports.

``app.upkeep`` calls these. The trick to know: a directory is made beside its place, in ``.restoring`` within it, and its store gets its name last, so
what was cut off is made anew and never served.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from steelyard.app.asking import check_posted
from steelyard.app.holding import LOCK_FILE, DirectoryClaim, is_claimed, served_by
from steelyard.app.period_archives import is_archive, pack_periods, unpack_period
from steelyard.app.posting import post
from steelyard.app.settings import FILE_NAME as SETTINGS_FILE
from steelyard.app.settings import load_settings
from steelyard.definitions.registry import DEFINITIONS
from steelyard.facts.registry import FACTS
from steelyard.ledgers.posting import ensure_ledgers
from steelyard.ledgers.registry import LEDGERS
from steelyard.primitives.clock import Clock, WallClock
from steelyard.primitives.errors import StoreDamaged, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, format_instant, parse_instant
from steelyard.store import Store
from steelyard.store.backup import (
    MANIFEST,
    Manifest,
    check_files,
    damage_told,
    is_backup,
    load_backup,
    read_manifest,
    restore_files,
    write_backup,
)
from steelyard.store.durable import rename, sync, write_whole
from steelyard.store.exports import load_exports
from steelyard.store.store import FILE_NAME
from steelyard.surfaces.shared.upkeep_ports import BackupReport, StandbyReport

EXPORTS: Final = "facts"
STANDBY_MARK: Final = "standby.json"
LAST_BACKUP: Final = "last-backup.json"
_SCRATCH: Final = ".restoring"
_HARMLESS: Final = frozenset({_SCRATCH, "server.lock", "lost+found"})


def back_up(store: Store, directory: Path, destination: Path, clock: Clock) -> BackupReport:
    """Write what the store holds now to ``destination``, with the settings file and the closed periods of the directory.

    Raises UsageError where that is there.
    """
    settings = directory / SETTINGS_FILE
    with store.reader() as reader, tempfile.TemporaryDirectory(prefix="steelyard-periods-") as packed:
        closed = pack_periods(directory, Path(packed))
        manifest = write_backup(
            reader,
            destination,
            program=version("steelyard"),
            created_at=format_instant(clock.now()),
            definitions={entry.name: entry.version for entry in DEFINITIONS},
            residual_gpu_us=_residual(reader),
            files=[*([settings] if settings.is_file() else []), *closed],
        )
    with suppress(OSError):  # the backup is whole; that the directory cannot note it takes nothing from it
        mark = {"created_at": manifest.created_at, "path": str(destination.absolute())}
        write_whole(directory / LAST_BACKUP, json.dumps(mark).encode("ascii") + b"\n")
    return _report(destination, manifest)


def last_backup_at(directory: Path) -> Instant | None:
    """When the directory was backed up last, as it noted; None where it noted none."""
    try:
        return parse_instant(json.loads((directory / LAST_BACKUP).read_bytes())["created_at"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def verify(source: Path) -> BackupReport:
    """Check a backup: files, hashes, counts, and that its books close. Raises StoreDamaged or UsageError as ``Upkeep.verify``."""
    manifest = read_manifest(source)
    check_files(source, manifest)
    with tempfile.TemporaryDirectory(prefix="steelyard-verify-") as scratch, damage_told(source):
        load_backup(source, manifest, Path(scratch), schemas=("store", "dim", "ledger"))
        with Store.open(Path(scratch)) as store:
            _lay_views(store)
            residual = _residual(store)
    if residual is None and manifest.ledger_residual_gpu_us is not None:
        residual = _residual_posted_anew(source, manifest, WallClock())
    if residual != manifest.ledger_residual_gpu_us or residual:
        raise StoreDamaged(
            _(
                "{path}: its books do not close: the residual is {found} GPU-microseconds, the manifest says {expected}"
            ).format(path=source, found=residual, expected=manifest.ledger_residual_gpu_us)
        )
    return _report(source, manifest)


def restore(source: Path, directory: Path) -> BackupReport:
    """Make an empty directory from a backup. Raises UsageError where something is in it, and as ``read_manifest`` and ``check_files``."""
    manifest = read_manifest(source)
    check_files(source, manifest)
    _refuse_unless_empty(directory, _HARMLESS)
    with _nothing_left_of(directory), DirectoryClaim(directory):
        _refuse_unless_empty(directory, _HARMLESS)
        _make(source, manifest, directory, lambda store: None)
    return _report(source, manifest)


@contextmanager
def _nothing_left_of(directory: Path) -> Iterator[None]:
    """Where what is done within fails, the folders that it made for ``directory`` go again."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        for path in missing:
            if path == directory:
                (path / LOCK_FILE).unlink(missing_ok=True)
            with suppress(OSError):  # somebody else put something there
                path.rmdir()
        raise


def stand_by(source: Path, directory: Path, clock: Clock) -> StandbyReport:
    """Make ``directory`` from the newest backup below ``source`` and the exports written since, and post. A standby of before is replaced.

    Raises UsageError where there is no backup, where the directory holds something else than a standby, or one that was written to since.
    """
    backup, manifest = _newest(source)
    check_files(backup, manifest)
    if is_claimed(directory):
        raise served_by(directory)
    _refuse_unless_standby(directory)
    found: list[tuple[int, int]] = []

    def catch_up(store: Store) -> None:
        with store.transaction():
            loaded = load_exports(store, FACTS, source / EXPORTS, parse_instant(manifest.created_at))
            if loaded[1]:
                store.mark_collected()
        was_posted = bool(store.rows("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'posting_run'")[0][0])
        if store.has_collected() or (was_posted and not _is_posted(store)):
            post(store, load_settings(directory / _SCRATCH), clock)
        found.append(loaded)

    with DirectoryClaim(directory):
        _refuse_unless_standby(directory)
        (directory / STANDBY_MARK).unlink(missing_ok=True)
        until = _make(backup, manifest, directory, catch_up)
        mark = {"made_of": backup.name, "made_at": format_instant(clock.now()), "store": _trace(directory)}
        write_whole(directory / STANDBY_MARK, json.dumps(mark).encode("ascii") + b"\n")
    files_count, new_count = found[0]
    return StandbyReport(_report(backup, manifest), files_count, new_count, until)


def _make(source: Path, manifest: Manifest, directory: Path, more: Callable[[Store], None]) -> Instant | None:
    """The store of the directory, whole or not at all; the latest instant at which one of its facts was seen."""
    scratch = directory / _SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        restore_files(source, manifest, scratch)
        with damage_told(source):
            load_backup(source, manifest, scratch)
            with Store.open(scratch) as store:
                _lay_views(store)
                more(store)
                until = _seen_until(store)
                store.execute("CHECKPOINT")
        sync(scratch / FILE_NAME)
        for file in manifest.files:
            if is_archive(file.name):
                unpack_period(scratch / file.name, directory)
            else:
                rename(scratch / file.name, directory / file.name)
        rename(scratch / FILE_NAME, directory / FILE_NAME)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return until


def _lay_views(store: Store) -> None:
    """The ledgers' views, which belong to the code and not to a backup; of the ledgers that it holds."""
    tables = {name for (name,) in store.rows("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'ledger'")}
    held = [ledger for ledger in LEDGERS if f"{ledger.name}_entry" in tables]
    if "posting_run" in tables:
        ensure_ledgers(store, held)


def _residual(store: Store) -> int | None:
    """Supply less all accounts, absolute; None where this code finds nothing posted that it can sum up."""
    if not _is_posted(store):
        return None
    from steelyard.answers.listings import books

    return books(store).residual_gpu_us


def _is_posted(store: Store) -> bool:
    try:
        check_posted(store, Path())
    except UsageError:
        return False
    return True


def _residual_posted_anew(source: Path, manifest: Manifest, clock: Clock) -> int | None:
    """The residual of books that another version posted: all facts loaded aside and posted by this one."""
    with tempfile.TemporaryDirectory(prefix="steelyard-verify-") as name:
        scratch = Path(name)
        load_backup(source, manifest, scratch)
        restore_files(source, manifest, scratch)
        with Store.open(scratch) as store:
            post(store, load_settings(scratch), clock)
            return _residual(store)


def _seen_until(store: Store) -> Instant | None:
    latest = " UNION ALL ".join(f"SELECT max(observed_at) AS seen_at FROM fact.{fact.TABLE}" for fact in FACTS)
    found = store.rows(f"SELECT epoch_us(max(seen_at)) FROM ({latest}) AS latest")[0][0]
    return None if found is None else int(found)


def _newest(source: Path) -> tuple[Path, Manifest]:
    """The newest finished backup: ``source`` itself, or a folder up to two levels below it."""
    folders = [
        path.parent for pattern in (MANIFEST, f"*/{MANIFEST}", f"*/*/{MANIFEST}") for path in source.glob(pattern)
    ]
    folders = [path for path in folders if not path.name.startswith(".") and is_backup(path)]
    if not folders:
        raise UsageError(
            _("no backup in {path}: expected a folder with {file} in it").format(path=source, file=MANIFEST)
        )
    manifests = {path: read_manifest(path) for path in folders}
    newest = max(folders, key=lambda path: (parse_instant(manifests[path].created_at), str(path)))
    return newest, manifests[newest]


def _refuse_unless_empty(directory: Path, harmless: frozenset[str]) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(_("{path} is no directory").format(path=directory))
    there = sorted(path.name for path in directory.iterdir() if path.name not in harmless) if directory.is_dir() else []
    if there:
        raise UsageError(
            _("{path} is not empty ({name} is there): name another directory with --data").format(
                path=directory, name=there[0]
            )
        )


def _refuse_unless_standby(directory: Path) -> None:
    """An empty directory, or a standby as it was made: nothing that anybody wrote is ever replaced."""
    try:
        mark = json.loads((directory / STANDBY_MARK).read_bytes()[: 1 << 16])
    except (OSError, ValueError):
        mark = None
    if mark is None:
        _refuse_unless_empty(directory, _HARMLESS | {SETTINGS_FILE} if _was_cut_off(directory) else _HARMLESS)
    elif not isinstance(mark, dict) or mark.get("store") != _trace(directory):
        raise UsageError(
            _("{path} was written to since it was made a standby: it is a data directory of its own now").format(
                path=directory
            )
        )


def _was_cut_off(directory: Path) -> bool:
    return (directory / _SCRATCH).is_dir() and not (directory / FILE_NAME).exists()


def _trace(directory: Path) -> list[int]:
    """What changes when anybody writes to the store."""
    status = (directory / FILE_NAME).stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _report(path: Path, manifest: Manifest) -> BackupReport:
    return BackupReport(
        str(path),
        parse_instant(manifest.created_at),
        manifest.layout,
        manifest.program,
        len(manifest.tables),
        manifest.rows_count,
        manifest.bytes_count,
        manifest.ledger_residual_gpu_us,
    )
