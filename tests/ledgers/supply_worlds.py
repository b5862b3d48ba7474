"""Small random worlds for the supply ledger, and how a world becomes rows by SQL."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.facts.node import Node
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.dimensions.registry import build_dimensions
from steelyard.ledgers.posting import PostingParameters, prepare_ledger
from steelyard.ledgers.registry import HOLDING, SUPPLY, model_text
from steelyard.store import Store
from tests.ledgers.reference_supply import Key, Row, World

MINUTE = 60_000_000
HOUR = 60 * MINUTE
BASE = 1_790_000_000_000_000 // HOUR * HOUR
GRAINS = (HOUR, HOUR // 2, HOUR // 4)
COMMON: dict[str, Any] = {"source": "test", "observed_at": BASE}

OFFSETS = st.one_of(
    st.integers(0, 10).map(lambda n: n * HOUR // 4),
    st.integers(0, 150).map(lambda n: n * MINUTE),
    st.integers(0, 150 * MINUTE),
)
INSTANTS = OFFSETS.map(lambda offset: BASE + offset)
CARDS = st.sampled_from(["GPU-1", "GPU-2", "GPU-3"])
NODES = st.sampled_from(["n1", "n2"])


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int]:
    start, end = sorted((draw(INSTANTS), draw(INSTANTS)))
    return start, end


@st.composite
def holdings(draw: st.DrawFn) -> Row:
    start, end = draw(spans())
    kind = draw(st.sampled_from(["device", "device", "device", "node", "cluster"]))
    place = {
        "device": draw(st.one_of(CARDS, st.just("GPU-x"))),
        "node": draw(st.sampled_from(["n1", "n2", "n3", "n4"])),
        "cluster": "default",
    }
    still_open = draw(st.booleans())
    share = draw(st.one_of(st.none(), st.integers(0, 1_300_000), st.sampled_from([1_000_000, 333_333, 500_000])))
    return {
        "cluster": "default",
        "pod_uid": draw(st.sampled_from(["p1", "p2", "p3", "p4"])),
        "place_kind": kind,
        "place_id": place[kind],
        "node": "n1" if kind == "device" else place["node"] if kind == "node" else None,
        "device_uuid": place["device"] if kind == "device" else None,
        "unit_kind": draw(st.sampled_from(["gpu", "vgpu", "slice"])),
        "unit_id": draw(st.sampled_from([None, "u1"])),
        "occupancy": draw(st.sampled_from(["held", "held", "held", "reserved", "in_suspense"])),
        "share_ppm": share,
        "share_at_least_ppm": share if share is not None else draw(st.sampled_from([0, 200_000])),
        "memory_mib": draw(st.one_of(st.none(), st.integers(0, 1500))),
        "cores_percent": draw(st.one_of(st.none(), st.integers(0, 130))),
        "started_at": start,
        "ended_at": None if still_open else end,
        "known_to_at": end,
        "ended_before_at": None if still_open else draw(st.one_of(st.none(), INSTANTS)),
    }


@st.composite
def devices(draw: st.DrawFn) -> Device:
    uuid = draw(CARDS)
    return Device(
        natural_key=uuid,
        occurred_at=draw(INSTANTS),
        device_uuid=uuid,
        node=draw(st.sampled_from(["n1", "n1", "n1", "n2"])),
        memory_mib=1000 if uuid != "GPU-3" else draw(st.sampled_from([None, 1000])),
        pci_address=draw(st.sampled_from([f"0000:0{uuid[-1]}:00.0", "0000:01:00.0"])),
        state=draw(st.sampled_from(["present", "present", "lost"])),
        healthy=draw(st.sampled_from([None, True, True, False])),
        basis=draw(st.sampled_from(["inventory", "vendor_register"])),
        **COMMON,
    )


@st.composite
def samples(draw: st.DrawFn) -> DeviceSample:
    uuid = draw(st.one_of(CARDS, st.just("GPU-4")))
    interval = st.sampled_from([None, 0, MINUTE // 2, MINUTE, 2 * MINUTE, 150_000_000, 40 * MINUTE, HOUR, 3 * HOUR, -5])
    value = draw(st.sampled_from(["memory_used_mib", "util_gpu_ratio", "power_watts", "nothing"]))
    return DeviceSample(
        natural_key=uuid,
        occurred_at=draw(INSTANTS),
        device_uuid=uuid,
        interval_us=draw(interval),
        memory_used_mib=5 if value == "memory_used_mib" else None,
        util_gpu_ratio=0.0 if value == "util_gpu_ratio" else None,
        power_watts=1.5 if value == "power_watts" else None,
        **COMMON,
    )


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    node, at = draw(st.sampled_from(["n1", "n1", "n1", "n2", "n3"])), draw(INSTANTS)
    changed = draw(st.one_of(st.none(), st.just(BASE + HOUR // 4), st.integers(0, 60).map(lambda n: at - n * MINUTE)))
    return Node(
        natural_key=node,
        occurred_at=at,
        node=node,
        ready=draw(st.sampled_from([True, True, False, None])),
        ready_changed_at=changed,
        mig_config_state=draw(st.sampled_from([None, None, "success", "pending", "rebooting"])),
        gpu_count=draw(st.sampled_from([None, 1, 2])) if node == "n2" else None,
        gpu_memory_mib=draw(st.sampled_from([None, 1000])) if node == "n2" else None,
        **COMMON,
    )


@st.composite
def statuses(draw: st.DrawFn) -> SourceStatus:
    scope, at = draw(st.sampled_from(["cluster", "cluster", "node/n1"])), draw(INSTANTS)
    watched = draw(st.one_of(st.none(), st.none(), spans()))
    if watched is not None and watched[0] == watched[1]:
        watched = None
    return SourceStatus(
        natural_key=f"pods/{scope}",
        occurred_at=at,
        kind="pods" if watched is None else draw(st.sampled_from(["pods", "trace"])),
        scope=scope,
        complete=draw(st.sampled_from([True, True, False])),
        gap_max_us=draw(st.sampled_from([None, HOUR // 4, HOUR, 3 * HOUR])),
        observed_from_at=watched[0] if watched else None,
        observed_to_at=watched[1] if watched else None,
        **COMMON,
    )


@st.composite
def bases(draw: st.DrawFn) -> InventoryBasis:
    node, number = draw(st.sampled_from(["n1", "n2", "n3"])), draw(st.integers(0, 10**9))
    start, end = draw(spans())
    return InventoryBasis(
        natural_key=f"card-{number}",
        occurred_at=draw(INSTANTS),
        basis=draw(st.sampled_from(["gfd_label", "declared", "asset_list"])),
        node=node,
        cards_count=draw(st.integers(0, 3)),
        memory_mib=draw(st.sampled_from([None, 1000])),
        valid_from_at=draw(st.sampled_from([None, start])),
        valid_to_at=draw(st.sampled_from([None, end + 1])),
        **COMMON,
    )


@st.composite
def requests(draw: st.DrawFn) -> Request:
    uid = draw(st.sampled_from(["p1", "p2", "p3"]))
    return Request(
        natural_key=uid,
        occurred_at=draw(INSTANTS),
        pod_uid=uid,
        namespace="team",
        pod=uid,
        phase="Running",
        unreachable_toleration_us=draw(st.sampled_from([None, 0, 300_000_000, 20 * MINUTE])),
        **COMMON,
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Fact], list[Row], int]:
    """Facts, rows of the holding ledger and a grain."""
    facts: list[Fact] = [
        *draw(st.lists(devices(), max_size=6)),
        *draw(st.lists(samples(), max_size=6)),
        *draw(st.lists(nodes(), max_size=5)),
        *draw(st.lists(statuses(), max_size=5)),
        *draw(st.lists(bases(), max_size=3, unique_by=lambda basis: basis.natural_key)),
        *draw(st.lists(requests(), max_size=3)),
    ]
    held = draw(
        st.lists(
            holdings(),
            max_size=6,
            unique_by=lambda row: (row["place_id"], row["pod_uid"], row["unit_id"], row["started_at"]),
        )
    )
    return facts, held, draw(st.sampled_from(GRAINS))


def fresh(store: Store) -> None:
    """Forget all facts, so that one store serves many worlds."""
    for table in store.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'fact'"):
        store.execute(f"DELETE FROM fact.{table[0]}")


def by_sql(store: Store, facts: list[Fact], held: list[Row], grain: int) -> dict[Key, tuple[int, int | None, int]]:
    """The supply ledger of a world by its models, over a holding ledger that is given."""
    fresh(store)
    store.append(facts)
    build_dimensions(store, PostingParameters(grain_us=grain))
    columns = [(column.name, column.sql_type) for column in HOLDING.columns]
    store.load_rows("ledger.holding", columns, [[row.get(name) for name, _ in columns] for row in held])
    prepare_ledger(store, SUPPLY)
    rows = store.rows(
        "SELECT place_kind, place_id, node, epoch_us(grain_at), account, service, pod_uid, unit_id, "
        f"amount_gpu_us, memory_mib_us, cores_percent_us FROM ({model_text('supply.sql')}) AS model JOIN ledger.supply_key USING (key_no)"
    )
    keyed = {row[:8]: row[8:] for row in rows}
    assert len(keyed) == len(rows), "two rows have the same key"
    return keyed


def world_of(store: Store, grain: int, held: list[Row]) -> World:
    """The same world as the reference sees it."""
    return World(
        grain=grain,
        as_of=int(store.rows("SELECT coalesce(epoch_us(as_of_at), 0) FROM dim.parameter")[0][0]),
        holdings=held,
        cards=records(store, "dim.device"),
        slots=records(store, "dim.slot"),
        devices=records(store, "fact.device"),
        nodes=records(store, "fact.node"),
        samples=records(store, "fact.device_sample"),
        statuses=records(store, "fact.source_status"),
        bases=records(store, "fact.inventory_basis"),
        requests=records(store, "fact.request"),
    )


def records(store: Store, table: str) -> list[Row]:
    """All rows of a table; instants as integers."""
    schema, name = table.split(".")
    columns = store.rows(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = ? AND table_name = ?",
        [schema, name],
    )
    select = ", ".join(f"epoch_us({c}) AS {c}" if kind == "TIMESTAMP" else f'"{c}"' for c, kind in columns)
    return store.records(f"SELECT {select} FROM {table}")
