"""The rows of Q7: each episode with whom it names, by how much, since when, what it stands on, and how to contest it.

Pure over records; ``q07_overuse`` reads them. The trick to know: names come from objects that tenants write, so what is put into a command is quoted.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from steelyard.answers.contract import Column, Series, Table, Value
from steelyard.answers.cost_tables import MONEY
from steelyard.answers.dimensions import Dimension
from steelyard.answers.reading import Record
from steelyard.answers.worth import Worth, told, total_worth, worth_of
from steelyard.definitions import over_use
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import SECOND_US, DurationUs, Instant, Window, format_instant, second_after
from steelyard.primitives.unknown import Unknown

LISTED_MAX: Final = 1_000
CURVES_MAX: Final = 20
POINTS_MAX: Final = 400

Names: TypeAlias = "Mapping[tuple[str, str], Record]"

_WHO: Final = (
    Column("tenant"),
    Column("namespace"),
    Column("pod"),
    Column("person"),
    Column("workload"),
    Column("node"),
)
VIOLATIONS: Final = (
    Column("severity"),
    Column("rule"),
    Column("hard_reason"),
    *_WHO,
    Column("device_uuid"),
    Column("device_index"),
    Column("gi"),
    Column("started_at"),
    Column("ended_at"),
    Column("granted_mib", "MiB"),
    Column("peak_mib", "MiB"),
    Column("mean_excess_mib", "MiB"),
    Column("granted_percent", "%"),
    Column("peak_percent", "%"),
    Column("gpu_seconds_at_stake", "GPU-s"),
    Column("currency"),
    Column("money_at_stake", MONEY),
    Column("samples_count", "1"),
    Column("interval_seconds", "s"),
    Column("basis"),
    Column("evidence_grade"),
    Column("contest"),
    Column("contest_command"),
    Column("pod_uid"),
    Column("cluster"),
)
EXPOSED: Final = (
    *_WHO,
    Column("exposed_by"),
    Column("started_at"),
    Column("ended_at"),
    Column("contest"),
    Column("contest_command"),
    Column("pod_uid"),
    Column("cluster"),
)
UNMEASURED: Final = (*_WHO, Column("device_uuid"), Column("reason"), Column("pod_uid"), Column("cluster"))


@dataclass(frozen=True, slots=True)
class Episode:
    """One row of ``ledger.over_use``. record: the dimensions of the pod and card, row: the ledger's. gpu_us: of the window;
    None = not known, then it is at least ``least_us``. worth: what that time of the card cost."""

    record: Record
    row: Record
    gpu_us: DurationUs | None
    least_us: DurationUs
    worth: Worth | Unknown

    @property
    def severity(self) -> str:
        """``hard``, ``soft`` or ``exposed``."""
        return str(self.row["severity"])

    @property
    def rule(self) -> str:
        """One of ``over_use.RULES``."""
        return str(self.row["rule"])

    @property
    def started_us(self) -> Instant:
        """Since when."""
        return int(self.row["started_us"])

    @property
    def length_us(self) -> DurationUs:
        """How long it was shown."""
        return int(self.row["known_us"]) - self.started_us

    @property
    def is_sparse(self) -> bool:
        """Shown by a sample that stands for no time."""
        return self.length_us == 0 and bool(self.row["samples_count"])

    @property
    def name(self) -> str:
        """``namespace/pod``, or the uid of a pod without a name."""
        pod = self.record.get("pod") or self.row["pod_uid"]
        return f"{self.record['namespace']}/{pod}" if self.record.get("namespace") else str(pod)

    @property
    def card(self) -> str:
        """``node/index``, or what of it is known."""
        node, index = self.record.get("node"), self.record.get("device_index")
        return f"{node}/{index}" if node and index is not None else str(self.row["device_uuid"] or node)

    @property
    def command(self) -> str:
        """What to run to see for oneself."""
        pod = _pod_arguments(self.record)
        if self.rule == "tampered_grant":
            return f"kubectl get {pod} -o jsonpath='{{.metadata.annotations}}{{.spec.containers[*].resources}}'"
        if self.rule == "exposed":
            return f"kubectl get {pod} -o jsonpath='{{.spec.containers[*].env}}{{.spec.containers[*].securityContext}}{{.spec.volumes}}'"
        start = format_instant(self.started_us // SECOND_US * SECOND_US)
        end = format_instant(second_after(int(self.row["known_us"])))
        return (
            f"steelyard reconcile --from {start} --to {end} --where {shlex.quote(f'pod={self.name}')}"
            if self.rule in ("memory", "compute")
            else f"kubectl get {pod} -o wide; nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv"
        )


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A part of a card that a layer limits, and whether anything measured it."""

    record: Record
    is_measured: bool


def named(row: Record, pods: Names, cards: Names) -> Record:
    """The dimensions of a row: of its pod and its card."""
    pod = pods.get((row["cluster"], row.get("pod_uid") or ""), {})
    card = cards.get((row["cluster"], row["device_uuid"] or ""), {})
    places = {name: card.get(name) for name in ("device_index", "vendor", "model")}
    node = card.get("node") or row.get("node") or pod.get("node")
    return {
        **pod,
        **places,
        "cluster": row["cluster"],
        "pod_uid": row.get("pod_uid"),
        "device_uuid": row["device_uuid"],
        "node": node,
        **{name: row.get(name) for name in ("rule", "severity", "basis")},
    }


def episode_of(row: Record, pods: Names, cards: Names, booked: Sequence[Record]) -> Episode:
    """A row of the statement ``episodes``. ``booked``: what its card cost meanwhile (``worth_of_episodes``)."""
    amount = None if row["in_window_gpu_us"] is None else int(row["in_window_gpu_us"])
    least = int(row["in_window_least_gpu_us"] or 0)
    worth = _share_not_known(least) if amount is None else worth_of(booked, amount)
    return Episode(named(row, pods, cards), row, amount, least, worth)


def _share_not_known(least_us: DurationUs) -> Unknown:
    return Unknown(
        _("what it took of the card, or the card's memory, is not known all the time; at least {seconds} GPU-s").format(
            seconds=f"{least_us / SECOND_US:.0f}"
        )
    )


def subject(row: Record) -> tuple[object, ...]:
    """What tells one episode from another."""
    return tuple(row[name] for name in ("cluster", "pod_uid", "device_uuid", "gi", "rule", "started_us"))


def limited_of(row: Record, pods: Names, cards: Names) -> Unmeasured:
    """A row of the statement ``limited``."""
    return Unmeasured(named(row, pods, cards), bool(row["is_measured"]))


def at_stake(episodes: Sequence[Episode]) -> Value:
    """GPU-seconds of all of them; unknown where of one of them it is not known, with the least that it is."""
    known = sum(row.least_us for row in episodes)
    missing = sum(row.gpu_us is None for row in episodes)
    if missing:
        return Unknown(
            _(
                "of {count} episodes the share of the card is not known all the time; what is known comes to {seconds} GPU-s"
            ).format(count=missing, seconds=f"{known / SECOND_US:.0f}")
        )
    return Fraction(known, SECOND_US)


def money_at_stake(episodes: Sequence[Episode]) -> tuple[Value, Value]:
    """Currency and amount of all of them; unknown where one of them is, and in several currencies. No episode is 0 of no currency."""
    return told(total_worth(row.worth for row in episodes))


def most(episodes: Sequence[Episode]) -> list[Episode]:
    """The gravest first: by severity, then by what is at stake, then since when; so many as are listed."""
    return sorted(
        episodes,
        key=lambda row: (
            over_use.SEVERITIES.index(row.severity),
            -row.least_us,
            row.started_us,
            row.name,
            row.rule,
            str(row.row["device_uuid"]),
        ),
    )[:LISTED_MAX]


def violations_table(episodes: Sequence[Episode]) -> Table:
    """One row per episode, hard or soft."""
    return Table("violations", VIOLATIONS, [_violation(row) for row in episodes])


def _violation(episode: Episode) -> list[Value]:
    row, record = episode.row, episode.record
    interval, excess = row["interval_us"], row["excess_mib_us"]
    return [
        episode.severity,
        episode.rule,
        row["hard_reason"],
        *_who(record),
        row["device_uuid"],
        record.get("device_index"),
        row["gi"],
        format_instant(episode.started_us),
        None if row["ended_us"] is None else format_instant(int(row["ended_us"])),
        row["granted_mib"],
        row["peak_mib"],
        Fraction(int(excess), episode.length_us) if excess is not None and episode.length_us else None,
        row["granted_percent"],
        row["peak_percent"],
        _share_not_known(episode.least_us) if episode.gpu_us is None else Fraction(episode.gpu_us, SECOND_US),
        *told(episode.worth),
        row["samples_count"],
        None if interval is None else Fraction(int(interval), SECOND_US),
        row["basis"],
        row["evidence_grade"],
        _contest(episode),
        episode.command,
        row["pod_uid"],
        row["cluster"],
    ]


def exposed_table(episodes: Sequence[Episode]) -> Table:
    """Pods to which cards stand open and of which no process was seen."""
    rows: list[list[Value]] = [
        [
            *_who(each.record),
            each.row["basis"],
            format_instant(each.started_us),
            None if each.row["ended_us"] is None else format_instant(int(each.row["ended_us"])),
            _contest(each),
            each.command,
            each.row["pod_uid"],
            each.row["cluster"],
        ]
        for each in sorted(episodes, key=lambda row: (row.record["cluster"], row.name, row.started_us))[:LISTED_MAX]
    ]
    return Table("exposed", EXPOSED, rows)


def unmeasured_table(limited: Sequence[Unmeasured]) -> Table:
    """Who may or may not have taken more: nothing looked."""
    reason = _(
        "neither the driver's processes nor the layer's count was seen, and it does not have the card for itself"
    )
    rows: list[list[Value]] = [
        [*_who(row.record), row.record["device_uuid"], reason, row.record["pod_uid"], row.record["cluster"]]
        for row in limited[:LISTED_MAX]
    ]
    return Table("unmeasured", UNMEASURED, rows)


def groups_table(episodes: Sequence[Episode], by: Sequence[Dimension]) -> Table:
    """Episodes and what is at stake, by the chosen dimensions."""
    groups: dict[tuple[str | None, ...], list[Episode]] = {}
    for row in episodes:
        groups.setdefault(tuple(dimension.value(row.record) for dimension in by), []).append(row)
    rows: list[list[Value]] = []
    for key, group in sorted(groups.items(), key=lambda item: [(value is None, value or "") for value in item[0]]):
        accused = [row for row in group if row.severity != "exposed"]
        hard = sum(row.severity == "hard" for row in accused)
        rows.append(
            [*key, hard, len(accused) - hard, len(group) - len(accused), at_stake(accused), *money_at_stake(accused)]
        )
    figures = (
        Column("hard_count", "1"),
        Column("soft_count", "1"),
        Column("exposed_count", "1"),
        Column("gpu_seconds_at_stake", "GPU-s"),
        Column("currency"),
        Column("money_at_stake", MONEY),
    )
    return Table("groups", (*(Column(dimension.name) for dimension in by), *figures), rows)


def curves(episodes: Sequence[Episode], rows: Sequence[Record], window: Window) -> list[Series]:
    """The raw curve of the first episodes: MiB in use, of compute percent of the card. At most ``POINTS_MAX`` points each, peaks of their stretch."""
    found: list[Series] = []
    by_subject: dict[tuple[object, ...], list[Record]] = {}
    for row in rows:
        by_subject.setdefault(_subject(row), []).append(row)
    for episode in episodes[:CURVES_MAX]:
        points: dict[Instant, int] = {}
        for row in by_subject.get(_subject(episode.row), ()):
            if episode.started_us <= int(row["started_us"]) <= int(episode.row["known_us"]):
                for word in str(row["curve"]).split(","):
                    second, _colon, value = word.partition(":")
                    at = int(row["grain_us"]) + int(second) * SECOND_US
                    if window.start - 60 * SECOND_US < at < window.end:
                        points[at] = int(value)
        if points:
            percent = episode.rule == "compute"
            name = f"{episode.rule} {episode.name} {episode.row['device_uuid']} {format_instant(episode.started_us)}"
            found.append(Series(name, "%" if percent else "MiB", _thinned(points, percent)))
    return found


def _thinned(points: Mapping[Instant, int], percent: bool) -> list[tuple[Instant, Value]]:
    order = sorted(points)
    step = -(-len(order) // POINTS_MAX)
    groups = [order[start : start + step] for start in range(0, len(order), step)]
    peaks = [(group[0], max(points[at] for at in group)) for group in groups]
    return [(at, Fraction(value, 10_000) if percent else value) for at, value in peaks]


def _subject(row: Record) -> tuple[object, ...]:
    return tuple(row[name] for name in ("cluster", "pod_uid", "device_uuid", "gi", "rule"))


def _who(record: Record) -> list[Value]:
    kind, name = record.get("workload_kind"), record.get("workload_name")
    return [
        record.get("tenant") or "unmapped",
        record.get("namespace"),
        record.get("pod"),
        record.get("person") or Unknown(_("nobody is named for it")),
        f"{kind}/{name}" if kind and name else None,
        record.get("node"),
    ]


def _pod_arguments(record: Record) -> str:
    namespace, pod = record.get("namespace"), record.get("pod")
    place = f"-n {shlex.quote(str(namespace))} " if namespace else ""
    return f"{place}pod {shlex.quote(str(pod or record.get('pod_uid')))}"


def _contest(episode: Episode) -> str:
    """What would prove it wrong."""
    words = {
        "memory": _("show that the processes are not this pod's, or a grant of so much memory at that time"),
        "compute": _("show that its cores were not enforced, or a grant of so many at that time"),
        "no_grant": _(
            "show a grant of the card to this pod at that time, or that the process is not in its control group"
        ),
        "tampered_grant": _(
            "show that the scheduler wrote the annotation: its log or the audit log of the pod's patches"
        ),
        "after_end": _("show that the pod had not ended, or that the process is not in its control group"),
        "outside_allocation": _("show a grant of this card to the pod at that time"),
        "exposed": _("show that the pod cannot reach the node's cards"),
    }
    return words[episode.rule]
