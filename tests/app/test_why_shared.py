"""The handed queue case through ``steelyard why``, the rule audit and the jobs: what was derived by hand is what is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers import jobs, rule_audit
from steelyard.answers.demand_scope import DemandScope
from steelyard.answers.reading import Reading
from steelyard.answers.story import StorySpec, story
from steelyard.app.wiring import ports
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN, Window
from steelyard.primitives.unknown import Unknown
from steelyard.store import Store
from steelyard.surfaces.cli import run

_FILES = (
    "audit.jsonl", "events-list.json", "kueue-legacy-v1beta1-list.json", "kueue-queues-v1beta2-list.json", "kueue-workloads-v1beta2.json",
    "pods.json", "volcano-jobs.json", "volcano-podgroups-queues-list.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def directory(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("queues")
    paths = [str(shared / "cases" / "queues" / name) for name in _FILES]
    assert run(ports(), ["import", *paths, "--as-of", "2026-09-01T12:00:00Z", "--data", str(data)]) == 0
    return data


@pytest.fixture(scope="module")
def case(directory: Path) -> Iterator[Store]:
    with Store.open(directory, read_only=True) as store:
        yield store


@pytest.fixture(scope="module")
def truth(shared: Path) -> Any:
    return json.loads((shared / "cases" / "queues" / "expected.json").read_text(encoding="utf-8"))


def told(case: Store, name: str, table: str) -> list[dict[str, Any]]:
    found = story(case, StorySpec(name))
    (rows,) = [each for each in found.tables if each.name == table]
    return [dict(zip([column.name for column in rows.columns], row, strict=True)) for row in rows.rows]


def test_what_never_fits_is_told_from_what_does_not_fit_now(case: Store, truth: Any) -> None:
    for name, row in truth["kueue"]["censored_wait_seconds_at_snapshot"].items():
        (standing,) = told(case, name, "standing")
        assert (standing["age"], standing["fit"]) == (row["age_seconds"], row["cause"])
    (big,) = told(case, "lab/queued-big", "standing")
    assert (big["fit"], big["age"]) == (
        truth["volcano"]["queued-big"]["cause"],
        truth["volcano"]["queued-big"]["censored_wait_seconds"],
    )


def test_what_would_have_to_change_has_the_numbers_of_the_case(case: Store, truth: Any) -> None:
    censored = truth["kueue"]["censored_wait_seconds_at_snapshot"]
    huge = censored["team-a/job-huge-pretrain-93bd4"]
    first = told(case, "huge-pretrain", "changes")[0]
    assert (first["have"], first["need"]) == (str(huge["requested_gpu"]), str(huge["maximum_capacity_gpu"]))
    (small,) = told(case, "small-ablation", "changes")
    assert small["need"] == str(censored["team-a/job-small-ablation-52a0c"]["missing_gpu"])
    reasons = [row["what_would_have_to_change"] for row in told(case, "notebook-7", "changes")]
    for reason, nodes in truth["scheduler_messages"]["adhoc/notebook-7"]["reasons_nodes_count"].items():
        words = reason.split()[-1]
        where = f"on {nodes} node" + ("" if nodes == 1 else "s")
        assert any(words in text and text.endswith(where) for text in reasons)


def test_the_twice_preempted_job_is_told_with_both_preemptors_as_far_as_they_are_known(case: Store, truth: Any) -> None:
    lines = [row["what"] for row in told(case, "team-a/sweep", "story") if row["event"] == "preempted"]
    assert len(lines) == truth["kueue"]["evictions_by_workload_count"]["team-a/jobset-sweep-77c2d"]["Preempted"]
    assert "dc24c6bf" in lines[0]
    assert "team-b/job-urgent-eval-0aa11" in lines[1]


def test_the_person_of_the_audit_log_is_behind_the_job(case: Store) -> None:
    (row,) = told(case, "train-llm", "requests")
    assert (row["person"], row["person_basis"]) == ("alice@example.com", "creator")


def test_every_request_of_the_case_has_a_story(case: Store) -> None:
    names = case.rows("SELECT demand_id FROM dim.demand UNION SELECT pod_uid FROM dim.pod_life ORDER BY 1")
    assert len(names) > 30
    for (uid,) in names:
        assert told(case, uid, "story")


def test_the_quota_that_was_patched_for_another_is_told_with_what_is_unknown(case: Store) -> None:
    audit = rule_audit.rule_audit(Reading(case, rule_audit.SQL), DemandScope(Window(INSTANT_MIN, INSTANT_MAX)))
    figures = {figure.name: figure.value for figure in audit.figures}
    assert (figures["quota_changes_count"], figures["rule_breaches_count"]) == (1, 0)
    (table,) = [table for table in audit.tables if table.name == "quota_changes"]
    (row,) = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]
    assert (row["who"], row["done_by"], row["queue"]) == ("alice@example.com", "root-admin", "team-a")
    assert str(row["at"]).startswith("2026-09-01T11:59:00")
    assert "neither" in row["before"].reason
    assert (row["after_basis"], row["after_note"]) == ("object", "the audit log left its body out")


def test_each_job_is_one_row_with_how_it_ended(case: Store, truth: Any) -> None:
    found = jobs.jobs(Reading(case, jobs.SQL), DemandScope(Window(INSTANT_MIN, INSTANT_MAX)))
    (table,) = found.tables
    rows = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]
    assert len({(row["kind"], row["namespace"], row["job"]) for row in rows}) == len(rows)
    outcomes = [row["outcome"] for row in rows if row["namespace"] in ("team-a", "team-b")]
    counts = {name: outcomes.count(name) for name in ("succeeded", "failed", "replaced")}
    expected = truth["kueue"]["outcomes"]
    assert (counts["failed"], counts["replaced"]) == (
        expected["failed_count"],
        expected["excluded_slice_replaced_count"],
    )
    assert counts["succeeded"] == expected["succeeded_count"] - 1, "a group of pods alone is no job"
    volcano = {row["job"]: row["outcome"] for row in rows if row["kind"] == "vcjob"}
    for name in ("bert-pretrain", "crashy-gan", "evicted-terminated", "partial-ok"):
        assert volcano[name] == truth["volcano"][name]["outcome"]


def test_the_command_tells_it_as_json_and_refuses_a_name_that_nothing_has(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(ports(), ["why", "huge-pretrain", "--json", "--data", str(directory)]) == 0
    assert json.loads(capsys.readouterr().out)["question"] == "why"
    assert run(ports(), ["why", "huge-pretain", "--data", str(directory)]) == 2
    assert "team-a/huge-pretrain" in capsys.readouterr().err


def test_what_does_not_wait_is_told_by_its_state(case: Store, truth: Any) -> None:
    for name, row in truth["kueue"]["not_waiting_at_snapshot"].items():
        (standing,) = told(case, name, "standing")
        state = {"leaked_reservation": "leaked"}.get(row["state"], row["state"])
        assert standing["stage"] == state, name
        assert standing["since"] == row.get("since_utc", row.get("backoff_from_utc", standing["since"])), name
        if "backoff_until_utc" in row:
            assert standing["until"] == row["backoff_until_utc"]
        assert told(case, name, "changes"), name


def test_evictions_are_counted_as_in_the_case(case: Store, truth: Any) -> None:
    for name, expected in truth["kueue"]["evictions_by_workload_count"].items():
        rows = told(case, name, "evictions")
        assert {"/".join(filter(None, (row["reason"], row["cause"]))): row["evictions"] for row in rows} == expected
    lost = truth["kueue"]["waits_not_recoverable"]
    for name in lost:
        assert any(isinstance(row["seconds"], Unknown) for row in told(case, name, "waits") if row["stage"] == "queue")


def test_requests_without_an_owner_reference_or_an_object_have_their_story(case: Store) -> None:
    (row,) = told(case, "team-b/batch-score-0", "requests")
    assert row["request"] == "team-b/job-batch-score-80bb2"
    for name in ("adhoc/notebook-8", "dra/infer-dra-1"):
        (row,) = told(case, name, "requests")
        assert isinstance(row["gpus"], Unknown)
        assert told(case, name, "changes")


def test_a_refusal_of_the_case_is_told_once(case: Store) -> None:
    events = [row["event"] for row in told(case, "needs-capacity", "story")]
    assert events == ["created", "deactivated", "released"]
