"""Metrics of HAMi's scheduler and monitor by what they mean, in all spellings: those of releases up to 2.8 and the ``hami_`` ones since 2.9.

The trick to know: a name's ending lies about its unit (``..._allocated_ratio`` of cores is percent, of memory 0 to 1), and releases 2.7 and
2.9 expose one figure under two names; ``rank`` says which one counts where both are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SCHEDULER: Final = "scheduler"
MONITOR: Final = "monitor"
HOST: Final = "host"
QUOTA: Final = "quota"
MIG: Final = "mig"
BUILD: Final = "build"
COMPONENT: Final = "component"
DERIVED: Final = "derived"


@dataclass(frozen=True, slots=True)
class Meaning:
    """``subject``: what the figure is about: ``pod`` or ``card`` of the scheduler's view, ``container`` of the monitor's, the ``host``'s card, a
    quota. ``column``: where it goes. ``unit``: ``bytes``, ``percent``, ``ratio``, ``count``, ``seconds``. ``rank``: 0 for the best source."""

    origin: str
    subject: str
    column: str
    unit: str
    rank: int = 0


_MEMORY: Final = "memory_allocated_mib"
_CORES: Final = "cores_allocated_percent"

NAMES: Final[dict[str, Meaning]] = {
    "hami_vgpu_memory_allocated_bytes": Meaning(SCHEDULER, "pod", _MEMORY, "bytes"),
    "vGPUMemoryAllocated": Meaning(SCHEDULER, "pod", _MEMORY, "bytes", 1),
    "vGPUPodsDeviceAllocated": Meaning(SCHEDULER, "pod", _MEMORY, "bytes", 2),
    "hami_vgpu_core_allocated_ratio": Meaning(SCHEDULER, "pod", _CORES, "percent"),
    "vGPUCoreAllocated": Meaning(SCHEDULER, "pod", _CORES, "percent", 1),
    "vGPUCorePercentage": Meaning(SCHEDULER, "pod", _CORES, "percent", 2),
    "hami_gpu_memory_allocated_bytes": Meaning(SCHEDULER, "card", _MEMORY, "bytes"),
    "GPUDeviceMemoryAllocated": Meaning(SCHEDULER, "card", _MEMORY, "bytes", 1),
    "hami_node_gpu_overview": Meaning(SCHEDULER, "card", _MEMORY, "bytes", 2),
    "nodeGPUOverview": Meaning(SCHEDULER, "card", _MEMORY, "bytes", 3),
    "hami_gpu_core_allocated_ratio": Meaning(SCHEDULER, "card", _CORES, "percent"),
    "GPUDeviceCoreAllocated": Meaning(SCHEDULER, "card", _CORES, "percent", 1),
    "hami_gpu_memory_limit_bytes": Meaning(SCHEDULER, "card", "memory_limit_mib", "bytes"),
    "GPUDeviceMemoryLimit": Meaning(SCHEDULER, "card", "memory_limit_mib", "bytes", 1),
    "hami_gpu_shared_count": Meaning(SCHEDULER, "count", "hami_gpu_shared_count", "count"),
    "GPUDeviceSharedNum": Meaning(SCHEDULER, "count", "hami_gpu_shared_count", "count", 1),
    "hami_gpu_core_limit_ratio": Meaning(SCHEDULER, "count", "hami_gpu_core_limit_ratio", "count"),
    "GPUDeviceCoreLimit": Meaning(SCHEDULER, "count", "hami_gpu_core_limit_ratio", "count", 1),
    "hami_vgpu_memory_used_bytes": Meaning(MONITOR, "container", "memory_counted_mib", "bytes"),
    "vGPU_device_memory_usage_in_bytes": Meaning(MONITOR, "container", "memory_counted_mib", "bytes", 1),
    "hami_container_device_memory_bytes": Meaning(MONITOR, "container", "memory_counted_mib", "bytes", 2),
    "Device_memory_desc_of_container": Meaning(MONITOR, "container", "memory_counted_mib", "bytes", 3),
    "hami_vgpu_memory_limit_bytes": Meaning(MONITOR, "container", "memory_limit_mib", "bytes"),
    "vGPU_device_memory_limit_in_bytes": Meaning(MONITOR, "container", "memory_limit_mib", "bytes", 1),
    "hami_container_device_utilization_ratio": Meaning(MONITOR, "container", "sm_ratio", "percent"),
    "Device_utilization_desc_of_container": Meaning(MONITOR, "container", "sm_ratio", "percent", 1),
    "hami_container_last_kernel_elapsed_seconds": Meaning(MONITOR, "container", "last_kernel_seconds", "seconds"),
    "Device_last_kernel_of_container": Meaning(MONITOR, "container", "last_kernel_seconds", "seconds", 1),
    "hami_vgpu_memory_context_bytes": Meaning(MONITOR, COMPONENT, "context", "bytes"),
    "hami_vgpu_memory_module_bytes": Meaning(MONITOR, COMPONENT, "module", "bytes"),
    "hami_vgpu_memory_buffer_bytes": Meaning(MONITOR, COMPONENT, "buffer", "bytes"),
    "hami_host_gpu_memory_used_bytes": Meaning(MONITOR, HOST, "memory_used_mib", "bytes"),
    "HostGPUMemoryUsage": Meaning(MONITOR, HOST, "memory_used_mib", "bytes", 1),
    "hami_host_gpu_utilization_ratio": Meaning(MONITOR, HOST, "util_gpu_ratio", "percent"),
    "HostCoreUtilization": Meaning(MONITOR, HOST, "util_gpu_ratio", "percent", 1),
    "hami_host_gpu_memory_controller_utilization_ratio": Meaning(MONITOR, HOST, "util_memory_ratio", "percent"),
    "hami_resource_quota_used": Meaning(SCHEDULER, QUOTA, "hami_resource_quota_used", "count"),
    "QuotaUsed": Meaning(SCHEDULER, QUOTA, "hami_resource_quota_used", "count", 1),
    "hami_resource_quota_limit": Meaning(SCHEDULER, QUOTA, "hami_resource_quota_limit", "count"),
    "hami_mig_device_info": Meaning(MONITOR, MIG, "mig", "count"),
    "MigInfo": Meaning(MONITOR, MIG, "mig", "count", 1),
    "hami_node_gpu_mig_instance_info": Meaning(SCHEDULER, MIG, "mig", "count"),
    "nodeGPUMigInstance": Meaning(SCHEDULER, MIG, "mig", "count", 1),
    "hami_build_info": Meaning(SCHEDULER, BUILD, "hami_build_info", "count"),
    "vGPUMemoryPercentage": Meaning(SCHEDULER, DERIVED, "", "ratio"),
    "nodeGPUMemoryPercentage": Meaning(SCHEDULER, DERIVED, "", "ratio"),
    "hami_node_gpu_memory_allocated_ratio": Meaning(SCHEDULER, DERIVED, "", "ratio"),
}
"""Every metric of HAMi that is known. ``derived`` ones repeat figures of others and are passed over."""

LABELS: Final[dict[str, tuple[str, ...]]] = {
    "device_uuid": ("device_uuid", "deviceuuid"),
    "namespace": ("namespace", "podnamespace", "quotanamespace"),
    "pod": ("pod", "podname"),
    "container": ("container", "ctrname"),
    "ordinal": ("container_index", "containeridx", "vdevice_index", "vdeviceid"),
    "node": ("node", "nodeid", "nodename"),
    "quota_name": ("quota_name", "quotaName"),
    "gi": ("gpu_instance_id",),
    "ci": ("compute_instance_id",),
    "mig_uuid": ("mig_uuid",),
    "profile": ("profile",),
    "type": ("device_type", "devicetype"),
}
"""A label's meaning -> its spellings, the newest first."""
