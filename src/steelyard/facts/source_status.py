"""How much of the world a source saw, and when: the ground for coverage and for what may be called free."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class SourceStatus(Fact, frozen=True, kw_only=True):
    """One listing or round at ``occurred_at``. natural_key: ``<kind>/<scope>``.

    kind: what was listed (``pods``, ``nodes``, ``workloads.kueue.x-k8s.io`` and other kinds by resource and group, ``nvidia_smi``, ``nvml``,
    ``kernel_log``, ``trace``; ``dcgm_series``: which fields an exporter prints, in message). scope: ``cluster``, ``namespace/<name>`` (pods),
    ``node/<name>``, ``device/<uuid>`` or ``exporter/<node>``. complete: the listing names every such object of its scope, so absence from it
    means absence. status: ok, partial, failed.
    as_of_basis: declared, inferred, stamped.
    gap_max_us: between two complete listings no further apart than this the world is taken as seen throughout; None = only the instants were
    seen. observed_from_at, observed_to_at: a stretch that was seen throughout (a trace), None otherwise.
    """

    TABLE: ClassVar[str] = "source_status"

    kind: str
    scope: str = "cluster"
    status: str = "ok"
    complete: bool = False
    objects_count: int = 0
    as_of_basis: str = "stamped"
    gap_max_us: int | None = None
    observed_from_at: Instant | None = None
    observed_to_at: Instant | None = None
    message: str | None = None
