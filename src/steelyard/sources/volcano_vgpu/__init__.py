"""Volcano vGPU: node registers and pod allocations of the volcano-vgpu-device-plugin."""
