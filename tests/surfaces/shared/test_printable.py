"""Nothing that comes from data can steer a terminal."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.surfaces.shared.printable import json_text, printable

STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("team-a/infer", "team-a/infer"),
        ("模型-1 é", "模型-1 é"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nb\tc\r", "a\\x0ab\\x09c\\x0d"),
        ("evil\u202egnp.exe", "evil\\u202egnp.exe"),
        ("bad\udc80name", "bad\\udc80name"),
    ],
)
def test_unsafe_characters_are_written_out(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text(st.characters(codec=None, categories=None)))
def test_no_text_steers_a_terminal_and_json_stays_the_same_document(text: str) -> None:
    assert not STEERING.search(printable(text))
    document = json_text({"name": text})
    assert not STEERING.search(document.replace("\n", ""))
    assert json.loads(document) == {"name": text}
