"""What the free share can still take and what the held share needs, as parts of Q3: fragmentation and right-sizing.

``free_part`` and ``sizing_part`` are what Q3 calls. The trick to know: states are amounts of a window and fragmentation is of one instant, the last
of the window that is known; whoever sees one tenant alone is told nothing of what is free, and its own pods' sizes only.

Sceptic's command: ``steelyard fragmentation --at <end of the window>`` and ``steelyard rightsize`` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from steelyard.answers import right_sizing
from steelyard.answers.contract import Figure, Table
from steelyard.answers.dimensions import Filter
from steelyard.answers.fragmentation import FIGURES, Fragmentation, FragmentationSpec, fragmentation
from steelyard.answers.reading import Reading
from steelyard.answers.state_lines import StateLine
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Window
from steelyard.primitives.unknown import Unknown

NODES: Final = "fragmentation_nodes"
SHOWN: Final = (
    "gpus_free",
    "gpus_trapped",
    "gpus_usable",
    "gpus_fit_unknown",
    "gpus_interference_blocked",
    "gpus_free_unknown",
    "fragmentation_ratio",
    "trapped_ratio",
    "fragmentation_ratio_memory",
    "fragmentation_ratio_compute",
    "fragmentation_ratio_mig",
    "fragmentation_ratio_gpu_classes_only",
    "fragmentation_ratio_paper",
    "units_fitting_ratio",
    "currency",
    "trapped_cost_per_hour",
)
"""Of the figures of ``steelyard fragmentation`` those that Q3 shows too."""
METHODS: Final[Mapping[str, tuple[str, str]]] = {name: FIGURES[name] for name in SHOWN}
_OF_NODE: Final = ("cluster", "node", "model")
_LISTED_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a part adds to Q3. ``left_out``: rows by table that are not listed."""

    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    blind_spots: Sequence[str] = ()
    next_actions: Sequence[str] = ()
    left_out: int = 0


def free_part(reading: Reading, window: Window, known: Window, where: Sequence[Filter], *, confined: bool) -> Capacity:
    """How much of what is free at the window's end no typical request can use; the figures of ``SHOWN``. ``reading`` has its statements.

    Unknown for whoever sees one tenant alone, and under a condition on what free share has not (a pod, a tenant, a card by name)."""
    unfit = sorted({condition.dimension.name for condition in where} - set(_OF_NODE))
    if confined:
        return _untold(Unknown(_("a tenant is told its own time only")))
    if unfit:
        return _untold(
            Unknown(
                _("free share has no {names}: what is trapped is told of clusters, nodes and models").format(
                    names=", ".join(unfit)
                )
            )
        )
    at = window.end - 1 if window.end < known.end - 1 else None
    found: Fragmentation = fragmentation(reading, FragmentationSpec(at=at, where=where))
    nodes, *classes = found.tables
    figures = [figure for figure in found.figures if figure.name in METHODS]
    return Capacity(figures, [replace(nodes, name=NODES), *classes], found.blind_spots, found.next_actions)


def _untold(reason: Unknown) -> Capacity:
    return Capacity([Figure(name, reason, unit, method, reason) for name, (unit, method) in METHODS.items()])


def sizing_part(reading: Reading, window: Window, lines: Sequence[StateLine]) -> Capacity:
    """Granted against needed of the workloads behind ``lines``, with the patch; what gives back most comes first."""
    pods = frozenset((line.record["cluster"], line.record["pod_uid"]) for line in lines if line.record["pod_uid"])
    table = right_sizing.right_sizing(reading, window, right_sizing.RightSizingSpec(pods=pods))
    verdict = [column.name for column in table.columns].index("verdict")
    shrinks = any(row[verdict] == "shrink" for row in table.rows)
    return Capacity(
        tables=[replace(table, rows=table.rows[:_LISTED_MAX])],
        next_actions=[right_sizing.advice()] if shrinks else (),
        left_out=max(0, len(table.rows) - _LISTED_MAX),
    )
