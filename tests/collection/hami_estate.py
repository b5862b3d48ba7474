"""A cluster whose cards HAMi hands out: nodes with its register, pods with its annotations, the text of its exporters, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.answers.contract import Answer
from steelyard.answers.reconcile import ReconcileSpec, answer
from steelyard.primitives.instant import parse_instant
from tests.collection.scraped_estate import DAY, ScrapedEstate, card, moment
from tests.collection.scraped_estate import node as plain_node

MIB = 2**20
CARD_MIB = 40_960


class HamiEstate(ScrapedEstate):
    """Asked what was requested, granted, enforced, counted and reported, too."""

    def reconcile(self, at: str | None = None, **spec: Any) -> Answer:
        """Side by side, now or at a time of the day."""
        self._post()
        return answer(self.store, ReconcileSpec(at=moment(at) if at else None, **spec))

    def codes(self) -> list[str]:
        """Of the findings about exporters, each as often as it is told."""
        return sorted(note.code for note in self.reconcile().findings)

    def told(self, code: str) -> list[tuple[str, dict[str, Any]]]:
        """Subject and evidence of each finding of a code."""
        table = next(each for each in self.reconcile().tables if each.name == "deviations")
        names = [column.name for column in table.columns]
        rows = [dict(zip(names, row, strict=True)) for row in table.rows]
        return [(row["subject"], json.loads(row["evidence"])) for row in rows if row["code"] == code]


def node(
    name: str = "n1", cards: Sequence[int] = (0,), memory_mib: int = CARD_MIB, mode: str = "hami-core", **more: Any
) -> dict[str, Any]:
    """A node with the register of releases 2.5 to 2.7. ``model`` and ``handshake`` may be given."""
    model, handshake = (
        more.get("model", "NVIDIA-NVIDIA A100-SXM4-40GB"),
        more.get("handshake", "Requesting_2026-03-01 11:59:50"),
    )
    found = plain_node(name, gpus=10 * len(cards))
    found["metadata"]["annotations"] = {
        "hami.io/node-handshake": handshake,
        "hami.io/node-nvidia-register": "".join(
            f"{card(n)},10,{memory_mib},100,{model},0,true,{n},{mode}:" for n in cards
        ),
    }
    return found


def granted(*slots: Sequence[tuple[int, int, int]]) -> str:
    """The annotation: per container its (card, MiB, cores percent)."""
    return "".join("".join(f"{card(n)},NVIDIA,{mib},{cores}:" for n, mib, cores in slot) + ";" for slot in slots)


def container(name: str = "main", mib: int | None = 8_192, cores: int | None = 30, gpus: int = 1) -> dict[str, Any]:
    """A container that asks for a part of each of ``gpus`` cards; 0: for none."""
    asked = {"nvidia.com/gpu": gpus, "nvidia.com/gpumem": mib, "nvidia.com/gpucores": cores}
    limits = {key: str(value) for key, value in asked.items() if value is not None} if gpus else {}
    return {"name": name, "resources": {"limits": limits}}


def pod(
    name: str,
    allocated: str | None,
    *containers: Mapping[str, Any],
    init: Sequence[Mapping[str, Any]] = (),
    ended: str | None = None,
    started: str = "11:00",
    node: str | None = "n1",
    **annotations: str,
) -> dict[str, Any]:
    """A pod of namespace ``team``, bound and running from ``started`` on. ``allocated``: what the scheduler wrote, None = nothing."""
    since = f"{DAY}{started}:00Z"
    seconds = str(parse_instant(since) // 1_000_000)
    state: dict[str, Any] = {"running": {"startedAt": since}}
    if ended:
        state = {"terminated": {"startedAt": since, "finishedAt": f"{DAY}{ended}:00Z", "exitCode": 0}}
    written = {
        "hami.io/vgpu-devices-allocated": allocated, "hami.io/vgpu-devices-to-allocate": ";", "hami.io/vgpu-node": node or "n1",
        "hami.io/vgpu-time": seconds, **({"hami.io/bind-phase": "success", "hami.io/bind-time": seconds} if node else {}),
    } if allocated is not None else {}  # fmt: skip
    named = {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
    own = list(containers) or [container()]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": since, "annotations": {**written, **named},
        },
        "spec": {"containers": own, "initContainers": list(init), **({"nodeName": node} if node else {})},
        "status": {
            "phase": "Succeeded" if ended else "Running" if node else "Pending",
            **({"containerStatuses": [{"name": each["name"], "state": state} for each in own]} if node else {}),
        },
    }  # fmt: skip


def allocated(name: str, mib: int, cores: int = 30, n: int = 0, node: str = "n1", index: str = "0") -> list[str]:
    """The scheduler's two lines of a pod on a card, as releases 2.7 and later print them."""
    labels = f'containeridx="{index}",deviceuuid="{card(n)}",nodename="{node}",podname="{name}",podnamespace="team"'
    return [f"vGPUMemoryAllocated{{{labels}}} {mib * MIB}", f"vGPUCoreAllocated{{{labels}}} {cores}"]


def gauge(mib: int, cores: int = 0, n: int = 0, node: str = "n1") -> list[str]:
    """The scheduler's lines of a card."""
    labels = f'deviceidx="{n}",deviceuuid="{card(n)}",nodeid="{node}"'
    return [f"GPUDeviceMemoryAllocated{{{labels}}} {mib * MIB}", f"GPUDeviceCoreAllocated{{{labels}}} {cores}"]


def counted(
    name: str,
    mib: float,
    limit: int | None = 8_192,
    percent: float | None = None,
    n: int = 0,
    container: str = "main",
    kernel: float | None = None,
) -> list[str]:
    """The monitor's lines of a container on a card."""
    labels = f'ctrname="{container}",deviceuuid="{card(n)}",podname="{name}",podnamespace="team",vdeviceid="0"'
    lines = [f"vGPU_device_memory_usage_in_bytes{{{labels}}} {mib * MIB}"]
    lines += [f"vGPU_device_memory_limit_in_bytes{{{labels}}} {limit * MIB}"] if limit is not None else []
    lines += [f"Device_utilization_desc_of_container{{{labels}}} {percent}"] if percent is not None else []
    return lines + ([f"Device_last_kernel_of_container{{{labels}}} {kernel}"] if kernel is not None else [])


def host(mib: int, percent: float | None = None, n: int = 0, **labels: str) -> list[str]:
    """The monitor's lines of the card itself."""
    more = "".join(f',{key}="{value}"' for key, value in labels.items())
    named = f'deviceidx="{n}",deviceuuid="{card(n)}"{more}'
    return [
        f"HostGPUMemoryUsage{{{named}}} {mib * MIB}",
        *([f"HostCoreUtilization{{{named}}} {percent}"] if percent is not None else []),
    ]
