"""A node as the agent finds it, made of files: processes in ``proc``, a kernel log, a kubelet's socket, a scenario for the driver's stub."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.sources.nvml.stub_library import SCENARIOS, VARIABLE
from tests.sources.pod_resources.kubelet_peer import Kubelet, kubelet

NODE = "gpu-1"
CARD_0 = "GPU-11111111-aaaa-4bbb-8ccc-000000000000"
CARD_1 = "GPU-11111111-aaaa-4bbb-8ccc-000000000001"
MIG_0 = "MIG-22222222-0000-4000-8000-000000000000"
MIG_1 = "MIG-22222222-0000-4000-8000-000000000001"
TRAIN = "0a1b2c3d-1111-4222-8333-444455556666"
INFER = "0a1b2c3d-2222-4222-8333-444455556666"
DAEMON = "0a1b2c3d-9999-4222-8333-444455556666"
XID_LINE = f"2026-11-30T11:00:00Z {NODE} kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=4242, name=python3, Ch 00000008, MMU Fault\n"
_HEX = "a" * 64
PODS = {4242: TRAIN, 5151: TRAIN, 7001: TRAIN, 5252: INFER, 7002: INFER, 6161: TRAIN, 7000: DAEMON}
"""Whose the processes of the stub's scenarios are; 4343 belongs to the host."""

PROGRAMS = {7000: "nvidia-cuda-mps-server"}


def listed(pods: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """A kubelet's list: pod -> (resource, device id), all in the namespace team-a with one container."""
    return {
        "pod_resources": [
            {
                "name": pod,
                "namespace": "team-a",
                "containers": [{"name": "main", "devices": [{"resource_name": resource, "device_ids": [device]}]}],
            }
            for pod, (resource, device) in pods.items()
        ]
    }


def offered(*devices: tuple[str, str]) -> dict[str, Any]:
    """What the kubelet says can be allocated."""
    return {"devices": [{"resource_name": resource, "device_ids": [device]} for resource, device in devices]}


GPU, SHARED, MIG_3G, MIG_1G = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-3g.40gb",
    "nvidia.com/mig-1g.10gb",
)
_WHOLE = (listed({"train-0": (GPU, CARD_0)}), offered((GPU, CARD_0), (GPU, CARD_1)))
_MIG = (listed({"train-0": (MIG_3G, MIG_0), "infer-0": (MIG_1G, MIG_1)}), offered((MIG_3G, MIG_0), (MIG_1G, MIG_1)))
MIG_1C, MIG_2C = "nvidia.com/mig-1c.3g.40gb", "nvidia.com/mig-2c.3g.40gb"
_TWO = (listed({"train-0": (MIG_1C, MIG_0), "infer-0": (MIG_2C, MIG_1)}), offered((MIG_1C, MIG_0), (MIG_2C, MIG_1)))
_MPS = (
    listed({"train-0": (SHARED, f"{CARD_0}::0"), "infer-0": (SHARED, f"{CARD_0}::1")}),
    offered((SHARED, f"{CARD_0}::0"), (SHARED, f"{CARD_0}::1")),
)
KUBELETS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lost": (_WHOLE[0], offered((GPU, CARD_0))),
    "mig": _MIG,
    "two_compute_instances": _TWO,
    "mps": _MPS,
}
"""What the kubelet says in a scenario; elsewhere as with whole cards."""


@dataclass
class GpuNode:
    """Where everything lies, and how the agent is told."""

    folder: Path
    library: Path
    scenario: Path
    peer: Kubelet
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """The agent's options for this node."""
        return [
            "--node", NODE,
            "--proc", str(self.folder / "proc"),
            "--cgroup", str(self.folder / "cgroup"),
            "--kernel-log", str(self.folder / "kern.log"),
            "--pod-resources", str(self.folder / "kubelet.sock"),
            "--nvml-library", str(self.library),
        ]  # fmt: skip


@contextmanager
def gpu_node(folder: Path, library: Path, scenario: str, extra: str = "") -> Iterator[GpuNode]:
    """The node of one of the stub's scenarios. ``extra``: further lines of the scenario."""
    proc(folder / "proc")
    (folder / "kern.log").write_text(XID_LINE)
    file = folder / "scenario.txt"
    file.write_text((SCENARIOS / f"{scenario}.txt").read_text(encoding="utf-8") + extra)
    with kubelet(folder / "kubelet.sock", *KUBELETS.get(scenario, _WHOLE)) as peer:
        yield GpuNode(folder, library, file, peer, {VARIABLE: str(file)})


def proc(root: Path) -> None:
    """Processes as the kernel shows them: those of pods by systemd's cgroup driver and version 2, and one of the host."""
    for pid in (*PODS, 4343):
        place = root / str(pid)
        place.mkdir(parents=True)
        name = PROGRAMS.get(pid, "python3" if pid in PODS else "Xorg")
        fields = ["S", "1", *["0"] * 17, str(1_000 + pid), *["0"] * 20]
        (place / "stat").write_text(f"{pid} ({name[:15]}) {' '.join(fields)}\n")
        (place / "cmdline").write_bytes(f"/usr/bin/{name}\0".encode())
        pod = PODS.get(pid)
        slice_ = f"kubepods-burstable-pod{(pod or '').replace('-', '_')}.slice"
        path = f"/kubepods.slice/kubepods-burstable.slice/{slice_}/cri-containerd-{_HEX}.scope"
        (place / "cgroup").write_text(f"0::{path if pod else '/system.slice/display-manager.service'}\n")
    (root / "sys/kernel/random").mkdir(parents=True)
    (root / "sys/kernel/random/boot_id").write_text("00000000-0000-4000-8000-000000000000\n")
    assert os.access(root, os.R_OK)
