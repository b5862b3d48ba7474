"""What every answer stands on: the stretch of time that is known, who was watching, findings, definitions, sources, the balance.

The questions call these; nothing here is about one question. The trick to know: "now" is the last instant at which somebody saw who
holds what, cluster by cluster. A later import that says nothing about pods does not move it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers.contract import Figure, FindingNote
from steelyard.answers.dimensions import Filter
from steelyard.answers.reading import Reading, Record
from steelyard.definitions import conservation
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN, Instant, Window, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
FINDINGS_MAX: Final = 100
_CLUSTERS_LISTED: Final = 8
RESIDUAL_METHOD: Final = (
    f"conservation {conservation.VERSION}: sum over places and grains of |supply - sum of accounts|, in integers"
)


@dataclass(frozen=True, slots=True)
class KnownTime:
    """The stretch of time in which a cluster's holders are known at all: from the first holding or sighting to the last sighting.

    ``reach``: the last instant at which anything of the cluster was seen, its cards too; not before ``last``. ``pods_read``: whether any source
    that tells of pods was ever read. ``has_cards``: whether a card or a capacity of it is known.
    """

    cluster: str
    first: Instant
    last: Instant
    reach: Instant
    pods_read: bool = False
    has_cards: bool = False

    def capacity_at(self, at: Instant) -> Instant:
        """The instant by which cards are counted at ``at``: at the end of the known time, those seen since then stood there already."""
        return self.reach if at >= self.last else at


def known_times(reading: Reading) -> tuple[KnownTime, ...]:
    """Per cluster, the stretch that is known. Raises UsageError where nothing was imported yet."""
    times: dict[str, KnownTime] = {}
    spans: dict[tuple[str, bool], list[Record]] = {}
    for row in reading.run("known_time"):
        spans.setdefault((row["cluster"], row["watched"]), []).append(row)
    for (cluster, watched), rows in sorted(spans.items(), key=lambda span: (span[0][0], not span[0][1])):
        firsts, lasts, stamps = (
            [row[name] for row in rows if row[name] is not None] for name in ("first_us", "last_us", "stamp_us")
        )
        if not firsts or not (lasts or stamps):
            continue
        first, last = min(firsts), max(lasts or stamps)
        known = times.setdefault(cluster, KnownTime(cluster, first, last, last))
        times[cluster] = replace(known, reach=max(known.reach, last), pods_read=known.pods_read or watched)
    for row in reading.run("clusters_with_cards"):
        if row["cluster"] in times:
            times[row["cluster"]] = replace(times[row["cluster"]], has_cards=True)
    if not times:
        raise UsageError(_("nothing is known yet: run `steelyard import` with files of the estate first"))
    return tuple(times.values())


def all_time(times: Sequence[KnownTime]) -> Window:
    """What figures of all time are about: from the first instant that is known to the last at which anything was seen, cards and samples too."""
    return Window(min(time.first for time in times), max(time.reach for time in times))


def unless_no_pods_were_read(
    figures: Iterable[Figure], times: Sequence[KnownTime], names: Collection[str], where: Sequence[Filter] = ()
) -> list[Figure]:
    """The figures; of those named, each that is 0 because nobody ever read the pods is unknown instead.

    Where the pods of some clusters were read and those of another that has cards were not, the sum over them is unknown, with what is known of it
    as the least. ``where``: conditions that narrow the clusters.
    """
    narrowing = [condition for condition in where if condition.dimension.name == "cluster"]
    asked = [time for time in times if all(condition.admits({"cluster": time.cluster}) for condition in narrowing)]
    if not any(time.pods_read for time in asked):
        reason = _(
            "no source that tells of pods was ever read: import `kubectl get pods -A -o json`, or watch the cluster"
        )
        return [
            replace(figure, value=Unknown(reason)) if figure.name in names and figure.value == 0 else figure
            for figure in figures
        ]
    blind = [time.cluster for time in asked if time.has_cards and not time.pods_read]
    if not blind:
        return list(figures)
    reason = _("no source that tells of the pods of cluster {clusters} was ever read: import them, or watch it").format(
        clusters=", ".join(blind[:_CLUSTERS_LISTED]) + (", ..." if len(blind) > _CLUSTERS_LISTED else "")
    )
    return [
        replace(figure, value=Unknown(reason + _least_of(figure.value))) if figure.name in names else figure
        for figure in figures
    ]


def _least_of(value: object) -> str:
    """What is known at the least of a sum of which a part is not known; empty where that is nothing."""
    if not isinstance(value, int | float | Fraction) or value <= 0:
        return ""
    return _("; at least {least} elsewhere").format(least=f"{float(value):.6f}".rstrip("0").rstrip("."))


def watched_scopes(reading: Reading, cluster: str, at: Instant) -> frozenset[str]:
    """The scopes (``cluster``, ``node/<name>``) in which every holder at ``at`` was seen; empty = nobody watched then.

    An instant counts as seen when a complete listing was made then, when a source says that it saw a stretch throughout, or when it lies
    between two complete listings no further apart than the expected interval that the import declared.
    """
    return frozenset(str(row["scope"]) for row in reading.run("watched", cluster=cluster, at_us=at))


def cluster_asked(where: Mapping[str, str]) -> str | None:
    """The cluster to which the conditions of a question, as asked, narrow it; None = all."""
    return next((wanted for name, wanted in where.items() if name.strip() == "cluster"), None)


def finding_notes(
    reading: Reading, subjects: Collection[str] | None = None, cluster: str | None = None
) -> tuple[tuple[FindingNote, ...], int]:
    """The gravest findings about the data (at most FINDINGS_MAX) and how many there are in all.

    ``subjects`` narrows them to those about the named things, ``cluster`` to those of a cluster; None = all.
    """
    listed = 10 * FINDINGS_MAX if subjects is not None else FINDINGS_MAX
    rows = reading.run("findings", listed_max=listed, cluster=cluster)
    total = int(rows[0]["total"]) if rows else 0
    if subjects is not None:
        rows = [row for row in rows if row["subject"] in subjects]
        total = len(rows)
    notes = [FindingNote(row["code"], row["severity"], row["subject"], row["message"]) for row in rows[:FINDINGS_MAX]]
    return tuple(notes), total


def definitions(reading: Reading, own: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
    """The definitions behind an answer, with versions: its own and those the ledgers were posted with."""
    posted: dict[str, str] = {}
    for row in reading.run("posting"):
        content = json.loads(row["definitions"] or "{}")
        pairs = content.items() if isinstance(content, dict) else ((item["name"], item["version"]) for item in content)
        posted.update({str(name): str(version) for name, version in pairs})
    return tuple({"name": name, "version": version} for name, version in sorted({**posted, **own}.items()))


def source_lines(reading: Reading, cluster: str | None = None) -> tuple[str, ...]:
    """One line per source: what it listed, how often, when last, and how that instant is known. ``cluster``: of this alone."""
    return tuple(
        f"{row['source']} {row['kind']} ({row['cluster']}): {row['rounds']} x, last {format_instant(row['last_us'])}"
        f" ({row['basis']})"
        for row in reading.run("sources")
        if cluster in (None, row["cluster"])
    )


def residual(reading: Reading, window: Window | None, outside: str | None = None) -> Figure:
    """``ledger_residual_gpu_us`` over the grains that start in the window (None = all): 0, or the books do not close.

    It is the sum of the absolute differences, so that two mistakes cannot cancel out. Unknown with ``outside``, the reason why what is
    asked lies outside the known time.
    """
    if outside is not None:
        return Figure("ledger_residual_gpu_us", Unknown(outside), "GPU-us", RESIDUAL_METHOD, Unknown(outside))
    start, end = (window.start, window.end) if window else (INSTANT_MIN, INSTANT_MAX)
    row = reading.run("residual", from_us=start, to_us=end)[0]
    return Figure("ledger_residual_gpu_us", int(row["residual_gpu_us"]), "GPU-us", RESIDUAL_METHOD, 1.0)
