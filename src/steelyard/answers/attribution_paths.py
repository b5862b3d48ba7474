"""Which path of attribution answers which purpose, and why another is refused: a table that stands in Q3.

A path says how a figure of a card came to a pod. The trick to know: billing needs a figure that no neighbour can move, troubleshooting one that is
there at all, an SLO one that the tenant's users feel; hardly any path is all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.primitives.i18n import _

PURPOSES: Final = ("billing", "troubleshooting", "slo")
COLUMNS: Final = (
    Column("path"),
    Column("confidence"),
    Column("billing"),
    Column("troubleshooting"),
    Column("slo"),
    Column("refused_because"),
    Column("blind_spot"),
)


def paths_table() -> Table:
    """One row per path, the best first. ``billing`` is of measured use; what was granted may be charged whatever the path."""
    return Table("attribution_paths", COLUMNS, _rows())


def _rows() -> Sequence[Sequence[Value]]:
    yes, no = "yes", "no"
    return (
        (
            "exclusive", _("measured"), yes, yes, no,
            _("SLO: counters of a card do not tell what a request felt"),
            _("what happens between two samples; what an idle process keeps in memory"),
        ),
        (
            "mig", _("measured"), yes, yes, no,
            _("SLO: counters of an instance do not tell what a request felt"),
            _("several compute instances of one GPU instance; mixed layouts read too low"),
        ),
        (
            "soft_partition", _("counted by the sharing layer"), no, yes, no,
            _("billing: the layer counts what its own library sees, and a process may go around it"),
            _("processes without the library; without a limit on cores many layers print a constant 0"),
        ),
        (
            "process", _("measured, by process"), no, yes, no,
            _("billing: processes add up to less than the card, and short ones are missed"),
            _("under MIG and MPS nothing is told per process; it needs the host's process ids"),
        ),
        (
            "engine", _("told by the engine"), no, yes, yes,
            _("billing: requests are no GPU-time"),
            _("what was refused before the engine"),
        ),
        (
            "split_by_grant", _("not measured"), no, no, no,
            _("billing of use, troubleshooting, SLO: it divides by reservation and says nothing of who did what"),
            _("who worked and who idled; it is never the ground for an accusation"),
        ),
        (
            "residual", _("measured, of nobody"), no, yes, no,
            _("billing: nobody can be named for it"),
            _("drivers, MPS servers and processes whose pod is not proven"),
        ),
    )  # fmt: skip
