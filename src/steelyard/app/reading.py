"""Bounded reading of what a person points at: files, directories, gzip. Nothing here knows what a file means.

Called by the importer. Whatever cannot be read within the bounds of the settings is a ``FileRefused`` with a stable code,
which the importer turns into a finding; a path that does not exist at all is a UsageError before anything is read.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant

STDIN: Final = Path("-")
CHUNK_BYTES: Final = 1 << 20
DEPTH_MAX: Final = 64
"""Directories deeper than this are refused: no dump is laid out so, and a bind mount can loop without a symlink."""
_GZIP: Final = b"\x1f\x8b"
_BOMS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


class FileRefused(Exception):
    """A file that is not read, with the finding's code and one line of why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read: where it is, and its name relative to the root that was given (what findings quote).
    ``refusal``: why it is not even opened. ``kind``: forced by the request, None = detect. ``shown``: what reports call it where that is not
    its path, and ``modified_at`` when it was written where the file itself does not say: one that came over the network."""

    path: Path
    name: str
    kind: str | None = None
    refusal: FileRefused | None = None
    shown: str | None = None
    modified_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What a file held: ``data`` after decompression; ``bytes_count`` and ``sha256`` of the bytes as they lay there."""

    data: bytes
    bytes_count: int
    sha256: str
    modified_at: Instant


def find_files(paths: Sequence[Path], kind: str | None) -> list[InputFile]:
    """All files under the paths, directories in name order. Raises UsageError where a path does not exist."""
    found: list[InputFile] = []
    for path in paths:
        if path == STDIN:
            found.append(InputFile(path, "stdin", kind))
            continue
        if not os.path.lexists(path):
            raise UsageError(_("no such file or directory: {path}").format(path=path))
        if path.is_dir():
            root = Path(os.path.realpath(path))
            found.extend(_walk(root, root, kind, (_key(root),)))
        else:
            found.append(InputFile(path, as_text(path.name), kind))
    return found


def _key(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _walk(root: Path, folder: Path, kind: str | None, above: tuple[tuple[int, int], ...]) -> Iterator[InputFile]:
    """Depth first; ``above`` are the folders that are open, so that a loop is seen where it closes."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield _refused(root, folder, "unreadable_file", f"the directory cannot be listed: {error.strerror}")
        return
    for entry in entries:
        path = Path(entry.path)
        try:
            if entry.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
                yield _refused(root, path, "symlink_outside", "a link that leaves the directory that was given")
            elif not entry.is_dir():
                yield InputFile(path, _name(root, path), kind)
            elif _key(path) in above:
                yield _refused(root, path, "symlink_loop", "a link to a directory that holds it")
            elif len(above) >= DEPTH_MAX:
                yield _refused(root, path, "directory_too_deep", f"deeper than {DEPTH_MAX} directories")
            else:
                yield from _walk(root, path, kind, (*above, _key(path)))
        except OSError as error:
            yield _refused(root, path, "unreadable_file", f"cannot be read: {error.strerror}")


def _refused(root: Path, path: Path, code: str, why: str) -> InputFile:
    return InputFile(path, _name(root, path), refusal=FileRefused(code, why))


def _name(root: Path, path: Path) -> str:
    return as_text(str(path.relative_to(root)))


def as_text(name: str) -> str:
    """The name for people and facts: lone surrogates, of a name that is no text, are replaced."""
    return name.encode("utf-8", "replace").decode()


def read_content(file: InputFile, bytes_max: int, now: Instant) -> Content:
    """The file's bytes, decompressed where they are gzip. ``bytes_max`` bounds them before and after decompression.

    Raises FileRefused: a special file, one that cannot be read, is empty or beyond the bound, or a broken gzip.
    """
    if file.refusal is not None:
        raise file.refusal
    try:
        data, modified_at = _read_all(file.path, bytes_max, now)
    except OSError as error:
        raise FileRefused("unreadable_file", f"cannot be read: {error.strerror or error}") from error
    digest = hashlib.sha256(data).hexdigest()
    if not data:
        raise FileRefused("empty_file", "the file is empty")
    plain = _gunzip(data, bytes_max) if data.startswith(_GZIP) else data
    return Content(plain, len(data), digest, modified_at if file.modified_at is None else file.modified_at)


def _read_all(path: Path, bytes_max: int, now: Instant) -> tuple[bytes, Instant]:
    if path == STDIN:
        return _bounded(iter(lambda: sys.stdin.buffer.read(CHUNK_BYTES), b""), bytes_max), now
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileRefused("special_file", "expected a regular file, found a device, pipe or socket")
        if status.st_size > bytes_max:
            raise FileRefused("file_too_large", f"expected at most {bytes_max} bytes, found {status.st_size}")
        data = _bounded(iter(lambda: stream.read(64 * CHUNK_BYTES), b""), bytes_max)
        return data, status.st_mtime_ns // 1000


def _bounded(chunks: Iterable[bytes], bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > bytes_max:
            raise FileRefused("file_too_large", f"expected at most {bytes_max} bytes, found more")
        parts.append(chunk)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _gunzip(data: bytes, bytes_max: int) -> bytes:
    """All members of a gzip, in steps, so that a bomb costs no more than the bound. Zeros between and after members are padding."""
    parts: list[bytes] = []
    size = 0
    member: Any = None
    view = memoryview(data)
    for start in (*range(0, len(view), CHUNK_BYTES), len(view)):
        last = start == len(view)
        pending = bytes(view[start : start + CHUNK_BYTES])
        while pending or (last and member is not None):
            if member is None:
                pending = pending.lstrip(b"\0")
                if not pending:
                    break
                member = zlib.decompressobj(wbits=31)
            part = _inflate(member, pending)
            size += len(part)
            if size > bytes_max:
                raise FileRefused("decompression_limit", f"expands to more than {bytes_max} bytes")
            parts.append(part)
            if member.eof:
                pending, member = member.unused_data, None
            elif last and not part:
                raise FileRefused("malformed_gzip", "the gzip ends before its data does (cut off)")
            else:
                pending = member.unconsumed_tail
    return b"".join(parts)


def _inflate(member: Any, pending: bytes) -> bytes:
    try:
        part: bytes = member.decompress(pending, 16 * CHUNK_BYTES)
    except zlib.error as error:
        raise FileRefused("malformed_gzip", f"not a readable gzip: {error}") from error
    return part


def to_text(data: bytes) -> tuple[str, int]:
    """The bytes as text, and how many characters could not be decoded and stand as U+FFFD.

    UTF-8, or UTF-16 by its byte order mark (PowerShell writes it); NUL bytes count as undecodable.
    """
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), "utf-8")
    text = data.decode(encoding, errors="replace").replace("\0", "\ufffd")
    return text, text.count("\ufffd") - data.count("\ufffd".encode())


def to_utf8(data: bytes) -> bytes:
    """The bytes with any byte order mark removed, UTF-16 recoded to UTF-8; plain UTF-8 is handed through uncopied."""
    if not any(data.startswith(bom) for bom, _name in _BOMS):
        return data
    return to_text(data)[0].encode()


def is_binary(head: bytes) -> bool:
    """Whether the head of a file is no text in any encoding that is read here."""
    return b"\0" in head and not any(head.startswith(bom) for bom, _name in _BOMS)
