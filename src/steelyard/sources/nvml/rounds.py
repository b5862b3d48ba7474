"""Rounds over the cards of one node: facts now, and what changed since the round before.

``app`` makes one ``DeviceRounds`` per process and asks it for a round per interval. The tricks to know: every card has a thread of its own
and all are waited for together, so a card whose driver call hangs costs one deadline and only its own samples; the card is still told, as it
was last seen, with the call that is stuck; and inventory that did not change is said anew only every few minutes, for a round in which it
is said names all cards of the node or is not complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, TypeVar

import msgspec

from steelyard.facts.base import Fact
from steelyard.primitives.clock import Clock
from steelyard.sources.nvml.card_facts import Round
from steelyard.sources.nvml.changes import NodeMemory
from steelyard.sources.nvml.round_facts import Answer, Holders, Kept, RoundFacts
from steelyard.sources.nvml.worker import DriverWorker, Errand, StuckCall, wait_for
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_driver import CardReading, DeviceDriver, DriverError, LibraryReading
from steelyard.sources.shared.process_owner import ProcessOwners

STATE_MAX_BYTES: Final = 1_048_576
T = TypeVar("T")


class DeviceRounds:
    """The cards of a node, round by round. Every driver call ends within ``deadline_seconds`` or is abandoned and told as stuck."""

    def __init__(
        self,
        driver: DeviceDriver,
        clock: Clock,
        *,
        node: str,
        cluster: str = "default",
        owners: ProcessOwners | None = None,
        holders: Holders | None = None,
        deadline_seconds: float = 5.0,
        gap_max_us: int | None = None,
        state: bytes | None = None,
    ) -> None:
        """gap_max_us: how far apart two rounds may lie and still be one stretch (``source_status.gap_max_us``). holders: who shares a card, to
        name them where it is shared through MPS. state: what ``state()`` of an earlier process returned, so that a driver upgrade or a board
        swap over a restart is seen; what cannot be read of it is as if there were none.
        """
        self._driver = driver
        self._clock = clock
        self._node = node
        self._cluster = cluster
        self._deadline_seconds = deadline_seconds
        self._kept = Kept(_memory_of(state), owners, holders, gap_max_us)
        self._library: DriverWorker[LibraryReading] = DriverWorker("driver-library", clock)
        self._cards: dict[int, DriverWorker[CardReading]] = {}

    def round(self) -> Iterator[Fact]:
        """The facts of one round: device, unit, device_sample, process_sample, metric_sample (counters that moved), transition, finding, and
        one source_status of kind ``nvml`` (source ``agent``, scope ``node/<name>``). Takes at most about two deadlines. Never raises for what
        the driver does.
        """
        at = self._clock.now()
        kept = self._kept
        kept.troubles.begin()
        library = self._ask_library()
        if isinstance(library, LibraryReading):
            kept.library = library
        said = kept.library.driver_version if kept.library is not None else None
        version = said if isinstance(said, str) else kept.memory.driver_version
        of = Round(self._cluster, self._node, at, self._driver.vendor, version)
        facts = RoundFacts(kept, ReadContext(cluster=self._cluster, node=self._node, observed_at=at), of)
        yield from facts.library_facts(library)
        if kept.library is None or isinstance(library, DriverError):
            yield from facts.nothing_read()
        else:
            answers = self._read_cards(kept.library.cards_count)
            yield from facts.card_facts(answers, self._identities(answers))
        yield facts.status()
        kept.troubles.end()

    def state(self) -> bytes:
        """What the next process needs to see changes over a restart: a small JSON document to keep on disk."""
        return msgspec.json.encode(self._kept.memory)

    @property
    def restart_reason(self) -> str | None:
        """Why only a new process can go on (the library on disk is not the one that is mapped), else None."""
        return self._kept.restart_reason

    def close(self) -> None:
        """Let the driver go; calls that are stuck stay behind in their threads, which die with the process."""
        self._library.end()
        for worker in self._cards.values():
            worker.end()
        if self._library.stuck is None and all(worker.stuck is None for worker in self._cards.values()):
            closing: DriverWorker[None] = DriverWorker("driver-close", self._clock)
            errand = closing.start(lambda _: self._driver.close())
            if errand is not None:
                wait_for([errand], self._deadline_seconds)
            closing.end()

    def _ask_library(self) -> LibraryReading | DriverError | StuckCall:
        errand = self._library.start(self._driver.open)
        if errand is not None:
            wait_for([errand], self._deadline_seconds)
        return _answer(self._library, errand)

    def _read_cards(self, count: int) -> dict[int, Answer]:
        """What each card answers within one deadline; a card that hangs answers with the call it hangs in."""
        errands: dict[int, Errand[CardReading] | None] = {}
        for index in range(count):
            worker = self._cards.setdefault(index, DriverWorker(f"driver-card-{index}", self._clock))
            errands[index] = worker.start(partial(self._driver.read_card, index))
        wait_for([errand for errand in errands.values() if errand is not None], self._deadline_seconds)
        answers: dict[int, Answer] = {}
        for index, errand in errands.items():
            answer = _answer(self._cards[index], errand)
            answers[index] = answer
        return answers

    def _identities(self, answers: Mapping[int, Answer]) -> dict[int, CardReading]:
        """Which cards those are that hang or failed, where their reading came so far."""
        last = {
            index: self._cards[index].last.identity
            for index, answer in answers.items()
            if not isinstance(answer, CardReading)
        }
        return {index: identity for index, identity in last.items() if identity is not None}


def _answer(worker: DriverWorker[T], errand: Errand[T] | None) -> T | DriverError | StuckCall:
    """The result or the error of a job that is done; else the call in which its thread hangs. Raises what no driver should do."""
    if errand is None:
        return worker.last.last_call
    if not errand.done.is_set():
        return errand.last_call
    if errand.failure is not None:
        raise errand.failure
    if errand.error is not None:
        return errand.error
    return errand.value()


def _memory_of(state: bytes | None) -> NodeMemory:
    if not state or len(state) > STATE_MAX_BYTES:
        return NodeMemory()
    try:
        return msgspec.json.decode(state, type=NodeMemory)
    except msgspec.DecodeError:
        return NodeMemory()
