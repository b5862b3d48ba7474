"""What Volcano says of a gang that cannot start: ``2/4 tasks in gang unschedulable: pod group is not ready, ... Origin reason is ...``.

The trick to know: the second number is how many pods exist, so it is 0 while the queue lets none be made; what really stands in the way is the
*origin reason* at the end, which is either a queue's refusal or the scheduler's own sentence about the nodes.

Sceptic's command: ``kubectl get podgroup PG -o jsonpath='{.status.conditions}'``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from steelyard.sources.shared.scheduling_message import (
    CAPACITY,
    GANG,
    MESSAGE_CHARACTERS_MAX,
    QUOTA,
    SchedulingMessage,
    cause_of,
    insufficient_resource,
    parse_scheduling_message,
)

SOURCE: Final = "volcano"
_HEAD: Final = re.compile(r"(\d{1,9})/(\d{1,9}) tasks in gang unschedulable: ")
_ORIGIN: Final = "Origin reason is"
_COUNT: Final = re.compile(r"(\d{1,9}) ([A-Za-z]{1,40})")
_QUEUE_SHORT: Final = "queue resource quota insufficient"
_OVERUSED: Final = "resource in cluster is overused"
_NOT_ENOUGH: Final = frozenset({"NotEnoughTasks", "NotEnoughPodsOfTask"})


@dataclass(frozen=True, slots=True)
class GangMessage:
    """unready_count, tasks_count: of the first words. counts: pods by state and ``minAvailable``. task: the pod whose reason is told.
    scheduling: the scheduler's sentence about nodes, where there is one. origin: the last reason as written. unread: no known sentence."""

    unready_count: int | None = None
    tasks_count: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    task: str | None = None
    origin: str | None = None
    scheduling: SchedulingMessage | None = None
    unread: bool = False

    def cause(self, reason: str | None = None) -> str:
        """Why the gang waits: its queue's quota, the nodes' capacity or the placement on them, else that it is not whole (``gang``)."""
        if self.origin is not None and _QUEUE_SHORT in self.origin:
            return QUOTA
        if self.origin is not None and _OVERUSED in self.origin:
            return CAPACITY
        if self.scheduling is not None:
            return self.scheduling.cause
        if reason in _NOT_ENOUGH or not self.origin:
            return GANG
        return cause_of(self.origin)

    @property
    def rule(self) -> str | None:
        """The decider's own words for what stands in the way."""
        if self.scheduling is not None:
            return self.scheduling.rule
        for words in (_QUEUE_SHORT, _OVERUSED):
            if self.origin is not None and words in self.origin:
                return words
        return self.origin[:316] if self.origin else None

    @property
    def resource(self) -> str | None:
        """The resource that is short, where one is named."""
        if self.scheduling is not None:
            return self.scheduling.resource
        return insufficient_resource(self.origin or "")

    @property
    def nodes_count(self) -> int | None:
        """How many nodes were looked at."""
        return self.scheduling.nodes_total_count if self.scheduling is not None else None

    def details(self) -> dict[str, object]:
        """What a decision keeps of it."""
        found: dict[str, object] = {
            "unready_tasks_count": self.unready_count,
            "tasks_count": self.tasks_count,
            "counts": dict(self.counts) or None,
            "task": self.task,
            "unread": self.unread or None,
        }
        if self.scheduling is not None:
            found |= self.scheduling.details()
        return {key: value for key, value in found.items() if value is not None}


def parse_gang_message(text: str) -> GangMessage:
    """The sentence of a condition or event; a queue's refusal alone is one too. Linear in the length of the text."""
    text = text[:MESSAGE_CHARACTERS_MAX]
    head = _HEAD.match(text)
    if head is None:
        known = _QUEUE_SHORT in text or _OVERUSED in text
        scheduling = parse_scheduling_message(text)
        if not scheduling.unread:
            return GangMessage(origin=text.strip(), scheduling=scheduling)
        return GangMessage(origin=text.strip() if known else None, unread=not known)
    first, found, origin = text[head.end() :].partition(_ORIGIN)
    counts = {word: int(number) for number, word in _COUNT.findall(first.partition(";")[0][:1_024])}
    task, sentence, words = _origin(origin) if found else (None, None, None)
    return GangMessage(int(head.group(1)), int(head.group(2)), counts, task, words, sentence)


def _origin(text: str) -> tuple[str | None, SchedulingMessage | None, str | None]:
    """(task, the scheduler's sentence, the words): ``<task>: <sentence>`` or ``: <a job's refusal>``."""
    name, colon, words = text.partition(": ")
    if not colon:
        return None, None, text.strip(" .:") or None
    words = words.strip().rstrip(".")
    scheduling = parse_scheduling_message(words)
    return name.strip() or None, None if scheduling.unread else scheduling, words or None
