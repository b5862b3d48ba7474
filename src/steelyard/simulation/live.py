"""A simulated estate that lives now: the same life as ``simulate`` writes to files, begun at an instant of one's choice, looked at one instant
after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.primitives.instant import DAY_US, Instant
from steelyard.simulation.kubernetes import ClusterView
from steelyard.simulation.node_agents import NodeView
from steelyard.simulation.simulate import ground_truth
from steelyard.simulation.spec import START_AT, SimulationSpec
from steelyard.simulation.truth import MIG, GroundTruth


@dataclass(frozen=True, slots=True)
class LiveSpec(SimulationSpec):
    """An estate that began at ``begins_at``; the rest as in ``SimulationSpec``."""

    begins_at: Instant = START_AT

    @property
    def start_at(self) -> Instant:
        """Its beginning."""
        return self.begins_at

    @property
    def end_at(self) -> Instant:
        """Beyond it nothing happens any more."""
        return self.begins_at + self.days * DAY_US


class LiveEstate:
    """What its API server and its exporters show at an instant."""

    def __init__(self, spec: LiveSpec) -> None:
        self.truth: GroundTruth = ground_truth(spec)
        self.cluster = ClusterView(self.truth)
        self._views = {node.name: NodeView(self.truth, node) for node in self.truth.nodes}

    @property
    def nodes(self) -> Sequence[str]:
        """The names of all nodes."""
        return list(self._views)

    def exporter_text(self, node: str, at: Instant) -> str | None:
        """What dcgm-exporter on the node prints; None where nothing answers there. Cards in parts have no utilisation as a whole."""
        view = self._views.get(node)
        if view is None or not view.is_up(at):
            return None
        processes = view.processes(at)
        used: list[str] = []
        free: list[str] = []
        util: list[str] = []
        for device in view.node.devices:
            if view.is_lost(device, at):
                continue
            mine = [each for each in processes if each.grant.device_uuid == device.uuid]
            memory_mib = min(device.memory_mib, self.truth.device_base_mib + sum(each.memory_mib for each in mine))
            labels = (
                f'{{gpu="{device.index}",UUID="{device.uuid}",pci_bus_id="{device.pci_address}",device="nvidia{device.index}",'
                f'modelName="{device.model}",Hostname="{node}"}}'
            )
            used.append(f"DCGM_FI_DEV_FB_USED{labels} {memory_mib}")
            free.append(f"DCGM_FI_DEV_FB_FREE{labels} {device.memory_mib - memory_mib}")
            if view.node.kind != MIG:
                util.append(f"DCGM_FI_DEV_GPU_UTIL{labels} {min(100, sum(each.util_percent for each in mine))}")
        families = [
            ("FB_USED", "Framebuffer memory used (in MiB).", used),
            ("FB_FREE", "Framebuffer memory free (in MiB).", free),
        ]
        families.append(("GPU_UTIL", "GPU utilization (in %).", util))
        lines: list[str] = []
        for name, text, samples in families:
            if samples:
                lines += [f"# HELP DCGM_FI_DEV_{name} {text}", f"# TYPE DCGM_FI_DEV_{name} gauge", *samples]
        return "\n".join(lines) + "\n"
