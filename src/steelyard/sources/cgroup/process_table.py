"""Processes by pid, as ``/proc`` shows them: whose each one is, remembered as long as the same process lives.

``app`` makes one ``ProcessTable`` per process and hands it to the rounds over the cards. The tricks to know: a pid is one process only
together with its start (field 22 of ``stat``), which is read before and after the cgroup, so a pid that changed hands in between belongs to
nobody; a driver's pids are the machine's, so in a pid namespace of its own the reader resolves none, for an equal number there is somebody
else; and only a place inside a pod is remembered, for a process may still be on its way there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.facts.finding import Finding
from steelyard.primitives.i18n import ngettext
from steelyard.sources.cgroup.grammar import PRIVATE_NAMESPACE, CgroupPlace, place_of
from steelyard.sources.cgroup.namespaces import own_namespaces
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.process_owner import GONE, HOST, POD, UNRESOLVED, ProcessOwner
from steelyard.sources.shared.round_memory import RoundMemory

SOURCE: Final = "agent"
MPS_SERVER: Final = "nvidia-cuda-mps-server"
REMEMBERED_MAX: Final = 65_536
STAT_MAX: Final = 4_096
CGROUP_MAX: Final = 65_536
NOT_THE_HOSTS_PIDS: Final = (
    "the agent runs in a pid namespace of its own (hostPID is not set), and the driver's pids are the host's"
)


@dataclass(frozen=True, slots=True)
class _Stat:
    """What ``stat`` says: the name in parentheses, the state letter, the start in clock ticks since boot."""

    comm: str
    state: str
    started_ticks: int


class ProcessTable:
    """Owners by pid, from ``proc_root`` (``/proc``, or where the host's is mounted).

    host_pids: True or False where the caller knows whether the pids of this ``/proc`` are those of the driver; None = the reader's own
    namespaces decide.
    """

    def __init__(self, proc_root: Path = Path("/proc"), *, host_pids: bool | None = None) -> None:
        self._root = proc_root
        self._namespaces = own_namespaces(proc_root)
        self._host_pids = self._namespaces.host_pids if host_pids is None else host_pids
        self._remembered: dict[int, ProcessOwner] = {}
        self._last: dict[int, ProcessOwner] = {}
        self._said = RoundMemory()

    def owners_of(self, pids: Iterable[int]) -> Mapping[int, ProcessOwner]:
        """One owner per pid asked for. Never raises: what cannot be read is ``unresolved`` or ``gone`` with its reason."""
        owners = {pid: self._owner(pid) for pid in pids}
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered = {pid: owner for pid, owner in self._remembered.items() if pid in owners}
        self._last = owners
        return owners

    def setup_findings(self, ctx: ReadContext) -> Iterator[Finding]:
        """What is wrong with how this process itself was set up, as of the last ``owners_of``: each thing when it appears, then once an hour."""
        owners = self._last.values()
        hidden = sum(owner.reason == PRIVATE_NAMESPACE for owner in owners)
        denied = [
            owner for owner in owners if owner.kind == UNRESOLVED and (owner.reason or "").startswith("not permitted")
        ]
        gone = sum(owner.kind == GONE for owner in owners)
        if self._host_pids is False and self._last:
            yield from self._find(
                ctx, "host_pid_missing", f"{NOT_THE_HOSTS_PIDS}: set hostPID: true", {"pids_count": len(self._last)}
            )
        elif self._host_pids is None and gone == len(self._last) > 1:
            yield from self._find(
                ctx,
                "host_pid_missing",
                f"none of the {gone} processes that the driver names is in {self._root}: set hostPID: true, or mount the host's /proc",
                {"pids_count": gone},
            )
        if hidden:
            yield from self._find(
                ctx,
                "cgroup_namespace_private",
                f"{hidden} processes show their cgroup relative to the agent's own namespace, so their pods are not known: "
                "run the agent in the host's cgroup namespace",
                {"pids_count": hidden, "own_namespace_is_the_hosts": self._namespaces.host_cgroups},
            )
        if denied:
            yield from self._find(
                ctx,
                "proc_not_readable",
                ngettext("{count} process cannot be read", "{count} processes cannot be read", len(denied)).format(
                    count=len(denied)
                )
                + f": {denied[0].reason}",
                {"pids_count": len(denied)},
            )

    def _find(self, ctx: ReadContext, code: str, message: str, evidence: dict[str, object]) -> Iterator[Finding]:
        if self._said.is_news(code, True, ctx.observed_at):
            yield ctx.finding(SOURCE, code, f"node {ctx.node}", message, evidence={"node": ctx.node, **evidence})

    def _owner(self, pid: int) -> ProcessOwner:
        if self._host_pids is False:
            return ProcessOwner(pid, UNRESOLVED, reason=NOT_THE_HOSTS_PIDS)
        try:
            before = self._stat(pid)
            remembered = self._remembered.get(pid)
            if remembered is not None and remembered.started_ticks == before.started_ticks:
                return remembered
            place = place_of(self._read(pid, "cgroup", CGROUP_MAX))
            name = self._name(pid, before)
            after = self._stat(pid)
        except (FileNotFoundError, ProcessLookupError):
            self._remembered.pop(pid, None)
            return ProcessOwner(pid, GONE, reason="no such process any more")
        except PermissionError:
            return ProcessOwner(pid, UNRESOLVED, reason=f"not permitted to read {self._root}/{pid}")
        except (OSError, ValueError) as error:
            return ProcessOwner(pid, UNRESOLVED, reason=plain(f"{self._root}/{pid}: {error}"[:200]))
        if after.started_ticks != before.started_ticks:
            return ProcessOwner(pid, GONE, reason="the pid went to another process while it was read")
        if place.reason == PRIVATE_NAMESPACE and self._namespaces.host_cgroups:
            place = CgroupPlace(HOST)  # the paths start at the machine's own root, and there it is
        owner = _owner_at(pid, place, name, after)
        if owner.kind == POD:
            self._remembered[pid] = owner
        else:
            self._remembered.pop(pid, None)
        return owner

    def _stat(self, pid: int) -> _Stat:
        return _parse_stat(self._read(pid, "stat", STAT_MAX))

    def _name(self, pid: int, stat: _Stat) -> str:
        """The program's file name: ``comm`` is cut to 15 characters, which does not tell an MPS server from its control daemon."""
        try:
            words = self._read(pid, "cmdline", STAT_MAX).split("\0", 1)
        except OSError:
            return stat.comm
        program = words[0].strip().rsplit("/", 1)[-1][:256]
        return program if program.startswith(stat.comm) else stat.comm

    def _read(self, pid: int, name: str, limit: int) -> str:
        with (self._root / str(pid) / name).open("rb") as file:
            return file.read(limit).decode("utf-8", errors="replace")


def _parse_stat(text: str) -> _Stat:
    """The name may hold blanks and parentheses, so it ends at the last one. Raises ValueError where the text is none."""
    opening, closing = text.find("("), text.rfind(")")
    fields = text[closing + 1 :].split()
    if opening < 0 or closing < opening or len(fields) < 20 or not fields[19].isdecimal():
        raise ValueError(f"expected a process status with a start time, found {text[:60]!r}")
    return _Stat(plain(text[opening + 1 : closing][:256]), fields[0], int(fields[19][:20]))


def _owner_at(pid: int, place: CgroupPlace, name: str, stat: _Stat) -> ProcessOwner:
    reason = place.reason
    if reason is None and stat.state == "Z":
        reason = "it is a zombie: it ended and nobody collected it"
    return ProcessOwner(
        pid=pid,
        kind=place.kind,
        pod_uid=place.pod_uid,
        enclosing_pod_uid=place.enclosing_pod_uid,
        container_id=place.container_id,
        name=plain(name),
        started_ticks=stat.started_ticks,
        static=place.static,
        mps_server=name == MPS_SERVER,
        reason=reason,
    )
