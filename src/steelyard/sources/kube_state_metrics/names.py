"""Names as kube-state-metrics writes them, and back: which metrics tell of a pod, and what ``nvidia_com_gpu`` is called in Kubernetes.

The trick to know: everything that is no letter or digit became ``_``, so the way back is a table of known names, then the form of MIG
resources and of domains; a name that none of these explains stays unknown and is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

PRESENCE: Final = "kube_pod_info"
REQUESTS: Final = "kube_pod_container_resource_requests"
INIT_REQUESTS: Final = "kube_pod_init_container_resource_requests"
STAMPS: Final[Mapping[str, str]] = {
    "kube_pod_created": "created",
    "kube_pod_start_time": "started",
    "kube_pod_completion_time": "completed",
    "kube_pod_deletion_timestamp": "deleted",
    "kube_pod_status_scheduled_time": "scheduled",
}
"""Metric -> which stamp of the pod its value (seconds since 1970) is."""

CONTAINER_STARTED: Final = "kube_pod_container_state_started"
RUNNING: Final = "kube_pod_container_status_running"
POD_METRICS: Final = (
    PRESENCE, REQUESTS, INIT_REQUESTS, *STAMPS, "kube_pod_status_phase", "kube_pod_status_reason", CONTAINER_STARTED, RUNNING,
    "kube_pod_owner", "kube_pod_labels",
)  # fmt: skip
"""All metrics that are read, in the order in which they are asked for."""

NOT_EXTENDED: Final = "cpu|memory|storage|ephemeral_storage|hugepages_.+|attachable_volumes_.+"
"""Resources that are no extended ones, as a regular expression."""

_NOT_A_WORD: Final = re.compile(r"[^a-zA-Z0-9_]", re.ASCII)
_MIG: Final = re.compile(r"nvidia_com_mig_((?:\d{1,2}c_)?\d{1,2}g_\d{1,3}gb)((?:_[a-z]{1,10}){0,3})\Z", re.ASCII)
_DOMAIN: Final = re.compile(
    r"([a-z0-9]{1,60}(?:_[a-z0-9]{1,60}){0,5}?)_(com|ai|io|sh|cn|net|org)_([a-zA-Z0-9_]{1,100})\Z", re.ASCII
)


def sanitised(name: str) -> str:
    """A name as kube-state-metrics writes it."""
    return _NOT_A_WORD.sub("_", name)


def known_resources(names: Iterable[str]) -> dict[str, str]:
    """The look-up of known resources by the way they are written."""
    return {sanitised(name): name for name in sorted(names)}


def resource_name(written: str, known: Mapping[str, str]) -> str | None:
    """The resource behind a written name; None where nothing explains it (``cpu``, ``memory``)."""
    if written in known:
        return known[written]
    if len(written) > 200:
        return None
    match = _MIG.match(written)
    if match is not None:
        return f"nvidia.com/mig-{match.group(1).replace('_', '.')}{match.group(2).replace('_', '.')}"
    match = _DOMAIN.match(written)
    if match is None:
        return None
    domain, end, local = match.groups()
    return f"{domain.replace('_', '.')}.{end}/{local.replace('_', '-')}"
