"""The handed case of queues against its expected values, as far as single objects tell."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest

from steelyard.facts.decision import Decision
from steelyard.facts.gang import Gang
from steelyard.facts.preemption import Preemption
from steelyard.facts.quota import Quota
from steelyard.facts.refusal import Refusal
from steelyard.facts.transition import Transition
from steelyard.primitives.instant import parse_instant
from steelyard.sources.kube_api.transitions import read_transitions
from tests.sources.kueue.kueue_objects import CTX, each, read

GPU = "nvidia.com/gpu"
NEW = ("kueue-workloads-v1beta2.json", "kueue-queues-v1beta2-list.json")
OLD = "kueue-legacy-v1beta1-list.json"


@pytest.fixture(scope="module")
def case(shared):
    return shared / "cases/queues"


@pytest.fixture(scope="module")
def expected(case):
    return json.loads((case / "expected.json").read_text())


def items(case, *names):
    return [item for name in names for item in json.loads((case / name).read_text())["items"]]


def gangs(facts):
    return {f"{fact.namespace}/{fact.object_name}": fact for fact in each(facts, Gang)}


def cards(amounts: str) -> int:
    return int(json.loads(amounts).get(GPU, 0)) // 1_000


def test_the_outcomes_of_finished_workloads(case, expected):
    told = Counter(fact.outcome for fact in each(read(*items(case, *NEW)), Gang) if fact.outcome)
    truth = expected["kueue"]["outcomes"]
    assert told == {
        "succeeded": truth["succeeded_count"],
        "failed": truth["failed_count"],
        "replaced": truth["excluded_slice_replaced_count"],
    }


def test_evictions_by_workload_and_in_all(case, expected):
    by_workload: dict[str, dict[str, int]] = defaultdict(dict)
    in_all: Counter[str] = Counter()
    for name, fact in gangs(read(*items(case, *NEW))).items():
        for row in json.loads(fact.evictions):
            key = "/".join(part for part in (row["reason"], row["cause"]) if part)
            by_workload[name][key] = row["count"]
            in_all[key if row["reason"] == "Deactivated" else row["reason"]] += row["count"]
    assert by_workload == expected["kueue"]["evictions_by_workload_count"]
    assert in_all == expected["kueue"]["evictions_count"]


def test_who_waits_for_what_and_whether_it_can_ever_fit(case, expected):
    facts = read(*items(case, *NEW))
    told = {f"{fact.namespace}/{fact.subject_name}": fact for fact in each(facts, Decision)}
    found = gangs(facts)
    for name, truth in expected["kueue"]["censored_wait_seconds_at_snapshot"].items():
        decision = told[name]
        assert (decision.verdict, decision.rule) == (truth["cause"], truth["reason"])
        assert (found[name].gpu_milli, found[name].phase) == (truth["requested_gpu"] * 1_000, "pending")
        if "maximum_capacity_gpu" in truth:
            assert (decision.limit_milli, decision.asked_milli) == (
                truth["maximum_capacity_gpu"] * 1_000,
                truth["requested_gpu"] * 1_000,
            )
        else:
            assert decision.missing_milli == truth["missing_gpu"] * 1_000


def test_what_does_not_wait_at_the_snapshot_is_in_its_own_state(case, expected):
    found = gangs(read(*items(case, *NEW)))
    truth = expected["kueue"]["not_waiting_at_snapshot"]
    backoff = found["team-b/job-slow-image-5f5f1"]
    assert (backoff.phase, backoff.requeue_at) == (
        "evicted",
        parse_instant(truth["team-b/job-slow-image-5f5f1"]["backoff_until_utc"]),
    )
    assert (found["team-b/job-needs-capacity-e4410"].active, found["team-b/job-needs-capacity-e4410"].phase) == (
        False,
        "evicted",
    )
    assert found["team-c/job-lost-0c0c0"].phase_reason == "Misconfigured"
    leaked = found["team-b/jobset-recover-c01de"]
    assert (leaked.phase, cards(leaked.admitted)) == (
        "evicted",
        expected["kueue"]["gpu_quota"]["team-b"]["leaked_reservation_gpu"],
    )


def test_the_quota_of_each_queue_and_the_sum_of_what_its_workloads_hold(case, expected):
    facts = read(*items(case, *NEW, OLD))
    held: Counter[str] = Counter()
    for fact in each(facts, Gang):
        if fact.cluster_queue:
            held[fact.cluster_queue] += cards(fact.admitted)
    quotas = {
        fact.queue: fact for fact in each(facts, Quota) if fact.queue_kind == "cluster_queue" and fact.resource == GPU
    }
    truths = {**expected["kueue"]["gpu_quota"], **expected["kueue"]["legacy_v1beta1"]["gpu_quota"]}
    for name in ("team-a", "team-b", "legacy"):
        quota, truth = quotas[name], truths[name]
        assert quota.flavor == truth.get("flavor", expected["kueue"]["gpu_quota"]["flavor"])
        assert (quota.nominal_milli, quota.used_milli, quota.borrowed_milli) == tuple(
            truth[key] * 1_000 for key in ("nominal_gpu", "kueue_usage_gpu", "borrowed_gpu")
        )
        assert held[name] == truth["kueue_usage_gpu"]
        for key, column in (
            ("borrowing_limit_gpu", "borrowing_limit_milli"),
            ("lending_limit_gpu", "lending_limit_milli"),
        ):
            limit = truth.get(key)
            assert getattr(quota, column) == (limit * 1_000 if limit is not None else None)


def test_rejections_by_reason_each_demand_once(case, expected):
    facts = read(*items(case, *NEW, "events-list.json"))
    refused = {fact.natural_key: fact for fact in each(facts, Refusal)}
    never = {fact.subject_uid for fact in each(facts, Decision) if fact.verdict == "never_fits"}
    told = Counter(fact.refused_by for fact in refused.values())
    truth = expected["kueue"]["rejections_count"]
    assert (told["misconfigured"], told["admission_check"]) == (truth["Misconfigured"], truth["AdmissionCheckRejected"])
    assert len(never) == truth["ExceedsMaxQuota"]


def test_the_preemptions_of_one_workload_by_all_who_tell_of_them(case, expected):
    told = each(read(*items(case, *NEW, "events-list.json")), Preemption)
    assert len({fact.victim_uid for fact in told}) == expected["kueue"]["unique_preempted_workloads_count"]
    victims = [fact for fact in told if fact.evidence == "victim_event"]
    assert len(victims) == expected["kueue"]["evictions_count"]["Preempted"]
    assert {(fact.cause, fact.victim_queue, fact.preemptor_queue) for fact in victims} == {
        ("reclaim", "team-a", "team-b")
    }
    assert {(fact.preemptor_priority, fact.victim_priority) for fact in victims} == {(1_000, 10)}
    assert Counter(fact.evidence for fact in told) == {
        "victim_event": 2,
        "eviction_event": 2,
        "preemptor_event": 1,
        "condition": 1,
    }


def test_the_v1beta1_objects(case, expected):
    facts = read(*items(case, OLD))
    found, truth = gangs(facts), expected["kueue"]["legacy_v1beta1"]
    running, waiting = found["old/job-legacy-run-1a2b3"], found["old/job-legacy-wait-9z8y7"]
    told = truth["old/job-legacy-run-1a2b3"]
    assert (running.phase, cards(running.admitted)) == (told["state"], told["gpu"])
    assert running.past_run_us == told["accumulated_past_execution_seconds"] * 1_000_000
    assert json.loads(running.details)["nodes"] == told["nodes_pods_count"]
    told = truth["old/job-legacy-wait-9z8y7"]
    decision = next(fact for fact in each(facts, Decision) if fact.subject_uid == waiting.object_uid)
    assert (waiting.phase, decision.verdict, decision.missing_milli) == (
        told["state"],
        told["cause"],
        told["missing_gpu"] * 1_000,
    )
    assert json.loads(decision.details)["pending_preemptions_count"] == told["pending_preemption_workloads_count"]
    told = truth["old/job-legacy-bad-4d4d4"]
    bad = next(fact for fact in each(facts, Decision) if fact.subject_name == "job-legacy-bad-4d4d4")
    assert (bad.verdict, bad.rule, bad.message) == (told["state"], told["reason"], told["message"])


def test_no_word_of_the_case_is_unread(case):
    for fact in each(read(*items(case, *NEW, OLD, "events-list.json")), Decision):
        assert "unread" not in json.loads(fact.details), fact.message


def test_the_first_waits_are_the_stamps_of_the_objects(case, expected):
    first: dict[str, float] = {}
    for item in items(case, *NEW):
        if item["kind"] != "Workload":
            continue
        created = parse_instant(item["metadata"]["creationTimestamp"])
        name = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for fact in read_transitions(item, "Workload", CTX):
            if isinstance(fact, Transition) and (fact.item, fact.value) == ("QuotaReserved", "True"):
                first[name] = (fact.occurred_at - created) / 1_000_000
    for name, source in expected["kueue"]["wait_segments_source"].items():
        if source == "object":
            assert first[name] == expected["kueue"]["wait_segments_seconds_by_workload"][name][0]
