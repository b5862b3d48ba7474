"""What HAMi's scheduler says in events: where a pod went, why no node fitted, why a bind failed.

``parse_scheduling_event`` reads one message, ``merge_outcomes`` joins those of one pod (from 2.7 each reason comes as an event of its
own). The trick to know: counts of different reasons never add up, because one node may stand under several; only the sentence
"no available node, N nodes do not meet" tells how many nodes were looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

SCHEDULED: Final = "scheduled"
REFUSED: Final = "refused"
BIND_FAILED: Final = "bind_failed"
NODE_FINDING: Final = "finding"

MESSAGE_CHARACTERS_MAX: Final = 65_536
_NODES_MAX: Final = 5_000
_SEPARATOR: Final = re.compile(r"[,\s]+")
_FIT: Final = re.compile(
    r"find fit node\(([^()]{1,253})\)(?:, ([0-9]{1,7}) nodes? not fit)?(?:, ([0-9]{1,7}) nodes? fit\(([^()]*)\))?"
)
_FILTERED: Final = re.compile(r"Successfully filtered to following nodes: \[([^\[\]]{0,8192})\]")
_BOUND: Final = re.compile(r"Successfully binding node \[([^\[\]]{1,253})\]")
_REASON: Final = re.compile(r"([0-9]{1,7}) nodes? ([A-Z][A-Za-z0-9]{1,63})\(([^()]*)\)")
_NONE_OF: Final = re.compile(r"no available node, ([0-9]{1,7}) nodes? do not meet")
_OLD_NONE: Final = "no available node, all node scores do not meet"
_NO_RESOURCE: Final = "does not request any resource"
_LOCKED: Final = re.compile(
    r"node ([^\s]{1,253}) (?:has been locked within ([0-9]{1,5})m([0-9]{1,2}(?:\.[0-9]{1,9})?)s|is locked)"
)
_UNLOCK_WAIT: Final = re.compile(r"timed out after .{0,64}waiting for node ([^\s]{1,253}) to be unlocked")
_NODE_GONE: Final = re.compile(r"failed to get node ([^\s]{1,253})")
_CAUSES: Final = {"ResourceQuotaNotFit": "quota"}
_NODE_FINDINGS: Final = frozenset({"AsymmetricGPUP2PLink"})
_REASONS: Final = frozenset({"FilteringSucceed", "FilteringFailed", "BindingSucceed", "BindingFailed"})


@dataclass(frozen=True, slots=True)
class SchedulingOutcome:
    """What one or more messages about one pod say. ``outcome``: scheduled, refused, bind_failed, or finding (about a node).

    node: chosen or refused one. fit_nodes: by falling score where scores are given, else as listed. reasons: nodes by reason code, as
    the messages list them. nodes_total_count: how many nodes were looked at, None where no message says it. grammar: the releases
    that write so, where that can be told. waiting_cause: quota or scheduler where the reason settles it.
    """

    outcome: str
    node: str | None = None
    fit_nodes: tuple[str, ...] = ()
    not_fit_nodes_count: int | None = None
    nodes_total_count: int | None = None
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    retryable: bool | None = None
    lock_expiry_seconds: int | None = None
    waiting_cause: str | None = None
    grammar: str | None = None
    finding: str | None = None
    message_unread: bool = False

    @property
    def nodes_without_reason_count(self) -> int | None:
        """Nodes that were looked at and stand under no reason; None where the number of nodes is not known."""
        if self.nodes_total_count is None:
            return None
        named = {node for nodes in self.reasons.values() for node in nodes}
        return max(0, self.nodes_total_count - len(named))


def parse_scheduling_event(reason: str, message: str, component: str) -> SchedulingOutcome | None:
    """The outcome that one event tells; None where it is none of HAMi's (judged by reason; the scheduler's name is configurable) or noise.

    component: who sent it, needed for reasons that others use too. A message of a HAMi reason that fits no known sentence comes
    back with ``message_unread``: the outcome is certain, the rest is not.
    """
    text = message[:MESSAGE_CHARACTERS_MAX]
    if reason in _NODE_FINDINGS and component.startswith("hami"):
        return SchedulingOutcome(NODE_FINDING, finding=reason)
    if reason not in _REASONS:
        return None
    if reason == "FilteringSucceed":
        return _filtered(text)
    if reason == "BindingSucceed":
        bound = _BOUND.search(text)
        return SchedulingOutcome(SCHEDULED, node=bound.group(1) if bound else None, message_unread=bound is None)
    return _bind_failed(text) if reason == "BindingFailed" else _refused(text)


def merge_outcomes(outcomes: Iterable[SchedulingOutcome]) -> SchedulingOutcome | None:
    """The outcomes of one pod's messages, oldest first, as one: the last kind of outcome wins, what its messages say is joined."""
    merged: SchedulingOutcome | None = None
    for each in outcomes:
        if merged is None or merged.outcome != each.outcome:
            merged = each
            continue
        reasons = {code: tuple(nodes) for code, nodes in merged.reasons.items()}
        for code, nodes in each.reasons.items():
            reasons[code] = tuple(dict.fromkeys((*reasons.get(code, ()), *nodes)))
        merged = SchedulingOutcome(
            outcome=each.outcome,
            node=each.node or merged.node,
            fit_nodes=each.fit_nodes or merged.fit_nodes,
            not_fit_nodes_count=_later(each.not_fit_nodes_count, merged.not_fit_nodes_count),
            nodes_total_count=_later(each.nodes_total_count, merged.nodes_total_count),
            reasons=reasons,
            retryable=each.retryable if each.retryable is not None else merged.retryable,
            lock_expiry_seconds=_later(each.lock_expiry_seconds, merged.lock_expiry_seconds),
            waiting_cause=each.waiting_cause or merged.waiting_cause,
            grammar=each.grammar or merged.grammar,
            finding=each.finding or merged.finding,
            message_unread=each.message_unread or merged.message_unread,
        )
    return merged


def _later(new: int | None, old: int | None) -> int | None:
    return new if new is not None else old


def _nodes(text: str) -> tuple[str, ...]:
    return tuple(part for part in _SEPARATOR.split(text.strip(), _NODES_MAX)[:_NODES_MAX] if part)


def _filtered(text: str) -> SchedulingOutcome:
    fit = _FIT.search(text)
    if fit is not None:
        scored = [part.rpartition(":") for part in _nodes(fit.group(4) or "")]
        nodes = sorted(
            ((name or score, _score(score) if name else 0.0) for name, _, score in scored), key=lambda pair: -pair[1]
        )
        return SchedulingOutcome(
            SCHEDULED,
            node=fit.group(1),
            fit_nodes=tuple(name for name, _ in nodes),
            not_fit_nodes_count=int(fit.group(2)) if fit.group(2) else None,
            grammar=">=2.6",
        )
    filtered = _FILTERED.search(text)
    nodes_left = _nodes(filtered.group(1)) if filtered else ()
    return SchedulingOutcome(
        SCHEDULED,
        node=nodes_left[0] if len(nodes_left) == 1 else None,
        fit_nodes=nodes_left,
        grammar="<=2.5" if filtered else None,
        message_unread=filtered is None,
    )


def _score(text: str) -> float:
    return float(text) if re.fullmatch(r"-?[0-9]{1,12}(\.[0-9]{1,12})?", text) else 0.0


def _refused(text: str) -> SchedulingOutcome | None:
    if _NO_RESOURCE in text:
        return None
    if _OLD_NONE in text:
        return SchedulingOutcome(REFUSED, grammar="<=2.5")
    total = _NONE_OF.search(text)
    reasons = {match.group(2): _nodes(match.group(3)) for match in _REASON.finditer(text)}
    return SchedulingOutcome(
        REFUSED,
        nodes_total_count=int(total.group(1)) if total else None,
        reasons=reasons,
        waiting_cause=next((_CAUSES[code] for code in reasons if code in _CAUSES), None),
        grammar=">=2.7" if reasons else ">=2.6" if total else None,
        message_unread=not reasons and total is None,
    )


def _bind_failed(text: str) -> SchedulingOutcome:
    locked = _LOCKED.search(text)
    if locked is not None:
        expiry = int(locked.group(2)) * 60 + int(float(locked.group(3))) if locked.group(2) else None
        return SchedulingOutcome(
            BIND_FAILED, node=locked.group(1), retryable=True, lock_expiry_seconds=expiry, waiting_cause="scheduler"
        )
    waited = _UNLOCK_WAIT.search(text)
    if waited is not None:
        return SchedulingOutcome(BIND_FAILED, node=waited.group(1), retryable=True, waiting_cause="scheduler")
    gone = _NODE_GONE.search(text)
    return SchedulingOutcome(
        BIND_FAILED,
        node=gone.group(1) if gone else None,
        retryable=False if gone else None,
        message_unread=gone is None,
    )
