"""Whose a pod is: the first rule of the settings that matches names the tenant; none matching is the account ``unmapped``.

A rule looks at one attribute (namespace, a label, an annotation, the workload's name, the queue) and either names the tenant or takes
the attribute's value as its name. The trick to know: a pattern knows one wildcard, ``*``, and is kept as a LIKE pattern, so that the
macro and the function match alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _

VERSION: Final = "1"
FORMULA: Final = "tenant = the first matching rule over namespace, label, annotation, workload or queue; else unmapped"

UNMAPPED: Final = "unmapped"
ATTRIBUTES: Final = ("namespace", "label", "annotation", "workload", "queue")
_KEYED: Final = ("label", "annotation")
_KEY: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9./_-]{0,315}[A-Za-z0-9])?\Z")


@dataclass(frozen=True, slots=True)
class TenantRule:
    """``attribute``: one of ATTRIBUTES; ``key`` names the label or annotation. ``pattern``: None = any value. ``tenant``: None = the value.

    Raises UsageError for an attribute that is none, or a key that is missing, needless or not a Kubernetes key.
    """

    attribute: str
    key: str | None = None
    pattern: str | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        if self.attribute not in ATTRIBUTES:
            raise UsageError(
                _("a tenant rule looks at one of {allowed}; found {found}").format(
                    allowed=", ".join(ATTRIBUTES), found=repr(self.attribute)[:60]
                )
            )
        if (self.attribute in _KEYED) != (self.key is not None) or (self.key is not None and not _KEY.match(self.key)):
            raise UsageError(
                _("a tenant rule over {attribute} has no such key: {key}").format(
                    attribute=self.attribute, key=repr(self.key)[:80]
                )
            )

    @property
    def like(self) -> str | None:
        """The pattern as a LIKE pattern with ``!`` as its escape; None where any value matches."""
        return None if self.pattern is None else like_pattern(self.pattern)


@dataclass(frozen=True, slots=True)
class PodBelonging:
    """What rules look at."""

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    workload: str | None = None
    queue: str | None = None


DEFAULT_RULES: Final = (TenantRule("namespace"),)
"""Without settings a namespace is a tenant."""


def like_pattern(glob: str) -> str:
    """A glob, whose one wildcard is ``*``, as a LIKE pattern with ``!`` as its escape."""
    return re.sub(r"([!%_])", r"!\1", glob).replace("*", "%")


def tenant_of(pod: PodBelonging, rules: Sequence[TenantRule] = DEFAULT_RULES) -> str:
    """The tenant of a pod by the first rule that matches; an absent attribute matches nothing."""
    for rule in rules:
        value = _value(pod, rule)
        if value is not None and (rule.pattern is None or _matches(value, rule.pattern)):
            return value if rule.tenant is None else rule.tenant
    return UNMAPPED


def _value(pod: PodBelonging, rule: TenantRule) -> str | None:
    if rule.attribute == "label":
        return pod.labels.get(rule.key or "")
    if rule.attribute == "annotation":
        return pod.annotations.get(rule.key or "")
    return {"namespace": pod.namespace, "workload": pod.workload, "queue": pod.queue}[rule.attribute]


def _matches(value: str, pattern: str) -> bool:
    """Whether the value is the pattern's literal parts in order, anything between them; linear, whatever the pattern."""
    first, *parts = pattern.split("*")
    if not parts:
        return value == first
    last = parts.pop()
    if not value.startswith(first) or len(value) < len(first) + len(last) or not value.endswith(last):
        return False
    position, end = len(first), len(value) - len(last)
    for part in parts:
        found = value.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True
