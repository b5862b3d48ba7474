"""Snapshots of closed periods as one file each, for backups, and back.

``backups`` packs and unpacks them. The trick to know: entries are sorted and bear no time and no owner, so the same snapshot always gives the same
bytes; and what comes out is checked by the snapshot's own manifest, whose hash the store holds.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from steelyard.primitives.errors import StoreDamaged
from steelyard.primitives.i18n import _
from steelyard.settlement.snapshot import FOLDER, MANIFEST
from steelyard.store.durable import rename, sync

PREFIX: Final = "period-"
SUFFIX: Final = ".tar"


def pack_periods(directory: Path, scratch: Path) -> Sequence[Path]:
    """An archive in ``scratch`` for each snapshot of the directory, by name."""
    found = []
    for folder in sorted((directory / FOLDER).glob("[!.]*")):
        if (folder / MANIFEST).is_file():
            path = scratch / f"{PREFIX}{folder.name}{SUFFIX}"
            with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
                for each in sorted(folder.rglob("*")):
                    if each.is_file() and not each.is_symlink():
                        archive.add(each, str(each.relative_to(folder)), recursive=False, filter=_plain)
            found.append(path)
    return found


def is_archive(name: str) -> bool:
    """Whether a file of a backup is a snapshot."""
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


def unpack_period(archive: Path, directory: Path) -> None:
    """Put a snapshot back, whole or not at all. Raises StoreDamaged where the archive holds anything but plain files below its folder."""
    name = archive.name.removeprefix(PREFIX).removesuffix(SUFFIX)
    folder = directory / FOLDER / name
    unfinished = folder.with_name(f".{name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True, mode=0o700)
    try:
        with tarfile.open(archive, "r:") as entries:
            entries.extractall(unfinished, filter="data")
    except (tarfile.TarError, OSError, ValueError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise StoreDamaged(_("{path}: no archive of a closed period").format(path=archive)) from error
    for path in sorted(unfinished.rglob("*")):
        sync(path)
    shutil.rmtree(folder, ignore_errors=True)
    rename(unfinished, folder)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.mode = 0, 0, 0, "", "", 0o600
    return entry
