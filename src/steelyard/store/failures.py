"""What the engine raises, as errors of ours: by who is at fault, each one line.

Called by the store around every statement. What is not named here (a statement that does not parse, a name that does not exist) is our own
mistake and stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import duckdb

from steelyard.primitives.errors import StoreDamaged, StoreFailed
from steelyard.primitives.i18n import _

_DAMAGED: Final = ("corrupt", "checksum", "not a valid duckdb database", "deserialize", "could not read enough")
_FULL: Final = ("no space left", "disk full", "could not allocate", "max_temp_directory_size")
_INTERRUPTED: Final = "interrupted"
_BROKEN: Final = (duckdb.SerializationException, duckdb.InternalException, duckdb.FatalException)
_TROUBLE: Final = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.PermissionException)


def first_line(error: BaseException) -> str:
    """The first line of what the engine says."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def is_damage(error: BaseException) -> bool:
    """Whether the file is not what the engine once wrote. A file that cannot be read to its end is such a file too."""
    text = str(error).lower()
    if any(word in text for word in _FULL):
        return False
    return isinstance(error, duckdb.SerializationException) or any(word in text for word in _DAMAGED)


def failure_of(error: BaseException) -> BaseException | None:
    """The error of ours behind one of the engine's; None where it is none of the world's making."""
    if isinstance(error, duckdb.InterruptException) or (
        isinstance(error, RuntimeError) and _INTERRUPTED in str(error).lower()
    ):
        return KeyboardInterrupt()
    if not isinstance(error, duckdb.Error):
        return None
    text, line = str(error).lower(), first_line(error)
    if any(word in text for word in _FULL):
        return StoreFailed(_("no space for the store: {reason}").format(reason=line))
    if is_damage(error):
        return StoreDamaged(
            _("the store is damaged, restore its file from a backup or import again: {reason}").format(reason=line)
        )
    if isinstance(error, (*_BROKEN, *_TROUBLE)):
        return StoreFailed(_("the store cannot go on: {reason}").format(reason=line))
    return None


@contextmanager
def failures_told() -> Iterator[None]:
    """Within it, what the engine raises comes as KeyboardInterrupt, StoreDamaged or StoreFailed where it is one of those."""
    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        told = failure_of(error)
        if told is None:
            raise
        raise told from error
