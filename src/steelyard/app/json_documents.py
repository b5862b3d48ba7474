"""JSON within bounds: nesting is measured before anything is parsed, and a file is one document or one per line.

The trick to know: the nesting is found without a loop over characters. Everything but quotes and brackets is deleted from a
chunk; adjacent quotes are deleted in pairs, which leaves the parity before every bracket as it was; what stands between odd
and even quotes is text and is left out; the running sum of +1 and -1 over the rest is the depth. A Kubernetes List is split into
its items first (``RawList``) and each is parsed when it is its turn: that takes a sixth of the time and memory of one big parse.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import orjson

from steelyard.app.reading import FileRefused, to_text
from steelyard.primitives.errors import SourceMalformed

_CHUNK: Final = 4 << 20
_OTHERS: Final = bytes(byte for byte in range(256) if byte not in b'"{}[]')
_SMALL: Final = 4096
_OPENINGS_FREE: Final = 5_000_000
_BYTES_PER_OPENING: Final = 24
"""A dict takes about 230 bytes: beyond the free number of them, denser text than this would take more than ten times its size."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How deep a text nests, and how many objects and arrays it opens, outside strings."""

    depth: int
    openings: int


def extent_of(data: bytes) -> Extent:
    """The extent of a JSON text. Linear time, bounded memory, no recursion; of a malformed text the depth is never less than the true one."""
    if len(data) <= _SMALL and (few := data.count(b"{") + data.count(b"[")) < 2:
        return Extent(few, few)
    depth = deepest = openings = start = 0
    in_string = False
    while start < len(data):
        end = _chunk_end(data, start)
        brackets, in_string = _brackets(data[start:end], in_string)
        start = end
        if not brackets:
            continue
        codes = np.frombuffer(brackets, dtype=np.uint8)
        steps = np.where((codes == ord("{")) | (codes == ord("[")), np.int32(1), np.int32(-1))
        sums = np.cumsum(steps, dtype=np.int32)
        deepest = max(deepest, depth + int(sums.max()))
        depth += int(sums[-1])
        openings += (len(brackets) + int(sums[-1])) // 2
    return Extent(deepest, openings)


def _chunk_end(data: bytes, start: int) -> int:
    """An end that cuts no escape in two: never directly after a backslash."""
    end = min(start + _CHUNK, len(data))
    while end < len(data) and data[end - 1] == 0x5C:
        end += 1
    return end


def _brackets(chunk: bytes, in_string: bool) -> tuple[bytes, bool]:
    """The brackets outside strings, in order, and whether the chunk ends within a string."""
    if b"\\" in chunk:
        chunk = chunk.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = chunk.translate(None, _OTHERS)
    if in_string:
        marks = b'"' + marks
    ends_inside = bool(marks.count(b'"') % 2)
    marks = marks.replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    return marks, ends_inside


class RawList(msgspec.Struct):
    """A JSON object with ``kind``, ``apiVersion`` and ``items``, whose items are still text; ``item_of`` parses one."""

    kind: str
    items: list[msgspec.Raw]
    apiVersion: str = ""  # noqa: N815 (the field's name on the wire)
    metadata: dict[str, Any] | None = None


def item_of(raw: msgspec.Raw) -> tuple[Any, bool]:
    """One item of a RawList, and whether bytes that are no UTF-8 had to be replaced. Raises SourceMalformed."""
    try:
        return orjson.loads(memoryview(raw)), False
    except orjson.JSONDecodeError as error:
        data = bytes(raw)
        whole = without_lone_surrogates(data)
        text, replaced = to_text(whole)
        if replaced or whole != data:
            with contextlib.suppress(orjson.JSONDecodeError):
                return orjson.loads(text), True
        raise SourceMalformed(f"not JSON: {error}", excerpt=text[:200]) from None


def _split(data: bytes) -> RawList | None:
    """The document where it is a List of a named kind, else None (also where it is malformed: the parse will say so)."""
    try:
        found = _LIST.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found if found.kind.endswith("List") else None


_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape: a pair of surrogates, one alone (group 1), or any other."""

_LIST: Final = msgspec.json.Decoder(RawList)


def parse(data: bytes, depth_max: int) -> tuple[Any, bool]:
    """The document (a List as a RawList), and whether bytes that are no UTF-8 had to be replaced.

    Raises FileRefused: ``json_too_deep`` or ``malformed_json`` (cut off, NaN, Infinity, anything after the end). Escapes of lone
    surrogates count as bytes that had to be replaced.
    """
    extent = extent_of(data)
    if extent.depth > depth_max:
        raise FileRefused("json_too_deep", f"expected nesting of at most {depth_max}, found {extent.depth}")
    if extent.openings > _OPENINGS_FREE and extent.openings * _BYTES_PER_OPENING > len(data):
        raise FileRefused(
            "json_too_many_objects", f"{extent.openings} objects in {len(data)} bytes would not fit into memory"
        )
    listing = _split(data)
    if listing is not None:
        return listing, False
    try:
        return orjson.loads(data), False
    except orjson.JSONDecodeError as error:
        whole = without_lone_surrogates(data)
        if whole != data:
            return parse(whole, depth_max)[0], True
        if "UTF-8" not in str(error):
            raise FileRefused("malformed_json", f"not JSON: {error}") from None
    try:
        return orjson.loads(to_text(data)[0]), True
    except orjson.JSONDecodeError as error:
        raise FileRefused("malformed_json", f"not JSON: {error}") from None


def without_lone_surrogates(data: bytes) -> bytes:
    """The JSON text with escapes of half a character, which no text can hold, replaced by U+FFFD's; all other bytes as they were."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda match: b"\\ufffd" if match.group(1) else match.group(), data)


def is_lines(data: bytes, line_bytes_max: int) -> bool:
    """Whether the bytes are JSON lines: the first line that is not blank is a whole object, and something follows it."""
    head = data[: line_bytes_max + 2].lstrip()
    first, newline, rest = head.partition(b"\n")
    if not newline or not first.startswith(b"{") or not first.rstrip().endswith(b"}"):
        return False
    try:
        orjson.loads(without_lone_surrogates(first))
    except orjson.JSONDecodeError:
        return False
    return bool(rest.strip()) or len(data) > line_bytes_max + 2


def documents_of_lines(data: bytes, line_bytes_max: int, depth_max: int) -> Iterator[tuple[int, Any]]:
    """(line number, document) per line that is not blank; a line that cannot be read comes as SourceMalformed in place of its document."""
    start = number = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        number += 1
        if end - start > line_bytes_max:
            excerpt = data[start : start + 200].decode("utf-8", "replace")
            yield number, SourceMalformed(f"expected a line of at most {line_bytes_max} bytes", number, excerpt)
        else:
            line = data[start:end].strip()
            if line:
                yield number, _line(line, number, depth_max)
        start = end + 1


def _line(line: bytes, number: int, depth_max: int) -> Any:
    try:
        return parse(line, depth_max)[0]
    except FileRefused as refused:
        return SourceMalformed(refused.message, number, line[:200].decode("utf-8", "replace"))
