"""The command to type next, as the person at this terminal can paste it: our name as it was called, and the data directory."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from steelyard.primitives.i18n import _
from steelyard.surfaces.cli import options
from steelyard.surfaces.shared.printable import printable
from steelyard.surfaces.shared.tables import Line

NAME: Final = "steelyard"
_ASKS: Final = ("q1", "q2 --by tenant")


def program() -> str:
    """What calls us from here: ``steelyard`` where the search path leads to us, else the path as it was typed; as a module, its name."""
    called = sys.argv[0] if sys.argv else ""
    if Path(called).suffix == ".py":
        return f"{shlex.quote(sys.executable)} -m steelyard.app.main"
    if Path(called).name != NAME:
        return NAME
    found = shutil.which(NAME)
    if found is not None and os.path.realpath(found) == os.path.realpath(called):
        return NAME
    return shlex.quote(called)


def next_command(words: str, data: Path) -> str:
    """``<program> <words> --data DIR``; the directory only where a command without it would take another one."""
    taken = Path(os.environ.get("STEELYARD_DATA") or options.DATA_DEFAULT)
    return f"{program()} {words}" + ("" if data == taken else f" --data {shlex.quote(str(data))}")


def what_to_ask(data: Path, asks: Sequence[str] = ()) -> list[Line]:
    """The commands to go on with, to be pasted. ``asks``: their words; none named: the two that every estate can answer."""
    return [
        Line("row", _("ask: {command}").format(command=printable(next_command(words, data)))) for words in asks or _ASKS
    ]
