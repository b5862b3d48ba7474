"""What a scheduler says about a pod that it could place nowhere: ``0/5 nodes are available: 1 ..., 4 Insufficient nvidia.com/gpu. preemption: ...``.

The same sentence comes from the native scheduler (events, ``PodScheduled``), from HAMi's (it is an extender of that one) and, with ``unavailable``,
from Volcano. The trick to know: a node may give several reasons, so the counts need not sum to the number of nodes; a taint and an extender's
count of cards have commas of their own, so reasons are split only where a comma is followed by a number of nodes.

Sceptic's command: ``kubectl get events -A --field-selector reason=FailedScheduling``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

MESSAGE_CHARACTERS_MAX: Final = 65_536
REASONS_MAX: Final = 1_000

QUOTA: Final = "quota"
CAPACITY: Final = "capacity"
FRAGMENTATION: Final = "fragmentation"
GANG: Final = "gang"
PLACEMENT: Final = "placement"
SCHEDULER: Final = "scheduler"
OTHER: Final = "other"

_CAUSES_BY_WEIGHT: Final = (QUOTA, FRAGMENTATION, CAPACITY, GANG, PLACEMENT, SCHEDULER, OTHER)

_HEAD: Final = re.compile(r"(\d{1,9})/(\d{1,9}) nodes are (?:un)?available:?[ ]?")
_SPLIT: Final = re.compile(r", (?=\d{1,9} )")
_PART: Final = re.compile(r"(\d{1,9}) (\S.*)", re.DOTALL)
_AFTERWORDS: Final = (
    ("no new claims to deallocate", "no_new_claims_to_deallocate"),
    ("still not schedulable", "still_not_schedulable"),
    ("deallocation of ResourceClaim completed", "claim_deallocated"),
)
_PREEMPTION: Final = "preemption: "

CARD_CAUSES: Final[Mapping[str, str]] = {
    "ResourceQuotaNotFit": QUOTA,
    "CardInsufficientMemory": CAPACITY,
    "CardInsufficientCore": CAPACITY,
    "CardComputeUnitsExhausted": CAPACITY,
    "CardTimeSlicingExhausted": CAPACITY,
    "NodeInsufficientDevice": CAPACITY,
    "AllocatedCardsInsufficientRequest": FRAGMENTATION,
    "ExclusiveDeviceAllocateConflict": FRAGMENTATION,
    "CardMigTopologyInfeasible": FRAGMENTATION,
    "NumaNotFit": PLACEMENT,
    "CardTypeMismatch": PLACEMENT,
    "CardUuidMismatch": PLACEMENT,
    "CardNotFoundCustomFilterRule": PLACEMENT,
    "CardNotHealth": PLACEMENT,
    "CardCordoned": PLACEMENT,
    "NodeUnfitPod": PLACEMENT,
    "ModeNotFit": PLACEMENT,
}
"""HAMi's words for why a card or node does not do. Of ``AllocatedCardsInsufficientRequest`` the cards fit, but too few of them on one node."""

_WORDS: Final = (
    ("Insufficient ", CAPACITY),
    ("Too many pods", CAPACITY),
    ("cannot allocate all claims", CAPACITY),
    ("exceed max volume count", CAPACITY),
    ("resource in cluster is overused", CAPACITY),
    ("queue resource quota insufficient", QUOTA),
    ("ElasticQuota", QUOTA),
    ("PodGroup", GANG),
    ("pod group", GANG),
    ("gang", GANG),
    ("untolerated taint", PLACEMENT),
    ("taint", PLACEMENT),
    ("affinity", PLACEMENT),
    ("were unschedulable", PLACEMENT),
    ("topology", PLACEMENT),
    ("Topology", PLACEMENT),
    ("cannot align", PLACEMENT),
    ("free ports", PLACEMENT),
    ("node(s) didn't match", PLACEMENT),
    ("were not ready", PLACEMENT),
    ("volume", OTHER),
)
_INSUFFICIENT: Final = re.compile(r"[Ii]nsufficient ([A-Za-z0-9./_-]{1,316})")


@dataclass(frozen=True, slots=True)
class SchedulingMessage:
    """What the sentence tells. nodes_total_count: how many nodes were looked at, None where it does not say. reasons: nodes by reason, as
    written. prefilter: what ruled all nodes out at once. preemption_reasons: nodes by why evicting others would not help; preemption: the same
    where it is no count of nodes. afterwords: what else was tried. unread: it is no such sentence."""

    nodes_total_count: int | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)
    prefilter: str | None = None
    preemption_reasons: Mapping[str, int] = field(default_factory=dict)
    preemption: str | None = None
    afterwords: tuple[str, ...] = ()
    unread: bool = False

    @property
    def cause(self) -> str:
        """The weightiest cause among the reasons: a node that lacks cards might do later, one with a taint will not."""
        texts = [*self.reasons, *([self.prefilter] if self.prefilter else [])]
        return weightiest(cause_of(text) for text in texts)

    @property
    def rule(self) -> str | None:
        """The words of that cause that most nodes gave, the first by name among equals."""
        cause = self.cause
        told = [(-count, text) for text, count in self.reasons.items() if cause_of(text) == cause]
        return min(told)[1][:316] if told else self.prefilter[:316] if self.prefilter else None

    @property
    def resource(self) -> str | None:
        """The resource that is short, where one is named: an extended one before ``cpu`` and ``memory``."""
        found = [match.group(1).rstrip(".") for text in self.reasons if (match := _INSUFFICIENT.search(text))]
        return next((name for name in found if "/" in name), found[0] if found else None)

    def details(self) -> dict[str, object]:
        """What a decision keeps of it; no entry for what it does not tell."""
        found: dict[str, object] = {
            "reasons": dict(self.reasons),
            "prefilter": self.prefilter,
            "preemption_reasons": dict(self.preemption_reasons),
            "preemption": self.preemption,
            **dict.fromkeys(self.afterwords, True),
            "unread": self.unread,
        }
        return {key: value for key, value in found.items() if value}


def weightiest(causes: Iterable[str]) -> str:
    """The cause that decides where several are told; ``other`` where none is."""
    found = set(causes)
    return next((cause for cause in _CAUSES_BY_WEIGHT if cause in found), OTHER)


def cause_of(reason: str) -> str:
    """The cause behind one reason in a scheduler's words; ``other`` for words that are not known."""
    cards = [cause for word, cause in CARD_CAUSES.items() if word in reason]
    if cards:
        return weightiest(cards)
    return next((cause for word, cause in _WORDS if word in reason), OTHER)


def insufficient_resource(text: str) -> str | None:
    """The resource that ``insufficient X`` names."""
    match = _INSUFFICIENT.search(text[:MESSAGE_CHARACTERS_MAX])
    return match.group(1).rstrip(".") if match else None


def parse_scheduling_message(text: str) -> SchedulingMessage:
    """The sentence read by its grammar; ``unread`` where it is none. Linear in the length of the text."""
    text = text[:MESSAGE_CHARACTERS_MAX]
    head = _HEAD.search(text)
    if head is None:
        if text.startswith("no nodes available"):
            return SchedulingMessage(nodes_total_count=0, prefilter=text.strip())
        return SchedulingMessage(unread=True)
    total = int(head.group(2))
    first, _, preempting = text[head.end() :].partition(_PREEMPTION)
    first = first.rstrip(" ,.")
    afterwords = []
    for words, name in _AFTERWORDS:
        if first.endswith(words):
            first = first[: -len(words)].rstrip(" ,.")
            afterwords.append(name)
    reasons = _counted(first)
    preemption_reasons, preemption = _preemption(preempting)
    return SchedulingMessage(
        nodes_total_count=total,
        reasons=reasons or {},
        prefilter=first if reasons is None and first else None,
        preemption_reasons=preemption_reasons,
        preemption=preemption,
        afterwords=tuple(afterwords),
    )


def _preemption(text: str) -> tuple[Mapping[str, int], str | None]:
    text = text.strip()
    head = _HEAD.match(text)
    if head is None:
        return {}, text.rstrip(" .") or None
    rest = text[head.end() :].rstrip(" ,.")
    counted = _counted(rest)
    return (counted, None) if counted is not None else ({}, rest or None)


def _counted(text: str) -> dict[str, int] | None:
    """Nodes by reason; None where the text is no such list."""
    if _PART.match(text) is None:
        return None
    counts: dict[str, int] = {}
    for part in _SPLIT.split(text, REASONS_MAX)[:REASONS_MAX]:
        match = _PART.match(part)
        if match is not None:
            reason = match.group(2).rstrip(" .")
            counts[reason] = counts.get(reason, 0) + int(match.group(1))
    return counts
