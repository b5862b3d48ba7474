"""Victims of Volcano by their own conditions.

``app`` calls ``read_volcano_pod`` with a pod that is parsed once for all readers. The trick to know: ``DisruptionTarget`` says preemption for both
actions; which it was stands in ``Ready``, whose reason is ``Evict``.

Sceptic's command: ``kubectl get pod POD -o jsonpath='{.status.conditions}'``.
"""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.facts.base import Fact
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.decisions import is_of_volcano, preemption_of_pod
from steelyard.sources.shared.pods import PodView, instant_of, text_of
from steelyard.sources.volcano.events import action_of, cause_of_action
from steelyard.sources.volcano.gang_message import SOURCE


def read_volcano_pod(view: PodView, ctx: ReadContext) -> Iterator[Fact]:
    """The Preemption of a pod that Volcano evicted; nothing for any other."""
    action, disrupted = None, None
    for condition in view.conditions:
        if condition.get("type") == "Ready" and condition.get("reason") == "Evict":
            action = action_of(text_of(condition.get("message")) or "")
        elif condition.get("type") == "DisruptionTarget" and condition.get("reason") == "PreemptionByScheduler":
            disrupted = condition if condition.get("status") == "True" and is_of_volcano(view, condition) else None
    if disrupted is not None:
        at = instant_of(disrupted.get("lastTransitionTime"), [], "")
        yield preemption_of_pod(view, SOURCE, "volcano", cause_of_action(action), at, disrupted, ctx)
