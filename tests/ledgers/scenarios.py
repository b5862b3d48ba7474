"""Random small worlds: a few pods on a shared and a plain node, seen by a few snapshots, some stamps missing, some wrong."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.grant import Grant
from steelyard.facts.node import Node
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.request import Request
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.instant import MINUTE_US, Instant, parse_instant

EPOCH = parse_instant("2026-11-30T00:00:00Z")
SHARED_NODE, PLAIN_NODE = "shared-node", "plain-node"
SHARED_CARDS = ("GPU-s0", "GPU-s1")
PLAIN_CARDS = ("GPU-p0", "GPU-p1")
MEMORY_MIB = 1024
MINUTES = st.integers(0, 40)


def at(minute: int) -> Instant:
    return EPOCH + minute * MINUTE_US


@dataclass(frozen=True)
class ContainerPlan:
    name: str
    kind: str
    card: str
    memory_mib: int
    cores_percent: int
    asked_memory_mib: int | None
    asked_cores_percent: int | None
    quantity: int


@dataclass(frozen=True)
class PodPlan:
    number: int
    name: str
    shared: bool
    created: int
    bind: int | None
    end: int | None
    gone: int
    init_done: int | None
    stamps: frozenset[str]
    early: frozenset[str]
    rejected: bool
    listed_by_kubelet: bool
    containers: tuple[ContainerPlan, ...]
    claim_state: str
    kubelet_card: str
    uid: str = field(default="")


@dataclass(frozen=True)
class Scenario:
    pods: tuple[PodPlan, ...]
    snapshots: tuple[int, ...]
    complete: bool
    replicas: int | None
    processes: tuple[tuple[int, int, str], ...]

    def facts(self) -> list[Fact]:
        facts: list[Fact] = []
        for minute in self.snapshots:
            facts += _snapshot(self, minute)
        for number, minute, card in self.processes:
            facts.append(
                ProcessSample(
                    source="nvidia_smi", natural_key=f"{card}/{number}", occurred_at=at(minute), observed_at=at(minute), device_uuid=card,
                    pid=number, pod_uid=f"uid-{number}",
                )
            )  # fmt: skip
        return facts


STAMPS = (
    "scheduled_at",
    "bound_at",
    "started_at",
    "first_container_at",
    "reserved_at",
    "last_container_end_at",
    "created_at",
)


@st.composite
def containers(draw: st.DrawFn, shared: bool) -> tuple[ContainerPlan, ...]:
    plans = []
    for number in range(draw(st.sampled_from([3, 2, 1]))):
        memory, cores = draw(st.integers(0, MEMORY_MIB)), draw(st.sampled_from([0, 10, 50, 100]))
        plans.append(
            ContainerPlan(
                f"c{number}",
                draw(st.sampled_from(["app", "init", "app", "sidecar"])),
                draw(st.sampled_from(SHARED_CARDS if shared else PLAIN_CARDS)),
                memory,
                cores,
                draw(st.sampled_from([memory, None, memory, memory, memory + 1, max(0, memory - 1)])),
                draw(st.sampled_from([cores, None, cores, cores, cores + 1, max(0, cores - 1)])),
                draw(st.integers(1, 3)),
            )
        )
    return tuple(plans)


@st.composite
def pods(draw: st.DrawFn, number: int) -> PodPlan:
    shared = draw(st.booleans())
    created = draw(st.integers(0, 20))
    bind = draw(st.sampled_from([created, created + 1, created + 3, created + 9, None]))
    end = draw(st.none() | st.integers((bind if bind is not None else created) + 1, 40))
    return PodPlan(
        number,
        f"pod-{draw(st.integers(0, 2))}",
        shared,
        created,
        bind,
        end,
        draw(st.sampled_from([45, 45, created + 1, created + 10, created + 20])),
        draw(st.none() | MINUTES),
        frozenset(STAMPS) - draw(st.frozensets(st.sampled_from(STAMPS), max_size=3)),
        draw(st.sampled_from([frozenset()] * 4 + [frozenset({name}) for name in STAMPS[:5]])),
        draw(st.sampled_from([False, False, False, False, True])),
        draw(st.booleans()),
        draw(containers(shared)),
        draw(st.sampled_from(["accepted"] * 7 + ["suspect", "unreadable", "rejected"])),
        draw(st.sampled_from(SHARED_CARDS if shared else PLAIN_CARDS)),
    )


def one_at_a_time(plans: tuple[PodPlan, ...]) -> tuple[PodPlan, ...]:
    """No two pods of one name live at once: the older one is gone when the next is made."""
    alone = []
    for plan in plans:
        later = [other.created for other in plans if other.name == plan.name and other.created > plan.created]
        twins = [other for other in plans if (other.name, other.created) == (plan.name, plan.created)]
        name = plan.name if len(twins) == 1 else f"{plan.name}-{plan.number}"
        alone.append(replace(plan, name=name, gone=min([plan.gone, *later])))
    return tuple(alone)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    plans = one_at_a_time(tuple(draw(pods(number)) for number in range(draw(st.sampled_from([3, 2, 4, 1])))))
    return Scenario(
        plans,
        tuple(sorted(draw(st.sets(MINUTES, min_size=2, max_size=4)))),
        draw(st.sampled_from([True, True, False])),
        draw(st.sampled_from([None, 1, 3])),
        tuple(
            draw(
                st.lists(
                    st.tuples(st.integers(0, len(plans) - 1), MINUTES, st.sampled_from(SHARED_CARDS + PLAIN_CARDS)),
                    max_size=3,
                )
            )
        ),
    )


def _snapshot(scenario: Scenario, minute: int) -> list[Fact]:
    now = {"occurred_at": at(minute), "observed_at": at(minute)}
    present = [plan for plan in scenario.pods if plan.created <= minute < plan.gone]
    facts: list[Fact] = [
        SourceStatus(source="kube_api", natural_key="pods/cluster", kind="pods", complete=scenario.complete, **now),
        Node(source="kube_api", natural_key=PLAIN_NODE, node=PLAIN_NODE, ready=True, replicas=scenario.replicas, **now),
        Node(source="kube_api", natural_key=SHARED_NODE, node=SHARED_NODE, ready=True, **now),
    ]
    facts += [
        Device(
            source="hami", natural_key=card, device_uuid=card, node=SHARED_NODE, memory_mib=MEMORY_MIB, mode="hami-core", healthy=True,
            slots_count=10, basis="vendor_register", **now,
        )
        for card in SHARED_CARDS
    ]  # fmt: skip
    facts += [
        Device(source="nvidia_smi", natural_key=card, device_uuid=card, node=PLAIN_NODE, memory_mib=MEMORY_MIB, **now)
        for card in PLAIN_CARDS
    ]
    for plan in present:
        facts.append(_request(plan, minute, now))
        if scenario.complete:
            facts.append(
                Sighting(
                    source="kube_api",
                    natural_key=f"uid-{plan.number}",
                    object_kind="pod",
                    object_uid=f"uid-{plan.number}",
                    **now,
                )
            )
        facts += _grants(plan, minute, now)
    return facts


def _stamp(plan: PodPlan, name: str, minute: int | None) -> Instant | None:
    if minute is None or name not in plan.stamps:
        return None
    return at(plan.created) - MINUTE_US if name in plan.early else at(minute)


def _request(plan: PodPlan, minute: int, now: dict[str, Any]) -> Request:
    bound = plan.bind is not None and plan.bind <= minute
    over = plan.end is not None and plan.end <= minute
    bind = plan.bind if bound else None
    phase = "Failed" if plan.rejected and bound else "Succeeded" if over else "Running" if bound else "Pending"
    return Request(
        source="kube_api",
        natural_key=f"uid-{plan.number}",
        pod_uid=f"uid-{plan.number}",
        namespace="team",
        pod=plan.name,
        node=(SHARED_NODE if plan.shared else PLAIN_NODE) if bound else None,
        phase=phase,
        created_at=at(plan.created),
        scheduled_at=_stamp(plan, "scheduled_at", bind),
        started_at=_stamp(plan, "started_at", bind),
        first_container_at=_stamp(plan, "first_container_at", bind),
        init_done_at=at(plan.init_done) if plan.init_done is not None and plan.init_done <= minute else None,
        last_container_end_at=_stamp(plan, "last_container_end_at", plan.end if over else None),
        rejected=plan.rejected and bound,
        **now,
    )


def _grants(plan: PodPlan, minute: int, now: dict[str, Any]) -> list[Fact]:
    bound = plan.bind is not None and plan.bind <= minute
    uid, node = f"uid-{plan.number}", SHARED_NODE if plan.shared else PLAIN_NODE
    grants: list[Fact] = []
    for container in plan.containers:
        common: dict[str, Any] = {"container": container.name, "container_kind": container.kind, "node": node, **now}
        if plan.shared:
            readable = plan.claim_state != "unreadable"
            grants.append(
                Grant(
                    source="hami", natural_key=f"{uid}/{container.name}/0", pod_uid=uid, scheme="hami",
                    device_uuid=container.card if readable else None, unit_kind="vgpu", memory_mib=container.memory_mib if readable else None,
                    cores_percent=container.cores_percent if readable else None, requested_memory_mib=container.asked_memory_mib,
                    requested_cores_percent=container.asked_cores_percent, reserved_at=_stamp(plan, "reserved_at", plan.created),
                    bound_at=_stamp(plan, "bound_at", plan.bind if bound else None), bind_basis="hami.io/bind-time",
                    claim_state=plan.claim_state, **common,
                )
            )  # fmt: skip
        if bound:
            grants.append(
                Grant(
                    source="kube_api", natural_key=f"{uid}/{container.name}/nvidia.com/gpu", pod_uid=uid, scheme="device_plugin",
                    resource_name="nvidia.com/gpu", quantity=1 if plan.shared else container.quantity,
                    claim_state="rejected" if plan.rejected else "accepted", **common,
                )
            )  # fmt: skip
            if plan.listed_by_kubelet and container.kind != "init":
                grants.append(
                    Grant(
                        source="pod_resources", natural_key=f"{plan.name}/{container.name}", pod_uid=f"name:team/{plan.name}",
                        scheme="pod_resources", device_uuid=plan.kubelet_card, unit_kind="gpu", **common,
                    )
                )  # fmt: skip
    return grants
