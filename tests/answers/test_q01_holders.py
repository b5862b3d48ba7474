"""Q1 over an estate whose every number can be checked by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from steelyard.answers.contract import Answer, Table, Value
from steelyard.answers.q01_holders import FIGURES, HoldersSpec, answer
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US
from steelyard.primitives.unknown import Unknown
from tests.answers.estate import Estate, at, small_story

CARD = "GPU-aaaaaaaa-0000"


def ask(estate: Estate, **spec: Any) -> Answer:
    return answer(estate.store, HoldersSpec(**spec))


def figures(result: Answer) -> dict[str, Value]:
    return {figure.name: figure.value for figure in result.figures}


def table(result: Answer, name: str) -> Table:
    return next(table for table in result.tables if table.name == name)


def records(result: Answer, name: str) -> list[dict[str, Value]]:
    found = table(result, name)
    return [dict(zip((column.name for column in found.columns), row, strict=True)) for row in found.rows]


def test_now_is_the_last_instant_at_which_pods_were_seen() -> None:
    estate = small_story()
    estate.insert(
        "fact.source_status",
        cluster="default",
        source="nvidia_smi",
        natural_key="nvidia_smi/node/node-a",
        occurred_at=at("13:00"),
        observed_at=at("13:00"),
        kind="nvidia_smi",
        scope="node/node-a",
        status="ok",
        complete=True,
        objects_count=2,
        as_of_basis="stamped",
        fact_id="x",
    )
    result = ask(estate)
    assert result.as_of == at("12:00")
    assert [row["pod"] for row in records(result, "holders")] == ["infer"]


@pytest.mark.parametrize(("listed_at", "now"), [("11:00", "11:00"), (None, "12:00")])
def test_a_stamp_of_a_pod_that_ended_is_now_only_where_nobody_saw_pods(listed_at: str | None, now: str) -> None:
    estate = Estate()
    estate.hold("team-a/done", CARD, "08:00", "10:00")
    if listed_at:
        estate.listing(at(listed_at))
    assert ask(estate).as_of == at(now)


@pytest.mark.parametrize(("first", "second"), [("node-a", "node-b"), ("node-b", "node-a")])
@pytest.mark.parametrize(
    ("instant", "stands"),
    [("08:30", 0), ("10:30", 1), ("11:30", 1), ("12:00", 1)],
    ids=["before it moved", "while both knew it", "when it had moved", "now"],
)
def test_a_card_that_moved_counts_once_where_it_stands_then(first: str, second: str, instant: str, stands: int) -> None:
    estate = Estate()
    estate.listing(at("08:00"))
    estate.listing(at("12:00"))
    estate.card(CARD, node=first, valid_to_at=at("11:00"))
    estate.card(CARD, node=second, valid_from_at=at("10:00"))
    found = records(ask(estate, at=at(instant)), "devices")
    assert [row["node"] for row in found] == [(first, second)[stands]]


def test_a_past_instant_lists_who_held_then() -> None:
    result = ask(small_story(), at=at("10:00"))
    assert [(row["device_uuid"], row["pod"], row["share_ratio"]) for row in records(result, "holders")] == [
        (CARD, "infer", 0.25),
        (CARD, "notebook", 0.5),
        ("GPU-aaaaaaaa-0001", "train", 1.0),
    ]
    values = figures(result)
    assert (values["gpus_held"], values["gpus_free"], values["gpus_supply"]) == (1.75, 0.25, 2)
    assert (values["devices_count"], values["devices_held_count"], values["holders_count"]) == (2, 2, 3)
    assert values["gpus_unobserved"] == 0
    assert values["ledger_residual_gpu_us"] == 0
    assert result.coverage == 1.0


@pytest.mark.parametrize(
    ("instant", "held"),
    [
        ("08:29", {"infer"}),
        ("08:30", {"infer", "train"}),
        ("10:59", {"infer", "train", "notebook"}),
        ("11:00", {"infer", "notebook"}),
    ],
)
def test_a_holding_starts_with_its_first_instant_and_is_over_at_its_end(instant: str, held: set[str]) -> None:
    assert {row["pod"] for row in records(ask(small_story(), at=at(instant)), "holders")} == held


@pytest.mark.parametrize(("instant", "share"), [("09:10", 0.5), ("10:00", 0.25)])
def test_a_holding_in_two_segments_started_with_the_first_and_ends_with_the_last(instant: str, share: float) -> None:
    estate = small_story()
    estate.hold("team-c/init", "GPU-aaaaaaaa-0001", "09:00", "09:20", 500_000, end_basis="init_done")
    estate.hold("team-c/init", "GPU-aaaaaaaa-0001", "09:20", None, 250_000, segment=1, start_basis="init_done")
    row = next(row for row in records(ask(estate, at=at(instant)), "holders") if row["pod"] == "init")
    assert (row["share_ratio"], row["started_at"], row["ended_at"]) == (share, "2026-11-30T09:00:00Z", None)
    assert row["start_basis"] == "pod_scheduled"


def test_between_listings_the_rest_of_a_card_is_unobserved_and_not_free() -> None:
    result = ask(small_story(), at=at("09:30"))
    values = figures(result)
    assert isinstance(values["gpus_free"], Unknown)
    assert values["gpus_unobserved"] == 0.25
    assert result.coverage == 0.875
    card = records(result, "devices")[0]
    assert isinstance(card["share_free_ratio"], Unknown)


def test_between_listings_closer_than_the_declared_interval_the_rest_is_free() -> None:
    estate = small_story()
    estate.listing(at("10:20"), gap_max_us=HOUR_US // 2)
    assert figures(ask(estate, at=at("10:10")))["gpus_free"] == 0.25
    assert isinstance(figures(ask(estate, at=at("11:10")))["gpus_free"], Unknown)


@pytest.mark.parametrize("instant", ["07:59", "12:01"])
def test_outside_the_known_time_every_figure_is_unknown_and_nothing_is_listed(instant: str) -> None:
    result = ask(small_story(), at=at(instant))
    values = figures(result)
    assert {name for name in FIGURES if not isinstance(values[name], Unknown)} == set()
    assert result.tables == ()
    assert isinstance(result.coverage, Unknown)


def test_a_pod_whose_end_lies_between_two_listings_is_a_possible_holder_there() -> None:
    estate = small_story()
    estate.pod("team-c/gone")
    estate.hold("team-c/gone", "GPU-aaaaaaaa-0001", "09:00", "10:00", 100_000, ended_before_at=at("12:00"))
    seen = ask(estate, at=at("10:00"))
    assert "gone" in {row["pod"] for row in records(seen, "holders")}
    later = ask(estate, at=at("11:30"))
    assert "gone" not in {row["pod"] for row in records(later, "holders")}
    assert [row["pod"] for row in records(later, "possible_holders")] == ["gone"]
    assert figures(later)["holders_possible_count"] == 1
    assert figures(ask(estate, at=at("12:00")))["holders_possible_count"] == 0


def test_neighbours_are_the_other_pods_on_the_card() -> None:
    rows = {row["pod"]: row["neighbours"] for row in records(ask(small_story(), at=at("10:00")), "holders")}
    assert rows == {"infer": "team-b/notebook", "notebook": "team-a/infer", "train": None}


@pytest.mark.parametrize(
    ("where", "pods"),
    [
        ({"gpu": CARD}, {"infer", "notebook"}),
        ({"gpu": "GPU-aaaaaaaa"}, {"infer", "notebook", "train"}),
        ({"gpu": "GPU-aaaaaaaa-0000/u1"}, {"infer"}),
        ({"gpu": "node-a/1"}, {"train"}),
        ({"node": "node-a"}, {"infer", "notebook", "train"}),
        ({"pod": "team-a/infer"}, {"infer"}),
        ({"pod": "infer"}, {"infer"}),
        ({"pod": "uid-infer"}, {"infer"}),
        ({"tenant": "team-b"}, {"notebook"}),
        ({"app": "sft"}, {"train"}),
        ({"label:app": "sft"}, {"train"}),
        ({"qos": ""}, {"notebook"}),
        ({"tenant": "team-a", "gpu": CARD}, {"infer"}),
    ],
)
def test_conditions_narrow_holders(where: dict[str, str], pods: set[str]) -> None:
    assert {row["pod"] for row in records(ask(small_story(), at=at("10:00"), where=where), "holders")} == pods


def test_a_condition_on_a_pod_keeps_its_neighbours_in_view() -> None:
    result = ask(small_story(), at=at("10:00"), where={"pod": "infer"})
    assert records(result, "holders")[0]["neighbours"] == "team-b/notebook"
    assert [(row["device_uuid"], row["holders_count"]) for row in records(result, "devices")] == [(CARD, 2)]


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        (("tenant",), {("team-a",): 1.25, ("team-b",): 0.5}),
        (("gpu",), {(CARD,): 0.75, ("GPU-aaaaaaaa-0001",): 1}),
        (("node",), {("node-a",): 1.75}),
        (("pod",), {("team-a/infer",): 0.25, ("team-a/train",): 1, ("team-b/notebook",): 0.5}),
        (("owner",), {("Deployment/infer",): 0.25, ("Deployment/train",): 1, ("Deployment/notebook",): 0.5}),
        (("app", "qos"), {("chat", "LS"): 0.25, ("lab", None): 0.5, ("sft", "BE"): 1}),
    ],
)
def test_groups_sum_the_shares(by: tuple[str, ...], groups: dict[tuple[str | None, ...], float]) -> None:
    rows = table(ask(small_story(), at=at("10:00"), by=by), "groups").rows
    assert {tuple(row[: len(by)]): row[len(by)] for row in rows} == groups


def test_an_unknown_dimension_is_refused_with_the_list_of_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'cost_centre'.*dimensions: .*tenant.*labels: app"):
        ask(small_story(), by=("cost_centre",))


def test_a_holder_without_a_device_says_why_and_makes_the_free_share_of_its_node_unknown() -> None:
    estate = small_story()
    estate.pod("team-c/plain")
    estate.hold("team-c/plain", None, "11:00", None, device_unknown_reason="a plain extended resource names no card")
    result = ask(estate)
    row = next(row for row in records(result, "holders") if row["pod"] == "plain")
    assert row["device_uuid"] == Unknown("a plain extended resource names no card")
    values = figures(result)
    assert (values["devices_unknown_count"], values["gpus_held_unplaced"]) == (1, 1)
    assert (values["gpus_held"], values["gpus_free"]) == (1.25, 0.75)
    assert all(isinstance(card["share_free_ratio"], Unknown) for card in records(result, "devices"))


def test_reserved_and_suspended_shares_are_not_held() -> None:
    estate = small_story()
    estate.hold("team-c/early", "GPU-aaaaaaaa-0001", "11:50", None, 300_000, occupancy="reserved")
    estate.hold("team-c/odd", "GPU-aaaaaaaa-0001", "11:50", None, 200_000, occupancy="in_suspense")
    values = figures(ask(estate))
    assert (values["gpus_held"], values["gpus_reserved"], values["gpus_in_suspense"]) == (
        Fraction("0.25"),
        Fraction("0.3"),
        Fraction("0.2"),
    )
    assert (values["gpus_free"], values["holders_count"]) == (1.25, 1)


def test_shares_above_the_card_are_overcommitted_and_leave_nothing_free() -> None:
    estate = small_story()
    estate.hold("team-c/greedy", CARD, "11:50", None, 900_000)
    values = figures(ask(estate))
    assert (values["gpus_overcommitted"], values["gpus_free"], values["gpus_held"]) == (
        Fraction("0.15"),
        1,
        Fraction("1.15"),
    )


def test_a_lost_card_and_an_asset_only_card_are_listed_and_offer_nothing() -> None:
    estate = small_story()
    estate.card("GPU-lost", index=2, state="lost")
    estate.card("GPU-asset", index=3, basis="asset_list")
    result = ask(estate)
    cards = {row["device_uuid"]: row for row in records(result, "devices")}
    assert (cards["GPU-lost"]["occupancy"], cards["GPU-asset"]["occupancy"]) == ("out_of_service", "asset_only")
    assert isinstance(cards["GPU-lost"]["share_free_ratio"], Unknown)
    values = figures(result)
    assert (values["gpus_supply"], values["gpus_free"], values["devices_lost_count"]) == (3, 1.75, 1)


@pytest.mark.parametrize(
    ("asked_ppm", "free", "out", "over"),
    [(1_000_000, "0.75", 1, 0), (2_000_000, 0, "0.75", 0), (2_750_000, 0, 0, 0), (3_000_000, 0, 0, "0.25")],
)
@pytest.mark.parametrize("place", [{"place_kind": "cluster", "place_id": "default", "node": None}, {}])
def test_a_holder_without_a_known_card_or_node_takes_what_is_out_of_service_last(
    place: dict[str, Any], asked_ppm: int, free: Any, out: Any, over: Any
) -> None:
    estate = small_story()
    estate.card("GPU-lost", index=2, state="lost")
    estate.pod("team-c/plain", **({"node": None} if place else {}))
    estate.hold("team-c/plain", None, "11:00", None, asked_ppm, **place)
    values = figures(ask(estate))
    assert values["gpus_supply"] == 3
    found = tuple(values[name] for name in ("gpus_free", "gpus_out_of_service", "gpus_overcommitted"))
    assert found == (Fraction(free), Fraction(out), Fraction(over))


def test_what_a_cluster_has_free_is_not_taken_by_holders_of_another() -> None:
    estate = small_story()
    estate.listing(
        at("12:00"), cluster="other", fact_id="other", observed_from_at=at("08:00"), observed_to_at=at("12:00")
    )
    estate.card("GPU-other", "node-o", cluster="other")
    estate.hold(
        "team-c/plain",
        None,
        "11:00",
        None,
        2_000_000,
        cluster="other",
        place_kind="cluster",
        place_id="other",
        node=None,
    )
    values = figures(ask(estate))
    assert (values["gpus_overcommitted"], values["gpus_free"]) == (1, Fraction("1.75"))


def test_a_card_is_lost_from_the_instant_of_its_loss() -> None:
    estate = small_story()
    estate.card("GPU-lost", index=2, state="lost", lost_at=at("11:00"))
    assert figures(ask(estate, at=at("10:00")))["devices_lost_count"] == 0
    assert figures(ask(estate, at=at("12:00")))["devices_lost_count"] == 1


def test_a_share_that_is_not_known_is_unknown_and_its_card_is_not_free() -> None:
    estate = small_story()
    estate.hold("team-c/scaled", "GPU-aaaaaaaa-0001", "11:50", None, None, share_at_least_ppm=100_000)
    result = ask(estate)
    row = next(row for row in records(result, "holders") if row["pod"] == "scaled")
    assert row["share_ratio"] == Unknown("the share of the card is not known; at least 0.1 GPU")
    assert isinstance(row["memory_mib"], Unknown)
    assert isinstance(figures(result)["gpus_free"], Unknown)
    assert figures(result)["holders_share_unknown_count"] == 1


@pytest.mark.parametrize(
    ("least", "said"), [(0, ""), (29_535_714, "; at least 29.535714 GPU"), (2_000_000, "; at least 2 GPU")]
)
def test_the_least_of_an_unknown_share_has_its_unit_and_nothing_is_no_least(least: int, said: str) -> None:
    estate = Estate()
    estate.listing(at("12:00"))
    estate.card(CARD)
    estate.hold("team-c/scaled", CARD, "11:50", None, None, share_at_least_ppm=least)
    result = ask(estate)
    assert records(result, "holders")[0]["share_ratio"] == Unknown("the share of the card is not known" + said)
    assert figures(result)["gpus_held"] == Unknown("the share of 1 holder is not known" + said)


@pytest.mark.parametrize("instant", ["06:30", "08:10", "12:01"])
def test_outside_the_known_time_the_balance_is_unknown_too(instant: str) -> None:
    estate = Estate()
    estate.listing(at("08:30"))
    estate.listing(at("12:00"))
    estate.place("device", CARD, CARD, at("08:00"), "supply", 1)
    assert isinstance(figures(ask(estate, at=at(instant)))["ledger_residual_gpu_us"], Unknown)


def test_a_grant_that_states_no_amounts_holds_its_share_of_the_card() -> None:
    estate = small_story()
    bare = {"memory_mib": None, "cores_percent": None}
    estate.hold("team-c/whole", "GPU-aaaaaaaa-0001", "11:50", None, 1_000_000, unit_kind="gpu", **bare)
    estate.hold("team-c/replica", "GPU-aaaaaaaa-0001", "11:50", None, 250_000, unit_kind="slice", **bare)
    estate.hold("team-c/soft", "GPU-aaaaaaaa-0001", "11:50", None, 250_000, cores_percent=None)
    estate.hold("team-c/far", "GPU-unseen", "11:50", None, 1_000_000, unit_kind="gpu", **bare)
    rows = {row["pod"]: (row["memory_mib"], row["cores_percent"]) for row in records(ask(estate), "holders")}
    assert (rows["whole"], rows["replica"], rows["soft"]) == ((16_000, 100), (4_000, 25), (4_000, 0))
    assert rows["far"] == (Unknown("neither the grant nor the card states it"), 100)


def test_stamps_read_as_the_house_writes_them() -> None:
    estate = small_story()
    estate.hold("team-c/fine", "GPU-aaaaaaaa-0001", "2026-11-30T11:59:59.25Z", None, 100_000)
    row = next(row for row in records(ask(estate), "holders") if row["pod"] == "fine")
    assert (row["started_at"], row["ended_at"]) == ("2026-11-30T11:59:59.25Z", None)


def test_clusters_are_asked_at_their_own_last_instant() -> None:
    estate = small_story()
    estate.listing(at("12:40"), cluster="east", fact_id="east")
    estate.hold("team-e/far", "GPU-east", "12:10", None, cluster="east", known_to_at=at("12:40"), node="node-e")
    result = ask(estate)
    assert {row["pod"] for row in records(result, "holders")} == {"infer", "far"}
    past = ask(estate, at=at("12:20"))
    assert {row["pod"] for row in records(past, "holders")} == {"far"}
    assert any("default is known from" in spot for spot in past.blind_spots)


def test_a_balance_that_does_not_close_is_shown() -> None:
    estate = small_story()
    estate.place("device", CARD, CARD, at("11:00"), "free", 7)
    assert figures(ask(estate))["ledger_residual_gpu_us"] == 7


def test_what_is_overcommitted_stands_beside_the_balance() -> None:
    estate = small_story()
    estate.place("device", CARD, CARD, at("11:00"), "overcommitted", 7)
    assert figures(ask(estate))["ledger_residual_gpu_us"] == 0


def test_an_empty_store_says_to_import_first() -> None:
    with pytest.raises(UsageError, match="steelyard import"):
        ask(Estate())


def test_findings_about_the_listed_things_come_with_the_answer() -> None:
    estate = small_story()
    for subject in ("pod team-a/infer", "pod team-b/notebook"):
        estate.insert("ledger.finding", code="x", severity="warning", subject=subject, message="said")
    narrowed = ask(estate, at=at("10:00"), where={"pod": "infer"})
    assert [note.subject for note in narrowed.findings] == ["pod team-a/infer"]
    assert len(ask(estate).findings) == 2


def test_evidence_quotes_names_for_the_shell() -> None:
    estate = small_story()
    estate.hold("team-a/$(reboot)", "GPU-aaaaaaaa-0001", "11:59", None)
    result = ask(estate, where={"pod": "$(reboot)"})
    assert any("'$(reboot)'" in evidence.how for evidence in result.evidence)


def test_explain_gives_the_statements_as_they_ran() -> None:
    result = ask(small_story(), explain=True)
    assert {"holders", "devices", "residual"} <= set(result.explain)
    assert "$at_us = " in result.explain["holders"]
    assert ask(small_story()).explain == {}


def test_where_nobody_ever_read_the_pods_what_is_held_is_unknown_and_not_0() -> None:
    estate = Estate()
    estate.card("GPU-a")
    estate.listing(
        at("10:00"), source="nvidia_smi", kind="nvidia_smi", natural_key="nvidia_smi/node-a", scope="node/node-a"
    )
    values = figures(ask(estate))
    of_pods = ("gpus_held", "devices_held_count", "holders_count", "gpus_reserved", "gpus_in_suspense")
    assert {name for name in of_pods if isinstance(values[name], Unknown)} == set(of_pods)
    estate.listing(at("10:00"))
    values = figures(ask(estate))
    assert {name for name in of_pods if values[name] == 0} == set(of_pods)


def test_one_cluster_whose_pods_nobody_read_makes_the_sum_unknown_and_not_the_other_clusters_own() -> None:
    estate = small_story()
    estate.card("GPU-far", "node-z", cluster="far")
    estate.listing(
        at("11:00"), source="nvidia_smi", kind="nvidia_smi", natural_key="nvidia_smi/node-z", scope="node/node-z", cluster="far",
        fact_id="far",
    )  # fmt: skip
    values = figures(ask(estate))
    held = values["gpus_held"]
    assert isinstance(held, Unknown) and "cluster far" in held.reason and "at least" in held.reason
    assert isinstance(values["holders_count"], Unknown)
    assert values["devices_count"] == figures(ask(small_story()))["devices_count"] + 1  # type: ignore[operator]
    own = figures(ask(estate, where={"cluster": "default"}))
    assert own["gpus_held"] == figures(ask(small_story()))["gpus_held"]
    far = figures(ask(estate, where={"cluster": "far"}))["gpus_held"]
    assert isinstance(far, Unknown) and "at least" not in far.reason


def test_a_cluster_without_cards_whose_pods_nobody_read_takes_nothing_from_the_others() -> None:
    estate = small_story()
    estate.listing(at("11:00"), source="scrape", kind="exposition", cluster="engines", fact_id="engines")
    assert figures(ask(estate))["gpus_held"] == figures(ask(small_story()))["gpus_held"]


def test_cards_that_hold_are_not_0_where_all_that_is_held_is_on_unknown_cards() -> None:
    estate = Estate()
    estate.card("GPU-a")
    estate.pod("team-a/p")
    estate.hold("team-a/p", None, "09:00", None, place_kind="node", place_id="node-a")
    estate.listing(at("12:00"))
    values = figures(ask(estate))
    assert values["gpus_held_unplaced"] == 1
    assert isinstance(values["devices_held_count"], Unknown)
    estate.pod("team-a/q")
    estate.hold("team-a/q", "GPU-a", "09:00", None)
    assert figures(ask(estate))["devices_held_count"] == 1


def zoned(estate: Estate, zone: str, available: int | None, since: str = "09:00", **values: Any) -> None:
    row = {
        "cluster": "default",
        "node": "node-a",
        "zone": zone,
        "zone_type": "Node",
        "resource": "nvidia.com/gpu",
        "capacity_count": 4,
    }
    row |= {"allocatable_count": 4, "available_count": available, "policies": "{}", "valid_from_at": at(since)}
    estate.insert("dim.node_zone", **{**row, **values})


def zones(estate: Estate, **spec: Any) -> list[tuple[Value, ...]]:
    found = [table for table in ask(estate, **spec).tables if table.name == "zones"]
    return [tuple(row) for table in found for row in table.rows]


def test_zones_are_told_as_of_the_instant_and_only_where_a_topology_tells_them() -> None:
    estate = small_story()
    assert "zones" not in {table.name for table in ask(estate).tables}
    zoned(estate, "node-0", 1, valid_to_at=at("11:00"))
    zoned(estate, "node-0", 3, "11:00")
    zoned(estate, "node-1", None, "11:00")
    zoned(estate, "node-2", None, "11:00", resource=None)
    unstated = Unknown("the node's topology does not state it")
    assert zones(estate) == [
        ("node-a", "node-0", "Node", "nvidia.com/gpu", 4, 4, 3, "default"),
        ("node-a", "node-1", "Node", "nvidia.com/gpu", 4, 4, unstated, "default"),
    ]
    assert [row[6] for row in zones(estate, at=at("10:59"))] == [1]
    assert zones(estate, at=at("08:30")) == []


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({"where": {"node": "node-a"}}, 1),
        ({"where": {"gpu": CARD}}, 1),
        ({"where": {"node": "node-b"}}, 0),
        ({"where": {"tenant": "team-a"}}, 0),
        ({"where": {"node": "node-a", "tenant": "team-a"}}, 0),
        ({"confined": True}, 0),
        ({"confined": True, "where": {"node": "node-a"}}, 0),
    ],
)
def test_zones_are_those_of_the_nodes_asked_about_and_no_pod_s(spec: dict[str, Any], shown: int) -> None:
    estate = small_story()
    estate.card("GPU-cccccccc-0000", node="node-b")
    zoned(estate, "node-0", 1)
    assert len(zones(estate, **spec)) == shown
