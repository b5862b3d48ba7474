"""Text from the world made safe to print: no control character, escape sequence or direction override reaches a terminal.

Whatever a surface prints as plain text goes through ``printable``; JSON goes through ``json_text``. A pod may be called anything.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

# C0 and C1 controls, DEL, line and paragraph separators, bidirectional overrides and isolates, zero-width marks, lone surrogates.
_UNSAFE: Final = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff]"
)


def printable(text: str) -> str:
    """The text with every unsafe character written as its escape, such as ``\\x1b``; tabs and line ends too."""
    return _UNSAFE.sub(lambda match: _escaped(match.group()), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def json_text(value: Any, *, one_line: bool = False) -> str:
    """JSON (indented, or on ``one_line``) whose strings hold no unsafe character in the raw: the same document, safe on a terminal. NaN is
    refused."""
    text = json.dumps(value, ensure_ascii=False, indent=None if one_line else 2, allow_nan=False)
    return re.sub(_UNSAFE.pattern.replace("\\x00-\\x1f", ""), lambda match: f"\\u{ord(match.group()):04x}", text)
