"""How a pod ended, by whom and by which evidence: a preemption, a kubelet's refusal and a crash all leave exit code 137 or none.

``pods`` calls ``outcome_of`` once per pod. The trick to know: the order of the witnesses decides. Whoever meant to end the pod says so in a condition
before the container dies (``TerminationTarget`` of Kueue, then ``DisruptionTarget``), the kubelet in ``status.reason``, the kernel through
``OOMKilled``; a plain ``Error`` 137 with none of them tells nobody, and is then unknown and not the user's fault.

Sceptic's command: ``kubectl get pod POD -o jsonpath='{.status.conditions}{.status.reason}{.status.containerStatuses}'``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.sources.shared.decisions import is_of_volcano
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import INIT, ContainerView, PodView, text_of

APPLICATION: Final = "application"
INFRASTRUCTURE: Final = "infrastructure"
OOM_KILLED: Final = "OOMKilled"

_BY_KUEUE: Final = "WorkloadEvictedDueTo"
_KILLED: Final = frozenset({137, 143})
_BY_NODE: Final = frozenset(
    {
        "Evicted",
        "Shutdown",
        "NodeShutdown",
        "Terminated",
        "NodeLost",
        "NodeAffinity",
        "Preempting",
        "UnexpectedAdmissionError",
    }
)
_CONTAINER_START: Final = frozenset({"ContainerCannotRun", "StartError", "CreateContainerError"})


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """outcome: ``pending``, ``running``, ``terminating``, ``succeeded``, ``failed``, ``preempted``, ``evicted``, ``unknown``. by: who ended it
    (``kueue``, ``kube-scheduler``, ``volcano``, ``kubelet``, ``eviction_api``, ``node_controller``). cause: why (``priority``,
    ``reclaim``, the eviction's reason). evidence: the words that say so. failure_class, failure_owner: of a failure; None = not told by the
    object. exit_code: of the container that decided it."""

    outcome: str
    by: str | None = None
    cause: str | None = None
    evidence: str | None = None
    failure_class: str | None = None
    failure_owner: str | None = None
    exit_code: int | None = None


_BY_PHASE: Final = {"Pending": PodOutcome("pending"), "Running": PodOutcome("running")}
_UNKNOWN: Final = PodOutcome("unknown")
_SUCCEEDED: Final = PodOutcome("succeeded", evidence="phase Succeeded", exit_code=0)
"""Most pods of a dump end or live in one of these ways: each is made once."""


def outcome_of(view: PodView, rejected: bool) -> PodOutcome:
    """The outcome of a pod by its own object alone. ``rejected``: its kubelet refused it, it never ran."""
    if view.phase not in ("Succeeded", "Failed"):
        return _living(view)
    decisive = _decisive(view)
    code = decisive.exit_code if decisive is not None else None
    if view.phase == "Succeeded":
        return _SUCCEEDED if code == 0 else PodOutcome("succeeded", evidence="phase Succeeded", exit_code=code)
    if rejected:
        evidence = f"{_short(view.status_reason)}, no containerStatuses"
        return PodOutcome("failed", "kubelet", view.status_reason, evidence, "admission", INFRASTRUCTURE)
    meant = _meant(view, _conditions(view), code)
    if meant is not None:
        return meant
    if decisive is not None and code == 0:
        evidence = f"exit 0 before the phase was overwritten by {_short(view.status_reason) or 'somebody'}"
        return PodOutcome("succeeded", evidence=evidence, exit_code=0)
    return _by_node(view, code) or _by_container(decisive, code)


def _living(view: PodView) -> PodOutcome:
    if view.deletion_at is not None:
        meant = _meant(view, _conditions(view), None)
        return PodOutcome("terminating", meant.by, meant.cause, meant.evidence) if meant else PodOutcome("terminating")
    return _BY_PHASE.get(view.phase, _UNKNOWN)


def _conditions(view: PodView) -> dict[str, Mapping[str, Any]]:
    """The conditions that hold, by type; of ``Ready`` the one that does not."""
    found: dict[str, Mapping[str, Any]] = {}
    for condition in view.conditions:
        kind = condition.get("type")
        if kind in ("TerminationTarget", "DisruptionTarget") and condition.get("status") == "True":
            found[str(kind)] = condition
        elif kind == "Ready" and condition.get("reason") == "Evict":
            found["Ready"] = condition
    return found


def _meant(view: PodView, conditions: Mapping[str, Mapping[str, Any]], code: int | None) -> PodOutcome | None:
    """Somebody meant to end it, and said so before it died."""
    target = conditions.get("TerminationTarget")
    if target is not None:
        reason = text_of(target.get("reason")) or ""
        evidence = f"TerminationTarget/{_short(reason)}"
        cause = reason.removeprefix(_BY_KUEUE) if reason.startswith(_BY_KUEUE) else reason
        outcome = "preempted" if cause == "Preempted" else "evicted"
        return PodOutcome(outcome, "kueue", _short(cause) or None, evidence, exit_code=code)
    target = conditions.get("DisruptionTarget")
    if target is None:
        return None
    reason = text_of(target.get("reason")) or ""
    evidence = f"DisruptionTarget/{_short(reason)}"
    if reason == "PreemptionByScheduler":
        if is_of_volcano(view, target):
            return PodOutcome("preempted", "volcano", _volcano_cause(conditions), evidence, exit_code=code)
        return PodOutcome("preempted", "kube-scheduler", "priority", evidence, exit_code=code)
    if reason == "EvictionByEvictionAPI":
        return PodOutcome("evicted", "eviction_api", _short(reason), evidence, exit_code=code)
    if view.status_reason:
        evidence += f", status.reason {_short(view.status_reason)}"
    by = "kubelet" if reason == "TerminationByKubelet" else "node_controller"
    return PodOutcome("failed", by, _short(reason) or None, evidence, "node", INFRASTRUCTURE, code)


def _volcano_cause(conditions: Mapping[str, Mapping[str, Any]]) -> str:
    """Volcano's condition calls everything a preemption; its ``Ready`` says which action it was."""
    message = text_of(conditions.get("Ready", {}).get("message")) or ""
    if message.endswith("reclaim"):
        return "reclaim"
    return "priority" if message.endswith("preempt") else "unknown"


def _by_node(view: PodView, code: int | None) -> PodOutcome | None:
    reason = view.status_reason
    if reason == "DeadlineExceeded":
        return PodOutcome("failed", "kubelet", reason, f"status.reason {reason}", "platform_action", APPLICATION, code)
    if reason in _BY_NODE or (reason or "").startswith("OutOf"):
        evidence = f"status.reason {_short(reason)}"
        return PodOutcome("failed", "kubelet", _short(reason), evidence, "node", INFRASTRUCTURE, code)
    return None


def _by_container(decisive: ContainerView | None, code: int | None) -> PodOutcome:
    if decisive is None or code is None:
        return PodOutcome("failed", evidence="no container tells its end", failure_class="unknown")
    reason = _short(decisive.reason)
    if decisive.reason == OOM_KILLED:
        return PodOutcome("failed", "kernel", reason, f"container reason {reason}", "host_oom", APPLICATION, code)
    if decisive.reason in _CONTAINER_START:
        evidence = f"container reason {reason}"
        return PodOutcome("failed", None, reason, evidence, "container_start", None, code)
    if code in _KILLED:
        evidence = f"exit {code} and nobody says who killed it"
        return PodOutcome("failed", None, reason or None, evidence, "unknown", None, code)
    return PodOutcome("failed", None, reason or None, f"exit {code}", "application", APPLICATION, code)


def _decisive(view: PodView) -> ContainerView | None:
    """The container whose end was the pod's: the first that failed by its end, an out-of-memory kill before all, else one that succeeded."""
    ended = [each for each in view.containers if each.state == "terminated"]
    failed = [each for each in ended if each.exit_code not in (0, None)]
    if failed:
        return min(failed, key=lambda each: (each.reason != OOM_KILLED, each.ended_at or 2**63))
    mine = [each for each in view.containers if each.kind != INIT]
    return ended[-1] if ended and all(each.state == "terminated" for each in mine) else None


def _short(text: str | None) -> str:
    return plain((text or "")[:200])
