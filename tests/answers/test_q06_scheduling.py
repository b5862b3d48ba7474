"""Q6 over an estate that can be checked by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from steelyard.answers.contract import Answer
from steelyard.answers.q06_scheduling import SchedulingSpec, answer
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import Window
from steelyard.primitives.unknown import Unknown
from tests.answers.estate import Estate, at
from tests.answers.queue_story import crowded_story, queue_story


def asked(estate: Estate, **spec: Any) -> Answer:
    return answer(estate.store, SchedulingSpec(**spec))


def figure(found: Answer, name: str) -> Any:
    (value,) = (each.value for each in found.figures if each.name == name)
    return value


def table(found: Answer, name: str) -> list[dict[str, Any]]:
    (each,) = (each for each in found.tables if each.name == name)
    names = [column.name for column in each.columns]
    return [dict(zip(names, row, strict=True)) for row in each.rows]


def test_who_still_waits_stays_in_the_estimate_and_out_of_the_naive_one() -> None:
    found = asked(queue_story())
    assert figure(found, "queue_wait_p50_seconds") == 1800
    assert figure(found, "queue_wait_p50_seconds_naive") == 1800
    assert figure(found, "queue_wait_p95_seconds") == Unknown("not reached: too many waits have not ended")
    assert figure(found, "queue_wait_p95_seconds_without_never_fits") == 7200
    assert figure(found, "queue_wait_p95_seconds_naive") == 6660
    assert figure(found, "requests_count") == 4
    assert figure(found, "requests_waiting") == 1
    assert figure(found, "requests_never_fits") == 1


def test_waits_stand_by_queue_unless_another_dimension_is_asked_for() -> None:
    rows = table(asked(queue_story()), "waits")
    assert [(row["queue"], row["waits"], row["events"], row["censored"]) for row in rows] == [
        ("lab", 1, 1, 0),
        ("main", 3, 2, 1),
    ]
    assert [row["longest_pending_seconds"] for row in rows] == [None, 4 * 3600]
    rows = table(asked(queue_story(), by=("priority", "tenant")), "waits")
    assert [(row["priority"], row["tenant"], row["p50_seconds"]) for row in rows] == [(10, "a", 1800), (50, "b", 7200)]


@pytest.mark.parametrize(
    ("where", "waits"),
    [
        ({"queue": "main"}, 3), ({"tenant": "b"}, 1), ({"priority": "50"}, 1), ({"workload": "Job/two"}, 1), ({"person": ""}, 4),
        ({"queue": ""}, 0), ({"cluster": "default", "queue": "lab"}, 1),
    ],
)  # fmt: skip
def test_conditions_narrow_figures_and_tables_alike(where: dict[str, str], waits: int) -> None:
    found = asked(queue_story(), where=where)
    assert figure(found, "waits_count") == waits
    assert sum(row["waits"] for row in table(found, "waits")) == waits


def test_a_name_that_nobody_has_is_refused_with_the_nearest_and_to_a_viewer_it_is_empty() -> None:
    with pytest.raises(UsageError, match="no queue is called 'mian'; the nearest are: main"):
        asked(queue_story(), where={"queue": "mian"})
    assert figure(asked(queue_story(), where={"tenant": "nobody"}, confined=True), "waits_count") == 0
    with pytest.raises(UsageError, match="has a pod as asked for by pod"):
        asked(queue_story(), where={"pod": "nobody"})


def test_a_request_is_found_by_its_pod() -> None:
    estate = queue_story()
    estate.pod("a/two-0", "a", 4)
    estate.insert("dim.demand_pod", cluster="default", pod_uid="uid-two-0", demand_id="id-two", demand_kind="workload")
    for name in ("two-0", "a/two-0", "uid-two-0"):
        assert figure(asked(estate, where={"pod": name}), "queue_wait_p50_seconds") == 1800


def test_who_asks_for_more_than_its_queue_can_have_never_fits_whatever_is_said() -> None:
    found = asked(crowded_story())
    assert figure(found, "requests_never_fits") == 2
    pending = {row["name"]: row for row in table(found, "pending")}
    assert (pending["stuck"]["fit"], pending["huge"]["fit"]) == ("never_fits", "never_fits")
    assert "raise what queue lab may have in all" in pending["huge"]["what_would_have_to_change"]
    assert pending["huge"]["cause"] == "quota"
    assert pending["new"]["what_would_have_to_change"] == Unknown("nobody said why it waits")


def test_a_preemption_is_told_of_both_sides_and_to_a_tenant_of_its_own_loss_only() -> None:
    estate = crowded_story()
    both = table(asked(estate, where={"tenant": "b"}), "preemptions")
    assert [(row["victim"], row["preemptor"], row["contradiction"]) for row in both] == [
        ("two", "lab", "preemptor_uid_conflict")
    ]
    assert table(asked(estate, where={"tenant": "b"}, confined=True), "preemptions") == []
    assert figure(asked(estate), "preemptions_count") == 1
    assert table(asked(estate, window=Window(at("10:30"), at("12:00"))), "preemptions") == []


def test_retries_of_one_owner_are_one_refusal_and_a_blocked_eviction_is_none() -> None:
    found = asked(crowded_story())
    assert [(row["request"], row["refused_by"], row["times"]) for row in table(found, "refusals")] == [
        ("Pod two-0", "disruption_budget", 1), ("ReplicaSet web", "quota", 40)
    ]  # fmt: skip
    assert figure(found, "refusals_count") == 1
    assert figure(found, "refusal_ratio") == Fraction(1, 7)


def test_silence_is_no_zero_where_nobody_would_have_told() -> None:
    silent = asked(queue_story())
    for name in ("preemptions_count", "evictions_count", "refusals_count", "refusal_ratio", "gangs_incomplete_count"):
        assert isinstance(figure(silent, name), Unknown), name
    assert any("no audit log was read" in spot for spot in silent.blind_spots)
    heard = queue_story()
    for kind in ("audit", "gangs"):
        heard.insert("dim.evidence_span", cluster="default", kind=kind, first_at=at("08:00"), last_at=at("10:00"))
    told = asked(heard)
    assert [figure(told, name) for name in ("preemptions_count", "refusals_count", "gangs_incomplete_count")] == [
        0,
        0,
        0,
    ]
    (preemptions,) = (each for each in told.figures if each.name == "preemptions_count")
    assert preemptions.coverage == pytest.approx(0.5, abs=1e-6)


def test_a_gang_that_holds_cards_below_its_least_is_incomplete_and_an_admitted_one_without_a_place_is_not() -> None:
    found = asked(crowded_story())
    gangs = {row["name"]: row for row in table(found, "gangs")}
    assert (gangs["half"]["state"], gangs["half"]["running"], gangs["half"]["gpus_idle"]) == ("incomplete", 1, 1)
    assert (gangs["adrift"]["state"], gangs["adrift"]["gpus_idle"], gangs["adrift"]["gpus_asked"]) == (
        "admitted_unschedulable", 0, 2
    )  # fmt: skip
    assert figure(found, "gangs_incomplete_idle_gpus") == 1
    assert figure(found, "requests_admitted_unschedulable") == 1


def test_outcomes_leave_out_what_was_replaced() -> None:
    found = asked(crowded_story(), by=("tenant",))
    assert {row["tenant"]: (row["succeeded"], row["failed"], row["excluded"], row["success_ratio"]) for row in table(found, "outcomes")} == {
        "a": (1, 1, 0, Fraction(1, 2)), "b": (0, 0, 1, None)
    }  # fmt: skip
    assert figure(found, "requests_success_ratio") == Fraction(1, 2)


def test_decisions_are_counted_by_request_and_by_word() -> None:
    rows = table(asked(crowded_story()), "decisions")
    assert [(row["verdict"], row["rule"], row["requests"], row["times"]) for row in rows] == [
        ("never_fits", "ExceedsMaxQuota", 1, 9)
    ]
    assert table(asked(crowded_story(), where={"queue": "lab"}), "decisions") == []
    assert len(table(asked(crowded_story(), where={"workload": "Job/stuck"}), "decisions")) == 1


def test_contradictions_are_those_of_scheduling_and_narrow_with_the_question() -> None:
    estate = crowded_story()
    assert [row["subject"] for row in table(asked(estate), "contradictions")] == ["workload a/two", "clusterqueue lab"]
    assert [row["subject"] for row in table(asked(estate, where={"queue": "lab"}), "contradictions")] == [
        "clusterqueue lab"
    ]
    assert [row["subject"] for row in table(asked(estate, where={"tenant": "a"}), "contradictions")] == [
        "workload a/two"
    ]
    confined = asked(estate, where={"tenant": "a"}, confined=True)
    assert [note.subject for note in confined.findings] == ["workload a/two"]


def test_waiting_that_what_was_idle_elsewhere_would_have_ended_is_mostly_quota() -> None:
    estate = queue_story()
    for queue, kind, own, pool in (("main", "cluster_queue", 600_000_000, None), ("all", "pool", None, 3_000_000_000)):
        estate.insert(
            "ledger.quota", cluster="default", queue_kind=kind, queue=queue, resource="nvidia.com/gpu", grain_at=at("09:00"),
            observed_us=3_600_000_000, nominal_milli_us=8_000 * 3_600_000_000, used_milli_us=4_000 * 3_600_000_000, pending_us=3_600_000_000,
            pending_fits_own_us=own, pending_fits_pool_us=pool, refused_count=0,
        )  # fmt: skip
        estate.insert(
            "dim.quota_key",
            cluster="default",
            queue_kind=kind,
            queue=queue,
            resource="nvidia.com/gpu",
            pool="all",
            is_rollup=False,
        )
    found = asked(estate)
    assert figure(found, "quota_used_ratio") == Fraction(1, 2)
    assert figure(found, "pending_fits_pool_ratio") == Fraction(5, 6)
    assert figure(found, "pending_fits_own_ratio") == Fraction(1, 6)
    assert found.next_actions[0].startswith("mostly quota, not capacity")
    assert isinstance(figure(asked(estate, where={"queue": "lab"}), "quota_used_ratio"), Unknown)


def test_an_end_beyond_what_is_known_is_said() -> None:
    found = asked(queue_story(), window=Window(at("08:00"), at("14:00")))
    assert any("nothing is known after 2026-11-30T12:00:00Z" in spot for spot in found.blind_spots)


def test_an_amount_that_was_refused_is_told_from_one_that_was_not_stated() -> None:
    estate = queue_story()
    for name in ("a/vague", "a/wrong"):
        estate.demand(name, "main", None)
        estate.wait(name, "11:00", None, "main", None)
    estate.insert(
        "fact.finding", cluster="default", code="quantity_malformed", severity="warning", subject="workload a/wrong", message="x", evidence="{}",
        occurred_at=at("09:00"), observed_at=at("09:00"), source="kueue", natural_key="x", fact_id="x",
    )  # fmt: skip
    asks = {row["name"]: row["gpus_asked"] for row in table(asked(estate), "pending")}
    assert asks["vague"] == Unknown("it states no number of whole cards")
    assert asks["wrong"].reason.startswith("the amount that it states was refused")


def test_a_past_window_says_that_its_limits_are_those_of_now() -> None:
    past = asked(queue_story(), window=Window(at("08:00"), at("11:00")))
    (said,) = (spot for spot in past.blind_spots if spot.startswith("what queues may give"))
    assert "2026-11-30T12:00:00Z" in said and "2026-11-30T11:00:00Z" in said
    assert not any(spot.startswith("what queues may give") for spot in asked(queue_story()).blind_spots)


def test_a_word_that_tells_no_requests_apart_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"not grouped by 'node': group by cluster, queue, .* --where also by pod, node, gpu"
    ):
        asked(queue_story(), by=("node",))
    with pytest.raises(
        UsageError, match=r"told apart by 'colour'; these words do: cluster, queue, .* pod, node, gpu, or a label"
    ):
        asked(queue_story(), where={"colour": "red"})
    with pytest.raises(UsageError, match="holds no time at all"):
        asked(queue_story(), window=Window(at("08:00"), at("08:00")))


def placed_story() -> Estate:
    """As the queue's story; of ``one`` and ``two`` the pods are seen, on a node and a card each."""
    estate = queue_story()
    for number, name in enumerate(("one", "two")):
        estate.pod(
            f"a/{name}-0",
            "a",
            1,
            node=f"node-{number}",
            labels=f'{{"model/family": "m{number}"}}',
            annotations='{"ticket": "7"}',
        )
        estate.hold(f"a/{name}-0", f"GPU-aaaaaaaa-000{number}", "10:00", None, node=f"node-{number}")
        estate.insert(
            "dim.demand_pod", cluster="default", pod_uid=f"uid-{name}-0", demand_id=f"id-{name}", demand_kind="workload"
        )
    return estate


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ({"node": "node-1"}, 1), ({"gpu": "GPU-aaaaaaaa-0000"}, 1), ({"device": "GPU-aaaaaaaa-0000"}, 1), ({"model/family": "m1"}, 1),
        ({"label:model/family": "m0"}, 1), ({"annotation:ticket": "7"}, 2), ({"ticket": "7", "node": "node-0"}, 1),
    ],
)  # fmt: skip
def test_what_a_request_s_pods_are_and_where_they_were_narrows(where: dict[str, str], count: int) -> None:
    found = asked(placed_story(), where=where)
    assert figure(found, "requests_count") == count
    assert isinstance(figure(found, "quota_used_ratio"), Unknown)
    assert next(iter(where)) in figure(found, "quota_used_ratio").reason


@pytest.mark.parametrize("where", [{"node": "node-9"}, {"gpu": "GPU-b"}, {"model/family": "m9"}])
def test_a_place_or_label_that_no_request_has_is_refused(where: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="no request that was seen has a pod as asked for by"):
        asked(placed_story(), where=where)
    assert figure(asked(placed_story(), where=where, confined=True), "requests_count") == 0


def test_a_request_within_its_queue_s_quota_is_fulfilled_within_the_ceiling() -> None:
    estate = queue_story()
    for queue, nominal in (("main", 8000), ("lab", 8000)):
        estate.insert(
            "dim.quota_now",
            cluster="default",
            queue_kind="cluster_queue",
            queue=queue,
            resource="nvidia.com/gpu",
            nominal_milli=nominal,
            said_at=at("12:00"),
        )
    found = asked(estate)
    assert figure(found, "quota_fulfilment_ratio") == Fraction(2, 3)
    assert {row["queue"]: row["quota_fulfilment_ratio"] for row in table(found, "waits")} == {"main": 1, "lab": 0}


def test_quota_of_queues_is_not_told_of_a_tenant() -> None:
    found = asked(queue_story(), where={"tenant": "a"})
    assert figure(found, "quota_leaked_gpus") == Unknown("quota belongs to queues: it is not told by tenant")


def test_nothing_is_known_after_the_last_sighting() -> None:
    found = asked(queue_story(), window=Window(at("13:00"), at("14:00")))
    assert {type(each.value) for each in found.figures} == {Unknown}
