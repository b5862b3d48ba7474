"""Two queues that can be checked by hand, and the same with everything that may go wrong in them."""

from __future__ import annotations

from typing import Any

from tests.answers.estate import Estate, at


def queue_story() -> Estate:
    """``main`` served two of three, ``lab`` one."""
    estate = Estate()
    estate.listing(at("08:00"))
    estate.listing(at("12:00"))
    for name, queue, gpus, end in (
        ("a/one", "main", 1, "08:10"), ("a/two", "main", 4, "08:30"), ("a/stuck", "main", 32, None), ("b/lab", "lab", 1, "10:00")
    ):  # fmt: skip
        estate.demand(name, queue, gpus, priority=50 if name == "b/lab" else 10)
        estate.wait(name, "08:00", end, queue, gpus, fit="never_fits" if end is None else None)
    return estate


def crowded_story() -> Estate:
    """Six requests in two queues: who can never fit, a preemption with two preemptors named, refusals, gangs, ends."""
    estate = queue_story()
    for kind in ("audit", "events", "gangs", "queues"):
        estate.insert("dim.evidence_span", cluster="default", kind=kind, first_at=at("08:00"), last_at=at("12:00"))
    for name, gpus in (("b/huge", 12), ("b/new", 1)):
        estate.demand(name, "lab", gpus)
        estate.wait(
            name,
            "11:00",
            None,
            "lab",
            gpus,
            fit="never_fits" if gpus > 8 else None,
            cause="quota" if gpus > 8 else None,
        )
    estate.insert(
        "dim.quota_fit", cluster="default", demand_id="id-huge", queue="lab", resource="nvidia.com/gpu", asked_milli=12_000, limit_milli=8_000,
        fit="never_fits",
    )  # fmt: skip
    _quota(estate)
    _words(estate)
    _gangs(estate)
    for name, outcome in (("one", "succeeded"), ("two", "failed"), ("lab", "replaced")):
        estate.insert("dim.outcome", cluster="default", demand_id=f"id-{name}", outcome=outcome, ended_at=at("11:00"))
    estate.insert(
        "dim.eviction",
        cluster="default",
        demand_id="id-two",
        reason="Preempted",
        evictions_count=2,
        basis="counted",
        last_at=at("09:00"),
    )
    for code, subject in (
        ("leaked_reservation", "workload a/two"),
        ("stale_cluster_queue_status", "clusterqueue lab"),
        ("odd", "pod a/x"),
    ):
        estate.insert("ledger.finding", code=code, severity="warning", subject=subject, message="said")
    return estate


def _quota(estate: Estate) -> None:
    for queue, nominal, capacity in (("main", 8_000, None), ("lab", 4_000, 8_000)):
        estate.insert(
            "dim.quota_now", cluster="default", queue_kind="cluster_queue", queue=queue, resource="nvidia.com/gpu", nominal_milli=nominal,
            max_capacity_milli=capacity, reserved_milli=4_000, used_milli=3_000, borrowed_milli=0, reserved_not_used_milli=1_000, leaked_milli=0,
            used_basis="holding", said_at=at("12:00"),
        )  # fmt: skip


def _words(estate: Estate) -> None:
    estate.insert(
        "dim.preemption", cluster="default", preempted_at=at("09:00"), time_basis="stated", decided_by="kueue", cause="reclaim",
        victim_demand_id="id-two", victim_kind="Workload", victim_namespace="a", victim_name="two", victim_queue="main", victim_priority=10,
        victim_gpu_milli=4_000, victim_tenant="a", pods_count=0, preemptor_demand_id="id-lab", preemptor_uid="id-lab", preemptor_namespace="b",
        preemptor_name="lab", preemptor_queue="lab", preemptor_priority=50, preemptor_tenant="b", preemptor_uids_count=2,
        evidence="condition, victim_event", words_count=2,
    )  # fmt: skip
    refused: dict[str, Any] = {
        "cluster": "default",
        "namespace": "a",
        "tenant": "a",
        "subject_kind": "Pod",
        "first_at": at("09:00"),
        "last_at": at("09:30"),
    }
    estate.insert(
        "dim.refusal", **refused, refused_by="quota", verb="create", rule="gpus", quota="gpus", demand_key="ReplicaSet web",
        resource="nvidia.com/gpu", asked_milli=4_000, used_milli=6_000, limit_milli=8_000, message="exceeded quota", times=40, is_demand=True,
    )  # fmt: skip
    estate.insert(
        "dim.refusal", **refused, refused_by="disruption_budget", verb="evict", demand_key="Pod two-0", message="needs 1 healthy pod", times=1,
        is_demand=False,
    )  # fmt: skip
    estate.insert(
        "fact.decision", cluster="default", source="kueue", natural_key="d1", fact_id="d1", occurred_at=at("09:00"), observed_at=at("12:00"),
        subject_kind="Workload", subject_uid="id-stuck", namespace="a", subject_name="stuck", decided_by="kueue", verdict="never_fits", cause="quota",
        rule="ExceedsMaxQuota", resource="nvidia.com/gpu", asked_milli=32_000, limit_milli=8_000, count=9, evidence="event", details="{}",
    )  # fmt: skip


def _gangs(estate: Estate) -> None:
    """``half`` needs two and one runs; ``adrift`` was admitted, and nobody could place its pods."""
    estate.demand(
        "c/half",
        None,
        2,
        demand_kind="pod_group",
        demand_id="id-half",
        least_count=2,
        pods_count=2,
        pods_seen_count=2,
        scheduler="volcano",
    )
    estate.pod("c/half-0", "c", 1)
    estate.hold("c/half-0", "GPU-aaaaaaaa-0001", "10:00", None)
    estate.insert(
        "dim.demand_pod", cluster="default", pod_uid="uid-half-0", demand_id="id-half", demand_kind="pod_group"
    )
    estate.demand("c/adrift", "main", 2, least_count=2, pods_count=2, pods_seen_count=2, phase="admitted")
    estate.wait("c/adrift", "09:00", None, "main", 2, stage="scheduler", cause="capacity", fit="not_now")
