"""The story of one request: what happened to it, where it stands in its queue, what would have to change, how long it may still take.

``steelyard why`` and its route call ``story``. A name may stand for several requests (the pods of a Deployment): their stories are told in one. The
trick to know: everything is told as of an instant. What came later is left out, waits that ended later still go on, so the estimate that was given at
an instant can be had again with ``--at``, and be held against what then happened; nothing needs to be kept for that.

Sceptic's queries: ``SELECT * FROM dim.step WHERE demand_id = '...' ORDER BY at`` and ``SELECT * FROM ledger.wait WHERE queue = '...'``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from steelyard.answers import grounds, story_lines, story_state, story_tables
from steelyard.answers.contract import Answer, Evidence, FindingNote
from steelyard.answers.reading import Reading, Record, Rows
from steelyard.answers.story_heard import Heard, heard
from steelyard.answers.story_lines import StoryLine, label_of
from steelyard.answers.story_names import Named, named, nothing_so_called
from steelyard.answers.story_standing import Standing, Told, standings
from steelyard.answers.tenant_words import finding_told
from steelyard.definitions import kaplan_meier, queue_wait
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import SECOND_US, Instant, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
_SHOWN_MAX: Final = 253
REQUESTS_MAX: Final = 64
"""Of how many requests one story is told at most: those that wait still before those that ended, later ones first."""


@dataclass(frozen=True, slots=True)
class StorySpec:
    """Whose story: ``name`` as typed. ``kind``: pod, job or workload, None = any. ``tenant``: who asks may see that tenant's requests alone."""

    name: str
    kind: str | None = None
    cluster: str | None = None
    at: Instant | None = None
    explain: bool = False
    tenant: str | None = None


def title() -> str:
    """What the command answers."""
    return _("Why is it not running, since when, and what would have to change")


def story(rows: Rows, spec: StorySpec) -> Answer:
    """The story. Raises UsageError for a name that nothing has, that several things have, and for an instant before the request."""
    reading = Reading(rows, SQL, grounds.SQL)
    who = named(reading, spec.name, spec.kind, spec.cluster, spec.tenant)
    hearsay = None if who is not None else heard(reading, spec.name, spec.kind, spec.cluster, spec.tenant)
    doubled: list[str] = []
    if who is None:
        doubled = _doubled(reading, spec)
        if hearsay is None:
            raise UsageError(doubled[0]) if doubled else nothing_so_called(reading, spec.name, spec.tenant)
        who = hearsay.who
    now = _now(reading, who, hearsay)
    at = spec.at if spec.at is not None else now
    demands = _demands(reading, who, hearsay, at)
    left_out, demands = demands[REQUESTS_MAX:], demands[:REQUESTS_MAX]
    bound: dict[str, Any] = {"cluster": who.cluster, "demands": [row["demand_id"] for row in demands]}
    subjects = reading.run("story_subjects", **bound) if hearsay is None else hearsay.subjects
    told = _told(reading, bound, (at, now), demands, subjects, spec.tenant is not None)
    steps = [row for row in told.steps if row["at_us"] <= at]
    evictions = _evictions(told, steps)
    stands = standings(reading, told, None if hearsay is None else hearsay.wait)
    lines = _lines(reading, bound, told, subjects, spec.tenant)
    for demand in demands:
        gang, dated = evictions[demand["demand_id"]]
        lines += story_state.lines_of_lost_evictions(gang, dated, label_of(demand))
    lines.sort(key=lambda line: (line.at // SECOND_US, line.rank, line.at, line.request, line.text))
    return Answer(
        question="why",
        title=f"{title()}: {who.title}",
        window=None,
        as_of=at,
        figures=story_tables.figures(demands, stands, at),
        tables=story_tables.tables(
            demands,
            stands,
            lines,
            {row["demand_id"]: row["step"] for row in steps},
            _waits(reading, bound, told),
            evictions,
            at,
        ),
        definitions=grounds.definitions(
            reading, {"kaplan_meier": kaplan_meier.VERSION, "queue_wait": queue_wait.VERSION}
        ),
        sources=() if told.confined else grounds.source_lines(reading),
        coverage=Unknown(_("a story is as complete as its sources: what nobody wrote down is not in it")),
        blind_spots=[
            *_blind_spots(left_out, demands, at, told.confined, hearsay is not None and not doubled),
            *_of_limits(stands, at, now),
            *doubled,
        ],
        findings=_findings(reading, demands, subjects, told.confined),
        evidence=_evidence(who, demands, subjects),
        next_actions=_next_actions(stands, told.confined),
        explain=reading.ran if spec.explain else {},
    )


def _doubled(reading: Reading, spec: StorySpec) -> list[str]:
    """That an object of that name was seen, under a uid that another has, so that nothing is kept of it; to a viewer of one tenant nothing, since
    the other may be somebody else's."""
    if spec.tenant is not None:
        return []
    namespace, slash, name = spec.name.strip().rpartition("/")
    rows = reading.run("story_doubled", cluster=spec.cluster, namespace=namespace if slash else None, plain=name)
    return [
        _(
            "an object called {name} was seen with a uid that another object has ({other}): the two cannot be kept apart, and what is known of"
            " both is told of one of them (finding uid_of_several_objects)"
        ).format(name=spec.name.strip()[:_SHOWN_MAX], other=row["subject"])
        for row in rows
    ]


def _of_limits(stands: Sequence[Standing], at: Instant, now: Instant) -> list[str]:
    if at >= now or not any(each.stage in ("queue", "scheduler") for each in stands):
        return []
    return [
        _(
            "what queues may give and what nodes have is known as of the latest word ({now}) alone: whether it could ever fit at {at} is told by"
            " what was said then"
        ).format(now=format_instant(now), at=format_instant(at))
    ]


def _now(reading: Reading, who: Named, hearsay: Heard | None) -> Instant:
    """The last instant that is known of its cluster."""
    demands = [] if hearsay is not None else list(who.demands)
    now = reading.run("story_now", cluster=who.cluster, demands=demands)[0]["now_us"]
    last = hearsay.demand["last_seen_us"] if hearsay is not None else None
    return int(max(each for each in (now, last) if each is not None))


def _demands(reading: Reading, who: Named, hearsay: Heard | None, at: Instant) -> list[Record]:
    """The requests that were there by then. Raises UsageError where none was."""
    if hearsay is None:
        found = reading.run("story_demands", cluster=who.cluster, demands=list(who.demands), at_us=at)
    else:
        found = [hearsay.demand] if hearsay.demand["first_seen_us"] <= at else []
    if not found:
        raise UsageError(_("{name} was not there yet at {at}").format(name=who.title, at=format_instant(at)))
    return found


def _told(
    reading: Reading,
    bound: Mapping[str, Any],
    at_now: tuple[Instant, Instant],
    demands: Sequence[Record],
    subjects: Sequence[Record],
    confined: bool,
) -> Told:
    at, now = at_now
    return Told(
        cluster=bound["cluster"],
        at=at,
        demands=demands,
        demand_of=_demand_of(demands, subjects),
        words=_decisions(reading, bound["cluster"], at, demands, subjects),
        steps=reading.run("story_steps", **bound),
        leaks=reading.run("story_leaks", **bound, at_us=at),
        gangs={row["demand_id"]: row for row in reading.run("story_gangs", **bound, at_us=at)},
        requeues=reading.run("story_requeues", **bound, at_us=at),
        confined=confined,
        is_past=at < now,
    )


def _waits(reading: Reading, bound: Mapping[str, Any], told: Told) -> list[Record]:
    """All waits by then; the lag of a release that became a leak is none."""
    return [
        row
        for row in reading.run("story_all_waits", **bound, at_us=told.at)
        if row["stage"] != "release_lag"
        or all(
            leak["from_us"] > (row["ended_us"] or told.at)
            for leak in told.leaks
            if leak["demand_id"] == row["demand_id"]
        )
    ]


def _evictions(
    told: Told, steps: Sequence[Record]
) -> dict[str, tuple[Record | None, list[tuple[Instant, str | None]]]]:
    """By request: its controller's latest word, and the evictions that are dated, each with its rule."""
    found: dict[str, tuple[Record | None, list[tuple[Instant, str | None]]]] = {
        row["demand_id"]: (told.gangs.get(row["demand_id"]), []) for row in told.demands
    }
    for step in steps:
        if step["step"] == "evicted":
            near = (told.words[place] for place in story_lines.words_near(step, told.words, told.demand_of))
            rule = next((word["rule"] for word in near if word["verdict"] in ("evicted", "deactivated")), None)
            found[step["demand_id"]][1].append((step["at_us"], rule))
    return found


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


def _lines(
    reading: Reading,
    bound: Mapping[str, Any],
    told: Told,
    subjects: Sequence[Record],
    tenant: str | None,
) -> list[StoryLine]:
    at, labels = told.at, {row["demand_id"]: label_of(row) for row in told.demands}
    found, taken = story_lines.lines_of_steps(
        told.steps, told.words, {row["demand_id"]: row for row in told.demands}, told.demand_of, told.confined, at
    )
    found += story_lines.lines_of_decisions(told.words, taken, labels, told.demand_of, told.confined)
    found += story_lines.lines_of_preemptions(reading.run("story_preemptions", **bound, at_us=at), labels, tenant)
    uids = sorted({row["uid"] for row in subjects} | set(bound["demands"]))
    found += story_lines.lines_of_events(
        reading.run("story_events", cluster=told.cluster, at_us=at, uids=uids), told.demand_of, labels, told.confined
    )
    found += _refusals(reading, told, subjects, labels)
    found += story_state.lines_of_leaks(told.leaks, labels, at)
    found += story_state.lines_of_requeues(told.requeues, labels, at)
    found += story_lines.lines_of_holdings(reading.run("story_holdings", **bound, at_us=at), labels, at)
    found += story_lines.lines_of_outcomes(reading.run("story_outcomes", **bound), labels, at)
    return found


def _refusals(reading: Reading, told: Told, subjects: Sequence[Record], labels: Mapping[str, str]) -> list[StoryLine]:
    """Refusals at the door; those by the queue itself only where no decision tells of them."""
    owners = {f"{row['namespace'] or ''}/{row['workload_kind']} {row['workload_name']}": row for row in told.demands}
    requests = {row["demand_id"]: row for row in told.demands}
    rows = reading.run(
        "story_refusals",
        cluster=told.cluster,
        at_us=told.at,
        keys=_keys(told.demands, subjects),
        owners=sorted(owners),
    )
    found = []
    for row in rows:
        named_so = told.demand_of.get((row["subject_kind"], f"{row['namespace'] or ''}/{row['subject_name']}"))
        demand = requests.get(named_so or "") or owners.get(f"{row['namespace'] or ''}/{row['owner']}")
        if demand is not None and not story_lines.is_told(row, told.words_of(demand)):
            found += story_lines.lines_of_refusals([row], labels[demand["demand_id"]], told.confined)
    return found


def _blind_spots(
    left_out: Sequence[Record], demands: Sequence[Record], at: Instant, confined: bool, is_heard: bool
) -> list[str]:
    spots = []
    if left_out:
        spots.append(
            ngettext(
                "{count} more request of it is not told: name one of its pods",
                "{count} more requests of it are not told: name one of its pods",
                len(left_out),
            ).format(count=len(left_out))
        )
    if is_heard:
        spots.append(
            _(
                "no object of it was seen: what it asks for, since when it waits, and whether it is still there is not known"
            )
        )
    last = [
        row["last_seen_us"]
        for row in demands
        if row["ended_us"] is None and row["last_seen_us"] is not None and row["last_seen_us"] < at
    ]
    if last and not is_heard:
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
    notes = grounds.finding_notes(reading, pods | others)[0]
    if not confined:
        return notes
    return tuple(replace(note, message=finding_told(note.subject, note.message)) for note in notes)


def _evidence(who: Named, demands: Sequence[Record], subjects: Sequence[Record]) -> list[Evidence]:
    kinds = {
        "workload": "workloads.kueue.x-k8s.io",
        "pod_group": "podgroups.scheduling.volcano.sh",
        "pod": "pod",
        "job": "jobs.batch.volcano.sh",
    }
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
