"""From when to when a grant is held.

The start is the bind: PodScheduled=True, else the scheduler's own bind stamp, else startTime, else the first container's start; the
basis is kept, and a stamp before the object's creation is refused. The end is the last container's end where the phase is terminal.
A pod that is missing from the next listing ended between the two: its end is an interval, booked at the last sighting.

Sceptic's command: ``kubectl get pod P -o jsonpath='{.status.conditions}{.status.containerStatuses[*].state}'``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from steelyard.primitives.instant import DAY_US, Instant, parse_instant

VERSION: Final = "1"
FIRST_PLAUSIBLE: Final[Instant] = parse_instant("2010-01-01T00:00:00Z")
FORMULA: Final = (
    "[bind, last container's end): PodScheduled, else the scheduler's bind stamp, else startTime, else first container; "
    "a vanished pod ends at its last sighting"
)

START_BASES: Final = ("pod_scheduled", "scheduler_bind", "start_time", "first_container")
"""Strongest first."""


@dataclass(frozen=True, slots=True)
class HoldingStart:
    """``at`` and ``basis`` (one of START_BASES), both None where no stamp is left. ``refused``: bases whose stamp lies before creation."""

    at: Instant | None
    basis: str | None
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HoldingEnd:
    """``at`` None: still open. ``before_at``: it was gone by then (the end is only known as an interval).

    basis: ``container_finished``, ``phase_seen`` (alive at ``at``, seen terminal at ``before_at``, no stamp), ``vanished``, None (open).
    unknown: terminal, and nothing says when it ended: no interval can be booked.
    """

    at: Instant | None
    before_at: Instant | None
    basis: str | None
    unknown: bool = False


def plausible_stamp(stamp_at: Instant | None, seen_at: Instant) -> Instant | None:
    """The stamp, or None where it lies before 2010 (an empty field) or more than a day after its object was seen (a broken clock).

    A trace whose clock starts in 1970 was itself seen before 2010: its stamps count from 1970 on.
    """
    if stamp_at is None:
        return None
    earliest = 0 if seen_at < FIRST_PLAUSIBLE else FIRST_PLAUSIBLE
    return stamp_at if earliest <= stamp_at <= seen_at + DAY_US else None


def holding_start(
    created_at: Instant | None,
    scheduled_at: Instant | None,
    bound_at: Instant | None,
    started_at: Instant | None,
    first_container_at: Instant | None,
) -> HoldingStart:
    """The start of a holding by the strongest stamp that is not before creation."""
    stamps = tuple(zip(START_BASES, (scheduled_at, bound_at, started_at, first_container_at), strict=True))
    refused = tuple(basis for basis, at in stamps if at is not None and created_at is not None and at < created_at)
    for basis, at in stamps:
        if at is not None and basis not in refused:
            return HoldingStart(at, basis, refused)
    return HoldingStart(None, None, refused)


def holding_end(
    terminal: bool,
    last_container_end_at: Instant | None,
    alive_seen_at: Instant | None,
    terminal_seen_at: Instant | None,
    last_seen_at: Instant,
    gone_by_at: Instant | None,
) -> HoldingEnd:
    """The end of a holding.

    alive_seen_at: last sighting in a phase that is not terminal; terminal_seen_at: first in one that is. gone_by_at: the first
    complete listing without it, or the creation of its successor of the same name, whichever is earlier; None where neither was seen.
    """
    if terminal and last_container_end_at is not None:
        return HoldingEnd(last_container_end_at, None, "container_finished")
    if terminal and alive_seen_at is not None:
        return HoldingEnd(alive_seen_at, terminal_seen_at, "phase_seen")
    if terminal:
        return HoldingEnd(None, None, None, unknown=True)
    if gone_by_at is not None:
        return HoldingEnd(last_seen_at, max(last_seen_at, gone_by_at), "vanished")
    return HoldingEnd(None, None, None)
