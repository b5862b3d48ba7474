"""``AuditTail``: a log file followed as it grows, through rotation and restarts, without losing or repeating a line.

Called by ``app`` once per round. A file is told by device and inode and by how it begins, since an inode is soon used again and a file that was
copied and truncated keeps its own. The trick to know: after a rotation, by renaming or by copying, the rest of the old file is read first, found
among the files beside it, then those begun since; and a line without its end waits where it is for the next round. The API server closes a file
before it renames it, so nothing comes into the old one later.
Sceptic's command: ``tail -F audit.log``.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from steelyard.primitives.errors import SourceUnavailable

LINE_BYTES_MAX: Final = 8 << 20
ROUND_BYTES_MAX: Final = 256 << 20
_HEAD_BYTES: Final = 1_024
_PIECE: Final = 1 << 20
_TELLING_BYTES: Final = 64
"""So long a beginning (it holds an audit id) tells a copy of a file from another file."""

_SIBLINGS_MAX: Final = 1_000
_PACKED: Final = (".gz", ".zst", ".bz2", ".xz")


@dataclass(frozen=True, slots=True)
class Place:
    """Where reading stands: which file (``device``, ``inode``, the SHA-256 of its first ``head_bytes``, when it was ``modified_ns`` as it was
    read) and how many bytes of it are done. ``skipping``: they end within a line beyond the bound, whose rest is no line of its own."""

    device: int
    inode: int
    head_bytes: int
    head: str
    modified_ns: int
    offset: int
    skipping: bool = False

    def to_text(self) -> str:
        """As the cursor is stored."""
        parts = [self.device, self.inode, self.head_bytes, self.head, self.modified_ns, self.offset]
        return json.dumps([*parts, True] if self.skipping else parts)

    @classmethod
    def of_text(cls, text: str | None) -> Place | None:
        """The place behind a cursor; None where it is none."""
        try:
            device, inode, head_bytes, head, modified_ns, offset, *rest = json.loads(text or "")
            return cls(
                int(device), int(inode), int(head_bytes), str(head), int(modified_ns), int(offset), rest == [True]
            )
        except (ValueError, TypeError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines of one file, in order. ``first_offset``: where the first begins. ``too_long``: offsets of lines beyond the bound, left out."""

    path: str
    first_offset: int
    lines: tuple[bytes, ...]
    too_long: tuple[int, ...] = ()


class AuditTail:
    """Follows one path. ``gaps_count``: how often the file it was in could not be found again, so that lines may be missing."""

    def __init__(
        self, path: Path, line_bytes_max: int = LINE_BYTES_MAX, round_bytes_max: int = ROUND_BYTES_MAX
    ) -> None:
        self._path = path
        self._line_bytes_max = line_bytes_max
        self._round_bytes_max = round_bytes_max
        self._place: Place | None = None
        self._left = 0
        self.gaps_count = 0
        self.is_behind = False

    def resume(self, cursor: str | None) -> None:
        """Go on where the cursor says; None, or what is no cursor: from the beginning of the present file."""
        self._place = Place.of_text(cursor)

    def cursor(self) -> str | None:
        """Where reading stands, for ``resume``."""
        return None if self._place is None else self._place.to_text()

    def read(self) -> Iterator[Lines]:
        """The whole lines that were not read yet, up to ``round_bytes_max`` (``is_behind``: there are more).

        Raises SourceUnavailable where the file is not there or cannot be read; what was yielded before that counts.
        """
        self._left, self.is_behind = self._round_bytes_max, False
        place = self._place
        for path in self._chain(place):
            with _Opened(path) as file:
                is_there = place is not None and file.holds(place)
                yield from self._lines(
                    file, file.place(place.offset, place.skipping) if is_there and place else file.place(0)
                )
            if self.is_behind:
                return
            place = None

    def _chain(self, place: Place | None) -> list[Path]:
        """The files to read, oldest first: the one we were in, those begun since, the present one."""
        if place is None:
            return [self._path]
        beside = self._beside()
        found = next((each for each in beside if _holds(each.path, place, same_inode=True)), None)
        found = found or next((each for each in beside if _holds(each.path, place, same_inode=False)), None)
        if found is None:
            self.gaps_count += place.offset > 0
            return [self._path]
        if found.path == self._path and not place.offset:  # it had no beginning yet that would tell a copy of it
            return [
                *(each.path for each in beside if each.modified_ns > place.modified_ns and each != found),
                self._path,
            ]
        if found.path == self._path:
            return [self._path]
        since = [each.path for each in beside if each.modified_ns > found.modified_ns and each.path != self._path]
        return [found.path, *since, self._path]

    def _beside(self) -> list[_Beside]:
        """The log and what it was renamed or copied to, as ``audit.log.1`` or ``audit-2026-03-01T00-00-00.log``, oldest first."""
        starts = (f"{self._path.name}.", f"{self._path.stem}-")
        found: list[_Beside] = []
        try:
            with os.scandir(self._path.parent) as entries:
                for entry in islice(entries, _SIBLINGS_MAX):
                    named = entry.name == self._path.name or entry.name.startswith(starts)
                    if named and not entry.name.endswith(_PACKED) and entry.is_file():
                        found.append(_Beside(self._path.parent / entry.name, entry.stat().st_mtime_ns))
        except OSError:
            return [_Beside(self._path, 0)]
        return sorted(found, key=lambda each: (each.modified_ns, each.path == self._path, each.path.name))

    def _lines(self, file: _Opened, place: Place) -> Iterator[Lines]:
        """Whole lines from the place on, in pieces; the place moves with what was yielded."""
        start = place.offset
        rest = b""
        skipping = place.skipping
        while self._left > 0:
            piece = file.read_at(start + len(rest), min(_PIECE, self._left))
            if not piece:
                break
            self._left -= len(piece)
            data = rest + piece
            end = data.rfind(b"\n") + 1
            too_long: list[int] = []
            if not end:
                if len(data) > self._line_bytes_max:
                    if not skipping:
                        too_long.append(start)
                    start, rest, skipping = start + len(data), b"", True
                    self._place = file.place(start, skipping)
                    yield Lines(str(file.path), start, (), tuple(too_long))
                else:
                    rest = data
                continue
            lines = data[:end].split(b"\n")[:-1]
            if skipping:
                lines, skipping = lines[1:], False
            kept = tuple(line for line in lines if len(line) <= self._line_bytes_max)
            too_long += [start] * (len(lines) - len(kept))
            first, start, rest = start, start + end, data[end:]
            self._place = file.place(start)
            yield Lines(str(file.path), first, kept, tuple(too_long))
        else:
            self.is_behind = True
        self._place = file.place(start, skipping)


class _Opened:
    """A regular file that is open for reading. Raises SourceUnavailable where it is not there, is none, or may not be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise SourceUnavailable(f"{path}: {error.strerror or 'cannot be opened'}") from error
        self._status = os.fstat(self._descriptor)
        if not stat.S_ISREG(self._status.st_mode):
            os.close(self._descriptor)
            raise SourceUnavailable(f"{path}: expected a regular file")

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read_at(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as error:
            raise SourceUnavailable(f"{self.path}: {error.strerror or 'cannot be read'}") from error

    def holds(self, place: Place, *, same_inode: bool = False) -> bool:
        """Whether the place is one in this file: it begins as it did and is long enough, so that the offset still means the same."""
        same = (self._status.st_dev, self._status.st_ino) == (place.device, place.inode)
        if not same and (same_inode or place.head_bytes < _TELLING_BYTES):
            return False
        return self._status.st_size >= place.offset and _digest(self.read_at(0, place.head_bytes)) == place.head

    def place(self, offset: int, skipping: bool = False) -> Place:
        """An offset in it. The head grows with what was read, up to a bound, so that it never holds what may still change."""
        head = self.read_at(0, min(_HEAD_BYTES, offset))
        return Place(
            self._status.st_dev,
            self._status.st_ino,
            len(head),
            _digest(head),
            self._status.st_mtime_ns,
            offset,
            skipping,
        )


@dataclass(frozen=True, slots=True)
class _Beside:
    path: Path
    modified_ns: int


def _holds(path: Path, place: Place, *, same_inode: bool) -> bool:
    try:
        with _Opened(path) as file:
            return file.holds(place, same_inode=same_inode)
    except SourceUnavailable:
        return False


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
