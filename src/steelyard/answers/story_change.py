"""What would have to change for a request to be served, from the numbers of the last refusal and of the queue's quota.

``story`` calls ``standing_word`` and ``changes``. Nothing here guesses: each sentence comes from a field that the decider's grammar yielded, or
from the quota as it was last seen. The trick to know: a word is evidence and no truth. Where the queue's whole capacity is known and smaller
than what is asked for, the request never fits, whatever the scheduler says. Whoever is confined to a tenant gets what was parsed, and no
free text (``tenant_words``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from steelyard.answers.reading import Record
from steelyard.answers.story_lines import amount, cut
from steelyard.answers.tenant_words import decider_told, details_of, rule_told
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import Instant

REFUSALS: Final = frozenset({"not_now", "never_fits", "misconfigured", "rejected", "deactivated"})
_TAINT: Final = re.compile(r"untolerated taint\(?s?\)?\s*(\{[^{}]{0,300}\})?")
_INSUFFICIENT: Final = "Insufficient "
_KUEUE_GATE: Final = "kueue.x-k8s.io/admission"


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
    return bool(details_of(word).get("after") == "evicted")


def fit_of(word: Record | None, quota_fit: Record | None) -> tuple[str | None, str | None]:
    """(``never_fits``, ``not_now`` or None, what says so). ``quota_fit``: its row of ``dim.quota_fit``, as Q6 has it; it wins over the word."""
    if quota_fit is not None and quota_fit["fit"] is not None:
        return quota_fit["fit"], "quota"
    if word is None or word["verdict"] not in ("never_fits", "not_now"):
        return None, None
    return word["verdict"], "decision"


def limit_not_read(quota_fit: Record) -> str:
    """Why it is not known whether its queue can ever give what it asks for: which limits were written and cannot be read."""
    words = {
        "nominal": _("its quota"),
        "borrowing_limit": _("its borrowing limit"),
        "lending_limit": _("the lending limit of another queue of its cohort"),
        "capability": _("its capability, or that of the queue above it"),
    }
    return _(
        "whether its queue can ever give {asked} {what} is not known: {limits} cannot be read and has to be written anew"
    ).format(
        asked=amount(quota_fit["asked_milli"]),
        what=quota_fit["resource"],
        limits=", ".join(words.get(name, name) for name in quota_fit["unread"].split(",")),
    )


def beyond_all_nodes(row: Record) -> str | None:
    """What would have to change where no node, even an empty one, has what is asked for; None where one has, or it is not known.
    ``row``: what ``dim.node_fit`` has of the request."""
    if row["lacking"] is None:
        return None
    asked = f"{row['asked_count']} {row['fit_resource']}"
    if row["lacking"] == "model":
        return _("a node of model {model} must be added, or another model asked for: no node is of it").format(
            model=row["fit_model"]
        )
    if row["lacking"] == "memory":
        return _(
            "ask for less memory or fewer cards in one pod, or add such a node: it asks for {asked} of {memory} MiB each, and the"
            " most that any of {nodes} nodes has is {most}"
        ).format(asked=asked, memory=row["fit_memory_mib"], nodes=row["nodes_count"], most=row["most_count"])
    return _(
        "ask for fewer in one pod, or add such a node: it asks for {asked}, and the most that any of {nodes} nodes has, even an empty"
        " one, is {most}"
    ).format(asked=asked, nodes=row["nodes_count"], most=row["most_count"])


def changes(
    word: Record | None,
    demand: Record,
    stage: str,
    quota: Sequence[Record],
    queue: Record | None,
    *,
    confined: bool = False,
    quota_fit: Record | None = None,
) -> list[Change]:
    """What would have to change, the most telling first; empty where nobody said what is short.

    ``confined``: for a viewer of one tenant, without anything that may name somebody else, and without what others keep of the quota.
    """
    found = list(_of_queue(queue, confined))
    told = word is not None and word["verdict"] == "never_fits" and word["limit_milli"] is not None
    if quota_fit is not None and quota_fit["fit"] == "never_fits" and not told:
        asked, limit, resource = quota_fit["asked_milli"], quota_fit["limit_milli"], quota_fit["resource"]
        flavor = quota[0]["flavor"] if len(quota) == 1 else None
        found += _less_or_more(asked, limit, resource, flavor, demand["queue"], _("the queue's quota"))
        return found
    if quota_fit is not None and quota_fit["unread"] is not None:
        found.append(Change(limit_not_read(quota_fit), quota_fit["resource"], basis=_("the queue's quota")))
    if word is None:
        return found
    basis = basis_of(word, confined)
    if word["verdict"] == "never_fits" and word["limit_milli"] is not None:
        asked = word["asked_milli"] if word["asked_milli"] is not None else demand["gpu_milli"]
        found += _less_or_more(asked, word["limit_milli"], word["resource"], word["flavor"], demand["queue"], basis)
    elif word["missing_milli"] is not None:
        found.append(_missing(word, demand, basis))
    if not confined:
        found += _leaked(quota, word)
    found += [Change(text, basis=basis) for text in _of_details(details_of(word), demand, confined)]
    if stage == "gate" and not found:
        found.append(Change(_of_gate(word, demand), basis=basis))
    if not found and word["message"] and not confined:
        found.append(Change(_("what its decider names: {message}").format(message=cut(word["message"])), basis=basis))
    return found


def basis_of(word: Record, confined: bool = False) -> str:
    """Who said it, and by which rule."""
    rule = rule_told(word["rule"]) or word["verdict"]
    return _("{by}: {verdict}").format(by=decider_told(word["decided_by"], confined) or "?", verdict=rule)


def _of_gate(word: Record, demand: Record) -> str:
    if demand.get("demand_kind") == "pod" and word["rule"] == _KUEUE_GATE:
        return _(
            "Kueue has to make a Workload for it and admit that, and none was seen: look whether Kueue manages pods of {namespace} and "
            "whether {queue} is there; else take the gate and the label kueue.x-k8s.io/queue-name away"
        ).format(
            namespace=_named(_("namespace {name}"), demand.get("namespace"), _("its namespace")),
            queue=_named(
                _("LocalQueue {name}"),
                demand.get("local_queue") or demand["queue"],
                _("the LocalQueue that its label names (no source tells which)"),
            ),
        )
    return _("whoever set its scheduling gate has to take it away: Kueue does so when it admits it")


def _named(text: str, name: str | None, unnamed: str) -> str:
    """What is called by its name, or in words where no source tells that."""
    return text.format(name=name) if name else unnamed


def queue_called(name: str | None) -> str:
    """``queue gpus``, or what a request waits in where no source names it."""
    return _named(_("queue {name}"), name, _("its queue, which no source names"))


def _of_queue(queue: Record | None, confined: bool) -> Iterator[Change]:
    if queue is None:
        return
    if queue["stop_policy"] not in (None, "", "None"):
        yield Change(
            _("its queue is stopped ({policy}): somebody has to start it again").format(policy=queue["stop_policy"]),
            basis=_("the queue"),
        )
    elif queue["state"] in ("inactive", "closing", "closed"):
        message = f": {cut(queue['state_message'])}" if queue["state_message"] and not confined else ""
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
        "or raise what {queue} may have in all (its quota and what it may borrow) from {limit} to {asked} {what}{where}"
    ).format(queue=queue_called(queue), limit=amount(limit), asked=amount(asked), what=what, where=where)
    return [Change(less, resource, asked, limit, basis), Change(more, resource, limit, asked, basis)]


def _missing(word: Record, demand: Record, basis: str) -> Change:
    where = _(" of flavor {flavor}").format(flavor=word["flavor"]) if word["flavor"] else ""
    text = _("{missing} more {what}{where} must become free for {queue}, its own or borrowed").format(
        missing=amount(word["missing_milli"]),
        what=word["resource"] or _("GPUs"),
        where=where,
        queue=queue_called(demand["queue"]),
    )
    return Change(text, word["resource"], None, word["missing_milli"], basis)


def _leaked(quota: Sequence[Record], word: Record) -> Iterator[Change]:
    for row in quota:
        if row["leaked_milli"] and word["cause"] == "quota" and word["flavor"] in (None, row["flavor"]):
            text = _(
                "{leaked} {what} of its queue's quota are kept by requests without a live pod: release them"
            ).format(leaked=amount(row["leaked_milli"]), what=row["resource"])
            yield Change(text, row["resource"], None, row["leaked_milli"], _("ledger quota"))


def _of_details(details: Mapping[str, Any], demand: Record, confined: bool) -> Iterator[str]:
    """Sentences from what the grammars yield."""
    reasons = details.get("reasons")
    for reason, nodes in sorted(reasons.items()) if isinstance(reasons, dict) else ():
        known = rule_told(str(reason), confined)
        yield _of_reason(_("another reason") if known is None else known, nodes, demand)
    pod_sets = details.get("pod_sets")
    for pod_set, said in sorted(pod_sets.items()) if isinstance(pod_sets, dict) and not confined else ():
        for text in said if isinstance(said, list) else ():
            if isinstance(text, str) and "quota" not in text:
                yield _("pod set {pod_set}: {text}").format(pod_set=pod_set, text=cut(text))
    preempted = details.get("pending_preemptions_count")
    if isinstance(preempted, int):
        yield ngettext(
            "nothing: {count} request is being preempted for it",
            "nothing: {count} requests are being preempted for it",
            preempted,
        ).format(count=preempted)
    if details.get("queue_name"):
        yield _of_missing_queue(details, demand, confined)
    for check in details.get("checks") or () if isinstance(details.get("checks"), list) else ():
        if isinstance(check, dict):
            message = "-" if confined else cut(str(check.get("message") or "-"))
            yield _("admission check {name} is {state}: {message}").format(
                name=check.get("name", "?"), state=check.get("state", "?"), message=message
            )


def _of_missing_queue(details: Mapping[str, Any], demand: Record, confined: bool) -> str:
    """What would let a request in whose queue is not there, or does not serve."""
    kind, name, state = (str(details.get(f"queue_{part}") or _("(not named)")) for part in ("kind", "name", "state"))
    namespace = str(demand.get("namespace") or _("(not named)"))
    if kind == "ClusterQueue" and confined and name != demand["queue"]:
        name = _("(not named)")
    if kind == "LocalQueue" and state == "doesn't exist":
        return _(
            "make LocalQueue {name} in namespace {namespace}, or name another in its label kueue.x-k8s.io/queue-name"
        ).format(name=name, namespace=namespace)
    if state == "is stopped":
        return _("{kind} {name} is stopped: set its spec.stopPolicy to None, or name another").format(
            kind=kind, name=name
        )
    if state == "is inactive":
        return _("{kind} {name} is inactive: mend what its condition Active names, or name another").format(
            kind=kind, name=name
        )
    return _("{kind} {name} does not exist or is being deleted: make it, or name another").format(kind=kind, name=name)


def _of_reason(reason: str, nodes: object, demand: Record) -> str:
    """What one of a scheduler's reasons asks for, and on how many nodes it stands in the way."""
    taint = _TAINT.search(reason)
    if reason.startswith(_INSUFFICIENT):
        knows = "gpu" in reason and demand["gpu_milli"] is not None
        asked = _(" (it asks for {asked} GPU)").format(asked=amount(demand["gpu_milli"])) if knows else ""
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
    if not isinstance(nodes, int):
        return text
    return ngettext("{text}; in the way on {nodes} node", "{text}; in the way on {nodes} nodes", nodes).format(
        text=text, nodes=nodes
    )
