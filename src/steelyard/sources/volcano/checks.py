"""What no single object of Volcano's shows: pod groups that hold a queue's quota without a pod, and counts that nobody keeps.

``app`` calls ``check_pod_groups`` once all objects were read. The trick to know: a pod group whose owner was scaled to nothing stays ``Inqueue``
and its ``minResources`` stay taken from the queue, so others wait while a dashboard shows room.

Sceptic's command: ``kubectl get podgroups.scheduling.volcano.sh -A | grep Inqueue``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.primitives.instant import AT_OBSERVATION, MINUTE_US, Instant, format_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import instant_of, integer_of, list_of, mapping_of, text_of
from steelyard.sources.shared.resource_amounts import amounts_of, gpu_milli_of, is_accelerator
from steelyard.sources.volcano.gang_message import SOURCE
from steelyard.sources.volcano.identity import short
from steelyard.sources.volcano.pod_groups import QUEUE_DEFAULT

GRACE_US: Final = 10 * MINUTE_US
"""A pod group that was let in has its pods made within seconds; this long it may take."""


def check_pod_groups(
    pod_groups: Sequence[Mapping[str, Any]],
    queues: Sequence[Mapping[str, Any]],
    members: Mapping[tuple[str, str], int] | None,
    ctx: ReadContext,
) -> Iterator[Fact]:
    """Findings ``stale_inqueue_podgroup`` and ``volcano_queue_counters_stale``.

    members: live pods by (namespace, pod group); None where nobody listed the pods, and then no group is called empty.
    """
    if members is not None:
        for group in pod_groups:
            yield from _stale(group, members, ctx)
    yield from _counters(pod_groups, queues, ctx)


def _stale(group: Mapping[str, Any], members: Mapping[tuple[str, str], int], ctx: ReadContext) -> Iterator[Fact]:
    metadata, status = mapping_of(group.get("metadata")), mapping_of(group.get("status"))
    namespace, name = short(metadata.get("namespace")) or "default", short(metadata.get("name"))
    if name is None or status.get("phase") != "Inqueue" or members.get((namespace, name), 0):
        return
    since = _since(metadata, status)
    known = ctx.observed_at != AT_OBSERVATION
    age_us = ctx.observed_at - since if known and since is not None else None
    if age_us is not None and age_us < GRACE_US:
        return
    spec = mapping_of(group.get("spec"))
    demand = amounts_of(spec.get("minResources"), [], "")
    gpu = gpu_milli_of(demand)
    yield ctx.finding(
        SOURCE,
        "stale_inqueue_podgroup",
        f"podgroup {namespace}/{name}",
        "the pod group was let into its queue and has no pod: what it asks for stays taken from the queue",
        evidence={
            "queue": short(spec.get("queue")) or QUEUE_DEFAULT,
            "gpu_milli": gpu,
            "reserved": {key: milli for key, milli in demand.items() if is_accelerator(key)},
            "pods_count": 0,
            "since_utc": format_instant(since) if since is not None else None,
            "age_seconds": age_us // 1_000_000 if age_us is not None else None,
        },
    )


def _since(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> Instant | None:
    """The newest stamp that it has; the phase itself has none."""
    stamps = [
        instant_of(condition.get("lastTransitionTime"), [], "") for condition in list_of(status.get("conditions"))
    ]
    stamps.append(instant_of(metadata.get("creationTimestamp"), [], ""))
    return max((at for at in stamps if at is not None), default=None)


def _counters(
    pod_groups: Sequence[Mapping[str, Any]], queues: Sequence[Mapping[str, Any]], ctx: ReadContext
) -> Iterator[Fact]:
    """A queue that claims fewer pod groups than there are; a part of them may be in another dump, so that more is no contradiction."""
    counted: Counter[tuple[str, str]] = Counter()
    for group in pod_groups:
        named = short(mapping_of(group.get("spec")).get("queue")) or QUEUE_DEFAULT
        phase = text_of(mapping_of(group.get("status")).get("phase")) or "Pending"
        counted[named, phase.lower()] += 1
    if not counted:
        return
    for queue in queues:
        name = short(mapping_of(queue.get("metadata")).get("name"))
        status = mapping_of(queue.get("status"))
        claims = {key: integer_of(status.get(key)) for key in ("pending", "inqueue", "running", "unknown", "completed")}
        wrong = {
            key: {"claimed": claim, "counted": counted[name or "", key]}
            for key, claim in claims.items()
            if claim is not None and claim < counted[name or "", key]
        }
        if name is not None and wrong:
            yield ctx.finding(
                SOURCE,
                "volcano_queue_counters_stale",
                f"queue {name}",
                "the queue's status counts fewer pod groups than there are: the objects are counted, the status is not believed",
                severity="info",
                evidence=wrong,
            )
