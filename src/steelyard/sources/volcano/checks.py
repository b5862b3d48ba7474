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
from typing import Final, NamedTuple

import msgspec

from steelyard.facts.base import Fact
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

    def __bool__(self) -> bool:
        return bool(self._groups)

    def note(self, fact: Fact) -> None:
        """Keep of a fact of Volcano's what the comparisons need; others are passed over."""
        if fact.source != SOURCE:
            return
        if isinstance(fact, Gang) and fact.object_kind == "PodGroup":
            if fact.natural_key in self._groups or len(self._groups) < KEPT_MAX:
                name = fact.namespace, fact.object_name
                self._groups[fact.natural_key] = _Group(
                    name, fact.queue or "", fact.phase, fact.created_at, fact.gpu_milli, fact.demand
                )
        elif isinstance(fact, Queue) and (fact.natural_key in self._queues or len(self._queues) < KEPT_MAX):
            self._queues[fact.natural_key] = fact

    def note_pod(self, view: PodView) -> None:
        """Keep that a pod group has a pod; a pod that has ended is none of its any more."""
        group = group_of_pod(view)
        if group is None or view.phase in _ENDED:
            self._pods.pop(view.uid, None)
        elif view.uid in self._pods or len(self._pods) < KEPT_MAX:
            self._pods[view.uid] = (view.namespace, group)

    def forget(self, uid: str) -> None:
        """An object that is gone."""
        self._groups.pop(uid, None)
        self._queues.pop(uid, None)
        self._pods.pop(uid, None)

    def findings(self, ctx: ReadContext, *, pods_listed: bool, now: Instant | None = None) -> Iterator[Finding]:
        """``stale_inqueue_podgroup`` (where all pods were listed, so that none can be missed) and ``volcano_queue_counters_stale``.

        now: as of when an age is told, else as of the observation; where neither is known, since when alone is told.
        """
        if pods_listed and len(self._pods) < KEPT_MAX:
            members = Counter(self._pods.values())
            for group in self._groups.values():
                if group.phase == "Inqueue" and not members[group.name]:
                    yield from _stale(group, ctx, now)
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


def _stale(group: _Group, ctx: ReadContext, now: Instant | None) -> Iterator[Finding]:
    if now is None and ctx.observed_at != AT_OBSERVATION:
        now = ctx.observed_at
    age_us = now - group.since if now is not None and group.since is not None else None
    if age_us is not None and age_us < GRACE_US:
        return
    demand = msgspec.json.decode(group.demand, type=dict[str, int])
    yield ctx.finding(
        SOURCE,
        "stale_inqueue_podgroup",
        f"podgroup {group.name[0]}/{group.name[1]}",
        "the pod group was let into its queue and has no pod: what it asks for stays taken from the queue",
        evidence={
            "queue": group.queue,
            "gpu_milli": group.gpu_milli,
            "reserved_milli": {key: milli for key, milli in demand.items() if is_accelerator(key)},
            "pods_count": 0,
            "since_utc": format_instant(group.since) if group.since is not None else None,
            "age_seconds": age_us // SECOND_US if age_us is not None else None,
        },
    )
