"""The handed queues of Volcano, pods, audit lines and scheduler messages, against what their maker says of them, as far as facts tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import pytest

from steelyard.app.audit import documents_of, read_audit
from steelyard.app.json_documents import parse
from steelyard.app.kubernetes_objects import KubernetesObjects, Later, all_readers
from steelyard.facts.audit_event import AuditEvent
from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.facts.gang import Gang
from steelyard.facts.grant import Grant
from steelyard.facts.preemption import Preemption
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.facts.refusal import Refusal
from steelyard.facts.request import Request
from steelyard.primitives.instant import SECOND_US, format_instant, parse_instant
from steelyard.sources.shared.context import ReadContext
from tests.app.compared import Told, told_by

F = TypeVar("F", bound=Fact)
OBJECTS = ("pods", "events-list", "volcano-jobs", "volcano-podgroups-queues-list")


@pytest.fixture(scope="module")
def expected(shared: Path) -> Any:
    return json.loads((shared / "cases" / "queues" / "expected.json").read_text())


@pytest.fixture(scope="module")
def ctx(expected: Any) -> ReadContext:
    return ReadContext(file="case", observed_at=parse_instant(expected["snapshot_utc"]))


@pytest.fixture(scope="module")
def facts(shared: Path, ctx: ReadContext) -> list[Fact]:
    """All that the objects say."""
    objects, found, pods = KubernetesObjects(all_readers, None, "stamped"), [], Later()
    for name in OBJECTS:
        later = Later()
        document, _replaced = parse((shared / "cases" / "queues" / f"{name}.json").read_bytes(), 200)
        found += list(objects.read([(1, document)], ctx, later, listing=True))
        pods.pods += later.pods
    found += list(objects.read_allocations(pods.pods, ctx, {}))
    found += list(objects.read_contradictions(ctx))
    return found


@pytest.fixture(scope="module")
def audit(shared: Path, ctx: ReadContext) -> list[Fact]:
    lines = (shared / "cases" / "queues" / "audit.jsonl").read_bytes().splitlines()
    return list(read_audit(documents_of(lines, ctx), ctx))


def of(facts: list[Fact], table: type[F]) -> list[F]:
    return [fact for fact in facts if isinstance(fact, table)]


def compared(facts: list[Fact], ctx: ReadContext) -> list[Told]:
    """What the objects say of themselves and against each other."""
    return told_by(facts, ctx.observed_at)


def details(fact: Gang | Decision) -> Any:
    return json.loads(fact.details)


def gangs(facts: list[Fact], kind: str) -> dict[str, Gang]:
    return {each.object_name: each for each in of(facts, Gang) if each.object_kind == kind}


def outcome(job: Gang, facts: list[Fact]) -> str:
    """As an answer derives it: a job that was terminated while its pods were victims was preempted."""
    victims = [each.victim_name or "" for each in of(facts, Preemption) if each.victim_kind == "Pod"]
    if job.outcome == "terminated" and any(name.startswith(f"{job.object_name}-") for name in victims):
        return "preempted"
    return {"succeeded_with_failed_pods": "succeeded"}.get(job.outcome or "", job.outcome) or details(job)["standing"]


def test_volcano_jobs_have_the_expected_outcomes_waits_and_retries(expected: Any, facts: list[Fact]) -> None:
    jobs = gangs(facts, "Job")
    counts: dict[str, int] = {}
    for name, job in jobs.items():
        truth, told = expected["volcano"][name], details(job)
        counts[outcome(job, facts)] = counts.get(outcome(job, facts), 0) + 1
        assert truth["outcome"] in (outcome(job, facts), job.outcome), name
        wait = truth.get("queue_wait_seconds")
        assert told.get("queue_wait_us") == (None if wait is None else wait * SECOND_US), name
        if "queue_wait_unknown_reason" in truth:
            assert told["queue_wait_unknown_reason"].split()[-1] == truth["queue_wait_unknown_reason"].split()[-1], name
        for ours, theirs in (
            ("run_us", "run_seconds"),
            ("running_duration_us", "running_duration_field_seconds"),
            ("last_attempt_wait_us", "last_visible_attempt_wait_seconds"),
        ):
            if theirs in truth:
                assert told[ours] == truth[theirs] * SECOND_US, (name, ours)
        for key in ("failure_retries_at_most", "failure_retries_count"):
            assert told["failure_retries_at_most"] == truth.get(key, told["failure_retries_at_most"]), name
        assert job.retry_count == truth.get("retry_count_field", job.retry_count), name
        assert job.succeeded_count == truth.get("succeeded_pods_count", job.succeeded_count), name
        assert job.failed_count == truth.get("failed_pods_count", job.failed_count), name
    assert counts == expected["volcano"]["outcomes_count"]
    assert details(jobs["suspended-resumed"])["operator_resumes_at_least"] == 1
    assert details(jobs["bert-pretrain"])["running_duration_includes_wait"] is True


def test_volcano_gangs_queues_and_stale_pod_groups_are_as_expected(
    expected: Any, facts: list[Fact], ctx: ReadContext
) -> None:
    truth, jobs = expected["volcano"], gangs(facts, "Job")
    half, big = jobs["half-gang"], jobs["queued-big"]
    assert (half.running_count, half.min_count) == (
        truth["half-gang"]["gang_running_count"], truth["half-gang"]["gang_min_available_count"])  # fmt: skip
    assert big.gpu_milli == truth["queued-big"]["requested_gpu"] * 1_000
    quotas = {(row.queue, row.resource): row for row in of(facts, Quota) if row.queue_kind == "volcano_queue"}
    assert (quotas["prod", "nvidia.com/gpu"].capability_milli, big.queue) == (
        truth["queued-big"]["queue_capability_gpu"] * 1_000, "prod")  # fmt: skip
    assert quotas["prod", "nvidia.com/gpu"].used_milli == truth["queue_prod_allocated_gpu"]["status_gpu"]
    research = truth["queue_research_allocated"]
    assert quotas["research", "nvidia.com/gpu"].used_milli == research["status_gpu"] * 1_000
    assert quotas["research", "volcano.sh/vgpu-memory"].used_milli == research["metric_raw_milli_vgpu_memory_mib"]
    assert {row.queue: row.state for row in of(facts, Queue)}["archive"] == "closed"
    (stale,) = [each for each in compared(facts, ctx) if each.code == "stale_inqueue_podgroup"]
    (group,) = truth["stale_inqueue_podgroups"]
    told = json.loads(stale.evidence)
    assert (stale.subject, told["queue"]) == (f"podgroup {group['podgroup']}", group["queue"])
    assert (told["gpu_milli"], told["age_seconds"], told["pods_count"]) == (
        group["reserved_gpu"] * 1_000, group["age_seconds"], 0)  # fmt: skip
    (grant,) = [each for each in of(facts, Grant) if each.scheme == "volcano_vgpu"]
    vgpu = truth["suspended-resumed"]["vgpu"]
    assert (grant.device_uuid, grant.memory_mib) == (vgpu["device_uuid"], vgpu["memory_mib"])


def test_every_word_about_volcanos_victim_says_reclaim(expected: Any, facts: list[Fact]) -> None:
    found = [each for each in of(facts, Preemption) if each.decided_by == "volcano"]
    assert {each.cause for each in found} == {expected["volcano"]["evicted-terminated"]["cause"]}
    assert {each.evidence for each in found} == {"condition", "victim_event"}
    seen = {f"{each.victim_namespace}/{each.victim_name}" for each in found if each.victim_kind == "Pod"}
    assert sorted(seen) == expected["volcano"]["evicted-terminated"]["victim_pods_seen"]


def test_pods_have_the_expected_outcomes_and_witnesses(expected: Any, facts: list[Fact]) -> None:
    requests = of(facts, Request)
    assert len(requests) == len(expected["pods"])
    for request in requests:
        truth = expected["pods"][f"{request.namespace}/{request.pod}"]
        assert request.outcome == truth["outcome"], request.pod
        for column, key in (
            ("outcome_by", "by"),
            ("outcome_cause", "cause"),
            ("failure_class", "failure_class"),
            ("failure_owner", "owner"),
            ("exit_code", "exit_code"),
        ):
            if key in truth:
                assert getattr(request, column) == truth[key], (request.pod, column)
        if "evidence" in truth:
            assert truth["evidence"].startswith(request.outcome_evidence or "?"), request.pod
    preempted = {
        (each.victim_name, each.preemptor_name) for each in of(facts, Preemption) if each.preemptor_kind == "Pod"
    }
    assert ("low-prio-run", "hi-prio") in preempted
    waiting = {
        each.subject_name: each
        for each in of(facts, Decision)
        if each.evidence == "condition" and each.verdict == "not_now"
    }
    assert (waiting["gated-pod"].decided_by, waiting["gated-pod"].cause) == ("kueue", "gate")
    assert waiting["notebook-7"].decided_by == "default-scheduler"
    assert waiting["notebook-7"].nodes_count == expected["pods"]["adhoc/notebook-7"]["nodes_total_count"]


def test_scheduler_messages_are_read_by_their_grammar(expected: Any, facts: list[Fact]) -> None:
    decisions = [each for each in of(facts, Decision) if each.verdict == "not_now" and each.evidence == "event"]
    for name, truth in expected["scheduler_messages"].items():
        (found,) = [
            each
            for each in decisions
            if each.namespace == name.split("/")[0] and (each.subject_name or "").startswith(name.split("/")[1])
        ]
        told = details(found)
        assert found.nodes_count == truth["nodes_total_count"], name
        assert told.get("reasons", {}) == truth["reasons_nodes_count"], name
        assert told.get("preemption_reasons", {}) == truth.get("preemption_reasons_nodes_count", {}), name
        assert ("prefilter" in told) == truth.get("prefilter", False), name
        assert told.get("no_new_claims_to_deallocate", False) == truth.get("no_new_claims_to_deallocate", False), name
        assert told.get("unready_tasks_count") == truth.get("unready_tasks_count"), name
        assert told.get("tasks_count") == truth.get("tasks_count"), name


def test_the_counts_of_the_audit_log_follow_from_its_facts(expected: Any, audit: list[Fact]) -> None:
    truth, events = expected["audit"], of(audit, AuditEvent)
    refusals, decisions, preemptions = of(audit, Refusal), of(audit, Decision), of(audit, Preemption)
    by = [each.refused_by for each in refusals]
    kueue_patches = [
        each for each in events if each.field_manager == "kueue-admission" and each.subresource == "status"
    ]
    assert {
        "lines_count": len(events),
        "unique_audit_ids_count": len({each.audit_id for each in events}),
        "quota_denials_count": by.count("quota"),
        "quota_must_specify_denials_count": by.count("quota_must_specify"),
        "rbac_denials_count": by.count("rbac"),
        "webhook_denials_count": by.count("webhook") + by.count("queue_closed"),
        "bindings_count": sum(each.verdict == "bound" for each in decisions),
        "evictions_allowed_count": sum(each.verdict == "evicted" for each in decisions),
        "evictions_blocked_by_pdb_count": by.count("disruption_budget"),
        "kube_scheduler_preemptions_count": sum(each.decided_by == "kube-scheduler" for each in preemptions),
        "volcano_evictions_count": sum(each.decided_by == "volcano" for each in preemptions),
        "kueue_status_patches_count": len(kueue_patches),
        "impersonated_requests_count": sum(each.impersonated_user is not None for each in events),
    } == {key: value for key, value in truth.items() if key != "quota_denial"}
    (denial,) = [each for each in refusals if each.refused_by == "quota"]
    assert {
        "pod": f"{denial.namespace}/{denial.subject_name}",
        "quota": denial.quota,
        "requested_gpu": (denial.asked_milli or 0) // 1_000,
        "used_gpu": (denial.used_milli or 0) // 1_000,
        "limit_gpu": (denial.limit_milli or 0) // 1_000,
    } == truth["quota_denial"]
    assert [each.owner for each in refusals if each.refused_by == "quota_must_specify"] == ["ReplicaSet web-6f"]


def test_objects_that_contradict_each_other_are_found(expected: Any, facts: list[Fact], ctx: ReadContext) -> None:
    found = {each.code: each for each in compared(facts, ctx)}
    truths = {each["code"]: each for each in expected["input_inconsistencies"]}
    host, name = truths["event_host_mismatch"], truths["podgroup_name_mismatch"]
    told = json.loads(found["event_host_mismatch"].evidence)
    assert (found["event_host_mismatch"].subject, told["event_host"], told["node_name"]) == (
        f"pod {host['object']}", host["event_host"], host["node_name"])  # fmt: skip
    told = json.loads(found["podgroup_name_mismatch"].evidence)
    assert (found["podgroup_name_mismatch"].subject, told["owner_uid"]) == (
        f"podgroup {name['object']}", name["owner_uid"])  # fmt: skip


def test_stamps_of_decisions_are_those_of_the_case(facts: list[Fact]) -> None:
    (last,) = [each for each in of(facts, Decision) if each.subject_name == "notebook-7" and each.evidence == "event"]
    assert (format_instant(last.occurred_at)[:19], last.count) == ("2026-09-01T11:55:00", 9)
