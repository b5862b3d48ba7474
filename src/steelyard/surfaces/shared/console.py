"""Where lines go: a terminal gets its width, colours and a progress bar; a pipe gets whole lines and nothing else.

The trick to know: colour only repeats what a word already says, ``NO_COLOR`` and pipes switch it off, and nothing that comes from data
is ever read as markup.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from steelyard.surfaces.shared.ports import Progress
from steelyard.surfaces.shared.tables import Line

ROWS_ON_A_TERMINAL: Final = 40
_STYLES: Final = {
    "heading": "bold",
    "title": "bold cyan",
    "head": "bold",
    "fold": "dim",
    "note": "dim",
    "unknown": "yellow",
}


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty() and os.environ.get("TERM", "") != "dumb"


def width_of(stream: TextIO) -> int | None:
    """The columns of a terminal (at least 40); None for a pipe or a file."""
    return max(40, Console(file=stream).width) if stream.isatty() else None


def rows_shown(asked: int | None, stream: TextIO) -> int | None:
    """How many rows of a table to show: as asked (0 = all), else a screenful on a terminal and all in a pipe."""
    if asked is not None:
        return asked or None
    return ROWS_ON_A_TERMINAL if stream.isatty() else None


def print_lines(lines: Iterable[Line], stream: TextIO) -> None:
    """Print lines, styled on a terminal that takes colours, plain otherwise."""
    if not _is_terminal(stream) or os.environ.get("NO_COLOR"):
        stream.write("".join(f"{line.text}\n" for line in lines))
        stream.flush()
        return
    console = Console(file=stream, soft_wrap=True, highlight=False, markup=False, emoji=False)
    for line in lines:
        console.print(Text(line.text, style=_STYLES.get(line.kind, "")))


@contextmanager
def progress_bar(stream: TextIO | None = None) -> Iterator[Progress]:
    """A progress bar on a terminal, nothing elsewhere. It stands on stderr, so results can be piped."""
    stream = stream or sys.stderr
    if not _is_terminal(stream):
        yield lambda what, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(file=stream, markup=False, emoji=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        tasks: dict[str, int] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = int(bar.add_task(what, total=total or None))
            bar.update(tasks[what], completed=done, total=total or None)  # type: ignore[arg-type]  # rich takes None, its stub says int

        yield report
