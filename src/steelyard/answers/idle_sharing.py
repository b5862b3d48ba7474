"""Idle cost laid on tenants by policy, on top of the books and apart from them.

Q9 calls ``share_idle``. The trick to know: a ratio over the whole window is the sum of what is divided by the sum of what it is divided by,
never a mean of hourly ratios; and idle cost of a currency and cluster in which nobody was granted anything stays where it is, visibly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from steelyard.answers.cost_lines import CostLine
from steelyard.definitions.token_split import divided

VERSION: Final = "1"
METHOD: Final = f"idle_sharing {VERSION}: idle cost of a cluster and currency by granted GPU-time (proportional) or in equal parts by tenant (even)"


def share_idle(lines: Iterable[CostLine], policy: str) -> None:
    """Sets ``idle_share_micro`` of what tenants were granted, so that it sums to the cost of the account ``idle``, by cluster and currency.

    ``proportional``: by granted GPU-time. ``even``: each tenant bears the same, and within a tenant it goes by granted GPU-time. ``none``: nothing.
    """
    if policy not in ("proportional", "even"):
        return
    idle: dict[tuple[str, str], int] = {}
    holders: dict[tuple[str, str], list[CostLine]] = {}
    for line in lines:
        if line.currency is None:
            continue
        place = (line.record["cluster"], line.currency)
        if line.account == "idle":
            idle[place] = idle.get(place, 0) + line.cost_micro
        elif line.granted_us > 0:
            holders.setdefault(place, []).append(line)
    for place, cost in idle.items():
        found = sorted(holders.get(place, ()), key=_order)
        if not found or not cost:
            continue
        if policy == "proportional":
            _lay(cost, found)
            continue
        tenants: dict[str, list[CostLine]] = {}
        for line in found:
            tenants.setdefault(line.record.get("tenant") or "", []).append(line)
        for part, own in zip(divided(cost, [1] * len(tenants)), tenants.values(), strict=True):
            _lay(part, own)


def _lay(cost: int, lines: list[CostLine]) -> None:
    for line, part in zip(lines, divided(cost, [line.granted_us for line in lines]), strict=True):
        line.idle_share_micro = part


def _order(line: CostLine) -> tuple[str, ...]:
    record = line.record
    return tuple(
        str(record.get(name) or "") for name in ("tenant", "pod_uid", "place_id", "unit_id", "team", "project")
    )
