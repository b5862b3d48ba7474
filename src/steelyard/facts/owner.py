"""Whose a pod is: its owner chain, labels and annotations. Tenants are derived from these by the rules in the settings."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class Owner(Fact, frozen=True, kw_only=True):
    """A pod's belonging at one sighting. natural_key: pod_uid.

    owner_kind, owner_name, owner_uid: the direct controller reference; workload_kind, workload_name: the root that people know
    (ReplicaSet becomes Deployment, a Job of a CronJob stays a Job). labels, annotations: JSON objects with sorted keys;
    annotations without the bulky machine-written ones.
    """

    TABLE: ClassVar[str] = "owner"

    pod_uid: str
    namespace: str
    owner_kind: str | None = None
    owner_name: str | None = None
    owner_uid: str | None = None
    workload_kind: str | None = None
    workload_name: str | None = None
    labels: str = "{}"
    annotations: str = "{}"
