"""Short builders of facts for hand-made cases. Minutes count from 2026-11-30T00:00:00Z."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.grant import Grant
from steelyard.facts.node import Node
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.posting import PostingParameters, PostingResult, post_ledgers
from steelyard.ledgers.registry import HOLDING
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import MINUTE_US, Instant, parse_instant
from steelyard.store import Store

EPOCH = parse_instant("2026-11-30T00:00:00Z")
CARD = "GPU-a"


def at(minute: float) -> Instant:
    return EPOCH + int(minute * MINUTE_US)


def seen(minute: float) -> dict[str, Any]:
    return {"occurred_at": at(minute), "observed_at": at(minute)}


def pod(minute: float = 30, uid: str = "u1", **more: Any) -> Request:
    stamps = {name: at(value) for name, value in more.items() if name.endswith("_at") and value is not None}
    fields: dict[str, Any] = {
        "namespace": "team-a",
        "pod": uid,
        "node": "n1",
        "phase": "Running",
        "created_at": at(0),
        **more,
        **stamps,
    }
    source = fields.pop("source", "kube_api")
    return Request(source=source, natural_key=uid, pod_uid=uid, **fields, **seen(minute))


def grant(minute: float = 30, uid: str = "u1", container: str = "main", **more: Any) -> Grant:
    stamps = {name: at(value) for name, value in more.items() if name.endswith("_at") and value is not None}
    fields: dict[str, Any] = {"scheme": "device_plugin", "source": "kube_api", "node": "n1", **more, **stamps}
    if fields["scheme"] == "device_plugin":
        fields.setdefault("resource_name", "nvidia.com/gpu")
    key = f"{uid}/{container}/{fields.get('device_uuid')}/{fields.get('unit_id')}"
    return Grant(natural_key=key, pod_uid=uid, container=container, **fields, **seen(minute))


def vgpu(
    minute: float = 30,
    uid: str = "u1",
    container: str = "main",
    memory: int | None = 512,
    cores: int | None = 0,
    **more: Any,
) -> Grant:
    fields: dict[str, Any] = {"scheme": "hami", "source": "hami", "device_uuid": CARD, "unit_kind": "vgpu", **more}
    return grant(minute, uid, container, memory_mib=memory, cores_percent=cores, **fields)


def card(minute: float = 30, uuid: str = CARD, **more: Any) -> Device:
    fields: dict[str, Any] = {"source": "nvidia_smi", "node": "n1", "memory_mib": 1024, **more}
    return Device(natural_key=uuid, device_uuid=uuid, **fields, **seen(minute))


def node(minute: float = 30, name: str = "n1", **more: Any) -> Node:
    fields: dict[str, Any] = {"source": "kube_api", "ready": True, **more}
    return Node(natural_key=name, node=name, **fields, **seen(minute))


def listing(minute: float, **more: Any) -> SourceStatus:
    fields: dict[str, Any] = {"source": "kube_api", "kind": "pods", "complete": True, **more}
    return SourceStatus(natural_key="pods/cluster", **fields, **seen(minute))


def post(store: Store, parameters: PostingParameters | None = None) -> PostingResult:
    return post_ledgers(store, parameters or PostingParameters(), clock=FixedClock(at(600)), ledgers=(HOLDING,))


def holdings(facts: Sequence[Fact], parameters: PostingParameters | None = None) -> list[dict[str, Any]]:
    """The ledger's rows after one posting; instants as minutes."""
    with Store.open_memory() as store:
        store.append(facts)
        post(store, parameters)
        rows = store.records("SELECT * FROM ledger.holding ORDER BY started_at, pod_uid, place_id, unit_id, segment")
    for row in rows:
        for name, value in row.items():
            if name.endswith("_at") and value is not None:
                row[name] = (value - _naive_epoch()).total_seconds() / 60
    return rows


def findings(facts: Sequence[Fact]) -> list[tuple[str, str]]:
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        found: list[tuple[str, str]] = store.rows("SELECT code, subject FROM ledger.finding ORDER BY code, subject")
        return found


def _naive_epoch() -> Any:
    from steelyard.primitives.instant import to_datetime

    return to_datetime(EPOCH).replace(tzinfo=None)
