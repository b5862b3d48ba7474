"""Q3 over a story that can be checked by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from steelyard.answers import card_spent
from steelyard.answers.card_spent import NOT_TOLD, CardSpent, UnheldMemory, spent_cards
from steelyard.answers.contract import Answer, Table
from steelyard.answers.q03_utilisation import UtilisationSpec, answer
from steelyard.answers.reading import Reading
from steelyard.answers.registry import entry
from steelyard.answers.state_capacity import SHOWN
from steelyard.answers.state_cards import cards_table, verdict
from steelyard.answers.state_series import state_series
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US, Window
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.http_api.exposition import Traffic, exposition
from steelyard.surfaces.shared.server_ports import Standing
from tests.answers.estate import Estate, at, small_story
from tests.answers.state_story import FIRST, SECOND, state, state_story
from tests.conftest import REPOSITORY


def ask(estate: Estate | None = None, **spec: Any) -> Answer:
    return answer((estate or state_story()).store, UtilisationSpec(**spec))


def figure(result: Answer, name: str) -> Any:
    return next(figure.value for figure in result.figures if figure.name == name)


def table(result: Answer, name: str) -> Table:
    return next(table for table in result.tables if table.name == name)


def rows(result: Answer, name: str) -> list[dict[str, Any]]:
    found = table(result, name)
    return [dict(zip((column.name for column in found.columns), row, strict=True)) for row in found.rows]


def test_states_add_up_to_supply() -> None:
    result = ask()
    assert figure(result, "gpu_hours_supply") == 8
    assert figure(result, "states_residual_gpu_us") == 0
    assert sum(row["gpu_hours"] for row in rows(result, "states")) == 8
    assert sum(row["share_of_supply"] for row in rows(result, "states")) == pytest.approx(1)


def test_a_state_that_is_booked_beyond_supply_is_a_residual() -> None:
    estate = state_story()
    state(estate, "08:00", FIRST, "free_no_demand", -0.5)
    state(estate, "09:00", FIRST, "free_no_demand", 0.5)
    assert figure(ask(estate), "states_residual_gpu_us") == 3_600_000_000


def test_the_figures_are_sums_of_states() -> None:
    result = ask()
    expected = {
        "gpu_hours_held": Fraction(19, 4),
        "gpu_hours_working": Fraction(3, 2),
        "gpu_hours_wasted": Fraction(7, 4),
        "gpu_hours_held_unknown": 1,
        "gpu_hours_free_waiting": 2,
        "gpu_hours_pending": 6,
    }
    assert {name: figure(result, name) for name in expected} == expected
    assert figure(result, "working_ratio") == pytest.approx(1.5 / 3.75)
    assert figure(result, "saturation_ratio") == pytest.approx(6 / 8)
    assert result.coverage == pytest.approx(7 / 8)


def test_groups_add_up_to_the_figures() -> None:
    result = ask(by=("tenant", "state"))
    held = [row for row in rows(result, "states") if row["tenant"] == "team-b"]
    assert {(row["state"], row["cause"]): row["gpu_hours"] for row in held} == {
        ("held_idle", "interactive"): Fraction(3, 4),
        ("held_low", "interactive"): Fraction(1, 2),
    }
    assert sum(row["gpu_hours"] for row in rows(result, "states")) == 8


def test_idle_holders_are_ranked_by_waste_with_since_when_and_whose() -> None:
    found = rows(ask(), "idle_holders")
    assert [(row["pod"], row["gpu_hours_wasted"], row["idle_since"]) for row in found] == [
        ("train", 1, "2026-11-30T09:00:00Z"),
        ("notebook", Fraction(3, 4), "2026-11-30T10:00:00Z"),
    ]
    assert found[1]["owner"] == "team-b/Deployment/notebook"
    assert found[1]["gpu_hours_low"] == Fraction(1, 2)


def test_causes_name_the_owner_of_most_of_them() -> None:
    found = {(row["state"], row["cause"]): row for row in rows(ask(), "causes")}
    assert found["suspected_hang", None]["owner"] == "team-a/Deployment/train"
    waiting = found["free_waiting", "quota"]
    assert (waiting["owner"], waiting["tenants"], waiting["pods"]) == ("team-b/Job/waiting", "team-b", 0)
    assert waiting["owner_gpu_hours"] == waiting["gpu_hours"] == 2
    assert not {state for state, _cause in found} & {"memory_bound", "compute_bound", "mixed", "saturated"}


def test_a_condition_on_pods_leaves_out_what_nobody_holds() -> None:
    result = ask(where={"tenant": "team-b"})
    assert {row["state"] for row in rows(result, "states")} == {"held_idle", "held_low"}
    assert figure(result, "gpu_hours_supply") == 8
    assert figure(result, "gpu_hours_pending") == 6


def test_requests_have_no_node_so_saturation_of_a_node_is_unknown() -> None:
    result = ask(where={"node": "node-a"})
    assert isinstance(figure(result, "saturation_ratio"), Unknown)
    assert figure(result, "gpu_hours_supply") == 8


def test_a_card_that_is_bound_by_memory_takes_no_tenant() -> None:
    found = {row["gpu"]: row for row in rows(ask(window=Window(at("08:00"), at("09:00"))), "cards")}
    assert found[FIRST]["may_add_tenant"] == "no"
    assert found[FIRST]["because"] == "its memory bandwidth is spent"
    assert found[FIRST]["free_ratio"] == 0.75
    assert found[SECOND]["may_add_tenant"] == "yes"


@pytest.mark.parametrize(
    ("card", "states", "allowed"),
    [
        ({"placeable": False, "state_reason": "frozen"}, {"free_no_demand": 10}, "no"),
        ({}, {"free_no_demand": 10}, "yes"),
        ({}, {"memory_bound": 1, "compute_bound": 4, "free_no_demand": 5}, "yes"),
        ({}, {"suspected_hang": 1, "compute_bound": 4, "free_no_demand": 5}, "no"),
        ({}, {"compute_bound": 10}, "no"),
        ({}, {"out_of_service": 10}, "no"),
        ({}, {"held_unknown": 5, "free_no_demand": 5}, None),
        ({}, {"unobserved": 10}, None),
        ({}, {}, None),
    ],
)
def test_may_a_tenant_be_added(card: dict[str, Any], states: dict[str, int], allowed: str | None) -> None:
    found, reason = verdict(card, states, NOT_TOLD)
    assert (None if isinstance(found, Unknown) else found) == allowed
    assert reason


@pytest.mark.parametrize(
    "states",
    [{"free_no_demand": 10}, {"held_unattributed": 5, "free_no_demand": 5}, {"held_idle": 5, "free_no_demand": 5}],
)
@pytest.mark.parametrize("spent", ["memory_bound", "saturated"])
def test_nobody_is_added_to_a_card_whose_bandwidth_is_spent_whoever_spends_it(
    states: dict[str, int], spent: str
) -> None:
    assert verdict({}, states, CardSpent(spent, True))[0] == "no"


def test_a_yes_for_a_card_that_nobody_measured_says_so() -> None:
    assert "not measured" in verdict({}, {"free_no_demand": 10}, NOT_TOLD)[1]
    assert "not spent" in verdict({}, {"free_no_demand": 10}, CardSpent(None, True))[1]


def test_beside_a_pod_on_a_card_that_no_source_names_no_card_of_the_node_gets_a_yes() -> None:
    cards = [
        {"cluster": "c", "node": node, "device_uuid": uuid, "model": None} for node, uuid in (("n1", "a"), ("n2", "b"))
    ]
    last = [
        {
            "cluster": "c",
            "device_uuid": uuid,
            "state": "free_no_demand",
            "amount_gpu_us": 10,
            "at_us": 7,
            "pods_count": 0,
        }
        for uuid in "ab"
    ]
    found, _left = cards_table(cards, last, {}, {("c", "n1", 7), ("c", "n2", 6)})
    place = [column.name for column in found.columns].index("may_add_tenant")
    verdicts = {row[1]: row[place] for row in found.rows}
    assert (isinstance(verdicts["a"], Unknown), verdicts["b"]) == (True, "yes")


@pytest.mark.parametrize(
    ("states", "pods", "unheld", "allowed", "free_ratio"),
    [
        (
            {"free_no_demand": 100},
            0,
            UnheldMemory(7, 4_000, 16_000),
            Unknown("4000 MiB are in use on it that nobody was granted"),
            0.75,
        ),
        ({"free_no_demand": 100}, 0, UnheldMemory(7, 16_000, 16_000), "no", 0.0),
        ({"mixed": 60, "free_no_demand": 40}, 1, UnheldMemory(7, 4_000, 16_000), "yes", 0.15),
        ({"mixed": 80, "free_no_demand": 20}, 1, UnheldMemory(7, 4_000, 16_000), "no", 0.0),
        (
            {"free_no_demand": 100},
            0,
            UnheldMemory(7, 4_000, None),
            Unknown("4000 MiB are in use on it that nobody was granted"),
            0.0,
        ),
        ({"free_no_demand": 100}, 0, UnheldMemory(6, 4_000, 16_000), "yes", 1.0),
        ({"free_no_demand": 100}, 0, None, "yes", 1.0),
    ],
)
def test_memory_that_is_in_use_and_that_nobody_was_granted_is_no_room_for_a_tenant(
    states: dict[str, int], pods: int, unheld: UnheldMemory | None, allowed: Any, free_ratio: float
) -> None:
    """A card of the last grain, which begins at 7; a sample before it tells nothing of it."""
    card = {"cluster": "c", "node": "n1", "device_uuid": "a", "model": None}
    last = [
        {"cluster": "c", "device_uuid": "a", "state": state, "amount_gpu_us": amount, "at_us": 7, "pods_count": pods}
        for state, amount in states.items()
    ]
    found, _left = cards_table([card], last, {}, (), {} if unheld is None else {("c", "a"): unheld})
    names = [column.name for column in found.columns]
    row = dict(zip(names, found.rows[0], strict=True))
    assert (row["may_add_tenant"], row["free_ratio"]) == (allowed, pytest.approx(free_ratio))
    assert ("MiB" in str(row["because"])) is (unheld is not None and unheld.at == 7)


def test_a_card_that_works_for_nobody_who_holds_it_gets_no_yes() -> None:
    assert verdict({}, {"free_no_demand": 10}, CardSpent(None, True, True))[0] == Unknown(
        "it is at work and nobody holds it"
    )
    assert verdict({}, {"mixed": 5, "free_no_demand": 5}, CardSpent(None, True, True))[0] == "yes"


def told_of(estate: Estate) -> dict[str, tuple[str | None, bool]]:
    window = Window(at("09:00"), at("10:00"))
    found = spent_cards(Reading(estate.store, card_spent.SQL), window)
    return {uuid: (told.spent, told.is_measured) for (_cluster, uuid, _grain), told in found.items()}


def stated(estate: Estate, pod: str, amount: int, state: str, cause: str | None = None, basis: str = "card") -> None:
    estate.insert(
        "ledger.gpu_state", cluster="default", place_kind="device", place_id=FIRST, node="node-a", device_uuid=FIRST, grain_at=at("09:00"),
        pod_uid=pod, state=state, cause=cause, basis=basis, amount_gpu_us=amount,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "spent"),
    [
        ([("small", 10, "memory_bound"), ("large", 50, "held_idle")], "memory_bound"),
        ([("small", 4, "memory_bound"), ("small", 6, "mixed")], None),
        ([("small", 5, "memory_bound"), ("small", 5, "mixed"), ("small", 90, "held_unknown", "1002")], "memory_bound"),
        ([("a", 10, "held_unattributed", "saturated"), ("b", 10, "held_unattributed", "saturated")], "saturated"),
        ([("a", 10, "memory_bound", None, "instance"), ("b", 10, "mixed", None, "instance")], None),
    ],
)
def test_any_holder_speaks_for_the_card_and_an_instance_for_itself_alone(
    rows: list[tuple[Any, ...]], spent: str | None
) -> None:
    estate = Estate()
    for row in rows:
        stated(estate, *row)
    assert told_of(estate).get(FIRST, (None, False))[0] == spent


@pytest.mark.parametrize(
    ("sm", "dram", "mig", "told"),
    [
        (300_000, 900_000, False, ("memory_bound", True)),
        (900_000, 900_000, False, ("saturated", True)),
        (900_000, 590_000, False, (None, True)),
        (None, 600_000, False, ("memory_bound", True)),
        (300_000, 900_000, True, None),
    ],
)
def test_the_cards_own_means_speak_for_it_though_nobody_holds_it(
    sm: int | None, dram: int, mig: bool, told: Any
) -> None:
    estate = Estate()
    estate.card(FIRST, "node-a", 0, valid_to_at=None, mig_enabled=mig)
    estate.insert("dim.state_threshold", bound_ratio=0.6, idle_ratio=0.05)
    estate.insert(
        "ledger.usage", cluster="default", device_uuid=FIRST, grain_at=at("09:00"), path="device", dram_gpu_us=dram, dram_observed_us=1_000_000,
        sm_gpu_us=sm, sm_observed_us=None if sm is None else 1_000_000,
    )  # fmt: skip
    assert told_of(estate).get(FIRST) == told


def test_what_was_not_measured_is_unknown_and_no_zero() -> None:
    result = ask(where={"pod": "team-a/train"}, window=Window(at("10:00"), at("11:00")))
    assert isinstance(figure(result, "gpu_hours_held_idle"), Unknown)
    assert isinstance(figure(result, "wasted_ratio"), Unknown)
    assert figure(result, "gpu_hours_held_unknown") == 1


def test_a_window_without_a_whole_grain_is_unknown() -> None:
    result = ask(window=Window(at("09:10"), at("09:50")))
    assert isinstance(figure(result, "gpu_hours_held"), Unknown)
    assert isinstance(figure(ask(small_story()), "gpu_hours_held"), Unknown)


def test_a_window_that_cuts_grains_is_told_by_its_whole_ones() -> None:
    result = ask(window=Window(at("08:30"), at("10:00")))
    assert figure(result, "gpu_hours_supply") == 2
    assert any("cuts a grain" in spot and "08:30" in spot for spot in result.blind_spots)
    assert result.window == Window(at("09:00"), at("10:00"))
    assert result.as_of == at("10:00")


def test_rows_that_stand_against_others_are_explained_and_nothing_is_where_there_are_none() -> None:
    estate = state_story()
    for place_kind, place_id, uuid, amount in (("node", "node-a", None, -HOUR_US), ("device", FIRST, FIRST, HOUR_US)):
        estate.insert(
            "ledger.gpu_state", cluster="default", place_kind=place_kind, place_id=place_id, node="node-a", device_uuid=uuid, grain_at=at("09:00"),
            state="free_no_demand", basis="occupancy", amount_gpu_us=amount,
        )  # fmt: skip
    by_card = ask(estate, by=("gpu",))
    assert any("rows of less than 0" in spot for spot in by_card.blind_spots)
    assert not any("rows of less than 0" in spot for spot in ask(by=("gpu",)).blind_spots)


def asked(estate: Estate, owner: str, gpu_milli: int, start: str, end: str, cause: str = "quota") -> None:
    """A wait of one request; ``owner``: namespace/name of a Job."""
    namespace, name = owner.split("/")
    demand = {"cluster": "default", "demand_id": f"{owner}/{start}"}
    estate.insert(
        "ledger.wait", **demand, demand_kind="pod", namespace=namespace, stage="queue" if cause == "quota" else "scheduler", started_at=at(start),
        ended_at=at(end), known_to_at=at(end), cause=cause, gpu_milli=gpu_milli,
    )  # fmt: skip
    estate.insert(
        "dim.demand", **demand, namespace=namespace, tenant=namespace, workload_kind="Job", workload_name=name
    )


def waited_for(estate: Estate, hour: str, gpu_hours: float, cause: str = "quota") -> None:
    estate.insert(
        "ledger.gpu_state", cluster="default", place_kind="device", place_id=SECOND, node="node-a", device_uuid=SECOND, grain_at=at(hour),
        state="free_waiting", cause=cause, basis="occupancy", amount_gpu_us=int(gpu_hours * HOUR_US),
    )  # fmt: skip


def owners_of_waiting(estate: Estate, cause: str = "quota") -> tuple[Any, ...]:
    found = next(row for row in rows(ask(estate), "causes") if (row["state"], row["cause"]) == ("free_waiting", cause))
    return found["owner"], found["owner_gpu_hours"], found["tenants"]


def waiting_story() -> Estate:
    """08:00 to 12:00 with one card of which nothing is booked but what a test says."""
    estate = small_story()
    estate.store.execute("DELETE FROM ledger.gpu_state")
    return estate


def test_free_time_is_matched_with_who_asks_for_longest_and_not_with_who_asks_for_most() -> None:
    estate = waiting_story()
    asked(estate, "old/small", 1_000, "08:00", "11:00")
    asked(estate, "new/large", 8_000, "09:00", "11:00")
    for hour in ("09:00", "10:00"):
        waited_for(estate, hour, 1)
    assert owners_of_waiting(estate) == ("old/Job/small", 2, "old")


def test_each_claims_at_most_what_it_asks_for_in_an_hour_and_the_rest_is_the_next_ones() -> None:
    estate = waiting_story()
    asked(estate, "old/small", 500, "08:00", "10:30")
    asked(estate, "new/large", 8_000, "09:00", "11:00")
    waited_for(estate, "09:00", 1)
    waited_for(estate, "10:00", 1)
    owner, gpu_hours, tenants = owners_of_waiting(estate)
    assert (owner, gpu_hours) == ("new/Job/large and 1 more", Fraction(5, 4))
    assert set(tenants.split(", ")) == {"old", "new"}
    listed = next(row for row in rows(ask(estate), "troubles") if row["trouble"] == "free_waiting:quota")
    assert listed["owner"] == owner


def test_who_asked_while_nothing_was_free_or_for_another_cause_is_no_owner() -> None:
    estate = waiting_story()
    asked(estate, "early/e", 8_000, "08:00", "09:00")
    asked(estate, "placed/p", 8_000, "08:00", "11:00", cause="placement")
    asked(estate, "late/l", 1_000, "09:00", "10:00")
    waited_for(estate, "09:00", 1)
    assert owners_of_waiting(estate) == ("late/Job/l", 1, "late")


def test_a_series_per_state_adds_up_to_the_figure() -> None:
    for where in ({}, {"tenant": "team-a"}):
        result = ask(where=where)
        for series in result.series:
            assert sum(value for _at, value in series.points) == figure(result, f"gpu_hours_{series.name}")  # type: ignore[misc]  # all are numbers


def test_the_largest_avoidable_part_is_advised_first() -> None:
    actions = ask().next_actions
    assert (
        actions[0]
        == "2.0 GPU-h were free while requests waited for quota: raise it or let it be borrowed (`steelyard q6`)"
    )
    assert any(
        action.startswith("team-b/notebook of team-b/Deployment/notebook wasted 0.8 GPU-h") for action in actions
    )
    assert any("DCGM_FI_PROF_SM_ACTIVE" in action for action in actions)


def test_each_path_of_attribution_says_what_it_is_refused_for() -> None:
    found = {row["path"]: row for row in rows(ask(), "attribution_paths")}
    assert (found["exclusive"]["billing"], found["process"]["billing"], found["split_by_grant"]["troubleshooting"]) == (
        "yes",
        "no",
        "no",
    )
    assert all(row["refused_because"] for row in found.values())


def test_whoever_may_not_see_others_is_told_of_no_card_and_no_supply() -> None:
    result = ask(where={"tenant": "team-b"}, confined=True)
    assert "cards" not in {table.name for table in result.tables}
    assert isinstance(figure(result, "gpu_hours_supply"), Unknown)
    assert isinstance(figure(result, "held_ratio"), Unknown)
    assert not any("team-a" in str(row) for each in result.tables for row in each.rows)


def test_the_page_documents_every_figure_table_and_column() -> None:
    page = (REPOSITORY / "docs" / "answers" / f"{entry(3).stem}.md").read_text(encoding="utf-8")
    result = ask(by=("tenant",))
    names = {figure.name for figure in result.figures} | {table.name for table in result.tables}
    names |= {column.name for table in result.tables for column in table.columns}
    assert sorted(name for name in names if f"`{name}`" not in page) == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"window": Window(at("09:00"), at("09:00"))}, "holds no time at all"),
        ({"by": ("colour",)}, "no dimension, label or annotation"),
        ({"where": {"tenant": "team-z"}}, "no tenant is called"),
        ({"where": {"state": "sleepy"}}, "state: expected one of suspected_hang, saturated"),
    ],
)
def test_what_cannot_be_answered_is_refused(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ask(**spec)


def test_monitoring_is_told_of_the_last_booked_day_by_state_and_cause() -> None:
    estate = state_story()
    estate.insert(
        "ledger.gpu_state", cluster="default", place_kind="device", place_id=FIRST, device_uuid=FIRST, grain_at=at("2026-11-29T10:00:00Z"),
        state="mixed", basis="triple", amount_gpu_us=5,
    )  # fmt: skip
    found = state_series(estate.store)
    assert found["default", "free_waiting", "quota"] == 2 * 3_600_000_000
    assert found["default", "compute_bound", ""] == 1_800_000_000
    assert ("default", "mixed", "") not in found
    text = exposition(Standing(states=found), Traffic(), ()).decode()
    assert 'steelyard_gpu_seconds_by_state{cluster="default",state="free_waiting",cause="quota"} 7200.0' in text


def sized_story() -> Estate:
    """The story with usage of the notebook: 2,000 of its 8,000 MiB, by its own processes, in all its grains; and requests of the weeks before it."""
    estate = state_story()
    for hour, observed in (("09:00", 1.0), ("10:00", 1.0), ("11:00", 0.5)):
        estate.insert(
            "ledger.usage", cluster="default", device_uuid=FIRST, grain_at=at(hour), pod_uid="uid-notebook", path="process",
            memory_p99_mib=2_000, memory_peak_mib=2_000, observed_us=round(observed * HOUR_US), samples_count=60,
        )  # fmt: skip
    estate.insert(
        "dim.request_class",
        cluster="default",
        asked_hour_at=at("08:00"),
        cards_count=2,
        gpu_milli=1_000,
        requests_count=3,
    )
    return estate


def test_what_is_free_and_of_no_use_stands_beside_the_states() -> None:
    result = ask(sized_story())
    assert (figure(result, "gpus_free"), figure(result, "gpus_interference_blocked")) == (
        Fraction(7, 4),
        Fraction(3, 4),
    )
    assert figure(result, "gpus_trapped") == 1  # everybody asks for two cards, and one is free
    (row,) = rows(result, "fragmentation_nodes")
    assert (row["node"], row["gpus_trapped"], row["gpus_q2_lack_gpu"]) == ("node-a", 1, 1)
    assert [row["cards_count"] for row in rows(result, "request_classes")] == [2]


def test_fragmentation_is_of_the_end_of_the_window() -> None:
    at_nine = ask(sized_story(), window=Window(at("09:00"), at("10:00")))
    assert figure(at_nine, "gpus_interference_blocked") == 0
    assert ask(sized_story(), window=Window(at("09:00"), at("12:00"))).as_of == at("12:00")
    assert [
        row["cards_count"]
        for row in rows(ask(sized_story(), window=Window(at("09:00"), at("10:00"))), "request_classes")
    ] == [2]


@pytest.mark.parametrize(
    ("where", "free"),
    [
        ({"node": "node-a"}, Fraction(7, 4)),
        ({"node": "node-b"}, None),
        ({"model": "T4"}, Fraction(7, 4)),
        ({"model": "T"}, None),
    ],
)
def test_what_is_free_is_told_of_the_nodes_and_models_asked_about(where: dict[str, str], free: Fraction | None) -> None:
    found = figure(ask(sized_story(), where=where), "gpus_free")
    assert (None if isinstance(found, Unknown) else found) == free


def test_free_share_has_no_tenant() -> None:
    found = figure(ask(sized_story(), where={"tenant": "team-b"}), "gpus_trapped")
    assert isinstance(found, Unknown) and "no tenant" in found.reason


def test_each_workload_is_told_what_it_needs_with_a_patch() -> None:
    result = ask(sized_story())
    found = {row["workload"]: row for row in rows(result, "right_sizing")}
    notebook = found["Deployment/notebook"]
    assert (notebook["verdict"], notebook["memory_granted_mib"], notebook["memory_recommended_mib"]) == (
        "shrink",
        8_000,
        2_400,
    )
    assert str(notebook["patch"]).startswith("kubectl patch deployment notebook -n team-b")
    assert found["Deployment/train"]["verdict"] == "unknown"
    assert result.next_actions[-1] == "apply a patch to one replica first and watch it for a day"


def test_a_viewer_is_told_the_sizes_of_its_own_pods_and_nothing_of_what_is_free() -> None:
    for tenant, sized in (("team-b", ["Deployment/notebook"]), ("team-a", ["Deployment/infer", "Deployment/train"])):
        result = ask(sized_story(), where={"tenant": tenant}, confined=True)
        assert [row["workload"] for row in rows(result, "right_sizing")] == sized
        assert not {"fragmentation_nodes", "request_classes"} & {table.name for table in result.tables}
        assert all(isinstance(figure(result, name), Unknown) for name in SHOWN)


def test_the_window_that_is_printed_gives_the_same_free_share_when_it_is_stated() -> None:
    whole = ask()
    stated_again = ask(window=whole.window)
    assert {name: figure(stated_again, name) for name in SHOWN} == {name: figure(whole, name) for name in SHOWN}
