"""How a simulated estate's data directory is told from a real one: the mark that ``steelyard demo`` leaves before anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _

FOLDER: Final = "demo-sources"
MARK: Final = "spec.json"
DECLARED_BY: Final = "demo"
"""Who declares the simulated prices."""


def is_demo(directory: Path) -> bool:
    """Whether the directory holds a simulated estate."""
    return (directory / FOLDER / MARK).is_file()


def refuse_in_demo(directory: Path) -> None:
    """Raises UsageError where the directory holds a demo: real facts beside simulated ones would make figures of neither."""
    if is_demo(directory):
        raise UsageError(
            _("{directory} holds a simulated estate: name another directory for real files with --data").format(
                directory=directory
            )
        )
