"""Reconcile: what was requested, granted, enforced, counted and used according to the device, side by side, and what does not agree.

``steelyard reconcile`` and its route call ``answer``. Requested and granted come from ``ledger.holding``, clipped to the window; what was sampled
from ``ledger.deviation`` in the grains that the window meets; where no sharing layer speaks, the device from ``ledger.usage``. The trick to know:
five columns, never merged, and a difference only where both sides were seen at one time; the scheduler's cache stands beside them as a sixth,
because it is a memory and no measurement.

Sceptic's query: ``SELECT * FROM ledger.deviation WHERE device_uuid = '...' ORDER BY grain_at`` beside ``curl node:31992/metrics``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers import dimensions, grounds
from steelyard.answers.contract import Answer, Column, Evidence, Figure, FindingNote, Series, Table, Value
from steelyard.answers.dimensions import Filter
from steelyard.answers.lines import grains_of
from steelyard.answers.reading import Reading, Record, Rows
from steelyard.answers.reconcile_rows import MEMORY, Compared, Key, added, compared_cards, compared_pods, key_of, mean
from steelyard.definitions import deviation
from steelyard.definitions.grain import grain_start
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN, Instant, Window, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
VERSION: Final = "1"
METHOD: Final = f"deviation {deviation.VERSION}"
BY: Final = ("pod", "card", "tenant")
"""What can be laid side by side; all three where nothing is said."""

METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "compared_count": ("1", f"{METHOD}: pods on cards that were laid side by side"),
    "deviating_count": ("1", f"{METHOD}: of those, the ones of which two known figures do not go together"),
    "use_unknown_count": (
        "1",
        f"{METHOD}: of those, the ones of which neither the layer nor the device tells what they use",
    ),
    "memory_counted_less_device_mib": (
        "MiB",
        f"{METHOD}: counted less device, of all cards of which both were seen at one time",
    ),
    "memory_blocked_mib": (
        "MiB",
        "memory that the scheduler's exporter claims for pods that are not there, or for nobody",
    ),
    "samples_refused_count": (
        "1",
        "samples of pods that no card can have (above its memory, below 0, above 105 %): they count nowhere",
    ),
}
BLOCKING: Final = frozenset({"ghost_pod", "exporter_stale"})

_NAMES: Final = {
    "pod": (Column("namespace"), Column("pod"), Column("tenant"), Column("node"), Column("device_uuid"), Column("gi")),
    "card": (Column("device_uuid"), Column("node"), Column("device_index"), Column("model")),
    "tenant": (Column("tenant"), Column("pods_count", "1")),
}
_FIGURES: Final = (
    *(Column(f"memory_{name}_mib", "MiB") for name in MEMORY),
    *(Column(f"cores_{name}_percent", "%") for name in MEMORY),
)
_TAIL: Final = (
    Column("memory_scheduler_mib", "MiB"),
    Column("cores_scheduler_percent", "%"),
    Column("memory_counted_less_device_mib", "MiB"),
    Column("verdict"),
    Column("evidence_grade"),
    Column("basis"),
    Column("last_seen_at"),
    Column("samples_refused_count", "1"),
)


@dataclass(frozen=True, slots=True)
class ReconcileSpec:
    """As asked: ``at`` for an instant (the last words before it), ``window`` for means over time; both None = the last that is known.

    ``by``: which tables, of ``BY``; none = all. ``where`` narrows (dimension -> value). ``tenant``: who asks may see that tenant's pods alone.
    """

    at: Instant | None = None
    window: Window | None = None
    by: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is asked for: ``asked`` the window of requests and grants, ``grains`` that of samples. ``instant``: the last words, not means."""

    asked: Window
    grains: Window
    instant: bool


def title() -> str:
    """What the command answers."""
    return _("What was requested, granted, enforced, counted and used by the device, and where they differ")


def answer(rows: Rows, spec: ReconcileSpec) -> Answer:
    """The comparison. Raises UsageError for an unknown table, dimension or name, for both an instant and a window, and for an empty store."""
    tables = _tables_of(spec.by)
    if spec.at is not None and spec.window is not None:
        raise UsageError(_("an instant or a window: not both"))
    reading = Reading(rows, SQL, grounds.SQL, dimensions.SQL)
    where = dimensions.filters(spec.where, dimensions.POD_AND_PLACE, reading)
    stretch = _stretch(reading, spec)
    pods, cards = _compared(reading, stretch)
    if spec.tenant is None:
        dimensions.require_known(where, [row.record for row in (*pods, *cards)], reading)
    pods = [row for row in pods if all(each.admits(row.record) for each in where)]
    if spec.tenant is not None:
        pods, cards = [row for row in pods if row.record["tenant"] == spec.tenant], []
    cards = _cards_asked(pods, cards, where)
    found = _deviations(reading, stretch, pods, cards, spec, narrowed=bool(where))
    made = {"pod": _pod_table, "card": _card_table, "tenant": _tenant_table}
    return Answer(
        question="reconcile",
        title=title(),
        window=None if stretch.instant else stretch.asked,
        as_of=stretch.asked.start if stretch.instant else stretch.asked.end,
        figures=_figures(pods, cards, found, confined=spec.tenant is not None),
        tables=[
            *(made[name](pods, cards, stretch) for name in tables if not (name == "card" and spec.tenant is not None)),
            _deviation_table(found, confined=spec.tenant is not None),
        ],
        series=() if spec.tenant is not None or where else _series(reading, stretch),
        definitions=grounds.definitions(reading, {"deviation": deviation.VERSION}),
        sources=() if spec.tenant is not None else grounds.source_lines(reading),
        coverage=_coverage(pods),
        blind_spots=_blind_spots(stretch, pods, confined=spec.tenant is not None),
        findings=[FindingNote(row["code"], row["severity"], row["subject"], row["message"]) for row in found],
        evidence=_evidence(),
        next_actions=_next_actions(found, pods),
        explain=reading.ran if spec.explain else {},
    )


def _tables_of(by: Sequence[str]) -> Sequence[str]:
    for name in by:
        if name not in BY:
            raise UsageError(
                _("nothing is laid side by side by {name!r}: it is one of {names}").format(
                    name=name[:80], names=", ".join(BY)
                )
            )
    return tuple(by) or BY


def _stretch(reading: Reading, spec: ReconcileSpec) -> Stretch:
    times = grounds.known_times(reading)
    grain = int(reading.run("grain")[0]["grain_us"])
    if spec.window is not None:
        return Stretch(spec.window, grains_of(spec.window, grain).touched, False)
    last = max(time.reach for time in times)
    at = spec.at if spec.at is not None else last
    if not min(time.first for time in times) <= at <= last:
        span = Window(min(time.first for time in times), last)
        raise UsageError(
            _("nothing is known at {at}: the known time is {span}").format(at=format_instant(at), span=span)
        )
    start = grain_start(at, grain)
    return Stretch(Window(at, at + 1), Window(start - grain if at - start < grain // 4 else start, start + grain), True)


def _compared(reading: Reading, stretch: Stretch) -> tuple[list[Compared], list[Compared]]:
    asked = {"from_us": stretch.asked.start, "to_us": stretch.asked.end}
    grains = {"from_us": stretch.grains.start, "to_us": stretch.grains.end}
    sampled: dict[Key, Record] = {key_of(row): row for row in reading.run("sampled", **grains)}
    used: dict[Key, Record] = {key_of(row): row for row in reading.run("used", **grains)}
    pods = {(row["cluster"], row["pod_uid"]): row for row in reading.run("pods")}
    cards = {(row["cluster"], row["device_uuid"]): row for row in reading.run("cards")}
    held = reading.run("held", **asked, open_to_us=stretch.asked.end if stretch.instant else INSTANT_MIN)
    refused = {(row["cluster"], row["device_uuid"]) for row in reading.run("refused_cards", **grains)}
    instant = stretch.instant
    of_pods = compared_pods(held, sampled, used, pods, cards, at_instant=instant)
    length = stretch.asked.duration_us
    return of_pods, compared_cards(of_pods, sampled, used, cards, length, refused=refused, at_instant=instant)


def _cards_asked(pods: Sequence[Compared], cards: Sequence[Compared], where: Sequence[Filter]) -> list[Compared]:
    """The cards that are asked about: by their own words where only places are asked, else those on which the pods are."""
    if not where:
        return list(cards)
    if all(condition.dimension.name in dimensions.PLACE for condition in where):
        return [row for row in cards if all(condition.admits(row.record) for condition in where)]
    on = {(row.record["cluster"], row.record["device_uuid"]) for row in pods}
    return [row for row in cards if (row.record["cluster"], row.record["device_uuid"]) in on]


def _deviations(
    reading: Reading,
    stretch: Stretch,
    pods: Sequence[Compared],
    cards: Sequence[Compared],
    spec: ReconcileSpec,
    *,
    narrowed: bool,
) -> list[Record]:
    end = INSTANT_MAX if stretch.instant else stretch.grains.end
    found = reading.run("deviations", from_us=stretch.grains.start, to_us=end)
    if not narrowed and spec.tenant is None:
        return found
    subjects = {f"pod {row.record['namespace']}/{row.record['pod']}" for row in pods}
    if spec.tenant is None:
        subjects |= {f"device {row.record['device_uuid']}" for row in cards}
        subjects |= {f"namespace {row.record['namespace']}" for row in pods}
    return [row for row in found if row["subject"] in subjects]


def _cells(row: Compared) -> list[Value]:
    return [
        *(row.memory[name] for name in MEMORY),
        *(row.cores[name] for name in MEMORY),
        row.scheduler,
        row.scheduler_cores,
        row.less,
        row.verdict,
        row.record.get("evidence_grade"),
        row.basis,
        None if row.last_us is None else format_instant(row.last_us),
        row.refused_count,
    ]


def _pod_table(pods: Sequence[Compared], _cards: Sequence[Compared], _stretch: Stretch) -> Table:
    names = [column.name for column in _NAMES["pod"]]
    rows = [
        [*(row.record.get(name) for name in names), *_cells(row), row.record["pod_uid"], row.record["cluster"]]
        for row in pods
    ]
    rows.sort(key=lambda cells: [str(cell) for cell in (cells[-1], cells[0], cells[1], cells[4])])
    return Table("pods", [*_NAMES["pod"], *_FIGURES, *_TAIL, Column("pod_uid"), Column("cluster")], rows)


def _card_table(_pods: Sequence[Compared], cards: Sequence[Compared], _stretch: Stretch) -> Table:
    names = [column.name for column in _NAMES["card"]]
    more = (Column("memory_physical_mib", "MiB"), Column("memory_schedulable_mib", "MiB"), Column("cluster"))
    rows = [
        [
            *(row.record.get(name) for name in names),
            *_cells(row),
            row.record["card_memory_mib"],
            row.record["schedulable_memory_mib"],
            row.record["cluster"],
        ]
        for row in cards
    ]
    return Table("cards", [*_NAMES["card"], *_FIGURES, *_TAIL, *more], rows)


def _tenant_table(pods: Sequence[Compared], _cards: Sequence[Compared], stretch: Stretch) -> Table:
    groups: dict[str, list[Compared]] = {}
    for row in pods:
        if row.held_us and not row.record.get("in_suspense"):
            groups.setdefault(row.record.get("tenant") or "unmapped", []).append(row)

    def of(name: str, cores: bool) -> Callable[[Compared], Value]:
        return lambda row: (row.cores if cores else row.memory)[name]

    length = stretch.asked.duration_us
    rows: list[list[Value]] = []
    for tenant, group in sorted(groups.items()):
        rows.append(
            [
                tenant,
                len({(row.record["cluster"], row.record["pod_uid"]) for row in group}),
                *(added(group, of(name, False), length, "MiB") for name in MEMORY),
                *(added(group, of(name, True), length, "%") for name in MEMORY),
                sum(row.verdict in deviation.DEVIATING for row in group),
                sum(row.verdict == "use_unknown" for row in group),
            ]
        )
    counts = (Column("deviating_count", "1"), Column("use_unknown_count", "1"))
    return Table("tenants", [*_NAMES["tenant"], *_FIGURES, *counts], rows)


def _deviation_table(found: Sequence[Record], *, confined: bool) -> Table:
    hidden = Unknown(_("it tells of others on the card too"))
    rows: list[list[Value]] = [
        [
            row["code"],
            row["severity"],
            row["subject"],
            hidden if confined else row["evidence"],
            format_instant(row["seen_us"]),
            row["cluster"],
        ]
        for row in found
    ]
    names = ("code", "severity", "subject", "evidence", "seen_at", "cluster")
    return Table("deviations", [Column(name) for name in names], rows)


def _figures(
    pods: Sequence[Compared], cards: Sequence[Compared], found: Sequence[Record], *, confined: bool
) -> list[Figure]:
    nothing = Unknown(_("nothing was held or named by an exporter in this time"))
    counts: dict[str, Value] = {
        "compared_count": len(pods),
        "deviating_count": sum(row.verdict in deviation.DEVIATING for row in pods),
        "use_unknown_count": sum(row.verdict == "use_unknown" for row in pods),
        "memory_counted_less_device_mib": _less_of(cards),
        "memory_blocked_mib": _blocked(found),
        "samples_refused_count": sum(row.refused_count for row in (*pods, *cards) if row.record["pod_uid"] is not None),
    }
    if confined:
        hidden = Unknown(_("it is made of more than this tenant's own rows"))
        counts.update(memory_counted_less_device_mib=hidden, memory_blocked_mib=hidden)
    coverage = _coverage(pods)
    return [
        Figure(name, nothing if not pods and not cards else value, *METHODS[name], coverage)
        for name, value in counts.items()
    ]


def _less_of(cards: Sequence[Compared]) -> Value:
    known = [Fraction(row.less) for row in cards if isinstance(row.less, int | float | Fraction)]
    return sum(known, Fraction(0)) if known else Unknown(_("of no card both were seen at one time"))


def _blocked(found: Sequence[Record]) -> Value:
    total = 0
    for row in found:
        if row["code"] in BLOCKING:
            amount = json.loads(row["evidence"]).get("over_reported_memory_mib")
            total += int(amount) if isinstance(amount, int) else 0
    return total


def _coverage(pods: Sequence[Compared]) -> float | Unknown:
    """Of the pods on cards that are held: the share of which the layer or the device tells what they use."""
    held = [row for row in pods if row.held_us]
    if not held:
        return Unknown(_("nothing is held"))
    return float(Fraction(sum(row.verdict != "use_unknown" for row in held), len(held)))


def _series(reading: Reading, stretch: Stretch) -> list[Series]:
    rows = reading.run("series", from_us=stretch.grains.start, to_us=stretch.grains.end)
    absent = Unknown(_("counted and device were not seen at one time"))
    silent = Unknown(_("the scheduler's exporter was not seen"))
    less: list[tuple[Instant, Value]] = []
    over: list[tuple[Instant, Value]] = []
    for row in rows:
        of_time = mean(row["less_mib_us"], row["both_us"])
        last = None if row["last_less_mib"] is None else Fraction(int(row["last_less_mib"]))
        less.append((row["grain_us"], of_time if of_time is not None else last if last is not None else absent))
        cached, granted = mean(row["scheduler_mib_us"], row["scheduler_us"]), row["granted_mib_us"]
        over.append((row["grain_us"], silent if cached is None or granted is None else cached))
    return (
        [
            Series("memory_counted_less_device_mib", "MiB", less),
            Series("memory_scheduler_mean_mib", "MiB", over),
        ]
        if rows
        else []
    )


def _blind_spots(stretch: Stretch, pods: Sequence[Compared], *, confined: bool) -> list[str]:
    spots = [
        _(
            "a sharing layer counts what goes through it: contexts, static binaries and other allocators are in the device's figure alone"
        ),
        _("exporters name pods without their uids: a name is the pod that bore it at that instant"),
    ]
    if stretch.instant:
        spots.append(_("figures are the last words before the instant, not means"))
    elif any(row.basis == "last sample" for row in pods):
        spots.append(_("where samples stand for no time, a figure is the last one of the window"))
    if any(row.verdict == "use_unknown" for row in pods):
        spots.append(
            _("of some pods neither the layer nor the device tells what they use: a series that is absent is not 0")
        )
    if confined:
        spots.append(_("cards, and what others hold on them, are not shown"))
    return spots


def _evidence() -> list[Evidence]:
    return [
        Evidence(_("requested and granted"), _("the cluster"), "kubectl get pods --all-namespaces -o json"),
        Evidence(_("enforced and counted"), _("the monitor of each GPU node"), "curl http://NODE:31992/metrics"),
        Evidence(_("what the scheduler's cache says"), _("the scheduler"), "curl http://SCHEDULER:31993/metrics"),
        Evidence(
            _("what the device reports"),
            _("each GPU node"),
            "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv",
        ),
    ]


def _next_actions(found: Sequence[Record], pods: Sequence[Compared]) -> list[str]:
    codes = {row["code"] for row in found}
    actions: dict[str, str] = {
        "ghost_pod": _(
            "restart the scheduler of the sharing layer, or bring it to HAMi 2.8 or later: it keeps pods that are gone"
        ),
        "exporter_stale": _("restart the scheduler of the sharing layer: it claims memory that nobody holds"),
        "limit_not_in_force": _("restart the pods whose limit is not the one they were granted"),
        "grant_larger_than_request": _("ask who wrote the annotation: the scheduler gives no more than is requested"),
        "counted_above_device": _("restart the containers whose count stayed after their process ended"),
        "removed_node_exported": _("restart the scheduler of the sharing layer: it still shows a node that is gone"),
        "missing_slice_after_init": _("bring HAMi beyond 2.10.0: it drops slices of pods with init containers"),
    }
    told = [text for code, text in actions.items() if code in codes]
    if any(row.verdict == "use_unknown" for row in pods):
        told.append(
            _(
                "run `steelyard agent` on GPU nodes: it tells whose the processes on a card are, also where the layer counts nothing"
            )
        )
    return told
