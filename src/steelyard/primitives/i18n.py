"""Translations: whatever a person reads goes through ``_`` and is looked up in the catalogues under ``primitives/locale``.

English is the source language. The trick to know: the language is chosen once per process (``STEELYARD_LANG``, then the
usual ``LC_ALL``, ``LC_MESSAGES``, ``LANG``), and a message that the chosen catalogue lacks comes out in English.
"""

from __future__ import annotations

import gettext
import os
from functools import cache
from pathlib import Path
from typing import Final

DOMAIN: Final = "steelyard"
LOCALE_DIR: Final = Path(__file__).parent / "locale"


def language() -> str:
    """The chosen language code, such as ``en`` or ``zh``; ``en`` where the environment names none."""
    for variable in ("STEELYARD_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable, "").split(".")[0].split("@")[0]
        if value and value not in ("C", "POSIX"):
            return value
    return "en"


@cache
def catalogue(code: str) -> gettext.NullTranslations:
    """The catalogue of a language; the empty one (English) where there is none."""
    return gettext.translation(DOMAIN, LOCALE_DIR, languages=[code, code.split("_")[0]], fallback=True)


def _(message: str) -> str:
    """The message in the chosen language."""
    return catalogue(language()).gettext(message)


def ngettext(singular: str, plural: str, count: int) -> str:
    """The right plural form in the chosen language."""
    return catalogue(language()).ngettext(singular, plural, count)
