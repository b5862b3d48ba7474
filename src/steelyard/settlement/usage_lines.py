"""Lines from rows: what the tables of ``tables`` say of each tenant, as statement lines in the currency of the price book.

``assembly`` makes statements of them. The trick to know: a line's id is a hash of what it is about and never of its amount, so a draft of yesterday,
the closed statement and its correction name the same line alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from steelyard.definitions.money import half_up
from steelyard.definitions.normalised_gpu_hours import REFERENCE_WEIGHT_PPM
from steelyard.primitives.instant import Instant
from steelyard.settlement.rules import PPM, SettlementRules
from steelyard.settlement.statement import Kind, StatementLine
from steelyard.settlement.tables import epoch_expression, filled
from steelyard.store import Store

KINDS: Final[Mapping[str, Kind]] = {
    "grant": "usage",
    "held_down": "usage",
    "burst": "burst",
    "reserved_unused": "reserved_unused",
}
"""What a line of the charge ledger is called on a statement."""


@dataclass(frozen=True, slots=True)
class TenantLine:
    """A line, whose it is, and the currencies of its charge and of its cost before anything is converted.

    ``ledger_line``: the charge ledger's word. ``numbers``: of its place, holder and tariff; ``epochs``: of those that it has rows in.
    """

    tenant: str
    line: StatementLine
    currency: str | None
    cost_currency: str | None = None
    ledger_line: str = ""
    numbers: tuple[int, int, int] = (0, 0, 0)
    epochs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """What a price id stands for at an instant: millionths of the book's currency for one ``per``."""

    price_micro: int
    per: str


@dataclass(slots=True)
class Prices:
    """Unit prices of the charge side by id, over their validity."""

    rows: Mapping[str, Sequence[tuple[Instant | None, Instant | None, int | None, str]]] = field(default_factory=dict)

    def at(self, price_id: str | None, instant: Instant) -> UnitPrice | None:
        """The unit price behind an id; components that add up are joined by ``+``. None where it is not one sum per one unit of time."""
        found: list[tuple[int | None, str]] = []
        for part in (price_id or "").split("+"):
            held = [row for row in self.rows.get(part, ()) if _holds(row[0], row[1], instant)]
            if not held:
                return None
            found.append((held[0][2], held[0][3]))
        amounts = [amount for amount, _per in found if amount is not None]
        if len(amounts) != len(found) or len({per for _amount, per in found}) != 1:
            return None
        return UnitPrice(sum(amounts), found[0][1])


def _holds(start: Instant | None, end: Instant | None, instant: Instant) -> bool:
    return (start is None or start <= instant) and (end is None or instant < end)


def prices_of(store: Store) -> Prices:
    """The charge side of ``settling_price``."""
    rows: dict[str, list[tuple[Instant | None, Instant | None, int | None, str]]] = {}
    for price_id, start, end, amount, per in store.rows(
        "SELECT price_id, epoch_us(valid_from_at), epoch_us(valid_to_at), price_micro, per FROM settling_price WHERE side = 'charge' ORDER BY ALL"
    ):
        rows.setdefault(price_id, []).append((start, end, amount, per))
    return Prices(rows)


def weights_of(store: Store) -> dict[tuple[str | None, int], int | None]:
    """(model, epoch) -> the model's weight in ppm."""
    return {
        (model, epoch): weight
        for model, epoch, weight in store.rows("SELECT model, epoch_no, weight_ppm FROM settling_weight")
    }


def usage_lines(store: Store, rules: SettlementRules) -> Iterator[TenantLine]:
    """All lines that rows of the charge ledger make, in a stable order."""
    prices, weights, grain_us = prices_of(store), weights_of(store), rules.periods.grain_us
    sql = (
        f"SELECT line.*, epoch_us(line.from_at) AS from_us, epoch_us(line.last_at) + {grain_us} AS to_us, place.cluster AS place_cluster, "
        "place.place_kind, place.place_id, place.node, place.device_uuid, place.model, place.commitment, "
        "pod.* EXCLUDE (holder_no, epoch_no, cluster, from_at, to_at) "
        f"FROM ({filled('lines', {'epoch': epoch_expression(store)})}) AS line "
        "JOIN settling_place AS place ON place.place_no = line.place_no "
        "JOIN settling_pod AS pod ON pod.holder_no = line.holder_no AND pod.epoch_no = line.epoch_no "
        "ORDER BY pod.tenant, line.place_no, line.holder_no, line.epoch_no, line.line, line.price_id, line.currency, line.unpriced_reason, "
        "line.provisional"
    )
    for _whose, rows in groupby(store.records(sql), lambda row: (row["tenant"], row["place_no"], row["holder_no"])):
        parts = [_part_of(row, prices, weights) for row in rows]
        for part in _joined(parts) if rules.joins_lines else parts:
            yield _tenant_line(part, rules)


@dataclass(slots=True)
class _Part:
    """What a row says, the unit price and the weight that hold in its epoch, and the epochs of the rows that were joined to it."""

    row: dict[str, Any]
    unit: UnitPrice | None
    weight: int | None
    epochs: tuple[int, ...]

    def is_as(self, other: _Part) -> bool:
        """Whether the two differ in time and amounts alone: nobody could tell why they are two lines."""
        mine, its = self.row, other.row
        same = ("department", "team", "project", "cost_centre", "cost_currency")
        listed, discounts = (mine["list_micro"], its["list_micro"]), (mine["discount_micro"], its["discount_micro"])
        if (
            None not in listed
            and abs(discounts[0] * listed[1] - discounts[1] * listed[0]) * 10_000 > listed[0] * listed[1]
        ):
            return False
        return (
            (self.unit, self.weight) == (other.unit, other.weight)
            and all(mine[name] == its[name] for name in same)
            and (mine["cost_micro"] is None) == (its["cost_micro"] is None)
        )

    def join(self, other: _Part) -> None:
        """Take the amounts and the time of a later one. What is not known of one part of the use is not seen: its upper bound is all of it."""
        mine, its = self.row, other.row
        if mine["used_gpu_us"] is None or its["used_gpu_us"] is None:
            for row in (mine, its):
                row["used_upper_gpu_us"] = (
                    row["amount_gpu_us"] if row["used_gpu_us"] is None else row["used_upper_gpu_us"]
                )
        for name in _SUMMED:
            mine[name] = its[name] if mine[name] is None else mine[name] + (its[name] or 0)
        mine["to_us"] = max(mine["to_us"], its["to_us"])
        self.epochs += other.epochs


_SUMMED: Final = (
    "quantity_gpu_us", "list_micro", "discount_micro", "charge_micro", "amount_gpu_us", "cost_micro", "used_gpu_us", "used_upper_gpu_us",
    "seen_gpu_us",
)  # fmt: skip


def _part_of(row: Mapping[str, Any], prices: Prices, weights: Mapping[tuple[str | None, int], int | None]) -> _Part:
    unit = prices.at(row["price_id"], row["from_us"]) if row["charge_micro"] is not None else None
    return _Part(dict(row), unit, weights.get((row["model"], row["epoch_no"])), (row["epoch_no"],))


def _joined(parts: Sequence[_Part]) -> list[_Part]:
    """The parts of one holder at one place, in the order of time, each with the one before it of the same price, where they differ in nothing."""
    found: list[_Part] = []
    last: dict[tuple[object, ...], _Part] = {}
    for part in parts:
        key = tuple(part.row[name] for name in ("line", "price_id", "currency", "unpriced_reason", "provisional"))
        before = last.get(key)
        if before is not None and before.is_as(part):
            before.join(part)
            continue
        last[key] = part
        found.append(part)
    return found


def _tenant_line(part: _Part, rules: SettlementRules) -> TenantLine:
    row, unit, weight = part.row, part.unit, part.weight
    start, quantity = row["from_us"], row["quantity_gpu_us"]
    priced = row["charge_micro"] is not None
    amount, seen, cost = row["amount_gpu_us"], row["seen_gpu_us"], row["cost_micro"]
    coverage = None if not amount or seen is None else seen * PPM // amount
    line = StatementLine(
        line_id=line_id(
            row["line"], row["place_cluster"], row["place_kind"], row["place_id"], row["pod_uid"], row["unit_id"], row["owner"],
            row["price_id"], row["unpriced_reason"], row["provisional"], start,
        ),
        kind=KINDS.get(row["line"], "usage"),
        description=_description(row),
        cluster=row["place_cluster"],
        node=row["node"],
        device_uuid=row["device_uuid"],
        model=row["model"],
        unit_kind=row["unit_kind"],
        unit_id=row["unit_id"],
        namespace=row["namespace"],
        pod=row["pod"],
        pod_uid=row["pod_uid"],
        workload=row["workload"],
        queue=row["queue"],
        department=row["department"],
        team=row["team"],
        project=row["project"],
        cost_centre=row["cost_centre"],
        commitment=row["commitment"],
        started_at=start,
        ended_at=row["to_us"],
        quantity_gpu_us=quantity,
        normalised_gpu_us=None if weight is None else quantity * weight // REFERENCE_WEIGHT_PPM,
        used_gpu_us=row["used_gpu_us"],
        used_upper_gpu_us=None if row["used_gpu_us"] is None else row["used_upper_gpu_us"],
        coverage_ppm=coverage,
        estimated=coverage is not None and coverage < rules.coverage_min_ppm,
        price_id=row["price_id"],
        unit_price_micro=unit.price_micro if unit else None,
        per=unit.per if unit else None,
        list_micro=row["list_micro"] if priced else None,
        discount_micro=row["discount_micro"] if priced else None,
        amount_micro=row["charge_micro"],
        cost_micro=cost,
        used_micro=_part(cost, row["used_gpu_us"], amount),
        used_upper_micro=None if row["used_gpu_us"] is None else _part(cost, row["used_upper_gpu_us"], amount),
        unpriced_reason=row["unpriced_reason"],
        provisional=bool(row["provisional"]),
    )  # fmt: skip
    numbers = (row["place_no"], row["holder_no"], row["tariff_no"])
    return TenantLine(row["tenant"], line, row["currency"], row["cost_currency"], row["line"], numbers, part.epochs)


def line_id(*parts: object) -> str:
    """Sixteen hexadecimal digits that stand for what a line is about."""
    text = "\x1f".join("" if part is None else str(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _description(row: Mapping[str, Any]) -> str:
    """A name, which needs no translation: what the line is about, as the cluster calls it."""
    name = f"{row['namespace']}/{row['pod']}" if row["pod"] is not None else (row["owner"] or row["pod_uid"] or "")
    return name if row["line"] == "grant" else f"{name} ({row['line']})"


def _part(cost: int | None, used: int | None, amount: int | None) -> int | None:
    return None if cost is None or used is None or not amount else half_up(cost * used, amount)
