"""``Unknown(reason)``: a value that is not known, as a value. It never becomes 0, idle or healthy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unknown:
    """Not known, because of ``reason`` (a lower-case phrase that completes "unknown, because ...")."""

    reason: str

    def __bool__(self) -> bool:
        raise TypeError("Unknown is neither true nor false; ask isinstance(value, Unknown)")

    def __str__(self) -> str:
        return f"unknown: {self.reason}"


def known(value: T | Unknown) -> T | None:
    """The value, or None where it is unknown: for columns that keep the reason beside the NULL."""
    return None if isinstance(value, Unknown) else value
