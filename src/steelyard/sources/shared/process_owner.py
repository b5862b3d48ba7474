"""Whose a process on a card is: what the kernel says of a pid, and the port through which a reader of cards asks for it.

``sources/cgroup`` answers it from ``/proc``; ``sources/nvml`` asks. The trick to know: a pid alone names nobody for long, so an answer
carries the start of the process, and a process that ended between two reads is ``gone``, not the host's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

POD: Final = "pod"
CONTAINER: Final = "container"
HOST: Final = "host"
GONE: Final = "gone"
UNRESOLVED: Final = "unresolved"


@dataclass(frozen=True, slots=True)
class ProcessOwner:
    """What is known of a process. kind: ``pod`` (pod_uid is set), ``container`` (of no pod: plain docker, buildkit), ``host`` (a service
    or a login), ``gone`` (no such process any more) or ``unresolved`` (it runs, and its cgroup does not say; reason tells why).

    pod_uid: as the API server writes it, or the 32 hexadecimal digits of a static pod (``static``: its mirror pod carries them in
    ``kubernetes.io/config.hash``). enclosing_pod_uid: the pod around that one, where a kubelet runs inside a pod. started_ticks: field 22 of
    ``/proc/<pid>/stat``. name: the file name of its program, else its ``comm``. mps_server: it is an MPS server, so what it uses is its
    clients', not its own pod's. reason: why there is no pod, where that is not plain.
    """

    pid: int
    kind: str
    pod_uid: str | None = None
    enclosing_pod_uid: str | None = None
    container_id: str | None = None
    name: str | None = None
    started_ticks: int | None = None
    static: bool = False
    mps_server: bool = False
    reason: str | None = None


class ProcessOwners(Protocol):
    """Tells whose processes are."""

    def owners_of(self, pids: Iterable[int]) -> Mapping[int, ProcessOwner]:
        """One owner per pid asked for."""
        ...
