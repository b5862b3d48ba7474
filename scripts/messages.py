"""Collects the messages that a person reads, merges them into the catalogues, compiles those and says how much of each is translated.

Run by ``make messages``. The catalogues are data under ``src/steelyard/primitives/locale``; English is the source language.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from babel.messages.catalog import Message
from babel.messages.pofile import read_po

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ROOT / "src" / "steelyard" / "primitives" / "locale"
TEMPLATE = LOCALE / "steelyard.pot"
LANGUAGES = ("zh",)


def babel(*arguments: str) -> None:
    """One run of Babel's command line; its failure ends this script."""
    subprocess.run([sys.executable, "-m", "babel.messages.frontend", "-q", *arguments], cwd=ROOT, check=True)


def untranslated(catalogue: Path) -> tuple[int, int]:
    """(messages without a translation that counts, all messages): an empty one is none, and a fuzzy one is not used."""
    with catalogue.open("rb") as stream:
        messages = [message for message in read_po(stream) if message.id]
    missing = [message for message in messages if message.fuzzy or not _texts(message) or not all(_texts(message))]
    return len(missing), len(messages)


def _texts(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string or ())


def report(language: str, catalogue: Path) -> str:
    """One line: how many messages of a language are not translated."""
    missing, count = untranslated(catalogue)
    share = 100 * missing / count if count else 0.0
    return f"{language}: {missing} of {count} messages are not translated ({share:.1f} %)"


def main() -> None:
    """Extract, update, compile, report. A translation that is missing is no failure: the message comes out in English."""
    LOCALE.mkdir(parents=True, exist_ok=True)
    header = ["--no-location", "--sort-output", "--omit-header", "--project=steelyard"]
    babel("extract", *header, "-k", "_", "-k", "ngettext:1,2", "-o", str(TEMPLATE), "src/steelyard")
    for language in LANGUAGES:
        catalogue = LOCALE / language / "LC_MESSAGES" / "steelyard.po"
        verb = "update" if catalogue.exists() else "init"
        extra = ["--no-fuzzy-matching", "--ignore-pot-creation-date"] if verb == "update" else []
        babel(verb, "-i", str(TEMPLATE), "-o", str(catalogue), "-l", language, *extra)
        babel("compile", "-i", str(catalogue), "-o", str(catalogue.with_suffix(".mo")))
        print(report(language, catalogue))


if __name__ == "__main__":
    main()
