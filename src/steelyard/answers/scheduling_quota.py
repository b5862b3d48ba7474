"""What became of quota, as Q6 says it: shares over the window, cards at the instant of the latest word, and whether requests within quota got it.

Q6 calls ``quota_part``; the balance itself is that of ``quota_balance``. The trick to know: quota belongs to queues, and in some traces to tenants.
Asked about a person or a workload, what its queue has is not its own, so the balance is not told; whether its requests were served in time is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from steelyard.answers.contract import Figure, Table, Value
from steelyard.answers.demand_scope import DemandScope
from steelyard.answers.quota_balance import METHOD, POOL, counts_cards, not_counted, quota_balance, uncounted_of
from steelyard.answers.reading import Reading, Record
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DurationUs, Window
from steelyard.primitives.unknown import Unknown

_OF_QUEUES: Final = ("cluster", "queue", "namespace")
"""Conditions that a queue itself has."""
_NO_QUEUE_OF_ITS_OWN: Final = frozenset({POOL, "resource_quota", "cohort"})
_RENAMED: Final = {
    "quota_pending_time_ratio": "pending_time_ratio",
    "quota_pending_fits_pool_ratio": "pending_fits_pool_ratio",
    "quota_pending_fits_own_ratio": "pending_fits_own_ratio",
}
_NOW: Final = ("leaked", "borrowed", "reserved_not_used")

METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "quota_used_ratio": ("1", f"{METHOD}: used / nominal over the time in which both are known"),
    "pending_time_ratio": ("1", f"{METHOD}: part of the time in which somebody waited, per pool"),
    "pending_fits_pool_ratio": (
        "1",
        f"{METHOD}: part of that in which all that waited would have fitted into what was idle in the pool",
    ),
    "pending_fits_own_ratio": (
        "1",
        f"{METHOD}: part of the time in which a queue waited and its own idle quota would have been enough",
    ),
    "quota_fulfilment_ratio": (
        "1",
        f"{METHOD}: waits that got their quota within the ceiling / waits for no more than the queue's own quota",
    ),
    "quota_used_now_ratio": ("1", f"{METHOD}: used / nominal at the latest word"),
    "quota_leaked_gpus": (
        "GPU",
        f"{METHOD}: admitted and without a live pod for longer than the grace, at the latest word",
    ),
    "quota_borrowed_gpus": ("GPU", f"{METHOD}: max(0, used - nominal) of queues in a cohort, at the latest word"),
    "quota_reserved_not_used_gpus": ("GPU", f"{METHOD}: max(0, reserved - used), at the latest word"),
    **{
        f"quota_{name}_gpu_hours": ("GPU-h", f"{METHOD}: over the window")
        for name in ("pending", "borrowed", "over_nominal", "leaked", "reserved_not_used")
    },
}


@dataclass(frozen=True, slots=True)
class QuotaPart:
    """What Q6 says about quota. ``fulfilment``: by the values of the groups. ``cause``: one sentence, whether waiting was quota or capacity."""

    figures: Sequence[Figure]
    tables: Sequence[Table]
    fulfilment: Mapping[tuple[Value, ...], Value]
    cause: str | None


class _OfQueues(Reading):
    """The same statements, without the rows of queues that are not asked about."""

    def __init__(self, reading: Reading, scope: DemandScope) -> None:
        self._reading, self._scope, self.ran = reading, scope, reading.ran

    def run(self, name: str, **values: object) -> list[Record]:
        """The rows of the queues that are asked about."""
        rows = self._reading.run(name, **values)
        tenants = self._scope.wanted.get("tenant")
        return [
            row
            for row in rows
            if self._scope.admits(row, [word for word in _OF_QUEUES if word in row])
            and (tenants is None or (row.get("queue_kind") == "tenant" and row["queue"] in tenants))
        ]


def quota_part(reading: Reading, scope: DemandScope, grains: Window, ceiling_us: DurationUs) -> QuotaPart:
    """Figures and the tables ``quota`` and ``quota_now``. ``grains``: the whole grains of the window."""
    fulfilment, total = _fulfilment(reading, scope, ceiling_us)
    reason = _("quota belongs to queues: it is not told by {names}").format(
        names=", ".join(name for name in scope.words if name not in _OF_QUEUES)
    )
    if any(name not in (*_OF_QUEUES, "tenant") for name in scope.wanted):
        return QuotaPart(_filled({}, total, reason), [], fulfilment, None)
    queues = _OfQueues(reading, scope)
    balance = quota_balance(queues, grains.start, grains.end, ceiling_us=ceiling_us)
    values = {
        _RENAMED.get(figure.name, figure.name): replace(figure, name=_RENAMED.get(figure.name, figure.name))
        for figure in balance.figures
    }
    uncounted = {(row["cluster"], row["queue"]): int(row["requests_count"]) for row in queues.run("quota_uncounted")}
    values.update(_now_figures(queues.run("quota_now"), uncounted))
    if balance.tables:
        reason = _("no source tells of it")
    elif "tenant" not in scope.wanted:
        reason = _("no queue and no quota of cards was read")
    return QuotaPart(_filled(values, total, reason), balance.tables, fulfilment, balance.cause)


def _filled(values: Mapping[str, Figure], fulfilment: Figure, reason: str) -> list[Figure]:
    """All figures in their order; one that nothing tells of is unknown."""
    known = {**values, fulfilment.name: fulfilment}
    unknown = Unknown(reason)
    return [
        replace(known[name], method=method) if name in known else Figure(name, unknown, unit, method, unknown)
        for name, (unit, method) in METHODS.items()
    ]


def _now_figures(rows: Sequence[Record], uncounted: Mapping[tuple[str, str], int]) -> dict[str, Figure]:
    """Cards at the latest word, over queues that have quota or use of their own."""
    queues = [row for row in rows if row["queue_kind"] not in _NO_QUEUE_OF_ITS_OWN and counts_cards(row["resource"])]
    figures: dict[str, Figure] = {}
    for name in _NOW:
        known = [row[f"{name}_milli"] for row in queues if row[f"{name}_milli"] is not None]
        beyond = uncounted_of([row for row in queues if row[f"{name}_milli"] is None], uncounted)
        if known or beyond:
            value: Value = Fraction(sum(known), 1000)
            if beyond:
                value = not_counted(beyond, value, "GPU")
            figures[f"quota_{name}_gpus"] = Figure(f"quota_{name}_gpus", value, "GPU", METHOD, len(known) / len(queues))
    both = [row for row in queues if row["nominal_milli"] is not None and row["used_milli"] is not None]
    if nominal := sum(row["nominal_milli"] for row in both):
        ratio = Fraction(sum(row["used_milli"] for row in both), nominal)
        figures["quota_used_now_ratio"] = Figure("quota_used_now_ratio", ratio, "1", METHOD, len(both) / len(queues))
    return figures


def _fulfilment(
    reading: Reading, scope: DemandScope, ceiling_us: DurationUs
) -> tuple[Mapping[tuple[Value, ...], Value], Figure]:
    rows = reading.run("fulfilment", by=list(scope.by), ceiling_us=ceiling_us, **scope.bound())
    by_group = {
        scope.group(row): _part(row["granted_count"], row["asked_count"], row["undecided_count"]) for row in rows
    }
    asked, granted, undecided = (
        sum(int(row[f"{name}_count"]) for row in rows) for name in ("asked", "granted", "undecided")
    )
    coverage = (asked - undecided) / asked if asked else Unknown(_("no request within its queue's own quota was seen"))
    return by_group, Figure("quota_fulfilment_ratio", _part(granted, asked, undecided), "1", METHOD, coverage)


def _part(granted: int, asked: int, undecided: int) -> Value:
    if not asked:
        return Unknown(_("no request within its queue's own quota is told one by one"))
    if asked == undecided:
        return Unknown(_("all its requests may still be granted in time"))
    return Fraction(granted, asked - undecided)
