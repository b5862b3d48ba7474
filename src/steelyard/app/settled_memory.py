"""What a process loads once and keeps, left out of the garbage collector's passes.

The server calls it before it answers, and the bench of answers does as the server does. The trick to know: a full collection walks every
object that may be part of a cycle, and nearly all of them belong to loaded libraries, which never become garbage: some ninety thousand
objects, which cost an answer of 50 ms as much again. Frozen objects are not walked; what comes after them is collected as ever.

Sceptic's command: ``python -X importtime -c "import steelyard.app.serving"`` shows what is loaded, ``gc.get_freeze_count()`` what is frozen.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loaded_once() -> Iterator[None]:
    """Within it, what was there before is no longer walked by collections; afterwards it is again. Garbage is collected first, for frozen
    garbage would stay. What is loaded later (a client at its first connection) is walked as usual."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
