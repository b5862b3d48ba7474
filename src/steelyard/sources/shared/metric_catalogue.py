"""Metrics of services by their current name, whatever a release, an exporter or a relabelling called them.

A reader declares its metrics once (``Metric``); the catalogue spells out every way they are exposed: old names, with and without
``_total``, the parts of a histogram, and the prefixes that Ray and KServe put in front. The trick to know: a name is looked up, never
parsed, so an unknown name costs one look-up and is nothing else by accident (``tgi_request_count`` is a counter, no part of a histogram).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
SUMMARY: Final = "summary"
BUCKET: Final = "bucket"
_PARTS: Final = (BUCKET, "sum", "count")
_TOTAL: Final = "_total"


@dataclass(frozen=True, slots=True)
class Metric:
    """``name``: the current one. ``kind``: counter, gauge, histogram or summary. ``former``: other names of the same figure.
    ``least``, ``largest``: what it can be at all (inclusive); a value outside is not known.
    ``exact``: a counter that is not also spelt with (or without) ``_total``, because that is another metric."""

    name: str
    kind: str
    family: str
    former: Sequence[str] = ()
    least: float | None = None
    largest: float | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What an exposed name stands for. ``kind``: gauge, counter, bucket, sum or count. ``rank``: 0 for the current spelling."""

    metric: Metric
    name: str
    kind: str
    rank: int


class Catalogue:
    """Look-up of exposed names. ``prefixes`` are put in front of every name; ``colon``: names with ``:`` are also spelt with ``_``.
    ``base``: a catalogue whose names hold here too, before these."""

    def __init__(
        self,
        metrics: Iterable[Metric],
        prefixes: Sequence[str] = (),
        *,
        colon: bool = False,
        base: Catalogue | None = None,
    ) -> None:
        self._found: dict[str, Found] = dict(base._found) if base is not None else {}
        metrics = tuple(metrics)
        for current in (True, False):  # current names first: an old name never hides another metric's own
            for metric in metrics:
                for rank, name in enumerate((metric.name, *metric.former)):
                    if (rank == 0) is current:
                        self._spell(metric, name, rank, prefixes, colon)

    def find(self, name: str) -> Found | None:
        """The metric behind an exposed name; None where it is none of ours."""
        return self._found.get(name)

    def names(self) -> frozenset[str]:
        """Every spelling."""
        return frozenset(self._found)

    def _spell(self, metric: Metric, name: str, rank: int, prefixes: Sequence[str], colon: bool) -> None:
        bases = [name, name.replace(":", "_")] if colon and ":" in name else [name]
        for base in bases:
            for spelt in (base, *(prefix + base for prefix in prefixes)):
                for exposed, canonical, kind in _exposed(metric, spelt):
                    self._found.setdefault(exposed, Found(metric, canonical, kind, rank))


def _exposed(metric: Metric, spelt: str) -> Iterable[tuple[str, str, str]]:
    """(exposed name, canonical name, kind) of each series of a metric under one spelling."""
    if metric.kind in (HISTOGRAM, SUMMARY):
        for part in _PARTS:
            yield f"{spelt}_{part}", metric.name, part
        if metric.kind == SUMMARY:
            yield spelt, metric.name, GAUGE
    elif metric.kind == COUNTER and not metric.exact:
        bare = spelt.removesuffix(_TOTAL)
        yield bare, metric.name, COUNTER
        yield bare + _TOTAL, metric.name, COUNTER
    else:
        yield spelt, metric.name, metric.kind
