"""Which questions the facts of a store can answer, as commands to go on with.

An import tells them at its end. The trick to know: the store as a whole is asked, and not what one import brought, since one question joins
many files.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from steelyard.answers.reading import Reading, Rows

SQL: Final = Path(__file__).with_suffix(".sql")


def askable(rows: Rows) -> tuple[str, ...]:
    """The words of each command that has an answer: who holds what, use, scheduling, and the story of the request that waits longest."""
    reading = Reading(rows, SQL)
    known = reading.run("askable_known")[0]
    found = ["q1", "q2 --by tenant"] if known["has_holdings"] else []
    if known["has_queues"]:
        found.append("q6")
    return (*found, *(f"why {shlex.quote(row['name'])}" for row in reading.run("askable_wait")))
