"""Victims of Volcano by their own conditions, and which pod group a pod belongs to.

``app`` calls ``read_volcano_pod`` with a pod that is parsed once for all readers. The trick to know: ``DisruptionTarget`` says preemption for both
actions; which it was stands in ``Ready``, whose reason is ``Evict``.

Sceptic's command: ``kubectl get pod POD -o jsonpath='{.status.conditions}'``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from steelyard.facts.base import Fact
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.decisions import is_of_volcano, preemption_of_pod
from steelyard.sources.shared.pods import PodView, instant_of, text_of
from steelyard.sources.volcano.events import action_of, cause_of_action
from steelyard.sources.volcano.gang_message import SOURCE

_GROUP_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


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


def group_of_pod(view: PodView) -> str | None:
    """The name of the pod group that the pod belongs to, in its own namespace; None where it has none."""
    return next((name for key in _GROUP_ANNOTATIONS if (name := view.annotations.get(key))), None)
