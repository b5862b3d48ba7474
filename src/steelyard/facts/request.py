"""What was asked for: one row per sighting of a pod (or of a trace's task) with the stamps of its life."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class Request(Fact, frozen=True, kw_only=True):
    """A pod as seen once (``occurred_at`` = the snapshot). natural_key: pod_uid.

    phase: Pending, Running, Succeeded, Failed, Unknown. scheduled_at: PodScheduled=True transition. started_at: status.startTime.
    first_container_at, last_container_end_at: over all containers, init included; ended where the phase is terminal.
    init_done_at: when the last plain init container ended; None while one runs or where there is none (init_count says
    which). deletion_at: deletionTimestamp (grace deadline, never the end). gpu_count, memory_mib, cores_percent: what the pod
    asks for in all (count; MiB and percent per device), None where it does not say; gpu_count 0 = asks for no GPU.
    resource_names: the accelerator resources it names, comma separated and sorted. unreachable_toleration_us: how long it
    tolerates an unreachable node, None = without end. rejected: the kubelet refused it (never ran). complete: True where the
    source tells the whole life (a trace), so an end that is missing is not to be inferred. queue: the queue it names.
    outcome: ``pending``, ``running``, ``terminating``, ``succeeded``, ``failed``, ``preempted``, ``evicted``, ``unknown``, by the object alone; None
    = its source does not tell. outcome_by, outcome_cause, outcome_evidence: who ended it, why, by which words. failure_class, failure_owner: of a
    failure (the owner is ``application`` or ``infrastructure``, None = not told). exit_code: of the container that decided it.
    confidence: None = the object was seen, ``backfilled`` = rebuilt afterwards from the history of a Prometheus.
    scheduling_gates: the gates that hold it back from the scheduler, comma separated and sorted.
    cpu_milli: thousandths of a CPU that it asks for in all, None where its source does not tell.
    gpu_exposure: what opens cards to it beside any grant (``visible_all``, ``privileged``, ``host_devices``, ``shim_off``), comma separated and
    sorted. core_policy: ``force``, ``default`` or ``disable`` of HAMi's enforcement of cores, None where it names none.
    """

    TABLE: ClassVar[str] = "request"

    pod_uid: str
    namespace: str
    pod: str
    node: str | None = None
    phase: str
    created_at: Instant | None = None
    scheduled_at: Instant | None = None
    started_at: Instant | None = None
    first_container_at: Instant | None = None
    init_done_at: Instant | None = None
    init_count: int = 0
    last_container_end_at: Instant | None = None
    deletion_at: Instant | None = None
    status_reason: str | None = None
    rejected: bool = False
    scheduler: str | None = None
    queue: str | None = None
    priority: int | None = None
    gpu_count: int | None = 0
    memory_mib: int | None = None
    cores_percent: int | None = None
    gpu_milli: int | None = None
    gpu_model: str | None = None
    resource_names: str = ""
    unreachable_toleration_us: int | None = 300_000_000
    qos: str | None = None
    confidence: str | None = None
    outcome: str | None = None
    outcome_by: str | None = None
    outcome_cause: str | None = None
    outcome_evidence: str | None = None
    failure_class: str | None = None
    failure_owner: str | None = None
    exit_code: int | None = None
    scheduling_gates: str = ""
    cpu_milli: int | None = None
    gpu_exposure: str = ""
    core_policy: str | None = None
