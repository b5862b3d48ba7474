"""Files that are there as a whole or not at all, also after the power went.

Whoever writes a backup, an export or a new store file uses these. The trick to know: a name given by ``rename`` is only as durable as the
folder that holds it, so the folder is synced after each change of names.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from steelyard.primitives.errors import StoreFailed
from steelyard.primitives.i18n import _

_CHUNK_BYTES: Final = 1 << 20
_SPARE_BYTES: Final = 16 << 20


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(old: Path, new: Path) -> None:
    """Give ``old`` the name ``new``, in place of what had it, durably. Both lie on one file system."""
    old.replace(new)
    sync(new.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole: until it is on the disk, nothing has its name."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_bytes(content)
    sync(unfinished)
    rename(unfinished, path)


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, in hex. Sceptic's command: ``sha256sum FILE``."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def check_space(folder: Path, needed_bytes: int) -> None:
    """Raises StoreFailed where the file system of ``folder`` has less than ``needed_bytes`` and a little to spare."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes + _SPARE_BYTES:
        raise StoreFailed(
            _("no space in {folder}: {needed} bytes are needed, {free} are free").format(
                folder=folder, needed=needed_bytes + _SPARE_BYTES, free=free
            )
        )
