"""The cluster's life as an event loop: arrivals, binding, ends, deletions, a lost card and a lost node.

The trick to know: what falls after the last snapshot is never carried out, so the truth holds only what happened by then, and a
pod that still runs has no end.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from steelyard.primitives.instant import HOUR_US, MINUTE_US, SECOND_US, Instant
from steelyard.simulation.demand import JOB, NOTEBOOK, SERVICE, Demand
from steelyard.simulation.estate import random_uuid
from steelyard.simulation.placement import Pool, pool_of
from steelyard.simulation.queues import queue_of
from steelyard.simulation.spec import SimulationSpec
from steelyard.simulation.truth import TIME_SLICING, WHOLE, GrantTruth, Happening, Node, Pod, UsePhase

TOLERATION_US: Final = 300 * SECOND_US
QUIET_US: Final = 10 * MINUTE_US
"""Nothing is bound so shortly before the end: whatever a binding leads to lies within the simulation."""

_RECLAIM_US: Final = 7 * SECOND_US
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


class Life:
    """Runs the demands through the nodes. After ``run``, ``pods`` and ``happenings`` are the truth and ``nodes`` bear their losses.

    ``requests``: what was asked of a queue. A pod is made of it when the queue lets it in, which is when its cards are free: some are not among
    ``pods``. The first that finds none free, and nobody waiting before it, has cards of the other queue's reclaimed, where there are such.
    """

    def __init__(self, spec: SimulationSpec, nodes: list[Node], demands: list[Demand]) -> None:
        self.pods: list[Pod] = []
        self.requests: list[Pod] = []
        self.happenings: list[Happening] = []
        self.nodes = nodes
        self._spec = spec
        self._rng = spec.stream("life")
        self._pools: dict[str, Pool] = {node.name: pool_of(node) for node in nodes}
        self._waiting: dict[str, list[tuple[Pod, Demand]]] = defaultdict(list)
        self._held: dict[str, tuple[Pod, Demand]] = {}
        self._names: set[tuple[str, str]] = set()
        self._devices = {device.uuid: device for node in nodes for device in node.devices}
        self._queue: list[tuple[Instant, int, Callable[[Instant], None]]] = []
        self._pid = 20_000
        self._sequence = 0
        self._has_reclaimed = False
        for demand in demands:
            self._at(demand.at, lambda now, demand=demand: self._arrive(now, demand))  # type: ignore[misc]  # a default that binds the loop's value
        self._plan_losses()

    def run(self) -> None:
        """Everything up to and including the last snapshot."""
        while self._queue and self._queue[0][0] <= self._spec.end_at:
            now, _, action = heapq.heappop(self._queue)
            action(now)

    def _at(self, when: Instant, action: Callable[[Instant], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (when, self._sequence, action))

    # -- arrivals

    def _arrive(self, now: Instant, demand: Demand) -> None:
        pod = self._new_pod(now, demand)
        if (pod.namespace, pod.name) in self._names:
            return
        self._names.add((pod.namespace, pod.name))
        (self.requests if pod.queue is not None else self.pods).append(pod)
        if demand.fate == "rejected":
            self._reject(now, pod, demand)
        elif demand.fate == "never_scheduled" or not self._place(now, pod, demand):
            if pod.queue is not None and not (self._has_reclaimed or self._waiting[demand.pool]):
                self._reclaim(now, pod)
            self._waiting[demand.pool].append((pod, demand))
            self._at(now + demand.patience, lambda at: self._give_up(at, pod, demand))

    def _reclaim(self, now: Instant, asking: Pod) -> None:
        """Asks the youngest job of the other queue that has run for a while, and has the cards, to go; the queues' shares must allow it."""
        queued = [pod for pod, _ in self._held.values() if pod.queue is not None]
        theirs = [pod for pod in queued if queue_of(pod.namespace) != queue_of(asking.namespace)]
        cards = sum(len(node.devices) for node in self.nodes if node.kind == WHOLE)
        own = sum(pod.gpus for pod in queued) - sum(pod.gpus for pod in theirs)
        settled = [
            pod
            for pod in theirs
            if pod.gpus >= asking.gpus
            and pod.deletion_asked_at is None
            and pod.running_at is not None
            and pod.running_at + 10 * MINUTE_US < now < self._spec.end_at - QUIET_US
        ]
        if settled and sum(pod.gpus for pod in theirs) > 1 and own + asking.gpus < cards:
            victim = max(settled, key=lambda pod: (pod.created_at, pod.uid))
            victim.deletion_asked_at, self._has_reclaimed = now, True
            self._at(now + _RECLAIM_US, lambda at: self._vanish(at, victim, "deleted"))

    def _new_pod(self, now: Instant, demand: Demand) -> Pod:
        rng = self._rng
        tail = "".join(rng.choices(_ALPHABET, k=5))
        name = f"{demand.name}-0" if demand.workload == NOTEBOOK else f"{demand.name}-{tail}"
        if demand.workload == SERVICE:
            name = f"{demand.name}-{''.join(rng.choices(_ALPHABET, k=9))}-{tail}"
        return Pod(
            uid=random_uuid(rng),
            namespace=demand.namespace,
            name=name,
            kind=demand.pool,
            workload_kind=demand.workload,
            workload_name=demand.name,
            owner_uid=random_uuid(rng),
            queue=f"{demand.namespace}-batch" if is_queued(demand) else None,
            asked_at=now - SECOND_US if is_queued(demand) else None,
            created_at=now,
            gpus=demand.gpus,
            fate="never_scheduled",
            init_container=demand.init_container,
            sidecar_containers=demand.sidecar_containers,
            memory_mib=demand.memory_mib,
            cores_percent=demand.cores_percent,
            profile=demand.profile,
        )

    def _place(self, now: Instant, pod: Pod, demand: Demand) -> bool:
        if now > self._spec.end_at - QUIET_US:
            return False
        for node in self.nodes:
            if node.kind != demand.pool or (node.not_ready_at is not None and node.not_ready_at <= now):
                continue
            grants = self._pools[node.name].take(demand)
            if grants is not None:
                pod.node, pod.grants = node.name, grants
                self._held[pod.uid] = (pod, demand)
                if pod.queue is not None:
                    pod.created_at = now
                    self.pods.append(pod)
                self._bind(now, pod, demand)
                return True
        return False

    def _bind(self, now: Instant, pod: Pod, demand: Demand) -> None:
        rng = self._rng
        shared = demand.memory_mib is not None
        pod.filtered_at = now + SECOND_US if shared else None
        if demand.fate == "reserved":
            pod.fate = "reserved"
            self._at(now + demand.keeps, lambda at: self._remove(at, pod))
            return
        pod.fate = "running"
        pod.bound_at = now + rng.randrange(2, 4) * SECOND_US
        pod.running_at = pod.bound_at + rng.randrange(4, 120) * SECOND_US
        if demand.restarts:
            pod.restarted_at = pod.running_at + demand.lasts // 2 // SECOND_US * SECOND_US
        pod.pids = [self._next_pid() for _ in pod.grants]
        pod.phases = self._phases(pod, demand)
        self._at(pod.running_at + demand.lasts, lambda at: self._end(at, pod, demand))

    def _next_pid(self) -> int:
        self._pid += 7
        return self._pid

    def _phases(self, pod: Pod, demand: Demand) -> list[UsePhase]:
        rng = self._rng
        start = pod.running_at or 0
        cap = min(_memory_cap_mib(grant, self._devices[grant.device_uuid].memory_mib, pod.kind) for grant in pod.grants)
        phases = [UsePhase(start, cap * rng.randrange(10, 35) // 100, rng.randrange(0, 6))]
        steady = start + rng.randrange(2, 20) * MINUTE_US
        for number in range(rng.choice((1, 2, 4))):
            at = steady + number * (demand.lasts // 5) // SECOND_US * SECOND_US
            phases.append(UsePhase(at, cap * rng.randrange(35, 94) // 100, _util_percent(rng, demand.workload)))
        return phases

    def _reject(self, now: Instant, pod: Pod, demand: Demand) -> None:
        alive = [node for node in self.nodes if node.kind == demand.pool and node.not_ready_at is None]
        pod.fate = "rejected"
        pod.node = self._rng.choice(alive).name
        pod.bound_at = now + SECOND_US
        self._at(now + demand.keeps, lambda at: self._remove(at, pod))

    # -- ends

    def _end(self, now: Instant, pod: Pod, demand: Demand) -> None:
        node = next(node for node in self.nodes if node.name == pod.node)
        if pod.ended_at is not None or pod.removed_at is not None:
            return
        if node.not_ready_at is not None and node.not_ready_at <= now:
            return
        if demand.fate == "deleted":
            pod.deletion_asked_at = now
            self._at(now + self._rng.randrange(2, 31) * SECOND_US, lambda at: self._vanish(at, pod, "deleted"))
        else:
            self._finish(now, pod, demand, demand.fate)

    def _finish(self, now: Instant, pod: Pod, demand: Demand, fate: str) -> None:
        pod.ended_at, pod.fate = now, fate
        self._at(now + demand.keeps, lambda at: self._remove(at, pod))
        self._release(now, pod)

    def _vanish(self, now: Instant, pod: Pod, fate: str) -> None:
        if pod.removed_at is not None:
            return
        if pod.ended_at is None:
            pod.ended_at, pod.fate = now, fate
        self._remove(now, pod)

    def _remove(self, now: Instant, pod: Pod) -> None:
        if pod.removed_at is None:
            pod.removed_at = now
            self._names.discard((pod.namespace, pod.name))
        self._release(now, pod)

    def _give_up(self, now: Instant, pod: Pod, demand: Demand) -> None:
        if (pod, demand) in self._waiting[demand.pool]:
            self._waiting[demand.pool].remove((pod, demand))
            self._remove(now, pod)

    def _release(self, now: Instant, pod: Pod) -> None:
        held = self._held.pop(pod.uid, None)
        if held is None or pod.node is None:
            return
        self._pools[pod.node].give_back(pod.grants)
        waiting = self._waiting[held[1].pool]
        for entry in list(waiting):
            if entry[1].fate != "never_scheduled" and self._place(now, *entry):
                waiting.remove(entry)

    # -- losses

    def _plan_losses(self) -> None:
        length = self._spec.end_at - self._spec.start_at
        whole = [node for node in self.nodes if node.kind == WHOLE]
        if whole:
            lost_at = self._spec.start_at + int(0.3 * length) // SECOND_US * SECOND_US + 777 * SECOND_US
            self._at(lost_at, lambda now: self._lose_card(now, whole[0]))
        if len(whole) > 1:
            down_at = self._spec.start_at + int(0.55 * length) // SECOND_US * SECOND_US + 1234 * SECOND_US
            self._at(down_at, lambda now: self._lose_node(now, whole[1]))

    def _lose_card(self, now: Instant, node: Node) -> None:
        settled = [
            (pod, demand)
            for pod, demand in self._held.values()
            if pod.node == node.name and pod.running_at is not None and pod.running_at + 10 * MINUTE_US < now
        ]
        victims = sorted(settled, key=lambda entry: (entry[0].deletion_asked_at is not None, entry[0].created_at))[:1]
        device_uuid = victims[0][0].grants[-1].device_uuid if victims else node.devices[-1].uuid
        self._pools[node.name].lose(device_uuid)
        self.happenings.append(Happening("gpu_lost", now, node.name, device_uuid))
        for pod, demand in victims:
            self._at(now + 20 * SECOND_US, lambda at: self._crash(at, pod, demand))  # noqa: B023 (one victim at most)

    def _crash(self, now: Instant, pod: Pod, demand: Demand) -> None:
        if pod.ended_at is None:
            self._finish(now, pod, demand, "failed")

    def _lose_node(self, now: Instant, node: Node) -> None:
        node.not_ready_at = now
        self.happenings.append(Happening("node_not_ready", now, node.name))
        for pod, _ in list(self._held.values()):
            if pod.node != node.name:
                continue
            if pod.running_at is not None and pod.running_at > now:
                pod.running_at, pod.phases, pod.pids, pod.restarted_at = None, [], [], None
            if pod.deletion_asked_at is None:
                pod.deletion_asked_at = now + TOLERATION_US
        self._at(now + 3 * HOUR_US, lambda at: self._node_gone(at, node))

    def _node_gone(self, now: Instant, node: Node) -> None:
        node.gone_at = now
        self.happenings.append(Happening("node_gone", now, node.name))
        for pod in self.pods:
            if pod.node == node.name:
                self._held.pop(pod.uid, None)
                self._vanish(now, pod, "node_lost") if pod.bound_at and pod.fate != "rejected" else self._remove(
                    now, pod
                )


def is_queued(demand: Demand) -> bool:
    """Whether it is asked of a queue of Kueue: batch jobs on whole cards are, unless they go past it."""
    return demand.pool == WHOLE and demand.workload == JOB and demand.fate not in ("rejected", "never_scheduled")


def _memory_cap_mib(grant: GrantTruth, card_mib: int, kind: str) -> int:
    if grant.memory_mib is not None:
        return grant.memory_mib
    return card_mib * 95 // 100 // (4 if kind == TIME_SLICING else 1)


def _util_percent(rng: random.Random, workload: str) -> int:
    low, high = {JOB: (55, 100), NOTEBOOK: (0, 12), SERVICE: (10, 70)}[workload]
    return rng.randrange(low, high)
