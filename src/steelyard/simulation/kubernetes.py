"""What ``kubectl get pods,nodes,events -o json`` would have shown of the simulated cluster at an instant.

The trick to know: a pod's JSON changes only when its state does, so each state is written once and kept as text.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any, Final

from steelyard.primitives.instant import HOUR_US, SECOND_US, Instant, format_instant
from steelyard.simulation import hami
from steelyard.simulation.demand import JOB, NOTEBOOK, SERVICE
from steelyard.simulation.queues import queue_objects
from steelyard.simulation.truth import HAMI, MIG, TIME_SLICING, WHOLE, GroundTruth, Node, Pod

_NAMESPACE: Final = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
_GRACE_US: Final = 30 * SECOND_US
_STARTUP_US: Final = SECOND_US
REJECTION: Final = (
    "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
    "Requested: 1, Available: 0, which is unexpected"
)


class ClusterView:
    """The API server's view of the truth. ``snapshot(at)`` is the List that kubectl would have printed then."""

    def __init__(self, truth: GroundTruth) -> None:
        self._truth = truth
        self._nodes = {node.name: node for node in truth.nodes}
        self._lost = {event.device_uuid: event.at for event in truth.happenings if event.kind == "gpu_lost"}
        self._texts: dict[str, tuple[str, str]] = {}

    def snapshot(self, at: Instant) -> bytes:
        """One List of all pods, nodes, recent events and what Kueue has."""
        texts = [*self.pods(at).values(), *self.nodes(at).values(), *self.events(at).values()]
        texts += map(_text, queue_objects(self._truth, at))
        return (
            '{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":[' + ",".join(texts) + "]}"
        ).encode()

    def pods(self, at: Instant) -> dict[str, str]:
        """The JSON of each pod that the API server has then, by uid."""
        found = {pod.uid: self._pod_text(pod, at) for pod in self._truth.pods if is_listed(pod, at)}
        for pod in map(_plugin_pod, self._alive(at)):
            found[pod["metadata"]["uid"]] = _text(pod)
        return found

    def nodes(self, at: Instant) -> dict[str, str]:
        """The JSON of each node, by uid."""
        return {node.uid: _text(self._node(node, at)) for node in self._alive(at)}

    def events(self, at: Instant) -> dict[str, str]:
        """The JSON of each event of the last hour, by uid."""
        return {event["metadata"]["uid"]: _text(event) for event in self._events(at)}

    def _alive(self, at: Instant) -> list[Node]:
        return [node for node in self._truth.nodes if node.gone_at is None or at < node.gone_at]

    def _pod_text(self, pod: Pod, at: Instant) -> str:
        state = _state_key(pod, at)
        kept = self._texts.get(pod.uid)
        if kept is None or kept[0] != state:
            kept = self._texts[pod.uid] = (state, _text(self._pod(pod, at)))
        return kept[1]

    def _pod(self, pod: Pod, at: Instant) -> dict[str, Any]:
        node = self._nodes.get(pod.node or "")
        bound = _reached(pod.bound_at, at)
        metadata: dict[str, Any] = {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "creationTimestamp": format_instant(pod.created_at),
            "labels": _labels(pod),
            "ownerReferences": [_owner_reference(pod)],
        }
        if node is not None and node.kind == HAMI and _reached(pod.filtered_at, at):
            metadata["annotations"] = hami.pod_annotations(pod, node, bound)
            metadata["labels"]["hami.io/vgpu-node"] = node.name
        if pod.pod_group is not None:
            metadata.setdefault("annotations", {})["scheduling.k8s.io/group-name"] = pod.pod_group
        if _reached(pod.deletion_asked_at, at):
            metadata["deletionTimestamp"] = format_instant((pod.deletion_asked_at or 0) + _GRACE_US)
            metadata["deletionGracePeriodSeconds"] = 30
        spec: dict[str, Any] = {
            "schedulerName": _scheduler(pod),
            "priority": 0,
            "restartPolicy": "Never" if pod.workload_kind == JOB else "Always",
            "containers": [_container(name, pod) for name in container_names(pod)],
            "tolerations": [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
            ],
        }
        if pod.init_container:
            spec["initContainers"] = [{"name": "fetch", "image": "registry.example/fetch:3", "resources": {}}]
        if bound:
            spec["nodeName"] = pod.node
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": _status(pod, at)}

    def _node(self, node: Node, at: Instant) -> dict[str, Any]:
        down = _reached(node.not_ready_at, at)
        healthy = sum(not _reached(self._lost.get(device.uuid), at) for device in node.devices)
        capacity, allocatable = (_extended(node, cards) for cards in (len(node.devices), healthy))
        ready: dict[str, Any] = {
            "type": "Ready",
            "status": "Unknown" if down else "True",
            "reason": "NodeStatusUnknown" if down else "KubeletReady",
            "lastHeartbeatTime": format_instant(
                node.not_ready_at if down and node.not_ready_at else at - at % (300 * SECOND_US)
            ),
            "lastTransitionTime": format_instant(node.not_ready_at if down and node.not_ready_at else node.created_at),
        }
        found: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": node.name,
                "uid": node.uid,
                "creationTimestamp": format_instant(node.created_at),
                "labels": _node_labels(node),
                "annotations": hami.node_annotations(node, at) if node.kind == HAMI else {},
            },
            "spec": {},
            "status": {
                "capacity": {"cpu": "128", "memory": "1056289Mi", "pods": "110", **capacity},
                "allocatable": {"cpu": "126", "memory": "1050000Mi", "pods": "110", **allocatable},
                "conditions": [ready],
                "nodeInfo": {"kubeletVersion": "v1.34.1", "operatingSystem": "linux", "architecture": "amd64"},
            },
        }
        if down:
            found["spec"] = {
                "taints": [
                    {
                        "key": "node.kubernetes.io/unreachable",
                        "effect": effect,
                        "timeAdded": ready["lastTransitionTime"],
                    }
                    for effect in ("NoSchedule", "NoExecute")
                ]
            }
        return found

    def _events(self, at: Instant) -> Iterator[dict[str, Any]]:
        """The events of the last hour, which is how long an API server keeps them."""
        for pod in self._truth.pods:
            if not is_listed(pod, at):
                continue
            scheduler = _scheduler(pod)
            if pod.bound_at is not None and _recent(pod.bound_at, at):
                message = f"Successfully assigned {pod.namespace}/{pod.name} to {pod.node}"
                yield _event(pod, "Scheduled", message, scheduler, pod.bound_at, pod.bound_at, 1)
            if pod.fate == "rejected" and pod.bound_at is not None and _recent(pod.bound_at + _STARTUP_US, at):
                when = pod.bound_at + _STARTUP_US
                yield _event(pod, "UnexpectedAdmissionError", REJECTION, "kubelet", when, when, 1)
            if not _reached(pod.bound_at, at) and pod.filtered_at is None and at - pod.created_at > 5 * SECOND_US:
                waited = (at - pod.created_at) // (300 * SECOND_US)
                last = pod.created_at + waited * 300 * SECOND_US
                reason = "FilteringFailed" if pod.kind == HAMI and pod.refused is not None else "FailedScheduling"
                message = pod.refused or self._no_fit(pod, at)
                yield _event(pod, reason, message, scheduler, pod.created_at, last, 1 + waited)
        for node in self._truth.nodes:
            if node.not_ready_at is not None and _recent(node.not_ready_at, at):
                yield _node_event(node, node.not_ready_at)

    def _no_fit(self, pod: Pod, at: Instant) -> str:
        alive = [node for node in self._truth.nodes if node.gone_at is None or at < node.gone_at]
        if pod.kind == HAMI:
            return f"no available node, {len(alive)} nodes do not meet"
        resource = next(iter(_resources(pod)))
        count = len(alive)
        return (
            f"0/{count} nodes are available: {count} Insufficient {resource}. "
            f"preemption: 0/{count} nodes are available: {count} No preemption victims found for incoming pod."
        )


def _plugin_pod(node: Node) -> dict[str, Any]:
    """A pod of the platform, as every cluster has them: it asks for no card, and so nobody's share is in it."""
    started = format_instant(node.created_at + 60 * SECOND_US)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"device-plugin-{node.name}",
            "namespace": "kube-system",
            "uid": str(uuid.uuid5(_NAMESPACE, f"{node.uid}/device-plugin")),
            "creationTimestamp": format_instant(node.created_at),
            "labels": {"app": "device-plugin"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "DaemonSet",
                    "name": "device-plugin",
                    "uid": str(uuid.uuid5(_NAMESPACE, "device-plugin")),
                    "controller": True,
                }
            ],
        },
        "spec": {"nodeName": node.name, "containers": [{"name": "plugin", "image": "registry.example/plugin:1"}]},
        "status": {
            "phase": "Running",
            "startTime": started,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": started}],
            "containerStatuses": [{"name": "plugin", "state": {"running": {"startedAt": started}}, "restartCount": 0}],
        },
    }


def is_listed(pod: Pod, at: Instant) -> bool:
    """Whether the API server has the object then."""
    return pod.created_at <= at and (pod.removed_at is None or at < pod.removed_at)


def container_names(pod: Pod) -> list[str]:
    """The app containers in order; ``main`` is the one that asks for the card."""
    before = ["proxy"] if pod.sidecar_containers else []
    after = ["metrics"] if pod.sidecar_containers > 1 else []
    return [*before, "main", *after]


def _scheduler(pod: Pod) -> str:
    if pod.pod_group is not None:
        return "volcano"
    return "hami-scheduler" if pod.kind == HAMI else "default-scheduler"


def _reached(instant: Instant | None, at: Instant) -> bool:
    return instant is not None and instant <= at


def _recent(instant: Instant, at: Instant) -> bool:
    return at - HOUR_US < instant <= at


def _state_key(pod: Pod, at: Instant) -> str:
    stamps = (
        pod.filtered_at,
        pod.bound_at,
        _startup(pod),
        pod.running_at,
        pod.restarted_at,
        pod.ended_at,
        pod.deletion_asked_at,
    )
    return "".join("1" if _reached(stamp, at) else "0" for stamp in stamps)


def _startup(pod: Pod) -> Instant | None:
    return None if pod.bound_at is None else pod.bound_at + _STARTUP_US


def _labels(pod: Pod) -> dict[str, str]:
    labels = {"app": pod.workload_name, "cost-centre": f"cc-{sum(pod.namespace.encode()) % 90 + 10}"}
    if pod.queue:
        labels["kueue.x-k8s.io/queue-name"] = pod.queue
    if pod.workload_kind == JOB:
        labels |= {"job-name": pod.workload_name, "batch.kubernetes.io/job-name": pod.workload_name}
    if pod.workload_kind == SERVICE:
        labels["pod-template-hash"] = pod.name.split("-")[-2]
    if pod.workload_kind == NOTEBOOK:
        labels |= {"statefulset.kubernetes.io/pod-name": pod.name, "notebook-name": pod.workload_name}
    return labels


def _owner_reference(pod: Pod) -> dict[str, Any]:
    kind, name, version = pod.workload_kind, pod.workload_name, "apps/v1"
    if pod.workload_kind == SERVICE:
        kind, name = "ReplicaSet", pod.name.rsplit("-", 1)[0]
    if pod.workload_kind == JOB:
        version = "batch/v1"
    return {"apiVersion": version, "kind": kind, "name": name, "uid": pod.owner_uid, "controller": True}


def _resources(pod: Pod) -> dict[str, str]:
    if pod.kind == MIG:
        return {f"nvidia.com/mig-{pod.profile}": str(pod.gpus)}
    if pod.kind == TIME_SLICING:
        return {"nvidia.com/gpu.shared": str(pod.gpus)}
    found = {"nvidia.com/gpu": str(pod.gpus)}
    if pod.kind == HAMI:
        found["nvidia.com/gpumem"] = str(pod.memory_mib)
        if pod.cores_percent:
            found["nvidia.com/gpucores"] = str(pod.cores_percent)
    return found


def _container(name: str, pod: Pod) -> dict[str, Any]:
    wanted = _resources(pod) if name == "main" else {}
    resources = {"limits": wanted, "requests": wanted} if wanted else {}
    return {"name": name, "image": f"registry.example/{name}:1", "resources": resources}


def _status(pod: Pod, at: Instant) -> dict[str, Any]:
    if not _reached(pod.bound_at, at):
        since = format_instant(pod.created_at)
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
        return {"phase": "Pending", "conditions": [condition], "qosClass": "BestEffort"}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_instant(pod.bound_at or 0)}
    status: dict[str, Any] = {"phase": "Pending", "conditions": [scheduled], "qosClass": "BestEffort"}
    startup = _startup(pod)
    if startup is None or startup > at:
        return status
    status["startTime"] = format_instant(startup)
    if pod.fate == "rejected":
        return {**status, "phase": "Failed", "reason": "UnexpectedAdmissionError", "message": REJECTION}
    started = pod.running_at if not _reached(pod.restarted_at, at) else pod.restarted_at
    state: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}
    if _reached(pod.running_at, at):
        status["phase"] = "Running"
        state = {"running": {"startedAt": format_instant(started or 0)}}
    if pod.fate in ("succeeded", "failed") and _reached(pod.ended_at, at):
        failed = pod.fate == "failed"
        status["phase"] = "Failed" if failed else "Succeeded"
        state = {
            "terminated": {
                "exitCode": 1 if failed else 0,
                "reason": "Error" if failed else "Completed",
                "startedAt": format_instant(started or 0),
                "finishedAt": format_instant(pod.ended_at or 0),
            }
        }
    restarts = int(_reached(pod.restarted_at, at))
    status["containerStatuses"] = [
        {
            "name": name,
            "state": state,
            "restartCount": restarts,
            "containerID": f"containerd://{pod.uid.replace('-', '')}{number}",
        }
        for number, name in enumerate(container_names(pod))
    ]
    if pod.init_container and _reached(pod.running_at, at):
        done = {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": status["startTime"],
            "finishedAt": format_instant((pod.running_at or 0) - SECOND_US),
        }
        status["initContainerStatuses"] = [{"name": "fetch", "state": {"terminated": done}, "restartCount": 0}]
    return status


def _node_labels(node: Node) -> dict[str, str]:
    labels = {"kubernetes.io/hostname": node.name, "kubernetes.io/arch": "amd64"}
    if node.kind == HAMI:
        return {**labels, "gpu": "on"}
    device = node.devices[0]
    product = device.model.replace(" ", "-") + ("-SHARED" if node.kind == TIME_SLICING else "")
    labels |= {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": str(len(node.devices)),
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.memory": str(device.memory_mib),
        "nvidia.com/gpu.replicas": str(node.replicas),
        "nvidia.com/gpu.sharing-strategy": "time-slicing" if node.kind == TIME_SLICING else "none",
    }
    if node.kind == MIG:
        labels |= {"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig.config.state": "success"}
    return labels


def _extended(node: Node, cards: int) -> dict[str, str]:
    if node.kind == WHOLE:
        return {"nvidia.com/gpu": str(cards)}
    if node.kind == HAMI:
        return {"nvidia.com/gpu": str(cards * 10)}
    if node.kind == TIME_SLICING:
        return {"nvidia.com/gpu.shared": str(cards * node.replicas)}
    counts: dict[str, int] = {}
    for device in node.devices:
        for unit in device.units:
            counts[f"nvidia.com/mig-{unit.profile}"] = counts.get(f"nvidia.com/mig-{unit.profile}", 0) + 1
    return {resource: str(count) for resource, count in sorted(counts.items())}


def _event(
    pod: Pod, reason: str, message: str, component: str, first: Instant, last: Instant, count: int
) -> dict[str, Any]:
    warning = reason != "Scheduled"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{pod.name}.{reason.lower()}",
            "namespace": pod.namespace,
            "uid": str(uuid.uuid5(_NAMESPACE, f"{pod.uid}/{reason}")),
        },
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "count": count,
        "firstTimestamp": format_instant(first),
        "lastTimestamp": format_instant(last),
    }  # fmt: skip


def _node_event(node: Node, at: Instant) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{node.name}.notready",
            "namespace": "default",
            "uid": str(uuid.uuid5(_NAMESPACE, f"{node.uid}/NodeNotReady")),
        },
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid},
        "type": "Normal",
        "reason": "NodeNotReady",
        "message": f"Node {node.name} status is now: NodeNotReady",
        "source": {"component": "node-controller"},
        "count": 1,
        "firstTimestamp": format_instant(at),
        "lastTimestamp": format_instant(at),
    }


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
