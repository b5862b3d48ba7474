"""How long a wait is where not every wait has ended: the product-limit estimate (Kaplan and Meier 1958), and how waits end (Aalen and Johansen 1978).

Answers about queueing use these. A wait that still goes on, or that was given up, says that it took at least so long: it is censored there and
stays in the estimate. The trick to know: at equal times events come before censorings, so whoever is censored at t was still at risk at t, and
a quantile is the smallest time with S(t) <= 1 - p; where S never falls that far there is none, and "not reached" is the answer. Weights (such as
GPUs) stand in the place of counts. S is a product of many ratios: it is compared with a relative tolerance of 1e-9, far below the step of any
sample that can be counted, so that 1 of 20 equals 5 % whatever floating point makes of it.

Sceptic's command: ``survival::survfit(Surv(wait, scheduled) ~ 1)`` in R over the rows of ``ledger.wait``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import DurationUs
from steelyard.primitives.unknown import Unknown

VERSION: Final = "1"
FORMULA: Final = (
    "S(t) = product of 1 - events / at risk, events before censorings at ties; quantile = smallest t with S(t) <= 1 - p"
)

REMAINING_FORMULA: Final = "of a wait that lasts since age: smallest t - age with S(t) / S(age) <= 1 - p"

TOLERANCE: Final = 1e-9
NOT_REACHED: Final = "not reached: too many waits have not ended"
NO_WAITS: Final = "there is no wait to estimate from"


@dataclass(frozen=True, slots=True)
class Ends:
    """What ended after ``time_us``: ``events`` that were scheduled, ``abandoned`` that gave up, ``censored`` that were last seen waiting (counts or
    sums of weights)."""

    time_us: DurationUs
    events: int
    abandoned: int = 0
    censored: int = 0


@dataclass(frozen=True, slots=True)
class Incidence:
    """Of all that began to wait, the parts that by ``time_us`` were scheduled and had given up; the rest still waits."""

    time_us: DurationUs
    scheduled: float
    abandoned: float


def kaplan_meier(ends: Iterable[Ends]) -> list[tuple[DurationUs, float]]:
    """(t, S(t)) at each time with an event, ascending; who gave up is censored. Raises InvariantError for a negative time or count."""
    curve: list[tuple[DurationUs, float]] = []
    survival = 1.0
    for at, at_risk in _at_risk(ends):
        if at.events:
            survival *= (at_risk - at.events) / at_risk
            curve.append((at.time_us, survival))
    return curve


def kaplan_meier_quantile(ends: Sequence[Ends], p: float) -> DurationUs | Unknown:
    """The smallest time with S(t) <= 1 - p; 0 < p < 1. Unknown where it is not reached, or where there is no wait at all."""
    _check(p)
    if not any(at.events or at.abandoned or at.censored for at in ends):
        return Unknown(NO_WAITS)
    for time_us, survival in kaplan_meier(ends):
        if survival <= (1 - p) * (1 + TOLERANCE):
            return time_us
    return Unknown(NOT_REACHED)


def remaining_quantile(ends: Sequence[Ends], age_us: DurationUs, p: float) -> DurationUs | Unknown:
    """What is left of a wait that has lasted ``age_us`` and goes on: the smallest t - age with S(t) / S(age) <= 1 - p; 0 < p < 1.

    Only waits longer than that age count, so whoever was served earlier says nothing. Unknown as for ``kaplan_meier_quantile``.
    """
    left = kaplan_meier_quantile([at for at in ends if at.time_us > age_us], p)
    return left if isinstance(left, Unknown) else left - age_us


def cumulative_incidence(ends: Iterable[Ends]) -> list[Incidence]:
    """How waits end, at each time at which one does: scheduled and abandoned compete, so neither is censored for the other.

    Each is its part of all that ended, so that no rounding of a sum makes it more than all.
    """
    found: list[Incidence] = []
    survival, scheduled, abandoned = 1.0, 0.0, 0.0
    for at, at_risk in _at_risk(ends):
        if at.events or at.abandoned:
            scheduled += survival * at.events / at_risk
            abandoned += survival * at.abandoned / at_risk
            survival *= (at_risk - at.events - at.abandoned) / at_risk
            ended, both = 1.0 - survival, scheduled + abandoned
            found.append(Incidence(at.time_us, ended * (scheduled / both), ended * (abandoned / both)))
    return found


def _at_risk(ends: Iterable[Ends]) -> Iterator[tuple[Ends, int]]:
    """Each time once, ascending, with how much was still waiting just before it."""
    together: dict[DurationUs, Ends] = {}
    for each in ends:
        if each.time_us < 0 or each.events < 0 or each.abandoned < 0 or each.censored < 0:
            raise InvariantError(f"a wait is no less than 0 long and counts are not negative; found {each}")
        other = together.get(each.time_us, Ends(each.time_us, 0))
        together[each.time_us] = Ends(
            each.time_us,
            other.events + each.events,
            other.abandoned + each.abandoned,
            other.censored + each.censored,
        )
    at_risk = sum(at.events + at.abandoned + at.censored for at in together.values())
    for time_us in sorted(together):
        at = together[time_us]
        if at_risk:
            yield at, at_risk
        at_risk -= at.events + at.abandoned + at.censored


def _check(p: float) -> None:
    if not 0 < p < 1:
        raise InvariantError(f"a quantile's p lies between 0 and 1, found {p}")
