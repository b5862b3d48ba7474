"""Money: what a grain of a card costs, how it is divided, and what a tenant is asked for. All of it in integers, millionths of a currency.

The ledgers ``cost`` and ``charge`` obey it, and so does whoever checks a statement by hand. A price has its own unit of time: what a grain costs is
what the price has run up to its end less what it had run up to its start, each floored, so the grains of a month sum to the month's price
whatever the grain. Within a grain the price is divided by amounts, floored, and what flooring leaves goes one by one to the largest
remainders. The trick to know: with ``floor`` towards minus infinity that holds for negative amounts too, which a place that only takes
a transfer has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from steelyard.definitions.cost_change import ChangeRule
from steelyard.definitions.models import model_tokens
from steelyard.definitions.token_split import TokenWeights
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, DurationUs, Instant, from_datetime, to_datetime
from steelyard.primitives.unknown import Unknown

VERSION: Final = "1"
FORMULA: Final = (
    "price of a grain = floor(P x elapsed to its end / unit) - floor(P x elapsed to its start / unit); "
    "cost divided by amounts with largest remainder; charge = declared share x price, rounded half up"
)

Per = Literal["hour", "day", "month", "year"]
PERS: Final[tuple[Per, ...]] = ("hour", "day", "month", "year")
PRICE_MICRO_MAX: Final = 10**15
"""A thousand million a card and unit of time: what is dearer is a mistake, and is not posted as a price."""

WHOLE_PPM: Final = 1_000_000
MICRO: Final = 1_000_000
"""Millionths in one of a currency."""

_WORDS_MAX: Final = 1_023


@dataclass(frozen=True, slots=True)
class LineKey:
    """What a price line holds for; None = any. ``model``: words that all occur in a card's model."""

    tenant: str | None = None
    for_cluster: str | None = None
    model: str | None = None
    unit_kind: str | None = None
    commitment: str | None = None


def unit_of_time_us(at_us: Instant, per: Per) -> tuple[Instant, Instant]:
    """The hour, day, month or year in UTC in which an instant lies, as microseconds."""
    if per in ("hour", "day"):
        length = HOUR_US if per == "hour" else DAY_US
        start = at_us // length * length
        return start, start + length
    moment = to_datetime(at_us)
    first, last = (moment.month, moment.month + 1) if per == "month" else (1, 13)
    return _first_of(moment, first), _first_of(moment, last)


def _first_of(moment: datetime, month: int) -> Instant:
    year, month = moment.year + (month - 1) // 12, (month - 1) % 12 + 1
    return from_datetime(moment.replace(year=year, month=month, day=1, hour=0, minute=0, second=0, microsecond=0))


def grain_price_micro(price_micro: int, per: Per, grain_us_at: Instant, grain_us: DurationUs) -> int:
    """What one whole card costs in the grain that starts at ``grain_us_at``; the grains of a unit of time sum to ``price_micro`` exactly."""
    start, end = unit_of_time_us(grain_us_at, per)
    length, elapsed = end - start, grain_us_at - start
    return price_micro * (elapsed + grain_us) // length - price_micro * elapsed // length


def part_micro(price_micro: int, amount_gpu_us: int, grain_us: DurationUs) -> int:
    """What an amount costs at the grain's price, floored."""
    return price_micro * amount_gpu_us // grain_us


def divide_micro(price_micro: int, amounts_gpu_us: Sequence[int], grain_us: DurationUs) -> list[int]:
    """The money of amounts of one place and grain, in their order, which is that of ties: their sum is what the whole costs, floored once."""
    parts = [part_micro(price_micro, amount, grain_us) for amount in amounts_gpu_us]
    left = part_micro(price_micro, sum(amounts_gpu_us), grain_us) - sum(parts)
    if not 0 <= left < max(1, len(parts)):
        raise InvariantError(f"{left} millionths are left of {len(parts)} floors")
    by_remainder = sorted(range(len(parts)), key=lambda n: -(price_micro * amounts_gpu_us[n] % grain_us))
    for n in by_remainder[:left]:
        parts[n] += 1
    return parts


def half_up(numerator: int, denominator: int) -> int:
    """The quotient rounded to the nearest integer, a half upwards."""
    return (2 * numerator + denominator) // (2 * denominator)


def list_micro(price_micro: int, quantity_gpu_us: int, grain_us: DurationUs) -> int:
    """What a quantity is asked for before discounts."""
    return half_up(price_micro * quantity_gpu_us, grain_us)


def discount_micro(list_amount_micro: int, discount_ppm: int) -> int:
    """What is taken off a rounded list price."""
    return half_up(list_amount_micro * discount_ppm, WHOLE_PPM)


def used_upper_gpu_us(used_gpu_us: int, granted_gpu_us: int, seen_us: int, held_us: int) -> int:
    """The most that can have been used: what was seen, and all that was granted while nothing was. ``held_us``: how long it was held."""
    if held_us <= 0 or seen_us >= held_us:
        return used_gpu_us
    return used_gpu_us + granted_gpu_us - granted_gpu_us * max(seen_us, 0) // held_us


def effective_micro(cost_micro: int, used_gpu_us: int, amount_gpu_us: int) -> int | Unknown:
    """The part of a cost that stands for what was used, rounded half up. Unknown where nothing was granted."""
    if amount_gpu_us <= 0:
        return Unknown("nothing was granted")
    return half_up(cost_micro * used_gpu_us, amount_gpu_us)


def specificity(key: LineKey) -> int:
    """How closely a line is named: tenant before cluster, model (more words), unit kind, commitment. Two lines alike in this are ambiguous."""
    words = min(len(model_tokens(key.model or "")), _WORDS_MAX)
    named = (key.tenant is not None) * 2 + (key.for_cluster is not None)
    return ((named * (_WORDS_MAX + 1) + words) * 2 + (key.unit_kind is not None)) * 2 + (key.commitment is not None)


def holds_for(key: LineKey, card: LineKey) -> bool:
    """Whether a line holds for a card: all that it names is so of the card. A card of which a thing is not known (None) is met by lines that do not
    name it; so a spot card is never priced by a line for on-demand ones."""
    same = all(
        mine is None or mine == its
        for mine, its in (
            (key.tenant, card.tenant),
            (key.for_cluster, card.for_cluster),
            (key.unit_kind, card.unit_kind),
            (key.commitment, card.commitment),
        )
    )
    words = model_tokens(key.model or "")
    return same and (not words or (card.model is not None and words <= model_tokens(card.model)))


@dataclass(frozen=True, slots=True)
class MoneyPolicy:
    """What a site decided about money.

    charge_start: ``running`` (the first container's start) or ``bind``. burst: use above the grant is ``charged`` or only shown (``none``).
    reserved_unused: what a guaranteed quota leaves unused stands in nobody's account (``none``), in its owner's in the cost book
    (``shown``), or is asked for as well (``charged``). idle_sharing: how answers lay idle cost on tenants, beside the books: ``none``,
    ``proportional``, ``even``. dedicated: (LIKE pattern of a node with ``!`` as its escape, tenant): what is idle there is its owner's.
    commitments: (LIKE pattern of a node, commitment) where a node's labels do not tell. platform_start_us: how long a start may take before
    a platform's fault makes it the platform's. token_weights: of a token where a shared service is split. change: when Q9 calls a day an anomaly.
    """

    charge_start: Literal["running", "bind"] = "running"
    burst: Literal["none", "charged"] = "none"
    reserved_unused: Literal["none", "shown", "charged"] = "shown"
    idle_sharing: Literal["none", "proportional", "even"] = "none"
    dedicated: tuple[tuple[str, str], ...] = ()
    commitments: tuple[tuple[str, str], ...] = ()
    platform_start_us: DurationUs = 10 * MINUTE_US
    token_weights: TokenWeights = field(default_factory=TokenWeights)
    change: ChangeRule = field(default_factory=ChangeRule)


_PLATFORM_REASONS: Final = frozenset(
    {
        "UnexpectedAdmissionError",
        "FailedCreatePodSandBox",
        "FailedMount",
        "FailedAttachVolume",
        "NodeNotReady",
        "NetworkNotReady",
        "FailedPrepareDynamicResources",
    }
)
_PULL_REASONS: Final = frozenset({"Failed", "BackOff", "ErrImagePull", "ImagePullBackOff"})
_PULL_WORDS: Final = re.compile(r"pull(ing)? image|imagepull|device plugin")
_OWN_MISTAKE: Final = re.compile(r"not found|manifest unknown|invalid reference|does not exist|denied|unauthorized")
_LONG_PULL: Final = re.compile(r" in ([0-9]+h|[1-9][0-9]+m)")


def is_platform_cause(reason: str | None, message: str | None) -> bool:
    """Whether an event of a pod tells that the platform holds up its start: its image comes slowly or not at all (unless its name is wrong), a device
    plugin refuses, the node, its network or a volume is not ready. ``kubectl get events --field-selector involvedObject.kind=Pod``."""
    words = (message or "").lower()
    if reason in _PLATFORM_REASONS:
        return True
    if reason in _PULL_REASONS:
        return bool(_PULL_WORDS.search(words)) and not _OWN_MISTAKE.search(words)
    return reason == "Pulled" and bool(_LONG_PULL.search(message or ""))
