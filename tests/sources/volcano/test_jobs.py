"""Volcano jobs: outcomes by their pods, restarts by whose doing, and how far their stamps reach."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.finding import Finding
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import MINUTE_US
from steelyard.sources.volcano.durations import parse_go_duration
from tests.sources.volcano.volcano_objects import details, gang, job, of, read, task


def counted(**phases: int) -> dict[str, Any]:
    return {"taskStatusCount": {"worker": {"phase": phases}}}


def test_row_24_a_completed_job_is_counted_by_its_tasks_where_its_counters_are_missing() -> None:
    found = gang(job("Completed", ("Running", "08:10:00"), ("Completed", "09:00:00"), **counted(Succeeded=2)))
    assert (found.outcome, found.succeeded_count, found.failed_count) == ("succeeded", 2, 0)


@pytest.mark.parametrize(
    ("phase", "counts", "outcome"),
    [
        ("Completed", {"Succeeded": 3}, "succeeded"),
        ("Completed", {"Succeeded": 2, "Failed": 1}, "succeeded_with_failed_pods"),
        ("Completed", {"Failed": 2}, "failed"),
        ("Failed", {"Failed": 1}, "failed"),
        ("Terminated", {"Failed": 2}, "terminated"),
        ("Aborted", {}, "aborted"),
        ("Running", {"Running": 1}, None),
        ("Pending", {}, None),
        ("Restarting", {"Failed": 1}, None),
    ],
)
def test_the_outcome_follows_from_the_phase_and_the_pods(
    phase: str, counts: dict[str, int], outcome: str | None
) -> None:
    assert gang(job(phase, (phase, "09:00:00"), **counted(**counts))).outcome == outcome


def test_row_25_resuming_a_suspended_job_is_no_failure_though_its_retries_rise() -> None:
    found = gang(
        job(
            "Failed",
            ("Aborted", "08:30:00"),
            ("Restarting", "08:40:00"),
            ("Failed", "08:41:00"),
            spec={"policies": [{"event": "PodEvicted", "action": "RestartJob"}]},
            retryCount=3,
        )
    )
    told = details(found)
    assert (found.retry_count, told["failure_retries_at_most"]) == (3, 0)
    assert told["failure_retries_why"] == "no policy restarts on a failed pod or task"
    resumed = gang(job("Running", ("Running", "09:00:00"), ("Aborted", "08:30:00"), retryCount=1))
    assert details(resumed)["operator_resumes_at_least"] == 1
    still = gang(job("Aborted", ("Running", "08:10:00"), ("Aborted", "08:30:00"), retryCount=1))
    assert details(still)["operator_resumes_at_least"] == 0


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        ({"policies": [{"event": "PodFailed", "action": "RestartJob"}]}, 2),
        ({"policies": [{"events": ["PodEvicted", "TaskFailed"], "action": "RestartTask"}]}, 2),
        ({"policies": [{"event": "*", "action": "RestartJob"}]}, 2),
        ({"policies": [{"exitCode": 3, "action": "RestartPod"}]}, 2),
        ({"tasks": [task(policies=[{"event": "PodFailed", "action": "RestartPod"}])]}, 2),
        ({"policies": [{"event": "PodFailed", "action": "TerminateJob"}]}, 0),
        ({"policies": [{"event": "PodEvicted", "action": "RestartJob"}]}, 0),
        ({}, 0),
    ],
)
def test_a_restart_can_be_a_failure_only_where_a_policy_restarts_on_one(spec: dict[str, Any], most: int) -> None:
    told = details(gang(job("Running", ("Running", "09:00:00"), spec=spec, retryCount=2)))
    assert told["failure_retries_at_most"] == most


def test_row_27_a_job_that_says_running_while_its_pods_are_pending_is_degraded() -> None:
    spec = {"minAvailable": 4, "tasks": [task(replicas=4)]}
    found = gang(job("Running", ("Running", "08:20:00"), spec=spec, **counted(Running=2, Pending=2)))
    assert (found.phase, found.running_count, found.min_count, found.outcome) == ("Running", 2, 4, None)
    assert details(found)["standing"] == "running_degraded"
    whole = gang(job("Running", ("Running", "08:20:00"), spec=spec, **counted(Running=3, Succeeded=1)))
    assert details(whole)["standing"] == "running"


def test_the_first_wait_is_told_only_while_nothing_has_overwritten_its_stamps() -> None:
    first = ("Pending", "08:00:00"), ("Running", "08:30:00"), ("Completed", "09:30:00")
    told = details(gang(job("Completed", *first, runningDuration="1h30m0s", **counted(Succeeded=1))))
    assert (told["queue_wait_us"], told["run_us"]) == (30 * MINUTE_US, 60 * MINUTE_US)
    assert (told["running_duration_us"], told["running_duration_includes_wait"]) == (90 * MINUTE_US, True)
    zero = details(gang(job("Completed", *first, retryCount=0, **counted(Succeeded=1))))
    assert zero["queue_wait_us"] == 30 * MINUTE_US
    again = ("Running", "08:52:00"), ("Restarting", "09:00:00"), ("Pending", "08:50:00"), ("Failed", "09:05:00")
    told = details(gang(job("Failed", *again, retryCount=3, **counted(Failed=1))))
    assert "queue_wait_us" not in told
    assert told["queue_wait_unknown_reason"] == "earlier Pending and Running overwritten by restarts"
    assert told["last_attempt_wait_us"] == 2 * MINUTE_US
    aborted = details(gang(job("Running", ("Running", "11:30:00"), ("Aborted", "09:30:00"), retryCount=2)))
    assert aborted["queue_wait_unknown_reason"] == "conditions overwritten by suspend and resume"
    pending = details(gang(job("Pending", ("Pending", "08:00:00"))))
    assert not {"queue_wait_us", "queue_wait_unknown_reason"} & pending.keys()


def test_what_a_job_asks_for_is_its_tasks_times_their_replicas_in_thousandths() -> None:
    found = gang(job("Pending", spec={"tasks": [task(replicas=2, gpus="4"), task("ps", 1, "1500m")]}))
    assert (found.pods_count, found.gpu_milli, found.queue) == (3, 9_500, "q")
    assert found.demand == '{"cpu":24000,"nvidia.com/gpu":9500}'


def test_a_part_of_a_card_makes_no_number_of_cards() -> None:
    sharing = task()
    sharing["template"]["spec"]["containers"][0]["resources"]["limits"] = {"volcano.sh/vgpu-number": "1"}
    assert gang(job("Pending", spec={"tasks": [sharing]})).gpu_milli is None


def test_an_amount_that_cannot_be_read_makes_the_demand_unknown_and_is_said() -> None:
    facts = read(job("Pending", spec={"tasks": [task(gpus="many")]}))
    (finding,) = of(facts, Finding)
    assert (finding.code, gang(job("Pending", spec={"tasks": [task(gpus="many")]})).gpu_milli) == (
        "quantity_malformed",
        None,
    )
    assert "many" in finding.message
    (huge,) = of(read(job("Pending", spec={"tasks": [task(replicas=2**31, gpus=2**52)]})), Finding)
    assert "1,000,000" in huge.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1h30m0s", 5_400_000_000), ("55m0s", 3_300_000_000), ("1.5s", 1_500_000), ("200ms", 200_000), ("3µs", 3), ("0", 0),
        ("", None), ("1h30", None), ("soon", None), (90, None), ("9" * 60 + "h", None),
    ],
)  # fmt: skip
def test_a_go_duration_is_microseconds_or_nothing(text: object, value: int | None) -> None:
    assert parse_go_duration(text) == value


@pytest.mark.parametrize(
    "status",
    [
        None, [], "x", {"state": 7, "conditions": {"a": 1}}, {"conditions": [None, {"status": 3, "lastTransitionTime": []}]},
        {"taskStatusCount": {"w": {"phase": {"Failed": "NaN", "Running": -1, "Succeeded": 2**70}}}, "retryCount": 2**80},
        {"taskStatusCount": ["\ud800"], "state": {"phase": "\ud800\x00", "message": "\ud800"}},
    ],
)  # fmt: skip
def test_a_hostile_status_is_read_as_far_as_it_goes(status: Any) -> None:
    payload = job("Pending")
    payload["status"] = status
    assert gang(payload).object_name == "j"


def test_a_job_without_a_name_is_refused() -> None:
    payload = job("Pending")
    payload["metadata"] = {"name": ""}
    with pytest.raises(SourceMalformed):
        read(payload)
