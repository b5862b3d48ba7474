"""What no single object of Volcano's shows: pod groups that hold a queue's quota without a pod, and counts that nobody keeps.

``app`` gives ``VolcanoWords`` each fact that the readers of this folder made, and each pod; ``findings`` then says what does not agree. The trick to
know: a pod group whose owner was scaled to nothing stays ``Inqueue`` and its ``minResources`` stay taken from the queue, so others wait while
a dashboard shows room.

Sceptic's command: ``kubectl get podgroups.scheduling.volcano.sh -A | grep Inqueue``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.facts.finding import Finding
from steelyard.facts.gang import Gang
from steelyard.facts.queue import Queue
from steelyard.primitives.instant import AT_OBSERVATION, MINUTE_US, SECOND_US, Instant, format_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView
from steelyard.sources.shared.resource_amounts import is_accelerator
from steelyard.sources.volcano.gang_message import SOURCE
from steelyard.sources.volcano.pods import group_of_pod

GRACE_US: Final = 10 * MINUTE_US
"""A pod group that was let in has its pods made within seconds; this long it may take."""

KEPT_MAX: Final = 200_000
PASSING: Final = frozenset({"volcano_queue_counters_stale"})
"""Findings that may be true for a moment, while a status catches up."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class _Group(NamedTuple):
    """Of a pod group what the comparisons need."""

    name: tuple[str, str]
    queue: str
    phase: str
    since: Instant | None
    gpu_milli: int | None
    demand: str


@dataclass(slots=True)
class VolcanoWords:
    """What was seen of Volcano's words so far, the latest sighting of each, by uid."""

    _groups: dict[str, _Group] = field(default_factory=dict)
    _queues: dict[str, Queue] = field(default_factory=dict)
    _pods: dict[str, tuple[str, str]] = field(default_factory=dict)
    _spoken: dict[str, Instant] = field(default_factory=dict)
    _latest: Instant = AT_OBSERVATION

    def note(self, fact: Fact) -> bool:
        """Keep of a fact of Volcano's what the comparisons need, and say whether anything was kept; others are passed over."""
        if fact.source != SOURCE:
            return False
        self._latest = max(self._latest, fact.occurred_at)
        if isinstance(fact, Gang) and fact.object_kind == "PodGroup":
            name = fact.namespace, fact.object_name
            group = _Group(name, fact.queue or "", fact.phase, fact.created_at, fact.gpu_milli, fact.demand)
            return _keep(self._groups, fact.natural_key, group)
        if isinstance(fact, Queue):
            return _keep(self._queues, fact.natural_key, fact)
        if isinstance(fact, Decision) and fact.evidence == "condition" and fact.subject_uid is not None:
            _keep(
                self._spoken,
                fact.subject_uid,
                max(fact.occurred_at, self._spoken.get(fact.subject_uid, fact.occurred_at)),
            )
        return False

    def note_pod(self, view: PodView) -> bool:
        """Keep that a pod group has a pod; a pod that has ended is none of its any more."""
        group = group_of_pod(view)
        if group is None or view.phase in _ENDED:
            self._pods.pop(view.uid, None)
            return False
        return _keep(self._pods, view.uid, (view.namespace, group))

    def forget(self, uid: str) -> None:
        """An object that is gone."""
        self._groups.pop(uid, None)
        self._queues.pop(uid, None)
        self._pods.pop(uid, None)
        self._spoken.pop(uid, None)

    def findings(self, ctx: ReadContext, *, pods_listed: bool) -> Iterator[Finding]:
        """``stale_inqueue_podgroup`` (where all pods were listed, so that none can be missed) and ``volcano_queue_counters_stale``.

        An age is as of the observation; where a dump does not say when that was, as of the latest that Volcano said, so at least that.
        """
        known = ctx.observed_at != AT_OBSERVATION
        now = ctx.observed_at if known else self._latest
        if pods_listed and len(self._pods) < KEPT_MAX:
            members = Counter(self._pods.values())
            for uid, group in self._groups.items():
                since = max(self._spoken.get(uid, AT_OBSERVATION), group.since or AT_OBSERVATION)
                if group.phase != "Inqueue" or members[group.name] or since == AT_OBSERVATION:
                    continue
                if now - since >= GRACE_US:
                    yield _stale(group, since, now, known, ctx)
        yield from self._counters(ctx)

    def _counters(self, ctx: ReadContext) -> Iterator[Finding]:
        """A queue that claims fewer pod groups than there are; a part of them may be in another dump, so that more is no contradiction."""
        counted = Counter((group.queue, group.phase) for group in self._groups.values())
        for queue in self._queues.values():
            claims = {
                "Pending": queue.pending_claimed,
                "Inqueue": queue.reserving_claimed,
                "Running": queue.admitted_claimed,
            }
            wrong = {
                phase.lower(): {"claimed": claim, "counted": counted[queue.queue, phase]}
                for phase, claim in claims.items()
                if claim is not None and claim < counted[queue.queue, phase]
            }
            if wrong:
                yield ctx.finding(
                    SOURCE,
                    "volcano_queue_counters_stale",
                    f"queue {queue.queue}",
                    "the queue's status counts fewer pod groups than there are: the objects are counted, the status is not believed",
                    severity="info",
                    evidence=wrong,
                )


def _keep(into: dict[str, Any], key: str, row: object) -> bool:
    if key not in into and len(into) >= KEPT_MAX:
        return False
    into[key] = row
    return True


def _stale(group: _Group, since: Instant, now: Instant, known: bool, ctx: ReadContext) -> Finding:
    demand = msgspec.json.decode(group.demand, type=dict[str, int])
    return ctx.finding(
        SOURCE,
        "stale_inqueue_podgroup",
        f"podgroup {group.name[0]}/{group.name[1]}",
        "the pod group was let into its queue and has no pod: what it asks for stays taken from the queue",
        evidence={
            "queue": group.queue,
            "gpu_milli": group.gpu_milli,
            "reserved_milli": {key: milli for key, milli in demand.items() if is_accelerator(key)},
            "pods_count": 0,
            "since_utc": format_instant(since),
            "age_seconds" if known else "age_seconds_at_least": (now - since) // SECOND_US,
        },
    )
