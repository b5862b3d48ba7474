"""Which metrics of Kueue, Volcano and kube-scheduler are read, and what each may be trusted for.

Left out on purpose, because they do not measure what their names say: Volcano's ``e2e_job_scheduling_*`` (observed at every attempt, from the
creation of the job) and its session latencies. Waits come from the objects' own transitions; the histograms here only corroborate.
"""

from __future__ import annotations

from typing import Final

from steelyard.sources.shared.metric_catalogue import COUNTER, GAUGE, HISTOGRAM, Catalogue, Metric

QUEUE: Final = "queue"
SCHEDULER: Final = "scheduler"
MILLI: Final = 1_000
SCALARS: Final = "_scalar_resources"

_KUEUE_COUNTERS: Final = (
    "admission_attempts_total", "quota_reserved_workloads_total", "admitted_workloads_total", "evicted_workloads_total",
    "evicted_workloads_once_total", "preempted_workloads_total", "finished_workloads_total",
)  # fmt: skip
_KUEUE_HISTOGRAMS: Final = (
    "admission_attempt_duration_seconds", "quota_reserved_wait_time_seconds", "admission_wait_time_seconds",
    "admission_checks_wait_time_seconds", "ready_wait_time_seconds", "admitted_until_ready_wait_time_seconds",
    "pods_ready_to_evicted_time_seconds", "workload_eviction_latency_seconds", "execution_time_seconds",
    "pod_scheduling_gate_removal_seconds",
)  # fmt: skip
_KUEUE_GAUGES: Final = (
    "pending_workloads", "finished_workloads", "reserving_active_workloads", "admitted_active_workloads", "cluster_queue_status",
    "unadmitted_workloads", "cluster_queue_resource_pending", "cluster_queue_info", "cohort_info", "cluster_queue_weighted_share",
    "cohort_weighted_share", "cluster_queue_resource_usage", "cluster_queue_resource_reservation", "cluster_queue_nominal_quota",
    "cluster_queue_borrowing_limit", "cluster_queue_lending_limit", "cohort_subtree_quota", "cohort_subtree_resource_reservations",
    "local_queue_status", "local_queue_resource_usage", "local_queue_resource_reservation",
)  # fmt: skip
_PER_LOCAL_QUEUE: Final = frozenset(
    {
        "cluster_queue_status",
        "cluster_queue_info",
        "cohort_info",
        "cluster_queue_weighted_share",
        "cohort_weighted_share",
    }
)
LIMITS: Final = frozenset({"kueue_cluster_queue_borrowing_limit", "kueue_cluster_queue_lending_limit"})
SINCE_V0_19: Final = frozenset({"kueue_unadmitted_workloads"})

_VOLCANO_RESOURCES: Final = ("allocated", "request", "deserved", "capacity", "real_capacity", "inqueue")
_VOLCANO_GAUGES: Final = (
    "queue_share", "queue_weight", "queue_overused", "queue_pod_group_pending_count", "queue_pod_group_inqueue_count",
    "queue_pod_group_running_count", "queue_pod_group_unknown_count", "queue_pod_group_completed_count", "unschedule_task_count",
    "pod_preemption_victims", "vgpu_device_allocated_memory", "vgpu_device_allocated_cores", "vgpu_device_shared_number",
    "vgpu_device_memory_limit", "vgpu_device_memory_allocation_for_a_certain_pod", "vgpu_device_core_allocation_for_a_certain_pod",
)  # fmt: skip
_VOLCANO_COUNTERS: Final = (
    "job_completed_phase_count",
    "job_failed_phase_count",
    "total_preemption_attempts",
    "job_retry_counts",
)


def _kueue() -> list[Metric]:
    metrics = [Metric(f"kueue_{name}", COUNTER, QUEUE) for name in _KUEUE_COUNTERS]
    metrics += [Metric(f"kueue_{name}", HISTOGRAM, QUEUE) for name in _KUEUE_HISTOGRAMS]
    metrics += [Metric(f"kueue_{name}", GAUGE, QUEUE, least=0.0) for name in _KUEUE_GAUGES]
    for kind, names in ((COUNTER, _KUEUE_COUNTERS), (HISTOGRAM, _KUEUE_HISTOGRAMS), (GAUGE, _KUEUE_GAUGES)):
        metrics += [
            Metric(f"kueue_local_queue_{name}", kind, QUEUE)
            for name in names
            if name not in _PER_LOCAL_QUEUE and not name.startswith(("local_queue_", "cluster_queue_", "cohort_"))
        ]
    return metrics


def _volcano() -> list[Metric]:
    metrics = [Metric(f"volcano_{name}", GAUGE, QUEUE) for name in _VOLCANO_GAUGES]
    metrics += [Metric(f"volcano_{name}", COUNTER, QUEUE) for name in _VOLCANO_COUNTERS]
    metrics.append(Metric("volcano_eviction_transactions_total", COUNTER, QUEUE))
    for name in _VOLCANO_RESOURCES:
        metrics.append(Metric(f"volcano_queue_{name}_memory_bytes", GAUGE, QUEUE))
        metrics.append(Metric(f"volcano_queue_{name}_milli_cpu", GAUGE, QUEUE))
        metrics.append(Metric(f"volcano_queue_{name}{SCALARS}", GAUGE, QUEUE))
    return metrics


def _scheduler() -> list[Metric]:
    return [
        Metric("scheduler_pending_pods", GAUGE, SCHEDULER, least=0.0),
        Metric("scheduler_pod_scheduling_sli_duration_seconds", HISTOGRAM, SCHEDULER),
        Metric(
            "scheduler_pod_scheduling_duration_seconds", HISTOGRAM, SCHEDULER
        ),  # another span: it includes the time gated
        Metric("scheduler_pod_scheduling_attempts", HISTOGRAM, SCHEDULER),
        Metric("scheduler_preemption_victims", HISTOGRAM, SCHEDULER),
        Metric("scheduler_schedule_attempts_total", COUNTER, SCHEDULER),
        Metric("scheduler_preemption_attempts_total", COUNTER, SCHEDULER),
        Metric("scheduler_queue_incoming_pods_total", COUNTER, SCHEDULER),
    ]


QUEUE_METRICS: Final = Catalogue([*_kueue(), *_volcano(), *_scheduler()])
