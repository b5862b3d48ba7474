"""Q2 over an estate whose every number can be checked by hand, and its identities over random ones."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.answers.contract import Answer, Value
from steelyard.answers.q02_consumption import METHODS, ConsumptionSpec, answer
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US, MINUTE_US, Window, format_instant
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.http_api.tenant_wall import WALLS
from tests.answers.estate import Estate, at, small_story

CARD = "GPU-aaaaaaaa-0000"


def ask(estate: Estate, start: str | None = None, end: str | None = None, **spec: Any) -> Answer:
    window = Window(at(start), at(end)) if start and end else None
    return answer(estate.store, ConsumptionSpec(window=window, **spec))


def figures(result: Answer) -> dict[str, Value]:
    return {figure.name: figure.value for figure in result.figures}


def records(result: Answer, name: str) -> list[dict[str, Value]]:
    found = next(table for table in result.tables if table.name == name)
    return [dict(zip((column.name for column in found.columns), row, strict=True)) for row in found.rows]


def sampled_story() -> Estate:
    """The small story with one hour of samples: infer's processes on 15 minutes of 10:00, and 203 for the exclusive holder."""
    estate = small_story()
    common = {"cluster": "default", "grain_at": at("10:00"), "samples_count": 15}
    estate.insert(
        "ledger.usage",
        **common,
        device_uuid=CARD,
        pod_uid="uid-infer",
        path="process",
        memory_mib_us=1_000 * 15 * MINUTE_US,
        memory_peak_mib=1_500,
        observed_us=15 * MINUTE_US,
    )
    estate.insert(
        "ledger.usage",
        **common,
        device_uuid="GPU-aaaaaaaa-0001",
        pod_uid="uid-train",
        path="exclusive",
        used_basis="203",
        memory_mib_us=9_000 * HOUR_US,
        memory_peak_mib=12_000,
        compute_upper_gpu_us=HOUR_US // 2,
        observed_us=HOUR_US,
        compute_observed_us=HOUR_US // 2,
    )
    estate.insert(
        "ledger.usage", **common, device_uuid=CARD, path="device", memory_mib_us=2_000 * HOUR_US, observed_us=HOUR_US
    )
    estate.insert(
        "ledger.usage", **common, device_uuid=CARD, path="residual", memory_mib_us=500 * HOUR_US, observed_us=HOUR_US
    )
    return estate


def test_a_card_whose_use_is_unknown_has_the_ledgers_own_reason() -> None:
    estate = small_story()
    hour = {
        "cluster": "default",
        "grain_at": at("10:00"),
        "samples_count": 15,
        "device_uuid": CARD,
        "observed_us": HOUR_US,
    }
    estate.insert("ledger.usage", **hour, path="device", unknown_reason="memory of the card counts pages twice")
    found = figures(ask(estate))
    assert found["memory_used_device_mib_hours"] == Unknown("memory of the card counts pages twice")
    assert found["memory_use_unattributed_mib_hours"] == Unknown("no card was sampled")


def test_granted_time_is_share_times_time_over_all_known_time() -> None:
    result = ask(small_story())
    assert result.window == Window(at("08:00"), at("12:00"))
    assert figures(result)["gpu_hours_granted"] == Fraction("0.25") * 4 + Fraction("0.5") * Fraction("2.5") + Fraction(
        "2.5"
    )
    assert {row["tenant"]: row["gpu_hours_granted"] for row in records(result, "consumption")} == {
        "team-a": Fraction("3.5"),
        "team-b": Fraction("1.25"),
    }
    assert figures(result)["ledger_residual_gpu_us"] == 0


def test_memory_and_compute_granted_stand_beside() -> None:
    row = records(ask(small_story(), by=("pod",), where={"pod": "notebook"}), "consumption")[0]
    assert row["memory_granted_mib_hours"] == 8_000 * Fraction("2.5")
    assert row["compute_granted_gpu_hours"] == Fraction("1.25")
    assert row["pods_count"] == 1


def test_use_that_nobody_measured_is_unknown_and_so_is_waste() -> None:
    values = figures(ask(small_story()))
    for name in (
        "gpu_hours_used",
        "gpu_hours_used_upper",
        "gpu_hours_waste",
        "memory_used_mib_hours",
        "memory_peak_mib",
    ):
        assert isinstance(values[name], Unknown), name


def test_samples_give_memory_with_its_peak_and_an_upper_bound_of_compute() -> None:
    result = ask(sampled_story(), by=("pod",))
    rows = {row["pod"]: row for row in records(result, "consumption")}
    assert rows["team-a/infer"]["memory_used_mib_hours"] == 250
    assert rows["team-a/infer"]["memory_peak_mib"] == 1_500
    assert rows["team-a/infer"]["use_observed_ratio"] == 0.0625
    assert isinstance(rows["team-a/infer"]["gpu_hours_used_upper"], Unknown)
    assert rows["team-a/train"]["gpu_hours_used_upper"] == Fraction("0.5")
    assert isinstance(rows["team-b/notebook"]["memory_used_mib_hours"], Unknown)
    assert isinstance(rows["team-a/train"]["gpu_hours_waste"], Unknown)
    values = figures(result)
    assert (values["memory_used_mib_hours"], values["memory_peak_mib"]) == (9_250, 12_000)
    assert (values["memory_used_device_mib_hours"], values["memory_use_unattributed_mib_hours"]) == (2_000, 500)
    coverage = {figure.name: figure.coverage for figure in result.figures}
    assert coverage["memory_used_mib_hours"] == float(Fraction(75, 60 * 9))
    assert coverage["gpu_hours_used_upper"] == float(Fraction(30, 60 * 9))


def measured_story() -> Estate:
    """The small story with 1001, 1002 and 1005 for half of an hour of train's own card and for the card that infer and notebook share."""
    estate = small_story()
    half = HOUR_US // 2
    common = {"cluster": "default", "grain_at": at("10:00"), "samples_count": 30, "used_basis": "max_sm_1002_dram_1005"}
    seen = dict.fromkeys(
        ("observed_us", "engine_observed_us", "sm_observed_us", "dram_observed_us", "used_observed_us"), half
    )
    figures_of = {"used_of_gpu_us": half, "engine_upper_gpu_us": half, "sm_gpu_us": half // 5, "dram_gpu_us": half // 2}
    own = {**common, **seen, **figures_of, "device_uuid": "GPU-aaaaaaaa-0001"}
    estate.insert("ledger.usage", **own, pod_uid="uid-train", path="exclusive", used_gpu_us=half * 6 // 10)
    estate.insert("ledger.usage", **own, path="device", used_gpu_us=half * 6 // 10)
    shared = {**common, **seen, **figures_of, "device_uuid": CARD}
    for path in ("device", "residual"):
        estate.insert("ledger.usage", **shared, path=path, used_gpu_us=half)
    return estate


def test_what_a_lone_holder_used_is_measured_use_with_its_parts_apart_and_its_basis_named() -> None:
    row = {row["pod"]: row for row in records(ask(measured_story()), "pods")}["train"]
    assert row["gpu_hours_used"] == Fraction("0.3")
    assert (row["gpu_hours_sm_active"], row["gpu_hours_dram_active"]) == (Fraction("0.1"), Fraction("0.25"))
    assert row["gpu_hours_engine_upper"] == Fraction("0.5")
    assert row["used_basis"] == "max_sm_1002_dram_1005"
    assert isinstance(row["gpu_hours_used_upper"], Unknown), "203 was not measured, and 1001 is not called 203"


def test_waste_counts_only_the_time_in_which_use_was_seen() -> None:
    row = {row["pod"]: row for row in records(ask(measured_story()), "pods")}["train"]
    assert row["gpu_hours_granted"] == Fraction("2.5")
    assert row["gpu_hours_waste"] == Fraction("0.2"), "two hours without a sample are unknown, not idle"
    assert row["used_observed_ratio"] == 0.2


def test_use_of_a_shared_card_is_unknown_for_each_holder_and_known_for_the_card() -> None:
    result = ask(measured_story())
    rows = {row["pod"]: row for row in records(result, "pods")}
    for pod in ("infer", "notebook"):
        used = rows[pod]["gpu_hours_used"]
        assert (
            isinstance(used, Unknown) and used.reason == "what the card used is known for all its holders together only"
        )
    values = figures(result)
    assert (values["gpu_hours_used"], values["gpu_hours_used_device"]) == (Fraction("0.3"), Fraction("0.8"))
    assert values["gpu_hours_use_unattributed"] == Fraction("0.5")
    assert any("for all their holders together only" in spot for spot in result.blind_spots)


def test_a_viewer_of_one_tenant_sees_its_own_use_and_not_that_of_whole_cards() -> None:
    assert {"gpu_hours_used", "gpu_hours_sm_active", "gpu_hours_engine_upper"} <= WALLS["q2"].figures
    assert not {"gpu_hours_used_device", "gpu_hours_use_unattributed"} & WALLS["q2"].figures


@pytest.mark.parametrize(
    ("where", "device", "residual"),
    [
        ({"pod": "team-a/infer"}, 2_000, 500),
        ({"tenant": "team-b"}, 2_000, 500),
        ({"gpu": CARD}, 2_000, 500),
        ({"gpu": "node-a/0"}, 2_000, 500),
        ({"node": "node-a"}, 5_000, 500),
        ({"gpu": "GPU-aaaaaaaa-0002"}, 3_000, None),
        ({"pod": "team-a/train"}, None, None),
        ({}, 6_000, 500),
    ],
)
def test_memory_of_whole_cards_is_that_of_the_cards_asked_about(
    where: dict[str, str], device: int | None, residual: int | None
) -> None:
    estate = sampled_story()
    common = {"cluster": "default", "path": "device", "samples_count": 1, "observed_us": HOUR_US}
    for place, node, mib in (("GPU-aaaaaaaa-0002", "node-a", 3_000), ("GPU-bbbbbbbb-0000", "node-b", 1_000)):
        estate.card(place, node, index=2)
        estate.insert("ledger.usage", **common, grain_at=at("10:00"), device_uuid=place, memory_mib_us=mib * HOUR_US)
    result = ask(estate, where=where)
    values = figures(result)
    for name, mib in (("memory_used_device_mib_hours", device), ("memory_use_unattributed_mib_hours", residual)):
        assert (None if isinstance(values[name], Unknown) else values[name]) == mib
    method = next(each.method for each in result.figures if each.name == "memory_used_device_mib_hours")
    assert ("all cards" in method) is not bool(where)
    assert ("the cards asked about, all their holders together" in method) is bool(where)


def test_a_card_named_by_node_and_index_has_its_holders() -> None:
    assert [row["pod"] for row in records(ask(small_story(), where={"gpu": "node-a/1"}), "pods")] == ["train"]


def squeezed_story() -> Estate:
    """A claim in suspense on infer's card, which is given out beyond what it has in one hour."""
    estate = small_story()
    estate.pod("team-c/forged")
    estate.hold("team-c/forged", CARD, "10:00", "11:00", occupancy="in_suspense")
    forged = estate.holdings[-1]
    estate.book(forged, at("10:00"), HOUR_US // 2, 0, 0)
    for row in (estate.holdings[0], forged):
        estate.book({**row, "occupancy": "overcommitted"}, at("10:00"), HOUR_US // 8, 0, 0)
    return estate


@pytest.mark.parametrize(
    ("where", "told"), [({}, True), ({"tenant": "team-a"}, True), ({"pod": "team-a/train"}, False)]
)
def test_a_claim_in_suspense_that_lowers_what_its_neighbours_count_is_said(where: dict[str, str], told: bool) -> None:
    spots = ask(squeezed_story(), where=where).blind_spots
    assert any("one forged annotation" in spot for spot in spots) is told
    assert not any("one forged annotation" in spot for spot in ask(small_story(), where=where).blind_spots)


def test_who_may_not_know_of_others_is_told_by_its_own_rows_alone() -> None:
    def told(estate: Estate, tenant: str) -> bool:
        spots = ask(estate, where={"tenant": tenant}, confined=True).blind_spots
        return any("one forged annotation" in spot for spot in spots)

    estate = small_story()
    estate.book({**estate.holdings[0], "occupancy": "overcommitted"}, at("10:00"), HOUR_US // 8, 0, 0)
    assert told(squeezed_story(), "team-a") and told(estate, "team-a")
    assert not told(squeezed_story(), "team-b")


def test_requested_granted_and_used_stand_apart_per_pod() -> None:
    rows = {row["pod"]: row for row in records(ask(sampled_story()), "pods")}
    notebook, infer = rows["notebook"], rows["infer"]
    assert (notebook["gpus_requested"], notebook["memory_requested_mib"]) == (1, 4_000)
    assert (notebook["gpus_granted"], notebook["memory_granted_mib"]) == (Fraction("0.5"), 8_000)
    assert notebook["cores_granted_percent"] == 50
    assert isinstance(notebook["cores_requested_percent"], Unknown)
    assert isinstance(notebook["memory_used_mean_mib"], Unknown)
    assert (infer["memory_used_mean_mib"], infer["memory_peak_mib"]) == (1_000, 1_500)


def test_normalised_hours_weigh_the_model_and_stand_beside_the_plain_ones() -> None:
    estate = small_story()
    estate.insert("dim.model_weight", position=0, model="tesla t4", weight_ppm=500_000)
    estate.insert("dim.model_weight", position=1, model="t4", weight_ppm=300_000)
    estate.insert("dim.model_weight", position=2, model="", weight_ppm=100_000)
    values = figures(ask(estate))
    assert values["gpu_hours_granted"] == Fraction("4.75")
    assert values["gpu_hours_normalised"] == Fraction("4.75") * Fraction("0.3")


def test_a_weight_counts_from_the_instant_at_which_it_is_valid() -> None:
    estate = small_story()
    estate.insert("dim.model_weight", position=0, model="t4", weight_ppm=500_000, valid_from_at=at("10:30"))
    values = figures(ask(estate))
    assert values["gpu_hours_granted"] == Fraction("4.75")
    assert values["gpu_hours_normalised"] == Fraction("3.375") + Fraction("1.375") / 2


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        ("09:00", "10:00", "1.75"),
        ("09:15", "09:45", "0.875"),
        ("08:15", "10:45", "3.75"),
        ("08:15", "08:45", "0.375"),
        ("10:30", "12:00", "1.375"),
    ],
)
def test_a_window_is_cut_exactly_also_inside_a_grain(start: str, end: str, hours: str) -> None:
    assert figures(ask(small_story(), start, end))["gpu_hours_granted"] == Fraction(hours)


def test_where_shares_exceed_the_card_a_cut_grain_counts_their_part() -> None:
    estate = Estate()
    estate.listing(at("12:00"))
    estate.card(CARD)
    for name in ("one", "two"):
        estate.pod(f"team-a/{name}")
        estate.hold(f"team-a/{name}", CARD, "08:00", None, 750_000)
    result = ask(estate, "08:10", "08:40", by=("pod",))
    assert [row["gpu_hours_granted"] for row in records(result, "consumption")] == [Fraction("0.25")] * 2
    assert [row["memory_granted_mib_hours"] for row in records(result, "consumption")] == [4_000] * 2
    assert [row["gpu_hours_overcommitted"] for row in records(result, "consumption")] == [Fraction("0.125")] * 2


def test_reserved_and_suspended_time_is_in_no_total_of_granted_time() -> None:
    estate = Estate()
    estate.listing(at("12:00"))
    estate.card(CARD)
    estate.hold("team-a/early", CARD, "08:00", "09:00", 500_000, occupancy="reserved")
    estate.hold("team-a/odd", CARD, "09:00", "10:00", 250_000, occupancy="in_suspense")
    estate.post_supply()
    for start, end in ((None, None), ("08:00", "10:00"), ("08:00", "09:30")):
        values = figures(ask(estate, start, end))
        assert (values["gpu_hours_granted"], values["gpu_hours_reserved"]) == (0, Fraction("0.5"))
    assert values["gpu_hours_in_suspense"] == Fraction("0.125")


def test_a_holder_without_a_card_counts_as_granted() -> None:
    estate = small_story()
    before = figures(ask(estate))["gpu_hours_granted"]
    estate = Estate()
    estate.listing(at("12:00"))
    estate.card(CARD)
    estate.pod("team-a/plain")
    estate.hold("team-a/plain", None, "10:00", None)
    estate.post_supply()
    assert figures(ask(estate))["gpu_hours_granted"] == 2
    assert before == Fraction("4.75")


def test_requests_that_were_never_scheduled_are_counted_and_listed() -> None:
    result = ask(small_story())
    assert figures(result)["requests_unserved"] == 1
    assert figures(result)["gpus_requested_unserved"] == 2
    assert [(row["pod"], row["gpus_requested"]) for row in records(result, "unserved")] == [("waiting", 2)]


@pytest.mark.parametrize(
    ("values", "start", "end", "unserved"),
    [
        ({"scheduled_at": at("11:00")}, "09:00", "10:00", 1),
        ({"scheduled_at": at("11:00")}, "09:00", "11:30", 0),
        ({"scheduled_at": at("11:00")}, "09:00", "11:00", 0),
        ({"created_at": at("11:00")}, "09:00", "10:00", 0),
        ({"last_seen_at": at("08:30")}, "09:00", "10:00", 0),
        ({"gpus": 0}, "09:00", "10:00", 1),
        ({"phase": "Running"}, "09:00", "10:00", 0),
        ({"node": "n1"}, "09:00", "10:00", 0),
        ({"phase": "Failed"}, "09:00", "10:00", 1),
        ({"gpus": 1, "requested_gpu_milli": 250}, "09:00", "10:00", 1),
    ],
)
def test_unserved_means_there_in_the_window_and_not_scheduled_by_its_end(
    values: dict[str, Any], start: str, end: str, unserved: int
) -> None:
    estate = Estate()
    estate.listing(at("12:00"))
    estate.listing(at("08:00"))
    estate.pod("team-a/late", **{"phase": "Pending", "node": None, **values})
    result = ask(estate, start, end)
    assert figures(result)["requests_unserved"] == unserved
    assert figures(result)["requests_unserved_gpu"] == (unserved if values.get("gpus", 1) else 0)
    if values.get("requested_gpu_milli"):
        assert figures(result)["gpus_requested_unserved"] == Fraction("0.25")


def test_a_window_outside_the_known_time_is_unknown() -> None:
    result = ask(small_story(), "05:00", "06:00")
    values = figures(result)
    assert {name for name in METHODS if not isinstance(values[name], Unknown)} == set()
    assert isinstance(result.coverage, Unknown)


def test_a_window_partly_outside_the_known_time_says_so_and_covers_less() -> None:
    result = ask(small_story(), "06:00", "10:00")
    assert figures(result)["gpu_hours_granted"] == Fraction("2.5")
    assert result.coverage == 0.5
    assert any("the known time is" in spot for spot in result.blind_spots)


def test_coverage_is_the_observed_part_of_supply() -> None:
    estate = small_story()
    estate.place("device", "x", None, at("11:00"), "unobserved", HOUR_US)
    estate.place("device", "x", None, at("11:00"), "supply", HOUR_US)
    assert ask(estate).coverage == float(Fraction(8, 9))


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(UsageError, match="no time at all"):
        ask(small_story(), "11:30", "11:30")


def test_an_unknown_dimension_is_refused() -> None:
    with pytest.raises(UsageError, match="'occupancy'"):
        ask(small_story(), by=("occupancy",))


PODS = [f"team-{letter}/{name}" for letter in "abc" for name in (f"{letter}1", f"{letter}2")]


@st.composite
def estates(draw: st.DrawFn) -> Estate:
    estate = Estate()
    estate.listing(at("08:00"))
    estate.listing(at("12:00"))
    for index in range(2):
        estate.card(f"GPU-{index}", index=index, model=draw(st.sampled_from(["T4", "A100"])))
    estate.insert("dim.model_weight", position=0, model="a100", weight_ppm=1_333_333)
    for name in PODS:
        estate.pod(name, qos=draw(st.sampled_from(["LS", "BE", None])), gpus=draw(st.sampled_from([None, 0, 1])))
        start = draw(st.integers(0, 230))
        end = draw(st.integers(start, 239))
        device = draw(st.sampled_from(["GPU-0", "GPU-1", None]))
        stamps = [format_instant(at("08:00") + minute * MINUTE_US + 1) for minute in (start, end)]
        share = draw(st.integers(1, 333_333))
        estate.hold(
            name, device, stamps[0], stamps[1], share, occupancy=draw(st.sampled_from(["held", "held", "in_suspense"]))
        )
    estate.post_supply()
    return estate


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    estates(),
    st.lists(st.sampled_from(["tenant", "gpu", "node", "pod", "qos", "model", "owner"]), max_size=3, unique=True),
    st.sampled_from([(None, None), ("08:00", "12:00"), ("08:20", "11:17"), ("09:31", "09:44")]),
)
def test_any_grouping_adds_up_to_the_total(
    estate: Estate, by: list[str], window: tuple[str | None, str | None]
) -> None:
    result = ask(estate, *window, by=tuple(by))
    totals = figures(result)
    for name in ("gpu_hours_granted", "gpu_hours_normalised", "gpu_hours_in_suspense", "compute_granted_gpu_hours"):
        parts = [row[name] for row in records(result, "consumption")]
        assert sum(parts, Fraction(0)) == totals[name], name  # type: ignore[arg-type]
    assert totals["ledger_residual_gpu_us"] == 0


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(estates(), st.integers(1, 239))
def test_two_windows_that_meet_add_up_but_for_one_microsecond_a_pod(estate: Estate, minute: int) -> None:
    middle = format_instant(at("08:00") + minute * MINUTE_US)
    parts = [figures(ask(estate, *window))["gpu_hours_granted"] for window in (("08:00", middle), (middle, "12:00"))]
    whole = figures(ask(estate))["gpu_hours_granted"]
    assert abs(whole - sum(parts, Fraction(0))) * HOUR_US <= len(PODS)  # type: ignore[operator,arg-type]


def test_outside_the_known_time_the_balance_is_unknown_too() -> None:
    result = ask(small_story(), "2026-11-29T00:00:00Z", "2026-11-29T12:00:00Z")
    assert isinstance(figures(result)["ledger_residual_gpu_us"], Unknown)


def test_where_nobody_ever_read_the_pods_what_was_granted_and_asked_for_is_unknown_and_not_0() -> None:
    estate = Estate()
    estate.card("GPU-a")
    estate.listing(at("10:00"), source="dcgm", kind="dcgm", natural_key="dcgm/a", scope="exporter/a")
    estate.listing(at("11:00"), source="dcgm", kind="dcgm", natural_key="dcgm/a", scope="exporter/a")
    of_pods = ("gpu_hours_granted", "memory_granted_mib_hours", "requests_unserved", "requests_unserved_gpu")
    values = {figure.name: figure.value for figure in answer(estate.store, ConsumptionSpec()).figures}
    assert [name for name in of_pods if not isinstance(values[name], Unknown)] == []
    assert values["ledger_residual_gpu_us"] == 0
