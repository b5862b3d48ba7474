"""A pod that Kueue preempted, by the pod's own condition: what is left where its workload is gone.

``app`` calls ``read_kueue_pod`` with a pod that is parsed once for all readers. The trick to know: Kueue writes the condition after it decided, when
it comes to stop the pod, so its stamp is only the latest that the preemption can have been.

Sceptic's command: ``kubectl get pod POD -o jsonpath='{.status.conditions[?(@.type=="TerminationTarget")]}'``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from steelyard.facts.base import Fact
from steelyard.sources.kueue.messages import parse_preemption
from steelyard.sources.kueue.workload_view import SOURCE
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.decisions import preemption_of_pod
from steelyard.sources.shared.pods import PodView, instant_of, text_of

PREEMPTED: Final = "WorkloadEvictedDueToPreempted"


def read_kueue_pod(view: PodView, ctx: ReadContext) -> Iterator[Fact]:
    """The Preemption of a pod that Kueue stopped for another workload, time_basis ``before``; nothing for any other."""
    for condition in view.conditions:
        if condition.get("type") != "TerminationTarget" or condition.get("status") != "True":
            continue
        if condition.get("reason") != PREEMPTED:
            continue
        at = instant_of(condition.get("lastTransitionTime"), [], "")
        words = parse_preemption(text_of(condition.get("message")))
        found = preemption_of_pod(view, SOURCE, SOURCE, words.cause if words else "unknown", at, condition, ctx)
        found = structs.replace(found, time_basis="before")
        if words is not None and words.preemptor_uid is not None:
            found = structs.replace(
                found,
                preemptor_kind="Workload",
                preemptor_uid=words.preemptor_uid,
                preemptor_job_uid=words.preemptor_job_uid,
                preemptor_queue=words.preemptor_queue,
                victim_queue=words.victim_queue,
            )
        yield found
        return
