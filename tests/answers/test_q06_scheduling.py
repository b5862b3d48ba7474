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


def queue_story() -> Estate:
    """Two queues: ``main`` served two of three, ``lab`` one; one pod that a scheduler placed."""
    estate = Estate()
    estate.listing(at("08:00"))
    estate.listing(at("12:00"))
    for name, queue, gpus, end in (
        ("a/one", "main", 1, "08:10"),
        ("a/two", "main", 4, "08:30"),
        ("a/stuck", "main", 32, None),
        ("b/lab", "lab", 1, "10:00"),
    ):
        estate.demand(name, queue, gpus, priority=50 if name == "b/lab" else 10)
        estate.wait(name, "08:00", end, queue, gpus, fit="never_fits" if end is None else None)
    return estate


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
        ({"namespace": "nobody"}, 0), ({"pod": "nobody"}, 0), ({"cluster": "default", "queue": "lab"}, 1),
    ],
)  # fmt: skip
def test_conditions_narrow_figures_and_tables_alike(where: dict[str, str], waits: int) -> None:
    found = asked(queue_story(), where=where)
    assert figure(found, "waits_count") == waits
    assert sum(row["waits"] for row in table(found, "waits")) == waits


def test_a_word_that_tells_no_requests_apart_is_refused() -> None:
    with pytest.raises(UsageError, match="told apart by 'colour'; these words do: cluster, queue"):
        asked(queue_story(), by=("colour",))
    with pytest.raises(UsageError, match="holds no time at all"):
        asked(queue_story(), window=Window(at("08:00"), at("08:00")))


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
