"""Whether this process sees the host's processes at all: its own pid and cgroup namespaces, read from its own entries in ``/proc``.

The trick to know: the kernel gives the namespaces of the machine itself fixed inode numbers, so anybody can tell whether he is in them,
without any right; and a ``/proc`` of the host that is mounted into a container shows its readers with one pid per namespace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

INITIAL_PID_NAMESPACE: Final = 0xEFFFFFFC
INITIAL_CGROUP_NAMESPACE: Final = 0xEFFFFFFB
_INODE: Final = re.compile(r"[a-z_]{1,20}:\[([0-9]{1,20})\]\Z")


@dataclass(frozen=True, slots=True)
class OwnNamespaces:
    """What the reader's entries say; None where they cannot be read. host_pids: the pids of this ``/proc`` are the machine's own.
    host_cgroups: the paths of cgroups are shown from the machine's own root."""

    host_pids: bool | None
    host_cgroups: bool | None


def own_namespaces(proc_root: Path) -> OwnNamespaces:
    """The namespaces of the reader as ``proc_root`` shows them. Check with ``readlink /proc/self/ns/pid /proc/self/ns/cgroup``."""
    own = proc_root / "self"
    pid, cgroup = _inode(own / "ns" / "pid"), _inode(own / "ns" / "cgroup")
    host_pids = None if pid is None else pid == INITIAL_PID_NAMESPACE or _is_seen_from_outside(own / "status")
    return OwnNamespaces(host_pids, None if cgroup is None else cgroup == INITIAL_CGROUP_NAMESPACE)


def _inode(link: Path) -> int | None:
    try:
        match = _INODE.match(str(link.readlink()))
    except OSError:
        return None
    return int(match.group(1)) if match else None


def _is_seen_from_outside(status: Path) -> bool:
    """Whether this ``/proc`` belongs to a namespace around the reader's: it then shows him with more than one pid."""
    try:
        with status.open("rb") as file:
            text = file.read(65_536)
    except OSError:
        return False
    line = next((line for line in text.splitlines() if line.startswith(b"NSpid:")), b"")
    return len(line.split()) > 2
