"""The door through which settlement has a statement written down: whoever closes a period is handed ``Documents``.

``surfaces/reports`` implements it, ``app`` hands it in. The trick to know: a document is a pure function of its statement, so writing the same closed
statement again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal, Protocol

from steelyard.settlement.statement import Statement

Format = Literal["csv", "parquet", "xlsx", "pdf", "focus"]
FORMATS: Final[tuple[Format, ...]] = ("csv", "parquet", "xlsx", "pdf", "focus")


class Folder(Protocol):
    """Where documents go: a folder of files, or whatever is like one."""

    def write(self, name: str, content: bytes) -> None:
        """Keep ``content`` under ``name`` (a plain file name, such as ``statement.csv``)."""
        ...


class Documents(Protocol):
    """Writes what a statement says in the formats that people and machines read."""

    def write(self, statement: Statement, folder: Folder, formats: Collection[Format] = FORMATS) -> Sequence[str]:
        """The documents of one statement, ``manifest.json`` with their hashes last; the names written, in order.

        Raises UsageError where a format needs what is not installed (the extra ``report``, a font): what to install stands in the message.
        """
        ...
