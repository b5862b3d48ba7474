"""Text that somebody else wrote, made safe to carry: decoded, without NUL and lone surrogates, cut into numbered lines in bounds.

The trick to know: lines end at a line feed only (a carriage return before it is dropped), so that line numbers are those of an
editor, and text is walked with ``str.find``: no list of all lines is built.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

_UNSAFE: Final = re.compile("[\x00\ud800-\udfff]")
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def plain(text: str) -> str:
    """The text with every NUL and lone surrogate replaced by U+FFFD: what JSON and SQL can carry."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def decode_text(payload: bytes | str) -> str:
    """UTF-8, or UTF-16 where a byte order mark says so (PowerShell writes it); what cannot be decoded becomes U+FFFD."""
    if isinstance(payload, str):
        return plain(payload.removeprefix("\ufeff"))
    for mark, encoding in _BYTE_ORDER_MARKS:
        if payload.startswith(mark):
            return plain(payload[len(mark) :].decode(encoding, errors="replace"))
    return plain(payload.decode("utf-8", errors="replace"))


def numbered_lines(text: str, first: int = 1) -> Iterator[tuple[int, str]]:
    """(number, line) for each line, without its end; numbers start at ``first``."""
    start, number = 0, first
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield number, text[start:end].rstrip("\r")
        start, number = end + 1, number + 1
