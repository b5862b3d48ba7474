"""Which characters a font has, read from fonts made here, and what becomes of text that it lacks."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.errors import UsageError
from steelyard.surfaces.reports.fonts import FontChoice, characters_of, choose_font


def segment_table(segments: list[tuple[int, int, int]]) -> bytes:
    """A cmap subtable of format 4 from (first, last, delta); the closing segment is added."""
    whole = [*segments, (0xFFFF, 0xFFFF, 1)]
    count = len(whole)
    ends, starts = [last for _f, last, _d in whole], [first for first, _l, _d in whole]
    deltas = [delta & 0xFFFF for _f, _l, delta in whole]
    body = struct.pack(f">{count}H", *ends) + b"\0\0" + struct.pack(f">{count}H", *starts)
    body += struct.pack(f">{count}H", *deltas) + struct.pack(f">{count}H", *[0] * count)
    return struct.pack(">HHHHHHH", 4, 14 + len(body), 0, 2 * count, 0, 0, 0) + body


def group_table(groups: list[tuple[int, int, int]]) -> bytes:
    """A cmap subtable of format 12 from (first, last, glyph)."""
    body = b"".join(struct.pack(">III", *group) for group in groups)
    return struct.pack(">HHIII", 12, 0, 16 + len(body), 0, len(groups)) + body


def font(subtable: bytes, platform: int = 3) -> bytes:
    """A font file with nothing but a cmap table."""
    cmap = struct.pack(">HHHHI", 0, 1, platform, 1, 12) + subtable
    return struct.pack(">IHHHH", 0x00010000, 1, 0, 0, 0) + struct.pack(">4sIII", b"cmap", 0, 28, len(cmap)) + cmap


def collection(content: bytes) -> bytes:
    """The font as the second of a collection whose first is no font."""
    head = struct.pack(">4sIIII", b"ttcf", 0x00010000, 2, 0, 20)
    moved = bytearray(content)
    struct.pack_into(">I", moved, 20, 28 + 20)
    return head + bytes(moved)


def test_segments_and_groups_are_the_characters() -> None:
    assert characters_of(font(segment_table([(0x41, 0x43, 0), (0x4E00, 0x4E01, 5)]))) == {
        0x41,
        0x42,
        0x43,
        0x4E00,
        0x4E01,
    }
    assert characters_of(font(group_table([(0x1F600, 0x1F601, 9)]))) == {0x1F600, 0x1F601}


def test_a_code_whose_glyph_is_the_missing_one_is_no_character() -> None:
    assert characters_of(font(segment_table([(5, 6, -5)]))) == {6}
    assert characters_of(font(group_table([(5, 6, 0)]))) == {6}


def test_the_font_at_its_index_of_a_collection_is_read() -> None:
    assert characters_of(collection(font(group_table([(65, 65, 1)]))), 1) == {65}


def test_a_table_of_another_platform_says_nothing() -> None:
    assert characters_of(font(group_table([(65, 65, 1)]), platform=1)) == set()


@given(st.binary(max_size=200))
def test_what_is_no_font_has_no_characters_and_does_not_fail(content: bytes) -> None:
    assert characters_of(content) == set()


@given(st.binary(max_size=60))
def test_a_broken_table_does_not_fail(content: bytes) -> None:
    characters_of(font(b"\0\x04" + content))
    characters_of(font(b"\0\x0c" + content[:12]))


def test_a_font_that_claims_endless_groups_is_bounded() -> None:
    assert characters_of(font(struct.pack(">HHIII", 12, 0, 0, 0, 0xFFFFFFFF))) == set()


@pytest.mark.parametrize(
    ("text", "written"),
    [("AB A", "AB A"), ("Aé", "A\\u00e9"), ("\u202eA", "\\u202eA"), ("\x00", "\\x00"), ("😀", "\\u1f600")],
)
def test_what_the_font_lacks_is_written_as_its_escape(text: str, written: str) -> None:
    characters = {ord(each) for each in "AB\\ux0123456789abcdef"}
    assert FontChoice("f", Path("f"), characters).covered(text) == written


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"found none in .*nowhere"):
        choose_font(tmp_path / "nowhere")
