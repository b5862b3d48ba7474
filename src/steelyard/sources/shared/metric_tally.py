"""What became of the samples of a round: each was used, repeated another, was passed over or refused. Nothing is dropped without being counted."""

from __future__ import annotations

from collections import Counter
from typing import Final

from steelyard.facts.finding import Finding
from steelyard.primitives.i18n import ngettext
from steelyard.sources.shared.context import ReadContext

NAMES_SHOWN_MAX: Final = 50
_NAMES_MAX: Final = 10_000
_OTHERS: Final = "(others)"


class MetricTally:
    """Counts by metric name. ``used``: a fact was made of it; ``repeated``: the same figure once more, of which a fact was made already;
    ``ignored``: it carries nothing that is read; ``refused``: a finding says why."""

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()
        self.repeated: Counter[str] = Counter()
        self.ignored: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def use(self, name: str) -> None:
        """A sample that became (part of) a fact."""
        _count(self.used, name)

    def ignore(self, name: str) -> None:
        """A sample that is not read: a metric we have no column for, or a row that tells nothing."""
        _count(self.ignored, name)

    def repeat(self, name: str) -> None:
        """A sample that another one says as well or better: the figure is taken once, so nothing is lost and no finding speaks of it."""
        _count(self.repeated, name)

    def refuse(self, name: str) -> None:
        """A sample that a finding speaks of."""
        _count(self.refused, name)

    @property
    def total(self) -> int:
        """All samples counted."""
        return self.used.total() + self.repeated.total() + self.ignored.total() + self.refused.total()

    def finding(self, ctx: ReadContext, source: str) -> Finding | None:
        """``metrics_ignored`` (info) with the names and counts of what was not read; None where all was."""
        if not self.ignored:
            return None
        samples, metrics = self.ignored.total(), len(self.ignored)
        shown = dict(sorted(self.ignored.most_common(NAMES_SHOWN_MAX)))
        return ctx.finding(
            source,
            "metrics_ignored",
            f"file {ctx.file}",
            ngettext(
                "{count} sample of {of_metrics} carries nothing that is read",
                "{count} samples of {of_metrics} carry nothing that is read",
                samples,
            ).format(
                count=samples, of_metrics=ngettext("{count} metric", "{count} metrics", metrics).format(count=metrics)
            ),
            severity="info",
            evidence={"count": self.ignored.total(), "names": shown},
        )


def _count(counter: Counter[str], name: str) -> None:
    counter[name if name in counter or len(counter) < _NAMES_MAX else _OTHERS] += 1
