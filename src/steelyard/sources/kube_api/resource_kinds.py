"""Which resources of the Kubernetes API a cluster is watched for, and under which names and versions they are served.

``watch.ClusterWatch`` runs one watch per entry; ``deploy/rbac`` grants exactly these (a test compares the two). The trick to know: a kind
is named as ``kubectl`` names it (``pods``, ``workloads.kueue.x-k8s.io``), its versions stand in the order of preference, and the first
that the cluster serves is taken, so that one object is read once however many versions it is served in.

Sceptic's command: ``kubectl api-resources -o wide``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One resource: its object kind, group (empty: the core group), plural, and versions, preferred first.

    namespaced: whether its objects live in namespaces. metadata_only: only names, owners and labels are asked for, which is all that an
    owner chain needs. tracks_gone: whether the end of an object is worth a word (an event's is not: it expires). fallback: the same objects
    under another group, taken where this one is forbidden.
    """

    kind: str
    plural: str
    versions: tuple[str, ...]
    group: str = ""
    namespaced: bool = True
    metadata_only: bool = False
    tracks_gone: bool = True
    fallback: ResourceKind | None = None

    @property
    def word(self) -> str:
        """The name of the kind in statuses: ``pods``, ``jobs.batch``, ``workloads.kueue.x-k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def prefix(self, version: str) -> str:
        """The path under which a version of the group is served, without a leading slash."""
        return f"apis/{self.group}/{version}" if self.group else f"api/{version}"

    def path(self, version: str) -> str:
        """The path of all its objects in all namespaces."""
        return f"{self.prefix(version)}/{self.plural}"

    def api_version(self, version: str) -> str:
        """What its objects call ``apiVersion``."""
        return f"{self.group}/{version}" if self.group else version


_KUEUE: Final = ("v1beta2", "v1beta1")
_DRA: Final = ("v1", "v1beta2", "v1beta1")
_RAY: Final = ("v1", "v1alpha1")

PODS: Final = ResourceKind("Pod", "pods", ("v1",))
NODES: Final = ResourceKind("Node", "nodes", ("v1",), namespaced=False)
EVENTS: Final = ResourceKind(
    "Event",
    "events",
    ("v1",),
    tracks_gone=False,
    fallback=ResourceKind("Event", "events", ("v1", "v1beta1"), "events.k8s.io", tracks_gone=False),
)
"""Both groups serve the same events, so one is enough; which one is granted is the cluster's choice."""

RESOURCE_KINDS: Final[Sequence[ResourceKind]] = (
    PODS,
    NODES,
    EVENTS,
    ResourceKind("Namespace", "namespaces", ("v1",), namespaced=False),
    ResourceKind("ResourceQuota", "resourcequotas", ("v1",)),
    ResourceKind("ReplicaSet", "replicasets", ("v1",), "apps", metadata_only=True, tracks_gone=False),
    ResourceKind("Deployment", "deployments", ("v1",), "apps", metadata_only=True, tracks_gone=False),
    ResourceKind("StatefulSet", "statefulsets", ("v1",), "apps", metadata_only=True, tracks_gone=False),
    ResourceKind("Job", "jobs", ("v1",), "batch"),
    ResourceKind("CronJob", "cronjobs", ("v1",), "batch", metadata_only=True, tracks_gone=False),
    ResourceKind("JobSet", "jobsets", ("v1", "v1beta1", "v1alpha2"), "jobset.x-k8s.io"),
    ResourceKind("Workload", "workloads", _KUEUE, "kueue.x-k8s.io"),
    ResourceKind("ClusterQueue", "clusterqueues", _KUEUE, "kueue.x-k8s.io", namespaced=False),
    ResourceKind("LocalQueue", "localqueues", _KUEUE, "kueue.x-k8s.io"),
    ResourceKind("Cohort", "cohorts", (*_KUEUE, "v1alpha1"), "kueue.x-k8s.io", namespaced=False),
    ResourceKind("ResourceFlavor", "resourceflavors", _KUEUE, "kueue.x-k8s.io", namespaced=False),
    ResourceKind("AdmissionCheck", "admissionchecks", _KUEUE, "kueue.x-k8s.io", namespaced=False),
    ResourceKind("WorkloadPriorityClass", "workloadpriorityclasses", _KUEUE, "kueue.x-k8s.io", namespaced=False),
    ResourceKind("Topology", "topologies", (*_KUEUE, "v1alpha1"), "kueue.x-k8s.io", namespaced=False),
    ResourceKind("Job", "jobs", ("v1alpha1",), "batch.volcano.sh"),
    ResourceKind("PodGroup", "podgroups", ("v1beta1",), "scheduling.volcano.sh"),
    ResourceKind("Queue", "queues", ("v1beta1",), "scheduling.volcano.sh", namespaced=False),
    ResourceKind("ResourceClaim", "resourceclaims", _DRA, "resource.k8s.io"),
    ResourceKind("ResourceSlice", "resourceslices", _DRA, "resource.k8s.io", namespaced=False),
    ResourceKind("DeviceClass", "deviceclasses", _DRA, "resource.k8s.io", namespaced=False),
    ResourceKind("RayJob", "rayjobs", _RAY, "ray.io"),
    ResourceKind("RayCluster", "rayclusters", _RAY, "ray.io"),
    ResourceKind("RayService", "rayservices", _RAY, "ray.io"),
    ResourceKind("PyTorchJob", "pytorchjobs", ("v1",), "kubeflow.org"),
    ResourceKind("MPIJob", "mpijobs", ("v2beta1", "v1"), "kubeflow.org"),
    ResourceKind("Notebook", "notebooks", ("v1", "v1beta1"), "kubeflow.org", metadata_only=True, tracks_gone=False),
    ResourceKind("TrainJob", "trainjobs", ("v1alpha1",), "trainer.kubeflow.org", metadata_only=True, tracks_gone=False),
    ResourceKind("LeaderWorkerSet", "leaderworkersets", ("v1",), "leaderworkerset.x-k8s.io"),
    ResourceKind(
        "NodeResourceTopology",
        "noderesourcetopologies",
        ("v1alpha2", "v1alpha1"),
        "topology.node.k8s.io",
        namespaced=False,
    ),
)
