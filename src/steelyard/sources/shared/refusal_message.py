"""Why the API server turned a request away, read from its own sentence: quota, webhook, closed queue, permission, disruption budget.

The audit log has the sentence as the answer's message, a controller's ``FailedCreate`` event quotes it. The trick to know: a quota refusal is a 403
like one by RBAC, but names the amounts; and it lists only the resources that are exceeded, so the first accelerator among them is what blocks.

Sceptic's command: ``kubectl get events -A --field-selector reason=FailedCreate``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from steelyard.sources.shared.resource_amounts import is_accelerator, milli_of

MESSAGE_CHARACTERS_MAX: Final = 4_096
_AMOUNTS_MAX: Final = 64

_QUOTA: Final = re.compile(r"exceeded quota: ([^\s,]{1,253}), requested: ")
_MUST: Final = re.compile(r"failed quota: ([^\s:]{1,253}): must specify ([^\n]{1,1000})")
_WEBHOOK: Final = re.compile(r'admission webhook "([^"]{1,253})" denied the request')
_POLICY: Final = re.compile(r"ValidatingAdmissionPolicy '([^']{1,253})'")
_CLOSED: Final = re.compile(r"can only submit \w{1,40} to queue with state `Open`, queue `([^`]{1,253})`")
_BUDGET: Final = re.compile(r"[Tt]he disruption budget ([^\s]{1,253}) needs")
_SUBJECT: Final = re.compile(r'(\w{1,63})(?:\.[A-Za-z0-9.-]{1,253})? "([^"]{1,253})" is forbidden')
_CANNOT: Final = re.compile(r'User "[^"]{0,253}" cannot \w{1,40} resource')
_HAMI_QUOTA: Final = "exceeding resource quota"
_PDB: Final = "disruption budget"


@dataclass(frozen=True, slots=True)
class RefusalMessage:
    """What the sentence tells. refused_by: as in the fact ``Refusal``. rule: the quota, webhook, policy or budget. queue: the closed one.
    resource: as written (``requests.nvidia.com/gpu``). asked, used, limit: resource -> thousandths, as listed. subject: the
    plural and name that are forbidden. unread_amounts: an amount that is no quantity."""

    refused_by: str
    rule: str | None = None
    quota: str | None = None
    queue: str | None = None
    resource: str | None = None
    asked: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    limit: Mapping[str, int] = field(default_factory=dict)
    subject: str | None = None
    subject_name: str | None = None
    unread_amounts: int = 0


def parse_refusal(message: str) -> RefusalMessage | None:
    """The refusal behind a sentence; None where it is none that we know."""
    text = message[:MESSAGE_CHARACTERS_MAX]
    about = _SUBJECT.search(text)
    plural, name = (about.group(1), about.group(2)) if about else (None, None)
    if (quota := _QUOTA.search(text)) is not None:
        return _quota(text, quota, plural, name)
    if (must := _MUST.search(text)) is not None:
        resource = must.group(2).partition(" for:")[0].split(",")[0].strip()
        return RefusalMessage(
            "quota_must_specify",
            rule=must.group(1),
            quota=must.group(1),
            resource=resource or None,
            subject=plural,
            subject_name=name,
        )
    if (hook := _WEBHOOK.search(text)) is not None:
        closed = _CLOSED.search(text)
        by = "queue_closed" if closed else "quota" if _HAMI_QUOTA in text else "webhook"
        return RefusalMessage(by, rule=hook.group(1), queue=closed.group(1) if closed else None)
    if (policy := _POLICY.search(text)) is not None:
        return RefusalMessage("webhook", rule=policy.group(1), subject=plural, subject_name=name)
    if _CANNOT.search(text) is not None:
        return RefusalMessage("rbac", subject=plural)
    if _PDB in text:
        budget = _BUDGET.search(text)
        return RefusalMessage("disruption_budget", rule=budget.group(1) if budget else None)
    if about is not None:
        return RefusalMessage("admission", subject=plural, subject_name=name)
    return None


def bare(resource: str) -> str:
    """The resource behind a quota's key: ``requests.nvidia.com/gpu`` and ``limits.nvidia.com/gpu`` are ``nvidia.com/gpu``."""
    return resource.removeprefix("requests.").removeprefix("limits.")


def _quota(text: str, quota: re.Match[str], plural: str | None, name: str | None) -> RefusalMessage:
    rest = text[quota.end() :]
    requested, _, rest = rest.partition(", used: ")
    used, _, limited = rest.partition(", limited: ")
    unread: list[str] = []
    asked = _amounts(requested, unread)
    resource = next((key for key in asked if is_accelerator(bare(key))), next(iter(asked), None))
    return RefusalMessage(
        "quota",
        rule=quota.group(1),
        quota=quota.group(1),
        resource=resource,
        asked=asked,
        used=_amounts(used, unread),
        limit=_amounts(limited, unread),
        subject=plural,
        subject_name=name,
        unread_amounts=len(unread),
    )


def _amounts(text: str, unread: list[str]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for part in text.split(",", _AMOUNTS_MAX)[:_AMOUNTS_MAX]:
        key, equals, value = part.strip().partition("=")
        if not key or not equals:
            continue
        try:
            amounts[key[:316]] = milli_of(value.split()[0] if value.split() else value)
        except ValueError:
            unread.append(part[:80])
    return amounts
