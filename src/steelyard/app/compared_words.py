"""What the systems of a cluster say of the same objects, kept until all of it can be compared: over all files of an import, or over a watch's rounds.

Every fact and pod goes by; each comparison keeps of them what it needs, in bounds, and says at the end what does not agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from steelyard.facts.base import Fact
from steelyard.sources import kueue, volcano
from steelyard.sources.kube_scheduler import PlacedWords
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView

PASSING: Final = kueue.PASSING | volcano.PASSING
"""Findings that may be true for a moment, while a status catches up."""


@dataclass(slots=True)
class ComparedWords:
    """The comparisons of one import or one watched cluster. ``note`` and ``note_pod`` say whether any of them kept something."""

    kueue: kueue.KueueWords = field(default_factory=kueue.KueueWords)
    volcano: volcano.VolcanoWords = field(default_factory=volcano.VolcanoWords)
    placed: PlacedWords = field(default_factory=PlacedWords)

    def note(self, fact: Fact) -> bool:
        """Keep of a fact what a comparison needs."""
        kept = self.kueue.note(fact)
        kept = self.volcano.note(fact) or kept
        return self.placed.note(fact) or kept

    def note_pod(self, view: PodView) -> bool:
        """Keep of a pod what a comparison needs. That every pod has a node is no part in a contradiction yet."""
        kept = self.kueue.note_pod(view)
        self.placed.note_pod(view)
        return self.volcano.note_pod(view) or kept

    def forget(self, uid: str) -> None:
        """An object that is gone."""
        self.kueue.forget(uid)
        self.volcano.forget(uid)
        self.placed.forget(uid)

    def forget_events(self) -> None:
        """Drop what was kept of events: a watch compares each once."""
        self.kueue.forget_events()
        self.placed.forget_events()

    def findings(self, ctx: ReadContext, *, workloads_listed: bool, pods_listed: bool) -> Iterator[Fact]:
        """What does not agree. ``workloads_listed``, ``pods_listed``: all of the cluster were seen, so that one can be missing."""
        yield from self.kueue.findings(ctx, workloads_listed=workloads_listed)
        yield from self.volcano.findings(ctx, pods_listed=pods_listed)
        yield from self.placed.findings(ctx)
