"""Short builders of what queues tell, for hand-made cases. Seconds count from 2026-11-30T00:00:00Z; a workload is ``team-a/w1``, uid ``w1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.facts.gang import Gang
from steelyard.facts.transition import Transition
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import WAIT, Ledger
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import SECOND_US, Instant, parse_instant
from steelyard.store import Store

EPOCH: Final = parse_instant("2026-11-30T00:00:00Z")
WAIT_ONLY: Final[tuple[Ledger, ...]] = (WAIT,)


def at(second: float) -> Instant:
    return EPOCH + round(second * SECOND_US)


def stamps(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: at(value) if name.endswith("_at") and value is not None else value for name, value in fields.items()}


def workload(seen: float, uid: str = "w1", created: float | None = 0, **more: Any) -> Gang:
    fields: dict[str, Any] = {
        "object_kind": "Workload", "object_group": "kueue.x-k8s.io", "namespace": "team-a", "object_name": uid, "queue": "main",
        "cluster_queue": "gpus", "gpu_milli": 8000, "pods_count": 2, "phase": "pending", "created_at": created, **more,
    }  # fmt: skip
    return Gang(
        source="kueue", natural_key=uid, object_uid=uid, occurred_at=at(seen), observed_at=at(seen), **stamps(fields)
    )


def evicted(count: int, reason: str = "Preempted") -> str:
    return f'[{{"reason": "{reason}", "cause": "", "count": {count}}}]'


def condition(second: float, item: str, value: str = "True", uid: str = "w1", **more: Any) -> Transition:
    fields: dict[str, Any] = {
        "source": "kube_api", "object_kind": "Workload", "object_group": "kueue.x-k8s.io", "namespace": "team-a",
        "object_name": uid.removeprefix("name:team-a/"), "item": item, "value": value, "observed_at": second, **more,
    }  # fmt: skip
    key = f"{uid}/condition/{item}/{value}/{second}/{fields.get('message', '')}"
    return Transition(natural_key=key, object_uid=uid, occurred_at=at(second), **stamps(fields))


def told(
    second: float, uid: str, value: str, kind: str = "Job", group: str = "batch.volcano.sh", **more: Any
) -> Transition:
    """A phase of a Volcano object."""
    return Transition(
        source="kube_api", natural_key=f"{uid}/phase/{value}/{second}", object_uid=uid, object_kind=kind, object_group=group,
        namespace="team-a", object_name=uid, aspect="phase", value=value, occurred_at=at(second), observed_at=at(second), **more,
    )  # fmt: skip


def decision(second: float, verdict: str, uid: str | None = "w1", name: str = "w1", **more: Any) -> Decision:
    fields: dict[str, Any] = {
        "source": "kueue",
        "subject_kind": "Workload",
        "namespace": "team-a",
        "evidence": "event",
        **more,
    }
    return Decision(
        natural_key=f"{uid}/{verdict}/{second}", subject_uid=uid, subject_name=name, verdict=verdict, occurred_at=at(second),
        observed_at=at(second), **fields,
    )  # fmt: skip


def second_of(value: Any) -> float | None:
    from steelyard.primitives.instant import to_datetime

    return None if value is None else (value - to_datetime(EPOCH).replace(tzinfo=None)).total_seconds()


def post(store: Store) -> None:
    post_ledgers(store, PostingParameters(), clock=FixedClock(at(10**6)), ledgers=WAIT_ONLY)


def rows_of(
    store: Store, table: str = "ledger.wait", order: str = "demand_id, started_at, stage"
) -> list[dict[str, Any]]:
    """Rows with instants as seconds."""
    rows = store.records(f"SELECT * FROM {table} ORDER BY {order}")
    return [
        {name: second_of(value) if name.endswith("_at") or name == "at" else value for name, value in row.items()}
        for row in rows
    ]


def segments(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """The ledger after one posting of these facts."""
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        return rows_of(store)


def lines(facts: Sequence[Fact], *stages: str) -> list[tuple[Any, ...]]:
    """(stage, started, ended, ended by, why unknown) of each row of these stages, all where none is named."""
    return [
        (row["stage"], row["started_at"], row["ended_at"], row["ended_by"], row["unknown_reason"])
        for row in segments(facts)
        if not stages or row["stage"] in stages
    ]
