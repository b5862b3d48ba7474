"""Events that name another machine than the pod's own: the event, or the pod of that name, is not what it seems.

``app`` gives ``PlacedWords`` each Event fact and each pod; ``findings`` then says what does not agree. The trick to know: a kubelet speaks only of
pods on its own node, so its host must be the pod's node; the pod's own object is believed.

Sceptic's command: ``kubectl get events -A -o json | jq '.items[]|select(.source.component=="kubelet")|.source.host'``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from steelyard.facts.base import Fact
from steelyard.facts.event import Event
from steelyard.facts.finding import Finding
from steelyard.sources.kube_scheduler.events import SOURCE
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView

KEPT_MAX: Final = 200_000


@dataclass(slots=True)
class PlacedWords:
    """Which node each pod is on, and which node each kubelet's word about a pod came from."""

    _nodes: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    _told: dict[tuple[str, str], str] = field(default_factory=dict)

    def note(self, fact: Fact) -> bool:
        """Keep where a kubelet spoke of a pod, and say whether anything was kept; other facts are passed over."""
        if not isinstance(fact, Event) or fact.component != "kubelet" or fact.subject_kind != "Pod":
            return False
        if not fact.subject_uid or not fact.node or len(self._told) >= KEPT_MAX:
            return False
        self._told.setdefault((fact.subject_uid, fact.node), fact.reason or "")
        return True

    def note_pod(self, view: PodView) -> None:
        """Keep where a pod is."""
        if view.node is not None and (view.uid in self._nodes or len(self._nodes) < KEPT_MAX):
            self._nodes[view.uid] = (view.node, view.namespace, view.name)

    def forget(self, uid: str) -> None:
        """An object that is gone."""
        self._nodes.pop(uid, None)

    def forget_events(self) -> None:
        """Drop what was kept of events: a watch compares each once."""
        self._told.clear()

    def findings(self, ctx: ReadContext) -> Iterator[Finding]:
        """``event_host_mismatch``: one per pod and host."""
        for (uid, host), reason in self._told.items():
            node, namespace, name = self._nodes.get(uid, (host, "", ""))
            if node != host:
                yield ctx.finding(
                    SOURCE,
                    "event_host_mismatch",
                    f"pod {namespace}/{name}",
                    f"an event about the pod comes from another machine ({host}) than its node ({node}): the pod's own node is believed",
                    evidence={"event_host": host, "node_name": node, "event_reason": reason},
                )
