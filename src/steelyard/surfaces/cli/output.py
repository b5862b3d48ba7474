"""How a command puts out its result: lines for people, JSON for machines, quiet when the reader has gone."""

from __future__ import annotations

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
) -> None:
    """Print ``document()`` as JSON or ``lines(width, rows_max)`` as text on stdout.

    Raises typer.Exit(141) where the reader of a pipe has gone.
    """
    try:
        if as_json:
            sys.stdout.write(json_text(document()) + "\n")
        else:
            print_lines(lines(width_of(sys.stdout), rows_shown(rows, sys.stdout)), sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(EXIT_PIPE_CLOSED) from None
