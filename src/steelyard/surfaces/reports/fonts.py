"""The font that a PDF embeds: one that has Chinese, from a configured folder or where Debian's fonts-wqy-microhei lies.

The trick to know: whoever sets text asks ``FontChoice.covered`` first. A character that the font lacks is written as its escape
(``\\u1f600``), so no page ever shows a box; a font without Chinese, or none at all, is an error that says what to install.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.surfaces.reports.extra import report_library
from steelyard.surfaces.shared.printable import printable

SYSTEM_FOLDERS: Final = (
    Path("/usr/share/fonts/truetype/wqy"),
    Path("/usr/share/fonts/opentype/noto"),
    Path("/usr/share/fonts/google-noto-cjk"),
)
PROBE: Final = "账单计费卡时租户汇总更正税额"
"""What a font must have to write a Chinese statement."""
_FONT_BYTES_MAX: Final = 256 << 20
_FONTS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class FontChoice:
    """A family, the file it is read from, and the characters it has."""

    family: str
    path: Path
    characters: Collection[int]

    def covered(self, text: str) -> str:
        """The text as the font can write it: control characters, direction overrides and what the font lacks become escapes."""
        return "".join(
            each if each == " " or ord(each) in self.characters else f"\\u{ord(each):04x}" for each in printable(text)
        )


def choose_font(folder: Path | None = None) -> FontChoice:
    """The first font with Chinese in ``folder``, None: in the folders of the system.

    Raises UsageError where there is none: the message names what was looked at and what to install.
    """
    folders = (folder,) if folder is not None else SYSTEM_FOLDERS
    for each in folders:
        choice = _font_in(each) if each.is_dir() else None
        if choice is not None:
            return choice
    looked = ", ".join(str(each) for each in folders)
    raise UsageError(
        _(
            "a PDF needs a font with Chinese; found none in {folders}. Install one (on Debian: apt-get install "
            "fonts-wqy-microhei), or name a folder with one in the settings: [documents] font_folder"
        ).format(folders=looked)
    )


@lru_cache(maxsize=4)
def _font_in(folder: Path) -> FontChoice | None:
    typst = report_library("typst")
    fonts = typst.Fonts(include_system_fonts=False, include_embedded_fonts=False, font_paths=[str(folder)]).fonts()
    plain = [each for each in fonts if each.path and each.style == "normal" and each.weight <= 500]
    for each in sorted(plain, key=lambda font: (font.path, font.index))[:_FONTS_MAX]:
        path = Path(each.path)
        if path.stat().st_size > _FONT_BYTES_MAX:
            continue
        characters = characters_of(path.read_bytes(), each.index)
        if all(ord(character) in characters for character in PROBE):
            return FontChoice(each.family, path, characters)
    return None


def characters_of(content: bytes, index: int = 0) -> frozenset[int]:
    """The code points that a TrueType or OpenType font (or the one at ``index`` of a collection) has a glyph for; none where it cannot be read.

    Method: the Unicode subtables of ``cmap``, formats 4 and 12. A sceptic: ``fc-query --format '%{charset}' FILE``.
    """
    try:
        start = struct.unpack_from(">I", content, 12 + 4 * index)[0] if content[:4] == b"ttcf" else 0
        return frozenset(_mapped(content, _table(content, start, b"cmap")))
    except (struct.error, ValueError):
        return frozenset()


def _table(content: bytes, start: int, tag: bytes) -> int:
    (count,) = struct.unpack_from(">H", content, start + 4)
    for number in range(count):
        name, _checksum, offset, _length = struct.unpack_from(">4sIII", content, start + 12 + 16 * number)
        if name == tag:
            return int(offset)
    raise ValueError("no such table")


def _mapped(content: bytes, cmap: int) -> Iterator[int]:
    (count,) = struct.unpack_from(">H", content, cmap + 2)
    for number in range(count):
        platform, _encoding, offset = struct.unpack_from(">HHI", content, cmap + 4 + 8 * number)
        if platform not in (0, 3):
            continue
        (form,) = struct.unpack_from(">H", content, cmap + offset)
        if form == 4:
            yield from _segments(content, cmap + offset)
        elif form == 12:
            yield from _groups(content, cmap + offset)


def _segments(content: bytes, at: int) -> Iterator[int]:
    """Format 4: segments of the first plane; a code whose glyph is 0 has none."""
    (doubled,) = struct.unpack_from(">H", content, at + 6)
    count = doubled // 2
    ends = struct.unpack_from(f">{count}H", content, at + 14)
    starts = struct.unpack_from(f">{count}H", content, at + 16 + doubled)
    deltas = struct.unpack_from(f">{count}H", content, at + 16 + 2 * doubled)
    offsets_at = at + 16 + 3 * doubled
    offsets = struct.unpack_from(f">{count}H", content, offsets_at)
    for number, (first, last, delta, offset) in enumerate(zip(starts, ends, deltas, offsets, strict=True)):
        for code in range(first, min(last, 0xFFFE) + 1):
            glyph = code
            if offset:
                (glyph,) = struct.unpack_from(">H", content, offsets_at + 2 * number + offset + 2 * (code - first))
                if glyph == 0:
                    continue
            if (glyph + delta) & 0xFFFF:
                yield code


def _groups(content: bytes, at: int) -> Iterator[int]:
    """Format 12: runs of code points with running glyphs."""
    (count,) = struct.unpack_from(">I", content, at + 12)
    for number in range(min(count, 0x10FFFF)):
        first, last, glyph = struct.unpack_from(">III", content, at + 16 + 12 * number)
        if first <= last <= 0x10FFFF:
            yield from range(first + (glyph == 0), last + 1)
