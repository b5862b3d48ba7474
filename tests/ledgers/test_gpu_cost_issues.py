"""The threads of other tools about GPU cost, each with the right answer: what our ledgers say to the input that was reported.

A test's name begins with the thread. Threads about other schedulers' accounting are answered by what they are about: what was granted, not what
was asked for; a capacity that nobody tells is not known; what runs is posted while it runs.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from steelyard.definitions.fragmentation import RequestClass, Shape
from steelyard.facts.device_sample import DeviceSample
from steelyard.ledgers.posting import PostingParameters
from steelyard.ledgers.registry import COST
from steelyard.ledgers.windows import WINDOW_HOURS_MAX, spans
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, parse_instant
from steelyard.store import Store
from tests.ledgers.facts_of import CARD, at, card, grant, listing, node, pod, seen, vgpu
from tests.ledgers.money_facts import (
    H100,
    HOUR,
    MINUTES,
    charge_of,
    codes,
    cost_of,
    estate,
    held,
    measured,
    policy,
    post,
    posted,
    price,
    watched,
    whole,
)
from tests.ledgers.test_money_rules import quota

PRICE = 3_600_000
BOOK = [price("p", PRICE), price("c", PRICE, "charge")]
ELSEWHERE: dict[str, str] = {}
"""Threads whose test stands in another file: thread -> file."""


def thread(ref: str) -> str:
    """A thread as a test's name has it: ``opencost/opencost PR #2987`` is ``opencost_2987``; of several the first."""
    owner = re.split(r"[#\s]", ref)[0].split("/")[-1].lower().replace("-", "_")
    return f"{owner}_{re.findall(r'[0-9]+', ref)[0]}"


def test_every_thread_that_was_handed_over_has_its_test(shared: Path) -> None:
    with (shared / "cases/cost/gpu_cost_issues.csv").open(encoding="utf-8") as file:
        threads = [thread(row["ref"]) for row in csv.DictReader(file)]
    named = [name.removeprefix("test_") for name in globals() if name.startswith("test_")]
    missing = [ref for ref in threads if ref not in ELSEWHERE and not any(name.startswith(f"{ref}_") for name in named)]
    assert (len(threads), missing) == (30, [])


def test_opencost_3828_four_pods_of_a_quarter_are_one_card_and_with_what_is_idle_they_cost_the_card() -> None:
    pods = [fact for n in range(4) for fact in held(f"u{n}", percent=25)]
    with posted([*estate(), *pods[:6], *BOOK]) as store:
        assert cost_of(store, "account") == {"idle": (0.75, PRICE * 3 // 4), "tenant": (2.25, PRICE * 9 // 4)}
    with posted([*estate(), *pods, *BOOK]) as store:
        assert cost_of(store, "pod_uid") == {f"u{n}": (0.75, PRICE * 3 // 4) for n in range(4)}
        assert charge_of(store, "line") == {"grant": (3.0, 3 * PRICE)}


def test_hami_3073_a_whole_card_beside_fractions_reconciles_with_the_physical_cost() -> None:
    pods = [fact for n in range(4) for fact in held(f"u{n}", percent=25, uuid="GPU-b")]
    with posted([*estate(CARD, "GPU-b"), *whole("control"), *pods, *BOOK]) as store:
        assert cost_of(store, "device_uuid", "account") == {
            (CARD, "tenant"): (3.0, 3 * PRICE),
            ("GPU-b", "tenant"): (3.0, 3 * PRICE),
        }


def test_opencost_3900_the_used_basis_is_driven_by_use_and_the_allocated_one_by_the_grant() -> None:
    with posted([*estate(), *whole(), *measured(0, 180, 0.01), *BOOK]) as store:
        used = store.rows(
            "SELECT sum(amount_gpu_us) / 3.6e9, sum(used_gpu_us) / 3.6e9, sum(used_upper_gpu_us) / 3.6e9 FROM ledger.cost"
        )
    assert used == [(3.0, pytest.approx(0.03), pytest.approx(0.03))]


def test_opencost_2901_no_pod_costs_more_than_its_card_and_components_sum_to_its_price() -> None:
    book = [price("node", 400_000, component="cloud"), price("power", 126_000, component="power")]
    with posted([*estate(), *held("u1", percent=70), *held("u2", percent=90), *book]) as store:
        assert cost_of(store, "place_id") == {CARD: (3.0, 3 * 526_000)}
        assert max(money or 0 for _hours, money in cost_of(store, "pod_uid").values()) <= 3 * 526_000


@pytest.mark.parametrize("micros", [(1_000_000, 1_000_000, 1_000_000), (1_000_000, 2_000_000, 3_000_000)])
def test_opencost_2029_explicit_prices_are_never_rescaled(micros: tuple[int, int, int]) -> None:
    book = [price(name, micro, component=name) for name, micro in zip("abc", micros, strict=True)]
    with posted([*estate(), *book]) as store:
        assert cost_of(store, "price_id") == {"a+b+c": (3.0, 3 * sum(micros))}


def test_opencost_3160_the_same_price_on_two_models_is_the_same_price() -> None:
    facts = [
        *estate(model="NVIDIA A40"),
        card(0, "GPU-b", model="NVIDIA RTX A6000"),
        card(MINUTES, "GPU-b", model="NVIDIA RTX A6000"),
    ]
    with posted([*facts, price("one", 1_000_000)]) as store:
        assert cost_of(store, "device_uuid") == {CARD: (3.0, 3_000_000), "GPU-b": (3.0, 3_000_000)}


def test_opencost_1726_a_price_that_is_missing_is_unpriced_and_found_and_never_zero() -> None:
    with posted([*estate(), *held(), price("p", None), price("c", None, "charge")]) as store:
        assert cost_of(store, "unpriced_reason") == {"price not known": (3.0, None)}
        assert charge_of(store, "unpriced_reason") == {"price not known": (3.0, None)}
        assert "unpriced" in codes(store)


def test_opencost_2215_a_model_that_no_line_names_is_unpriced_and_not_zero() -> None:
    with posted([*estate(model="NVIDIA B300 SXM6"), price("p", PRICE, model="h100")]) as store:
        assert cost_of(store, "unpriced_reason") == {"model unknown": (3.0, None)}
        assert "unpriced" in codes(store)


def test_opencost_723_a_node_of_several_cards_costs_their_count() -> None:
    with posted([*estate("GPU-1", "GPU-2", "GPU-3", "GPU-4"), *BOOK]) as store:
        assert cost_of(store, "node") == {"n1": (12.0, 12 * PRICE)}


def test_cost_analyzer_3_a_day_costs_twenty_four_hours_and_a_daily_price_the_day() -> None:
    noon = (parse_instant("2026-12-01T00:00:00Z") - at(0)) // MINUTE_US
    for book, expected in ((price("p", 900_000), 24 * 900_000), (price("p", 21_600_001, per="day"), 21_600_001)):
        with posted([*estate(minutes=2 * noon), book]) as store:
            assert cost_of(store, "price_id", where="grain_at < TIMESTAMP '2026-12-01'") == {"p": (24.0, expected)}


def test_kubecost_1978_capacity_is_that_of_the_inventory_so_idle_is_never_negative() -> None:
    facts = [*estate(gpu_count=0, extended_resources='{"k8s.amazonaws.com/vgpu":10}'), *held(percent=30), *BOOK]
    with posted(facts) as store:
        assert cost_of(store, "account") == {"idle": (2.1, 7_560_000), "tenant": (0.9, 3_240_000)}
        assert store.rows("SELECT min(amount_gpu_us) > 0 FROM ledger.cost") == [(True,)]


def test_opencost_3359_one_price_for_card_and_allocation_closes_without_clamping() -> None:
    facts = [*estate(), *held("u1", percent=80), *held("u2", start=60, end=120, percent=80), price("p", 2_500_001)]
    with posted(facts) as store:
        assert sum(money or 0 for _hours, money in cost_of(store, "account").values()) == 3 * 2_500_001
        assert "money_residual" not in codes(store)
        assert store.rows("SELECT min(cost_micro) > 0 FROM ledger.cost") == [(True,)]


def test_cost_analyzer_5_a_dedicated_node_that_sits_idle_is_its_owner_s() -> None:
    with posted([*estate(), *BOOK], policy(dedicated=(("n1", "vision"),), reserved_unused="charged")) as store:
        assert cost_of(store, "account", "owner") == {("reserved_unused", "vision"): (3.0, 3 * PRICE)}
        assert charge_of(store, "tenant", "line") == {("vision", "reserved_unused"): (3.0, 3 * PRICE)}


def test_opencost_3970_what_a_quota_keeps_and_does_not_use_is_the_namespace_s_and_not_idle() -> None:
    cards = [f"GPU-{n:02}" for n in range(6)]
    words = [
        fact
        for minute in (0, 60, 120)
        for fact in (quota(minute, nominal_milli=5_000, used_milli=1_000), listing(minute, gap_max_us=2 * HOUR_US))
    ]
    with posted([*estate(*cards), *whole(uuid=cards[0]), *words, *BOOK]) as store:
        rows = cost_of(store, "account", "owner", where="grain_at < TIMESTAMP '2026-11-30 02:00'")
    assert {key: hours for key, (hours, _money) in rows.items()} == {
        ("idle", None): 2.0,
        ("reserved_unused", "team-b"): 8.0,
        ("tenant", None): 2.0,
    }


def test_opencost_2987_what_is_seen_twice_counts_once() -> None:
    facts = [*estate(), *held("u1", percent=50), *held("u2", percent=50), *BOOK]
    again = [
        pod(MINUTES - 1, "u1", created_at=0, scheduled_at=0, first_container_at=0),
        vgpu(MINUTES - 1, "u1", memory=0, cores=50),
    ]
    with posted(facts) as once, posted([*facts, *facts, *again]) as twice:
        assert (
            charge_of(once, "pod_uid")
            == charge_of(twice, "pod_uid")
            == {"u1": (1.5, PRICE * 3 // 2), "u2": (1.5, PRICE * 3 // 2)}
        )


def test_opencost_3725_a_spot_card_is_unpriced_then_provisional_then_restated_and_never_on_demand() -> None:
    spot = estate(labels='{"karpenter.sh/capacity-type":"spot"}')
    with Store.open_memory() as store:
        store.append([*spot, price("od", 26 * PRICE // 10, commitment="on_demand")])
        post(store)
        assert cost_of(store, "unpriced_reason") == {"no price": (3.0, None)}
        store.append([price("guess", PRICE, version=2, commitment="spot", provisional=True)])
        post(store)
        assert cost_of(store, "price_id", "provisional") == {("guess", True): (3.0, 3 * PRICE)}
        store.append([price("feed", PRICE - 1, version=3, commitment="spot")])
        post(store)
        assert cost_of(store, "price_id", "provisional") == {("feed", False): (3.0, 3 * (PRICE - 1))}
        assert store.rows("SELECT count(*) > 0 FROM ledger.cost_entry WHERE sign = -1") == [(True,)]


def test_opencost_1771_other_vendors_cards_have_prices_by_model() -> None:
    facts = [
        *estate(model="AMD Instinct MI300X"),
        card(0, "gaudi", model="Intel Gaudi 3", vendor="intel"),
        card(MINUTES, "gaudi", model="Intel Gaudi 3", vendor="intel"),
    ]
    with posted([*facts, price("amd", 5, model="mi300x"), price("intel", 7, model="gaudi 3")]) as store:
        assert cost_of(store, "price_id") == {"amd": (3.0, 15), "intel": (3.0, 21)}


def test_opencost_1841_a_span_of_money_is_read_from_the_ledger_without_any_sample() -> None:
    with posted([*estate(), *held(percent=50), *measured(0, 60, 0.5), *BOOK]) as store:
        before = cost_of(store, "date_trunc('day', grain_at)", "pod_uid")
        for table in ("device_sample", "request", "grant", "price"):
            store.execute(f'DELETE FROM fact."{table}"')
        assert cost_of(store, "date_trunc('day', grain_at)", "pod_uid") == before != {}


def test_opencost_2637_money_is_computed_a_few_days_at_a_time_whatever_the_span() -> None:
    year = [hour * HOUR_US for hour in range(0, 365 * 24, 5)]
    windows = list(spans(year, HOUR_US, WINDOW_HOURS_MAX * HOUR_US))
    assert COST.hours is not None
    assert max(end - start for start, end in windows) <= 3 * DAY_US


def test_opencost_2501_the_ledger_is_on_disk_and_stands_when_it_is_opened_again(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.append([*estate(), *held(percent=50), *BOOK])
        post(store)
        before = cost_of(store, "grain_at", "account")
    with Store.open(tmp_path) as store:
        assert cost_of(store, "grain_at", "account") == before != {}


def test_opencost_3823_rows_of_another_cluster_take_nothing_off_this_one_s_idle_and_are_found() -> None:
    stray = grant(
        MINUTES,
        "u9",
        device_uuid=CARD,
        unit_kind="gpu",
        scheme="pod_resources",
        source="pod_resources",
        cluster="other",
    )
    lost = pod(MINUTES, "u9", created_at=0, scheduled_at=0, first_container_at=0, cluster="other")
    with posted([*estate(), stray, lost, *BOOK]) as store:
        assert cost_of(store, "account", where="cluster = 'default'") == {"idle": (3.0, 3 * PRICE)}
        assert ("other", "supply_unknown") in store.rows("SELECT cluster, code FROM ledger.finding")


def test_dcgm_exporter_307_use_of_a_shared_card_is_nobody_s_where_no_path_tells_its_holders_apart() -> None:
    pods = [fact for n in range(4) for fact in held(f"u{n}", percent=25)]
    with posted([*estate(), *pods, *measured(0, 180, 0.9), *BOOK]) as store:
        assert store.rows(
            "SELECT DISTINCT used_gpu_us, used_upper_gpu_us, used_path FROM ledger.cost WHERE account = 'tenant'"
        ) == [(None, None, None)]


def test_dcgm_exporter_216_a_utilisation_of_zero_is_not_idle_where_profiling_says_otherwise() -> None:
    samples = [
        DeviceSample(
            source="dcgm_exporter",
            natural_key=CARD,
            device_uuid=CARD,
            interval_us=MINUTE_US,
            util_gpu_ratio=0.0,
            memory_used_mib=9,
            **seen(minute),
        )
        for minute in range(60)
    ]
    with posted([*estate(), *whole(), *samples, *BOOK]) as store:
        assert store.rows("SELECT DISTINCT used_gpu_us FROM ledger.cost") == [(None,)]
    with posted([*estate(), *whole(), *measured(0, 60, 0.8), *samples, *BOOK]) as store:
        assert store.rows("SELECT count(*) FROM ledger.gpu_state WHERE state LIKE 'held_idle%'") == [(0,)]


def test_hami_webui_64_a_fifth_of_a_card_is_a_fifth_of_the_card_and_all_of_the_grant() -> None:
    with posted([*estate(), *held(percent=20), *BOOK]) as store:
        (amount,), (supply,), (granted,) = (
            store.rows(f"SELECT CAST(sum({column}) AS BIGINT) FROM ledger.{ledger} WHERE {where}")[0]
            for ledger, column, where in (
                ("cost", "amount_gpu_us", "account = 'tenant'"), ("supply", "amount_gpu_us", "account = 'supply'"),
                ("charge", "quantity_gpu_us", "line = 'grant'"),
            )
        )  # fmt: skip
    assert (amount / supply, amount / granted) == (0.2, 1.0)


def test_hami_1353_a_card_that_is_asked_for_without_cores_is_charged_by_its_memory() -> None:
    facts = [*estate(), *held(percent=0)[:1], vgpu(MINUTES, memory=1024, cores=0), *BOOK]
    with posted(facts) as store:
        assert charge_of(store, "line") == {"grant": (3.0, 3 * PRICE)}


def test_hami_302_ten_percent_of_two_cards_is_a_fifth_of_a_card() -> None:
    request, first = held(percent=10)
    facts = [*estate(CARD, "GPU-b"), request, first, vgpu(MINUTES, memory=0, cores=10, device_uuid="GPU-b"), *BOOK]
    with posted(facts) as store:
        assert charge_of(store, "pod_uid") == {"u1": (0.6, PRICE * 6 // 10)}


def test_slurm_exporter_35_what_was_granted_is_charged_though_the_request_names_no_card() -> None:
    request, granted = whole(gpu_count=0)
    with posted([*estate(), request, granted, *BOOK]) as store:
        assert charge_of(store, "pod_uid") == {"u1": (3.0, 3 * PRICE)}


def test_skypilot_10285_a_capacity_that_nobody_tells_is_not_free() -> None:
    facts = [node(0), watched(), *whole(uuid="GPU-unlisted"), *BOOK]
    with posted(facts) as store:
        assert cost_of(store, "account") == {"tenant": (3.0, 3 * PRICE)}
        assert "supply_unknown" in codes(store)


def test_slurm_node_dashboard_61_a_card_with_one_shard_is_of_no_use_to_requests_for_whole_cards() -> None:
    wanted = PostingParameters(request_classes=(RequestClass(Shape(1, 1_000_000), 1),))
    with posted([*estate(), *held(percent=25), *BOOK], wanted) as store:
        assert cost_of(store, "account") == {"stranded": (2.25, PRICE * 9 // 4), "tenant": (0.75, PRICE * 3 // 4)}


def test_uiowa_76513483_a_job_that_still_runs_is_posted_day_by_day_and_no_past_day_changes_at_its_end() -> None:
    days = 3 * 24 * HOUR
    running = [
        pod(days, created_at=0, scheduled_at=0, first_container_at=0),
        grant(days, device_uuid=CARD, unit_kind="gpu", scheme="pod_resources", source="pod_resources"),
    ]
    ended = pod(
        days + 60,
        phase="Succeeded",
        created_at=0,
        scheduled_at=0,
        first_container_at=0,
        last_container_end_at=days + 30,
    )
    with Store.open_memory() as store:
        store.append([*estate(minutes=days), *running, *BOOK])
        post(store)
        past = charge_of(store, "date_trunc('day', grain_at)")
        assert [hours for hours, _money in past.values()] == [24.0, 24.0, 24.0]
        store.append([ended, watched(days + 60), card(days + 60, model=H100)])
        post(store)
        after = charge_of(store, "date_trunc('day', grain_at)")
    assert {day: after[day] for day in past} == past
    assert sum(hours for hours, _money in after.values()) == 72.5
