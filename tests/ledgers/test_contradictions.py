"""Two samples of one card and instant that contradict each other are none, and a finding names the card, who told them, and what they told."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from steelyard.definitions.used_share import agreed_mib, agreed_ppm
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.import_file import ImportFile
from steelyard.ledgers.posting import PostingParameters, ensure_ledgers, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.ledgers.supply_worlds import BASE, COMMON, HOUR, MINUTE

CARD = Device(natural_key="GPU-1", occurred_at=BASE, device_uuid="GPU-1", node="n1", memory_mib=80_000, **COMMON)
FILES = ("aa", "bb")


def sample(minute: int, memory_mib: int, util: float, **more: Any) -> DeviceSample:
    return DeviceSample(
        **{
            **COMMON, "source": "dcgm", "natural_key": "GPU-1", "occurred_at": BASE + minute * MINUTE, "device_uuid": "GPU-1",
            "interval_us": MINUTE, "memory_used_mib": memory_mib, "util_gpu_ratio": util, **more,
        }
    )  # fmt: skip


def file(sha256: str) -> ImportFile:
    return ImportFile(
        **{**COMMON, "source": "import"}, natural_key=sha256, occurred_at=BASE, path=f"{sha256}.prom", kind="dcgm", bytes_count=1, sha256=sha256
    )  # fmt: skip


def posted(*imports: Iterable[Fact], bit_by_bit: bool = False) -> Store:
    """One store that has read these imports, the second of them first where ``bit_by_bit``, with a posting after each."""
    store = Store.open_memory()
    ensure_ledgers(store)
    store.append([CARD])
    pairs = list(zip(FILES, imports, strict=False))
    for sha256, facts in reversed(pairs) if bit_by_bit else pairs:
        store.append([*facts, file(sha256)], import_id=sha256)
        if bit_by_bit:
            post(store)
    post(store)
    return store


def post(store: Store) -> None:
    post_ledgers(store, PostingParameters(), clock=FixedClock(BASE + 2 * HOUR))


def found(store: Store) -> list[Any]:
    return store.rows(
        "SELECT severity, subject, message, evidence FROM ledger.finding WHERE code = 'samples_contradict'"
    )


def usage(store: Store) -> list[Any]:
    return store.rows(
        "SELECT memory_mib_us, observed_us, compute_upper_gpu_us, compute_observed_us FROM ledger.usage WHERE path = 'device'"
    )


@pytest.mark.parametrize("bit_by_bit", [False, True])
def test_two_files_that_contradict_each_other_are_a_finding_and_no_mean(bit_by_bit: bool) -> None:
    first = [sample(0, 10_000, 0.9), sample(1, 10_000, 0.9), sample(2, 10_000, 0.9)]
    second = [sample(1, 70_000, 0.1), sample(2, 10_100, 0.1)]
    store = posted(first, second, bit_by_bit=bit_by_bit)
    ((severity, subject, message, evidence),) = found(store)
    assert (severity, subject) == ("warning", "device GPU-1")
    assert "memory_used_mib 10000 and 70000 MiB at " in message
    assert "util_gpu_ratio 0.1 and 0.9 at " in message and "at 2 instants in all" in message
    assert "dcgm (aa.prom), dcgm (bb.prom)" in message
    assert json.loads(evidence)["least"] == "10000,100000"
    assert usage(store) == [(10_000 * MINUTE + 10_100 * MINUTE, 2 * MINUTE, 900_000 * MINUTE // 1_000_000, MINUTE)]


def test_two_instruments_that_count_alike_do_not_contradict_each_other() -> None:
    store = posted([sample(0, 10_000, 0.9)], [sample(0, 10_600, 0.75, source="nvidia_smi")])
    assert found(store) == []
    assert usage(store) == [(10_600 * MINUTE, MINUTE, 900_000 * MINUTE // 1_000_000, MINUTE)]


def test_the_same_file_twice_and_samples_of_two_instants_do_not_contradict_each_other() -> None:
    same = [sample(0, 10_000, 0.9)]
    assert found(posted(same, same)) == []
    assert found(posted(same, [sample(1, 70_000, 0.1)])) == []
    later = sample(0, 70_000, 0.1, occurred_at=BASE + MINUTE // 2)
    assert found(posted(same, [later])) == []


def test_a_state_is_not_told_by_counters_that_contradict_each_other() -> None:
    busy = {"gr_active_ratio": 1.0, "sm_active_ratio": 0.9, "dram_active_ratio": 0.2}
    idle = {"gr_active_ratio": 0.0, "sm_active_ratio": 0.0, "dram_active_ratio": 0.0}
    store = posted([sample(0, 10_000, 1.0, **busy)], [sample(0, 10_000, 0.0, **idle)])
    figures = store.rows("SELECT figure FROM ledger.contradiction ORDER BY figure")
    assert [name for (name,) in figures] == [
        "dram_active_ratio",
        "gr_active_ratio",
        "sm_active_ratio",
        "util_gpu_ratio",
    ]
    columns = "used_gpu_us, sm_gpu_us, dram_gpu_us, engine_upper_gpu_us, compute_upper_gpu_us"
    assert store.rows(f"SELECT {columns} FROM ledger.usage WHERE path = 'device'") == [(None,) * 5]


@pytest.mark.parametrize(
    ("least", "most", "ppm", "mib"),
    [
        (None, None, None, None),
        (7, 7, 7, 7),
        (0, 600, 600, 600),
        (0, 601, 601, None),
        (57_000, 60_000, 60_000, 60_000),
        (56_999, 60_000, 60_000, None),
        (100_000, 250_000, 250_000, None),
        (100_000, 250_001, None, None),
    ],
)
def test_figures_agree_within_what_two_instruments_may_differ(
    least: int | None, most: int | None, ppm: int | None, mib: int | None
) -> None:
    assert (agreed_ppm(least, most), agreed_mib(least, most)) == (ppm, mib)
    with Store.open_memory() as store:
        numbers = f"{'NULL' if least is None else least}::BIGINT, {'NULL' if most is None else most}::BIGINT"
        assert store.rows(f"SELECT agreed_ppm({numbers}), agreed_mib({numbers})") == [(ppm, mib)]
