"""The folder beside its name in which something is made: one maker at a time, and what a killed one left goes away with the next.

``backup`` makes its folder in one. The trick to know: the maker holds a lock on the folder itself, which the kernel lets go of when the maker
dies, so nobody asks for process ids, and a folder that somebody is writing is never taken away. Sceptic's command: ``lslocks``.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _

_TRIES: Final = 5


class UnderWay(UsageError):
    """Another is making the very same now."""


@contextmanager
def scratch_beside(destination: Path) -> Iterator[Path]:
    """An empty folder beside ``destination``, for its owner alone, which is removed at the end unless it was renamed. Raises UnderWay."""
    _sweep(destination)
    folder = destination.with_name(f".{destination.name}.unfinished")
    descriptor = _locked(folder)
    if descriptor is None:
        raise UnderWay(_("{path} is being written by another just now: wait for its end").format(path=destination))
    try:
        folder.chmod(0o700)
        _empty(folder)
        yield folder
    finally:
        if _is(folder, descriptor):
            shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the lock of the folder; None where another has it."""
    for _try in range(_TRIES):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:  # whoever had it gave it its name
            continue
        except OSError as error:
            raise UsageError(
                _("{path} is in the way: {reason}").format(path=folder, reason=error.strerror or str(error))
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _is(folder, descriptor):
            return descriptor
        os.close(descriptor)  # it got its name, or went, between opening and locking
    return None


def _is(folder: Path, descriptor: int) -> bool:
    """Whether the name still stands for what is open."""
    try:
        return os.path.samestat(os.lstat(folder), os.fstat(descriptor))
    except OSError:
        return False


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _sweep(destination: Path) -> None:
    """Remove what makers of an earlier version left, whose process id in the name belongs to nobody any more."""
    named = re.compile(re.escape(f".{destination.name}.unfinished-") + r"([1-9][0-9]{0,9})\Z")
    for path in destination.parent.iterdir() if destination.parent.is_dir() else ():
        found = named.match(path.name)
        if found is not None and path.is_dir() and not path.is_symlink() and not _lives(int(found[1])):
            shutil.rmtree(path, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
