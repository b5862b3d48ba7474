"""Volcano vGPU: node registers and pod allocations of the volcano-vgpu-device-plugin."""

from __future__ import annotations

from steelyard.sources.volcano_vgpu.allocations import read_pod_allocations
from steelyard.sources.volcano_vgpu.registers import read_node_register

__all__ = ["read_node_register", "read_pod_allocations"]
