"""Questions about room: how fragmented the estate is, what fits now, what could be smaller. One door for the three, which differ in what they are
asked with.

``app`` implements ``Capacity``; the command line and HTTP make the specs, the client turns one into a path and query parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final, Protocol, TypeAlias

from steelyard.answers.contract import Answer
from steelyard.answers.fits import FitsSpec
from steelyard.answers.fragmentation import FragmentationSpec
from steelyard.answers.right_sizing import RightSizingSpec
from steelyard.primitives.instant import format_instant

CapacitySpec: TypeAlias = FragmentationSpec | FitsSpec | RightSizingSpec

PATHS: Final[Mapping[type[CapacitySpec], str]] = {
    FragmentationSpec: "/fragmentation",
    FitsSpec: "/fits",
    RightSizingSpec: "/rightsize",
}


class Capacity(Protocol):
    """Answers questions about room from the data directory."""

    def capacity(self, spec: CapacitySpec) -> Answer:
        """The answer. Raises UsageError for what cannot be asked, and where nothing was posted."""
        ...


def capacity_parameters(spec: CapacitySpec) -> list[tuple[str, str]]:
    """The spec as query parameters of its route; what has its default is left out. A tenant is never sent: the server knows who asks."""
    found: list[tuple[str, str]] = []
    for each in fields(spec):
        value = getattr(spec, each.name)
        if each.name == "tenant" or value is None or value == each.default:
            continue
        if each.name == "at":
            found.append(("at", format_instant(value)))
        elif each.name == "window":
            found += [("from", format_instant(value.start)), ("to", format_instant(value.end))]
        else:
            found.append((each.name, "true" if value is True else str(value)))
    return found
