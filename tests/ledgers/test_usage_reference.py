"""The usage ledger by SQL equals the slow reference on random worlds; removing a sample never makes anything idle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.node import Node
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.unit import Unit
from steelyard.ledgers import windows as windowing
from steelyard.ledgers.dimensions.registry import build_dimensions
from steelyard.ledgers.emptiness import EmptyTables
from steelyard.ledgers.posting import PostingParameters, ensure_ledgers, post_ledger
from steelyard.ledgers.registry import HOLDING, USAGE, model_text
from steelyard.ledgers.windows import changed_windows
from steelyard.store import Store
from tests.ledgers.reference_supply import Row
from tests.ledgers.reference_usage import Use, post_usage
from tests.ledgers.supply_worlds import BASE, COMMON, GRAINS, HOUR, INSTANTS, MINUTE, fresh, records, spans

CARDS = st.sampled_from(["GPU-1", "GPU-2"])
INSTANCES = st.sampled_from([None, None, 1, 2])
INTERVALS = st.sampled_from([None, None, 0, MINUTE // 2, MINUTE, 30 * MINUTE, 3 * HOUR])
RATIOS = st.one_of(
    st.none(), st.sampled_from([0.0, 1.03, 1.2, -0.1, float("nan")]), st.integers(0, 100).map(lambda n: n / 100)
)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
PEAK, P99, SAMPLES, REASON, BASIS, MEMORY, UTIL, ENGINE, SM, DRAM, USED, USED_OF = range(12)
MEMORY_SEEN, UTIL_SEEN, ENGINE_SEEN, SM_SEEN, DRAM_SEEN, USED_SEEN = range(12, 18)
"""Where each column of a row stands."""
Rows = dict[tuple[Any, ...], tuple[Any, ...]]


@st.composite
def samples(draw: st.DrawFn) -> DeviceSample:
    uuid, gi = draw(CARDS), draw(INSTANCES)
    return DeviceSample(
        **{**COMMON, "source": draw(st.sampled_from(["a", "b"]))},
        natural_key=uuid if gi is None else f"{uuid}/gi{gi}",
        occurred_at=draw(INSTANTS),
        device_uuid=uuid,
        gi=gi,
        interval_us=draw(INTERVALS),
        memory_used_mib=draw(st.one_of(st.none(), st.integers(0, 1200), st.just(-3))),
        memory_total_mib=draw(st.sampled_from([None, 1000])),
        util_gpu_ratio=draw(RATIOS),
        gr_active_ratio=draw(RATIOS),
        sm_active_ratio=draw(RATIOS),
        dram_active_ratio=draw(RATIOS),
    )


@st.composite
def instances(draw: st.DrawFn) -> Unit:
    number = draw(st.integers(1, 3))
    return Unit(
        **COMMON,
        natural_key=f"MIG-{number}",
        occurred_at=draw(INSTANTS),
        unit_id=f"MIG-{number}",
        unit_kind="mig",
        device_uuid=draw(CARDS),
        gi=draw(st.sampled_from([1, 1, 2])),
        profile=draw(st.sampled_from(["3g.40gb", "3g.40gb", "1c.3g.40gb", "1g.5gb", "unheard"])),
    )


@st.composite
def processes(draw: st.DrawFn) -> ProcessSample:
    uuid, gi, pid = draw(CARDS), draw(INSTANCES), draw(st.integers(1, 3))
    return ProcessSample(
        **{**COMMON, "source": draw(st.sampled_from(["a", "b"]))},
        natural_key=f"{uuid}/{gi}/{pid}",
        occurred_at=draw(INSTANTS),
        device_uuid=uuid,
        gi=gi,
        pid=pid,
        pod_uid=draw(st.sampled_from([None, "p1", "p2"])),
        memory_used_mib=draw(st.one_of(st.none(), st.integers(0, 500))),
        interval_us=draw(INTERVALS),
    )


@st.composite
def holdings(draw: st.DrawFn) -> Row:
    start, end = draw(spans())
    placed = draw(st.sampled_from([True, True, True, True, False]))
    uuid, kind = draw(CARDS), draw(st.sampled_from(["gpu", "vgpu", "mig", "mig"]))
    return {
        "cluster": "default",
        "pod_uid": draw(st.sampled_from(["p1", "p2", "p3"])),
        "place_kind": "device" if placed else "node",
        "place_id": uuid if placed else "n2",
        "node": "n1",
        "device_uuid": uuid if placed else None,
        "unit_kind": kind,
        "gi": draw(st.sampled_from([None, 1, 2])) if kind == "mig" and placed else None,
        "occupancy": draw(st.sampled_from(["held", "held", "held", "held", "reserved", "in_suspense"])),
        "share_ppm": draw(st.sampled_from([1_000_000, 1_000_000, 1_000_000, 500_000, None])),
        "started_at": start,
        "ended_at": end,
        "known_to_at": end,
    }


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Fact], list[Row], int]:
    gap = draw(st.sampled_from([None, MINUTE, HOUR]))
    facts: list[Fact] = [
        Device(natural_key=uuid, occurred_at=BASE, device_uuid=uuid, node=node, slots_count=draw(st.sampled_from([None, 1, 10])), **COMMON)
        for uuid, node in (("GPU-1", "n1"), ("GPU-2", "n2"))
    ]  # fmt: skip
    sharing = draw(st.sampled_from([{}, {"replicas": 1, "sharing_strategy": "none"}, {"replicas": 4}]))
    facts.append(Node(natural_key="n2", occurred_at=BASE, node="n2", **sharing, **COMMON))
    facts += [
        SourceStatus(
            **{**COMMON, "source": "a"}, natural_key=scope, occurred_at=BASE, kind=kind, scope=scope, gap_max_us=gap, status=status
        )
        for scope, kind, status in (
            (draw(st.sampled_from(["cluster", "node/n1"])), "nvidia_smi", draw(st.sampled_from(["ok", "failed"]))),
            ("cluster", "pods", "ok"),
        )
    ]  # fmt: skip
    facts += draw(st.lists(samples(), max_size=9))
    facts += draw(st.lists(processes(), max_size=6))
    facts += draw(st.lists(instances(), max_size=3))
    held = draw(st.lists(holdings(), max_size=5))
    return facts, held, draw(st.sampled_from(GRAINS))


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        ensure_ledgers(opened, (USAGE,))
        yield opened


def posted(store: Store, facts: list[Fact], held: list[Row], grain: int) -> Rows:
    """The usage ledger after one more posting, over a holding ledger that is given."""
    store.append(facts)
    build_dimensions(store, PostingParameters(grain_us=grain))
    columns = [(column.name, column.sql_type) for column in HOLDING.columns]
    store.load_rows("ledger.holding", columns, [[row.get(name) for name, _ in columns] for row in held])
    post_ledger(store, USAGE, 1, f"{grain}")
    rows = store.rows(
        "SELECT device_uuid, gi, epoch_us(grain_at), pod_uid, path, memory_peak_mib, memory_p99_mib, samples_count, unknown_reason, used_basis, "
        "memory_mib_us, compute_upper_gpu_us, engine_upper_gpu_us, sm_gpu_us, dram_gpu_us, used_gpu_us, used_of_gpu_us, observed_us, "
        "compute_observed_us, engine_observed_us, sm_observed_us, dram_observed_us, used_observed_us FROM ledger.usage"
    )
    keyed = {row[:5]: row[5:] for row in rows}
    assert len(keyed) == len(rows), "two rows have the same key"
    return keyed


def by_sql(store: Store, facts: list[Fact], held: list[Row], grain: int) -> Rows:
    """The usage ledger of a world by its models, posted at once."""
    forget(store)
    return posted(store, facts, held, grain)


def forget(store: Store) -> None:
    """No facts, no usage, no hour that was posted."""
    fresh(store)
    for table in ("ledger.usage_entry", "ledger.usage_hour"):
        store.execute(f"DELETE FROM {table}")


def by_reference(store: Store, held: list[Row], grain: int) -> Rows:
    return post_usage(
        Use(
            grain=grain,
            holdings=[row for row in held if row["known_to_at"] > row["started_at"]],
            cards=records(store, "dim.device"),
            samples=records(store, "fact.device_sample"),
            processes=records(store, "fact.process_sample"),
            statuses=records(store, "fact.source_status"),
            units=records(store, "dim.unit"),
            nodes=records(store, "dim.node"),
        )
    )


@given(worlds())
@settings(deadline=None, max_examples=80, suppress_health_check=SLOW)
def test_usage_equals_its_reference(store: Store, world: Any) -> None:
    facts, held, grain = world
    assert by_sql(store, facts, held, grain) == by_reference(store, held, grain)


@given(worlds(), st.integers(2, 4), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=40, suppress_health_check=SLOW)
def test_posted_bit_by_bit_it_is_what_it_would_be_at_once(
    store: Store, world: Any, rounds: int, shuffle: random.Random
) -> None:
    facts, held, grain = world
    shuffle.shuffle(facts)
    forget(store)
    for number in range(rounds):
        known = [row for row in held if shuffle.random() < 0.6] if number < rounds - 1 else held
        rows = posted(store, facts[number::rounds], known, grain)
    assert rows == by_reference(store, held, grain)


def gap(scope: str, minutes: int) -> SourceStatus:
    return SourceStatus(
        natural_key=f"nvidia_smi/{scope}", occurred_at=BASE, kind="nvidia_smi", scope=scope, gap_max_us=minutes * MINUTE, **COMMON
    )  # fmt: skip


def memory(minute: int, gi: int | None = None) -> DeviceSample:
    return DeviceSample(
        natural_key=f"GPU-1/{gi}", occurred_at=BASE + minute * MINUTE, device_uuid="GPU-1", gi=gi, memory_used_mib=700, **COMMON
    )  # fmt: skip


def held_card(**more: Any) -> Row:
    return {
        "cluster": "default", "pod_uid": "p1", "place_kind": "device", "place_id": "GPU-1", "node": "n1", "device_uuid": "GPU-1",
        "unit_kind": "gpu", "gi": None, "occupancy": "held", "share_ppm": 1_000_000, "started_at": BASE, "ended_at": BASE + HOUR,
        "known_to_at": BASE + HOUR, **more,
    }  # fmt: skip


ON_NODE = Device(natural_key="GPU-1", occurred_at=BASE, device_uuid="GPU-1", node="n1", **COMMON)
ON_SOME_CARD: Row = {"pod_uid": "p2", "place_kind": "node", "place_id": "n1", "device_uuid": None}
GROUNDS: dict[str, tuple[list[Fact], list[Row], list[Fact], list[Row]]] = {
    "who held it": ([ON_NODE, gap("cluster", 9), memory(0), memory(5)], [], [], [held_card()]),
    "who held it in an hour without a sample of its own": (
        [ON_NODE, gap("cluster", 180), memory(0), memory(150)],
        [],
        [],
        [held_card(started_at=BASE + 70 * MINUTE, ended_at=BASE + 80 * MINUTE, known_to_at=BASE + 80 * MINUTE)],
    ),
    "where else the card was": (
        [ON_NODE, gap("cluster", 9), memory(0), memory(5)],
        [held_card(), held_card(**{**ON_SOME_CARD, "place_id": "n0", "node": "n0", "unit_kind": "slice"})],
        [Device(natural_key="GPU-1", occurred_at=BASE - HOUR, device_uuid="GPU-1", node="n0", **COMMON)],
        [held_card(), held_card(**{**ON_SOME_CARD, "place_id": "n0", "node": "n0", "unit_kind": "slice"})],
    ),
    "whether the card may be shared": (
        [ON_NODE, gap("cluster", 9), memory(0), memory(5)],
        [held_card(), held_card(**ON_SOME_CARD)],
        [Node(natural_key="n1", occurred_at=BASE, node="n1", replicas=4, **COMMON)],
        [held_card(), held_card(**ON_SOME_CARD)],
    ),
    "that nobody held it": ([ON_NODE, gap("cluster", 9), memory(0), memory(5)], [held_card()], [], []),
    "how far apart rounds may lie": ([ON_NODE, memory(0), memory(5)], [], [gap("cluster", 9)], []),
    "where the card is": ([gap("node/n1", 9), memory(0), memory(5)], [], [ON_NODE], []),
    "which instance a unit is": (
        [ON_NODE, gap("cluster", 9), memory(0, 3), memory(5, 3)],
        [held_card(unit_kind="mig", unit_id="MIG-1")],
        [Unit(natural_key="MIG-1", occurred_at=BASE, unit_id="MIG-1", unit_kind="mig", device_uuid="GPU-1", gi=3, **COMMON)],
        [held_card(unit_kind="mig", unit_id="MIG-1")],
    ),
    "which part of its card an instance is": (
        [
            ON_NODE,
            Unit(natural_key="MIG-1", occurred_at=BASE, unit_id="MIG-1", unit_kind="mig", device_uuid="GPU-1", gi=3, **COMMON),
            DeviceSample(
                natural_key="GPU-1/gi3", occurred_at=BASE, device_uuid="GPU-1", gi=3, interval_us=MINUTE, sm_active_ratio=0.2,
                dram_active_ratio=0.7, **COMMON,
            ),
        ],
        [],
        [
            Unit(
                natural_key="MIG-1", occurred_at=BASE, unit_id="MIG-1", unit_kind="mig", device_uuid="GPU-1", gi=3,
                profile="3g.40gb", **COMMON,
            )
        ],
        [],
    ),
    "whose name it is": (
        [
            ON_NODE,
            gap("cluster", 9),
            ProcessSample(
                natural_key="1", occurred_at=BASE + MINUTE, device_uuid="GPU-1", pid=1, pod_uid="name:ns/a", memory_used_mib=5,
                interval_us=MINUTE, **COMMON,
            ),
        ],
        [],
        [Request(natural_key="u-1", occurred_at=BASE, pod_uid="u-1", phase="Running", namespace="ns", pod="a", created_at=BASE, **COMMON)],
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("ground", GROUNDS)
def test_an_hour_is_posted_anew_when_its_ground_changes_though_no_sample_came(store: Store, ground: str) -> None:
    facts, held, later, held_later = GROUNDS[ground]
    forget(store)
    before = posted(store, facts, held, HOUR)
    after = posted(store, later, held_later, HOUR)
    assert after != before
    assert after == by_sql(store, [*facts, *later], held_later, HOUR)


def test_nothing_is_computed_again_for_hours_that_are_as_they_were(store: Store) -> None:
    forget(store)
    posted(store, [ON_NODE, gap("cluster", 9), *(memory(minute) for minute in range(0, 600, 5))], [held_card()], HOUR)
    assert changed_windows(store, USAGE, str(HOUR)) == []
    store.append([memory(604)])
    EmptyTables(store).build("sampled_hour", model_text("dimensions/sampled_hour.sql"))
    assert [window.from_us for window in changed_windows(store, USAGE, str(HOUR))] == [BASE + 9 * HOUR]
    assert [window.to_us for window in changed_windows(store, USAGE, str(HOUR))] == [BASE + 13 * HOUR]
    assert changed_windows(store, USAGE, "another")[0].from_us == BASE - HOUR


def test_what_a_sample_stands_for_beyond_its_hour_settles_when_that_time_is_over(store: Store) -> None:
    def listing(minute: int) -> SourceStatus:
        return SourceStatus(natural_key="pods", occurred_at=BASE + minute * MINUTE, kind="pods", **COMMON)

    is_open = "SELECT epoch_us(grain_at), bool_or(is_open) FROM ledger.usage_entry GROUP BY ALL ORDER BY ALL"
    forget(store)
    posted(store, [ON_NODE, gap("cluster", 30), memory(50), memory(70), listing(71)], [], HOUR)
    assert store.rows(is_open) == [(BASE, False), (BASE + HOUR, True)]
    posted(store, [listing(200)], [], HOUR)
    assert store.rows(is_open) == [(BASE, False), (BASE + HOUR, False)]
    assert changed_windows(store, USAGE, str(HOUR)) == []


@pytest.mark.parametrize(
    ("hours", "reach", "windows"),
    [
        ([], 1, []),
        ([5], 1, [(4, 7)]),
        ([5, 6], 1, [(4, 8)]),
        ([5, 8], 1, [(4, 10)]),
        ([5, 9], 1, [(4, 7), (8, 11)]),
        ([5, 30], 12, [(-7, 13), (13, 33), (33, 43)]),
    ],
)
def test_windows_neither_overlap_nor_leave_an_hour_out(
    hours: list[int], reach: int, windows: list[tuple[int, int]]
) -> None:
    found = windowing.spans([hour * HOUR for hour in hours], reach * HOUR, 20 * HOUR)
    assert [(start // HOUR, end // HOUR) for start, end in found] == windows


@pytest.mark.parametrize(("share_ppm", "attributed"), [(1_000_000, True), (50_000, False), (None, False)])
def test_a_lone_holder_of_a_part_of_a_card_is_not_given_all_that_the_card_used(
    store: Store, share_ppm: int | None, attributed: bool
) -> None:
    facts: list[Fact] = [
        Device(natural_key="GPU-1", occurred_at=BASE, device_uuid="GPU-1", node="n1", **COMMON),
        DeviceSample(
            natural_key="GPU-1", occurred_at=BASE, device_uuid="GPU-1", interval_us=MINUTE, memory_used_mib=70_000, **COMMON
        ),
    ]  # fmt: skip
    held: list[Row] = [
        {
            "cluster": "default", "pod_uid": "p1", "place_kind": "device", "place_id": "GPU-1", "node": "n1",
            "device_uuid": "GPU-1", "unit_kind": "vgpu", "gi": None, "occupancy": "held", "share_ppm": share_ppm,
            "started_at": BASE, "ended_at": BASE + HOUR, "known_to_at": BASE + HOUR,
        }
    ]  # fmt: skip
    rows = by_sql(store, facts, held, HOUR)
    assert ((("GPU-1", None, BASE, "p1", "exclusive")) in rows) is attributed
    assert rows["GPU-1", None, BASE, None, "residual"][MEMORY] == (0 if attributed else 70_000 * MINUTE)


@pytest.mark.parametrize("interval_us", [MINUTE, None])
def test_while_another_pods_process_is_on_a_card_its_one_holder_is_not_given_what_that_uses(
    store: Store, interval_us: int | None
) -> None:
    proven = {"p1": 57_000, "p9": 9_000}
    facts: list[Fact] = [
        Device(natural_key="GPU-1", occurred_at=BASE, device_uuid="GPU-1", node="n1", **COMMON),
        *(
            DeviceSample(
                natural_key="GPU-1", occurred_at=BASE + n * MINUTE, device_uuid="GPU-1", interval_us=MINUTE, memory_used_mib=66_311, **COMMON
            )
            for n in range(2)
        ),
        *(
            ProcessSample(
                natural_key=pod, occurred_at=BASE, device_uuid="GPU-1", pid=n, pod_uid=pod, memory_used_mib=mib,
                interval_us=interval_us, **COMMON,
            )
            for n, (pod, mib) in enumerate(proven.items())
        ),
    ]  # fmt: skip
    rows = by_sql(store, facts, [held_card()], HOUR)
    paths = {(key[3], key[4]): (row[PEAK], row[MEMORY]) for key, row in rows.items()}
    standing = interval_us or 0
    assert {key: peak for key, (peak, _) in paths.items() if key[1] == "process"} == {
        (pod, "process"): mib for pod, mib in proven.items()
    }
    alone = 2 * MINUTE - (standing or 1)
    assert paths["p1", "exclusive"] == (66_311, 66_311 * alone)
    explained = sum(proven.values()) * standing
    assert paths[None, "residual"][1] == 66_311 * (2 * MINUTE - alone) - explained


BESIDE: dict[str, tuple[list[Fact], Row, Row, bool]] = {
    "a card alone": ([], {}, {}, True),
    "a GPU instance of another": ([], {}, {"unit_kind": "mig"}, True),
    "a part of a shared card": ([], {}, {"unit_kind": "slice"}, False),
    "a part of a soft-partitioned card": ([], {}, {"unit_kind": "vgpu"}, False),
    "a card where the plugin gives each to four": (
        [Node(natural_key="n1", occurred_at=BASE, node="n1", replicas=4, **COMMON)], {}, {}, False,
    ),
    "a card where the plugin shares by MPS": (
        [Node(natural_key="n1", occurred_at=BASE, node="n1", sharing_strategy="mps", **COMMON)], {}, {}, False,
    ),
    "a card with ten slots": (
        [Device(natural_key="GPU-1", occurred_at=BASE + 1, device_uuid="GPU-1", node="n1", slots_count=10, **COMMON)], {}, {}, False,
    ),
    "a card of which the other holds all there is, by memory": ([], {"unit_kind": "vgpu"}, {}, False),
    "a card that the other's claim contradicts": ([], {"occupancy": "in_suspense"}, {}, False),
    "a card of another node": ([], {}, {"place_id": "n2", "node": "n2"}, True),
}  # fmt: skip


@pytest.mark.parametrize("other", BESIDE)
def test_a_card_that_is_granted_whole_is_its_holders_beside_a_pod_on_an_unknown_card_that_cannot_be_this_one(
    store: Store, other: str
) -> None:
    facts, own, unplaced, attributed = BESIDE[other]
    held = [held_card(**own), held_card(**{**ON_SOME_CARD, **unplaced})]
    rows = by_sql(store, [ON_NODE, *facts, one_sample(memory_used_mib=10, **PROFILED)], held, HOUR)
    assert (("GPU-1", None, BASE, "p1", "exclusive") in rows) is attributed
    assert rows == by_reference(store, held, HOUR)


def test_a_process_of_a_pod_that_comes_to_hold_the_card_is_no_intruder_any_more(store: Store) -> None:
    """Its round stands for a quarter of an hour, the pod holds the card after five minutes."""
    early = ProcessSample(
        natural_key="1", occurred_at=BASE, device_uuid="GPU-1", pid=1, pod_uid="p1", memory_used_mib=5, interval_us=15 * MINUTE, **COMMON
    )  # fmt: skip
    held = [held_card(started_at=BASE + 5 * MINUTE)]
    rows = by_sql(store, [ON_NODE, early, one_sample(memory_used_mib=10, interval_us=20 * MINUTE)], held, HOUR)
    assert rows["GPU-1", None, BASE, "p1", "exclusive"][MEMORY] == 10 * 15 * MINUTE
    assert rows["GPU-1", None, BASE, "p1", "process"][MEMORY] == 5 * 5 * MINUTE
    assert rows == by_reference(store, held, HOUR)


@given(worlds(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=15, suppress_health_check=SLOW)
def test_order_and_duplication_change_nothing(store: Store, world: Any, shuffle: random.Random) -> None:
    facts, held, grain = world
    rows = by_sql(store, facts, held, grain)
    again = [*facts, *facts[: len(facts) // 2]]
    shuffle.shuffle(again)
    assert by_sql(store, again, held[::-1], grain) == rows


@given(st.integers(2, 6), st.data())
@settings(deadline=None, max_examples=25)
def test_a_removed_sample_moves_use_to_unknown_and_never_to_idle(store: Store, count: int, data: st.DataObject) -> None:
    facts: list[Fact] = [
        DeviceSample(
            natural_key="GPU-1", occurred_at=BASE + n * MINUTE, device_uuid="GPU-1", interval_us=MINUTE, memory_used_mib=700,
            util_gpu_ratio=1.0, sm_active_ratio=0.5, dram_active_ratio=1.0, **COMMON,
        )
        for n in range(count)
    ]  # fmt: skip
    whole = by_sql(store, facts, [], HOUR)["GPU-1", None, BASE, None, "device"]
    facts.pop(data.draw(st.integers(0, count - 1)))
    less = by_sql(store, facts, [], HOUR)["GPU-1", None, BASE, None, "device"]
    lost = [whole[n] - less[n] for n in (MEMORY, UTIL, USED, USED_OF)]
    assert lost == [700 * MINUTE, MINUTE, MINUTE, MINUTE]
    assert [whole[n] - less[n] for n in (MEMORY_SEEN, UTIL_SEEN, USED_SEEN)] == [MINUTE] * 3, (
        "what was used is gone together with the time it was seen in"
    )


def one_sample(**more: Any) -> DeviceSample:
    gi = more.get("gi")
    return DeviceSample(
        **{**COMMON, "natural_key": f"GPU-1/{gi}", "occurred_at": BASE, "device_uuid": "GPU-1", "interval_us": MINUTE, **more}
    )  # fmt: skip


def instance_unit(profile: str, gi: int = 3, minute: int = 0, unit_id: str = "MIG-1") -> Unit:
    return Unit(
        natural_key=unit_id, occurred_at=BASE + minute * MINUTE, unit_id=unit_id, unit_kind="mig", device_uuid="GPU-1", gi=gi,
        profile=profile, **COMMON,
    )  # fmt: skip


PROFILED = {"gr_active_ratio": 0.9, "sm_active_ratio": 0.2, "dram_active_ratio": 0.7}
BASES: dict[str, tuple[dict[str, float | None], str, int | None]] = {
    "bound by memory": ({**PROFILED, "util_gpu_ratio": 1.0}, "max_sm_1002_dram_1005", 700_000),
    "bound by compute": ({**PROFILED, "dram_active_ratio": 0.1}, "max_sm_1002_dram_1005", 200_000),
    "1002 is off": ({**PROFILED, "sm_active_ratio": None}, "gr_engine_1001_upper_bound", None),
    "1005 is off": ({**PROFILED, "dram_active_ratio": None}, "gr_engine_1001_upper_bound", None),
    "203 alone": ({"util_gpu_ratio": 1.0}, "util_gpu_203_upper_bound", None),
    "1002 beyond its limits": ({**PROFILED, "sm_active_ratio": 1.3}, "gr_engine_1001_upper_bound", None),
    "1002 a little above one": ({**PROFILED, "sm_active_ratio": 1.04}, "max_sm_1002_dram_1005", 1_000_000),
    "counters that read 0 on a busy card": (
        {"util_gpu_ratio": 1.0, "gr_active_ratio": 0.0, "sm_active_ratio": 0.0, "dram_active_ratio": 0.0},
        "util_gpu_203_upper_bound",
        None,
    ),
    "an idle card": (
        {"util_gpu_ratio": 0.0, "gr_active_ratio": 0.0, "sm_active_ratio": 0.0, "dram_active_ratio": 0.0},
        "max_sm_1002_dram_1005",
        0,
    ),
}


@pytest.mark.parametrize("case", BASES)
def test_use_is_the_larger_of_1002_and_1005_or_an_upper_bound_that_is_named_as_one(store: Store, case: str) -> None:
    ratios, basis, used_ppm = BASES[case]
    rows = by_sql(store, [ON_NODE, one_sample(memory_used_mib=10, **ratios)], [held_card()], HOUR)
    row = rows["GPU-1", None, BASE, "p1", "exclusive"]
    assert row[BASIS] == basis
    assert row[USED] == (None if used_ppm is None else used_ppm * MINUTE // 1_000_000)
    assert row[USED_OF] == (None if used_ppm is None else MINUTE)
    assert row[USED_SEEN] == (0 if used_ppm is None else MINUTE)


def test_what_a_gpu_instance_used_counts_as_its_share_of_the_card_and_never_as_the_whole(store: Store) -> None:
    held = [held_card(unit_kind="mig", unit_id="MIG-1", gi=3, share_ppm=500_000)]
    facts = [ON_NODE, instance_unit("3g.40gb"), one_sample(gi=3, memory_used_mib=10, **PROFILED)]
    rows = by_sql(store, facts, held, HOUR)
    for key in (("GPU-1", 3, BASE, "p1", "mig"), ("GPU-1", 3, BASE, None, "device")):
        assert (rows[key][USED], rows[key][USED_OF]) == (350_000 * MINUTE // 1_000_000, MINUTE // 2)
    assert rows["GPU-1", 3, BASE, None, "residual"][USED] == 0


def test_an_instance_of_an_unknown_part_of_the_card_used_an_unknown_amount(store: Store) -> None:
    rows = by_sql(store, [ON_NODE, one_sample(gi=3, memory_used_mib=10, **PROFILED)], [], HOUR)
    row = rows["GPU-1", 3, BASE, None, "device"]
    assert (row[MEMORY], row[USED], row[BASIS]) == (10 * MINUTE, None, "memory_only")


@pytest.mark.parametrize("other", ["1g.5gb", "7g.80gb"])
def test_an_instance_that_is_told_as_two_profiles_at_once_used_an_unknown_amount(store: Store, other: str) -> None:
    facts = [ON_NODE, instance_unit("3g.40gb"), instance_unit(other, unit_id="MIG-2")]
    rows = by_sql(store, [*facts, one_sample(gi=3, memory_used_mib=10, **PROFILED)], [], HOUR)
    row = rows["GPU-1", 3, BASE, None, "device"]
    assert (row[MEMORY], row[USED], row[BASIS]) == (10 * MINUTE, None, "memory_only")


def test_an_instance_number_that_is_given_anew_has_the_share_of_its_time(store: Store) -> None:
    facts = [ON_NODE, instance_unit("3g.40gb"), instance_unit("1g.5gb", minute=90, unit_id="MIG-2")]
    facts += [one_sample(gi=3, **PROFILED), one_sample(gi=3, **{**PROFILED, "occurred_at": BASE + 100 * MINUTE})]
    rows = by_sql(store, facts, [], HOUR)
    assert rows["GPU-1", 3, BASE, None, "device"][USED_OF] == MINUTE // 2
    assert rows["GPU-1", 3, BASE + HOUR, None, "device"][USED_OF] == 142_857 * MINUTE // 1_000_000


def test_instances_tell_of_the_card_what_the_board_does_not_and_nothing_twice(store: Store) -> None:
    board = one_sample(memory_used_mib=700, power_watts=400.0)
    facts = [ON_NODE, instance_unit("3g.40gb"), board, one_sample(gi=3, memory_used_mib=600, **PROFILED)]
    rows = by_sql(store, facts, [], HOUR)
    own = [row for key, row in rows.items() if key[-1] == "device"]
    assert sorted((row[MEMORY], row[USED]) for row in own if row[MEMORY]) == [(700 * MINUTE, None)]
    assert [row[USED] for row in own if row[USED] is not None] == [350_000 * MINUTE // 1_000_000]


@pytest.mark.parametrize("shares", [(500_000, 500_000), (1_000_000, 1_000_000)])
def test_of_a_shared_card_the_use_of_each_is_not_told_and_that_of_the_card_is_not_lost(
    store: Store, shares: tuple[int, int]
) -> None:
    held = [
        held_card(pod_uid=f"p{n}", unit_kind="vgpu", share_ppm=share) for n, share in enumerate(shares)
    ]  # fmt: skip
    rows = by_sql(store, [ON_NODE, one_sample(memory_used_mib=10, **PROFILED)], held, HOUR)
    assert {key[-1] for key in rows} == {"device", "residual"}
    used = 700_000 * MINUTE // 1_000_000
    assert [rows["GPU-1", None, BASE, None, path][USED] for path in ("device", "residual")] == [used, used]
