"""What can go wrong, by who is at fault: us, the world for now, the world for good, the person at the keyboard."""

from __future__ import annotations

from collections.abc import Sequence


class SteelyardError(Exception):
    """Base of all errors that a person may be shown as one line. ``exit_code`` is what a command ends with."""

    exit_code = 2


class InvariantError(AssertionError):
    """Our own mistake: a rule that must always hold does not. Never caught."""


class UsageError(SteelyardError):
    """The request cannot be carried out as written: expected, found, where, what to do. ``others``: what else is wrong with it, a line each."""

    exit_code = 2

    def __init__(self, message: str, others: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.others = tuple(others)


class NotFound(UsageError):
    """What is asked for by name is not there, or is not the asker's to see: the two are told alike."""


class StoreLocked(SteelyardError):
    """Another process holds the data directory."""

    exit_code = 3


class StoreFailed(SteelyardError):
    """The engine could not do its part now: the disk is full, a file cannot be read or written, memory ran out."""

    exit_code = 3


class StoreDamaged(StoreFailed):
    """The store's file is not what the engine wrote: it cannot be read any more."""


class SourceUnavailable(SteelyardError):
    """The world, may pass: a source that does not answer now. ``retry_after_seconds`` is a hint or None."""

    exit_code = 3

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class SourceUnsupported(SteelyardError):
    """The world, will not pass: a format or version that no reader knows."""

    exit_code = 3


class SourceMalformed(SteelyardError):
    """A line or object that cannot be read. ``line`` counts from 1 (0: the file as a whole); ``excerpt`` is cut to 200 characters.
    ``others``: what else is wrong with a file that is taken whole or not at all, a line each."""

    exit_code = 3

    def __init__(self, message: str, line: int = 0, excerpt: str = "", others: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.excerpt = excerpt[:200]
        self.others = tuple(others)
