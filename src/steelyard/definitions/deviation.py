"""Deviation: by how much the words about one pod on one card differ, from its request to what the device reports.

``answers/reconcile`` asks ``verdict`` for every row. Five figures that are never merged; the first pair that does not go together names the row. The
trick to know: a figure that is not known agrees with nothing and contradicts nothing.

Tolerance of memory, counted against the device or the limit: 5 % of the latter's figure, at least 600 MiB (the context of a process, which no
soft-partition layer counts). Limits and grants are written down, not measured: they must agree to a MiB.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1"
FORMULA: Final = (
    "differences of memory requested, granted, enforced, counted and reported by the device, each over the time in which both sides were seen; "
    "counted against the device and the limit within max(5 %, 600 MiB)"
)

TOLERANCE_MIB: Final = 600
TOLERANCE_PERCENT: Final = 5
WRITTEN_TOLERANCE_MIB: Final = 1

VERDICTS: Final = (
    "not_held",
    "grant_larger_than_request",
    "limit_not_in_force",
    "counted_above_device",
    "counted_below_device",
    "use_unknown",
    "not_counted",
    "agrees",
)
"""In the order in which they are tried. ``not_counted``: the device tells its use, the layer does not."""

DEVIATING: Final = frozenset(VERDICTS[:5])
"""Those that say that two known figures do not go together, or that nobody holds what is claimed."""


def tolerance_mib(other_mib: float) -> float:
    """By how much what is counted may differ from what the device reports, or exceed its limit, MiB."""
    return max(other_mib * TOLERANCE_PERCENT / 100, TOLERANCE_MIB)


def verdict(
    requested_mib: float | None,
    granted_mib: float | None,
    enforced_mib: float | None,
    counted_mib: float | None,
    device_mib: float | None,
    *,
    held: bool = True,
    rounded: bool = False,
) -> str:
    """One of ``VERDICTS`` for one row; None = not known. ``held``: whether anybody holds it. ``rounded``: a MIG profile may exceed the request.

    ``counted`` and ``device`` are compared as given: both of the same time.
    """
    if not held:
        return "not_held"
    if (
        not rounded
        and requested_mib is not None
        and granted_mib is not None
        and granted_mib > requested_mib + WRITTEN_TOLERANCE_MIB
    ):
        return "grant_larger_than_request"
    if (
        not rounded
        and enforced_mib is not None
        and granted_mib is not None
        and abs(enforced_mib - granted_mib) > WRITTEN_TOLERANCE_MIB
    ):
        return "limit_not_in_force"
    if (
        counted_mib is not None
        and enforced_mib is not None
        and counted_mib > enforced_mib + tolerance_mib(enforced_mib)
    ):
        return "limit_not_in_force"  # what a limit lets through is no limit
    if counted_mib is not None and device_mib is not None and abs(counted_mib - device_mib) > tolerance_mib(device_mib):
        return "counted_above_device" if counted_mib > device_mib else "counted_below_device"
    if counted_mib is None:
        return "use_unknown" if device_mib is None else "not_counted"
    return "agrees"
