from __future__ import annotations

import pytest

from steelyard.primitives.instant import parse_instant
from steelyard.sources.shared.vgpu_stamps import parse_handshake, parse_unix_seconds


@pytest.mark.parametrize(
    ("text", "zone", "word", "at"),
    [
        (
            "Reported 2026-03-01 02:00:04.434037031 +0000 UTC m=+1104711.777",
            "Asia/Tokyo",
            "Reported",
            "2026-03-01T02:00:04.434037Z",
        ),
        ("Reported 2026-03-01 10:00:04 +0800 CST m=+1.7", "UTC", "Reported", "2026-03-01T02:00:04Z"),
        ("Requesting_2026-03-01 02:00:30", "UTC", "Requesting", "2026-03-01T02:00:30Z"),
        ("Requesting_2026.03.01 02:00:30", "UTC", "Requesting", "2026-03-01T02:00:30Z"),
        ("Deleted_2026-03-01 10:00:30", "Asia/Shanghai", "Deleted", "2026-03-01T02:00:30Z"),
        ("Deleted", "UTC", "Deleted", None),
        ("Deleted_2026-13-41 99:00:30", "UTC", "Deleted", None),
        ("Deleted_2026-03-01 10:00:30", "No/Such", "Deleted", None),
    ],
)
def test_a_handshake_is_read_in_every_layout(text: str, zone: str, word: str, at: str | None) -> None:
    found = parse_handshake(text, zone)
    assert (found.word, found.at) == (word, parse_instant(at) if at else None)


def test_an_unknown_handshake_is_refused() -> None:
    with pytest.raises(ValueError, match="handshake"):
        parse_handshake("Gone_2026-03-01 02:00:30")


def test_seconds_are_read_and_nothing_else_is() -> None:
    assert parse_unix_seconds("1796000403") == parse_instant("2026-11-30T01:00:03Z")
    for text in ("", "-1", "1.5", "1796000403000000000", "999999999999", "now", "٣"):
        with pytest.raises(ValueError, match="seconds"):
            parse_unix_seconds(text)
