"""What happened to a request, line by line: the instant, what it was, how often, and which source tells of it.

``story`` sorts the lines by time. The trick to know: one happening is told by many sources, and the facts keep them all; here a step that
the object dates takes the decider's words in, and a refusal that repeats is one line with its count, first and last. Whoever is
confined to a tenant gets no free text, which may name somebody else's object: rules, counts and amounts are told, the happening is not left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from steelyard.answers.reading import Record
from steelyard.answers.tenant_words import decider_told, rule_told, words_told
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import SECOND_US, DurationUs, Instant

_SAME_US: Final = 2 * SECOND_US
_CHARACTERS_MAX: Final = 400
_OF_OTHERS: Final = re.compile("preempt|evict|reclaim", re.IGNORECASE)
"""Reasons of events whose words may name somebody else's object."""
_STEP_OF: Final = {
    "reserved": "reserved",
    "admitted": "admitted",
    "evicted": "evicted",
    "deactivated": "evicted",
    "requeued": "released",
    "scheduled": "scheduled",
    "bound": "scheduled",
}
"""Verdicts that tell of a step."""
_OF_DOOR: Final[Mapping[str, frozenset[str]]] = {
    "admission_check": frozenset({"rejected", "deactivated"}),
    "misconfigured": frozenset({"misconfigured"}),
}
"""Verdicts that tell the same as a refusal by the queue itself."""


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One happening. ``times`` None: as often as once, or not counted. ``last``: the last time, where it came again. ``rank``: the order
    among lines of one instant."""

    at: Instant
    event: str
    text: str
    source: str
    request: str
    times: int | None = None
    last: Instant | None = None
    rank: int = 0


def amount(milli: int | None) -> str:
    """Thousandths as people write them: ``24``, ``0.5``."""
    if milli is None:
        return "?"
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def length(us: DurationUs) -> str:
    """A length of time in its two largest units: ``2 h 30 min``."""
    seconds = us // SECOND_US
    for unit, size, below, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{seconds} s"


def lines_of_steps(
    steps: Sequence[Record],
    decisions: Sequence[Record],
    demands: Mapping[str, Record],
    demand_of: Mapping[tuple[str, str], str],
    confined: bool,
    at: Instant,
) -> tuple[list[StoryLine], set[int]]:
    """The lines of the steps until ``at``, and which decisions (by place) they took in. ``demands``: by id; ``demand_of``: (kind, uid or name).

    ``steps``: also those after it, since the end of a back-off is told beforehand.
    """
    backed_off = {
        (step["demand_id"], step["at_us"])
        for step, after in pairwise(sorted(steps, key=lambda step: (step["demand_id"], step["at_us"], step["step_no"])))
        if step["step"] == "released" and after["step"] == "backoff_until" and after["demand_id"] == step["demand_id"]
    }
    found, taken = [], set[int]()
    given_up: dict[str, bool] = {}
    for step in steps:
        if step["at_us"] > at:
            continue
        demand_id = step["demand_id"]
        near = words_near(step, decisions, demand_of)
        taken |= set(near)
        words = [decisions[place] for place in near]
        before = given_up.get(demand_id, False)
        if step["step"] == "evicted":
            given_up[demand_id] = bool(step["is_deactivation"])
        elif step["step"] in ("reserved", "admitted", "running"):
            given_up[demand_id] = False
        if step["step"] == "abandoned" and step["basis"] == "watch" and before:
            continue
        found.append(
            StoryLine(
                step["at_us"],
                "deactivated" if step["step"] == "evicted" and step["is_deactivation"] else step["step"],
                _step_text(step, demands[demand_id], words, confined, before, (demand_id, step["at_us"]) in backed_off),
                _step_source(step, words, confined),
                label_of(demands[demand_id]),
                rank=step["step_no"],
            )
        )
    return found, taken


def words_near(step: Record, decisions: Sequence[Record], demand_of: Mapping[tuple[str, str], str]) -> list[int]:
    """The places of the decisions that tell of this step."""
    verdicts = {verdict for verdict, name in _STEP_OF.items() if name == step["step"]}
    if step["step"] == "evicted" and step["is_deactivation"]:
        verdicts.add("rejected")
    return [
        place
        for place, word in enumerate(decisions)
        if word["verdict"] in verdicts
        and demand_of_word(word, demand_of) == step["demand_id"]
        and abs(word["first_us"] - step["at_us"]) <= _SAME_US
    ]


def demand_of_word(word: Record, demand_of: Mapping[tuple[str, str], str]) -> str | None:
    """Whose demand a decision is about."""
    by_name = f"{word['namespace'] or ''}/{word['subject_name']}"
    return demand_of.get((word["subject_kind"], word["subject_uid"] or "")) or demand_of.get(
        (word["subject_kind"], by_name)
    )


def label_of(demand: Record) -> str:
    """``namespace/name`` of a request."""
    return f"{demand['namespace']}/{demand['name']}"


def _asked(demand: Record) -> str:
    parts = (
        [_("asked for")]
        if demand["gpu_milli"] is None
        else [_("asked for {gpus} GPU").format(gpus=amount(demand["gpu_milli"]))]
    )
    if (demand["pods_count"] or 1) > 1:
        parts.append(
            ngettext("in {count} pod", "in {count} pods", demand["pods_count"]).format(count=demand["pods_count"])
        )
    if demand["local_queue"] or demand["queue"]:
        parts.append(_("in queue {queue}").format(queue=demand["local_queue"] or demand["queue"]))
    if demand["person"]:
        parts.append(_("by {person}").format(person=demand["person"]))
    return " ".join(parts)


def _step_text(
    step: Record, demand: Record, words: Sequence[Record], confined: bool, is_given_up: bool, is_backed_off: bool
) -> str:
    pod, node = step["pod"], step["node"]
    queue = next((word["queue"] for word in words if word["queue"]), None)
    texts = {
        "created": _asked(demand),
        "reserved": _("quota reserved in queue {queue}").format(queue=queue) if queue else _("quota reserved"),
        "admitted": _("admitted"),
        "evicted": _("evicted: it has to give its quota back"),
        "released": _("its quota is given back; it is deactivated and does not wait")
        if is_given_up
        else _("its quota is given back; it waits for the end of its back-off")
        if is_backed_off
        else _("its quota is given back; it waits anew"),
        "backoff_until": _("from here on it may be tried again"),
        "ungated": _("its gate is gone: a scheduler may look at it"),
        "scheduled": _("placed on node {node}").format(node=node)
        if node
        else _("as many of its pods are placed as it needs"),
        "running": _("running"),
        "finished": _("finished"),
        "abandoned": _("given up: deleted or deactivated before it was served"),
    }
    text = texts[step["step"]]
    if step["step"] == "evicted" and step["is_deactivation"]:
        text = deactivated_text(next((word["rule"] for word in words if word["verdict"] == "deactivated"), None))
    told = {rule_told(word["rule"], confined) for word in words}
    rules = sorted({rule for rule in told if rule} - {"QuotaReserved", "Admitted"})
    if rules:
        text += f" ({', '.join(rules)})"
    if step["step"] == "evicted" and not confined:
        text += _said(words)
    return f"{text} [pod {pod}]" if pod else text


def deactivated_text(rule: str | None) -> str:
    """A deactivation, by which limit."""
    limit = rule or ""
    if limit.endswith("AdmissionCheck"):
        return _("deactivated, since an admission check rejected it")
    if limit.endswith("RequeuingLimitExceeded"):
        return _("deactivated, since it was requeued as often as its limit allows")
    if limit.endswith("MaximumExecutionTimeExceeded"):
        return _("deactivated, since it ran longer than it may")
    return _("deactivated: it does not wait until it is made active again")


def _said(words: Sequence[Record]) -> str:
    said = next((word["message"] for word in words if word["message"]), None)
    return f": {cut(said)}" if said else ""


def cut(text: str) -> str:
    """At most a few hundred characters of somebody's words."""
    return text if len(text) <= _CHARACTERS_MAX else text[: _CHARACTERS_MAX - 3] + "..."


def _step_source(step: Record, words: Sequence[Record], confined: bool) -> str:
    basis = {
        "object": _("its own stamp"),
        "audit": _("audit log"),
        "event": _("event"),
        "trace": _("trace"),
        "watch": _("first seen so, not stamped"),
    }
    deciders = sorted({told for word in words if (told := decider_told(word["decided_by"], confined))})
    return basis[step["basis"]] + (f"; {', '.join(deciders)}" if deciders else "")


def lines_of_decisions(
    decisions: Sequence[Record],
    taken: set[int],
    labels: Mapping[str, str],
    demand_of: Mapping[tuple[str, str], str],
    confined: bool,
) -> list[StoryLine]:
    """A line for each decision that no step took in: refusals above all, each with its count, first and last."""
    found = []
    for place, word in enumerate(decisions):
        demand = demand_of_word(word, demand_of)
        if place in taken or demand is None or (_STEP_OF.get(word["verdict"]) == "released"):
            continue
        if word["verdict"] == "not_now" and '"after":"evicted"' in word["details"]:
            continue
        head = verdict_word(word["verdict"])
        rule = rule_told(word["rule"], confined)
        is_said = rule_told(word["rule"]) is None and (word["rule"] or "") in (word["message"] or "")
        text = head + (f" ({rule})" if rule and not is_said else "")
        said = words_told(word) if confined else cut(word["message"] or "")
        if said:
            text += f": {said}"
        if word["subject_kind"] == "Pod":
            text += f" [pod {word['subject_name']}]"
        source = f"{decider_told(word['decided_by'], confined) or '?'}; {word['evidence']}"
        found.append(
            StoryLine(
                word["first_us"],
                word["verdict"],
                text,
                source,
                labels[demand],
                times=word["times"] if (word["times"] or 1) > 1 else None,
                last=word["last_us"] if word["last_us"] > word["first_us"] + _SAME_US else None,
                rank=20,
            )
        )
    return found


def verdict_word(verdict: str) -> str:
    """What a verdict is called; a code that has no word stays as it is."""
    return {
        "not_now": _("not now"),
        "never_fits": _("never fits"),
        "rejected": _("rejected"),
        "misconfigured": _("misconfigured"),
        "evicted": _("evicted"),
        "deactivated": _("deactivated"),
        "reserved": _("quota reserved"),
        "admitted": _("admitted"),
        "scheduled": _("placed"),
        "bound": _("placed"),
    }.get(verdict, verdict)


def lines_of_preemptions(rows: Sequence[Record], labels: Mapping[str, str], tenant: str | None) -> list[StoryLine]:
    """Preemptions of the request and for it. The other side is named only where it may be: to everybody, or within the own tenant."""
    found = []
    for row in rows:
        for own, side in (("victim", "preemptor"), ("preemptor", "victim")):
            label = labels.get(row[f"{own}_demand_id"] or "")
            if label is None:
                continue
            hidden = tenant is not None and row[f"{side}_tenant"] != tenant
            text = _("preempted for {other}") if own == "victim" else _("{other} was preempted for it")
            text = text.format(other=_("another request") if hidden else _other(row, side)) + f" ({row['cause']})"
            priorities = (row["victim_priority"], row["preemptor_priority"])
            if None not in priorities and not hidden:
                text += "; " + _("priority {victim} gives way to {preemptor}").format(
                    victim=priorities[0], preemptor=priorities[1]
                )
            source = f"{decider_told(row['decided_by'], tenant is not None) or '?'}; {row['evidence']}"
            if row["time_basis"] == "before":
                source += "; " + _("then or earlier")
            found.append(
                StoryLine(row["at_us"], "preempted" if own == "victim" else "preempts", text, source, label, rank=15)
            )
    return found


def _other(row: Record, side: str) -> str:
    if row[f"{side}_name"] is not None:
        name = f"{row[f'{side}_namespace'] or ''}/{row[f'{side}_name']}"
    elif side == "preemptor" and row["preemptor_uid"] is not None:
        name = _("uid {uid}, which no object that was seen has").format(uid=row["preemptor_uid"])
    else:
        name = _("somebody")
    queue = row[f"{side}_queue"]
    return name + (_(" of queue {queue}").format(queue=queue) if queue else "")


def is_told(refusal: Record, words: Sequence[Record]) -> bool:
    """Whether decisions about the same request tell of this refusal already, as those of its queue do."""
    verdicts = _OF_DOOR.get(refusal["refused_by"] or "", frozenset())
    if refusal["response_code"]:
        return False
    return any(
        word["verdict"] in verdicts and abs(word["first_us"] - refusal["first_us"]) <= _SAME_US for word in words
    )


def lines_of_refusals(rows: Sequence[Record], label: str, confined: bool) -> list[StoryLine]:
    """What the door turned away: by quota, rights, webhooks, budgets."""
    found = []
    for row in rows:
        subject = f"{row['subject_kind']} {row['subject_name'] or '?'}"
        text = _("refused at the door ({by}): {verb} {subject}").format(
            by=row["refused_by"], verb=row["verb"], subject=subject
        )
        if row["message"] and not confined:
            text += f": {cut(row['message'])}"
        user = decider_told(row["user"], confined) or "?"
        source = _("{user}; API server").format(user=user) if row["response_code"] else _("its queue")
        last = row["last_us"] if row["last_us"] > row["first_us"] else None
        found.append(
            StoryLine(
                row["first_us"], "refused", text, source, label, row["times"] if row["times"] > 1 else None, last, 10
            )
        )
    return found


def lines_of_holdings(rows: Sequence[Record], labels: Mapping[str, str], at: Instant) -> list[StoryLine]:
    """When GPUs began and ceased to be held, pod by pod."""
    found = []
    for row in rows:
        share = "?" if row["share_ppm"] is None else f"{row['share_ppm'] / 1_000_000:.6f}".rstrip("0").rstrip(".")
        cards = row["cards"] or _("cards that no source names")
        what = {"held": _("holds"), "reserved": _("has reserved"), "in_suspense": _("claims, not accepted,")}[
            row["occupancy"]
        ]
        text = _("{what} {share} GPU: {cards} on {node} [pod {pod}]").format(
            what=what, share=share, cards=cards, node=row["node"] or "?", pod=row["pod"]
        )
        source = f"{row['scheme']}; {row['start_basis']}; {row['grade']}"
        found.append(
            StoryLine(row["started_us"], f"{row['occupancy']}_from", text, source, labels[row["demand_id"]], rank=30)
        )
        if row["ended_us"] is not None and row["ended_us"] <= at:
            text = _("no longer {what} it, after {length} [pod {pod}]").format(
                what=what, length=length(row["ended_us"] - row["started_us"]), pod=row["pod"]
            )
            source = f"{row['scheme']}; {row['end_basis']}"
            found.append(
                StoryLine(row["ended_us"], f"{row['occupancy']}_to", text, source, labels[row["demand_id"]], rank=31)
            )
    return found


def lines_of_events(
    rows: Sequence[Record], demand_of: Mapping[tuple[str, str], str], labels: Mapping[str, str], confined: bool
) -> list[StoryLine]:
    """Further events about its objects, by their reason. ``confined``: without those that tell who had to go for whom."""
    found = []
    for row in rows:
        demand = demand_of.get((row["subject_kind"], f"{row['subject_namespace'] or ''}/{row['subject_name']}"))
        if demand is None or (confined and _OF_OTHERS.search(row["reason"] or "")):
            continue
        text = rule_told(row["reason"], confined) or _("event")
        if row["message"] and not confined:
            text += f": {cut(row['message'])}"
        if row["subject_kind"] == "Pod":
            text += f" [pod {row['subject_name']}]"
        last = row["last_us"] if row["last_us"] > row["first_us"] + _SAME_US else None
        times = row["times"] if row["times"] > 1 else None
        found.append(
            StoryLine(
                row["first_us"],
                "event",
                text,
                _("event; {by}").format(by=decider_told(row["component"], confined) or "?"),
                labels[demand],
                times,
                last,
                25,
            )
        )
    return found


def lines_of_outcomes(rows: Sequence[Record], labels: Mapping[str, str], at: Instant) -> list[StoryLine]:
    """How it ended."""
    found = []
    for row in rows:
        if row["ended_us"] is None or row["ended_us"] > at:
            continue
        text = _("outcome: {outcome}").format(outcome=row["outcome"])
        why = ", ".join(part for part in (row["outcome_by"], row["outcome_cause"]) if part)
        source = _("its pods") if row["basis"] == "pods" else _("its own word")
        found.append(
            StoryLine(
                row["ended_us"],
                "outcome",
                f"{text} ({why})" if why else text,
                source,
                labels[row["demand_id"]],
                rank=40,
            )
        )
    return found
