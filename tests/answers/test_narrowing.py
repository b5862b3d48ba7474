"""What is asked of a part of the cards, while some holders are known by their node or cluster only: never held 0 and all free."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from steelyard.answers.contract import Answer, Value
from steelyard.answers.q01_holders import HoldersSpec
from steelyard.answers.q01_holders import answer as holders
from steelyard.answers.q02_consumption import METHODS, ConsumptionSpec
from steelyard.answers.q02_consumption import answer as consumption
from steelyard.primitives.unknown import Unknown
from tests.answers.estate import Estate, at

H100 = "NVIDIA H100 80GB HBM3"
CLUSTER_WIDE = {"place_kind": "cluster", "place_id": "default", "node": None}


def estate_of(*models: str | None, at_cluster: bool = False) -> Estate:
    """A card of each model on node-a, ``GPU-aaaaaaaa-000<n>``, and team-n's pod that holds as many, no source says which."""
    estate = Estate()
    estate.listing(at("10:00"))
    estate.listing(at("12:00"))
    for index, model in enumerate(models):
        estate.card(f"GPU-aaaaaaaa-000{index}", index=index, model=model)
    estate.pod("team-n/plain", gpus=len(models))
    where = CLUSTER_WIDE if at_cluster else {}
    estate.hold("team-n/plain", None, "08:00", None, len(models) * 1_000_000, memory_mib=1, cores_percent=1, **where)
    return estate


def q1(estate: Estate, **where: str) -> Answer:
    return holders(estate.store, HoldersSpec(where=where))


def q2(estate: Estate, **where: str) -> Answer:
    return consumption(estate.store, ConsumptionSpec(where=where))


def values(result: Answer) -> dict[str, Value]:
    return {figure.name: figure.value for figure in result.figures}


def records(result: Answer, name: str) -> list[dict[str, Value]]:
    found = next(table for table in result.tables if table.name == name)
    return [dict(zip((column.name for column in found.columns), row, strict=True)) for row in found.rows]


@pytest.mark.parametrize("where", [{"model": H100}, {"model": "NVIDIA-H100-80GB-HBM3"}, {"vendor": "nvidia"}])
@pytest.mark.parametrize("at_cluster", [False, True])
def test_holders_of_cards_that_are_all_asked_about_count_with_them(where: dict[str, str], at_cluster: bool) -> None:
    result = q1(estate_of(H100, H100, at_cluster=at_cluster), **where)
    found = values(result)
    assert (found["gpus_held"], found["gpus_held_unplaced"], found["gpus_free"], result.coverage) == (2, 2, 0, 1.0)


@pytest.mark.parametrize(
    ("models", "at_cluster", "where"),
    [
        ((H100, H100), False, {"gpu": "GPU-aaaaaaaa-0001"}),
        ((H100, H100), False, {"gpu": "node-a/1"}),
        ((H100, H100), False, {"device": "GPU-aaaaaaaa-0001"}),
        ((H100, "T4"), False, {"model": H100}),
        ((H100, "T4"), True, {"model": H100}),
        ((H100, "T4"), True, {"model": H100, "node": "node-a"}),
    ],
)
def test_a_part_of_the_cards_that_a_holder_may_have_is_neither_held_nor_free(
    models: tuple[str, ...], at_cluster: bool, where: dict[str, str]
) -> None:
    result = q1(estate_of(*models, at_cluster=at_cluster), **where)
    found = values(result)
    unknown = {name for name, value in found.items() if isinstance(value, Unknown)}
    assert {"gpus_held", "gpus_held_unplaced", "gpus_free", "holders_count", "devices_held_count"} <= unknown
    assert "team-n/plain" in str(found["gpus_held"])
    assert (found["gpus_supply"], found["gpus_unobserved"], result.coverage) == (1, 1, 0.0)
    assert [row["occupancy"] for row in records(result, "devices")] == ["unobserved"]
    assert any("team-n/plain" in spot for spot in result.blind_spots)
    assert [row["pod"] for row in records(result, "unplaced_holders")] == ["plain"]


def test_a_holder_of_another_node_does_not_make_a_card_unknown() -> None:
    estate = estate_of(H100, H100)
    estate.card("GPU-bbbbbbbb-0000", "node-b", model=H100)
    found = values(q1(estate, gpu="GPU-bbbbbbbb-0000"))
    assert (found["gpus_held"], found["gpus_free"], found["gpus_unobserved"]) == (0, 1, 0)
    assert values(q1(estate, model=H100))["gpus_free"] == 1


def test_what_is_certain_stands_as_the_least_of_what_is_held() -> None:
    estate = estate_of(H100, H100)
    estate.hold("team-n/placed", "GPU-aaaaaaaa-0000", "08:00", None, 250_000)
    found = values(q1(estate, gpu="GPU-aaaaaaaa-0000"))
    assert str(found["gpus_held"]).endswith("at least 0.25 GPU")
    assert found["gpus_reserved"] == 0


def test_a_whole_uuid_reads_all_cards_of_a_node_with_a_holder_without_one() -> None:
    whole = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
    estate = estate_of(H100, H100)
    estate.card(whole, index=7, model=H100)
    assert isinstance(values(q1(estate, gpu=whole))["gpus_held"], Unknown)
    assert values(q1(estate, model=H100))["gpus_free"] == 1


def test_a_group_to_which_such_a_holder_may_belong_is_unknown() -> None:
    estate = estate_of(H100, "T4")
    estate.hold("team-p/placed", "GPU-aaaaaaaa-0000", "08:00", None, 250_000)
    estate.pod("team-p/placed")
    result = holders(estate.store, HoldersSpec(where={"model": H100}, by=("tenant",)))
    held = {row["tenant"]: row["gpus_held"] for row in records(result, "groups")}
    assert held["team-p"] == Fraction("0.25")
    assert isinstance(held["team-n"], Unknown)


def test_a_card_whose_model_nobody_tells_makes_the_supply_of_a_model_unknown() -> None:
    estate = estate_of(H100)
    estate.card("GPU-bbbbbbbb-0000", "node-b", model=None)
    estate.hold("team-p/placed", "GPU-bbbbbbbb-0000", "08:00", None, 1_000_000)
    found = values(q1(estate, model=H100))
    assert isinstance(found["gpus_supply"], Unknown)
    assert isinstance(found["gpus_held"], Unknown)


def test_a_tenants_card_is_not_free_beside_it_while_another_may_hold_it() -> None:
    estate = estate_of(H100, H100)
    estate.pod("team-p/placed")
    estate.hold("team-p/placed", "GPU-aaaaaaaa-0000", "08:00", None, 250_000)
    found = values(q1(estate, tenant="team-p"))
    assert found["gpus_held"] == Fraction("0.25")
    assert isinstance(found["gpus_free"], Unknown)


def test_a_row_of_a_card_is_unobserved_only_where_the_figures_say_so() -> None:
    result = q1(estate_of(H100, H100))
    assert (values(result)["gpus_unobserved"], result.coverage) == (0, 1.0)
    assert all(isinstance(row["occupancy"], Unknown) for row in records(result, "devices"))


@pytest.mark.parametrize("where", [{"tenant": "team-n"}, {"pod": "team-n/plain"}])
def test_what_a_tenant_without_known_cards_has_is_unknown_for_that_reason(where: dict[str, str]) -> None:
    result = q1(estate_of(H100, H100), **where)
    found = values(result)
    assert found["gpus_held"] == 2
    for name in ("gpus_supply", "gpus_free"):
        assert "team-n/plain" in str(found[name]), name
    assert "team-n/plain" in str(result.coverage)


def test_supply_of_placed_cards_does_not_stand_beside_what_is_held_unplaced() -> None:
    estate = estate_of(H100, H100)
    estate.pod("team-n/placed")
    estate.hold("team-n/placed", "GPU-aaaaaaaa-0000", "08:00", None, 250_000)
    found = values(q1(estate, tenant="team-n"))
    assert found["gpus_held"] == Fraction("2.25")
    assert isinstance(found["gpus_supply"], Unknown)


@pytest.mark.parametrize("name", ["team-e/done", "done", "uid-done"])
def test_a_pod_that_ended_says_when(name: str) -> None:
    estate = estate_of(H100)
    estate.pod("team-e/done", phase="Succeeded")
    estate.hold("team-e/done", "GPU-aaaaaaaa-0000", "08:00", "09:30")
    result = q1(estate, pod=name)
    for value in (values(result)["gpus_supply"], values(result)["gpus_free"], result.coverage):
        assert value == Unknown("pod team-e/done ended at 2026-11-30T09:30:00Z and holds no card at this instant")
    assert values(result)["gpus_held"] == 0


def test_only_an_estate_without_cards_says_that_it_has_none() -> None:
    estate = estate_of(H100)
    estate.pod("team-e/idle", gpus=None)
    assert "estate" not in str(values(q1(estate, tenant="team-e"))["gpus_supply"])
    bare = Estate()
    bare.listing(at("12:00"))
    assert "no card of this estate is known" in str(values(q1(bare))["gpus_supply"])


def consumed(*models: str, at_cluster: bool = False) -> Estate:
    estate = estate_of(*models, at_cluster=at_cluster)
    estate.pod("team-p/placed")
    estate.hold("team-p/placed", "GPU-aaaaaaaa-0000", "08:00", None, 250_000)
    estate.post_supply()
    return estate


@pytest.mark.parametrize("where", [{"model": H100}, {"model": "NVIDIA-H100-80GB-HBM3"}, {"vendor": "nvidia"}])
def test_what_was_granted_on_cards_that_are_all_asked_about_counts(where: dict[str, str]) -> None:
    result = q2(consumed(H100, H100), **where)
    assert values(result)["gpu_hours_granted"] == 9
    assert result.coverage == 1.0


@pytest.mark.parametrize(
    ("models", "at_cluster", "where"),
    [
        ((H100, H100), False, {"gpu": "GPU-aaaaaaaa-0001"}),
        ((H100, H100), False, {"gpu": "node-a/1"}),
        ((H100, "T4"), False, {"model": H100}),
        ((H100, "T4"), True, {"model": "T4"}),
    ],
)
def test_what_was_granted_on_a_part_of_the_cards_that_a_holder_may_have_is_unknown(
    models: tuple[str, ...], at_cluster: bool, where: dict[str, str]
) -> None:
    result = q2(consumed(*models, at_cluster=at_cluster), **where)
    of_lines = {name: value for name, value in values(result).items() if name in METHODS}
    assert all("team-n/plain" in str(value) for value in of_lines.values())
    assert all("team-n/plain" in str(f.coverage) for f in result.figures if f.name in METHODS)
    assert "team-n/plain" in str(result.coverage)
    assert any("team-n/plain" in spot for spot in result.blind_spots)
    rows = {row["tenant"]: row["gpu_hours_granted"] for row in records(result, "consumption")}
    assert isinstance(rows["team-n"], Unknown)
    assert rows.get("team-p", 1) == 1
    pod = next(row for row in records(result, "pods") if row["pod"] == "plain")
    assert isinstance(pod["gpus_granted"], Unknown)
    assert pod["gpus_requested"] == 2


def test_what_was_granted_on_another_node_is_known() -> None:
    estate = consumed(H100, "T4")
    estate.card("GPU-bbbbbbbb-0000", "node-b", model="A100")
    assert values(q2(estate, model="A100"))["gpu_hours_granted"] == 0
    assert values(q2(estate, tenant="team-p"))["gpu_hours_granted"] == 1


@pytest.mark.parametrize("question", [(holders, HoldersSpec), (consumption, ConsumptionSpec)])
def test_whoever_may_not_know_the_cards_learns_none_from_a_holder_without_one(question: tuple[Any, Any]) -> None:
    function, spec = question
    there, nowhere = (
        function(consumed(H100, "T4").store, spec(where={"tenant": "team-n", "gpu": name}, confined=True))
        for name in ("GPU-aaaaaaaa-0001", "GPU-cccccccc-0001")
    )
    assert values(there) == values(nowhere)
