"""Names that HAMi gives to other vendors: the word in an annotation key, the vendor, its resources, and what its cores count.

A word that is not listed is still read, under its own name. The trick to know: "cores" are percent of one card for some vendors,
AI cores, compute units or sixteenths for others; only percent may be written into a percent column.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from steelyard.sources.shared.vgpu_dialect import Dialect

SOURCE: Final = "hami"
PREFIX: Final = "hami.io"
NVIDIA: Final = Dialect(
    source=SOURCE,
    scheme="hami",
    prefix=PREFIX,
    allocated_key="hami.io/vgpu-devices-allocated",
    work_key="hami.io/vgpu-devices-to-allocate",
    count_resource="nvidia.com/gpu",
    memory_resource="nvidia.com/gpumem",
    percent_resource="nvidia.com/gpumem-percentage",
    cores_resource="nvidia.com/gpucores",
)

_ALLOCATED_SUFFIX: Final = "-devices-allocated"
_WORD: Final = re.compile(r"[A-Za-z0-9._-]{1,63}\Z")
_KUNLUN_KEY: Final = "hami.io/kunlun-allocated"  # the one vendor whose key lacks "-devices-"
_VENDOR_OF_WORD: Final = {
    "dcu": "hygon", "hcu": "hygon", "cambricon": "cambricon", "mlu": "cambricon", "mthreads": "mthreads", "metax": "metax",
    "iluvatar": "iluvatar", "mr": "iluvatar", "bi": "iluvatar", "kunlun": "kunlun", "xpu": "kunlun", "enflame": "enflame", "gcu": "enflame",
    "amd": "amd", "biren": "biren", "va": "vastai", "aws": "aws", "awsneuron": "aws", "neuron": "aws", "nvidia": "nvidia", "vgpu": "nvidia",
}  # fmt: skip
_PERCENT_VENDORS: Final = frozenset({"hygon", "cambricon", "metax", "iluvatar"})
_RESOURCES: Final = {
    "dcu": ("hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores"),
    "cambricon-mlu": ("cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"),
    "mthreads-vgpu": ("mthreads.com/vgpu", None, None),
    "metax-sgpu": ("metax-tech.com/sgpu", None, "metax-tech.com/vcore"),
    "metax-gpu": ("metax-tech.com/gpu", None, None),
    "amd": ("amd.com/gpu", "amd.com/gpumem", None),
    "kunlun": ("kunlunxin.com/xpu", None, None),
    "iluvatar-vgpu": ("iluvatar.ai/vgpu", None, None),
}


def vendor_of(word: str) -> str:
    """The vendor behind the word of an annotation key (``dcu``, ``Ascend910B``, ``xpu``); the word itself where it is not known."""
    first = word.casefold().split("-", 1)[0]
    return "ascend" if first.startswith("ascend") else _VENDOR_OF_WORD.get(first, word.casefold()[:40])


def cores_are_percent(vendor: str) -> bool:
    """Whether a vendor's cores are percent of one card."""
    return vendor == "nvidia" or vendor in _PERCENT_VENDORS


def allocation_word(key: str) -> str | None:
    """The vendor word of an allocation key other than NVIDIA's, None where the key is no such one or no legal key."""
    if key == _KUNLUN_KEY:
        return "kunlun"
    if not is_allocation_key(key):
        return None
    word = key[len("hami.io/") : -len(_ALLOCATED_SUFFIX)]
    return word if _WORD.match(word) else None


def is_allocation_key(key: str) -> bool:
    """Whether a key has the form of another vendor's allocation."""
    regular = key.startswith("hami.io/") and key.endswith(_ALLOCATED_SUFFIX) and key != NVIDIA.allocated_key
    return regular or key == _KUNLUN_KEY


@lru_cache(maxsize=256)
def dialect_of(word: str) -> Dialect:
    """How the allocations of a vendor word are read."""
    count, memory, cores = _RESOURCES.get(word, (None, None, None))
    if word.startswith("Ascend"):
        count, memory = f"huawei.com/{word}", f"huawei.com/{word}-memory"
    vendor = vendor_of(word)
    return Dialect(
        source=SOURCE,
        scheme="hami_vendor",
        prefix=PREFIX,
        allocated_key=_KUNLUN_KEY if word == "kunlun" else f"hami.io/{word}{_ALLOCATED_SUFFIX}",
        work_key=f"hami.io/{word}-devices-to-allocate",
        vendor=vendor,
        cores_are_percent=cores_are_percent(vendor),
        count_resource=count,
        memory_resource=memory,
        cores_resource=cores,
    )


def register_word(key: str) -> str | None:
    """The vendor word of a node register key: ``hami.io/node-<word>-register`` or ``hami.io/node-register-<word>``; else None."""
    if not key.startswith("hami.io/node-"):
        return None
    rest = key[len("hami.io/node-") :]
    word = rest.removesuffix("-register") if rest.endswith("-register") else rest.removeprefix("register-")
    return word if word != rest and _WORD.match(word) else None
