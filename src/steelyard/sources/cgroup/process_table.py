"""Processes by pid, as ``/proc`` shows them: whose each one is, remembered as long as the same process lives.

``app`` makes one ``ProcessTable`` per process and hands it to the rounds over the cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from steelyard.facts.finding import Finding
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.process_owner import ProcessOwner


class ProcessTable:
    """Owners by pid, from ``proc_root`` (``/proc``, or where the host's is mounted)."""

    def __init__(self, proc_root: Path = Path("/proc")) -> None:
        raise NotImplementedError

    def owners_of(self, pids: Iterable[int]) -> Mapping[int, ProcessOwner]:
        """One owner per pid asked for. Never raises: what cannot be read is ``unresolved`` or ``gone`` with its reason."""
        raise NotImplementedError

    def setup_findings(self, ctx: ReadContext) -> Iterator[Finding]:
        """What is wrong with how this process itself was set up (no hostPID, a private cgroup namespace), as of the last ``owners_of``."""
        raise NotImplementedError
