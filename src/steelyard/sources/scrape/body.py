"""From what a target sent to its text: expanded within bounds, and refused where it is no metrics text at all.

Called by ``app`` per target, away from the network. A gzip that expands without end costs no more than the bound.
"""

from __future__ import annotations

import zlib
from typing import Final

from steelyard.primitives.errors import SourceUnavailable

_STEP: Final = 1 << 20
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_TEXTS: Final = ("text/plain", "application/openmetrics-text", "application/octet-stream", "text/")
_MARKUP: Final = (b"<!", b"<html", b"<HTML", b"<?xml", b"{", b"[")


def text_of(body: bytes, encoding: str, content_type: str, text_bytes_max: int) -> bytes:
    """The metrics text as bytes. ``encoding``, ``content_type``: the headers as sent, lower case. Raises SourceUnavailable with the reason
    where it is too large, cut off, packed in another way, a web page, JSON, or protobuf."""
    if encoding in _GZIP:
        text = _expanded(body, text_bytes_max)
    elif encoding in ("", "identity"):
        text = body
    else:
        raise SourceUnavailable(f"expected plain text or gzip, found Content-Encoding {encoding[:40]!r}")
    if len(text) > text_bytes_max:
        raise SourceUnavailable(f"larger than {text_bytes_max} bytes")
    kind = content_type.split(";")[0].strip()
    if (kind and not kind.startswith(_TEXTS)) or kind == "text/html":
        raise SourceUnavailable(f"expected metrics text, found {kind[:80]}")
    if text[:200].lstrip().startswith(_MARKUP):
        raise SourceUnavailable("expected metrics text, found a web page or JSON")
    return text


def _expanded(body: bytes, most: int) -> bytes:
    member = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    size = 0
    pending = body
    try:
        while pending and not member.eof:
            part = member.decompress(pending, min(_STEP, most + 1 - size))
            parts.append(part)
            size += len(part)
            if size > most:
                raise SourceUnavailable(f"expands to more than {most} bytes")
            pending = member.unconsumed_tail
    except zlib.error as error:
        raise SourceUnavailable(f"no readable gzip: {error}") from error
    if not member.eof:
        raise SourceUnavailable("the gzip ends before its data does (cut off)")
    return b"".join(parts)
