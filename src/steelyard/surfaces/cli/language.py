"""The language that ``STEELYARD_LANG`` names has to be one that there is: checked once, before any command."""

from __future__ import annotations

import os

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import is_spoken, languages


def check_language() -> None:
    """Raises UsageError, in English, where it names a language without a catalogue."""
    code = os.environ.get("STEELYARD_LANG", "")
    if code and not is_spoken(code):
        known = ", ".join(languages())
        raise UsageError(f"STEELYARD_LANG: expected one of {known}; found {code[:80]!r}")
