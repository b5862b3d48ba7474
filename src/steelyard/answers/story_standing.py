"""Where a request stands at an instant: it waits in some stage, or it is held up in a way that is no waiting.

``story`` calls ``standings``. No waiting are three states, which the ledger of waits leaves out or cannot tell: *leaked* (its quota is kept without a
live pod), *deactivated* (its controller gave it up until somebody makes it active again) and *misconfigured* (its queue is not there). The trick to
know: of a request that was evicted the steps tell since when and until when, the object's latest word only how often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.answers.reading import Reading, Record
from steelyard.answers.story_change import Change, beyond_all_nodes, changes, fit_of, limit_not_read, standing_word
from steelyard.answers.story_lines import demand_of_word
from steelyard.answers.story_state import backoff_of, changes_of_state
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DurationUs, Instant
from steelyard.primitives.unknown import Unknown

WAITS_MIN: Final = 10
"""Of fewer waits that lasted as long already no estimate is made."""

STAGES: Final = ("queue", "gate", "scheduler", "admission_check", "backoff", "release_lag", "starting")
HELD_UP: Final = ("leaked", "deactivated", "misconfigured")
"""States that are no waiting."""


@dataclass(slots=True)
class Standing:
    """Where one request that waits, or is held up, stands. ``wait``: the wait that goes on; of a state that is none, its stage and beginning."""

    demand: Record
    wait: Record
    position: int | None = None
    pending_count: int | None = None
    ahead: Sequence[str] = ()
    queue: Record | None = None
    word: Record | None = None
    fit: str | None = None
    fit_basis: str | None = None
    fit_unknown: str | None = None
    """Why it is not known whether it can ever fit, where a limit of its queue could not be read."""
    changes: Sequence[Change] = ()
    remaining: Mapping[str, DurationUs | Unknown] = field(default_factory=dict)
    compared_count: int = 0
    until: Instant | None = None
    requeue_count: int | None = None

    @property
    def stage(self) -> str:
        """The stage of its wait, or its state."""
        return str(self.wait["stage"])

    @property
    def is_waiting(self) -> bool:
        """Whether that is a wait."""
        return self.stage not in HELD_UP

    @property
    def is_heard_of(self) -> bool:
        """Whether events alone tell of it, so that since when it waits is not known."""
        return self.demand.get("heard_verdict") is not None

    def age_us(self, at: Instant) -> DurationUs:
        """How long it stands so by then."""
        return max(0, at - int(self.wait["started_us"]))


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of the requests of one story, as of ``at``. ``steps``: also those after it, since the end of a back-off is told beforehand."""

    cluster: str
    at: Instant
    demands: Sequence[Record]
    demand_of: Mapping[tuple[str, str], str]
    words: Sequence[Record]
    steps: Sequence[Record]
    leaks: Sequence[Record]
    gangs: Mapping[str, Record]
    requeues: Sequence[Record]
    confined: bool
    is_past: bool = False
    """Whether more is known than by then: what queues may give and nodes have is told as of its latest word, and not used."""

    def of(self, rows: Sequence[Record], demand: Record) -> list[Record]:
        """The rows of one request."""
        return [row for row in rows if row["demand_id"] == demand["demand_id"]]

    def words_of(self, demand: Record) -> list[Record]:
        """What deciders said of one request."""
        return [word for word in self.words if demand_of_word(word, self.demand_of) == demand["demand_id"]]


def standings(reading: Reading, told: Told, hearsay: Record | None = None) -> list[Standing]:
    """Of each request that waits or is held up then. ``hearsay``: the wait that events alone tell of, in place of those of the ledger."""
    demands = [row["demand_id"] for row in told.demands]
    waits = [hearsay] if hearsay is not None else []
    waits += reading.run("story_waits", cluster=told.cluster, demands=demands, at_us=told.at)
    found = []
    for demand in told.demands:
        wait = _stands(demand, told.of(waits, demand), told)
        if wait is not None:
            found.append(_standing(reading, demand, wait, told))
    return found


def _stands(demand: Record, waits: Sequence[Record], told: Told) -> Record | None:
    """The most telling wait that goes on, or the state that is none."""
    leak = _open_leak(told.of(told.leaks, demand), told.at)
    if leak is not None:
        return _state("leaked", leak["from_us"], demand)
    if waits:
        return min(waits, key=lambda row: (STAGES.index(row["stage"]), -row["started_us"]))
    if demand["ended_us"] is not None and demand["ended_us"] <= told.at:
        return None
    since = _deactivated_since(demand, told)
    if since is not None:
        return _state("deactivated", since, demand)
    word = standing_word(told.words_of(demand), demand["created_us"] or 0)
    if word is None or word["verdict"] != "misconfigured":
        return None
    served = [step for step in _steps(demand, told) if step["step"] == "reserved" and step["at_us"] >= word["first_us"]]
    return None if served else _state("misconfigured", word["first_us"], demand)


def _state(name: str, since: Instant, demand: Record) -> Record:
    return {
        "stage": name,
        "started_us": since,
        "queue": demand["queue"],
        "demand_kind": demand["demand_kind"],
        "unknown_reason": None,
    }


def _steps(demand: Record, told: Told) -> list[Record]:
    return [step for step in told.of(told.steps, demand) if step["at_us"] <= told.at]


def _open_leak(leaks: Sequence[Record], at: Instant) -> Record | None:
    return next((leak for leak in leaks if leak["to_us"] is None or leak["to_us"] > at), None)


def _deactivated_since(demand: Record, told: Told) -> Instant | None:
    """Since when it is deactivated; None where it is not, or was made active again or served since."""
    since: Instant | None = None
    for step in _steps(demand, told):
        if step["step"] == "evicted":
            since = step["at_us"] if step["is_deactivation"] else None
        elif step["step"] in ("reserved", "admitted", "running"):
            since = None
    gang = told.gangs.get(demand["demand_id"])
    if gang is None:
        return since
    if gang["active"]:
        return since if since is not None and gang["seen_us"] <= since else None
    return since if since is not None else gang["inactive_us"]


def _standing(reading: Reading, demand: Record, wait: Record, told: Told) -> Standing:
    found = Standing(demand, wait)
    cluster, at, queue = told.cluster, told.at, wait["queue"]
    words = told.words_of(demand)
    quota: list[Record] = []
    if queue is not None:
        quota = reading.run("story_quota", cluster=cluster, queue=queue, at_us=at)
        found.queue = next(iter(reading.run("story_strategy", cluster=cluster, queue=queue, at_us=at)), None)
    found.word = standing_word(words, wait["started_us"])
    if found.stage in HELD_UP or found.stage == "backoff":
        _hold_up(found, words, told)
    else:
        fit, beyond = _facts_of_fit(reading, demand, found.stage, bool(quota), told)
        found.fit, found.fit_basis = fit_of(found.word, fit)
        found.changes = changes(
            found.word, demand, found.stage, quota, found.queue, confined=told.confined, quota_fit=fit
        )
        if fit is not None and fit["unread"] is not None:
            found.fit_unknown = limit_not_read(fit)
        if beyond is not None:
            found.fit, found.fit_basis = "never_fits", "nodes"
            found.changes = [Change(beyond, basis=_("the nodes"))]
    if found.stage in ("queue", "scheduler") and not found.is_heard_of:
        _place(reading, found, told)
    found.remaining, found.compared_count = _remaining(reading, cluster, at, found)
    return found


def _facts_of_fit(
    reading: Reading, demand: Record, stage: str, has_quota: bool, told: Told
) -> tuple[Record | None, str | None]:
    """What quota, or nodes, say of whether it can ever fit: (its row of ``dim.quota_fit``, what has to change where no node has what it asks for)."""
    bound = {"cluster": told.cluster, "demand": demand["demand_id"]}
    if told.is_past or stage not in ("queue", "scheduler"):
        return None, None
    if stage == "queue":
        return next(iter(reading.run("story_quota_fit", **bound)), None) if has_quota else None, None
    row = next(iter(reading.run("story_node_fit", **bound)), None)
    return None, beyond_all_nodes(row) if row is not None else None


def _hold_up(found: Standing, words: Sequence[Record], told: Told) -> None:
    """What is told of a back-off and of what is no waiting: until when, and what would have to change."""
    demand, since = found.demand, int(found.wait["started_us"])
    if found.stage == "misconfigured":
        found.changes = changes(found.word, demand, found.stage, (), found.queue, confined=told.confined)
        return
    ends = [step["at_us"] for step in told.of(told.steps, demand) if step["step"] == "backoff_until"]
    if found.stage in ("backoff", "leaked"):
        found.until, found.requeue_count = backoff_of(ends, told.of(told.requeues, demand), since)
    cause = next((word for word in reversed(words) if word["verdict"] == "deactivated"), None)
    leak = _open_leak(told.of(told.leaks, demand), told.at)
    found.changes = changes_of_state(
        found.stage, demand, cause, leak, (found.until, found.requeue_count), told.confined
    )


def _place(reading: Reading, found: Standing, told: Told) -> None:
    """Its position among those that wait in the same queue."""
    order = reading.run(
        "story_queue",
        cluster=told.cluster,
        stage=found.stage,
        demand_kind=found.wait["demand_kind"],
        queue=found.wait["queue"],
        at_us=told.at,
    )
    place = next((n for n, row in enumerate(order) if row["demand_id"] == found.demand["demand_id"]), None)
    found.pending_count = len(order)
    if place is not None:
        found.position = place + 1
        found.ahead = () if told.confined else [f"{row['namespace']}/{row['name']}" for row in order[:place]]


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
    if wait["unknown_reason"] is not None or standing.is_heard_of:
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
