"""A bound on the engine's memory for as long as something big is written, so that it spills to the disk instead of growing.

``settlement.snapshot`` writes the rows of a month under one. The trick to know: the bound is the whole engine's, so whoever asks meanwhile shares it;
where more is in use already that cannot be let go, the bound stays what it was. Sceptic's query: ``SELECT current_setting('memory_limit')``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from steelyard.primitives.errors import StoreFailed
from steelyard.store.store import Store

_LIMIT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(bytes|KiB|MiB|GiB|TiB)\Z")
_UNITS: Final = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@contextmanager
def memory_bounded(store: Store, bytes_max: int) -> Iterator[None]:
    """Within it the engine keeps to ``bytes_max``, or to less where it is set to less; afterwards to what it was."""
    before = str(store.rows("SELECT current_setting('memory_limit')")[0][0])
    match = _LIMIT.match(before)
    if (
        match is None
        or float(match[1]) * _UNITS[match[2]] <= bytes_max
        or not _is_set(store, f"{bytes_max // (1 << 20)}MiB")
    ):
        yield
        return
    try:
        yield
    finally:
        # The engine tells a limit cut to one digit: as much as may be cut is given back, so that it does not shrink from time to time.
        _is_set(store, f"{float(match[1]) + 0.09:.2f} {match[2]}")


def _is_set(store: Store, limit: str) -> bool:
    try:
        store.execute(f"SET GLOBAL memory_limit = '{limit}'")
    except StoreFailed:
        return False
    return True
