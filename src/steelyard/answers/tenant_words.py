"""What a viewer of one tenant may read of deciders' words: rules, counts and amounts, and no free text.

``story`` and Q6 call these for whoever is confined to a tenant. The trick to know: a scheduler and Kueue write messages for those who run the
cluster; queues of the cohort, preemptors, taints and volumes named in them may be somebody else's. So nothing is searched for names: what fits a
known form is told, everything else is left out. What this program's own findings say is told but for objects of other namespaces (``finding_told``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from steelyard.answers.reading import Record
from steelyard.primitives.i18n import _, ngettext

_RULE: Final = re.compile(r"[A-Z][A-Za-z]{2,63}")
"""Reasons of conditions and events are words of this form."""
_RESOURCE: Final = re.compile(
    r"Insufficient (?:cpu|memory|pods|ephemeral-storage|[a-z0-9.-]{1,253}/[A-Za-z0-9._-]{1,63})"
)
_GATE: Final = re.compile(r"(?:[a-z-]{1,40}\.)*(?:(?:x-)?k8s\.io|volcano\.sh)/[a-z-]{1,63}")
_TAINT: Final = re.compile(r"node\(s\) had untolerated taint\(?s?\)?(?P<taint> \{[^{}]{0,300}\})?")
_PUBLIC_TAINT: Final = re.compile(
    r" \{(?:[a-z0-9-]{1,63}\.)*(?:kubernetes\.io|nvidia\.com)/[a-z-]{1,63}: ?(?:true|present)?\}"
)
_SENTENCES: Final = frozenset({
    "cannot allocate all claims",
    "node(s) didn't have free ports for the requested pod ports",
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't match pod topology spread constraints",
    "node(s) didn't match pod topology spread constraints (missing required label)",
    "node(s) didn't match the requested node name",
    "node(s) didn't satisfy existing pods anti-affinity rules",
    "node(s) exceed max volume count",
    "node(s) had no available volume zone",
    "node(s) had volume node affinity conflict",
    "node(s) were unschedulable",
    "queue resource quota insufficient",
    "resource in cluster is overused",
    "Too many pods",
})  # fmt: skip
"""What schedulers say without naming anything."""
_OBJECT: Final = re.compile(
    r"(?<![\w./-])(?P<namespace>[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/[A-Za-z0-9](?:[\w.-]*\w)?"
)
"""How findings name an object; what belongs to nobody, such as ``nvidia.com/gpu``, has a point before the stroke, which no namespace has."""
_IN_NAMESPACE: Final = re.compile(r"(?P<word>\bnamespaces? )(?P<namespace>[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)")
_DECIDER: Final = re.compile(
    r"(?:system:)?(?:default-scheduler|kube-[a-z-]{1,60}|kubelet|kueue(?:-[a-z-]{1,60})?|[a-z0-9.]{1,60}-kueue-controller|volcano|vc-[a-z-]{1,60}"
    r"|hami(?:-scheduler)?)"
)


def rule_told(rule: str | None, confined: bool = True) -> str | None:
    """The decider's word for its rule; None where a confined viewer may not read it, since it is free text."""
    if rule is None or not confined:
        return rule
    if rule in _SENTENCES or any(form.fullmatch(rule) for form in (_RULE, _RESOURCE, _GATE)):
        return rule
    taint = _TAINT.fullmatch(rule)
    if taint is None:
        return None
    said = taint["taint"]
    return rule if said is None or _PUBLIC_TAINT.fullmatch(said) else "node(s) had untolerated taint(s)"


def decider_told(decider: str | None, confined: bool = True) -> str | None:
    """Who decided; None where a confined viewer may not read it: it may be a person, or an account of somebody else's namespace."""
    if decider is None or not confined:
        return decider
    return decider if _DECIDER.fullmatch(decider) else None


def finding_told(subject: str, message: str) -> str:
    """What a finding says of its subject, without objects of other namespaces: each of those is ``?``.

    By their form alone, never by which namespaces there are, since that would tell whether one is.
    """
    home = subject.rpartition(" ")[2].partition("/")[0]
    message = _OBJECT.sub(lambda found: found[0] if found["namespace"] == home else "?", message)
    return _IN_NAMESPACE.sub(lambda found: found[0] if found["namespace"] == home else f"{found['word']}?", message)


def words_told(word: Record) -> str:
    """A decision as its parsed counts and amounts alone; empty where its words yield none."""
    details = details_of(word)
    parts: list[str] = []
    if word.get("missing_milli") is not None and word.get("resource"):
        parts.append(
            _("{missing} {resource} missing").format(missing=_units(word["missing_milli"]), resource=word["resource"])
        )
    if word.get("limit_milli") is not None and word.get("resource"):
        parts.append(
            _("at most {limit} {resource}").format(limit=_units(word["limit_milli"]), resource=word["resource"])
        )
    reasons = details.get("reasons")
    for reason, nodes in sorted(reasons.items()) if isinstance(reasons, dict) else ():
        if isinstance(nodes, int):
            parts.append(
                ngettext("{reason} on {count} node", "{reason} on {count} nodes", nodes).format(
                    reason=rule_told(str(reason)) or _("another reason"), count=nodes
                )
            )
    return "; ".join(parts)


def details_of(word: Record) -> Mapping[str, Any]:
    """What the grammar of a decision's words yielded; empty where it cannot be read."""
    try:
        found = json.loads(word["details"] or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _units(milli: int) -> str:
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")
