"""Collects the messages that a person reads, merges them into the catalogues and compiles those.

Run by ``make messages``. The catalogues are data under ``src/steelyard/primitives/locale``; English is the source language.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ROOT / "src" / "steelyard" / "primitives" / "locale"
TEMPLATE = LOCALE / "steelyard.pot"
LANGUAGES = ("zh",)


def babel(*arguments: str) -> None:
    """One run of Babel's command line; its failure ends this script."""
    subprocess.run([sys.executable, "-m", "babel.messages.frontend", "-q", *arguments], cwd=ROOT, check=True)


def main() -> None:
    """Extract, update, compile."""
    LOCALE.mkdir(parents=True, exist_ok=True)
    header = ["--no-location", "--sort-output", "--omit-header", "--project=steelyard"]
    babel("extract", *header, "-k", "_", "-k", "ngettext:1,2", "-o", str(TEMPLATE), "src/steelyard")
    for language in LANGUAGES:
        catalogue = LOCALE / language / "LC_MESSAGES" / "steelyard.po"
        verb = "update" if catalogue.exists() else "init"
        extra = ["--no-fuzzy-matching", "--ignore-pot-creation-date"] if verb == "update" else []
        babel(verb, "-i", str(TEMPLATE), "-o", str(catalogue), "-l", language, *extra)
        babel("compile", "-i", str(catalogue), "-o", str(catalogue.with_suffix(".mo")))


if __name__ == "__main__":
    main()
