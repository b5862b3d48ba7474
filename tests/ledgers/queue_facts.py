"""Queues, quotas, preemptions and audit events for hand-made cases, beside ``wait_facts``. Seconds count from its EPOCH."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from steelyard.facts.audit_event import AuditEvent
from steelyard.facts.base import Fact
from steelyard.facts.preemption import Preemption
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import BREACH, HOLDING, QUOTA, WAIT, Ledger
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.ledgers.wait_facts import at, condition, workload

AUDITED: Final[tuple[Ledger, ...]] = (HOLDING, WAIT, QUOTA, BREACH)


def queue(name: str = "gpus", strategy: str | None = None, seen: float = 0, **more: Any) -> Queue:
    """A cluster queue; ``preemption``: its policies."""
    policies = {"preemption": more.pop("preemption")} if "preemption" in more else {}
    policies |= more.pop("policies", {})
    fields: dict[str, Any] = {"source": "kueue", "queue_kind": "cluster_queue", "state": "active", **more}
    return Queue(
        natural_key=f"{fields['queue_kind']}/{name}", queue=name, strategy=strategy, policies=json.dumps(policies), occurred_at=at(seen),
        observed_at=at(seen), **fields,
    )  # fmt: skip


def quota(seen: float = 0, name: str = "gpus", flavor: str | None = "h100", **more: Any) -> Quota:
    fields: dict[str, Any] = {"source": "kueue", "queue_kind": "cluster_queue", "resource": "nvidia.com/gpu", **more}
    return Quota(
        natural_key=f"{name}/{flavor}/{fields['resource']}", queue=name, flavor=flavor, occurred_at=at(seen), observed_at=at(seen),
        **fields,
    )  # fmt: skip


def asked(
    uid: str, created: float, reserved: float | None, gpus: int = 8, seen: float = 1000, **more: Any
) -> list[Fact]:
    """A workload that was last seen at ``seen``, with its reservation. ``cpu``: cores; ``flavor``: given where it was reserved."""
    demand = {"nvidia.com/gpu": gpus * 1000, "cpu": more.pop("cpu", 4) * 1000}
    flavor = more.pop("flavor", "h100")
    fields: dict[str, Any] = {
        "gpu_milli": gpus * 1000, "demand": json.dumps(demand), "phase": "pending" if reserved is None else "admitted",
        "flavors": json.dumps({"nvidia.com/gpu": flavor}) if reserved is not None else "{}", **more,
    }  # fmt: skip
    found: list[Fact] = [workload(seen, uid, created, **fields)]
    return found if reserved is None else [*found, condition(reserved, "QuotaReserved", uid=uid)]


def preemption(second: float, victim: str = "w1", by: str | None = "w2", **more: Any) -> Preemption:
    fields: dict[str, Any] = {
        "source": "kueue", "decided_by": "kueue", "cause": "priority", "victim_kind": "Workload", "victim_uid": victim,
        "victim_namespace": "team-a", "victim_name": victim, "preemptor_kind": "Workload" if by else None, "preemptor_uid": by, **more,
    }  # fmt: skip
    key = f"{victim}/{second}/{fields.get('evidence', 'condition')}"
    return Preemption(natural_key=key, occurred_at=at(second), observed_at=at(second), **fields)


def audited(
    second: float, verb: str, resource: str, name: str | None, user: str = "ann@example.com", **more: Any
) -> AuditEvent:
    """One answered request; ``spec``, ``spec_after``: of its bodies."""
    details = {key: more.pop(key) for key in ("spec", "spec_after", "cut") if key in more}
    groups = {
        "clusterqueues": "kueue.x-k8s.io",
        "queues": "scheduling.volcano.sh",
        "jobs": "batch",
        "rayjobs": "ray.io",
    }
    fields: dict[str, Any] = {
        "source": "audit_log", "stage": "ResponseComplete", "response_code": 201 if verb == "create" else 200,
        "api_group": groups.get(resource), **more,
    }  # fmt: skip
    key = f"{resource}/{name}/{second}/{verb}"
    return AuditEvent(
        natural_key=f"{key}/ResponseComplete", audit_id=key, verb=verb, user=user, resource=resource, name=name, occurred_at=at(second),
        observed_at=at(second), details=json.dumps(details), **fields,
    )  # fmt: skip


def posted(
    facts: Sequence[Fact], parameters: PostingParameters | None = None, ledgers: Sequence[Ledger] = AUDITED
) -> Store:
    """A store in memory over which the ledgers were posted once."""
    store = Store.open_memory()
    store.append(facts)
    post_ledgers(store, parameters or PostingParameters(), clock=FixedClock(at(10**6)), ledgers=ledgers)
    return store
