"""The troubled cluster of the demo: five nodes, four hours, twelve things that are wrong, and holders that do what they should.

Everything begins at once and at a full minute, so that the size of each trouble is a product: share x time. The trick to know: free share is matched
with requests by age, so the requests together ask for less than is free, and each of them is waited for in full.
"""

from __future__ import annotations

import random
import uuid
from typing import Final

from steelyard.primitives.instant import HOUR_US, MINUTE_US, SECOND_US, DurationUs, Instant
from steelyard.simulation.demand import JOB, NOTEBOOK, SERVICE
from steelyard.simulation.estate import random_uuid
from steelyard.simulation.trouble_truth import (
    PPM,
    CardTruth,
    ForeignProcess,
    PodGroup,
    Signal,
    Trouble,
    TroubledTruth,
)
from steelyard.simulation.truth import HAMI, WHOLE, Device, GrantTruth, GroundTruth, Node, Pod, UsePhase, Workload

LASTS_US: Final[DurationUs] = 4 * HOUR_US
SNAPSHOT_SECONDS: Final = 1800
SAMPLE_SECONDS: Final = 60
READY_US: Final[DurationUs] = MINUTE_US
QUEUE: Final = "batch"
HW_THERMAL: Final = 0x40
_BASE_MIB: Final = 4
_NAMESPACE: Final = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
_NODES: Final = (
    ("trouble-1", WHOLE, None, 8, "NVIDIA H100 80GB HBM3", 81_559, 700),
    ("trouble-2", HAMI, "v2.9.0", 4, "NVIDIA L40S", 46_068, 350),
    ("trouble-3", HAMI, "v2.9.0", 2, "NVIDIA L40S", 46_068, 350),
    ("trouble-4", WHOLE, None, 4, "NVIDIA A100-SXM4-80GB", 81_920, 400),
    ("trouble-5", WHOLE, None, 4, "NVIDIA A100-SXM4-80GB", 81_920, 400),
)
"""Name, kind, HAMi version, cards, model, MiB and watts of a card."""


def _working(at: Instant, watts: int) -> Signal:
    return Signal(at, 0.97, 0.74, 0.42, 0.38, 0.35, watts * 9 // 10, 900_000_000, 400_000_000)


class TroubledEstate:
    """Builds the truth of the cluster, which begins at ``start_at``, a full hour."""

    def __init__(self, start_at: Instant, seed: int) -> None:
        self._rng = random.Random(f"{seed}/troubles")  # noqa: S311 (a simulation, not a secret)
        self.start = start_at
        self.end = start_at + LASTS_US
        self.ready = start_at + READY_US
        self._pid = 40_000
        self._watts: dict[str, int] = {}
        nodes = [self._node(*row) for row in _NODES]
        self.cards = {node.name: node.devices for node in nodes}
        grid = list(range(self.start, self.end + 1, SNAPSHOT_SECONDS * SECOND_US))
        cluster = GroundTruth(
            start_at=self.start,
            end_at=self.end,
            snapshot_interval_seconds=SNAPSHOT_SECONDS,
            sample_interval_seconds=SAMPLE_SECONDS,
            snapshots=grid,
            pod_resources=grid,
            samples=list(range(self.start, self.end + 1, SAMPLE_SECONDS * SECOND_US)),
            mig_reports=[],
            nodes=nodes,
            pods=[],
            happenings=[],
            device_base_mib=_BASE_MIB,
        )
        self.truth = TroubledTruth(cluster)

    def build(self) -> TroubledTruth:
        """All of it."""
        self._whole_cards()
        self._lost_exporter()
        self._shared_cards()
        self._requests()
        used = sum(
            each.gpus
            for each in self.truth.cluster.workloads
            if each.reserved_at is not None and each.reserved_at < self.end
        )
        self.truth.cluster.quotas = {QUEUE: used}
        known = {each.device_uuid for each in self.truth.cards}
        self.truth.cards += [
            CardTruth(device.uuid, self._watts[device.uuid])
            for device in self.truth.cluster.devices()
            if device.uuid not in known
        ]
        return self.truth

    # -- holders of whole cards

    def _whole_cards(self) -> None:
        first = self.cards["trouble-1"]
        at = self.start + HOUR_US
        pod = self._holder("team-vision", "nb-lena", NOTEBOOK, first[:1])
        self._shows(first[0], _working(self.start, 700), Signal(at, 0.0, 0.0, 0.0, 0.0, 0.0, 74))
        self._trouble("idle_notebook", pod, at, "held_idle", "interactive")
        pod = self._holder("team-nlp", "tokenise-corpus", JOB, first[1:2])
        self._shows(first[1], Signal(self.start, 0.92, 0.11, 0.05, 0.0, 0.06, 190))
        self._trouble("small_kernel_storm", pod, self.ready, "busy_not_working", "small_kernels")
        pod = self._holder("team-recsys", "ctr-train", JOB, first[2:3])
        self._shows(first[2], Signal(self.start, 0.24, 0.17, 0.12, 0.1, 0.09, 210, 300_000_000))
        self.truth.throttled[pod.uid] = 0.62
        self._trouble("host_throttled_trainer", pod, self.ready, "held_low", "host_cpu")
        pod = self._holder("team-search", "answer-llm", SERVICE, first[3:4])
        self._shows(first[3], Signal(self.start, 0.98, 0.33, 0.2, 0.12, 0.81, 480))
        self._trouble("memory_bound_decode", pod, self.ready, "memory_bound", "")
        at = self.start + 2 * HOUR_US
        pod = self._holder("team-nlp", "pretrain-7b", JOB, first[4:5])
        self._shows(first[4], _working(self.start, 700), Signal(at, 1.0, 0.0, 0.0, 0.0, 0.0, 118, 0, 0))
        self._trouble("hang_at_100_percent", pod, at, "suspected_hang", "")
        self._working_holder("team-vision", "detector-train", first[5:7])
        at = self.start + 90 * MINUTE_US
        intruder = self._pod("team-recsys", "feature-export", JOB, "trouble-1", WHOLE, [])
        intruder.gpus, intruder.phases = 0, [UsePhase(self.ready, 0, 0)]
        self.truth.foreign.append(ForeignProcess(first[6].uuid, self._next_pid(), intruder.uid, 9_216, at))
        self.truth.troubles.append(
            Trouble(
                "bypass_process",
                _owner(intruder),
                at,
                self.end,
                _part_us(9_216, first[6], self.end - at),
                rule="no_grant",
                device_uuids=[first[6].uuid],
                pod_uids=[intruder.uid],
                excess_mib=9_216,
            )
        )

    def _lost_exporter(self) -> None:
        cards = self.cards["trouble-4"]
        at = self.start + 2 * HOUR_US
        pod = self._working_holder("team-search", "embedder-train", cards)
        self.truth.silent["trouble-4"] = at
        last_sample = at - SAMPLE_SECONDS * SECOND_US
        self._trouble("lost_exporter", pod, last_sample, "held_unknown", "telemetry")

    # -- holders of parts of cards

    def _shared_cards(self) -> None:
        for number, card in enumerate(self.cards["trouble-2"]):
            self._shared_holder("team-vision", f"render-{number}", card, 18_432, 40)
        first, second = self.cards["trouble-3"]
        pod = self._shared_holder("team-recsys", "ranker", first, 16_384, 30)
        at = self.start + HOUR_US
        pod.phases.append(UsePhase(at, 24_576, 90))
        self.truth.troubles.append(
            Trouble(
                "over_limit_tenant",
                _owner(pod),
                at,
                self.end,
                _part_us(24_576 - 16_384, first, self.end - at),
                rule="memory",
                device_uuids=[first.uuid],
                pod_uids=[pod.uid],
                excess_mib=24_576 - 16_384,
            )
        )
        self._shared_holder("team-nlp", "summariser", second, 20_480, 40)
        self.truth.claimed[second.uuid] = 12_288
        self.truth.troubles.append(
            Trouble(
                "stale_hami_ledger",
                "",
                self.start,
                self.end,
                0,
                rule="exporter_stale",
                device_uuids=[second.uuid],
                excess_mib=12_288,
            )
        )

    # -- requests that wait

    def _requests(self) -> None:
        at = self.start + 15 * MINUTE_US
        pod = self._pod("team-search", "reranker", JOB, None, HAMI, [], at)
        pod.memory_mib, pod.cores_percent = 40_000, 100
        count = len(_NODES)
        pod.refused = (
            f"no available node, {count} nodes do not meet, 2 nodes CardInsufficientMemory(trouble-2,trouble-3), "
            "3 nodes CardNotFoundCustomFilterRule(trouble-1,trouble-4,trouble-5)"
        )
        self._waits("fragmentation", pod, at, PPM, "fragmentation")
        at = self.start + 30 * MINUTE_US
        owner = str(uuid.uuid5(_NAMESPACE, f"{self.start}/sweep"))
        self.truth.cluster.workloads.append(
            Workload(
                uid=random_uuid(self._rng),
                namespace="team-vision",
                name="job-sweep",
                owner_uid=owner,
                owner_name="sweep",
                local_queue="team-vision-batch",
                queue=QUEUE,
                gpus=1,
                created_at=at,
                reserved_at=self.end + HOUR_US,
            )
        )
        self._asked("quota_block", "team-vision/Job/sweep", at, PPM, "quota")
        self._gang(self.start + 45 * MINUTE_US, 6)

    def _gang(self, at: Instant, count: int) -> None:
        """Pods of one whole card each that must start together, one more than there are free whole cards."""
        group = PodGroup(
            random_uuid(self._rng), "team-nlp", "", random_uuid(self._rng), "ring-train", "default", at, count, count
        )
        group.name = f"podgroup-{group.owner_uid}"
        for _number in range(count):
            pod = self._pod(group.namespace, group.owner_name, JOB, None, WHOLE, [], at)
            pod.name = f"{group.owner_name}-{pod.uid[:5]}"
            pod.owner_uid, pod.pod_group, pod.refused = group.owner_uid, group.name, group.words
        self.truth.pod_groups.append(group)
        self._asked("gang_wait", f"{group.namespace}/Job/{group.owner_name}", at, count * PPM, "gang")

    # -- parts

    def _node(
        self, name: str, kind: str, version: str | None, cards: int, model: str, memory_mib: int, watts: int
    ) -> Node:
        devices = [
            Device(
                uuid=f"GPU-{random_uuid(self._rng)}",
                node=name,
                index=index,
                model=model,
                memory_mib=memory_mib,
                pci_address=f"00000000:{0x11 + 0x16 * index:02X}:00.0",
                serial=f"{1_650_000_000_000 + self._rng.randrange(10**9)}",
                numa=index // 4,
            )
            for index in range(cards)
        ]
        self._watts.update((device.uuid, watts) for device in devices)
        return Node(name, random_uuid(self._rng), kind, version, 1, self.start - 30 * 24 * HOUR_US, devices)

    def _pod(
        self,
        namespace: str,
        workload: str,
        kind: str,
        node: str | None,
        pool: str,
        grants: list[GrantTruth],
        created_at: Instant | None = None,
    ) -> Pod:
        tail = {NOTEBOOK: "-0", JOB: "-k7x2p", SERVICE: "-6d9f8c7b5-q4w8z"}[kind]
        bound = node is not None
        pod = Pod(
            uid=random_uuid(self._rng),
            namespace=namespace,
            name=workload + tail,
            kind=pool,
            workload_kind=kind,
            workload_name=workload,
            owner_uid=random_uuid(self._rng),
            queue=f"{namespace}-batch" if kind == JOB and pool == WHOLE and grants else "",
            created_at=created_at if created_at is not None else self.start - 5 * SECOND_US,
            gpus=max(1, len(grants)),
            fate="running" if bound else "never_scheduled",
            node=node,
            filtered_at=self.start if bound and pool == HAMI else None,
            bound_at=self.start if bound else None,
            running_at=self.ready if bound else None,
            grants=grants,
            pids=[self._next_pid() for _ in grants],
        )
        self.truth.cluster.pods.append(pod)
        return pod

    def _holder(self, namespace: str, workload: str, kind: str, cards: list[Device]) -> Pod:
        grants = [GrantTruth(card.uuid, "gpu", PPM) for card in cards]
        pod = self._pod(namespace, workload, kind, cards[0].node, WHOLE, grants)
        pod.phases = [UsePhase(self.ready, cards[0].memory_mib * 7 // 10, 0)]
        if kind == JOB:
            self.truth.cluster.workloads.append(
                Workload(
                    uid=random_uuid(self._rng),
                    namespace=namespace,
                    name=f"job-{workload}",
                    owner_uid=pod.owner_uid,
                    owner_name=workload,
                    local_queue=pod.queue or "",
                    queue=QUEUE,
                    gpus=pod.gpus,
                    created_at=pod.created_at,
                    reserved_at=pod.created_at,
                )
            )
        return pod

    def _working_holder(self, namespace: str, workload: str, cards: list[Device]) -> Pod:
        for card in cards:
            self._shows(card, _working(self.start, self._watts[card.uuid]))
        return self._holder(namespace, workload, JOB, cards)

    def _shared_holder(self, namespace: str, workload: str, card: Device, memory_mib: int, cores_percent: int) -> Pod:
        share = max(memory_mib * PPM // card.memory_mib, cores_percent * PPM // 100)
        grant = GrantTruth(card.uuid, "vgpu", share, memory_mib=memory_mib, cores_percent=cores_percent)
        pod = self._pod(namespace, workload, SERVICE, card.node, HAMI, [grant])
        pod.memory_mib, pod.cores_percent = memory_mib, cores_percent
        pod.phases = [UsePhase(self.ready, memory_mib * 8 // 10, 90)]
        self._shows(card, _working(self.start, self._watts[card.uuid]))
        return pod

    def _shows(self, card: Device, *signals: Signal) -> None:
        self.truth.cards.append(CardTruth(card.uuid, self._watts[card.uuid], list(signals)))

    def _next_pid(self) -> int:
        self._pid += 7
        return self._pid

    def _trouble(self, kind: str, pod: Pod, at: Instant, state: str, cause: str) -> None:
        uuids = [grant.device_uuid for grant in pod.grants]
        size = sum(grant.share_ppm for grant in pod.grants) * (self.end - at) // PPM
        self.truth.troubles.append(
            Trouble(kind, _owner(pod), at, self.end, size, state, cause, device_uuids=uuids, pod_uids=[pod.uid])
        )

    def _waits(self, kind: str, pod: Pod, at: Instant, share_ppm: int, cause: str) -> None:
        self._asked(kind, _owner(pod), at, share_ppm, cause)
        self.truth.troubles[-1].pod_uids.append(pod.uid)

    def _asked(self, kind: str, owner: str, at: Instant, share_ppm: int, cause: str) -> None:
        size = share_ppm * (self.end - at) // PPM
        self.truth.troubles.append(Trouble(kind, owner, at, self.end, size, "free_waiting", cause))


def _part_us(memory_mib: int, card: Device, length_us: DurationUs) -> int:
    """Memory of a card over time, as GPU-microseconds."""
    return memory_mib * PPM // card.memory_mib * length_us // PPM


def _owner(pod: Pod) -> str:
    """As Kubernetes calls it: a notebook's StatefulSet belongs to a Notebook."""
    kind = "Notebook" if pod.workload_kind == NOTEBOOK else pod.workload_kind
    return f"{pod.namespace}/{kind}/{pod.workload_name}"
