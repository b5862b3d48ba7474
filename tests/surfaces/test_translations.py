"""What a person reads is looked up in the chosen language; the compiled catalogue is the written one."""

from __future__ import annotations

import io
from typing import Any

import pytest
from babel.messages.pofile import read_po

from steelyard.answers.q01_holders import HoldersSpec, answer
from steelyard.answers.registry import ANSWERS, Entry
from steelyard.primitives.i18n import DOMAIN, LOCALE_DIR, catalogue
from steelyard.surfaces.shared.answer_text import render_answer
from tests.answers.estate import at, small_story

FOLDER = LOCALE_DIR / "zh" / "LC_MESSAGES"


def written() -> dict[Any, Any]:
    content = io.BytesIO((FOLDER / f"{DOMAIN}.po").read_bytes())
    return {message.id: message.string for message in read_po(content) if message.id}


@pytest.mark.parametrize("each", ANSWERS, ids=lambda each: each.name)
def test_the_chinese_catalogue_has_the_title_of_every_question(each: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_LANG", "zh_CN.UTF-8")
    assert each.title() == each.title_zh
    monkeypatch.setenv("STEELYARD_LANG", "en")
    assert each.title() != each.title_zh


def test_the_compiled_catalogue_is_the_written_one() -> None:
    compiled = catalogue("zh")
    for message, translation in written().items():
        if isinstance(message, str):
            assert compiled.gettext(message) == (translation or message)


def test_translations_keep_every_field() -> None:
    import string

    def fields(text: str) -> set[str]:
        return {name for _text, name, _format, _conversion in string.Formatter().parse(text) if name is not None}

    for message, translation in written().items():
        source, target = (message[0], translation[0]) if isinstance(message, tuple) else (message, translation)
        assert not target or fields(source) == fields(target), source


def test_an_answer_reads_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_LANG", "zh")
    text = "\n".join(line.text for line in render_answer(answer(small_story().store, HoldersSpec(at=at("10:00"))), 80))
    assert "谁占着哪张 GPU" in text
    assert "截至 2026-11-30T10:00:00Z" in text
    assert "盲区" in text
