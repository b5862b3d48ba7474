"""What a person reads is looked up in the chosen language; the compiled catalogue is the written one."""

from __future__ import annotations

import io
import runpy
from pathlib import Path
from typing import Any

import pytest
from babel.messages.pofile import read_po

from steelyard.answers.q01_holders import HoldersSpec, answer
from steelyard.answers.registry import ANSWERS, Entry
from steelyard.primitives.i18n import DOMAIN, LOCALE_DIR, catalogue
from steelyard.surfaces.shared.answer_text import render_answer
from tests.answers.estate import at, small_story
from tests.conftest import REPOSITORY

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


def test_the_share_of_messages_without_a_translation_is_reported_and_a_fuzzy_one_counts_as_none(tmp_path: Path) -> None:
    script = runpy.run_path(str(REPOSITORY / "scripts" / "messages.py"))
    path = tmp_path / "steelyard.po"
    path.write_text(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\nPlural-Forms: nplurals=1; plural=0;\\n"\n\n'
        'msgid "held"\nmsgstr "占用"\n\n'
        'msgid "free"\nmsgstr ""\n\n'
        '#, fuzzy\nmsgid "lost"\nmsgstr "掉卡"\n\n'
        'msgid "one"\nmsgid_plural "many"\nmsgstr[0] "{count} 个"\n',
        encoding="utf-8",
    )
    assert script["report"]("zh", path) == "zh: 2 of 4 messages are not translated (50.0 %)"
