"""Which models yield no row whatever else the facts say, so that an estate without queues, samples or claims pays nothing for theirs.

To plan a model of two hundred lines costs the engine 10 to 25 ms, rows or none; an empty table costs a third of one. ``empty_models.csv`` says of
each model from which tables' emptiness its own follows, and with which columns it then stands. The trick to know: nobody writes that file. A test
derives it from the text of the models (an inner join with nothing is nothing, a sum over nothing is a row) and fails where the file says anything
else; another posts whole estates with and without it and compares every table. Of a text that changed since, nothing is taken from the file.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from steelyard.ledgers.registry import PASSING, over_passing_stages
from steelyard.primitives.errors import InvariantError
from steelyard.store import Store

FILE: Final = "empty_models.csv"
_FOUND: Final = re.compile(r"^(?:WITH )?found AS \(\n( +)(.*?)\n\)", re.MULTILINE | re.DOTALL)
"""The block of a findings file in which one SELECT after the other stands, and how far they are indented."""


@dataclass(frozen=True, slots=True)
class EmptyModel:
    """A model without a row where all tables of one of ``grounds`` are without one, as long as its text has this digest. ``columns``: as in
    CREATE TABLE, of a model that stands as a table."""

    text_digest: str
    grounds: tuple[frozenset[str], ...]
    columns: str


@cache
def empty_models() -> Mapping[str, EmptyModel]:
    """By model: ``dim.<stem>``, ``ledger.<name>``, and ``<findings file>#<number>`` for each SELECT of its block ``found``."""
    text = (files(__package__) / FILE).read_text(encoding="utf-8")
    return {
        row["model"]: EmptyModel(
            row["text_digest"],
            tuple(frozenset(ground.split()) for ground in row["grounds"].split("|")),
            row["columns"],
        )
        for row in csv.DictReader(text.splitlines())
    }


@cache
def text_digest(text: str) -> str:
    """What tells one text of a model from another."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class EmptyTables:
    """What one posting run knows to be empty. Facts do not change within a run, a ledger is asked only once it was posted."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, bool] = {}

    def note(self, table: str, rows_count: int) -> None:
        """Say how many rows ``table`` has now."""
        self._known[table] = rows_count == 0

    def has_no_rows(self, table: str) -> bool:
        """Whether ``fact.<table>``, ``dim.<stem>`` or ``ledger.<name>`` is known to have none."""
        if table not in self._known:
            schema, name = table.split(".")
            if schema == "dim":
                return False
            self._known[table] = not self._store.rows(f'SELECT 1 FROM {schema}."{name}" LIMIT 1')
        return self._known[table]

    def yields_nothing(self, model: str, text: str) -> bool:
        """Whether the model of that name and text is without a row because of what is empty; False where that is not known."""
        declared = empty_models().get(model)
        return (
            declared is not None
            and declared.text_digest == text_digest(text)
            and any(all(map(self.has_no_rows, ground)) for ground in declared.grounds)
        )

    def build(self, stem: str, model: str, bound: Sequence[object] | Mapping[str, object] = ()) -> None:
        """``dim.<stem>`` (of a passing stage the temporary table of that name) anew from its SELECT, or empty as it then is."""
        table = f"dim.{stem}"
        made = f"TEMP TABLE {stem}" if stem in PASSING else f"TABLE {table}"
        if self.yields_nothing(table, model) and empty_models()[table].columns:
            self._store.execute(f"CREATE OR REPLACE {made} ({empty_models()[table].columns})")
            self.note(table, 0)
            return
        built = self._store.rows(f"CREATE OR REPLACE {made} AS {over_passing_stages(model)}", bound)
        self.note(table, int(built[0][0]))

    def findings_with_rows(self, file: str, model: str) -> str | None:
        """The text of a findings file without those SELECTs that yield nothing; None where all do. The first stays for the names of its columns."""
        first, *others = branches_found(model)
        kept = [branch for number, branch in enumerate(others, 1) if not self.yields_nothing(f"{file}#{number}", model)]
        if not kept and self.yields_nothing(f"{file}#0", model):
            return None
        return with_branches(model, (first, *kept))


def branches_found(model: str) -> list[str]:
    """The SELECTs of a findings file's block ``found``."""
    block = _block(model)
    return block[2].split(_between(block[1]))


def with_branches(model: str, branches: Sequence[str]) -> str:
    """The file's text with these SELECTs in the block ``found`` in place of its own."""
    block = _block(model)
    return model[: block.start(2)] + _between(block[1]).join(branches) + model[block.end(2) :]


def _block(model: str) -> re.Match[str]:
    found = _FOUND.search(model)
    if found is None:
        raise InvariantError("a file of findings has no block named found")
    return found


def _between(indent: str) -> str:
    return f"\n{indent}UNION ALL\n{indent}"
