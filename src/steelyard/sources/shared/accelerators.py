"""What the name of an extended resource means: cards, MIG instances, slots of a sharing layer, memory or cores beside them.

The readers of pods, nodes and gangs ask ``meaning_of``. The trick to know: only ``cards``, ``mig`` and ``slots`` count devices; the others say how
much of each device is asked for, so they never make a grant of their own. A name that is in no table but belongs to a vendor of
accelerators is ``unlisted``: its pod gets a finding, never silence.

Sceptic's command: ``kubectl get node NODE -o jsonpath='{.status.allocatable}'``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

CARDS: Final = "cards"
MIG: Final = "mig"
SLOTS: Final = "slots"
MEMORY_MIB: Final = "memory_mib"
MEMORY_PERCENT: Final = "memory_percent"
CORES_PERCENT: Final = "cores_percent"
COMPANION: Final = "companion"
UNLISTED: Final = "unlisted"

COUNTING: Final = frozenset({CARDS, MIG, SLOTS})


@dataclass(frozen=True, slots=True)
class Meaning:
    """``role`` is one of the constants above. vendor: as in ``device.vendor``. profile: of a MIG resource. unit_kind: as in ``grant``."""

    role: str
    vendor: str
    profile: str | None = None
    unit_kind: str = "gpu"


_VENDOR_OF_DOMAIN: Final = {
    "nvidia.com": "nvidia", "volcano.sh": "nvidia", "amd.com": "amd", "gpu.intel.com": "intel", "habana.ai": "habana",
    "huawei.com": "ascend", "cambricon.com": "cambricon", "hygon.com": "hygon", "metax-tech.com": "metax",
    "mthreads.com": "mthreads", "iluvatar.ai": "iluvatar", "iluvatar.com": "iluvatar", "kunlunxin.com": "kunlun",
    "enflame.com": "enflame", "birentech.com": "biren", "google.com": "google", "aws.amazon.com": "aws",
    "aliyun.com": "nvidia", "tke.cloud.tencent.com": "nvidia", "koordinator.sh": "nvidia",
}  # fmt: skip
_NO_ACCELERATOR: Final = (
    "aliyun.com/eni",
    "aliyun.com/member-eni",
    "aliyun.com/erdma",
    "tke.cloud.tencent.com/eni",
    "koordinator.sh/rdma",
)
_EXACT: Final = {
    "nvidia.com/gpu": CARDS, "nvidia.com/pgpu": CARDS,
    "nvidia.com/gpumem": MEMORY_MIB, "nvidia.com/gpumem-percentage": MEMORY_PERCENT, "nvidia.com/gpucores": CORES_PERCENT,
    "nvidia.com/priority": COMPANION,
    "volcano.sh/vgpu-number": SLOTS, "volcano.sh/vgpu-memory": MEMORY_MIB,
    "volcano.sh/vgpu-memory-percentage": MEMORY_PERCENT, "volcano.sh/vgpu-cores": CORES_PERCENT,
    "volcano.sh/gpu-number": CARDS, "volcano.sh/gpu-memory": MEMORY_MIB,
    "gpu.intel.com/i915": CARDS, "gpu.intel.com/xe": CARDS, "gpu.intel.com/i915_monitoring": COMPANION,
    "gpu.intel.com/xe_monitoring": COMPANION, "gpu.intel.com/millicores": COMPANION, "gpu.intel.com/memory.max": COMPANION,
    "gpu.intel.com/tiles": COMPANION, "habana.ai/gaudi": CARDS,
    "cambricon.com/vmlu": SLOTS, "cambricon.com/mlu.smlu.vmemory": COMPANION, "cambricon.com/mlu.smlu.vcore": COMPANION,
    "hygon.com/dcunum": SLOTS, "hygon.com/dcumem": MEMORY_MIB, "hygon.com/dcucores": CORES_PERCENT,
    "metax-tech.com/sgpu": SLOTS, "metax-tech.com/vcore": CORES_PERCENT, "metax-tech.com/vmemory": COMPANION,
    "mthreads.com/vgpu": SLOTS, "mthreads.com/sgpu-memory": COMPANION, "mthreads.com/sgpu-core": COMPANION,
    "iluvatar.ai/vgpu": SLOTS, "iluvatar.ai/vcuda-core": COMPANION, "iluvatar.ai/vcuda-memory": COMPANION,
    "kunlunxin.com/vxpu": SLOTS, "kunlunxin.com/vxpu-memory": COMPANION,
    "enflame.com/vgcu": SLOTS, "enflame.com/vgcu-percentage": COMPANION, "enflame.com/shared-gcu": SLOTS,
    "aws.amazon.com/neuron": CARDS, "aws.amazon.com/neurondevice": CARDS, "aws.amazon.com/neuroncore": SLOTS,
}  # fmt: skip
_CARD_WORDS: Final = frozenset({"gpu", "npu", "xpu", "dcu", "gcu", "ppu", "mlu", "tpu"})


@lru_cache(maxsize=4_096)
def meaning_of(resource: str) -> Meaning | None:
    """What the resource stands for; None where it is no accelerator's (``cpu``, ``memory``, ``rdma/hca``).

    ``nvidia.com/mig-1g.10gb.me`` is the profile ``1g.10gb+me``; a ``.shared`` at the end is a replica (``unit_kind`` ``slice``).
    """
    domain, slash, local = resource.partition("/")
    if not slash or len(resource) > 317:
        return None
    vendor = _VENDOR_OF_DOMAIN.get(domain)
    role = _EXACT.get(resource)
    if role is not None and vendor is not None:
        return Meaning(role, vendor, unit_kind="vgpu" if role == SLOTS else "gpu")
    if domain == "nvidia.com" and local.startswith("mig-"):
        profile = local[4:].removesuffix(".shared")
        unit_kind = "slice" if local.endswith(".shared") else "mig"
        return Meaning(MIG, "nvidia", profile.replace(".me", "+me"), unit_kind)
    if local.removesuffix(".shared") in _CARD_WORDS:
        return Meaning(CARDS, vendor or domain.split(".")[0], unit_kind="slice" if local.endswith(".shared") else "gpu")
    if vendor is None or resource.startswith(_NO_ACCELERATOR):
        return None
    return _by_vendor(vendor, local)


def _by_vendor(vendor: str, local: str) -> Meaning:
    """Vendors that put the card's model into the name."""
    if vendor == "ascend" and local.startswith("Ascend"):
        if local.endswith("-memory"):
            return Meaning(MEMORY_MIB, vendor)
        return Meaning(SLOTS, vendor, unit_kind="vgpu") if "-" in local else Meaning(CARDS, vendor)
    if vendor == "cambricon" and local.startswith("mlu"):
        if "." not in local:
            return Meaning(CARDS, vendor)
        return (
            Meaning(SLOTS, vendor, unit_kind="vgpu")
            if local.endswith((".share", ".smlu"))
            else Meaning(COMPANION, vendor)
        )
    if vendor == "iluvatar" and local.endswith(("-vgpu", ".vCore", ".vMem")):
        return Meaning(SLOTS, vendor, unit_kind="vgpu") if local.endswith("-vgpu") else Meaning(COMPANION, vendor)
    return Meaning(UNLISTED, vendor)


def named_resources() -> tuple[str, ...]:
    """The resources that are known by their full name, sorted: what a sanitised name can be compared with."""
    return tuple(sorted(_EXACT))
