"""Foreign text is decoded, cleaned and cut into numbered lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.sources.shared.plain_text import decode_text, numbered_lines, plain


@pytest.mark.parametrize(
    "payload",
    ["é\n".encode(), "\ufeffé\n".encode(), "é\n".encode("utf-16"), "\ufeffé\n".encode("utf-16-be"), "\ufeffé\n", "é\n"],
)
def test_marks_tell_the_encoding(payload: bytes | str) -> None:
    assert decode_text(payload) == "é\n"


def test_nul_and_lone_surrogates_are_replaced() -> None:
    assert plain("a\x00b\ud800c") == "a\ufffdb\ufffdc"
    assert decode_text(b"a\x00\xff") == "a\ufffd\ufffd"


def test_lines_are_numbered_as_an_editor_does() -> None:
    assert list(numbered_lines("a\r\nb\x0bc\n\nd", first=7)) == [(7, "a"), (8, "b\x0bc"), (9, ""), (10, "d")]
    assert list(numbered_lines("")) == []


@given(st.text(alphabet="ab\n", max_size=40))
def test_no_text_is_lost(text: str) -> None:
    assert "\n".join(line for _, line in numbered_lines(text)) == text.removesuffix("\n")
