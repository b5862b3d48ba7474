"""Several files as one stream of bytes: what an import command sends to the server of its data directory.

Each file is a frame with a JSON head, then chunks, then an empty chunk; an empty head ends the stream, so a stream that was cut off is
told from a whole one. Every frame and chunk opens with its length in four bytes, most significant first. The trick to know: heads carry names
only as labels, and the parser yields pieces as they come, so nobody holds a file in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN, Instant

MEDIA_TYPE: Final = "application/vnd.steelyard.files"
CHUNK_BYTES: Final = 1 << 18
HEAD_BYTES_MAX: Final = 64 << 10
FILES_MAX: Final = 1_000_000
_LENGTH_BYTES: Final = 4
_NAME_CHARACTERS_MAX: Final = 8_192
_CODE_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz_")


@dataclass(frozen=True, slots=True)
class FileHead:
    """What a sender says of a file. ``path``: as the person wrote it; ``name``: as findings quote it. ``size`` None: a stream whose length is
    not known. ``refusal``: code and message where the sender cannot read it; then no bytes follow."""

    path: str
    name: str
    kind: str | None = None
    size: int | None = None
    modified_at: Instant | None = None
    refusal: tuple[str, str] | None = None


def framed(files: Iterable[tuple[FileHead, Iterable[bytes]]]) -> Iterator[bytes]:
    """The stream of the files, in pieces."""
    for head, content in files:
        encoded = json.dumps(asdict(head), ensure_ascii=True).encode("ascii")
        yield _length(encoded) + encoded
        for piece in content:
            for start in range(0, len(piece), CHUNK_BYTES):
                chunk = piece[start : start + CHUNK_BYTES]
                yield _length(chunk) + chunk
        yield _length(b"")
    yield _length(b"")


def _length(piece: bytes) -> bytes:
    return len(piece).to_bytes(_LENGTH_BYTES, "big")


class FrameParser:
    """Takes the stream in pieces of any size and yields a ``FileHead`` where a file begins and ``bytes`` of it as they come.

    Holds at most one head or one chunk. Raises SourceMalformed for anything that is no such stream.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._within = False
        self._files = 0
        self.complete = False

    def feed(self, piece: bytes) -> Iterator[FileHead | bytes]:
        """What became complete with this piece."""
        self._pending += piece
        while not self.complete and len(self._pending) >= _LENGTH_BYTES:
            length = int.from_bytes(self._pending[:_LENGTH_BYTES], "big")
            limit = CHUNK_BYTES if self._within else HEAD_BYTES_MAX
            if length > limit:
                raise SourceMalformed(
                    _("no stream of files: a part of {length} bytes, expected at most {limit}").format(
                        length=length, limit=limit
                    )
                )
            if len(self._pending) < _LENGTH_BYTES + length:
                return
            part = bytes(self._pending[_LENGTH_BYTES : _LENGTH_BYTES + length])
            del self._pending[: _LENGTH_BYTES + length]
            if part:
                yield self._head(part) if not self._within else part
                self._within = True
            elif self._within:
                self._within = False
            else:
                self.complete = True
        if self.complete and self._pending:
            raise SourceMalformed(_("no stream of files: something follows its end"))

    def close(self) -> None:
        """The stream has ended. Raises SourceMalformed where its own end did not come: it was cut off."""
        if not self.complete:
            raise SourceMalformed(_("the stream of files was cut off: nothing of it was stored"))

    def _head(self, part: bytes) -> FileHead:
        self._files += 1
        if self._files > FILES_MAX:
            raise SourceMalformed(_("more files than are taken at once: {limit}").format(limit=FILES_MAX))
        try:
            head = json.loads(part)
            refusal = head["refusal"]
            return FileHead(
                path=_text(head["path"]),
                name=_text(head["name"]),
                kind=None if head["kind"] is None else _text(head["kind"]),
                size=_number(head["size"], 0, 2**63),
                modified_at=_number(head["modified_at"], INSTANT_MIN, INSTANT_MAX),
                refusal=None if refusal is None else (_code(refusal[0]), _text(refusal[1])),
            )
        except (LookupError, RecursionError, TypeError, ValueError) as error:
            raise SourceMalformed(
                _("no stream of files: a file's head cannot be read"), excerpt=part[:200].decode("utf-8", "replace")
            ) from error


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _NAME_CHARACTERS_MAX:
        raise ValueError("expected a text")
    return value


def _number(value: Any, least: int, most: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError("expected a whole number")
    return value


def _code(value: Any) -> str:
    text = _text(value)
    if not text or len(text) > 64 or not set(text) <= _CODE_CHARACTERS:
        raise ValueError("expected a finding's code")
    return text
