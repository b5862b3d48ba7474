"""Where a topology-aware admission puts pods, from both encodings of the assignment.

v1beta1 lists domains; v1beta2 packs them: per slice ``domainCount`` domains, whose values per level and whose pod counts are either one value for
all (``universal``) or one each (``individual``, values with a common prefix and suffix around their roots).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import integer_of, list_of, mapping_of

HOSTNAME: Final = "kubernetes.io/hostname"
DOMAINS_MAX: Final = 4_096
"""More nodes than this no listing shows; what is beyond is said in a problem."""
_TEXT_MAX: Final = 316


@dataclass(frozen=True, slots=True)
class Placement:
    """Pods per domain. levels: as named; the values of a domain are joined by ``/``. is_by_node: the domains are nodes."""

    levels: Sequence[str]
    pods: Mapping[str, int]

    @property
    def is_by_node(self) -> bool:
        """Whether the lowest level, the only one that is kept then, is the node."""
        return bool(self.levels) and self.levels[-1] == HOSTNAME


def placement_of(assignment: Mapping[str, Any], problems: list[str], where: str) -> Placement | None:
    """The placement, or None where there is none; what cannot be read is noted in ``problems`` and left out."""
    if not assignment:
        return None
    levels = _texts(assignment.get("levels"), 16)
    pods: dict[str, int] = {}
    for domain in list_of(assignment.get("domains"))[:DOMAINS_MAX]:
        values, count = _texts(domain.get("values"), 16), integer_of(domain.get("count"))
        if values and count is not None and count >= 0:
            _add(pods, "/".join(values), count)
    for piece in list_of(assignment.get("slices"))[:DOMAINS_MAX]:
        _unpack(piece, pods, problems, where)
    if len(pods) >= DOMAINS_MAX:
        problems.append(f"{where}.topologyAssignment: more than {DOMAINS_MAX} domains; the rest is left out")
    return Placement(levels, pods)


def _unpack(piece: Mapping[str, Any], pods: dict[str, int], problems: list[str], where: str) -> None:
    count = integer_of(piece.get("domainCount"))
    if count is None or count < 0:
        problems.append(f"{where}.topologyAssignment: expected a domainCount")
        return
    count = min(count, DOMAINS_MAX - len(pods))
    per_level = [_values(level, count) for level in list_of(piece.get("valuesPerLevel"))[:16]]
    counts = mapping_of(piece.get("podCounts"))
    universal, individual = integer_of(counts.get("universal")), counts.get("individual")
    for index in range(count):
        values = [level[index] for level in per_level if index < len(level)]
        number = universal
        if number is None and isinstance(individual, list) and index < len(individual):
            number = integer_of(individual[index])
        if len(values) < len(per_level) or not values or number is None or number < 0:
            problems.append(f"{where}.topologyAssignment: {count} domains, fewer values or counts")
            return
        _add(pods, "/".join(values), number)


def _values(level: Mapping[str, Any], count: int) -> Sequence[str]:
    universal = level.get("universal")
    if isinstance(universal, str):
        return [plain(universal[:_TEXT_MAX])] * count
    individual = mapping_of(level.get("individual"))
    prefix, suffix = (text if isinstance(text := individual.get(key), str) else "" for key in ("prefix", "suffix"))
    return [plain(f"{prefix[:_TEXT_MAX]}{root}{suffix[:_TEXT_MAX]}") for root in _texts(individual.get("roots"), count)]


def _texts(value: object, most: int) -> list[str]:
    return (
        [plain(each[:_TEXT_MAX]) for each in value[:most] if isinstance(each, str)] if isinstance(value, list) else []
    )


def _add(pods: dict[str, int], domain: str, count: int) -> None:
    if domain in pods or len(pods) < DOMAINS_MAX:
        pods[domain] = min(pods.get(domain, 0) + count, 2**31)
