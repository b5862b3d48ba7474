"""Free shares, their fragmentation, and what fits, over estates whose every number can be checked by hand."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from steelyard.answers.contract import Answer, Value
from steelyard.answers.fits import FitsSpec, fits
from steelyard.answers.fragmentation import FragmentationSpec, answer
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US
from steelyard.primitives.unknown import Unknown
from tests.answers.estate import Estate, at

A100 = "NVIDIA A100-SXM4-80GB"


def estate_of(*cards: tuple[str, str], **values: Any) -> Estate:
    """Cards (uuid, node), all pods seen at 08:00 and 12:00 and throughout."""
    estate = Estate()
    estate.listing(at("08:00"), observed_from_at=at("08:00"), observed_to_at=at("12:00"))
    for index, (uuid, node) in enumerate(cards):
        estate.card(uuid, node, index, valid_to_at=None, **values)
    return estate


def asks(estate: Estate, count: int, **shape: Any) -> None:
    """So many requests of a shape."""
    row = {
        "cluster": "default",
        "asked_hour_at": at("09:00"),
        "cards_count": 1,
        "resource_names": "nvidia.com/gpu",
        "requests_count": count,
    }
    estate.insert("dim.request_class", **{**row, **shape})


def values(result: Answer) -> dict[str, Value]:
    return {figure.name: figure.value for figure in result.figures}


def rows(result: Answer, name: str) -> list[Mapping[str, Value]]:
    found = next(table for table in result.tables if table.name == name)
    return [dict(zip((column.name for column in found.columns), row, strict=True)) for row in found.rows]


def weighed(estate: Estate, **spec: Any) -> dict[str, Value]:
    return values(answer(estate.store, FragmentationSpec(**spec)))


def costs(estate: Estate, node: str, uuid: str, hour: str, micro: int | None, currency: str | None = "USD") -> None:
    """One hour of a card in the cost ledger."""
    estate.insert(
        "ledger.cost", cluster="default", place_kind="device", place_id=uuid, node=node, device_uuid=uuid, grain_at=at(hour), account="idle",
        amount_gpu_us=HOUR_US, currency=currency, cost_micro=micro, unpriced_reason="model unknown" if micro is None else None,
    )  # fmt: skip


def trapped_estate() -> Estate:
    """Half of one of n1's two cards is free, and of no use to requests for whole cards; n2's card is free and usable."""
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n1"), ("GPU-c", "n2"))
    estate.pod("team-a/p")
    estate.pod("team-a/q")
    estate.hold("team-a/p", "GPU-a", "08:00", None, 500_000, node="n1")
    estate.hold("team-a/q", "GPU-b", "08:00", None, 1_000_000, node="n1")
    asks(estate, 3)
    return estate


def test_what_is_trapped_costs_an_hour_what_its_nodes_cards_cost_last() -> None:
    estate = trapped_estate()
    for uuid, first, last in (("GPU-a", 9_000_000, 2_000_000), ("GPU-b", 9_000_000, 4_000_000)):
        costs(estate, "n1", uuid, "10:00", first)
        costs(estate, "n1", uuid, "11:00", last)
    result = answer(estate.store, FragmentationSpec())
    found = values(result)
    assert (found["gpus_trapped"], found["currency"], found["trapped_cost_per_hour"]) == (
        Fraction(1, 2),
        "USD",
        Fraction("1.5"),
    )
    by_node = {row["node"]: row["trapped_cost_per_hour"] for row in rows(result, "nodes")}
    assert by_node == {"n1": Fraction("1.5"), "n2": Unknown("no price book was imported")}


def test_a_node_of_which_a_card_has_no_price_makes_the_cost_of_what_is_trapped_unknown() -> None:
    estate = trapped_estate()
    costs(estate, "n1", "GPU-a", "11:00", 2_000_000)
    costs(estate, "n1", "GPU-b", "11:00", None, None)
    found = weighed(estate)
    assert found["trapped_cost_per_hour"] == found["currency"] == Unknown("unpriced: model unknown")


def test_where_nothing_is_trapped_it_costs_nothing() -> None:
    estate = estate_of(("GPU-a", "n1"))
    asks(estate, 3)
    assert weighed(estate)["trapped_cost_per_hour"] == 0


def test_what_no_typical_request_can_use_is_trapped() -> None:
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n1"))
    estate.pod("team-a/p")
    estate.hold("team-a/p", "GPU-a", "08:00", None, 500_000, node="n1")
    asks(estate, 3)
    found = weighed(estate)
    assert found["gpus_free"] == Fraction(3, 2)
    assert found["gpus_trapped"] == Fraction(1, 2)
    assert found["fragmentation_ratio"] == Fraction(1, 3)
    assert found["trapped_ratio"] == Fraction(1, 4)
    assert found["units_fitting_ratio"] == Fraction(1, 2)


def test_free_is_usable_trapped_or_blocked_to_the_last_part() -> None:
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n1"))
    estate.card("GPU-c", "n1", 2, valid_to_at=None, cordoned=True)
    estate.hold("team-a/p", "GPU-a", "08:00", None, 300_000, node="n1")
    asks(estate, 2)
    asks(estate, 1, memory_mib=4_000, resource_names="nvidia.com/gpu,nvidia.com/gpumem")
    result = answer(estate.store, FragmentationSpec())
    found = values(result)
    usable = sum(row["gpus_q3_satisfied"] for row in rows(result, "nodes"))  # type: ignore[misc]  # cells are of any kind, these are numbers
    assert found["gpus_interference_blocked"] == 1
    assert float(found["gpus_trapped"]) + float(usable) + 1 == pytest.approx(float(found["gpus_free"]))  # type: ignore[arg-type]  # numbers here


@pytest.mark.parametrize(
    ("state", "blocked"), [("memory_bound", 1), ("saturated", 1), ("compute_bound", 0), ("held_idle", 0)]
)
def test_free_share_on_a_card_that_is_bound_by_memory_is_blocked(state: str, blocked: int) -> None:
    estate = estate_of(("GPU-a", "n1"))
    estate.hold("team-a/p", "GPU-a", "08:00", None, 500_000, node="n1")
    asks(estate, 1)
    other = "mixed" if state != "mixed" else "held_idle"
    for name, amount in ((state, 2_000_000), (other, 1_000_000)):
        estate.insert(
            "ledger.gpu_state", cluster="default", device_uuid="GPU-a", pod_uid="uid-p", state=name,
            amount_gpu_us=amount, grain_at=at("11:00"),
        )  # fmt: skip
    assert weighed(estate)["gpus_interference_blocked"] == Fraction(blocked, 2)
    assert values(fits(estate.store, FitsSpec(gpumem=1_000)))["nodes_fitting_count"] == 1 - blocked


def test_memory_can_be_trapped_where_share_alone_would_say_that_it_fits() -> None:
    estate = estate_of(("GPU-a", "n1"))
    estate.hold("team-a/p", "GPU-a", "08:00", None, 500_000, node="n1", memory_mib=15_000, cores_percent=10)
    asks(
        estate,
        1,
        memory_mib=4_000,
        cores_percent=50,
        resource_names="nvidia.com/gpu,nvidia.com/gpumem,nvidia.com/gpucores",
    )
    found = weighed(estate)
    assert found["fragmentation_ratio"] == 1
    assert found["fragmentation_ratio_memory"] == 1
    assert found["fragmentation_ratio_compute"] == 0
    assert isinstance(
        found["fragmentation_ratio_gpu_classes_only"], Unknown
    )  # nobody tells of CPU, which the published test asks for


def test_a_request_without_a_card_can_use_none_and_counts_in_the_papers_measure_alone() -> None:
    estate = estate_of(("GPU-a", "n1"))
    estate.insert("dim.node", cluster="default", node="n1", cpu_milli=8_000, first_seen_at=at("08:00"))
    asks(estate, 1, cpu_milli=1_000)
    asks(estate, 1, cards_count=0, resource_names="", cpu_milli=1_000)
    found = weighed(estate)
    assert found["fragmentation_ratio"] == 0
    assert found["fragmentation_ratio_paper"] == Fraction(1, 2)
    assert found["fragmentation_ratio_empty_paper"] == Fraction(1, 2)
    assert found["fragmentation_ratio_empty_gpu_classes_only"] == 0


def test_requests_older_than_the_days_are_not_typical() -> None:
    estate = estate_of(("GPU-a", "n1"))
    asks(estate, 5, asked_hour_at=at("2026-10-01T00:00:00Z"))
    assert isinstance(weighed(estate)["fragmentation_ratio"], Unknown)
    assert weighed(estate, days=90)["fragmentation_ratio"] == 0


def test_a_past_instant_is_weighed_by_what_was_held_then() -> None:
    estate = estate_of(("GPU-a", "n1"))
    estate.hold("team-a/p", "GPU-a", "10:00", None, 500_000, node="n1")
    asks(estate, 1, asked_hour_at=at("08:00"))
    assert weighed(estate, at=at("09:30"))["gpus_free"] == 1
    assert weighed(estate, at=at("09:30"))["fragmentation_ratio"] == 0
    assert weighed(estate, at=at("11:00"))["fragmentation_ratio"] == 1


def test_where_nobody_saw_all_pods_nothing_is_called_free() -> None:
    estate = Estate()
    estate.listing(at("08:00"))
    estate.listing(at("12:00"))
    estate.card("GPU-a", "n1", valid_to_at=None)
    asks(estate, 1)
    found = weighed(estate, at=at("10:00"))
    assert isinstance(found["gpus_free"], Unknown)
    assert isinstance(found["fragmentation_ratio"], Unknown)
    assert found["gpus_free_unknown"] == 1
    assert values(fits(estate.store, FitsSpec(at=at("10:00"))))["nodes_unknown_count"] == 1


def test_whole_cards_held_without_a_name_leave_a_known_number() -> None:
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n1"), ("GPU-c", "n1"))
    estate.hold(
        "team-a/p",
        None,
        "08:00",
        None,
        2_000_000,
        node="n1",
        place_id="n1",
        quantity=2,
        unit_kind="gpu",
        scheme="device_plugin",
    )
    asks(estate, 1)
    assert weighed(estate)["gpus_free"] == 1
    assert values(fits(estate.store, FitsSpec(gpus=1)))["cards_fitting_count"] == 1
    assert values(fits(estate.store, FitsSpec(gpus=2)))["nodes_fitting_count"] == 0
    assert rows(fits(estate.store, FitsSpec(gpus=1)), "nodes")[0]["cards"] == "any free one"


def test_a_part_of_a_card_held_without_a_name_makes_the_nodes_cards_unknown() -> None:
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n1"))
    estate.hold("team-a/p", None, "08:00", None, 500_000, node="n1", place_id="n1")
    asks(estate, 1)
    assert isinstance(weighed(estate)["gpus_free"], Unknown)
    assert values(fits(estate.store, FitsSpec()))["nodes_unknown_count"] == 1


def test_instances_fit_at_legal_starts_alone() -> None:
    """Six of eight slices are free beside 1g.10gb at 0 and 4: 2g.20gb fits at 2, and 3g.40gb nowhere, since it begins at 0 or 4."""
    estate = estate_of(("GPU-a", "n1"), model=A100, memory_mib=81_920, mode="mig")
    for number, start in enumerate((0, 4)):
        unit = f"MIG-{number}"
        estate.insert(
            "dim.unit", cluster="default", unit_id=unit, unit_kind="mig", device_uuid="GPU-a", gi=number, profile="1g.10gb",
            placement_start=start, placement_size=1, first_seen_at=at("08:00"),
        )  # fmt: skip
        estate.hold(
            f"team-a/p{number}", "GPU-a", "08:00", None, 142_857, node="n1", unit_kind="mig", unit_id=unit, gi=number, profile="1g.10gb"
        )  # fmt: skip
    asks(estate, 1, resource_names="nvidia.com/mig-2g.20gb")
    assert weighed(estate)["fragmentation_ratio_mig"] == 0
    asks(estate, 1_000, resource_names="nvidia.com/mig-3g.40gb")
    assert weighed(estate)["fragmentation_ratio_mig"] == 1
    assert values(fits(estate.store, FitsSpec(mig="2g.20gb")))["nodes_fitting_count"] == 1
    assert values(fits(estate.store, FitsSpec(mig="3g.40gb")))["nodes_fitting_count"] == 0


def test_two_compute_instances_of_one_gpu_instance_take_its_slices_once() -> None:
    estate = estate_of(("GPU-a", "n1"), model=A100, memory_mib=81_920, mode="mig")
    for number in range(2):
        unit = f"MIG-{number}"
        estate.insert(
            "dim.unit", cluster="default", unit_id=unit, unit_kind="mig", device_uuid="GPU-a", gi=1, profile="1c.2g.20gb",
            placement_start=0, placement_size=2, first_seen_at=at("08:00"),
        )  # fmt: skip
        estate.hold(
            f"team-a/p{number}", "GPU-a", "08:00", None, 142_857, node="n1", unit_kind="mig", unit_id=unit, gi=1, profile="1c.2g.20gb"
        )  # fmt: skip
    assert values(fits(estate.store, FitsSpec(gpus=1, mig="3g.40gb")))["nodes_fitting_count"] == 1
    asks(estate, 1, resource_names="nvidia.com/mig-2g.20gb")
    assert rows(answer(estate.store, FragmentationSpec()), "nodes")[0]["cards_fitting_count"] == 1


def test_an_instance_whose_place_nobody_tells_fits_where_every_arrangement_agrees() -> None:
    estate = estate_of(("GPU-a", "n1"), model=A100, memory_mib=81_920, mode="mig")
    estate.hold("team-a/p", "GPU-a", "08:00", None, 142_857, node="n1", unit_kind="mig", unit_id="x", profile="1g.10gb")
    assert values(fits(estate.store, FitsSpec(mig="3g.40gb")))["nodes_fitting_count"] == 1
    found = values(fits(estate.store, FitsSpec(mig="4g.40gb")))
    assert (found["nodes_fitting_count"], found["nodes_unknown_count"]) == (0, 1)
    assert values(fits(estate.store, FitsSpec(mig="7g.80gb")))["nodes_unknown_count"] == 0


def test_the_smallest_move_names_fewest_pods_then_the_least_share() -> None:
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n1"), ("GPU-c", "n2"))
    for name, card, node, share in (
        ("big", "GPU-a", "n1", 300_000), ("small", "GPU-b", "n1", 200_000), ("other", "GPU-c", "n2", 400_000),
    ):  # fmt: skip
        estate.pod(f"team-a/{name}", node=node)
        estate.hold(f"team-a/{name}", card, "08:00", None, share, node=node)
    result = fits(estate.store, FitsSpec(gpus=1))
    assert values(result)["nodes_fitting_count"] == 0
    assert values(result)["pods_to_move_count"] == 1
    move = rows(result, "moves")[0]
    assert (move["namespace_pod"], move["from_node"], move["from_cards"]) == ("team-a/small", "n1", "GPU-b")
    assert move["to_node"] in ("n1", "n2")
    two = fits(estate.store, FitsSpec(gpus=2))
    assert [row["namespace_pod"] for row in rows(two, "moves")] == ["team-a/small", "team-a/big"]
    assert {row["to_node"] for row in rows(two, "moves")} == {"n2"}


def test_no_move_is_proposed_where_the_pod_would_find_no_place() -> None:
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n2"))
    estate.hold("team-a/p", "GPU-a", "08:00", None, 600_000, node="n1")
    estate.hold("team-a/q", "GPU-b", "08:00", None, 600_000, node="n2")
    result = fits(estate.store, FitsSpec(gpus=1))
    assert isinstance(values(result)["pods_to_move_count"], Unknown)
    assert "moves" not in {table.name for table in result.tables}


def test_a_tenant_learns_how_many_would_move_and_not_who() -> None:
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n2"))
    estate.pod("team-a/p", node="n1")
    estate.hold("team-a/p", "GPU-a", "08:00", None, 300_000, node="n1")
    estate.pod("team-b/q", node="n2")
    estate.hold("team-b/q", "GPU-b", "08:00", None, 400_000, node="n2")
    own, others = (fits(estate.store, FitsSpec(tenant=tenant, explain=True)) for tenant in ("team-a", "team-b"))
    assert rows(own, "moves")[0]["namespace_pod"] == "team-a/p"
    assert isinstance(rows(others, "moves")[0]["namespace_pod"], Unknown)
    assert values(others)["pods_to_move_count"] == 1
    assert "team-a" not in str(others.to_json()) and "GPU-a" not in str(others.to_json())


def test_not_enough_cpu_is_said_and_unknown_cpu_is_no_reason() -> None:
    estate = estate_of(("GPU-a", "n1"))
    assert values(fits(estate.store, FitsSpec(cpu=8)))["nodes_fitting_count"] == 1
    estate.insert("dim.node", cluster="default", node="n1", cpu_milli=4_000, first_seen_at=at("08:00"))
    result = fits(estate.store, FitsSpec(cpu=8))
    assert rows(result, "nodes")[0]["reason"] == "not enough CPU"
    assert values(result)["nodes_fitting_count"] == 0


@pytest.mark.parametrize(
    "spec",
    [
        {"gpus": 0}, {"gpus": 10**9}, {"gpumem": 0}, {"gpumem": 10**12}, {"cores": -1}, {"cores": 101}, {"cpu": -1.0}, {"cpu": float("nan")},
        {"cpu": float("inf")}, {"mig": "no profile"}, {"mig": "1g.10gb", "gpumem": 5}, {"cluster": "elsewhere"},
    ],
)  # fmt: skip
def test_what_no_request_can_be_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        fits(estate_of(("GPU-a", "n1")).store, FitsSpec(**spec))


@pytest.mark.parametrize("days", [0, -1, 10**9])
def test_days_that_are_none_are_refused(days: int) -> None:
    with pytest.raises(UsageError):
        weighed(estate_of(("GPU-a", "n1")), days=days)


def test_an_instant_outside_the_known_time_has_no_figure() -> None:
    found = weighed(estate_of(("GPU-a", "n1")), at=at("2026-01-01T00:00:00Z"))
    assert all(isinstance(value, Unknown) for value in found.values())


def test_declared_requests_stand_for_those_that_were_seen() -> None:
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n1"))
    asks(estate, 3)
    assert weighed(estate)["gpus_trapped"] == 0
    for position, (weight, count, models) in enumerate([(1, 1, ""), (3, 4, ""), (4, 0, "")]):
        estate.insert(
            "dim.declared_class", position=position, weight=weight, cards_count=count, share_ppm=1_000_000 if count else None, models=models
        )  # fmt: skip
    result = answer(estate.store, FragmentationSpec())
    assert (
        values(result)["gpus_trapped"] == Fraction(3, 4) * 2
    )  # three of four that want cards want four of them, and there are two
    assert [(row["cards_count"], row["popularity_ratio"]) for row in rows(result, "request_classes")] == [
        (0, 0.5),
        (4, 0.375),
        (1, 0.125),
    ]
    assert any("settings declare" in spot for spot in result.blind_spots)


def test_a_declared_model_binds() -> None:
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n1"), model=A100)
    for models, trapped in (("A100|H100", 0), ("H100", 2)):
        estate.store.execute("DELETE FROM dim.declared_class")
        estate.insert("dim.declared_class", position=0, weight=1, cards_count=1, share_ppm=1_000_000, models=models)
        assert weighed(estate)["gpus_trapped"] == trapped


@pytest.mark.parametrize("instant", ["2026-10-01T00:00:00Z", "2027-10-01T00:00:00Z"])
def test_what_fits_outside_the_known_time_is_unknown_and_says_why(instant: str) -> None:
    result = fits(estate_of(("GPU-a", "n1")).store, FitsSpec(at=at(instant)))
    assert {type(value) for value in values(result).values()} == {Unknown}
    assert isinstance(result.coverage, Unknown)


@pytest.mark.parametrize(
    ("spec", "card", "reason"),
    [
        ({"model": "H100"}, {"model": "NVIDIA L40S"}, "no card of the model that is asked for"),
        ({"mig": "1g.10gb"}, {"model": A100}, "no card is in MIG mode: an instance is made on such a card alone"),
        (
            {"gpus": 1}, {"model": A100, "mode": "mig"},
            "its cards are cut into instances: they serve requests for a profile alone",
        ),
        ({"gpus": 2}, {"model": A100}, "1 of 2 cards are large enough"),
    ],
)  # fmt: skip
def test_a_node_on_which_nothing_fits_says_which_dimension_refuses(
    spec: dict[str, Any], card: dict[str, Any], reason: str
) -> None:
    result = fits(estate_of(("GPU-a", "n1"), **card).store, FitsSpec(**spec))
    assert [row["reason"] for row in rows(result, "nodes")] == [reason]


def test_what_nobody_can_tell_the_fit_of_stands_in_a_column_and_the_identity_holds() -> None:
    estate = estate_of(("GPU-b", "n1"), ("GPU-c", "n2"))
    estate.card("GPU-a", "n1", 1, valid_to_at=None, memory_mib=None)
    estate.hold("team-a/p", "GPU-a", "08:00", None, 400_000, node="n1", memory_mib=None)
    asks(estate, 1)
    asks(estate, 2, memory_mib=4_000, resource_names="nvidia.com/gpu,nvidia.com/gpumem")
    result = answer(estate.store, FragmentationSpec())
    found = values(result)
    parts = ("gpus_usable", "gpus_trapped", "gpus_fit_unknown", "gpus_interference_blocked")
    assert sum(found[name] for name in parts) == found["gpus_free"]  # type: ignore[misc]  # numbers here
    assert found["gpus_fit_unknown"] == Fraction(2, 5)
    assert found["fragmentation_ratio"] == Fraction(found["gpus_trapped"]) / (found["gpus_free"] - Fraction(2, 5))  # type: ignore[operator, arg-type]  # numbers here
    for row in rows(result, "nodes"):
        told = (row[name] for name in ("gpus_q3_satisfied", *parts[1:]))
        assert sum(told) == pytest.approx(row["gpus_free"])  # type: ignore[arg-type]  # numbers here


def in_use(estate: Estate, mib: int, hour: str = "11:58", uuid: str = "GPU-a") -> None:
    """What a sample of a card's memory shows."""
    estate.insert("dim.memory_sample", cluster="default", device_uuid=uuid, sampled_at=at(hour), memory_mib=mib)


def room_left(estate: Estate, **spec: Any) -> tuple[int, int]:
    """Nodes on which a request fits, and nodes of which it is not known."""
    found = values(fits(estate.store, FitsSpec(**spec)))
    return found["nodes_fitting_count"], found["nodes_unknown_count"]  # type: ignore[return-value]  # they are counts


def test_memory_that_is_in_use_and_that_nobody_holds_is_not_offered() -> None:
    estate = estate_of(("GPU-a", "n1"))
    asks(estate, 1)
    in_use(estate, 4_000)
    found = weighed(estate)
    assert (found["gpus_free"], found["gpus_interference_blocked"], found["gpus_usable"]) == (1, Fraction(1, 4), 0)
    assert found["gpus_trapped"] == Fraction(3, 4)
    assert room_left(estate) == (0, 0)
    assert room_left(estate, gpumem=12_000) == (1, 0)
    result = fits(estate.store, FitsSpec(gpumem=12_001))
    assert rows(result, "nodes")[0]["reason"] == (
        "0 of 1 cards are large enough; 4000 MiB are in use on its cards that nobody was granted"
    )
    assert any(
        "4000 MiB are in use on 1 cards" in spot for spot in answer(estate.store, FragmentationSpec()).blind_spots
    )


@pytest.mark.parametrize(
    ("used_mib", "granted_mib", "fitting"),
    [(8_000, 8_000, 8_000), (3_000, 8_000, 8_000), (9_023, 8_000, 8_000), (9_024, 8_000, 6_976), (9_024, None, 6_976)],
)
def test_memory_is_taken_off_as_far_as_it_is_more_than_was_granted_and_more_than_a_driver_takes(
    used_mib: int, granted_mib: int | None, fitting: int
) -> None:
    estate = estate_of(("GPU-a", "n1"))
    estate.hold("team-a/p", "GPU-a", "08:00", None, 500_000, node="n1", memory_mib=granted_mib, cores_percent=10)
    in_use(estate, used_mib)
    if granted_mib is not None:
        assert room_left(estate, gpumem=fitting) == (1, 0)
        assert room_left(estate, gpumem=fitting + 1) == (0, 0)
    else:
        assert weighed(estate)["gpus_interference_blocked"] == Fraction(1_024, 16_000)


def test_memory_of_a_holder_that_ended_since_or_as_the_sample_was_taken_is_nobody_elses() -> None:
    estate = estate_of(("GPU-a", "n1"))
    estate.hold("team-a/p", "GPU-a", "08:00", "11:57", 1_000_000, node="n1")
    in_use(estate, 9_000)
    assert room_left(estate) == (1, 0)
    in_use(estate, 9_000, "11:59")
    assert room_left(estate) == (0, 0)


@pytest.mark.parametrize("hour", ["10:59", "12:01"])
def test_a_sample_of_another_time_tells_nothing_of_memory(hour: str) -> None:
    estate = estate_of(("GPU-a", "n1"))
    in_use(estate, 9_000, hour)
    assert room_left(estate) == (1, 0)


def test_memory_beside_a_pod_on_an_unknown_card_of_the_node_may_be_that_pods() -> None:
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n1"))
    estate.hold(
        "team-a/p", None, "08:00", None, 1_000_000, node="n1", place_id="n1", unit_kind="gpu", scheme="device_plugin"
    )
    in_use(estate, 9_000)
    assert values(fits(estate.store, FitsSpec()))["cards_fitting_count"] == 1


def test_in_which_instance_of_a_cut_card_memory_is_in_use_is_not_known() -> None:
    estate = estate_of(("GPU-a", "n1"), model=A100, memory_mib=81_920, mode="mig")
    in_use(estate, 9_000)
    assert room_left(estate, mig="1g.10gb") == (0, 1)
    assert weighed(estate)["gpus_free_unknown"] == 1


def test_a_card_from_which_a_pod_would_move_away_is_no_room_for_what_is_in_use_beside_it() -> None:
    estate = estate_of(("GPU-a", "n1"), ("GPU-b", "n2"))
    for card, node in (("GPU-a", "n1"), ("GPU-b", "n2")):
        estate.pod(f"team-a/{node}", node=node)
        estate.hold(f"team-a/{node}", card, "08:00", None, 400_000, node=node, memory_mib=6_400, cores_percent=40)
    in_use(estate, 9_000)
    moved = rows(fits(estate.store, FitsSpec()), "moves")
    assert [move["from_node"] for move in moved] == ["n2"]
