"""What the tests of the demo's truth are given."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.simulation.truth import GroundTruth
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportReport


@dataclass(frozen=True)
class Demo:
    """The report of the import, the truth, and the store to ask."""

    report: ImportReport
    truth: GroundTruth
    store: Store


def post(store: Store) -> int:
    """Post with the default settings; how many entries it appended."""
    result = post_ledgers(store, PostingParameters(), clock=FixedClock(1_800_000_000_000_000))
    return sum(change.posted + change.reversed for change in result.changes.values())
