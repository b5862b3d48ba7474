"""Money and GPU-time by pod, place and account: what Q9 groups.

``CostReader`` reads the ledgers ``cost`` and ``charge`` over whole grains; without a price book the same lines come from the supply ledger and have
no money. The trick to know: a line has one currency and integer amounts, so whatever it is grouped by, the groups of a currency add up to its total
exactly, and nothing is ever added across currencies. A line without a price goes to the currency in which its pod's other side is priced, so that
what is unpriced stands beside what is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

from steelyard.answers import dimensions
from steelyard.answers.dimensions import Filter
from steelyard.answers.lines import Parameter, grains_of
from steelyard.answers.narrowing import Homes
from steelyard.answers.reading import Columns, Reading, Record
from steelyard.answers.state_lines import StateLine, StateReader
from steelyard.definitions.normalised_gpu_hours import normalised_gpu_time_us
from steelyard.primitives.instant import Instant, Window

ACCOUNTS: Final = (
    "tenant", "idle", "stranded", "out_of_service", "unobserved", "platform_start", "reserved_unused", "overhead",
)  # fmt: skip
TREE: Final = ("department", "team", "project", "cost_centre")
UNMAPPED: Final = "unmapped"
NO_BOOK: Final = "no price book"

Reason: TypeAlias = tuple[str, str]
"""Side (``cost``, ``charge``) and why it has no price."""


@dataclass(slots=True, eq=False)
class CostLine:
    """Integer amounts of one pod, or of an account without one, at one place. ``currency``: of its money; None = nothing of it is priced.

    amount_us: of ``account`` in the cost ledger; priced_us: of that, with a price. granted_us: of the account ``tenant``; pathed_us: of that, where
    a path measures the holder alone, with used_us to used_upper_us. effective_micro to effective_upper_micro: what of the cost stands for use.
    charged_us: declared share x time as the charge ledger has it; charge_unpriced_us: of that, without a price. whole_us: cards counted
    whole. idle_share_micro: what a policy lays on it, in no book.
    """

    record: Record
    account: str
    currency: str | None = None
    amount_us: int = 0
    priced_us: int = 0
    granted_us: int = 0
    normalised_us: int = 0
    pathed_us: int = 0
    used_us: int = 0
    used_upper_us: int = 0
    cost_micro: int = 0
    provisional_micro: int = 0
    effective_micro: int = 0
    effective_upper_micro: int = 0
    charged_us: int = 0
    charge_unpriced_us: int = 0
    list_micro: int = 0
    discount_micro: int = 0
    charge_micro: int = 0
    whole_us: int = 0
    idle_share_micro: int = 0
    reasons: set[Reason] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class DailyCost:
    """What one pod, or an account without one, cost at a place on one day (UTC), in one currency."""

    record: Record
    account: str
    currency: str
    day: Instant
    amount_us: int
    cost_micro: int


class CostReader:
    """The lines of one window of whole grains. ``by_tree``: whether anybody asks where pods stand in the tenancy tree; ``by_unit``: of what kind
    their units are."""

    def __init__(self, reading: Reading, window: Window, parameter: Parameter, *, by_tree: bool, by_unit: bool) -> None:
        self._reading = reading
        self.window = window
        self._parameter = parameter
        self._by_tree = by_tree
        self._states = StateReader(reading, window)
        self.homes: Homes = self._states.homes
        self.has_prices = bool(reading.run("has_prices")[0]["has_prices"])
        bound = {"from_us": window.start, "to_us": window.end}
        self._places = {
            (row["cluster"], row["place_kind"], row["place_id"], row["node"]): row for row in reading.run("places")
        }
        self._unit_kinds: Mapping[tuple[str, str, str, str | None], str] = {}
        if by_unit:
            self._unit_kinds = {
                (row["cluster"], row["pod_uid"], row["place_id"], row["unit_id"]): row["unit_kind"]
                for row in reading.run("unit_kinds", **bound)
            }
        self.has_tree = False

    def lines(self) -> list[CostLine]:
        """All of the window: costs, charges and whole cards. A window is read in parts in which no weight and no place in the tree changes."""
        found: list[CostLine] = []
        for part in self._parts():
            belonging = self._belonging(part)
            bound = {"from_us": part.start, "to_us": part.end}
            columns = self._reading.columns("cost_lines" if self.has_prices else "supply_lines", **bound)
            costs = [self._cost(row, part, belonging) for row in _rows(columns)]
            charges = []
            if self.has_prices:
                charges = [
                    self._charge(row, belonging) for row in _rows(self._reading.columns("charge_lines", **bound))
                ]
            whole = [self._whole(row, belonging) for row in _rows(self._reading.columns("whole_cards", **bound))]
            _settle_currencies(costs, charges, whole)
            found += costs
            found += charges
            found += whole
        return found

    def states(self) -> list[StateLine]:
        """Held time that moved nothing, by state, with the dimensions of money."""
        found = []
        for part in self._parts():
            belonging = self._belonging(part)
            for row in self._reading.run("stated", from_us=part.start, to_us=part.end):
                record = self.record(row, "tenant", belonging)
                found.append(StateLine({**record, "place_kind": row["place_kind"]}, int(row["amount_gpu_us"])))
        return found

    def daily(self) -> Iterator[DailyCost]:
        """What is priced, by day."""
        for part in self._parts() if self.has_prices else ():
            belonging = self._belonging(part)
            named: dict[tuple[str | None, ...], Record] = {}
            columns = self._reading.columns("daily_costs", from_us=part.start, to_us=part.end)
            for row in _rows(columns):
                key = tuple(
                    row[name] for name in ("cluster", "place_kind", "place_id", "node", "pod_uid", "account", "owner")
                )
                if key not in named:
                    named[key] = self.record(row, row["account"], belonging)
                yield DailyCost(
                    named[key],
                    row["account"],
                    row["currency"],
                    int(row["day_us"]),
                    int(row["amount_gpu_us"]),
                    int(row["cost_micro"]),
                )

    def _parts(self) -> Iterator[Window]:
        """The window, cut at the grain in which a weight or a place in the tree changes: a grain goes by what holds at its start."""
        grain = self._parameter.grain_us
        edges = {period.start for period in self._parameter.periods(self.window)} - {self.window.start}
        if self._by_tree:
            stamps = [int(row["at_us"]) for row in self._reading.run("tree_edges")]
            self.has_tree = bool(stamps)
            edges |= {at for at in stamps if self.window.start < at < self.window.end}
        starts = {-(-edge // grain) * grain for edge in edges}
        cuts = [
            self.window.start,
            *sorted(at for at in starts if self.window.start < at < self.window.end),
            self.window.end,
        ]
        for start, end in pairwise(cuts):
            yield Window(start, end)

    def _belonging(self, part: Window) -> Mapping[tuple[str, str], Record]:
        if not self._by_tree:
            return {}
        rows = self._reading.run("belonging", at_us=part.start)
        return {(row["cluster"], row["pod_uid"]): row for row in rows}

    def record(self, row: Record, account: str, belonging: Mapping[tuple[str, str], Record]) -> Record:
        """The dimensions of a row: of its pod, its place, its account and its place in the tree."""
        named = self._states.named({"state": None, "cause": None, "basis": None, **row})
        place = self._places.get((row["cluster"], row["place_kind"], row["place_id"], row["node"]), {})
        unit = (row["cluster"], row["pod_uid"], row["place_id"], row.get("unit_id"))
        whose = row.get("owner")
        if whose is not None:
            named["tenant"] = whose
        named |= {
            "account": account,
            "model": place.get("model") or named["model"],
            "unit_kind": self._unit_kinds.get(unit) or place.get("unit_kind"),
            "unit_id": row.get("unit_id"),
            "commitment": place.get("commitment"),
            "service": _service(named),
        }
        if self._by_tree and self.has_tree:
            stands = belonging.get((row["cluster"], row["pod_uid"]))
            absent = UNMAPPED if row["pod_uid"] is not None or whose is not None else None
            named |= {level: absent if stands is None else stands[level] for level in TREE}
        return named

    def _cost(self, row: Record, part: Window, belonging: Mapping[tuple[str, str], Record]) -> CostLine:
        account, amount = row["account"], int(row["amount_gpu_us"])
        line = CostLine(self.record(row, account, belonging), account, row["currency"], amount)
        if row["cost_micro"] is None:
            line.currency = None
            line.reasons.add(("cost", row["unpriced_reason"] or NO_BOOK))
        else:
            line.priced_us, line.cost_micro = amount, int(row["cost_micro"])
            line.provisional_micro = int(row["provisional_micro"] or 0)
        if account == "tenant":
            weight = self._parameter.weight_ppm(line.record["model"], part.start)
            normalised = normalised_gpu_time_us(amount, weight)
            line.granted_us = amount
            line.normalised_us = normalised if isinstance(normalised, int) else 0
            line.pathed_us = int(row["pathed_gpu_us"])
            line.used_us, line.used_upper_us = int(row["used_gpu_us"]), int(row["used_upper_gpu_us"])
            line.effective_micro = int(row["effective_micro"])
            line.effective_upper_micro = int(row["effective_upper_micro"])
        return line

    def _charge(self, row: Record, belonging: Mapping[tuple[str, str], Record]) -> CostLine:
        account = "reserved_unused" if row["line"] == "reserved_unused" else "tenant"
        owner = row["tenant"] if row["pod_uid"] is None else None
        line = CostLine(self.record({**row, "owner": owner}, account, belonging), account, row["currency"])
        line.charged_us = int(row["quantity_gpu_us"] or 0)
        if row["charge_micro"] is None:
            line.currency = None
            line.charge_unpriced_us = line.charged_us
            line.reasons.add(("charge", row["unpriced_reason"] or NO_BOOK))
        else:
            line.list_micro, line.discount_micro = int(row["list_micro"]), int(row["discount_micro"])
            line.charge_micro = int(row["charge_micro"])
        return line

    def _whole(self, row: Record, belonging: Mapping[tuple[str, str], Record]) -> CostLine:
        return CostLine(self.record(row, "tenant", belonging), "tenant", whole_us=int(row["card_us"]))


def _service(record: Record) -> str | None:
    if record.get("namespace") is None or record.get("workload_name") is None:
        return None
    return f"{record['namespace']}/{record['workload_name']}"


def _rows(columns: Columns) -> Iterator[Record]:
    names = list(columns)
    return (dict(zip(names, cells, strict=True)) for cells in zip(*columns.values(), strict=True))


def _settle_currencies(*sides: Sequence[CostLine]) -> None:
    """Lines without money join the currency in which most of their pod's GPU-time at that place is priced, on either side."""
    priced: dict[tuple[str, str, str], dict[str, int]] = {}
    for lines in sides:
        for line in lines:
            if line.currency is not None and line.record["pod_uid"] is not None:
                weights = priced.setdefault(_at(line), {})
                weights[line.currency] = weights.get(line.currency, 0) + line.priced_us + line.charged_us
    for lines in sides:
        for line in lines:
            found = priced.get(_at(line)) if line.currency is None else None
            if found:
                line.currency = max(sorted(found), key=lambda currency: found[currency])


def _at(line: CostLine) -> tuple[str, str, str]:
    return line.record["cluster"], line.record["pod_uid"], line.record["place_id"]


@dataclass(frozen=True, slots=True)
class AskedCosts:
    """``lines`` meet all conditions. ``unsettled``: of pods whose card is not known and may be one of those asked about."""

    lines: Sequence[CostLine]
    unsettled: Sequence[CostLine] = ()


def asked_about(lines: Sequence[CostLine], where: Sequence[Filter], homes: Homes) -> AskedCosts:
    """What of the lines meets the conditions."""
    if not where:
        return AskedCosts(lines)
    verdicts = [(line, meets(line.record, where, homes)) for line in lines]
    return AskedCosts(
        [line for line, verdict in verdicts if verdict], [line for line, verdict in verdicts if verdict is None]
    )


def meets(record: Record, where: Sequence[Filter], homes: Homes) -> bool | None:
    """Whether a record meets the conditions; None where its card is not known and may. One without a pod meets none on pods."""
    if record["pod_uid"] is None:
        return all(condition.admits(record) for condition in where)
    return homes.meets(record, where)


def grouped(
    lines: Iterable[CostLine], by: Sequence[dimensions.Dimension]
) -> dict[tuple[tuple[str | None, ...], str | None], list[CostLine]]:
    """The lines by the values of the dimensions and by currency, in their order (not set comes last)."""
    groups: dict[tuple[tuple[str | None, ...], str | None], list[CostLine]] = {}
    for line in lines:
        key = tuple(dimension.value(line.record) for dimension in by)
        groups.setdefault((key, line.currency), []).append(line)
    return dict(
        sorted(
            groups.items(),
            key=lambda item: [(value is None, value or "") for value in (*item[0][0], item[0][1])],
        )
    )


def total(lines: Iterable[CostLine], name: str) -> int:
    """The sum of one amount."""
    return sum(getattr(line, name) for line in lines)


def whole_grains(window: Window | None, grain_us: int) -> Window:
    """The whole grains of a window; None = all time."""
    return grains_of(window, grain_us).whole
