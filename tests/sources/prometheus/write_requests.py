"""Remote-write bodies written byte by byte, sharing nothing with the reader."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import cramjam

STALE = struct.pack("<Q", 0x7FF0000000000002)


def varint(value: int) -> bytes:
    """A protobuf varint; negative numbers in 10 bytes."""
    value &= 2**64 - 1
    out = b""
    while True:
        value, low = value >> 7, value & 0x7F
        out += bytes([low | (0x80 if value else 0)])
        if not value:
            return out


def delimited(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def sample(value: float | bytes, milliseconds: int) -> bytes:
    """A sample; ``bytes``: the eight of the number themselves."""
    number = value if isinstance(value, bytes) else struct.pack("<d", value)
    return delimited(2, b"\x09" + number + b"\x10" + varint(milliseconds))


def series(labels: Mapping[str, str] | Iterable[tuple[str, str]], *samples: bytes) -> bytes:
    """A series as a field of a request."""
    pairs = labels.items() if isinstance(labels, Mapping) else labels
    text = b"".join(delimited(1, delimited(1, k.encode()) + delimited(2, v.encode())) for k, v in pairs)
    return delimited(1, text + b"".join(samples))


def snappy(content: bytes) -> bytes:
    """The content as one snappy block."""
    return bytes(cramjam.snappy.compress_raw(content))


HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
