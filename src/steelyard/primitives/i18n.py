"""Translations: whatever a person reads goes through ``_`` and is looked up in the catalogues under ``primitives/locale``.

English is the source language. The trick to know: the language is chosen once per process (``lang`` of the settings, ``STEELYARD_LANG``, then the
usual ``LC_ALL``, ``LC_MESSAGES``, ``LANG``), unless a server answers somebody who asked for another (``speaking``), and a message
that the chosen catalogue lacks comes out in English.
"""

from __future__ import annotations

import gettext
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Final

DOMAIN: Final = "steelyard"
LOCALE_DIR: Final = Path(__file__).parent / "locale"
_settled: list[str] = []
_ASKED: Final[ContextVar[str | None]] = ContextVar("steelyard_language", default=None)


def language() -> str:
    """The chosen language code, such as ``en`` or ``zh``; ``en`` where the environment names none."""
    asked = _ASKED.get()
    if asked is not None:
        return asked
    if _settled:
        return _settled[0]
    for variable in ("STEELYARD_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable, "").split(".")[0].split("@")[0]
        if value and value not in ("C", "POSIX"):
            return value
    return "en"


def choose(code: str | None) -> None:
    """Speak the language of the settings from now on, in this process; None: the environment's again."""
    _settled[:] = [code] if code else []


def languages() -> tuple[str, ...]:
    """The codes of all languages that there are, English first."""
    return ("en", *sorted(_catalogues() - {"en"}))


def is_spoken(code: str) -> bool:
    """Whether a language code such as ``zh``, ``zh_CN`` or ``en-GB`` names one of them."""
    return code.split(".")[0].split("@")[0].replace("-", "_").split("_")[0].lower() in languages()


@contextmanager
def speaking(tags: str | None) -> Iterator[None]:
    """Within it, messages come in the first language of an Accept-Language header that there is a catalogue for, else in English.

    None changes nothing. Whatever the header says, only names of catalogues that are there are looked up.
    """
    if tags is None:
        yield
        return
    asked = [tag.split(";")[0].strip().replace("_", "-").split("-")[0].lower() for tag in tags[:200].split(",")]
    token = _ASKED.set(next((code for code in asked if code == "en" or code in _catalogues()), "en"))
    try:
        yield
    finally:
        _ASKED.reset(token)


@cache
def _catalogues() -> frozenset[str]:
    return frozenset(path.name for path in LOCALE_DIR.iterdir() if path.is_dir())


@cache
def catalogue(code: str) -> gettext.NullTranslations:
    """The catalogue of a language; the empty one (English) where there is none."""
    return gettext.translation(
        DOMAIN, LOCALE_DIR, languages=[code, code.replace("-", "_").split("_")[0]], fallback=True
    )


def _(message: str) -> str:
    """The message in the chosen language."""
    return catalogue(language()).gettext(message)


def ngettext(singular: str, plural: str, count: int) -> str:
    """The right plural form in the chosen language."""
    return catalogue(language()).ngettext(singular, plural, count)
