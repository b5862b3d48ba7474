"""Maps of resources and quantities (``{"nvidia.com/gpu": "8"}``) as whole thousandths, and how many cards such a map asks for.

Readers of queues, pod groups and quotas call it. The trick to know: a card is a count and stays one, but a controller may write ``8`` or ``8000m``
for the same amount, so all amounts are thousandths; only resources that count whole cards make a number of cards, since a slot of a sharing
layer or a MIG instance is a part that the map alone cannot weigh.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from steelyard.sources.shared.accelerators import CARDS, COUNTING, meaning_of
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import list_of, mapping_of
from steelyard.sources.shared.quantity import parse_quantity

RESOURCES_MAX: Final = 256
NAME_CHARACTERS_MAX: Final = 316
COUNT_MILLI_MAX: Final = 1_000_000_000
_INT64: Final = 2**63


def milli_of(value: object) -> int:
    """A quantity in thousandths, floored. Raises ValueError for anything that is no quantity, is negative (no object may ask for, allow or use
    less than nothing) or that 64 bits do not hold. The same few come again and again, so texts are remembered."""
    return _milli_of_text(value) if type(value) is str else _milli_of(value)


@lru_cache(maxsize=8_192)
def _milli_of_text(text: str) -> int:
    return _milli_of(text)


def _milli_of(value: object) -> int:
    milli = parse_quantity(value) * 1_000
    whole = milli.numerator // milli.denominator
    if whole < 0:
        raise ValueError(f"expected an amount that is not negative; found {str(value)[:60]!r}")
    if whole >= _INT64:
        raise ValueError(f"expected an amount that 64 bits hold; found {str(value)[:60]!r}")
    return whole


def amount_of(resource: str, value: object) -> int:
    """As ``milli_of``; also raises ValueError for more than a million cards, which no cluster has: it would fill every sum that it enters."""
    milli = milli_of(value)
    if milli > COUNT_MILLI_MAX and is_accelerator(resource.removeprefix("requests.")):
        raise ValueError(f"expected at most {COUNT_MILLI_MAX // 1_000:,} of them; found {str(value)[:60]!r}")
    return milli


def amounts_of(value: object, problems: list[str], where: str) -> dict[str, int]:
    """Resource -> thousandths of its own unit, in the map's order; what cannot be read is left out and noted in ``problems``."""
    amounts: dict[str, int] = {}
    for name, quantity in list(mapping_of(value).items())[:RESOURCES_MAX]:
        if not isinstance(name, str) or not name:
            continue
        try:
            amounts[plain(name[:NAME_CHARACTERS_MAX])] = amount_of(name, quantity)
        except ValueError as error:
            problems.append(f"{where}.{name[:80]}: {error}")
    return amounts


def is_accelerator(resource: str) -> bool:
    """Whether one count of it is a device or a part of one."""
    meaning = meaning_of(resource)
    return meaning is not None and meaning.role in COUNTING


def gpu_milli_of(amounts: Mapping[str, int]) -> int | None:
    """How many cards, in thousandths; 0 where no accelerator is named, None where one is that is not counted in whole cards."""
    total = 0
    for name, milli in amounts.items():
        meaning = meaning_of(name)
        if meaning is None:
            continue
        if meaning.role == CARDS and meaning.unit_kind == "gpu":
            total += milli
        elif milli:
            return None
    return total


def template_amounts(spec: object, problems: list[str], where: str) -> dict[str, int]:
    """What one pod of a template asks for: per resource the larger of its largest init container and the sum of the others, requests first
    and limits where it names no request."""
    pod = mapping_of(spec)
    running: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in list_of(pod.get("containers")):
        _add(running, _asked(container, problems, where), problems, where)
    for container in list_of(pod.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            _add(running, _asked(container, problems, where), problems, where)
        else:
            for name, milli in _asked(container, problems, where).items():
                starting[name] = max(starting.get(name, 0), milli)
    return {name: max(running.get(name, 0), starting.get(name, 0)) for name in {**running, **starting}}


def cpu_milli_of(spec: object) -> int | None:
    """Thousandths of a CPU that a pod of this spec asks for: the larger of its largest init container and the sum of the others, a request before a
    limit, none where a container names neither. None where an amount cannot be read, or where the spec shows no container."""
    pod = mapping_of(spec)
    containers, inits = list_of(pod.get("containers")), list_of(pod.get("initContainers"))
    if not containers:
        return None
    try:
        running = sum(_cpu_milli(container) for container in containers)
        running += sum(_cpu_milli(container) for container in inits if container.get("restartPolicy") == "Always")
        starting = max((_cpu_milli(each) for each in inits if each.get("restartPolicy") != "Always"), default=0)
    except ValueError:
        return None
    asked = max(running, starting)
    return asked if 0 <= asked < _INT64 else None


def _cpu_milli(container: Mapping[str, Any]) -> int:
    resources = mapping_of(container.get("resources"))
    named = mapping_of(resources.get("requests")).get("cpu", mapping_of(resources.get("limits")).get("cpu", 0))
    return milli_of(named)


def scaled(amounts: Mapping[str, int], count: int, problems: list[str], where: str) -> dict[str, int]:
    """The amounts of ``count`` of them; one that 64 bits do not hold is left out and noted."""
    total: dict[str, int] = {}
    for name, milli in amounts.items():
        _add(total, {name: milli * count}, problems, where)
    return total


def summed(parts: Sequence[Mapping[str, int]], problems: list[str], where: str) -> dict[str, int]:
    """The amounts of all parts together; one that 64 bits do not hold is left out and noted."""
    total: dict[str, int] = {}
    for part in parts:
        _add(total, part, problems, where)
    return total


def to_json(value: Mapping[str, Any]) -> str:
    """A JSON object with sorted keys, without what is None; text that no JSON can carry is replaced."""
    kept = {key: item for key, item in value.items() if item is not None}
    if not kept:
        return "{}"
    try:
        return msgspec.json.encode(kept, order="sorted").decode()
    except UnicodeEncodeError:
        return plain(json.dumps(kept, sort_keys=True, ensure_ascii=False, separators=(",", ":")))


def _add(total: dict[str, int], part: Mapping[str, int], problems: list[str], where: str) -> None:
    for name, milli in part.items():
        if -_INT64 <= total.get(name, 0) + milli < _INT64:
            total[name] = total.get(name, 0) + milli
        else:
            problems.append(f"{where}.{name[:80]}: more than 64 bits hold")


def _asked(container: Mapping[str, Any], problems: list[str], where: str) -> dict[str, int]:
    resources = mapping_of(container.get("resources"))
    named = {**mapping_of(resources.get("limits")), **mapping_of(resources.get("requests"))}
    return amounts_of(named, problems, where)
