"""What would have to change for a request to be served, from the numbers of the last refusal and of the queue's quota.

``story`` calls ``standing_word`` and ``changes``. Nothing here guesses: each sentence comes from a field that the decider's grammar yielded, or
from the quota as it was last seen. The trick to know: a word is evidence and no truth. Where the queue's whole capacity is known and smaller
than what is asked for, the request never fits, whatever the scheduler says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from steelyard.answers.reading import Record
from steelyard.answers.story_lines import amount, cut
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant

REFUSALS: Final = frozenset({"not_now", "never_fits", "misconfigured", "rejected", "deactivated"})
_CARDS: Final = frozenset({"gpu", "pgpu", "npu"})
_TAINT: Final = re.compile(r"untolerated taint\(?s?\)?\s*(\{[^{}]{0,300}\})?")
_INSUFFICIENT: Final = "Insufficient "


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that would let it in. ``have``, ``need``: amounts in the resource's own unit, None where the sentence says it all."""

    text: str
    resource: str | None = None
    have_milli: int | None = None
    need_milli: int | None = None
    basis: str = ""


def standing_word(words: Sequence[Record], since: Instant) -> Record | None:
    """The last refusal of the wait that began at ``since``; None where nobody said anything yet."""
    said = [word for word in words if word["verdict"] in REFUSALS and word["last_us"] >= since and not _is_echo(word)]
    return max(said, key=lambda word: (word["last_us"], word["verdict"] == "never_fits"), default=None)


def _is_echo(word: Record) -> bool:
    """What a controller says of an eviction that came before is no refusal."""
    return bool(_details(word).get("after") == "evicted")


def fit_of(word: Record | None, gpu_milli: int | None, quota: Sequence[Record]) -> tuple[str | None, str | None]:
    """(``never_fits``, ``not_now`` or None, what says so). The quota's own numbers win over the word."""
    if _above_capacity(gpu_milli, quota) is not None:
        return "never_fits", "quota"
    if word is None or word["verdict"] not in ("never_fits", "not_now"):
        return None, None
    return word["verdict"], "decision"


def _above_capacity(gpu_milli: int | None, quota: Sequence[Record]) -> Record | None:
    """The quota row of a whole-card resource whose capacity, over all flavors, is less than what is asked for; None where it is not, or not known."""
    cards: dict[str, list[Record]] = {}
    for row in quota:
        if row["resource"].removeprefix("requests.").rpartition("/")[2] in _CARDS:
            cards.setdefault(row["resource"], []).append(row)
    if len(cards) != 1 or gpu_milli is None:
        return None
    (rows,) = cards.values()
    capacities = [row["max_capacity_milli"] for row in rows]
    if not capacities or None in capacities or gpu_milli <= sum(capacities):
        return None
    return {**rows[0], "max_capacity_milli": sum(capacities), "flavor": rows[0]["flavor"] if len(rows) == 1 else None}


def changes(
    word: Record | None, demand: Record, stage: str, quota: Sequence[Record], queue: Record | None
) -> list[Change]:
    """What would have to change, the most telling first; empty where nobody said what is short."""
    found = list(_of_queue(queue))
    above = _above_capacity(demand["gpu_milli"], quota)
    told = word is not None and word["verdict"] == "never_fits" and word["limit_milli"] is not None
    if above is not None and not told:
        limit, resource, flavor = above["max_capacity_milli"], above["resource"], above["flavor"]
        found += _less_or_more(demand["gpu_milli"], limit, resource, flavor, demand["queue"], _("the queue's quota"))
    if word is None:
        return found
    basis = _("{by}: {verdict}").format(by=word["decided_by"] or "?", verdict=word["rule"] or word["verdict"])
    if word["verdict"] == "never_fits" and word["limit_milli"] is not None:
        asked = word["asked_milli"] if word["asked_milli"] is not None else demand["gpu_milli"]
        found += _less_or_more(asked, word["limit_milli"], word["resource"], word["flavor"], demand["queue"], basis)
    elif word["missing_milli"] is not None:
        found.append(_missing(word, demand, basis))
    found += _leaked(quota, word)
    found += [Change(text, basis=basis) for text in _of_details(_details(word), demand)]
    if stage == "gate" and not found:
        found.append(
            Change(
                _("whoever set its scheduling gate has to take it away: Kueue does so when it admits it"), basis=basis
            )
        )
    if not found and word["message"]:
        found.append(Change(_("what its decider names: {message}").format(message=cut(word["message"])), basis=basis))
    return found


def _of_queue(queue: Record | None) -> Iterator[Change]:
    if queue is None:
        return
    if queue["stop_policy"] not in (None, "", "None"):
        yield Change(
            _("its queue is stopped ({policy}): somebody has to start it again").format(policy=queue["stop_policy"]),
            basis=_("the queue"),
        )
    elif queue["state"] in ("inactive", "closing", "closed"):
        message = f": {cut(queue['state_message'])}" if queue["state_message"] else ""
        yield Change(
            _("its queue is {state}{message}").format(state=queue["state"], message=message), basis=_("the queue")
        )


def _less_or_more(
    asked: int | None, limit: int, resource: str | None, flavor: str | None, queue: str | None, basis: str
) -> list[Change]:
    where = _(" of flavor {flavor}").format(flavor=flavor) if flavor else ""
    what = resource or _("GPUs")
    less = _("ask for at most {limit} {what}{where} instead of {asked}").format(
        limit=amount(limit), asked=amount(asked), what=what, where=where
    )
    more = _(
        "or raise what queue {queue} may have in all (its quota and what it may borrow) from {limit} to {asked} {what}{where}"
    ).format(queue=queue or "?", limit=amount(limit), asked=amount(asked), what=what, where=where)
    return [Change(less, resource, asked, limit, basis), Change(more, resource, limit, asked, basis)]


def _missing(word: Record, demand: Record, basis: str) -> Change:
    where = _(" of flavor {flavor}").format(flavor=word["flavor"]) if word["flavor"] else ""
    text = _("{missing} more {what}{where} must become free for queue {queue}, its own or borrowed").format(
        missing=amount(word["missing_milli"]),
        what=word["resource"] or _("GPUs"),
        where=where,
        queue=demand["queue"] or "?",
    )
    return Change(text, word["resource"], None, word["missing_milli"], basis)


def _leaked(quota: Sequence[Record], word: Record) -> Iterator[Change]:
    for row in quota:
        if row["leaked_milli"] and word["cause"] == "quota" and word["flavor"] in (None, row["flavor"]):
            text = _(
                "{leaked} {what} of its queue's quota are kept by requests without a live pod: release them"
            ).format(leaked=amount(row["leaked_milli"]), what=row["resource"])
            yield Change(text, row["resource"], None, row["leaked_milli"], _("ledger quota"))


def _of_details(details: Mapping[str, Any], demand: Record) -> Iterator[str]:
    """Sentences from what the grammars yield."""
    reasons = details.get("reasons")
    for reason, nodes in sorted(reasons.items()) if isinstance(reasons, dict) else ():
        yield _of_reason(str(reason), nodes, demand)
    pod_sets = details.get("pod_sets")
    for pod_set, said in sorted(pod_sets.items()) if isinstance(pod_sets, dict) else ():
        for text in said if isinstance(said, list) else ():
            if isinstance(text, str) and "quota" not in text:
                yield _("pod set {pod_set}: {text}").format(pod_set=pod_set, text=cut(text))
    if isinstance(details.get("pending_preemptions_count"), int):
        yield _("nothing: {count} requests are being preempted for it").format(
            count=details["pending_preemptions_count"]
        )
    if details.get("queue_name"):
        yield _("{kind} {name} {state}: make it, or name another").format(
            kind=details.get("queue_kind", _("queue")),
            name=details["queue_name"],
            state=details.get("queue_state", "?"),
        )
    for check in details.get("checks") or () if isinstance(details.get("checks"), list) else ():
        if isinstance(check, dict):
            yield _("admission check {name} is {state}: {message}").format(
                name=check.get("name", "?"),
                state=check.get("state", "?"),
                message=cut(str(check.get("message") or "-")),
            )


def _of_reason(reason: str, nodes: object, demand: Record) -> str:
    """What one of a scheduler's reasons asks for, and on how many nodes it stands in the way."""
    taint = _TAINT.search(reason)
    if reason.startswith(_INSUFFICIENT):
        asked = _(" (it asks for {asked} GPU)").format(asked=amount(demand["gpu_milli"])) if "gpu" in reason else ""
        text = _("enough {resource} must become free on a node{asked}").format(
            resource=reason.removeprefix(_INSUFFICIENT), asked=asked
        )
    elif taint is not None:
        text = _("tolerate or remove taint {taint}").format(taint=taint.group(1) or _("(not named)"))
    elif "unschedulable" in reason:
        text = _("uncordon the nodes")
    elif "affinity" in reason or "selector" in reason:
        text = _("match its node selector or affinity: {reason}").format(reason=cut(reason))
    else:
        text = cut(reason)
    return _("{text}; in the way on {nodes} nodes").format(text=text, nodes=nodes)


def _details(word: Record) -> dict[str, Any]:
    try:
        found = json.loads(word["details"] or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
