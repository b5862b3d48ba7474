"""How one value reads: numbers with digits that fit their unit, unknown values as such, nothing as a dash.

``Notes`` collects the reasons of unknown cells of a table, so that a reason that stands in a hundred rows is printed once below it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from steelyard.answers.contract import Column, Value
from steelyard.primitives.i18n import _
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.shared.printable import printable

_DIGITS: Final = {"GPU-h": 3, "MiB-h": 1, "MiB": 1, "GPU": 4, "%": 1, "1": 4}
_ALWAYS: Final = frozenset({"GPU-h"})


@dataclass(slots=True)
class Notes:
    """Reasons of unknown cells, numbered in the order of their first use."""

    numbers: dict[str, int] = field(default_factory=dict)

    def mark(self, reason: str) -> str:
        """The mark of a reason, such as ``[1]``."""
        return f"[{self.numbers.setdefault(reason, len(self.numbers) + 1)}]"

    def lines(self) -> list[str]:
        """One line per reason."""
        return [
            _("[{number}] unknown, because {reason}").format(number=number, reason=printable(reason))
            for reason, number in self.numbers.items()
        ]


def cell_text(value: Value, column: Column, notes: Notes) -> str:
    """A cell as text. An unknown card reads ``device unknown, because ...`` in full: that is what the row is about."""
    if isinstance(value, Unknown):
        if column.name == "device_uuid":
            return _("device unknown, because {reason}").format(reason=printable(value.reason))
        return _("unknown {mark}").format(mark=notes.mark(value.reason))
    if value is None:
        return _("open") if column.name == "ended_at" else "-"
    return number_text(value, column.unit)


def number_text(value: int | float | str | bool | Fraction, unit: str) -> str:
    """A known value as text: thousands apart, GPU-hours with three decimals, other fractions without trailing zeros."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, int) and unit not in _ALWAYS:
        return f"{value:,}" if unit else str(value)
    text = f"{float(value):,.{_DIGITS.get(unit, 4)}f}"
    if unit not in _ALWAYS and "." in text:
        text = text.rstrip("0").rstrip(".")
    return text


def is_number(value: Value) -> bool:
    """Whether a cell is set flush right."""
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool)
