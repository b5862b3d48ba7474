"""The ports, wired: which classes stand behind the doors that a surface is given.

``main`` calls ``ports``. The trick to know: everything heavy is imported inside the functions, so building the command line costs
nothing, and ``steelyard --help`` reaches no engine.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from steelyard.answers.contract import Answer
from steelyard.answers.registry import entry
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.surfaces.shared.ports import Demo, Importer, Ports, Question

_LEDGER_TABLES: Final = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'ledger'"


class StoreQuery:
    """Implements ``ports.Query`` over the store of one data directory, opened read-only for each question."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def answer(self, number: int, question: Question) -> Answer:
        """The answer to Q``number``.

        Raises UsageError for a question that is not built, one that takes no instant (or no window), a dimension that does not exist
        and a directory without data; StoreLocked while another process holds it.
        """
        asked = entry(number)
        common = {"by": tuple(question.by), "where": dict(question.where), "explain": question.explain}
        if asked.takes == "instant":
            _refuse(question.window is not None, _("{name} takes an instant, not a window"), asked.name)
            spec = asked.spec(at=question.at, **common)
        else:
            _refuse(question.at is not None, _("{name} takes a window, not an instant"), asked.name)
            spec = asked.spec(window=question.window, **common)
        from steelyard.store import Store

        with Store.open(self._directory, read_only=True) as store:
            self._check_posted({name for (name,) in store.rows(_LEDGER_TABLES)})
            return asked.function(store, spec)

    def _check_posted(self, tables: set[str]) -> None:
        from steelyard.ledgers.registry import LEDGERS

        if "posting_run" not in tables:
            raise UsageError(
                _(
                    "nothing was posted in {directory} yet: run `steelyard import` with files of the estate first"
                ).format(directory=self._directory)
            )
        if missing := sorted({ledger.name for ledger in LEDGERS} - tables):
            raise UsageError(
                _(
                    "{directory} was posted by an older version without {ledgers}: run `steelyard import` once more"
                ).format(directory=self._directory, ledgers=", ".join(missing))
            )


def _refuse(wrong: bool, message: str, name: str) -> None:
    if wrong:
        raise UsageError(message.format(name=name))


def _importer(directory: Path) -> Importer:
    from steelyard.app.importer import FileImporter
    from steelyard.app.posting import post
    from steelyard.app.settings import load_settings

    settings = load_settings(directory)
    return FileImporter(directory, settings, lambda store: post(store, settings))


def _demo(directory: Path) -> Demo:
    from steelyard.app.demo import SimulatedDemo
    from steelyard.app.posting import post
    from steelyard.app.settings import load_settings

    settings = load_settings(directory)
    return SimulatedDemo(directory, settings, lambda store: post(store, settings))


def _kinds() -> Collection[str]:
    from steelyard.app.detect import ALIASES, KINDS

    return {*KINDS, *ALIASES}


def ports() -> Ports:
    """All doors, wired to files, store and simulation."""
    return Ports(importer=_importer, query=StoreQuery, demo=_demo, kinds=_kinds)
