"""Rules of the two money ledgers, each on a small estate of one or two cards; the whole posting runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.definitions.fragmentation import RequestClass, Shape
from steelyard.facts.base import Fact
from steelyard.facts.owner import Owner
from steelyard.facts.price import BookWeight, PriceBook
from steelyard.facts.quota import Quota
from steelyard.ledgers.posting import ModelWeight, PostingParameters
from steelyard.ledgers.registry import model_text
from steelyard.primitives.instant import MINUTE_US, parse_instant
from steelyard.store import Store
from tests.ledgers.facts_of import CARD, at, card, listing, node, seen, vgpu
from tests.ledgers.money_facts import (
    H100,
    HOUR,
    MINUTES,
    charge_of,
    codes,
    cost_of,
    discount,
    estate,
    event,
    held,
    measured,
    policy,
    post,
    posted,
    price,
    tree,
    watched,
    whole,
)

PRICE = 3_600_000
BOOK = [price("p", PRICE), price("c", 2 * PRICE, "charge")]


def quota(minute: float, **more: Any) -> Quota:
    fields: dict[str, Any] = {
        "queue_kind": "resource_quota",
        "queue": "gpus",
        "namespace": "team-b",
        "resource": "requests.nvidia.com/gpu",
        **more,
    }
    return Quota(source="kube_api", natural_key="team-b/gpus", **fields, **seen(minute))


# Prices ------------------------------------------------------------------------------------------------------------------------------------


def test_without_a_price_both_books_are_empty() -> None:
    with posted([*estate(), *held()]) as store:
        assert store.rows("SELECT count(*) FROM ledger.supply")[0][0] > 0
        for table in (
            "ledger.cost",
            "ledger.charge",
            "dim.cost_place",
            "dim.charge_holder",
            "dim.price_rate",
            "ledger.cost_key",
        ):
            assert store.rows(f"SELECT count(*) FROM {table}")[0][0] == 0, table


def test_prices_of_one_side_leave_the_other_book_unpriced_and_say_so() -> None:
    with posted([*estate(), *held(percent=50), price("p", PRICE)]) as store:
        assert cost_of(store, "account") == {"idle": (1.5, 5_400_000), "tenant": (1.5, 5_400_000)}
        assert charge_of(store, "unpriced_reason") == {"no price": (1.5, None)}
        assert store.rows("SELECT subject FROM ledger.finding WHERE code = 'unpriced'") == [("charge: no price",)]


def test_components_of_a_price_add_up() -> None:
    book = [price("a", PRICE, component="amortisation"), price("w", 400_000, component="power")]
    with posted([*estate(), *held(), *book]) as store:
        assert cost_of(store, "price_id") == {"a+w": (3.0, 3 * 4_000_000)}


def test_components_in_two_currencies_are_unpriced_and_found() -> None:
    with posted([*estate(), *held(), *BOOK, price("w", 1, component="power", currency="CNY")]) as store:
        assert cost_of(store, "unpriced_reason") == {"two currencies": (3.0, None)}
        assert "price_in_two_currencies" in codes(store)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ({"model": "h100 80gb"}, True),
        ({"model": "h100"}, True),
        ({"model": "a100"}, False),
        ({"for_cluster": "default"}, True),
        ({"for_cluster": "elsewhere"}, False),
        ({"unit_kind": "gpu"}, True),
        ({"unit_kind": "mig"}, False),
        ({"commitment": "spot"}, False),
        ({"valid_from_at": 60}, None),
        ({"valid_to_at": 0}, False),
    ],
)
def test_a_closer_line_counts_where_all_that_it_names_is_so(line: dict[str, Any], counts: bool | None) -> None:
    with posted([*estate(), price("p", PRICE), price("closer", 7, **{"model": "nvidia", **line})]) as store:
        hours = {price_id: round(amount) for price_id, (amount, _money) in cost_of(store, "price_id").items()}
    assert hours == {True: {"closer": 3}, False: {"p": 3}, None: {"closer": 2, "p": 1}}[counts]


def test_two_lines_that_are_named_alike_leave_the_card_unpriced() -> None:
    with posted([*estate(), price("p", PRICE, model="h100"), price("q", 1, model="nvidia")]) as store:
        assert cost_of(store, "unpriced_reason") == {"price ambiguous": (3.0, None)}
        found = store.rows("SELECT subject, evidence FROM ledger.finding WHERE code = 'price_ambiguous'")
    assert [(subject, json.loads(evidence)["price_ids"]) for subject, evidence in found] == [
        (f"cost price of {H100}", "p, q")
    ]


def test_a_price_that_is_stated_as_not_known_is_no_price_and_not_zero() -> None:
    with posted([*estate(), price("p", None)]) as store:
        assert cost_of(store, "unpriced_reason", "price_id") == {("price not known", "p"): (3.0, None)}


def test_a_price_of_zero_is_a_price() -> None:
    with posted([*estate(), price("p", 0)]) as store:
        assert cost_of(store, "unpriced_reason") == {None: (3.0, 0)}


def test_a_price_beyond_all_sense_is_not_posted() -> None:
    with posted([*estate(), price("p", 10**18)]) as store:
        assert cost_of(store, "unpriced_reason") == {"price implausible": (3.0, None)}


def test_a_card_without_a_model_has_the_price_of_any_model_and_no_other() -> None:
    with posted([*estate(model=None), price("p", PRICE)]) as store:
        assert cost_of(store, "unpriced_reason") == {None: (3.0, 3 * PRICE)}
    with posted([*estate(model=None), price("p", PRICE, model="h100")]) as store:
        assert cost_of(store, "unpriced_reason") == {"model unknown": (3.0, None)}


def test_a_counted_node_has_the_model_of_its_product() -> None:
    facts = [node(0, gpu_count=2, gpu_product=H100), node(MINUTES, gpu_count=2, gpu_product=H100), watched()]
    with posted([*facts, price("p", PRICE, model="h100")]) as store:
        assert cost_of(store, "place_kind", "price_id") == {("node", "p"): (6.0, 6 * PRICE)}


def test_a_month_of_grains_costs_the_month_to_the_micro_unit() -> None:
    minutes, monthly = 31 * 24 * HOUR, 1_999_999_999
    start = (parse_instant("2026-12-01T00:00:00Z") - at(0)) // MINUTE_US
    facts = [*estate(minutes=minutes + start), price("p", monthly, per="month")]
    with posted(facts, PostingParameters(grain_us=15 * MINUTE_US)) as store:
        december = "grain_at >= TIMESTAMP '2026-12-01' AND grain_at < TIMESTAMP '2027-01-01'"
        assert cost_of(store, "price_id", where=december) == {"p": (744.0, monthly)}


def test_what_holds_at_the_start_of_a_grain_counts_for_all_of_it_and_is_said() -> None:
    book = [price("old", 1, valid_to_at=90), price("new", 2, valid_from_at=90)]
    with posted([*estate(), *book]) as store:
        assert cost_of(store, "price_id") == {"new": (1.0, 2), "old": (2.0, 2)}
        assert "price_within_a_grain" in codes(store)


def test_a_price_that_ends_leaves_the_time_after_it_unpriced() -> None:
    with posted([*estate(), price("p", PRICE, valid_to_at=60)]) as store:
        assert cost_of(store, "unpriced_reason") == {None: (1.0, PRICE), "no price": (2.0, None)}


def test_a_provisional_price_marks_its_rows() -> None:
    with posted([*estate(), price("p", PRICE, provisional=True)]) as store:
        assert cost_of(store, "provisional") == {True: (3.0, 3 * PRICE)}


def test_a_new_version_of_a_book_takes_the_place_of_the_old_one_by_reversal() -> None:
    with Store.open_memory() as store:
        store.append([*estate(), *whole(end=HOUR), *BOOK])
        first = post(store)
        store.append([price("p", 2 * PRICE, version=2)])
        again = post(store)
        assert cost_of(store, "price_id") == {"p": (3.0, 6 * PRICE)}
        assert charge_of(store, "unpriced_reason") == {"no price": (1.0, None)}
        assert again.changes["cost"].reversed == first.changes["cost"].posted - again.changes["cost"].replaced
        assert post(store).run_id is None


def test_a_version_that_says_less_counts_by_its_head() -> None:
    head = PriceBook(source="test", natural_key="b@2", book="b", version=2, sha256="0", lines_count=0, **seen(0))
    with Store.open_memory() as store:
        store.append([*estate(), *BOOK])
        post(store)
        assert cost_of(store, "price_id") == {"p": (3.0, 3 * PRICE)}
        store.append([head])
        post(store)
        assert cost_of(store, "price_id") == {}


def test_late_facts_restate_as_if_they_had_always_been_there() -> None:
    facts: list[Fact] = [*estate(), *held(percent=30), *BOOK]
    late: list[Fact] = [*held("u2", 60, 120, percent=60), discount("team-a", 100_000)]
    with Store.open_memory() as store, posted([*late, *facts]) as fresh:
        store.append(facts)
        post(store)
        store.append(late)
        post(store)
        for ledger in ("cost", "charge"):
            query = f"SELECT * FROM ledger.{ledger} ORDER BY ALL"
            assert store.rows(query) == fresh.rows(query)
            assert store.rows(f"SELECT count(*) FROM ledger.{ledger}_entry WHERE sign = -1")[0][0] > 0


def test_a_change_of_one_hour_is_computed_for_that_hour_and_its_neighbours() -> None:
    facts = [*estate(minutes=40 * HOUR), *BOOK]
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        store.append(held("u2", 10 * HOUR, phase="Succeeded", last_container_end_at=11 * HOUR))
        change = post(store).changes["cost"]
        assert (change.posted, change.reversed) == (1, 1)


# Commitments -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"karpenter.sh/capacity-type": "spot"}, "spot"),
        ({"karpenter.sh/capacity-type": "on-demand"}, "on_demand"),
        ({"karpenter.sh/capacity-type": "reserved"}, "reserved"),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, "spot"),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, "on_demand"),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, "reserved"),
        ({"cloud.google.com/gke-spot": "true"}, "spot"),
        ({"cloud.google.com/gke-spot": "false"}, None),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, "spot"),
        ({"kubernetes.azure.com/scalesetpriority": "regular"}, "on_demand"),
        ({}, None),
    ],
)
def test_a_node_s_labels_tell_how_it_is_paid_for(labels: dict[str, str], expected: str | None) -> None:
    with posted([*estate(labels=json.dumps(labels)), price("p", PRICE)]) as store:
        assert store.rows("SELECT commitment FROM dim.cost_place") == [(expected,)]


def test_a_spot_card_is_never_priced_as_on_demand() -> None:
    spot = estate(labels='{"karpenter.sh/capacity-type":"spot"}')
    with posted([*spot, price("od", PRICE, commitment="on_demand")]) as store:
        assert cost_of(store, "unpriced_reason") == {"no price": (3.0, None)}
    with posted([*spot, price("od", PRICE, commitment="on_demand"), price("any", 5)]) as store:
        assert cost_of(store, "price_id") == {"any": (3.0, 15)}


def test_settings_tell_the_commitment_where_labels_do_not_and_the_first_rule_counts() -> None:
    told = policy(commitments=(("n%", "reserved"), ("n1", "spot")))
    for labels, expected in (("{}", "reserved"), ('{"karpenter.sh/capacity-type":"spot"}', "spot")):
        with posted([*estate(labels=labels), price("p", PRICE)], told) as store:
            assert store.rows("SELECT commitment FROM dim.cost_place") == [(expected,)]


def test_a_card_of_which_nobody_knows_how_it_is_paid_for_has_lines_without_a_commitment_only() -> None:
    with posted([*estate(), price("p", PRICE, commitment="on_demand")]) as store:
        assert cost_of(store, "unpriced_reason") == {"no price": (3.0, None)}


# Accounts ----------------------------------------------------------------------------------------------------------------------------------


def test_what_is_down_is_out_of_service_with_its_holder_and_not_charged() -> None:
    lost = card(60, state="lost", model=H100)
    back = card(120, model=H100, state="present", healthy=True)
    with posted([*estate(), *held(percent=50), lost, back, *BOOK]) as store:
        assert cost_of(store, "account", "pod_uid") == {
            ("idle", None): (1.0, PRICE), ("out_of_service", "u1"): (0.5, PRICE // 2), ("out_of_service", None): (0.5, PRICE // 2),
            ("tenant", "u1"): (1.0, PRICE),
        }  # fmt: skip
        assert charge_of(store, "line") == {"grant": (1.0, 2 * PRICE), "held_down": (0.5, 0)}


def test_a_claim_in_suspense_is_overhead_and_nobody_s_charge() -> None:
    request, _ = held()
    claim = vgpu(MINUTES, memory=512, claim_state="suspect", claim_reason="tampered")
    with posted([*estate(), request, claim, *BOOK]) as store:
        occupied = store.rows("SELECT DISTINCT account FROM ledger.supply WHERE account <> 'supply'")
        assert ("in_suspense",) in occupied and ("held",) not in occupied
        assert cost_of(store, "account", where="account <> 'idle'") == {"overhead": (1.5, 3 * PRICE // 2)}
        assert charge_of(store, "line") == {}


def test_what_nobody_saw_is_unobserved_and_costs_what_it_costs() -> None:
    with posted([node(0), card(0, model=H100), card(MINUTES, model=H100), price("p", PRICE)]) as store:
        assert cost_of(store, "account") == {"unobserved": (3.0, 3 * PRICE)}


def test_oversubscribed_holders_share_what_the_card_costs_and_each_is_charged_what_it_declared() -> None:
    facts = [*estate(), *held("u1", percent=100), *held("u2", percent=100), *BOOK]
    with posted(facts) as store:
        assert cost_of(store, "pod_uid") == {"u1": (1.5, 3 * PRICE // 2), "u2": (1.5, 3 * PRICE // 2)}
        assert charge_of(store, "pod_uid") == {"u1": (3.0, 6 * PRICE), "u2": (3.0, 6 * PRICE)}


@pytest.mark.parametrize(
    ("classes", "stranded"),
    [
        ((RequestClass(Shape(1, 1_000_000), 1),), 1.5),
        ((RequestClass(Shape(1, 500_000), 1),), 0.0),
        ((RequestClass(Shape(1, 1_000_000), 1), RequestClass(Shape(1, 500_000), 3)), 0.375),
        ((RequestClass(Shape(2, 500_000), 1),), 1.5),
        ((RequestClass(Shape(1, models=("A100",), share_ppm=100_000), 1),), 1.5),
        ((RequestClass(Shape(1, memory_mib=2048), 1),), 1.5),
        ((RequestClass(Shape(1), 1),), 0.0),
        ((RequestClass(Shape(0, cpu_milli=1), 1),), 0.0),
        ((), 0.0),
    ],
)
def test_what_typical_requests_cannot_use_is_stranded_by_popularity(
    classes: tuple[RequestClass, ...], stranded: float
) -> None:
    with posted([*estate(), *held(percent=50), price("p", PRICE)], PostingParameters(request_classes=classes)) as store:
        hours = {account: amount for account, (amount, _money) in cost_of(store, "account").items()}
    assert (hours.get("stranded", 0.0), hours.get("idle", 0.0)) == (stranded, 1.5 - stranded)


@pytest.mark.parametrize(
    ("sm", "dram", "stranded"), [(0.9, 0.9, 0.5), (0.1, 0.9, 0.5), (0.9, 0.1, 0.0), (0.0, 0.0, 0.0)]
)
def test_what_lies_beside_a_saturated_or_memory_bound_holder_is_stranded(
    sm: float, dram: float, stranded: float
) -> None:
    facts = [*estate(), *held(percent=50), *measured(60, 120, sm, dram), price("p", PRICE)]
    with posted(facts) as store:
        hours = {account: amount for account, (amount, _money) in cost_of(store, "account").items()}
    assert (hours.get("stranded", 0.0), hours["idle"]) == (stranded, 1.5 - stranded)


def test_a_dedicated_node_s_idle_share_is_its_owner_s_and_charged_only_by_policy() -> None:
    facts = [*estate(), *held(percent=50, end=HOUR), *BOOK]
    shown = policy(dedicated=(("n!_", "nobody"), ("n1", "vision")))
    with posted(facts, shown) as store:
        assert cost_of(store, "account", "owner") == {
            ("reserved_unused", "vision"): (2.5, 9_000_000),
            ("tenant", None): (0.5, 1_800_000),
        }
        assert charge_of(store, "line") == {"grant": (0.5, 3_600_000)}
    charged = policy(dedicated=(("n1", "vision"),), reserved_unused="charged")
    with posted([*facts, discount("vision", 500_000)], charged) as store:
        assert charge_of(store, "tenant", "line") == {
            ("team-a", "grant"): (0.5, 3_600_000),
            ("vision", "reserved_unused"): (2.5, 9_000_000),
        }


@pytest.mark.parametrize(
    ("reserved_unused", "nominal", "used", "cost", "charge"),
    [
        ("none", 64, 4, {("idle", None): 2.0}, None),
        ("shown", 64, 4, {("reserved_unused", "team-b"): 2.0}, None),
        ("charged", 64, 4, {("reserved_unused", "team-b"): 2.0}, 2.0),
        ("shown", 4, 4, {("idle", None): 2.0}, None),
        ("charged", 4, 3.75, {("idle", None): 1.0, ("reserved_unused", "team-b"): 1.0}, 1.0),
    ],
)
def test_unused_quota_is_its_owner_s_as_far_as_cards_are_idle(
    reserved_unused: Any, nominal: float, used: float, cost: dict[Any, float], charge: float | None
) -> None:
    quotas = [quota(minute, nominal_milli=int(nominal * 1000), used_milli=int(used * 1000)) for minute in (0, 60, 120)]
    listed = [watched_quota(minute) for minute in (0, 60, 120, 180)]
    facts = [*estate(), *held(percent=50), *quotas, *listed, *BOOK]
    with posted(facts, policy(reserved_unused=reserved_unused)) as store:
        within = "account <> 'tenant' AND grain_at < TIMESTAMP '2026-11-30 02:00'"
        scale = {key: amount for key, (amount, _money) in cost_of(store, "account", "owner", where=within).items()}
        assert scale == {key: amount / 2 for key, amount in cost.items()}
        lines = charge_of(store, "line", where="grain_at < TIMESTAMP '2026-11-30 02:00'")
        assert lines.get("reserved_unused") == (None if charge is None else (charge / 2, int(charge * PRICE)))


def watched_quota(minute: float) -> Fact:
    return listing(minute, gap_max_us=2 * HOUR * MINUTE_US)


@pytest.mark.parametrize(
    ("events", "start", "platform", "grant"),
    [
        ([event(5, "FailedMount", "MountVolume.SetUp failed")], "running", 0.25, 2.0 + 35 / 60),
        ([event(5, "FailedMount", "MountVolume.SetUp failed")], "bind", 0.25, 2.75),
        ([event(5, "Failed", "Failed to pull image: manifest unknown")], "running", 0.0, 2.0 + 35 / 60),
        ([event(5, "Failed", "Failed to pull image: manifest unknown")], "bind", 0.0, 3.0),
        ([event(40, "FailedMount", "MountVolume.SetUp failed")], "bind", 0.0, 3.0),
        ([], "bind", 0.0, 3.0),
    ],
)
def test_a_start_is_the_platform_s_beyond_ten_minutes_and_only_with_its_fault(
    events: list[Fact], start: Any, platform: float, grant: float
) -> None:
    with posted([*estate(), *whole(running=25), *events, *BOOK], policy(charge_start=start)) as store:
        hours = {account: amount for account, (amount, _money) in cost_of(store, "account").items()}
        assert (hours.get("platform_start", 0.0), hours["tenant"]) == (platform, 3.0 - platform)
        assert charge_of(store, "line")["grant"][0] == pytest.approx(grant, abs=1e-8)


# Charges -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "hours"), [("running", 2.5), ("bind", 3.0)])
def test_the_charge_start_is_a_policy(start: Any, hours: float) -> None:
    with posted([*estate(), *whole(running=30), *BOOK], policy(charge_start=start)) as store:
        assert charge_of(store, "line") == {"grant": (hours, int(hours * 2 * PRICE))}
        assert cost_of(store, "account") == {"tenant": (3.0, 3 * PRICE)}


def test_a_pod_that_never_ran_is_not_charged_by_default() -> None:
    with posted([*estate(), *whole(running=None, phase="Pending"), *BOOK]) as store:
        assert charge_of(store, "line") == {}
        assert set(cost_of(store, "account")) == {"tenant"}


@pytest.mark.parametrize(("burst", "expected"), [("none", None), ("charged", (0.65, 4_680_000))])
def test_use_above_the_grant_is_charged_by_policy_only(burst: Any, expected: Any) -> None:
    facts = [*estate(), *held(percent=25, core_policy="force"), *measured(0, 60, 0.9), *BOOK]
    with posted(facts, policy(burst=burst)) as store:
        assert charge_of(store, "line").get("burst") == expected
        assert charge_of(store, "line")["grant"] == (0.75, 5_400_000)


def test_a_discount_is_taken_off_the_rounded_list_price_half_up() -> None:
    book = [price("c", 1_000_001, "charge"), discount("team-a", 500_000)]
    with posted([*estate(), *whole(end=HOUR), *book]) as store:
        assert store.rows("SELECT list_micro, discount_micro, charge_micro FROM ledger.charge") == [
            (1_000_001, 500_001, 500_000)
        ]


def test_the_closest_discount_counts_and_two_alike_leave_the_line_unpriced() -> None:
    book = [price("c", PRICE, "charge"), discount("team-a", 100_000), discount("team-a", 500_000, 1, model="h100")]
    with posted([*estate(), *whole(end=HOUR), *book]) as store:
        assert charge_of(store, "line") == {"grant": (1.0, PRICE // 2)}
    with posted([*estate(), *whole(end=HOUR), *book, discount("team-a", 1, 2, model="nvidia")]) as store:
        assert charge_of(store, "unpriced_reason") == {"discount ambiguous": (1.0, None)}
        assert "discount_ambiguous" in codes(store)


def test_a_price_that_is_agreed_with_a_tenant_is_that_tenant_s_alone() -> None:
    book = [price("c", PRICE, "charge"), price("own", 7, "charge", tenant="team-a")]
    facts = [
        *estate(CARD, "GPU-b"),
        *whole("u1", end=HOUR),
        *whole("u2", end=HOUR, uuid="GPU-b", namespace="team-b"),
        *book,
    ]
    with posted(facts) as store:
        assert charge_of(store, "tenant", "price_id") == {("team-a", "own"): (1.0, 7), ("team-b", "c"): (1.0, PRICE)}


def test_used_time_has_bounds_where_a_path_measures_the_holder_alone_and_none_elsewhere() -> None:
    facts = [*estate(CARD, "GPU-b"), *whole(), *measured(0, 90, 0.25), *held("u2", uuid="GPU-b"), price("p", PRICE)]
    with posted(facts) as store:
        rows = store.rows(
            "SELECT pod_uid, used_path, used_gpu_us / 3.6e9, used_upper_gpu_us / 3.6e9 FROM ledger.cost WHERE account = 'tenant' "
            "AND grain_at < TIMESTAMP '2026-11-30 02:00' ORDER BY pod_uid, grain_at"
        )
    assert rows == [
        ("u1", "exclusive", 0.25, 0.25),
        ("u1", "exclusive", 0.125, 0.625),
        ("u2", None, None, None),
        ("u2", None, None, None),
    ]


# Tenancy and weights -----------------------------------------------------------------------------------------------------------------------


def tenancy(store: Store) -> list[tuple[Any, ...]]:
    return store.rows(
        "SELECT pod_uid, CASE WHEN from_us > -4611686018427387904 THEN (from_us - ?::BIGINT) // 60000000 END, team, cost_centre "
        "FROM dim.tenancy_pod ORDER BY ALL",
        [at(0)],
    )


def test_a_reorganisation_splits_at_its_instant() -> None:
    lines = [
        tree(0, "team-*", team="old", cost_centre="1", valid_to_at=120),
        tree(1, "team-a", team="new", cost_centre="2", valid_from_at=120),
    ]
    with posted([*estate(), *held(), *lines, price("p", PRICE)]) as store:
        assert tenancy(store) == [("u1", 120, "new", "2"), ("u1", None, "old", "1")]
        assert "tenancy_unmapped" not in codes(store)


@pytest.mark.parametrize(
    ("line", "matches"),
    [
        ({"by": "namespace", "match": "team-a"}, True),
        ({"by": "namespace", "match": "team_a"}, False),
        ({"by": "namespace", "match": "t*-a"}, True),
        ({"by": "tenant", "match": "team-a"}, True),
        ({"by": "label", "key": "app", "match": "trainer"}, True),
        ({"by": "label", "key": "app", "match": "other"}, False),
        ({"by": "label", "key": "none", "match": "*"}, False),
        ({"by": "owner", "match": "Job/train"}, True),
        ({"by": "owner", "match": "train"}, True),
        ({"by": "queue", "match": "gold"}, True),
        ({"by": "queue", "match": "silver"}, False),
    ],
)
def test_a_line_of_the_tree_matches_what_it_looks_at(line: dict[str, Any], matches: bool) -> None:
    owner = Owner(
        source="kube_api", natural_key="u1", pod_uid="u1", namespace="team-a", owner_kind="Job", owner_name="train", owner_uid="j1",
        workload_kind="Job", workload_name="train", labels='{"app":"trainer"}', **seen(0),
    )  # fmt: skip
    facts = [*estate(), *held(queue="gold"), owner, tree(0, line.pop("match"), team="x", **line), price("p", PRICE)]
    with posted(facts) as store:
        assert [row[2] for row in tenancy(store)] == (["x"] if matches else [])
        assert ("tenancy_unmapped" in codes(store)) is not matches


def test_the_first_line_that_holds_decides_and_the_highest_version_is_the_tree() -> None:
    lines = [tree(0, "*", team="zero"), tree(1, "*", version=2, team="one"), tree(2, "team-a", version=2, team="two")]
    with posted([*estate(), *held(), *lines, price("p", PRICE)]) as store:
        assert [row[2] for row in tenancy(store)] == ["one"]


def test_weights_of_the_latest_book_stand_after_those_of_the_settings() -> None:
    weights = [
        BookWeight(
            source="test",
            natural_key=f"b@{version}/{model}",
            book="b",
            version=version,
            model=model,
            weight_ppm=ppm,
            **seen(0),
        )
        for version, model, ppm in ((1, "H100", 9), (2, "H100", 2_000_000), (2, "H100 80GB", 2_100_000))
    ]
    parameters = PostingParameters(model_weights=(ModelWeight("a100", 1_000_000),))
    with posted([*estate(), *weights], parameters) as store:
        rows = store.rows("SELECT model, weight_ppm FROM dim.model_weight ORDER BY position")
    assert rows == [("a100", 1_000_000), ("H100 80GB", 2_100_000), ("H100", 2_000_000)]


def test_the_residual_that_must_never_be_is_an_error_where_it_is() -> None:
    with posted([*estate(), *held(), *BOOK]) as store:
        assert "money_residual" not in codes(store)
        store.execute(
            "UPDATE ledger.cost_entry SET amount_gpu_us = amount_gpu_us - 1 WHERE grain_at = TIMESTAMP '2026-11-30 01:00'"
        )
        found = store.rows(
            f"SELECT code, severity FROM ({model_text('money_findings.sql')}) AS found WHERE severity = 'error'"
        )
    assert found == [("money_residual", "error")]


def test_the_example_of_the_page_about_money_adds_up() -> None:
    pods = [
        *held("v", percent=50, namespace="vision"),
        *held("n", percent=20, namespace="nlp"),
        *held("w", percent=100, namespace="nlp", uuid="GPU-b"),
    ]
    lost = [card(30, "GPU-b", state="lost", model=H100), card(60, "GPU-b", model=H100, state="present", healthy=True)]
    book = [price("p", 2_500_000), price("c", 3_200_000, "charge"), discount("vision", 100_000)]
    whole_cards = PostingParameters(request_classes=(RequestClass(Shape(1, 1_000_000), 1),))
    with posted([*estate(CARD, "GPU-b"), *pods, *lost, *book], whole_cards) as store:
        hour = "grain_at = TIMESTAMP '2026-11-30'"
        assert cost_of(store, "device_uuid", "account", "pod_uid", where=hour) == {
            (CARD, "tenant", "v"): (0.5, 1_250_000), (CARD, "tenant", "n"): (0.2, 500_000), (CARD, "stranded", None): (0.3, 750_000),
            ("GPU-b", "tenant", "w"): (0.5, 1_250_000), ("GPU-b", "out_of_service", "w"): (0.5, 1_250_000),
        }  # fmt: skip
        assert charge_of(store, "tenant", "line", where=hour) == {
            ("vision", "grant"): (0.5, 1_440_000), ("nlp", "grant"): (0.7, 2_240_000), ("nlp", "held_down"): (0.5, 0),
        }  # fmt: skip
