"""What was asked for together: Kueue's Workload, Volcano's Job and PodGroup, and the jobs of Ray, JobSet and Kubeflow behind them."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class Gang(Fact, frozen=True, kw_only=True):
    """A group of pods that is asked for as one, as seen once (``occurred_at`` = the snapshot). natural_key: its uid, else
    ``name:<kind>/<namespace>/<name>``.

    object_kind, object_group: ``Workload`` of ``kueue.x-k8s.io``, ``PodGroup`` of ``scheduling.volcano.sh``, ``Job`` of ``batch.volcano.sh``
    ... owner_*: its controller reference (pod groups of Kueue have several pods: the first, and ``members`` has all). queue: the queue it
    names; cluster_queue: the one that admitted it (None: not admitted). priority, priority_class: as it says. pods_count: how many pods in all;
    min_count: how many must run at once, None = all. gpu_milli: what it asks for in all, in thousandths of a card; None = not readable or not
    in cards. demand, admitted: JSON objects resource -> thousandths, asked for and assigned (``admitted`` after reclaim). flavors: JSON object
    resource -> flavor. phase: as written (Volcano), else derived from the conditions: ``pending``, ``reserved``, ``admitted``, ``evicted``,
    ``finished``; of jobs ``suspended``, ``pending``, ``running``, ``restarting``, ``finished`` (Ray's as written).
    outcome: ``succeeded``, ``succeeded_with_failed_pods``, ``failed``, ``replaced``, ``out_of_sync``, ``owner_not_found``, ``aborted``,
    ``terminated`` (a policy or an operator ended it: its pods tell whether by a failure or a preemption); None while it lives.
    active: False = deactivated or suspended. requeue_count, requeue_at: of the back-off. retry_count, retry_max: how often it was started
    anew and may be, None = not told. running_count .. pending_count:
    of its pods, as its status counts tasks. evictions: JSON list of {reason, cause, count}. past_run_us: run time of earlier admissions.
    details: JSON object of the rest.
    """

    TABLE: ClassVar[str] = "gang"

    object_kind: str
    object_group: str = ""
    object_uid: str
    namespace: str
    object_name: str
    owner_kind: str | None = None
    owner_name: str | None = None
    owner_uid: str | None = None
    members: str = "[]"
    queue: str | None = None
    cluster_queue: str | None = None
    priority: int | None = None
    priority_class: str | None = None
    created_at: Instant | None = None
    deletion_at: Instant | None = None
    finished_at: Instant | None = None
    pods_count: int | None = None
    min_count: int | None = None
    gpu_milli: int | None = None
    demand: str = "{}"
    admitted: str = "{}"
    flavors: str = "{}"
    phase: str
    phase_reason: str | None = None
    phase_message: str | None = None
    outcome: str | None = None
    active: bool = True
    requeue_count: int | None = None
    requeue_at: Instant | None = None
    retry_count: int | None = None
    retry_max: int | None = None
    running_count: int | None = None
    succeeded_count: int | None = None
    failed_count: int | None = None
    pending_count: int | None = None
    evictions: str = "[]"
    past_run_us: int | None = None
    details: str = "{}"
