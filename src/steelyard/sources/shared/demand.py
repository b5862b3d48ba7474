"""What the containers of a pod ask for: devices, memory and cores per device, shares of other sharing schemes.

The reader of pods turns the result into Request, Container and Grant, those of gangs into what a pod of theirs asks for. The trick to
know: one count of another scheme's resource (``aliyun.com/gpu-mem: 5``) is no count of cards; the settings' table says what it is, and the
resources of one scheme in one container make one demand together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.primitives.unknown import Unknown
from steelyard.sources.shared.accelerators import (
    CORES_PERCENT,
    COUNTING,
    MEMORY_MIB,
    MEMORY_PERCENT,
    UNLISTED,
    Meaning,
    meaning_of,
)
from steelyard.sources.shared.context import ReadSettings, SharedScheme
from steelyard.sources.shared.pods import INIT, ContainerView
from steelyard.sources.shared.quantity import parse_count

SHARE_WHOLE_PPM: Final = 1_000_000
AMOUNT_MAX: Final = 2**40
MEMORY_MIB_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Ask:
    """``count`` devices of one extended resource."""

    resource: str
    meaning: Meaning
    count: int


@dataclass(frozen=True, slots=True)
class SharedAsk:
    """A share by another scheme, per card: ``quantity`` cards, each with ``share_ppm``, ``memory_mib``, ``cores_percent`` (None: not said)."""

    resource: str
    quantity: int
    share_ppm: int | None
    memory_mib: int | None
    cores_percent: int | None


@dataclass(slots=True)
class Demand:
    """What one container asks for. count: devices, over all resources.

    problems: (code, message) of whatever could not be read; ``unreadable``: a count is among it.
    """

    container: ContainerView
    asks: list[Ask] = field(default_factory=list)
    shared: list[SharedAsk] = field(default_factory=list)
    memory_mib: int | None = None
    memory_percent: int | None = None
    cores_percent: int | None = None
    names: list[str] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    unreadable: bool = False
    count: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """A pod's demand in all. count None: not readable, or told by companions only. memory_mib, cores_percent, milli: per device."""

    count: int | None
    memory_mib: int | None
    cores_percent: int | None
    milli: int | None


def demands_of(containers: Sequence[ContainerView], settings: ReadSettings) -> list[Demand]:
    """The demands of the containers that name an accelerator, in the pod's order."""
    demands = []
    for container in containers:
        named = [name for name in container.resources if "/" in name]
        if named:
            demand = _demand(container, named, settings)
            if demand.names or demand.problems:
                demands.append(demand)
    return demands


def totals_of(demands: Sequence[Demand]) -> Totals:
    """max(largest init container, sum over app containers and sidecars), for counts, memory and cores alike.

    Memory and cores are then divided by the count (floored), so that count x figure never exceeds what is asked for. They are None
    where a container that asks for devices does not say them.
    """
    if any(demand.unreadable for demand in demands):
        return Totals(None, None, None, None)
    count = _effective([(demand, demand.count) for demand in demands])
    if not count:
        return Totals(None if any(demand.names for demand in demands) else 0, None, None, None)
    return Totals(
        count,
        _per_device([(demand, _memory_total(demand)) for demand in demands], count),
        _per_device([(demand, _cores_total(demand)) for demand in demands], count),
        _milli(demands, count),
    )


def _demand(container: ContainerView, named: Sequence[str], settings: ReadSettings) -> Demand:
    demand = Demand(container)
    schemes: dict[str, list[tuple[SharedScheme, int]]] = {}
    for name in named:
        scheme = next((scheme for scheme in settings.shared_schemes if scheme.resource == name), None)
        meaning = meaning_of(name) if scheme is None else None
        if scheme is None and meaning is None:
            continue
        amount = amount_of(container.resources[name])
        if isinstance(amount, Unknown):
            demand.problems.append(("quantity_malformed", f"{container.name}: {name[:120]}: {amount.reason}"))
            demand.unreadable = (
                demand.unreadable or scheme is not None or (meaning is not None and meaning.role in COUNTING)
            )
            demand.names.append(name)
        elif scheme is not None and amount:
            schemes.setdefault(name.partition("/")[0], []).append((scheme, amount))
            demand.names.append(name)
        elif meaning is not None:
            _take(demand, name, meaning, amount)
    for parts in schemes.values():
        _take_shared(demand, parts)
    return demand


def _take(demand: Demand, name: str, meaning: Meaning, amount: int) -> None:
    role = meaning.role
    if role == UNLISTED:
        if amount:
            text = f"{demand.container.name}: {name[:120]} is in no table of resources: it is not counted"
            demand.problems.append(("accelerator_resource_unlisted", text))
        return
    if not amount and role != CORES_PERCENT:
        return
    if role == MEMORY_MIB and amount > MEMORY_MIB_MAX:
        text = f"{demand.container.name}: {name[:120]}: {amount} MiB for one device is more than the sharing layers read (2^31 - 1)"
        demand.problems.append(("quantity_malformed", text))
        return
    demand.names.append(name)
    if role in COUNTING:
        demand.asks.append(Ask(name, meaning, amount))
        demand.count += amount
    elif role == MEMORY_MIB:
        demand.memory_mib = amount
    elif role == MEMORY_PERCENT:
        demand.memory_percent = amount
    elif role == CORES_PERCENT:
        demand.cores_percent = amount


def _take_shared(demand: Demand, parts: Sequence[tuple[SharedScheme, int]]) -> None:
    percents = {scheme.resource: amount for scheme, amount in parts if scheme.unit == "percent"}
    cards = max((amount for scheme, amount in parts if scheme.unit == "cards"), default=0)
    percent = max(percents.values(), default=None)
    memory = sum(amount * _MIB[scheme.unit] for scheme, amount in parts if scheme.unit in _MIB) or None
    quantity = cards or (1 if percent is None else -(-percent // 100))
    unknown = [scheme for scheme, _ in parts if scheme.unit not in ("percent", "cards", *_MIB)]
    if unknown:
        text = f"{unknown[0].resource}: the settings name the unit {unknown[0].unit!r}; expected memory_mib, memory_gib, percent or cards"
        demand.problems.append(("shared_scheme_unit_unknown", text))
        demand.unreadable = True
        return
    if percent is not None and percent > 100 and percent % 100:
        text = f"{demand.container.name}: {percent} % is no whole number of cards: it is read as {quantity} cards with an equal part each"
        demand.problems.append(("shared_request_uneven", text))
    share = percent * 10_000 // quantity if percent is not None else SHARE_WHOLE_PPM if cards else None
    cores = max((amount for name, amount in percents.items() if name.endswith(("core", "cores"))), default=None)
    ask = SharedAsk(
        resource=min(scheme.resource for scheme, _ in parts),
        quantity=quantity,
        share_ppm=None if share is None else min(share, SHARE_WHOLE_PPM),
        memory_mib=None if memory is None else memory // quantity,
        cores_percent=None if cores is None else cores // quantity,
    )
    demand.shared.append(ask)
    demand.count += quantity


_MIB: Final[Mapping[str, int]] = {"memory_mib": 1, "memory_gib": 1024}


def amount_of(value: object) -> int | Unknown:
    """A whole quantity between 0 and 2^40, or why it is none."""
    if type(value) is str and len(value) <= 12 and value.isascii() and value.isdigit():
        return int(value)
    try:
        amount = parse_count(value)
    except ValueError as error:
        return Unknown(str(error))
    return amount if amount <= AMOUNT_MAX else Unknown(f"expected a count of at most 2^40; found {amount}")


def _effective(amounts: Sequence[tuple[Demand, int]]) -> int:
    init = max((amount for demand, amount in amounts if demand.container.kind == INIT), default=0)
    app = sum(amount for demand, amount in amounts if demand.container.kind != INIT)
    return max(init, app)


def _per_device(amounts: Sequence[tuple[Demand, int | None]], count: int) -> int | None:
    stated = [(demand, amount) for demand, amount in amounts if amount is not None]
    if len(stated) < len(amounts) or not stated:
        return None
    return _effective(stated) // count


def _memory_total(demand: Demand) -> int | None:
    if demand.shared and not demand.asks:
        parts = [None if ask.memory_mib is None else ask.memory_mib * ask.quantity for ask in demand.shared]
        return None if None in parts else sum(part for part in parts if part is not None)
    if not demand.count:
        return 0
    return None if demand.memory_mib is None or demand.shared else demand.memory_mib * demand.count


def _cores_total(demand: Demand) -> int | None:
    if demand.shared and not demand.asks:
        parts = [None if ask.cores_percent is None else ask.cores_percent * ask.quantity for ask in demand.shared]
        return None if None in parts else sum(part for part in parts if part is not None)
    if not demand.count:
        return 0
    return None if demand.cores_percent is None or demand.shared else demand.cores_percent * demand.count


def _milli(demands: Sequence[Demand], count: int) -> int | None:
    """Thousandths of a card per device, only where every demand states its share."""
    amounts: list[tuple[Demand, int]] = []
    for demand in demands:
        if demand.asks or any(ask.share_ppm is None for ask in demand.shared):
            return None
        amounts.append((demand, sum((ask.share_ppm or 0) * ask.quantity for ask in demand.shared)))
    return _effective(amounts) // count // 1_000
