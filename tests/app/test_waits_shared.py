"""Queue waits of the handed cases, from file to ledger, against the numbers that were derived by hand or by an independent script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.wiring import ports
from steelyard.definitions.kaplan_meier import Ends, kaplan_meier_quantile
from steelyard.definitions.percentile import percentile_linear
from steelyard.primitives.instant import SECOND_US
from steelyard.primitives.unknown import Unknown
from steelyard.store import Store
from steelyard.surfaces.cli import run

_ENDS = """
SELECT
  epoch_us(coalesce(ended_at, known_to_at)) - epoch_us(started_at), count(*) FILTER (WHERE ended_by = 'scheduled'),
  count(*) FILTER (WHERE ended_by = 'abandoned'), count(*) FILTER (WHERE ended_by IS NULL)
FROM ledger.wait
WHERE stage = 'scheduler' AND unknown_reason IS NULL AND gpu_milli >= $milli
GROUP BY 1
"""


def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Store:
    monkeypatch.setenv("STEELYARD_DATA", str(tmp_path / "data"))
    assert run(ports(), ["import", *arguments]) == 0
    return Store.open(tmp_path / "data")


def seconds(us: int | Unknown) -> float | None:
    return None if isinstance(us, Unknown) else us / SECOND_US


def test_the_waits_of_the_trace_are_the_reference_s(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = shared / "cases" / "traces" / "alibaba-gpu-v2023" / "openb_pod_list_default.csv"
    with imported(tmp_path, monkeypatch, "openb", str(pods)) as store:
        everyone = [Ends(*row) for row in store.rows(_ENDS, {"milli": 0})]
        on_gpus = [Ends(*row) for row in store.rows(_ENDS, {"milli": 1})]
    scheduled = [at.time_us for at in everyone for _each in range(at.events)]
    assert len(scheduled) == 7255
    assert sum(at.abandoned for at in everyone) == 897
    naive = [percentile_linear(scheduled, p) for p in (0.5, 0.95, 0.99)]
    assert [value / SECOND_US for value in naive if not isinstance(value, Unknown)] == pytest.approx([2, 241, 889.64])
    assert [seconds(kaplan_meier_quantile(everyone, p)) for p in (0.5, 0.9, 0.95, 0.99)] == [3, 278, 596, 3069]
    assert [seconds(kaplan_meier_quantile(on_gpus, p)) for p in (0.5, 0.95, 0.99)] == [3, 667, 3354]


_SEGMENTS = """
SELECT
  d.namespace || '/' || d.name AS demand, w.stage, w.segment, epoch_us(w.started_at) AS started_us, epoch_us(w.ended_at) AS ended_us,
  epoch_us(w.known_to_at) AS known_to_us, w.ended_by, w.cause, w.fit, w.queue, w.gpu_milli, w.unknown_reason, w.demand_kind, d.workload_name
FROM ledger.wait AS w
JOIN dim.demand AS d ON d.cluster = w.cluster AND d.demand_id = w.demand_id
ORDER BY w.demand_id, w.started_at
"""

_FILES = (
    "audit.jsonl", "events-list.json", "kueue-legacy-v1beta1-list.json", "kueue-queues-v1beta2-list.json",
    "kueue-workloads-v1beta2.json", "pods.json", "volcano-jobs.json", "volcano-podgroups-queues-list.json",
)  # fmt: skip

Segment = dict[str, Any]


def queue_case(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *files: str) -> list[Segment]:
    folder = shared / "cases" / "queues"
    paths = [str(folder / file) for file in files or _FILES]
    with imported(tmp_path, monkeypatch, *paths, "--as-of", "2026-09-01T12:00:00Z") as store:
        rows: list[Segment] = store.records(_SEGMENTS)
    for row in rows:
        end = row["ended_us"] if row["ended_us"] is not None else row["known_to_us"]
        row["seconds"] = (end - row["started_us"]) / SECOND_US
    return rows


def expected(shared: Path, system: str) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((shared / "cases" / "queues" / "expected.json").read_text())[system]
    return truth


def lengths(rows: list[Segment], stage: str, *, open_rows: bool = False) -> dict[str, list[float]]:
    """Known lengths by demand, in order; of rows that have ended, or of those that have not."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["stage"] == stage and row["unknown_reason"] is None and (row["ended_us"] is None) == open_rows:
            found.setdefault(row["demand"], []).append(row["seconds"])
    return found


def of_workloads(rows: list[Segment]) -> list[Segment]:
    return [row for row in rows if row["demand_kind"] == "workload"]


def test_every_wait_of_the_kueue_case_is_told_and_no_other(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, truth = of_workloads(queue_case(shared, tmp_path, monkeypatch)), expected(shared, "kueue")
    assert lengths(rows, "queue") == truth["wait_segments_seconds_by_workload"]
    assert lengths(rows, "release_lag") == truth["release_lag_seconds"]
    assert lengths(rows, "admission_check") == {
        demand: [seconds] for demand, seconds in truth["admission_checks_wait_seconds"].items()
    }
    legacy = truth["legacy_v1beta1"]
    waiting = {name: [row["age_seconds"]] for name, row in truth["censored_wait_seconds_at_snapshot"].items()}
    waiting["old/job-legacy-wait-9z8y7"] = [legacy["old/job-legacy-wait-9z8y7"]["censored_wait_seconds"]]
    assert lengths(rows, "queue", open_rows=True) == waiting
    assert {row["demand"]: row["fit"] for row in rows if row["stage"] == "queue" and row["ended_us"] is None} == {
        **{name: row["cause"] for name, row in truth["censored_wait_seconds_at_snapshot"].items()},
        "old/job-legacy-wait-9z8y7": legacy["old/job-legacy-wait-9z8y7"]["cause"],
    }
    not_waiting = {*truth["not_waiting_at_snapshot"], "old/job-legacy-bad-4d4d4"}
    assert not not_waiting & set(lengths(rows, "queue", open_rows=True))


def test_a_wait_that_cannot_be_recovered_is_a_row_with_its_reason_and_bound(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, truth = of_workloads(queue_case(shared, tmp_path, monkeypatch)), expected(shared, "kueue")
    unknown = {row["demand"]: row for row in rows if row["unknown_reason"]}
    assert set(unknown) == {*truth["waits_not_recoverable"], "old/job-legacy-run-1a2b3"}
    at_most = truth["waits_not_recoverable"]["team-b/job-needs-capacity-e4410"]["first_wait_seconds_at_most"]
    assert unknown["team-b/job-needs-capacity-e4410"]["seconds"] == at_most
    legacy = truth["legacy_v1beta1"]["old/job-legacy-run-1a2b3"]
    assert unknown["old/job-legacy-run-1a2b3"]["seconds"] == legacy["waits_sum_seconds_at_most"]
    past_us = 912 * SECOND_US
    assert unknown["team-b/job-slow-image-5f5f1"]["seconds"] == 38 * 60 - past_us / SECOND_US


def test_a_back_off_is_no_wait_and_lasts_as_long_as_the_controller_says(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, truth = of_workloads(queue_case(shared, tmp_path, monkeypatch)), expected(shared, "kueue")
    backoff = truth["not_waiting_at_snapshot"]["team-b/job-slow-image-5f5f1"]
    assert lengths(rows, "backoff", open_rows=True) == {
        "team-b/job-slow-image-5f5f1": [backoff["backoff_elapsed_seconds"]]
    }


def test_the_last_object_alone_tells_no_wait_of_a_workload_that_was_preempted(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, truth = queue_case(shared, tmp_path, monkeypatch, "kueue-workloads-v1beta2.json"), expected(shared, "kueue")
    name = "team-a/jobset-sweep-77c2d"
    known = lengths(rows, "queue").get(name, [])
    assert len(known) == truth["wait_from_final_object_only"][name]["recoverable_segments_count"]
    assert [row["unknown_reason"] for row in rows if row["demand"] == name and row["stage"] == "queue"] == [
        "evictions_not_seen"
    ]


def test_the_estimates_of_the_teams_keep_who_still_waits(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, truth = of_workloads(queue_case(shared, tmp_path, monkeypatch)), expected(shared, "kueue")
    waits = [row for row in rows if row["stage"] == "queue" and not row["unknown_reason"]]
    for team in ("team-a", "team-b"):
        served = sorted(row["seconds"] for row in waits if row["queue"] == team and row["ended_by"] == "reserved")
        told = truth[f"{team.replace('-', '_')}_all_segments"]
        assert served == told["values_seconds"]
        assert percentile_linear(served, 0.95) == pytest.approx(told["p95_linear_seconds"])
    for kept, name in ((None, "kaplan_meier_with_censored"), ("never_fits", "kaplan_meier_without_never_fits")):
        mine = [row for row in waits if row["queue"] == "team-a" and (kept is None or row["fit"] != kept)]
        ends = [
            Ends(
                row["known_to_us"] - row["started_us"],
                int(row["ended_us"] is not None),
                0,
                int(row["ended_us"] is None),
            )
            for row in mine
        ]
        told = truth["team_a_all_segments"][name]
        assert seconds(kaplan_meier_quantile(ends, 0.5)) == told["p50_seconds"]
        assert seconds(kaplan_meier_quantile(ends, 0.95)) == told["p95_seconds"]


def test_the_waits_of_volcano_s_jobs_are_those_that_their_stamps_still_tell(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, truth = queue_case(shared, tmp_path, monkeypatch), expected(shared, "volcano")
    gangs = [row for row in rows if row["demand_kind"] == "pod_group" and row["stage"] == "queue"]
    known = {
        row["workload_name"]: row["seconds"]
        for row in gangs
        if row["ended_us"] is not None and not row["unknown_reason"]
    }
    jobs = {name: job for name, job in truth.items() if isinstance(job, dict) and "queue_wait_seconds" in job}
    assert known == {
        name: job["queue_wait_seconds"] for name, job in jobs.items() if job["queue_wait_seconds"] is not None
    }
    assert {row["workload_name"] for row in gangs if row["unknown_reason"]} == {
        name for name, job in jobs.items() if job["queue_wait_seconds"] is None
    }
    waiting = {row["workload_name"]: row["seconds"] for row in gangs if row["ended_us"] is None}
    assert waiting == {"queued-big": truth["queued-big"]["censored_wait_seconds"]}
    fits = {row["workload_name"]: row["fit"] for row in gangs if row["ended_us"] is None}
    assert fits == {"queued-big": truth["queued-big"]["cause"]}


def test_a_gated_pod_waits_for_kueue_and_not_for_the_scheduler(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = queue_case(shared, tmp_path, monkeypatch)
    truth = json.loads((shared / "cases" / "queues" / "expected.json").read_text())["pods"]
    gated = [row for row in rows if row["demand"] == "team-a/gated-pod"]
    assert [(row["stage"], row["seconds"]) for row in gated] == [
        ("gate", truth["team-a/gated-pod"]["kueue_wait_age_seconds"])
    ]
    pending = [row for row in rows if row["demand"] == "adhoc/notebook-7"]
    assert [(row["stage"], row["seconds"], row["ended_us"]) for row in pending] == [
        ("scheduler", truth["adhoc/notebook-7"]["censored_wait_seconds"], None)
    ]
