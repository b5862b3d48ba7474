"""Small random worlds for the ledger of states, and how a world becomes rows by SQL."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.node import Node
from steelyard.facts.owner import Owner
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.dimensions.registry import build_dimensions
from steelyard.ledgers.posting import PostingParameters, post_ledger, prepare_ledger
from steelyard.ledgers.registry import GPU_STATE, HOLDING, SUPPLY, USAGE, WAIT
from steelyard.store import Store
from tests.ledgers.reference_gpu_state import Key, World
from tests.ledgers.reference_supply import Row
from tests.ledgers.supply_worlds import BASE, COMMON, GRAINS, HOUR, MINUTE, fresh, records

HOURS = 2
CARDS = st.sampled_from(["GPU-1", "GPU-2"])
PODS = ("p1", "p2", "p3")
MINUTES = st.integers(0, HOURS * 60 - 1)
OFFSETS = st.one_of(
    MINUTES.map(lambda n: n * MINUTE), MINUTES.map(lambda n: n * MINUTE), st.integers(0, HOURS * HOUR - 1)
)
RATIOS = st.one_of(
    st.none(), st.sampled_from([0.0, 0.03125, 0.0625, 0.1875, 0.25, 0.5, 0.625, 0.96875, 1.0, 1.03125, 1.5])
)
RATES = st.sampled_from([None, None, 0, 2_000_000_000])


@st.composite
def samples(draw: st.DrawFn, aligned: bool) -> DeviceSample:
    uuid, gi = draw(CARDS), draw(st.sampled_from([None, None, None, 1, 2]))
    offset = draw(MINUTES) * MINUTE if aligned else draw(OFFSETS)
    hang = draw(st.sampled_from([False, False, True]))
    ratio = {name: draw(RATIOS) for name in ("gr_active_ratio", "sm_active_ratio", "dram_active_ratio")}
    if hang:
        ratio = {"gr_active_ratio": 1.0, "sm_active_ratio": 0.0, "dram_active_ratio": 0.0}
    return DeviceSample(
        **{**COMMON, "source": draw(st.sampled_from(["a", "b"]))},
        natural_key=uuid if gi is None else f"{uuid}/gi{gi}",
        occurred_at=BASE + offset,
        device_uuid=uuid,
        gi=gi,
        interval_us=MINUTE if aligned else draw(st.sampled_from([None, MINUTE // 2, MINUTE, 30 * MINUTE])),
        util_gpu_ratio=draw(RATIOS),
        **ratio,
        sm_occupancy_ratio=draw(st.sampled_from([None, 0.125, 0.5])),
        throttle_reasons=draw(st.sampled_from([None, 0, 1, 4, 0x20])),
        power_watts=draw(st.sampled_from([100.0, 100.0, 600.0, None])),
        power_limit_watts=draw(st.sampled_from([700.0, 700.0, None])),
        pcie_tx_bytes_per_second=draw(RATES),
        pcie_rx_bytes_per_second=draw(RATES),
        nvlink_tx_bytes_per_second=draw(RATES),
        nvlink_rx_bytes_per_second=draw(RATES),
    )


@st.composite
def runs(draw: st.DrawFn) -> list[DeviceSample]:
    """One sample a minute of one card for a while, of one figure, so that states last."""
    uuid, first, length = draw(CARDS), draw(MINUTES), draw(st.integers(8, 60))
    engine, sm, dram = draw(
        st.sampled_from([(1.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (1.0, 0.75, 0.25), (0.25, None, 0.125)])
    )
    power = draw(st.sampled_from([100.0, 650.0]))
    return [
        DeviceSample(
            **COMMON, natural_key=uuid, occurred_at=BASE + minute * MINUTE, device_uuid=uuid, interval_us=MINUTE, gr_active_ratio=engine,
            sm_active_ratio=sm, dram_active_ratio=dram, power_watts=power, power_limit_watts=700.0,
        )
        for minute in range(first, min(first + length, HOURS * 60))
    ]  # fmt: skip


@st.composite
def holdings(draw: st.DrawFn) -> Row:
    start = draw(st.one_of(st.integers(0, 50).map(lambda n: n * MINUTE), st.integers(0, HOUR)))
    end = draw(st.one_of(st.integers(60, HOURS * 60).map(lambda n: n * MINUTE), st.integers(HOUR, HOURS * HOUR)))
    place = draw(st.sampled_from(["device"] * 8 + ["node", "node", "cluster"]))
    uuid, kind = draw(CARDS), draw(st.sampled_from(["gpu", "gpu", "vgpu", "mig"]))
    share = draw(st.sampled_from([1_000_000, 1_000_000, 500_000, 333_333]))
    return {
        "cluster": "default",
        "pod_uid": draw(st.sampled_from(PODS)),
        "place_kind": place,
        "place_id": {"device": uuid, "node": "n2", "cluster": "default"}[place],
        "node": {"GPU-1": "n1", "GPU-2": "n2"}[uuid] if place == "device" else "n2" if place == "node" else None,
        "device_uuid": uuid if place == "device" else None,
        "unit_kind": kind,
        "unit_id": draw(st.sampled_from([None, "u1"])),
        "gi": draw(st.sampled_from([None, 1, 2])) if kind == "mig" and place == "device" else None,
        "occupancy": draw(st.sampled_from(["held", "held", "held", "held", "reserved", "in_suspense"])),
        "share_ppm": share,
        "share_at_least_ppm": share,
        "started_at": BASE + start,
        "running_at": draw(st.sampled_from([None, None, BASE + start, BASE + (start + end) // 2])),
        "ended_at": BASE + end,
        "known_to_at": BASE + end,
    }


@st.composite
def waits(draw: st.DrawFn) -> Row:
    start, end = sorted((draw(OFFSETS), draw(OFFSETS)))
    return {
        "cluster": "default",
        "demand_id": draw(st.sampled_from(["d1", "d2", "d3", "d4"])),
        "demand_kind": draw(st.sampled_from(["pod", "workload", "pod_group"])),
        "stage": draw(st.sampled_from(["queue", "queue", "scheduler", "admission_check", "starting", "release_lag"])),
        "started_at": BASE + start,
        "ended_at": draw(st.sampled_from([None, BASE + end])),
        "known_to_at": BASE + end,
        "cause": draw(st.sampled_from([None, "quota", "capacity", "gang", "placement", "policy"])),
        "fit": draw(st.sampled_from([None, "not_now", "never_fits"])),
        "gpu_milli": draw(st.sampled_from([None, 0, 300, 1000, 1500])),
        "unknown_reason": draw(st.sampled_from([None, None, None, "end_not_stamped", "evictions_not_seen"])),
    }


@st.composite
def processes(draw: st.DrawFn) -> ProcessSample:
    uuid, pid = draw(CARDS), draw(st.integers(1, 3))
    return ProcessSample(
        **COMMON,
        natural_key=f"{uuid}/{pid}",
        occurred_at=BASE + draw(OFFSETS),
        device_uuid=uuid,
        pid=pid,
        pod_uid=draw(st.sampled_from([None, "p1", "p2", "p9"])),
        sm_ratio=draw(st.sampled_from([None, 0.0, 0.03125, 0.5])),
        interval_us=draw(st.sampled_from([None, MINUTE, 20 * MINUTE])),
    )


@st.composite
def partitions(draw: st.DrawFn) -> PartitionSample:
    uuid, pod, container = draw(CARDS), draw(st.sampled_from(PODS)), draw(st.sampled_from(["a", "b"]))
    return PartitionSample(
        **{**COMMON, "source": draw(st.sampled_from(["a", "test"]))},
        natural_key=f"team/{pod}/{container}/{uuid}",
        occurred_at=BASE + draw(OFFSETS),
        origin=draw(st.sampled_from(["monitor", "monitor", "scheduler"])),
        device_uuid=uuid,
        namespace="team",
        pod=pod,
        container=container,
        sm_ratio=draw(st.sampled_from([None, None, 0.0, 0.5])),
        last_kernel_seconds=draw(st.sampled_from([None, 5.0, 90.0])),
    )


@st.composite
def metrics(draw: st.DrawFn) -> list[MetricSample]:
    pod, at = draw(st.sampled_from(PODS)), BASE + draw(OFFSETS)
    kind = draw(st.sampled_from(["engine", "engine", "host"]))
    if kind == "engine":
        values = {
            name: draw(st.sampled_from([0.0, 0.0, 3.0, None]))
            for name in ("vllm:num_requests_running", "vllm:num_requests_waiting")
        }
        if draw(st.sampled_from([False, False, True])):
            values.popitem()
    else:
        values = {
            draw(st.sampled_from(["host_cpu_throttled_ratio", "host_io_pressure_ratio"])): draw(
                st.sampled_from([0.125, 0.5])
            ),
        }
    return [
        MetricSample(
            **COMMON, natural_key=f"{name}/{pod}", occurred_at=at, family=kind, metric=name, value=value, namespace="team", pod=pod
        )
        for name, value in values.items()
    ]  # fmt: skip


def card_facts(uuid: str, node: str = "n1") -> list[Fact]:
    """A card, seen throughout."""
    return [
        Device(natural_key=uuid, occurred_at=at, device_uuid=uuid, node=node, memory_mib=1000, **COMMON)
        for at in (BASE, BASE + HOURS * HOUR)
    ]


def estate() -> list[Fact]:
    """Two cards on two nodes, seen throughout; three pods, of which one is a notebook and one never ran."""
    facts = [*card_facts("GPU-1"), *card_facts("GPU-2", "n2")]
    facts.append(
        SourceStatus(
            natural_key="pods/cluster", occurred_at=BASE + HOURS * HOUR, kind="pods", complete=True, observed_from_at=BASE,
            observed_to_at=BASE + HOURS * HOUR, **COMMON,
        )
    )  # fmt: skip
    for uid, phase in zip(PODS, ("Running", "Running", "Pending"), strict=True):
        facts.append(
            Request(
                natural_key=uid,
                occurred_at=BASE,
                pod_uid=uid,
                namespace="team",
                pod=uid,
                phase=phase,
                created_at=BASE - HOUR,
                **COMMON,
            )
        )
    facts.append(
        Owner(
            natural_key="p2",
            occurred_at=BASE,
            pod_uid="p2",
            namespace="team",
            workload_kind="Notebook",
            workload_name="nb",
            **COMMON,
        )
    )
    return facts


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Fact], list[Row], list[Row], int]:
    """Facts, rows of the holding and wait ledgers, and a grain."""
    facts = estate()
    gap = draw(st.sampled_from([None, 5 * MINUTE, HOUR]))
    facts.append(
        SourceStatus(
            **{**COMMON, "source": "a"}, natural_key="nvidia_smi", occurred_at=BASE, kind="nvidia_smi", gap_max_us=gap
        )
    )
    if draw(st.booleans()):
        facts.append(Node(natural_key="n1", occurred_at=BASE + draw(OFFSETS), node="n1", ready=False, **COMMON))
    facts.append(
        Node(natural_key="n2", occurred_at=BASE, node="n2", replicas=draw(st.sampled_from([None, 1, 4])), **COMMON)
    )
    aligned = draw(st.booleans())
    facts += draw(
        st.lists(
            samples(aligned), min_size=3, max_size=12, unique_by=lambda s: (s.natural_key, s.source, s.occurred_at)
        )
    )
    facts += [sample for run in draw(st.lists(runs(), min_size=1, max_size=3)) for sample in run]
    facts += draw(st.lists(processes(), max_size=4))
    facts += draw(st.lists(partitions(), max_size=4))
    facts += [sample for group in draw(st.lists(metrics(), max_size=4)) for sample in group]
    held = draw(
        st.lists(
            holdings(), min_size=1, max_size=4, unique_by=lambda row: (row["place_id"], row["pod_uid"], row["unit_id"], row["started_at"])
        )
    )  # fmt: skip
    asked = draw(st.lists(waits(), max_size=4))
    return facts, held, asked, draw(st.sampled_from(GRAINS))


def forget(store: Store) -> None:
    """No facts, no postings, no hour that was posted."""
    fresh(store)
    for table in ("supply_entry", "gpu_state_entry", "gpu_state_hour", "usage_entry", "usage_hour"):
        store.execute(f"DELETE FROM ledger.{table}")


def posted(store: Store, facts: list[Fact], held: list[Row], asked: list[Row], grain: int) -> dict[Key, int]:
    """The ledger after one more posting, over holdings and waits that are given."""
    store.append(facts)
    build_dimensions(store, PostingParameters(grain_us=grain))
    for ledger, rows in ((HOLDING, held), (WAIT, asked)):
        columns = [(column.name, column.sql_type) for column in ledger.columns]
        store.load_rows(f"ledger.{ledger.name}", columns, [[row.get(name) for name, _ in columns] for row in rows])
    post_ledger(store, SUPPLY, 1, f"{grain}")
    prepare_ledger(store, USAGE)
    post_ledger(store, GPU_STATE, 1, f"{grain}")
    return ledger_rows(store)


def ledger_rows(store: Store) -> dict[Key, int]:
    rows = store.rows(
        "SELECT place_kind, place_id, epoch_us(grain_at), pod_uid, unit_id, state, cause, basis, amount_gpu_us FROM ledger.gpu_state"
    )
    keyed = {row[:8]: row[8] for row in rows}
    assert len(keyed) == len(rows), "two rows have the same key"
    return keyed


def world_of(store: Store, held: list[Row], asked: list[Row], grain: int) -> World:
    """The same world as the reference sees it."""
    sites = {row["site_no"]: row for row in records(store, "dim.supply_site")}
    place = ("cluster", "place_kind", "place_id", "node")

    def at_places(table: str) -> list[Row]:
        return [{**{name: sites[row["site_no"]][name] for name in place}, **row} for row in records(store, table)]

    return World(
        grain=grain,
        supply=records(store, "ledger.supply"),
        pieces=at_places("dim.supply_piece"),
        loads=at_places("dim.supply_load"),
        holdings=[
            {"unit_id": None, "gi": None, **row}
            for row in held
            if (row["known_to_at"] > row["started_at"] and row["occupancy"] != "reserved")
            or row["known_to_at"] > row["started_at"]
        ],
        waits=asked,
        samples=records(store, "fact.device_sample"),
        processes=records(store, "fact.process_sample"),
        partitions=[row for row in records(store, "fact.partition_sample") if row["origin"] == "monitor"],
        metrics=records(store, "fact.metric_sample"),
        statuses=records(store, "fact.source_status"),
        cards=records(store, "dim.device"),
        pods=records(store, "dim.pod"),
        units=records(store, "dim.unit"),
        nodes=records(store, "dim.node"),
    )


def residuals(store: Store) -> set[Any]:
    """Supply less all states, per place and grain."""
    return {
        row[0]
        for row in store.rows(
            "SELECT sum(amount) FROM (SELECT cluster, place_kind, place_id, grain_at, amount_gpu_us AS amount FROM ledger.supply "
            "WHERE account = 'supply' "
            "UNION ALL SELECT cluster, place_kind, place_id, grain_at, -amount_gpu_us FROM ledger.gpu_state) "
            "GROUP BY cluster, place_kind, place_id, grain_at"
        )
    }
