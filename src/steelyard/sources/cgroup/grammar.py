"""The text of ``/proc/<pid>/cgroup``, of either version, as the place of a process: which pod, which container, or none.

Every kubelet and runtime spells it another way: cgroupfs with dashes, systemd slices with underscores, ``cri-containerd-``, ``crio-`` and
``docker-`` scopes, the colon form of a runtime whose driver is set up otherwise, a kubelet inside a container with a prefix of its own.
The tricks to know: a pod's uid has one strict shape (five groups, or the 32 digits of a static pod), and of several in one path the last is
the process's own; one process has a line per hierarchy, of which those that name a pod win; and a bare ``/`` tells nothing but that the
reader sits in a cgroup namespace of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from steelyard.sources.shared.process_owner import CONTAINER, HOST, POD, UNRESOLVED

TEXT_MAX: Final = 65_536
PRIVATE_NAMESPACE: Final = "its cgroup is shown relative to the reader's own cgroup namespace"
NO_LINES: Final = "its cgroup file holds no line of a known form"
SEVERAL_PODS: Final = "its cgroups name different pods"

_LINE: Final = re.compile(r"[0-9]{1,6}:[^:/]{0,400}:(/.{0,8191})\Z", re.DOTALL)
_POD: Final = re.compile(
    r"(?:\A|[/-])pod("
    r"[0-9a-f]{8}([-_])[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{12}"
    r"|[0-9a-f]{32})(?=\Z|/|:|\.slice(?:\Z|[/:]))"
)
_CONTAINER_ID: Final = re.compile(
    r"(?:[/:]|(?:cri-containerd|crio|docker|libpod|cri-docker)-)([0-9a-f]{60,64})(?:\.scope)?(?=\Z|/)"
)
_RUNTIME: Final = re.compile(
    r"/(?:docker|buildkit|libpod|machine\.slice|lxc|lxc\.payload[^/]{0,256}|containerd|garden|ecs)(?:/|\Z)"
)


@dataclass(frozen=True, slots=True)
class CgroupPlace:
    """Where a process sits. kind: ``pod``, ``container``, ``host`` or ``unresolved`` (with ``reason``), as in ``ProcessOwner``."""

    kind: str
    pod_uid: str | None = None
    enclosing_pod_uid: str | None = None
    container_id: str | None = None
    static: bool = False
    reason: str | None = None


def place_of(text: str) -> CgroupPlace:
    """The place that a whole cgroup file tells (a bare path counts as a line too).

    Lines that name a pod win over those that name a container, these over the rest; lines that name different pods are ``unresolved``.
    Check with ``cat /proc/<pid>/cgroup``.
    """
    paths = [path for path in map(_path, text[:TEXT_MAX].splitlines()) if path is not None]
    if not paths:
        return CgroupPlace(UNRESOLVED, reason=NO_LINES)
    places = [_place(path) for path in paths]
    pods = [place for place in places if place.kind == POD]
    if len({place.pod_uid for place in pods}) > 1:
        named = ", ".join(sorted({place.pod_uid or "" for place in pods})[:4])
        return CgroupPlace(UNRESOLVED, reason=f"{SEVERAL_PODS}: {named}")
    for kind in (POD, CONTAINER, HOST):
        of_kind = [place for place in places if place.kind == kind]
        if of_kind:
            return next((place for place in of_kind if place.container_id is not None), of_kind[0])
    return places[0]


def _path(line: str) -> str | None:
    line = line.rstrip("\r").removesuffix(" (deleted)")
    if line.startswith("/"):
        return line[:8_192]
    match = _LINE.match(line)
    return match.group(1) if match else None


def _place(path: str) -> CgroupPlace:
    matches = list(_POD.finditer(path))
    ids = _CONTAINER_ID.findall(path)
    container_id = ids[-1] if ids else None
    if matches:
        uids = [match.group(1).replace("_", "-") for match in matches]
        enclosing = next((uid for uid in reversed(uids) if uid != uids[-1]), None)
        after = _CONTAINER_ID.findall(path, matches[-1].end())
        return CgroupPlace(POD, uids[-1], enclosing, after[-1] if after else None, len(uids[-1]) == 32)
    if path == "/" or path.startswith("/.."):
        return CgroupPlace(UNRESOLVED, container_id=container_id, reason=PRIVATE_NAMESPACE)
    if container_id is not None or _RUNTIME.search(path):
        return CgroupPlace(CONTAINER, container_id=container_id)
    return CgroupPlace(HOST)
