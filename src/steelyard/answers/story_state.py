"""States of a request that are no waiting, in words: what each is called, what would end it, how often it was evicted.

``story_standing`` finds the state, the tables and lines of ``story`` tell it with the words of this file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.answers.quota_balance import counts_cards
from steelyard.answers.reading import Record
from steelyard.answers.story_change import Change, basis_of, queue_called
from steelyard.answers.story_lines import StoryLine, amount, length
from steelyard.answers.tenant_words import details_of
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import Instant, format_instant


def state_word(stage: str) -> str:
    """What a stage or state is called; a code that has no word stays as it is."""
    return {
        "queue": _("waits in its queue"),
        "gate": _("waits behind its scheduling gate"),
        "scheduler": _("waits for a scheduler"),
        "admission_check": _("waits for admission checks"),
        "backoff": _("waits for the end of its back-off"),
        "release_lag": _("evicted: its quota is not given back yet"),
        "starting": _("waits for its start"),
        "leaked": _("leaked: keeps its quota without a pod"),
        "deactivated": _("deactivated"),
        "misconfigured": _("misconfigured"),
        "created": _("created"),
        "reserved": _("quota reserved"),
        "admitted": _("admitted"),
        "evicted": _("evicted"),
        "released": _("quota given back"),
        "backoff_until": _("back-off over"),
        "ungated": _("let go by its gate"),
        "scheduled": _("placed"),
        "running": _("running"),
        "finished": _("finished"),
        "abandoned": _("given up"),
    }.get(stage, stage)


def unknown_wait(reason: str) -> str:
    """Why a wait cannot be recovered, as a sentence."""
    return {
        "evictions_not_seen": _("it was evicted in between, and no source says when"),
        "reservation_not_seen": _("it was evicted, and no source says when its quota had been reserved"),
        "release_not_seen": _("no source says when its quota was given back"),
        "reactivation_not_seen": _("it was deactivated, and no source says when it was made active again"),
        "restarted": _("it was restarted, and its stamps are of the last start"),
        "end_not_stamped": _("its end has no stamp: it was first seen so"),
        "gate_not_seen": _("no source says when its gate was taken away"),
        "workload_not_seen": _("Kueue manages it, and its Workload was not seen"),
        "creation_not_seen": _("no source says when it was created"),
    }.get(reason, reason)


def leaked_amounts(leak: Record) -> list[tuple[str, int, str | None]]:
    """(resource, thousandths, flavor) of what a leak keeps: its cards; where it keeps none, all of it."""
    try:
        admitted, flavors = json.loads(leak["admitted"] or "{}"), json.loads(leak["flavors"] or "{}")
    except (ValueError, RecursionError):
        return []
    if not isinstance(admitted, dict) or not isinstance(flavors, dict):
        return []
    found = [
        (str(name), milli, flavors[name] if isinstance(flavors.get(name), str) else None)
        for name, milli in sorted(admitted.items())
        if isinstance(milli, int)
    ]
    cards = [row for row in found if counts_cards(row[0])]
    return cards or found


def leaked_text(leak: Record) -> str:
    """``4 nvidia.com/gpu of flavor h100``."""
    parts = [
        f"{amount(milli)} {name}" + (_(" of flavor {flavor}").format(flavor=flavor) if flavor else "")
        for name, milli, flavor in leaked_amounts(leak)
    ]
    return ", ".join(parts) or _("quota")


def changes_of_state(
    stage: str,
    demand: Record,
    deactivation: Record | None,
    leak: Record | None,
    backoff: tuple[Instant | None, int | None],
    confined: bool,
) -> list[Change]:
    """What would end a back-off, a leak or a deactivation. ``deactivation``: the word that told of it. ``backoff``: its end and its number."""
    if stage == "leaked" and leak is not None:
        return _of_leak(demand, leak, backoff[0])
    if stage == "deactivated":
        return _of_deactivation(demand, deactivation, confined)
    if stage != "backoff":
        return []
    until, count = backoff
    basis = (
        _("its controller's back-off")
        if count is None
        else _("its controller's back-off, requeue no. {count}").format(count=count)
    )
    if until is None:
        return [Change(_("its back-off has to end; no source says when"), basis=basis)]
    text = _("nothing: it may be tried again from {until} on").format(until=format_instant(until))
    return [Change(text, basis=basis)]


def _of_leak(demand: Record, leak: Record, requeue_at: Instant | None) -> list[Change]:
    owner = f"{demand['workload_kind']} {demand['workload_name']}"
    basis = _("ledger quota")
    if requeue_at is not None:
        basis += "; " + _("it was to be tried again at {until}").format(until=format_instant(requeue_at))
    text = _(
        "its quota has to be given back: suspend or delete {owner}, or set spec.active of its Workload to false; that frees {amounts} of "
        "{queue}"
    ).format(owner=owner, amounts=leaked_text(leak), queue=queue_called(demand["queue"]))
    resource, milli, _flavor = next(iter(leaked_amounts(leak)), (None, None, None))
    return [Change(text, resource, milli, 0 if milli is not None else None, basis)]


def _of_deactivation(demand: Record, word: Record | None, confined: bool) -> list[Change]:
    basis = _("the object: spec.active is false") if word is None else basis_of(word, confined)
    limit = (word["rule"] if word else None) or ""
    found: list[Change] = []
    if limit.endswith("AdmissionCheck"):
        names = [
            str(check.get("name"))
            for check in (details_of(word) if word else {}).get("checks") or ()
            if isinstance(check, dict) and check.get("name")
        ]
        text = _("its admission check has to let it in")
        if names:
            text = _("admission check {name} has to let it in").format(name=", ".join(names))
        found.append(Change(text, basis=basis))
    elif limit.endswith("RequeuingLimitExceeded"):
        text = _(
            "its pods have to become ready in time, or Kueue's limit of requeues (waitForPodsReady.requeuingStrategy.backoffLimitCount) has "
            "to be raised"
        )
        found.append(Change(text, basis=basis))
    elif limit.endswith("MaximumExecutionTimeExceeded"):
        text = _("it has to take less time, or its spec.maximumExecutionTimeSeconds has to be raised")
        found.append(Change(text, basis=basis))
    command = f'kubectl patch workloads.kueue.x-k8s.io -n {demand["namespace"]} {demand["name"]} --type merge -p \'{{"spec":{{"active":true}}}}\''
    text = _("somebody has to make it active again (spec.active: true): {command}").format(command=command)
    return [*found, Change(text, basis=basis)]


def backoff_of(
    ends: Sequence[Instant], requeues: Sequence[Record], since: Instant
) -> tuple[Instant | None, int | None]:
    """(until when a back-off that began at ``since`` lasts, its number by its controller's count); None = no source says.

    ``ends``: those that its steps tell; ``requeues``: what its controller said of its back-offs.
    """
    said = [row for row in requeues if row["until_us"] is None or row["until_us"] >= since]
    until = [*ends, *(row["until_us"] for row in said if row["until_us"] is not None)]
    count = max((int(row["requeue_count"]) for row in said), default=None)
    return max((end for end in until if end >= since), default=None), count


def lines_of_leaks(leaks: Sequence[Record], labels: Mapping[str, str], at: Instant) -> list[StoryLine]:
    """From when to when a request kept quota without a live pod."""
    found = []
    for leak in leaks:
        label = labels[leak["demand_id"]]
        text = _("from here on it keeps {amounts} without a live pod: leaked").format(amounts=leaked_text(leak))
        source = _("ledger quota: its conditions and the lists of pods")
        found.append(StoryLine(leak["from_us"], "leaked_from", text, source, label, rank=32))
        if leak["to_us"] is not None and leak["to_us"] <= at:
            text = _("no longer keeps it, after {length}").format(length=length(leak["to_us"] - leak["from_us"]))
            found.append(StoryLine(leak["to_us"], "leaked_to", text, source, label, rank=33))
    return found


def lines_of_requeues(requeues: Sequence[Record], labels: Mapping[str, str], at: Instant) -> list[StoryLine]:
    """Each back-off that a controller told of: how many there were by then, and until when."""
    found = []
    for row in requeues:
        text = _("back-off no. {count} by its controller's count").format(count=row["requeue_count"])
        if row["until_us"] is not None:
            until = format_instant(row["until_us"])
            over = _("over since {until}") if row["until_us"] <= at else _("until {until}")
            text += f": {over.format(until=until)}"
        source = _("status.requeueState; first seen so, not stamped")
        found.append(StoryLine(row["seen_us"], "backoff", text, source, labels[row["demand_id"]], rank=35))
    return found


def eviction_rows(
    gang: Record | None, evictions: Sequence[tuple[Instant, str | None]]
) -> list[tuple[str | None, str | None, int, int, Instant | None, str]]:
    """(reason, cause, how often, how many of them a source dates, the last of those, basis) of one request.

    ``evictions``: those that are dated, with their rule. What a controller counts beyond them has no date.
    """
    counted = _counted(gang)
    only = counted[0][0] if len(counted) == 1 else None
    named = [(at, only if rule is None else _reason(rule)) for at, rule in sorted(evictions, key=lambda each: each[0])]
    dated = Counter(reason for _at, reason in named)
    last = {reason: at for at, reason in named}
    found: list[tuple[str | None, str | None, int, int, Instant | None, str]] = []
    for reason, cause, count in counted:
        seen = min(dated.pop(reason, 0), count) if reason in dated else 0
        found.append((reason, cause, count, seen, last.get(reason), "counted"))
    found += [(reason, None, count, count, last[reason], "seen") for reason, count in dated.items()]
    return sorted(found, key=lambda row: (row[0] or "", row[1] or ""))


def lines_of_lost_evictions(
    gang: Record | None, evictions: Sequence[tuple[Instant, str | None]], label: str
) -> list[StoryLine]:
    """Evictions that a controller counts and that no source dates, under the sighting that told of them."""
    if gang is None:
        return []
    found = []
    for reason, cause, count, dated, _last, _basis in eviction_rows(gang, evictions):
        if dated >= count:
            continue
        why = " / ".join(part for part in (reason, cause) if part) or "?"
        text = ngettext(
            "evicted {count} time by its controller's count ({why})",
            "evicted {count} times by its controller's count ({why})",
            count,
        ).format(count=count, why=why)
        text += "; " + _("no source dates {lost} of them: the waits in between are not recoverable").format(
            lost=count - dated
        )
        source = _("status.schedulingStats; first seen so, not stamped")
        found.append(StoryLine(gang["seen_us"], "evictions", text, source, label, rank=34))
    return found


def _reason(rule: str) -> str:
    """A deactivation is counted as such, whatever its limit."""
    return "Deactivated" if rule.startswith("Deactivated") else rule


def _counted(gang: Record | None) -> list[tuple[str, str | None, int]]:
    try:
        rows: Any = json.loads((gang["evictions"] if gang else None) or "[]")
    except (ValueError, RecursionError):
        return []
    found = []
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, Mapping) and isinstance(row.get("count"), int) and row["count"] > 0:
            found.append((str(row.get("reason") or ""), str(row["cause"]) if row.get("cause") else None, row["count"]))
    return found
