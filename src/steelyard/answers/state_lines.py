"""GPU-time by state, pod and place: what Q3 groups, and what of it is asked about.

``state_lines`` reads the ledger of states over whole grains. The trick to know: a line is one (place, pod, state, cause, basis) with an
integer amount, so whatever it is grouped by, the groups add up to the supply exactly; time that nobody holds has no pod, so a condition on
pods leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from steelyard.answers import dimensions
from steelyard.answers.dimensions import Filter
from steelyard.answers.lines import homes_of
from steelyard.answers.narrowing import Homes
from steelyard.answers.reading import Reading, Record
from steelyard.definitions import gpu_state
from steelyard.primitives.instant import HOUR_US, Window

WORKING: Final = ("saturated", "memory_bound", "compute_bound", "mixed")
"""States in which the card did what it is there for."""
WASTED: Final = ("suspected_hang", "held_idle", "busy_not_working")
"""Held, and nothing moved."""
HELD: Final = (*gpu_state.HELD_BY_TRIPLE, *gpu_state.OTHER_HELD)
NOT_KNOWN: Final = (gpu_state.UNKNOWN, "held_unattributed")


@dataclass(frozen=True, slots=True)
class StateLine:
    """``record``: the dimensions of the pod and place, with ``state``, ``cause`` and ``basis``. amount_us: GPU-microseconds as booked."""

    record: Record
    amount_us: int


@dataclass(frozen=True, slots=True)
class Asked:
    """``lines`` meet all conditions. ``of_places`` meet those on places, so they are the supply that the lines are a part of. ``unsettled``: held by
    pods whose card is not known and may be one of those asked about."""

    lines: Sequence[StateLine]
    of_places: Sequence[StateLine]
    unsettled: Sequence[StateLine] = ()


class StateReader:
    """Names the rows of the ledger of states, over one window of whole grains."""

    def __init__(self, reading: Reading, window: Window) -> None:
        self._reading = reading
        self.window = window
        devices = reading.run("devices")
        self._devices = {(row["cluster"], row["device_uuid"]): row for row in devices}
        self._models = {(row["cluster"], row["node"]): row["model"] for row in reading.run("nodes")}
        self.homes: Homes = homes_of(reading, devices)
        persons = {(row["cluster"], row["pod_uid"]): row["person"] for row in reading.run("persons")}
        self.pods: Mapping[tuple[str, str], Record] = {
            (row["cluster"], row["pod_uid"]): {**row, "person": persons.get((row["cluster"], row["pod_uid"]))}
            for row in reading.run("holders", from_us=window.start, to_us=window.end)
        }

    def lines(self) -> list[StateLine]:
        """All of the window."""
        rows = self._reading.run("stated", from_us=self.window.start, to_us=self.window.end)
        return [StateLine(self.named(row), int(row["amount_gpu_us"])) for row in rows]

    def named(self, row: Record) -> Record:
        """The row's dimensions."""
        device = self._devices.get((row["cluster"], row["device_uuid"]))
        pod = self.pods.get((row["cluster"], row["pod_uid"]), {})
        node = row["node"] or (device["node"] if device else None) or pod.get("node")
        home = (row["cluster"], node)
        return {
            **pod,
            "cluster": row["cluster"],
            "pod_uid": row["pod_uid"],
            "place_kind": row["place_kind"],
            "place_id": row["place_id"],
            "device_uuid": row["device_uuid"],
            "node": node,
            "model": device["model"] if device else self.homes.only(home, "model") or self._models.get(home),
            "vendor": device["vendor"] if device else self.homes.only(home, "vendor"),
            "device_index": device["device_index"] if device else None,
            "state": row["state"],
            "cause": row["cause"],
            "basis": row["basis"],
        }

    def cards(self) -> Iterable[Record]:
        """The cards that are known, as they were last seen."""
        return self._devices.values()


def asked_about(lines: Sequence[StateLine], where: Sequence[Filter], homes: Homes) -> Asked:
    """What of the lines meets the conditions."""
    if not where:
        return Asked(lines, lines)
    of_place = [condition for condition in where if condition.dimension.name in dimensions.PLACE]
    met: list[StateLine] = []
    places: list[StateLine] = []
    unsettled: list[StateLine] = []
    for line in lines:
        verdict = _meets(line.record, where, homes)
        if verdict:
            met.append(line)
        elif verdict is None:
            unsettled.append(line)
        if _meets(line.record, of_place, homes):
            places.append(line)
    return Asked(met, places, unsettled)


def _meets(record: Record, where: Sequence[Filter], homes: Homes) -> bool | None:
    """Whether a line meets the conditions; None where its card is not known and may. Free share of a place that is no card belongs to its node."""
    if record["pod_uid"] is None:
        return all(condition.admits(record) for condition in where)
    return homes.meets(record, where)


def total_us(lines: Iterable[StateLine], states: Iterable[str] | None = None) -> int:
    """The time of all lines, or of those in the states."""
    wanted = None if states is None else frozenset(states)
    return sum(line.amount_us for line in lines if wanted is None or line.record["state"] in wanted)


def hours(amount_us: int) -> Fraction:
    """As hours, exactly."""
    return Fraction(amount_us, HOUR_US)


def share(part_us: int, whole_us: int) -> float | None:
    """A part as a ratio; None of nothing."""
    return float(Fraction(part_us, whole_us)) if whole_us else None
