"""How a command puts out its result: lines for people, JSON for machines, quiet when the reader has gone."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Any, Final

import typer

from steelyard.surfaces.shared.console import print_lines, rows_shown, width_of
from steelyard.surfaces.shared.printable import json_text
from steelyard.surfaces.shared.tables import Line

EXIT_PIPE_CLOSED: Final = 141
"""As a program ends that SIGPIPE stops: the reader of our output left."""


def put_out(
    as_json: bool,
    document: Callable[[], Any],
    lines: Callable[[int | None, int | None], list[Line]],
    rows: int | None = None,
    *,
    one_line: bool = False,
) -> None:
    """Print ``document()`` as JSON (on ``one_line``, where it is an event of something that goes on) or ``lines(width, rows_max)`` as text on stdout.

    Raises typer.Exit(141) where the reader of a pipe has gone, OSError where there is no stdout at all (``>&-``).
    """
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "stdout")
    try:
        if as_json:
            sys.stdout.write(json_text(document(), one_line=one_line) + "\n")
        else:
            print_lines(lines(width_of(sys.stdout), rows_shown(rows, sys.stdout)), sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(EXIT_PIPE_CLOSED) from None
