"""What a node itself would have shown: kubelet PodResources, ``nvidia-smi`` in four forms, and the kernel's log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.sax.saxutils import escape

from steelyard.primitives.instant import SECOND_US, Instant, to_datetime
from steelyard.simulation.truth import HAMI, MIG, TIME_SLICING, Device, GrantTruth, GroundTruth, Node, Pod

DRIVER: Final = "570.148.08"
LOST: Final = "[GPU is lost]"
_QUERY_HEADER: Final = (
    "timestamp, index, name, uuid, serial, pci.bus_id, driver_version, mig.mode.current, memory.total [MiB], memory.reserved [MiB], "
    "memory.used [MiB], utilization.gpu [%], utilization.memory [%], temperature.gpu, power.draw [W], clocks.current.sm [MHz]"
)
_APPS_HEADER: Final = "timestamp, gpu_name, gpu_bus_id, gpu_serial, gpu_uuid, pid, process_name, used_gpu_memory [MiB]"


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a card at an instant: ``unit_id`` where it sits in a part of it."""

    pod: Pod
    grant: GrantTruth
    pid: int
    memory_mib: int
    util_percent: int


class NodeView:
    """The node's own view of the truth."""

    def __init__(self, truth: GroundTruth, node: Node) -> None:
        self.node = node
        self._base_mib = truth.device_base_mib
        self._pods = [
            pod for pod in truth.pods if pod.node == node.name and pod.bound_at is not None and pod.fate != "rejected"
        ]
        self._lost = {event.device_uuid: event.at for event in truth.happenings if event.kind == "gpu_lost"}

    def is_up(self, at: Instant) -> bool:
        """Whether anything on the node still answers."""
        return self.node.not_ready_at is None or at < self.node.not_ready_at

    def is_lost(self, device: Device, at: Instant) -> bool:
        """Whether the card has fallen off the bus by then."""
        lost_at = self._lost.get(device.uuid)
        return lost_at is not None and lost_at <= at

    def processes(self, at: Instant) -> list[Process]:
        """The processes that run at the instant, in order of device and pid."""
        found = []
        for pod in self._pods:
            if pod.running_at is None or at < pod.running_at or (pod.ended_at is not None and pod.ended_at <= at):
                continue
            phase = [phase for phase in pod.phases if phase.from_at <= at][-1]
            for grant, pid in zip(pod.grants, pod.pids, strict=True):
                found.append(Process(pod, grant, pid, phase.memory_mib, phase.util_percent))
        return sorted(found, key=lambda process: (process.grant.device_uuid, process.pid))

    def pod_resources(self, at: Instant) -> dict[str, Any]:
        """The kubelet's List and GetAllocatableResources. Pods are listed from their admission to their end."""
        pods = []
        for pod in self._pods:
            admitted = (pod.bound_at or 0) + SECOND_US
            if admitted <= at and (pod.ended_at is None or at < pod.ended_at):
                ids = [grant.unit_id or grant.device_uuid for grant in pod.grants]
                devices = [
                    {"resource_name": _resource(self.node, pod), "device_ids": ids, "topology": {"nodes": [{"ID": 0}]}}
                ]
                pods.append(
                    {"name": pod.name, "namespace": pod.namespace, "containers": [{"name": "main", "devices": devices}]}
                )
        pods.append(
            {"name": f"kube-proxy-{self.node.name}", "namespace": "kube-system", "containers": [{"name": "kube-proxy"}]}
        )
        allocatable = [
            {"resource_name": resource, "device_ids": [unit], "topology": {"nodes": [{"ID": device.numa}]}}
            for device in self.node.devices
            if not self.is_lost(device, at)
            for resource, unit in _units(self.node, device)
        ]
        return {
            "node": self.node.name,
            "kubelet": "v1.34.1",
            "list": {"pod_resources": pods},
            "allocatable": {"devices": allocatable},
        }

    def list_text(self) -> str:
        """``nvidia-smi -L``."""
        lines = []
        for device in self.node.devices:
            lines.append(f"GPU {device.index}: {device.model} (UUID: {device.uuid})")
            lines += [
                f"  MIG {unit.profile:<11} Device {number:2d}: (UUID: {unit.uuid})"
                for number, unit in enumerate(device.units)
            ]
        return "\n".join(lines) + "\n"

    def query_csv(self, samples: Sequence[Instant]) -> str:
        """``nvidia-smi --query-gpu=... --format=csv -l``: a header, then a row per card and round."""
        lines = [_QUERY_HEADER]
        for at in samples:
            if not self.is_up(at):
                break
            processes = self.processes(at)
            lines += [self._query_row(device, at, processes) for device in self.node.devices]
        return "\n".join(lines) + "\n"

    def _query_row(self, device: Device, at: Instant, processes: list[Process]) -> str:
        mine = [process for process in processes if process.grant.device_uuid == device.uuid]
        used = self._base_mib + sum(process.memory_mib for process in mine)
        util = min(100, sum(process.util_percent for process in mine))
        mig = {MIG: "Enabled"}.get(self.node.kind, "[N/A]" if self.node.kind == TIME_SLICING else "Disabled")
        fixed = f"{_stamp(at)}, {device.index}, {device.model}, {device.uuid}, {device.serial}, {device.pci_address}, {DRIVER}"
        if self.is_lost(device, at):
            return f"{fixed}, " + ", ".join([LOST] * 9)
        ratios = "[N/A], [N/A]" if self.node.kind == MIG else f"{util} %, {util // 3} %"
        return (
            f"{fixed}, {mig}, {device.memory_mib} MiB, 512 MiB, {used} MiB, {ratios}, "
            f"{34 + util // 3}, {65 + util * 3}.10 W, {210 + 12 * util} MHz"
        )

    def apps_csv(self, samples: Sequence[Instant]) -> str:
        """``nvidia-smi --query-compute-apps=... --format=csv -l``: a row per process and round; a card without any shows none."""
        lines = [_APPS_HEADER]
        devices = {device.uuid: device for device in self.node.devices}
        for at in samples:
            if not self.is_up(at):
                break
            for process in self.processes(at):
                device = devices[process.grant.device_uuid]
                if not self.is_lost(device, at):
                    lines.append(
                        f"{_stamp(at)}, {device.model}, {device.pci_address}, {device.serial}, {device.uuid}, "
                        f"{process.pid}, python3, {process.memory_mib} MiB"
                    )
        return "\n".join(lines) + "\n"

    def report_xml(self, at: Instant) -> str:
        """``nvidia-smi -q -x`` with the elements that a MIG card's owner looks for."""
        processes = self.processes(at)
        gpus = "".join(self._gpu_xml(device, processes) for device in self.node.devices)
        return (
            '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
            f"\t<timestamp>{to_datetime(at):%a %b} {to_datetime(at).day:2d} {to_datetime(at):%H:%M:%S %Y}</timestamp>\n"
            f"\t<driver_version>{DRIVER}</driver_version>\n\t<cuda_version>12.8</cuda_version>\n"
            f"\t<attached_gpus>{len(self.node.devices)}</attached_gpus>\n{gpus}</nvidia_smi_log>\n"
        )

    def _gpu_xml(self, device: Device, processes: list[Process]) -> str:
        mine = [process for process in processes if process.grant.device_uuid == device.uuid]
        used = self._base_mib + sum(process.memory_mib for process in mine)
        instances = "".join(_mig_xml(number, device, mine) for number in range(len(device.units)))
        rows = "".join(_process_xml(device, process) for process in mine)
        return (
            f'\t<gpu id="{device.pci_address}">\n\t\t<product_name>{escape(device.model)}</product_name>\n'
            f"\t\t<mig_mode>\n\t\t\t<current_mig>Enabled</current_mig>\n\t\t\t<pending_mig>Enabled</pending_mig>\n\t\t</mig_mode>\n"
            f"\t\t<mig_devices>\n{instances}\t\t</mig_devices>\n\t\t<serial>{device.serial}</serial>\n\t\t<uuid>{device.uuid}</uuid>\n"
            f"\t\t<minor_number>{device.index}</minor_number>\n"
            f"\t\t<pci>\n\t\t\t<pci_bus_id>{device.pci_address}</pci_bus_id>\n\t\t</pci>\n"
            f"\t\t<fb_memory_usage>\n\t\t\t<total>{device.memory_mib} MiB</total>\n\t\t\t<reserved>512 MiB</reserved>\n"
            f"\t\t\t<used>{used} MiB</used>\n\t\t\t<free>{device.memory_mib - 512 - used} MiB</free>\n\t\t</fb_memory_usage>\n"
            "\t\t<utilization>\n\t\t\t<gpu_util>N/A</gpu_util>\n\t\t\t<memory_util>N/A</memory_util>\n\t\t</utilization>\n"
            f"\t\t<processes>\n{rows}\t\t</processes>\n\t</gpu>\n"
        )


def pod_resources_dump(views: Sequence[NodeView], at: Instant) -> bytes:
    """The PodResources of all nodes that answer and that HAMi does not allocate on, as one JSON list."""
    found = [view.pod_resources(at) for view in views if view.node.kind != HAMI and view.is_up(at)]
    return json.dumps(found, separators=(",", ":")).encode()


def kernel_log(node: Node, truth: GroundTruth) -> str | None:
    """The kernel's lines about a lost card, as ``journalctl -k -o short-iso`` prints them; None where there are none."""
    lines = []
    for event in truth.happenings:
        if event.kind != "gpu_lost" or event.node != node.name:
            continue
        device = next(device for device in node.devices if device.uuid == event.device_uuid)
        address = device.pci_address[4:].lower().rsplit(".", 1)[0]
        prefix = f"{to_datetime(event.at):%Y-%m-%dT%H:%M:%S}+00:00 {node.name} kernel: NVRM:"
        lines += [
            f"{prefix} GPU at PCI:{address}: {device.uuid}",
            f"{prefix} Xid (PCI:{address}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            f"{prefix} GPU {address}.0: GPU has fallen off the bus.",
        ]
    return "\n".join(lines) + "\n" if lines else None


def _resource(node: Node, pod: Pod) -> str:
    if node.kind == MIG:
        return f"nvidia.com/mig-{pod.profile}"
    return "nvidia.com/gpu.shared" if node.kind == TIME_SLICING else "nvidia.com/gpu"


def _units(node: Node, device: Device) -> list[tuple[str, str]]:
    if node.kind == MIG:
        return [(f"nvidia.com/mig-{unit.profile}", unit.uuid) for unit in device.units]
    if node.kind == TIME_SLICING:
        return [("nvidia.com/gpu.shared", f"{device.uuid}::{number}") for number in range(node.replicas)]
    return [("nvidia.com/gpu", device.uuid)]


def _stamp(at: Instant) -> str:
    return f"{to_datetime(at):%Y/%m/%d %H:%M:%S}.{at // 1000 % 1000:03d}"


def _mig_xml(number: int, device: Device, processes: list[Process]) -> str:
    unit = device.units[number]
    used = sum(process.memory_mib for process in processes if process.grant.unit_id == unit.uuid)
    return (
        f"\t\t\t<mig_device>\n\t\t\t\t<index>{number}</index>\n\t\t\t\t<gpu_instance_id>{unit.gi}</gpu_instance_id>\n"
        "\t\t\t\t<compute_instance_id>0</compute_instance_id>\n"
        "\t\t\t\t<device_attributes>\n\t\t\t\t\t<shared>\n"
        f"\t\t\t\t\t\t<multiprocessor_count>{unit.compute_slices * 14}</multiprocessor_count>\n"
        "\t\t\t\t\t</shared>\n\t\t\t\t</device_attributes>\n"
        f"\t\t\t\t<fb_memory_usage>\n\t\t\t\t\t<total>{unit.memory_mib} MiB</total>\n\t\t\t\t\t<reserved>0 MiB</reserved>\n"
        f"\t\t\t\t\t<used>{used} MiB</used>\n\t\t\t\t\t<free>{unit.memory_mib - used} MiB</free>\n\t\t\t\t</fb_memory_usage>\n"
        "\t\t\t</mig_device>\n"
    )


def _process_xml(device: Device, process: Process) -> str:
    unit = next((unit for unit in device.units if unit.uuid == process.grant.unit_id), None)
    gi, ci = ("N/A", "N/A") if unit is None else (str(unit.gi), "0")
    return (
        f"\t\t\t<process_info>\n\t\t\t\t<gpu_instance_id>{gi}</gpu_instance_id>\n\t\t\t\t<compute_instance_id>{ci}</compute_instance_id>\n"
        f"\t\t\t\t<pid>{process.pid}</pid>\n\t\t\t\t<type>C</type>\n\t\t\t\t<process_name>python3</process_name>\n"
        f"\t\t\t\t<used_memory>{process.memory_mib} MiB</used_memory>\n\t\t\t</process_info>\n"
    )
