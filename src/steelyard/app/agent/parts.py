"""What an agent looks at, part by part: the cards, the kubelet, the kernel's log. Each fails for itself.

``rounds`` runs them one after another. The trick to know: a part that cannot see says so each round (a status ``failed``), and why when the reason
changes or an hour has passed, so that what was not seen is never taken for nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.grant import Grant
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.unit import Unit
from steelyard.primitives.clock import Clock
from steelyard.primitives.instant import MINUTE_US, Instant
from steelyard.sources.cgroup.pod_pressure import PodPressure
from steelyard.sources.cgroup.process_table import ProcessTable
from steelyard.sources.kernel_log import KernelLogFollower, LogSource
from steelyard.sources.nvml.profiling import FIRST
from steelyard.sources.nvml.rounds import DeviceRounds
from steelyard.sources.pod_resources import KubeletClient, read_pod_resources
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_directory import DeviceDirectory
from steelyard.sources.shared.device_driver import DeviceDriver
from steelyard.sources.shared.round_memory import RoundMemory

INVENTORY_REPEAT_US: Final = 5 * MINUTE_US
SECOND_LOOK_SECONDS: Final = 0.5
COMPUTED_US_MAX: Final = 10 * MINUTE_US


class Sight:
    """What parts of one agent tell each other: where the cards sit, and which pods hold them. ``node``: whose agent it is."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._cards: dict[str, str] = {}
        self._pods: dict[str, list[str]] = {}
        self._computing: dict[str, Instant] = {}

    def learn(self, facts: Sequence[Fact]) -> None:
        """Remember where cards are, as the driver said last."""
        for fact in facts:
            if isinstance(fact, Device) and fact.pci_address is not None and fact.state == "present":
                self._cards[fact.pci_address] = fact.device_uuid
            elif isinstance(fact, ProcessSample) and fact.pod_uid is not None:
                self._computing[fact.pod_uid] = fact.occurred_at

    def computing(self, now: Instant) -> list[str]:
        """The pods that had a process on a card a short time ago, by uid."""
        self._computing = {pod: at for pod, at in self._computing.items() if now - at <= COMPUTED_US_MAX}
        return list(self._computing)

    def hold(self, grants: Sequence[Fact]) -> None:
        """Who holds cards now, by the kubelet's word."""
        self._pods = {}
        for fact in grants:
            if isinstance(fact, Grant) and fact.device_uuid is not None:
                self._pods.setdefault(fact.device_uuid, []).append(fact.pod_uid.removeprefix("name:"))

    def pods_of(self, device_uuid: str) -> Sequence[str]:
        """The pods that hold a share of a card."""
        return self._pods.get(device_uuid, ())

    def directory(self) -> DeviceDirectory:
        """Cards by PCI address."""
        return DeviceDirectory(by_pci={(self.node, pci): frozenset((uuid,)) for pci, uuid in self._cards.items()})


class Part(Protocol):
    """One thing that is looked at. ``name``: also the kind of its status. ``source``: in whose name it speaks."""

    name: str
    source: str

    def round(self, ctx: ReadContext) -> Iterator[Fact]:
        """The facts of one round, its own status among them. Raises SteelyardError or OSError where it cannot see."""
        ...

    def cursor(self) -> str | None:
        """What the next process needs, to be kept with the facts; None = nothing."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


class CardPart:
    """The cards, through the driver, with their processes and whose these are. ``driver``: of the vendor.

    ``pause``: waits so many seconds. With it the first round looks twice, for a profiling figure is the mean between two looks, and a first
    look that lacks it would leave the use of that hour unknown."""

    name = "nvml"
    source = "agent"

    def __init__(
        self,
        driver: DeviceDriver,
        clock: Clock,
        sight: Sight,
        *,
        cluster: str,
        proc_root: Path,
        gap_max_us: int,
        state: str | None = None,
        pause: Callable[[float], None] | None = None,
    ) -> None:
        self._pause = pause
        self._owners = ProcessTable(proc_root)
        self._sight = sight
        self._rounds = DeviceRounds(
            driver,
            clock,
            node=sight.node,
            cluster=cluster,
            owners=self._owners,
            holders=sight.pods_of,
            gap_max_us=gap_max_us,
            state=None if state is None else state.encode(),
        )

    @property
    def restart_reason(self) -> str | None:
        """Why only a new process can go on, or None."""
        return self._rounds.restart_reason

    def round(self, ctx: ReadContext) -> Iterator[Fact]:
        """See ``Part``."""
        facts = list(self._rounds.round())
        if self._pause is not None and any(_is_first_look(fact) for fact in facts):
            self._pause(SECOND_LOOK_SECONDS)
            again = [fact for fact in self._rounds.round() if not isinstance(fact, SourceStatus)]
            facts = [fact for fact in facts if not isinstance(fact, DeviceSample | ProcessSample)] + again
        self._pause = None
        self._sight.learn(facts)
        yield from facts
        yield from self._owners.setup_findings(ctx)

    def cursor(self) -> str | None:
        """See ``Part``."""
        return self._rounds.state().decode()

    def close(self) -> None:
        """See ``Part``."""
        self._rounds.close()


def _is_first_look(fact: Fact) -> bool:
    return isinstance(fact, DeviceSample) and FIRST in fact.unknown


class KubeletPart:
    """Who holds which device, by the kubelet. Grants are said when one changed, and every few minutes."""

    name = "pod_resources"
    source = "pod_resources"

    def __init__(self, client: KubeletClient, sight: Sight) -> None:
        self._client = client
        self._sight = sight
        self._said = RoundMemory(repeat_us=INVENTORY_REPEAT_US)

    def round(self, ctx: ReadContext) -> Iterator[Fact]:
        """See ``Part``."""
        facts = list(read_pod_resources(self._client.ask(self._sight.node), ctx))
        self._sight.hold(facts)
        inventory = [fact for fact in facts if isinstance(fact, Device | Unit | Grant)]
        words = [msgspec.structs.replace(fact, occurred_at=0, observed_at=0) for fact in inventory]
        if self._said.is_news("inventory", words, ctx.observed_at):
            yield from inventory
        yield from (fact for fact in facts if not isinstance(fact, Device | Unit | Grant))

    def cursor(self) -> str | None:
        """See ``Part``: nothing."""
        return None

    def close(self) -> None:
        """See ``Part``."""
        self._client.close()


class HostPart:
    """How the host treats the pods on the cards: once a minute, by their control groups."""

    name = "host"
    source = "agent"

    def __init__(self, sight: Sight, cgroup_root: Path, proc_root: Path) -> None:
        self._sight = sight
        self._pressure = PodPressure(cgroup_root, proc_root)

    def round(self, ctx: ReadContext) -> Iterator[Fact]:
        """See ``Part``."""
        return self._pressure.look(self._sight.computing(ctx.observed_at), ctx)

    def cursor(self) -> str | None:
        """See ``Part``: nothing."""
        return None

    def close(self) -> None:
        """See ``Part``: it holds nothing."""


class KernelLogPart:
    """Xid and SXid lines, cards that fall off the bus."""

    name = "kernel_log"
    source = "kernel_log"

    def __init__(self, log: LogSource, sight: Sight, cursor: str | None = None) -> None:
        self._follower = KernelLogFollower(log, cursor)
        self._sight = sight

    def round(self, ctx: ReadContext) -> Iterator[Fact]:
        """See ``Part``."""
        return self._follower.round(ctx, self._sight.directory())

    def cursor(self) -> str | None:
        """See ``Part``."""
        return self._follower.cursor()

    def close(self) -> None:
        """See ``Part``."""
        self._follower.close()
