"""The story of one request: what happened to it, where it stands in its queue, what would have to change, how long it may still take.

``steelyard why`` and its route call ``story``. A name may stand for several requests (the pods of a Deployment): their stories are told in one. The
trick to know: everything is told as of an instant. What came later is left out, waits that ended later still go on, so the estimate that was given at
an instant can be had again with ``--at``, and be held against what then happened; nothing needs to be kept for that.

Sceptic's queries: ``SELECT * FROM dim.step WHERE demand_id = '...' ORDER BY at`` and ``SELECT * FROM ledger.wait WHERE queue = '...'``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from steelyard.answers import grounds, story_lines
from steelyard.answers.contract import Answer, Column, Evidence, Figure, FindingNote, Table, Value
from steelyard.answers.reading import Reading, Record, Rows
from steelyard.answers.story_change import Change, changes, fit_of, standing_word
from steelyard.answers.story_lines import StoryLine, amount, label_of
from steelyard.answers.story_names import Named, named
from steelyard.definitions import kaplan_meier, queue_wait
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import SECOND_US, DurationUs, Instant, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
METHOD: Final = f"kaplan_meier {kaplan_meier.VERSION}: {kaplan_meier.REMAINING_FORMULA}"
WAIT_METHOD: Final = f"queue_wait {queue_wait.VERSION}"
REQUESTS_MAX: Final = 64
"""Of how many requests one story is told at most: those that wait still before those that ended, later ones first."""

WAITS_MIN: Final = 10
"""Of fewer waits that lasted as long already no estimate is made."""

_AHEAD_SHOWN: Final = 5
_STORY_COLUMNS: Final = (
    Column("at"),
    Column("event"),
    Column("what"),
    Column("times", "1"),
    Column("last_at"),
    Column("source"),
)
_STAGES: Final = ("queue", "gate", "scheduler", "admission_check", "backoff", "release_lag", "starting")


@dataclass(frozen=True, slots=True)
class StorySpec:
    """Whose story: ``name`` as typed. ``kind``: pod, job or workload, None = any. ``tenant``: who asks may see that tenant's requests alone."""

    name: str
    kind: str | None = None
    cluster: str | None = None
    at: Instant | None = None
    explain: bool = False
    tenant: str | None = None


@dataclass(slots=True)
class Standing:
    """Where one request that waits stands."""

    demand: Record
    wait: Record
    position: int | None = None
    pending_count: int | None = None
    ahead: Sequence[str] = ()
    queue: Record | None = None
    word: Record | None = None
    fit: str | None = None
    fit_basis: str | None = None
    changes: Sequence[Change] = ()
    remaining: Mapping[str, DurationUs | Unknown] = field(default_factory=dict)
    compared_count: int = 0

    def age_us(self, at: Instant) -> DurationUs:
        """How long it waits by then."""
        return max(0, at - int(self.wait["started_us"]))


def title() -> str:
    """What the command answers."""
    return _("Why is it not running, since when, and what would have to change")


def story(rows: Rows, spec: StorySpec) -> Answer:
    """The story. Raises UsageError for a name that nothing has, that several things have, and for an instant before the request."""
    reading = Reading(rows, SQL, grounds.SQL)
    who = named(reading, spec.name, spec.kind, spec.cluster, spec.tenant)
    bound: dict[str, Any] = {"cluster": who.cluster, "demands": list(who.demands)}
    at = spec.at if spec.at is not None else reading.run("story_now", **bound)[0]["now_us"]
    demands = reading.run("story_demands", **bound, at_us=at)
    if not demands:
        raise UsageError(_("{name} was not there yet at {at}").format(name=who.title, at=format_instant(at)))
    left_out = demands[REQUESTS_MAX:]
    demands = demands[:REQUESTS_MAX]
    bound["demands"] = [row["demand_id"] for row in demands]
    labels = {row["demand_id"]: label_of(row) for row in demands}
    subjects = reading.run("story_subjects", **bound)
    demand_of = _demand_of(demands, subjects)
    words = _decisions(reading, who.cluster, at, demands, subjects)
    standings = [
        _standing(
            reading,
            who.cluster,
            at,
            demand,
            wait,
            [w for w in words if story_lines.demand_of_word(w, demand_of) == demand["demand_id"]],
            spec,
        )
        for demand in demands
        for wait in _open_waits(reading, bound, at, demand["demand_id"])
    ]
    steps = [row for row in reading.run("story_steps", **bound) if row["at_us"] <= at]
    lines = _lines(reading, bound, at, demands, subjects, labels, demand_of, words, steps, spec.tenant)
    return Answer(
        question="why",
        title=f"{title()}: {who.title}",
        window=None,
        as_of=at,
        figures=_figures(demands, standings, at),
        tables=_tables(demands, standings, lines, {row["demand_id"]: row["step"] for row in steps}, at),
        definitions=grounds.definitions(
            reading, {"kaplan_meier": kaplan_meier.VERSION, "queue_wait": queue_wait.VERSION}
        ),
        sources=() if spec.tenant is not None else grounds.source_lines(reading),
        coverage=Unknown(_("a story is as complete as its sources: what nobody wrote down is not in it")),
        blind_spots=_blind_spots(left_out, demands, at, spec.tenant is not None),
        findings=_findings(reading, demands, subjects, spec.tenant is not None),
        evidence=_evidence(who, demands, subjects),
        next_actions=_next_actions(standings, spec.tenant is not None),
        explain=reading.ran if spec.explain else {},
    )


def _demand_of(demands: Sequence[Record], subjects: Sequence[Record]) -> dict[tuple[str, str], str]:
    """(kind, uid) and (kind, namespace/name) of every object of the requests -> the demand."""
    found: dict[tuple[str, str], str] = {}
    for row in subjects:
        found[row["kind"], f"{row['namespace'] or ''}/{row['name']}"] = row["demand_id"]
    for row in (*subjects,):
        found[row["kind"], row["uid"]] = row["demand_id"]
    for demand in demands:
        kind = {"workload": "Workload", "pod": "Pod"}.get(demand["demand_kind"], "PodGroup")
        found[kind, demand["demand_id"]] = demand["demand_id"]
        found.setdefault((kind, f"{demand['namespace'] or ''}/{demand['name']}"), demand["demand_id"])
        owner = "Job" if demand["workload_kind"] == "vcjob" else demand["workload_kind"]
        found.setdefault((owner, f"{demand['namespace'] or ''}/{demand['workload_name']}"), demand["demand_id"])
    return found


def _keys(demands: Sequence[Record], subjects: Sequence[Record]) -> list[str]:
    found = {f"{kind}/{name}" for (kind, name) in _demand_of(demands, subjects) if "/" in name}
    return sorted(found)


def _decisions(
    reading: Reading, cluster: str, at: Instant, demands: Sequence[Record], subjects: Sequence[Record]
) -> list[Record]:
    uids = sorted({*(row["uid"] for row in subjects), *(row["demand_id"] for row in demands)})
    return reading.run("story_decisions", cluster=cluster, at_us=at, uids=uids, keys=_keys(demands, subjects))


def _open_waits(reading: Reading, bound: Mapping[str, Any], at: Instant, demand_id: str) -> list[Record]:
    """The wait that goes on at the instant: the most telling stage."""
    rows = reading.run("story_waits", **{**bound, "demands": [demand_id]}, at_us=at)
    return sorted(rows, key=lambda row: (_STAGES.index(row["stage"]), -row["started_us"]))[:1]


def _standing(
    reading: Reading, cluster: str, at: Instant, demand: Record, wait: Record, words: Sequence[Record], spec: StorySpec
) -> Standing:
    found = Standing(demand, wait)
    queue = wait["queue"]
    quota = reading.run("story_quota", cluster=cluster, queue=queue, at_us=at) if queue is not None else []
    found.queue = (
        next(iter(reading.run("story_strategy", cluster=cluster, queue=queue, at_us=at)), None)
        if queue is not None
        else None
    )
    found.word = standing_word(words, wait["started_us"])
    found.fit, found.fit_basis = fit_of(found.word, demand["gpu_milli"], quota)
    found.changes = changes(found.word, demand, wait["stage"], quota, found.queue)
    if wait["stage"] in ("queue", "scheduler"):
        scope = {
            "cluster": cluster,
            "stage": wait["stage"],
            "demand_kind": wait["demand_kind"],
            "queue": queue,
            "at_us": at,
        }
        order = reading.run("story_queue", **scope)
        place = next((n for n, row in enumerate(order) if row["demand_id"] == demand["demand_id"]), None)
        found.pending_count = len(order)
        if place is not None:
            found.position = place + 1
            found.ahead = (
                () if spec.tenant is not None else [f"{row['namespace']}/{row['name']}" for row in order[:place]]
            )
    found.remaining, found.compared_count = _remaining(reading, cluster, at, found)
    return found


def _remaining(
    reading: Reading, cluster: str, at: Instant, standing: Standing
) -> tuple[Mapping[str, DurationUs | Unknown], int]:
    """P10, P50 and P90 of what is left of the wait, given how long it lasts already."""
    wait, names = standing.wait, ("p10", "p50", "p90")

    def unknown(reason: str) -> dict[str, DurationUs | Unknown]:
        return dict.fromkeys(names, Unknown(reason))

    if wait["stage"] not in ("queue", "scheduler"):
        return unknown(_("it does not wait in a queue now")), 0
    if standing.fit == "never_fits":
        return unknown(_("as it is asked for it never fits")), 0
    if wait["unknown_reason"] is not None:
        return unknown(_("since when it waits is not known")), 0
    row = reading.run(
        "story_remaining",
        cluster=cluster,
        stage=wait["stage"],
        demand_kind=wait["demand_kind"],
        queue=wait["queue"],
        at_us=at,
        age_us=standing.age_us(at),
        own=standing.demand["demand_id"],
    )[0]
    count = int(row["waits_count"])
    if count < WAITS_MIN:
        return unknown(
            _(
                "it cannot be told: of the waits of its queue {count} lasted this long, at least {least} are needed"
            ).format(count=count, least=WAITS_MIN)
        ), count
    reached = Unknown(_("not reached: too few of the waits that lasted this long have ended"))
    return {name: reached if row[f"{name}_us"] is None else int(row[f"{name}_us"]) for name in names}, count


def _lines(
    reading: Reading,
    bound: Mapping[str, Any],
    at: Instant,
    demands: Sequence[Record],
    subjects: Sequence[Record],
    labels: Mapping[str, str],
    demand_of: Mapping[tuple[str, str], str],
    words: Sequence[Record],
    steps: Sequence[Record],
    tenant: str | None,
) -> list[StoryLine]:
    cluster = bound["cluster"]
    confined = tenant is not None
    found, taken = story_lines.lines_of_steps(
        steps, words, {row["demand_id"]: row for row in demands}, demand_of, confined
    )
    found += story_lines.lines_of_decisions(words, taken, labels, demand_of, confined)
    found += story_lines.lines_of_preemptions(reading.run("story_preemptions", **bound, at_us=at), labels, tenant)
    uids = sorted({row["uid"] for row in subjects} | set(bound["demands"]))
    found += story_lines.lines_of_events(
        reading.run("story_events", cluster=cluster, at_us=at, uids=uids), demand_of, labels, confined
    )
    found += _refusals(reading, cluster, at, demands, subjects, labels, demand_of)
    found += story_lines.lines_of_holdings(reading.run("story_holdings", **bound, at_us=at), labels, at)
    found += story_lines.lines_of_outcomes(reading.run("story_outcomes", **bound), labels, at)
    return sorted(found, key=lambda line: (line.at // SECOND_US, line.rank, line.at, line.request, line.text))


def _refusals(
    reading: Reading,
    cluster: str,
    at: Instant,
    demands: Sequence[Record],
    subjects: Sequence[Record],
    labels: Mapping[str, str],
    demand_of: Mapping[tuple[str, str], str],
) -> list[StoryLine]:
    owners = {
        f"{row['namespace'] or ''}/{row['workload_kind']} {row['workload_name']}": row["demand_id"] for row in demands
    }
    rows = reading.run(
        "story_refusals", cluster=cluster, at_us=at, keys=_keys(demands, subjects), owners=sorted(owners)
    )
    found = []
    for row in rows:
        named_so = demand_of.get((row["subject_kind"], f"{row['namespace'] or ''}/{row['subject_name']}"))
        demand = named_so or owners.get(f"{row['namespace'] or ''}/{row['owner']}")
        if demand is not None:
            found += story_lines.lines_of_refusals([row], labels[demand])
    return found


def _seconds(us: DurationUs | Unknown | None) -> Value:
    return us if us is None or isinstance(us, Unknown) else us // SECOND_US


def _figures(demands: Sequence[Record], standings: Sequence[Standing], at: Instant) -> list[Figure]:
    figures = [
        Figure("requests_count", len(demands), "1", WAIT_METHOD, 1.0),
        Figure("requests_waiting_count", len(standings), "1", WAIT_METHOD, 1.0),
    ]
    if len(standings) == 1:
        only = standings[0]
        known: dict[str, Value] = {"wait_age_seconds": _seconds(only.age_us(at)), "queue_position": only.position}
        known.update({f"remaining_wait_{name}_seconds": _seconds(value) for name, value in only.remaining.items()})
        if only.position is None:
            known["queue_position"] = Unknown(_("it does not wait in a queue now"))
        figures += [
            Figure(
                name,
                value,
                "s" if name.endswith("seconds") else "1",
                METHOD if "remaining" in name else WAIT_METHOD,
                1.0,
            )
            for name, value in known.items()
        ]
    return figures


def _tables(
    demands: Sequence[Record],
    standings: Sequence[Standing],
    lines: Sequence[StoryLine],
    states: Mapping[str, str],
    at: Instant,
) -> list[Table]:
    several = len(demands) > 1
    tables = [_requests_table(demands, {s.demand["demand_id"]: s for s in standings}, states, at)]
    columns = (*_STORY_COLUMNS, *((Column("request"),) if several else ()))
    rows = [
        [
            format_instant(line.at),
            line.event,
            line.text,
            line.times,
            None if line.last is None else format_instant(line.last),
            line.source,
            *([line.request] if several else []),
        ]
        for line in lines
    ]
    tables.append(Table("story", columns, rows))
    if standings:
        tables += [_standing_table(standings, at), _changes_table(standings), _remaining_table(standings)]
    return tables


def _requests_table(
    demands: Sequence[Record], standings: Mapping[str, Standing], states: Mapping[str, str], at: Instant
) -> Table:
    columns = [
        Column(name)
        for name in ("request", "kind", "workload", "tenant", "person", "person_basis", "queue", "priority")
    ]
    columns += [Column("gpus", "GPU"), Column("pods", "1"), Column("created_at"), Column("state")]
    rows: list[list[Value]] = []
    for demand in demands:
        standing = standings.get(demand["demand_id"])
        ended = demand["ended_us"] is not None and demand["ended_us"] <= at
        state = (
            f"waits: {standing.wait['stage']}"
            if standing
            else (demand["end_kind"] if ended else states.get(demand["demand_id"]))
        )
        gpus: Value = (
            Unknown(_("it does not say in cards")) if demand["gpu_milli"] is None else demand["gpu_milli"] / 1000
        )
        created: Value = (
            Unknown(_("no source tells it")) if demand["created_us"] is None else format_instant(demand["created_us"])
        )
        rows.append(
            [
                label_of(demand),
                demand["demand_kind"],
                f"{demand['workload_kind']}/{demand['workload_name']}",
                demand["tenant"],
                demand["person"],
                demand["person_basis"],
                demand["queue"] or demand["local_queue"],
                demand["priority"],
                gpus,
                demand["pods_count"],
                created,
                state,
            ]
        )
    return Table("requests", columns, rows)


def _standing_table(standings: Sequence[Standing], at: Instant) -> Table:
    columns = [Column(name) for name in ("request", "stage", "since", "queue", "strategy")]
    columns += [
        Column("age", "s"),
        Column("position", "1"),
        Column("pending", "1"),
        Column("ahead"),
        Column("fit"),
        Column("fit_basis"),
    ]
    columns += [Column("cause"), Column("last_word_at")]
    rows: list[list[Value]] = []
    for each in standings:
        shown = list(each.ahead[:_AHEAD_SHOWN]) + (
            [f"(+{len(each.ahead) - _AHEAD_SHOWN})"] if len(each.ahead) > _AHEAD_SHOWN else []
        )
        word = each.word
        rows.append(
            [
                label_of(each.demand),
                each.wait["stage"],
                format_instant(each.wait["started_us"]),
                each.wait["queue"],
                each.queue["strategy"] if each.queue else None,
                _seconds(each.age_us(at)),
                each.position,
                each.pending_count,
                ", ".join(shown) or None,
                each.fit if each.fit is not None else Unknown(_("nobody said why it waits")),
                each.fit_basis,
                word["cause"] if word else None,
                format_instant(word["last_us"]) if word else None,
            ]
        )
    return Table("standing", columns, rows)


def _changes_table(standings: Sequence[Standing]) -> Table:
    columns = (
        Column("request"),
        Column("what_would_have_to_change"),
        Column("resource"),
        Column("have"),
        Column("need"),
        Column("basis"),
    )
    rows: list[list[Value]] = [
        [
            label_of(each.demand),
            change.text,
            change.resource,
            None if change.have_milli is None else amount(change.have_milli),
            None if change.need_milli is None else amount(change.need_milli),
            change.basis,
        ]
        for each in standings
        for change in each.changes
    ]
    return Table("changes", columns, rows)


def _remaining_table(standings: Sequence[Standing]) -> Table:
    columns = (
        Column("request"),
        *(Column(f"remaining_{name}", "s") for name in ("p10", "p50", "p90")),
        Column("waits_compared", "1"),
    )
    return Table(
        "remaining_wait",
        columns,
        [
            [label_of(s.demand), *(_seconds(s.remaining[name]) for name in ("p10", "p50", "p90")), s.compared_count]
            for s in standings
        ],
    )


def _blind_spots(left_out: Sequence[Record], demands: Sequence[Record], at: Instant, confined: bool) -> list[str]:
    spots = []
    if left_out:
        spots.append(_("{count} more requests of it are not told: name one of its pods").format(count=len(left_out)))
    last = [
        row["last_seen_us"]
        for row in demands
        if row["ended_us"] is None and row["last_seen_us"] is not None and row["last_seen_us"] < at
    ]
    if last:
        spots.append(_("what lives was last seen at {at}").format(at=format_instant(min(last))))
    spots.append(_("events are forgotten by the cluster after an hour: what nobody collected by then is not told"))
    if confined:
        spots.append(_("requests of other tenants are counted and not named"))
    return spots


def _findings(
    reading: Reading, demands: Sequence[Record], subjects: Sequence[Record], confined: bool
) -> tuple[FindingNote, ...]:
    pods = {f"pod {row['namespace']}/{row['name']}" for row in subjects if row["kind"] == "Pod"}
    others = (
        set() if confined else {f"workload {label_of(row)}" for row in demands} | {label_of(row) for row in demands}
    )
    return grounds.finding_notes(reading, pods | others)[0]


def _evidence(who: Named, demands: Sequence[Record], subjects: Sequence[Record]) -> list[Evidence]:
    kinds = {"workload": "workloads.kueue.x-k8s.io", "pod_group": "podgroups.scheduling.volcano.sh", "pod": "pod"}
    first = demands[0]
    kind = (
        "jobs.batch.volcano.sh"
        if first["workload_kind"] == "vcjob" and first["demand_kind"] == "pod_group"
        else kinds[first["demand_kind"]]
    )
    found = [
        Evidence(
            _("the object itself"),
            label_of(first),
            f"kubectl get {kind} -n {first['namespace']} {first['name']} -o yaml",
        )
    ]
    found.append(
        Evidence(
            _("its events"), label_of(first), f"kubectl events -n {first['namespace']} --for {kind}/{first['name']}"
        )
    )
    return found


def _next_actions(standings: Sequence[Standing], confined: bool) -> list[str]:
    if confined:
        return []
    queues = sorted({each.wait["queue"] for each in standings if each.wait["queue"] and each.fit == "not_now"})
    return [f"steelyard q1 --where queue={queue}" for queue in queues[:3]]
