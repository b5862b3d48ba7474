"""Small random worlds for the money ledgers, and how a world becomes rows by SQL: the supply ledger by its models, what stands beside it by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import strategies as st

from steelyard.definitions.fragmentation import RequestClass, Shape
from steelyard.definitions.money import MoneyPolicy
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.event import Event
from steelyard.facts.node import Node
from steelyard.facts.price import Discount, Price
from steelyard.facts.request import Request
from steelyard.ledgers.dimensions.registry import build_dimensions
from steelyard.ledgers.posting import PostingParameters, prepare_ledger
from steelyard.ledgers.registry import (
    CHARGE,
    COST,
    EXCESS,
    GPU_STATE,
    HOLDING,
    QUOTA,
    SUPPLY,
    USAGE,
    Ledger,
    model_text,
)
from steelyard.store import Store
from tests.ledgers.reference_money import Key, Row, World
from tests.ledgers.supply_worlds import BASE, COMMON, HOUR, INSTANTS, MINUTE, fresh, records
from tests.ledgers.supply_worlds import worlds as supply_worlds

PODS = st.sampled_from(["p1", "p2", "p3", "p4"])
CARDS = st.sampled_from(["GPU-1", "GPU-2", "GPU-3"])
HOURS = st.integers(0, 3).map(lambda n: BASE + n * HOUR)
POOL = "shared"


@dataclass(frozen=True, slots=True)
class MoneyWorld:
    """Facts, rows of the ledgers before, and what the site decided."""

    facts: list[Fact]
    held: list[Row]
    usage: list[Row]
    states: list[Row]
    excess: list[Row]
    quotas: list[Row]
    grain: int
    policy: MoneyPolicy
    classes: tuple[RequestClass, ...]
    cut: int


@st.composite
def prices(draw: st.DrawFn, number: int) -> Price:
    side = draw(st.sampled_from(["cost", "charge"]))
    start, end = sorted((draw(INSTANTS) // HOUR * HOUR, draw(INSTANTS)))
    return Price(
        **COMMON,
        natural_key=f"b@{number}",
        occurred_at=BASE,
        book="b",
        version=draw(st.sampled_from([2, 2, 2, 1])),
        price_id=f"p{number}",
        side=side,
        component=draw(st.sampled_from(["card", "card", "power"])),
        for_cluster=draw(st.sampled_from([None, None, "default", "elsewhere"])),
        model=draw(st.sampled_from([None, None, "H100", "h100 80gb", "A100"])),
        unit_kind=draw(st.sampled_from([None, None, "gpu", "mig", "vgpu"])),
        commitment=draw(st.sampled_from([None, None, "spot", "on_demand"])),
        tenant=draw(st.sampled_from([None, None, "team", "other"])) if side == "charge" else None,
        currency=draw(st.sampled_from(["USD", "USD", "USD", "EUR"])),
        price_micro=draw(st.sampled_from([None, 0, 1, 7, 2_500_001, 2_500_001, 10**9 + 7, 10**15, 10**15 + 1])),
        per=draw(st.sampled_from(["hour", "hour", "day", "month", "year"])),
        valid_from_at=draw(st.sampled_from([None, None, start])),
        valid_to_at=draw(st.sampled_from([None, None, end])),
        provisional=draw(st.sampled_from([False, False, True])),
    )


def base_price(side: str) -> Price:
    """A price for every card."""
    return Price(
        **COMMON,
        natural_key=f"b@{side}",
        occurred_at=BASE,
        book="b",
        version=2,
        price_id=f"any-{side}",
        side=side,
        currency="USD",
        price_micro=2_500_001,
    )


@st.composite
def discounts(draw: st.DrawFn, number: int) -> Discount:
    return Discount(
        **COMMON,
        natural_key=f"d{number}",
        occurred_at=BASE,
        book="b",
        version=2,
        tenant=draw(st.sampled_from(["team", "unmapped", "other"])),
        discount_ppm=draw(st.sampled_from([0, 1, 333_333, 1_000_000])),
        model=draw(st.sampled_from([None, "H100"])),
        commitment=draw(st.sampled_from([None, None, "spot"])),
        valid_from_at=draw(st.sampled_from([None, BASE + HOUR])),
    )


def ledger_row(draw: st.DrawFn) -> Row:
    return {
        "cluster": "default",
        "grain_at": draw(HOURS),
        "pod_uid": draw(PODS),
        "device_uuid": draw(CARDS),
    }


@st.composite
def used_rows(draw: st.DrawFn) -> Row:
    path = draw(st.sampled_from(["exclusive", "exclusive", "mig", "process"]))
    return {
        **ledger_row(draw),
        "path": path,
        "gi": draw(st.sampled_from([1, 2])) if path == "mig" else None,
        "used_gpu_us": draw(st.one_of(st.none(), st.integers(0, HOUR // 4))),
        "used_observed_us": draw(st.integers(0, HOUR // 4)),
    }


@st.composite
def states(draw: st.DrawFn) -> Row:
    row = ledger_row(draw)
    return {
        **row,
        "place_kind": "device",
        "place_id": row["device_uuid"],
        "node": draw(st.sampled_from(["n1", "n1", "n2"])),
        "unit_id": draw(st.sampled_from([None, "u1"])),
        "state": draw(st.sampled_from(["saturated", "memory_bound", "mixed", "held_unattributed"])),
        "cause": draw(st.sampled_from([None, "memory_bound", "compute_bound"])),
        "basis": draw(st.sampled_from(["triple", "card", "card+203", "instance"])),
        "amount_gpu_us": draw(st.integers(1, HOUR // 4)),
    }


@st.composite
def excesses(draw: st.DrawFn) -> Row:
    return {
        **ledger_row(draw),
        "rule": draw(st.sampled_from(["compute", "memory"])),
        "excess_gpu_us": draw(st.integers(0, HOUR // 4)),
    }


@st.composite
def quotas(draw: st.DrawFn) -> Row:
    amounts = st.one_of(st.none(), st.integers(0, 3).map(lambda n: n * 1000 * HOUR // 4), st.integers(0, 2000 * HOUR))
    kind, queue = draw(
        st.sampled_from([("cluster_queue", "q1"), ("cluster_queue", "q2"), ("resource_quota", "rq"), ("pool", POOL)])
    )
    return {
        "cluster": "default",
        "queue_kind": kind,
        "queue": queue,
        "namespace": "team" if kind == "resource_quota" else None,
        "flavor": None,
        "resource": "nvidia.com/gpu",
        "grain_at": draw(HOURS),
        "nominal_milli_us": draw(amounts),
        "used_milli_us": draw(amounts),
        "borrowed_milli_us": draw(amounts),
    }


@st.composite
def classes(draw: st.DrawFn) -> RequestClass:
    shape = Shape(
        cards_count=draw(st.sampled_from([1, 1, 2])),
        share_ppm=draw(st.sampled_from([None, 250_000, 1_000_000])),
        memory_mib=draw(st.sampled_from([None, 300, 1001])),
        cores_percent=draw(st.sampled_from([None, 50])),
        models=draw(st.sampled_from([(), (), ("H100",), ("A100", "h100 80gb")])),
    )
    return RequestClass(shape, draw(st.integers(1, 7)))


@st.composite
def policies(draw: st.DrawFn) -> MoneyPolicy:
    return MoneyPolicy(
        charge_start=draw(st.sampled_from(["running", "bind"])),
        burst=draw(st.sampled_from(["none", "charged"])),
        reserved_unused=draw(st.sampled_from(["none", "shown", "charged"])),
        dedicated=draw(st.sampled_from([(), (), (("n2", "owner"),), (("n%", "team"), ("n2", "owner"))])),
        commitments=draw(st.sampled_from([(), (("n1", "spot"),), (("n%", "on_demand"),)])),
        platform_start_us=draw(st.sampled_from([0, 10 * MINUTE])),
    )


@st.composite
def worlds(draw: st.DrawFn) -> MoneyWorld:
    """A world of the supply ledger with models, prices, and what other ledgers say beside it."""
    facts, held, grain = draw(supply_worlds())
    models = st.sampled_from([None, "NVIDIA-H100-80GB-HBM3", "NVIDIA A100-SXM4-40GB"])
    labels = st.sampled_from(["{}", '{"karpenter.sh/capacity-type":"spot"}'])
    facts = [
        msgspec.structs.replace(fact, model=draw(models), mig_enabled=draw(st.sampled_from([None, True])))
        if isinstance(fact, Device)
        else msgspec.structs.replace(fact, gpu_product=draw(models), labels=draw(labels))
        if isinstance(fact, Node)
        else msgspec.structs.replace(fact, phase=draw(st.sampled_from(["Running", "Pending"])))
        if isinstance(fact, Request)
        else fact
        for fact in facts
    ]
    facts += [draw(prices(number)) for number in range(draw(st.integers(1, 6)))]
    if draw(st.sampled_from([True, True, True, False])):
        facts += [base_price("cost"), base_price("charge")]
    facts += [draw(discounts(number)) for number in range(draw(st.integers(0, 3)))]
    facts += [
        Event(
            **COMMON,
            natural_key=f"e{number}",
            occurred_at=draw(INSTANTS),
            kind="kubernetes",
            reason="FailedMount",
            subject_uid=draw(PODS),
        )
        for number in range(draw(st.integers(0, 2)))
    ]
    for row in held:
        row["running_at"] = draw(
            st.one_of(
                st.none(),
                st.integers(0, row["known_to_at"] - row["started_at"]).map(lambda n, at=row["started_at"]: at + n),
            )
        )
        row["gi"] = draw(st.sampled_from([None, None, 1, 2]))
    usage = draw(st.lists(used_rows(), max_size=5))
    full = draw(st.lists(states(), max_size=5))
    over = draw(st.lists(excesses(), max_size=3))
    on_cards = [row for row in held if row["place_kind"] == "device"]
    for row in (*usage, *full, *over):
        if on_cards and draw(st.sampled_from([True, True, False])):
            holder = draw(st.sampled_from(on_cards))
            row |= {"device_uuid": holder["device_uuid"], "pod_uid": holder["pod_uid"], "grain_at": draw(HOURS)}
            row |= {"place_id": holder["place_id"], "unit_id": holder["unit_id"]} if "state" in row else {}
    return MoneyWorld(
        facts,
        held,
        distinct(usage, "device_uuid", "pod_uid", "grain_at", "gi", "path"),
        full,
        over,
        draw(st.lists(quotas(), max_size=6, unique_by=lambda row: (row["queue"], row["grain_at"]))),
        grain,
        draw(policies()),
        tuple(draw(st.lists(classes(), max_size=3))),
        draw(HOURS),
    )


def distinct(rows: list[Row], *names: str) -> list[Row]:
    return list({tuple(row[name] for name in names): row for row in rows}.values())


def by_sql(store: Store, world: MoneyWorld) -> tuple[dict[Key, Key], dict[Key, Key]]:
    """Both money ledgers of a world by their models."""
    fresh(store)
    store.append(world.facts)
    build_dimensions(store, PostingParameters(grain_us=world.grain, money=world.policy, request_classes=world.classes))
    load(store, "ledger.holding", HOLDING, world.held)
    prepare_ledger(store, SUPPLY)
    names = ", ".join(column.name for column in SUPPLY.columns)
    store.execute(
        f"CREATE OR REPLACE TABLE ledger.supply AS SELECT {names} FROM ({model_text('supply.sql')}) AS model JOIN ledger.supply_key USING (key_no)"
    )
    load(store, "ledger.usage", USAGE, world.usage)
    load(store, "ledger.gpu_state", GPU_STATE, world.states)
    load(store, "ledger.excess", EXCESS, world.excess)
    load(store, "ledger.quota", QUOTA, world.quotas)
    key_rows = sorted(
        {(row["queue_kind"], row["queue"], row["namespace"]) for row in world.quotas if row["queue_kind"] != "pool"},
        key=repr,
    )
    store.load_rows(
        "dim.quota_key",
        [
            ("key_no", "BIGINT"), ("cluster", "VARCHAR"), ("queue_kind", "VARCHAR"), ("queue", "VARCHAR"), ("namespace", "VARCHAR"),
            ("flavor", "VARCHAR"), ("resource", "VARCHAR"), ("pool", "VARCHAR"), ("shares", "BOOLEAN"), ("is_rollup", "BOOLEAN"),
        ],
        [
            (n, "default", kind, queue, namespace, None, "nvidia.com/gpu", POOL if kind == "cluster_queue" else None, kind == "cluster_queue", False)
            for n, (kind, queue, namespace) in enumerate(key_rows)
        ],
    )  # fmt: skip
    build(store, "gpu_state_holder")
    cost = rows_of(store, COST, world)
    columns = ", ".join(column.name for column in COST.columns)
    store.execute(f"CREATE OR REPLACE TABLE ledger.cost AS SELECT {columns} FROM money_rows")
    charge = rows_of(store, CHARGE, world)
    return keyed(cost, 8), keyed(charge, 8)


def load(store: Store, table: str, ledger: Ledger, rows: Sequence[Row]) -> None:
    columns = [(column.name, column.sql_type) for column in ledger.columns]
    store.load_rows(table, columns, [[row.get(name) for name, _ in columns] for row in rows])


def build(store: Store, stem: str, bound: dict[str, int] | None = None) -> None:
    model = model_text(f"{stem}.sql")
    used = {name: value for name, value in (bound or {}).items() if f"${name}" in model}
    store.execute(f"CREATE OR REPLACE TABLE dim.{stem} AS {model}", used)


def rows_of(store: Store, ledger: Ledger, world: MoneyWorld) -> list[Row]:
    """What the ledger's model yields, in two windows."""
    prepare_ledger(store, ledger)
    low, high = BASE - 400 * HOUR, BASE + 400 * HOUR
    span = store.rows(
        "SELECT min(epoch_us(grain_at)), max(epoch_us(grain_at)) "
        "FROM (SELECT grain_at FROM ledger.supply UNION ALL SELECT grain_at FROM ledger.excess) AS grain"
    )[0]
    if span[0] is not None:
        low, high = span[0] // HOUR * HOUR, span[1] // HOUR * HOUR + HOUR
    cut = min(max(world.cut, low), high)
    store.execute(f"CREATE OR REPLACE TABLE money_rows ({', '.join(f'{c.name} {c.sql_type}' for c in ledger.columns)})")
    names = ", ".join(column.name for column in ledger.columns)
    for start, end in ((low, cut), (cut, high)):
        if end > start:
            for stem in ledger.window_stages:
                build(store, stem, {"from_us": start, "to_us": end})
            model = model_text(ledger.sql_file)
            store.execute(
                f"INSERT INTO money_rows SELECT {names} FROM ({model}) AS model JOIN dim.{ledger.name}_key USING (key_no)"
            )
    return records(store, "main.money_rows")


def keyed(rows: Sequence[Row], keys: int) -> dict[Key, Key]:
    """By key: the first columns without cluster and device."""
    found: dict[Key, Key] = {}
    for row in rows:
        values = [value for name, value in row.items() if name not in ("cluster", "device_uuid")]
        key = tuple(values[:keys])
        assert key not in found, f"two rows have the key {key}"
        found[key] = tuple(values[keys:])
    return found


def world_of(store: Store, world: MoneyWorld) -> World:
    """The same world as the reference sees it."""
    spans = store.rows("SELECT epoch_us(history_from_at), epoch_us(horizon_at) FROM dim.parameter")[0]
    places = records(store, "dim.cost_place")
    memory = dict(store.rows("SELECT device_uuid, max(memory_mib) FROM dim.device GROUP BY ALL"))
    blamed: dict[str, list[int]] = {}
    for fact in world.facts:
        if isinstance(fact, Event):
            blamed.setdefault(str(fact.subject_uid), []).append(fact.occurred_at)
    return World(
        grain=world.grain,
        history_from=spans[0] if spans[0] is not None else -(1 << 62),
        horizon=spans[1] if spans[1] is not None else 1 << 62,
        policy=world.policy,
        supply=records(store, "ledger.supply"),
        usage=world.usage,
        states=world.states,
        excess=world.excess,
        quotas=world.quotas,
        holdings=world.held,
        places=[{**row, "memory_mib": memory.get(row["device_uuid"])} for row in places],
        pods={row["pod_uid"]: row for row in records(store, "dim.pod")},
        downs=records(store, "dim.charge_down"),
        prices=[content(fact) for fact in world.facts if isinstance(fact, Price)],
        discounts=[content(fact) for fact in world.facts if isinstance(fact, Discount)],
        classes=world.classes,
        owners={(row["queue_kind"], row["queue"]): row["owner"] for row in records(store, "dim.cost_owner")},
        pools={("cluster_queue", "q1"): POOL, ("cluster_queue", "q2"): POOL},
        blamed=blamed,
    )


def content(fact: Any) -> Any:
    """Without what names the fact, so that the same line declared twice is one."""
    return msgspec.structs.replace(fact, natural_key="")
