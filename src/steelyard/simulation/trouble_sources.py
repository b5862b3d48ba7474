"""What the sources of the troubled cluster would have shown: kubectl, kubelets, dcgm-exporter, HAMi's scheduler and monitor, cAdvisor, the
node agent.

Metrics are texts with a stamp on each line, one text per exporter for the whole time. They are written here by the exporters' own formats,
with no word of the readers'.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from steelyard.primitives.instant import SECOND_US, Instant, format_instant
from steelyard.simulation.emission import EmittedFile, Output, file_name
from steelyard.simulation.kubernetes import ClusterView
from steelyard.simulation.node_agents import NodeView, Process, pod_resources_dump
from steelyard.simulation.trouble_truth import CardTruth, PodGroup, Signal, TroubledTruth
from steelyard.simulation.truth import HAMI, Device, Node

FOLDER: Final = "troubles"
_SCHEDULER_EVERY: Final = 5
"""Of so many rounds of samples one asks HAMi's scheduler, which changes only when a pod comes or goes."""
CLUSTER: Final = "troubles"
TRUTH: Final = "troubles/truth.json"
RESERVED_MIB: Final = 512
"""Of a card's memory, what the driver keeps."""
_MIB: Final = 1 << 20

_DCGM: Final = (
    ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."),
    ("DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB)."),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "gauge", "Power limit in force (in W)."),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered."),
    ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", "Why clocks are held down (bit mask)."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active."),
    ("DCGM_FI_PROF_SM_ACTIVE", "gauge", "The ratio of cycles an SM has at least 1 warp assigned."),
    ("DCGM_FI_PROF_SM_OCCUPANCY", "gauge", "The ratio of number of warps resident on an SM."),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor pipe is active."),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Ratio of cycles the device memory interface is active."),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "The rate of data transmitted over the PCIe bus (in bytes per second)."),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "The rate of data received over the PCIe bus (in bytes per second)."),
    ("DCGM_FI_PROF_NVLINK_TX_BYTES", "gauge", "The rate of data transmitted over NVLink (in bytes per second)."),
    ("DCGM_FI_PROF_NVLINK_RX_BYTES", "gauge", "The rate of data received over NVLink (in bytes per second)."),
)


def write_troubles(truth: TroubledTruth, output: Output) -> None:
    """All files below ``troubles/`` and the truth beside them."""
    cluster = truth.cluster
    views = [NodeView(cluster, node) for node in cluster.nodes]
    objects = ClusterView(cluster)
    every = cluster.snapshot_interval_seconds
    for at in cluster.snapshots:
        name = file_name(at)
        listed = _with(objects.snapshot(at), list(_pod_groups(truth, at)))
        output.write(EmittedFile(f"{FOLDER}/kube/{name}.json.gz", "kube", at, None, every, CLUSTER), listed)
        dump = pod_resources_dump(views, at)
        output.write(
            EmittedFile(f"{FOLDER}/pod-resources/{name}.json.gz", "pod_resources", at, None, every, CLUSTER), dump
        )
    exporters = Exporters(truth)
    for node in cluster.nodes:
        for system, text in exporters.texts(node):
            file = EmittedFile(
                f"{FOLDER}/{system}/{node.name}.prom.gz",
                system,
                None,
                node.name,
                cluster.sample_interval_seconds,
                CLUSTER,
            )
            if text:
                output.write(file, text.encode())
    text = exporters.scheduler()
    apart = cluster.sample_interval_seconds * _SCHEDULER_EVERY
    scheduler = EmittedFile(f"{FOLDER}/hami/scheduler.prom.gz", "hami", None, None, apart, CLUSTER)
    output.write(scheduler, text.encode())


class Exporters:
    """The texts of the exporters of a node."""

    def __init__(self, truth: TroubledTruth) -> None:
        self._truth = truth
        self._cards = {card.device_uuid: card for card in truth.cards}
        self._views = {node.name: NodeView(truth.cluster, node) for node in truth.cluster.nodes}
        self._pods = {pod.uid: pod for pod in truth.cluster.pods}

    def texts(self, node: Node) -> Iterator[tuple[str, str]]:
        """System and text of each exporter on the node."""
        yield "dcgm", self._dcgm(node)
        yield "agent", self._agent(node)
        if any(pod.node == node.name and pod.uid in self._truth.throttled for pod in self._pods.values()):
            yield "cadvisor", self._cadvisor(node)
        if node.kind == HAMI:
            yield "hami-monitor", self._monitor(node)

    def _samples(self, node: Node) -> list[Instant]:
        silent = self._truth.silent.get(node.name)
        return [at for at in self._truth.cluster.samples if silent is None or at < silent]

    def _dcgm(self, node: Node) -> str:
        rows: dict[str, list[str]] = {name: [] for name, _type, _help in _DCGM}
        for at in self._samples(node):
            used = self._memory_mib(node, at)
            for device in node.devices:
                labels = (
                    f'{{gpu="{device.index}",UUID="{device.uuid}",pci_bus_id="{device.pci_address}",'
                    f'device="nvidia{device.index}",modelName="{device.model}",Hostname="{node.name}"{self._whose(device)}}}'
                )
                for name, value in _figures(device, self._cards[device.uuid], at, used[device.uuid]):
                    rows[name].append(f"{name}{labels} {value} {at // 1000}")
        return _text((name, kind, text, rows[name]) for name, kind, text in _DCGM)

    def _whose(self, device: Device) -> str:
        """The labels of the pod that holds the card, as the exporter takes them from the kubelet; every card here has one holder at most."""
        pod = next(
            (pod for pod in self._pods.values() for grant in pod.grants if grant.device_uuid == device.uuid), None
        )
        return "" if pod is None else f',container="main",namespace="{pod.namespace}",pod="{pod.name}"'

    def _memory_mib(self, node: Node, at: Instant) -> dict[str, int]:
        used = {device.uuid: self._truth.cluster.device_base_mib for device in node.devices}
        for uuid, _pid, _pod, memory_mib in self._processes(node, at):
            used[uuid] += memory_mib
        return used

    def _processes(self, node: Node, at: Instant) -> list[tuple[str, int, str | None, int]]:
        """Card, pid, pod and memory in MiB of each process, in order."""
        found: list[tuple[str, int, str | None, int]] = [
            (each.grant.device_uuid, each.pid, each.pod.uid, each.memory_mib)
            for each in self._views[node.name].processes(at)
        ]
        cards = {device.uuid for device in node.devices}
        found += [
            (each.device_uuid, each.pid, each.pod_uid, each.memory_mib)
            for each in self._truth.foreign
            if each.device_uuid in cards and each.from_at <= at
        ]
        return sorted(found, key=lambda each: each[:2])

    def _agent(self, node: Node) -> str:
        """Processes of the node, as the agent prints them: one row that it was seen, one per figure; of a card with an intruder also what
        each of them used, which is how its holder is told from the other."""
        seen, memory, ratios, lasted = [], [], [], []
        foreign = {each.pid: each for each in self._truth.foreign}
        shared = {each.device_uuid: each for each in self._truth.foreign}
        for at in self._samples(node):
            for uuid, pid, pod_uid, memory_mib in self._processes(node, at):
                whose = "" if pod_uid is None else f',pod_uid="{pod_uid}"'
                key = f'uuid="{uuid}",pid="{pid}"'
                stamp = at // 1000
                seen.append(
                    f'steelyard_gpu_process_sampled{{{key},process_name="python3",process_type="C"{whose}}} 1 {stamp}'
                )
                memory.append(f"steelyard_gpu_process_memory_used_bytes{{{key}}} {memory_mib * _MIB} {stamp}")
                if uuid in shared:
                    beside = shared[uuid].sm_ratio if shared[uuid].from_at <= at else 0.0
                    ratio = foreign[pid].sm_ratio if pid in foreign else self._cards[uuid].at(at).sm - beside
                    ratios.append(f"steelyard_gpu_process_sm_ratio{{{key}}} {ratio:.4f} {stamp}")
                lasted.append(
                    f"steelyard_gpu_process_sample_seconds{{{key}}} {self._truth.cluster.sample_interval_seconds} {stamp}"
                )
        return _text(
            (
                ("steelyard_gpu_process_sampled", "gauge", "A process was on a card.", seen),
                ("steelyard_gpu_process_memory_used_bytes", "gauge", "Memory that a process holds.", memory),
                ("steelyard_gpu_process_sm_ratio", "gauge", "SMs that a process used.", ratios),
                ("steelyard_gpu_process_sample_seconds", "gauge", "The stretch that a sample stands for.", lasted),
            )
        )

    def _cadvisor(self, node: Node) -> str:
        periods, held = [], []
        per_sample = self._truth.cluster.sample_interval_seconds * 10
        for number, at in enumerate(self._truth.cluster.samples):
            for uid, ratio in sorted(self._truth.throttled.items()):
                pod = self._pods[uid]
                if pod.node != node.name or pod.running_at is None or at < pod.running_at:
                    continue
                labels = (
                    f'{{container="main",id="/kubepods.slice/kubepods-pod{uid.replace("-", "_")}.slice/cri-containerd-main.scope",'
                    f'image="registry.example/main:1",name="main",namespace="{pod.namespace}",pod="{pod.name}"}}'
                )
                count = number * per_sample
                periods.append(f"container_cpu_cfs_periods_total{labels} {count} {at // 1000}")
                held.append(f"container_cpu_cfs_throttled_periods_total{labels} {int(count * ratio)} {at // 1000}")
        return _text(
            (
                ("container_cpu_cfs_periods_total", "counter", "Number of elapsed enforcement periods.", periods),
                ("container_cpu_cfs_throttled_periods_total", "counter", "Number of throttled periods.", held),
            )
        )

    def _monitor(self, node: Node) -> str:
        """HAMi's monitor: what each container is counted, its limit, and how busy it was."""
        used, limits, busy = [], [], []
        for at in self._samples(node):
            for process in self._views[node.name].processes(at):
                labels = _monitor_labels(node, process)
                stamp = at // 1000
                used.append(f"hami_vgpu_memory_used_bytes{labels} {process.memory_mib * _MIB} {stamp}")
                limit = (process.grant.memory_mib or 0) * _MIB
                limits.append(f"hami_vgpu_memory_limit_bytes{labels} {limit} {stamp}")
                busy.append(f"hami_container_device_utilization_ratio{labels} {process.util_percent} {stamp}")
        return _text(
            (
                ("hami_vgpu_memory_used_bytes", "gauge", "vGPU device memory usage in bytes", used),
                ("hami_vgpu_memory_limit_bytes", "gauge", "vGPU device memory limit in bytes", limits),
                ("hami_container_device_utilization_ratio", "gauge", "Container device utilization", busy),
            )
        )

    def scheduler(self) -> str:
        """HAMi's scheduler: what it holds allocated of each card and to each pod."""
        cluster = self._truth.cluster
        of_cards, cores, shared, of_pods, cores_of_pods, limits = [], [], [], [], [], []
        for at in cluster.samples[::_SCHEDULER_EVERY]:
            stamp = at // 1000
            for node in cluster.nodes:
                for device in node.devices if node.kind == HAMI else []:
                    mine = [
                        (pod, grant) for pod in cluster.pods for grant in pod.grants if grant.device_uuid == device.uuid
                    ]
                    labels = f'{{device_uuid="{device.uuid}",device_index="{device.index}",node="{node.name}"}}'
                    memory = sum(grant.memory_mib or 0 for _pod, grant in mine) + self._truth.claimed.get(
                        device.uuid, 0
                    )
                    of_cards.append(f"hami_gpu_memory_allocated_bytes{labels} {memory * _MIB} {stamp}")
                    limits.append(f"hami_gpu_memory_limit_bytes{labels} {device.memory_mib * _MIB} {stamp}")
                    cores.append(
                        f"hami_gpu_core_allocated_ratio{labels} {sum(grant.cores_percent or 0 for _pod, grant in mine)} {stamp}"
                    )
                    count = len(mine) + (device.uuid in self._truth.claimed)
                    shared.append(f"hami_gpu_shared_count{labels} {count} {stamp}")
                    for pod, grant in mine:
                        whose = (
                            f'{{device_uuid="{device.uuid}",node="{node.name}",namespace="{pod.namespace}",pod="{pod.name}",'
                            'container="main"}'
                        )
                        of_pods.append(
                            f"hami_vgpu_memory_allocated_bytes{whose} {(grant.memory_mib or 0) * _MIB} {stamp}"
                        )
                        cores_of_pods.append(
                            f"hami_vgpu_core_allocated_ratio{whose} {grant.cores_percent or 0} {stamp}"
                        )
        return _text(
            (
                ("hami_gpu_memory_allocated_bytes", "gauge", "Device memory allocated for a certain GPU", of_cards),
                ("hami_gpu_memory_limit_bytes", "gauge", "Device memory limit for a certain GPU", limits),
                ("hami_gpu_core_allocated_ratio", "gauge", "Device core allocated for a certain GPU", cores),
                ("hami_gpu_shared_count", "gauge", "Number of containers sharing this GPU", shared),
                ("hami_vgpu_memory_allocated_bytes", "gauge", "vGPU memory allocated from a container", of_pods),
                ("hami_vgpu_core_allocated_ratio", "gauge", "vGPU core allocated from a container", cores_of_pods),
            )
        )


def _monitor_labels(node: Node, process: Process) -> str:
    pod = process.pod
    return (
        f'{{device_uuid="{process.grant.device_uuid}",node="{node.name}",namespace="{pod.namespace}",pod="{pod.name}",'
        'container="main",vdevice_index="0"}'
    )


def _figures(device: Device, card: CardTruth, at: Instant, used_mib: int) -> Iterator[tuple[str, Any]]:
    signal: Signal = card.at(at)
    yield "DCGM_FI_DEV_FB_USED", used_mib
    yield "DCGM_FI_DEV_FB_FREE", device.memory_mib - used_mib - RESERVED_MIB
    yield "DCGM_FI_DEV_FB_RESERVED", RESERVED_MIB
    yield "DCGM_FI_DEV_GPU_UTIL", round(signal.engine * 100)
    yield "DCGM_FI_DEV_POWER_USAGE", f"{signal.watts}.5"
    yield "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", card.limit_watts
    yield "DCGM_FI_DEV_XID_ERRORS", 0
    yield "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", signal.throttled
    yield "DCGM_FI_PROF_GR_ENGINE_ACTIVE", f"{signal.engine:.6f}"
    yield "DCGM_FI_PROF_SM_ACTIVE", f"{signal.sm:.6f}"
    yield "DCGM_FI_PROF_SM_OCCUPANCY", f"{signal.occupancy:.6f}"
    yield "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", f"{signal.tensor:.6f}"
    yield "DCGM_FI_PROF_DRAM_ACTIVE", f"{signal.dram:.6f}"
    yield "DCGM_FI_PROF_PCIE_TX_BYTES", signal.pcie
    yield "DCGM_FI_PROF_PCIE_RX_BYTES", signal.pcie
    yield "DCGM_FI_PROF_NVLINK_TX_BYTES", signal.nvlink
    yield "DCGM_FI_PROF_NVLINK_RX_BYTES", signal.nvlink


def _text(families: Any) -> str:
    lines: list[str] = []
    for name, kind, text, rows in families:
        if rows:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *rows]
    return "".join(f"{line}\n" for line in lines)


def _with(listed: bytes, more: Sequence[dict[str, Any]]) -> bytes:
    """A List with more objects at its end."""
    if not more:
        return listed
    texts = ",".join(json.dumps(each, separators=(",", ":")) for each in more)
    return listed[:-2] + b"," + texts.encode() + b"]}"


def _pod_groups(truth: TroubledTruth, at: Instant) -> Iterator[dict[str, Any]]:
    for group in truth.pod_groups:
        if group.created_at <= at:
            yield _pod_group(group)


def _pod_group(group: PodGroup) -> dict[str, Any]:
    since = format_instant(group.created_at + SECOND_US)
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": group.name,
            "namespace": group.namespace,
            "uid": group.uid,
            "creationTimestamp": format_instant(group.created_at),
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": group.owner_name,
                    "uid": group.owner_uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "minMember": group.pods,
            "minResources": {"nvidia.com/gpu": str(group.gpus)},
            "queue": group.queue,
        },
        "status": {
            "phase": "Inqueue",
            "conditions": [
                {
                    "type": "Unschedulable",
                    "status": "True",
                    "lastTransitionTime": since,
                    "reason": "NotEnoughResources",
                    "message": group.words,
                    "transitionID": group.uid,
                }
            ],
        },
    }
