"""The handed queues, imported as a site would, asked by Q6, against what their maker says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.contract import Answer
from steelyard.answers.dimensions import DEMAND
from steelyard.answers.q06_scheduling import SchedulingSpec, answer
from steelyard.app.importer import FileImporter
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.primitives.instant import SECOND_US, Window, format_instant, parse_instant
from steelyard.primitives.unknown import Unknown
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportRequest

Row = dict[str, Any]


@pytest.fixture(scope="module")
def expected(shared: Path) -> Any:
    return json.loads((shared / "cases" / "queues" / "expected.json").read_text())


@pytest.fixture(scope="module")
def store(shared: Path, expected: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    directory, settings = tmp_path_factory.mktemp("queues"), Settings()
    folder = shared / "cases" / "queues"
    paths = [path for path in sorted(folder.iterdir()) if path.name != "expected.json"]
    request = ImportRequest(paths=paths, kind=None, as_of=parse_instant(expected["snapshot_utc"]))
    FileImporter(directory, settings, lambda opened: post(opened, settings)).import_paths(request, lambda *_: None)
    with Store.open(directory) as opened:
        yield opened


@pytest.fixture(scope="module")
def found(store: Store) -> Answer:
    return answer(store, SchedulingSpec(explain=True))


def figure(found: Answer, name: str) -> Any:
    (value,) = (each.value for each in found.figures if each.name == name)
    return value


def rows(found: Answer, name: str) -> list[Row]:
    (table,) = (each for each in found.tables if each.name == name)
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def row(found: Answer, table: str, /, **wanted: Any) -> Row:
    (each,) = (each for each in rows(found, table) if all(each[key] == value for key, value in wanted.items()))
    return each


def test_waits_of_the_queues_are_the_handed_ones(found: Answer, expected: Any) -> None:
    for queue, key in (("team-a", "team_a_all_segments"), ("team-b", "team_b_all_segments")):
        told, waits = expected["kueue"][key], row(found, "waits", queue=queue)
        assert waits["events"] == len(told["values_seconds"])
        assert waits["p50_seconds_naive"] == told["p50_seconds"]
        assert waits["p95_seconds_naive"] == told["p95_linear_seconds"]
    estimate, waits = (
        expected["kueue"]["team_a_all_segments"]["kaplan_meier_with_censored"],
        row(found, "waits", queue="team-a"),
    )
    assert waits["p50_seconds"] == estimate["p50_seconds"]
    assert waits["p95_seconds"] == Unknown("not reached: too many waits have not ended")
    assert waits["censored"] == len(estimate["censored_seconds"])
    assert waits["longest_pending_seconds"] == max(estimate["censored_seconds"])
    assert row(found, "waits", queue="team-b")["not_recoverable"] == len(expected["kueue"]["waits_not_recoverable"])


def test_without_those_that_never_fit_the_median_is_the_handed_one(store: Store, expected: Any) -> None:
    narrowed = answer(store, SchedulingSpec(where={"queue": "team-a"}))
    told = expected["kueue"]["team_a_all_segments"]["kaplan_meier_without_never_fits"]
    assert figure(narrowed, "queue_wait_p50_seconds_without_never_fits") == told["p50_seconds"]
    assert isinstance(figure(narrowed, "queue_wait_p95_seconds_without_never_fits"), Unknown)
    assert figure(narrowed, "queue_wait_p50_seconds") == 1140


def test_who_waits_since_when_and_why(found: Answer, expected: Any) -> None:
    pending = {f"{each['namespace']}/{each['name']}": each for each in rows(found, "pending")}
    for name, told in expected["kueue"]["censored_wait_seconds_at_snapshot"].items():
        each = pending[name]
        assert (each["age_seconds"], each["fit"], each["cause"]) == (told["age_seconds"], told["cause"], "quota")
        assert each["gpus_asked"] == told["requested_gpu"]
        for number in (told.get("maximum_capacity_gpu"), told.get("missing_gpu")):
            assert number is None or str(number) in each["what_would_have_to_change"]
    legacy = expected["kueue"]["legacy_v1beta1"]["old/job-legacy-wait-9z8y7"]
    waiting = pending["old/job-legacy-wait-9z8y7"]
    assert (waiting["age_seconds"], waiting["fit"]) == (legacy["censored_wait_seconds"], legacy["cause"])
    big, told = pending["lab/queued-big"], expected["volcano"]["queued-big"]
    assert (big["age_seconds"], big["fit"]) == (told["censored_wait_seconds"], told["cause"])
    assert str(told["queue_capability_gpu"]) in big["what_would_have_to_change"]
    backoff = expected["kueue"]["not_waiting_at_snapshot"]["team-b/job-slow-image-5f5f1"]
    assert pending["team-b/job-slow-image-5f5f1"]["stage"] == backoff["state"]
    assert pending["team-b/job-slow-image-5f5f1"]["age_seconds"] == backoff["backoff_elapsed_seconds"]
    gated, notebook = pending["team-a/gated-pod"], pending["adhoc/notebook-7"]
    assert (gated["stage"], gated["age_seconds"]) == (
        "gate",
        expected["pods"]["team-a/gated-pod"]["kueue_wait_age_seconds"],
    )
    assert notebook["age_seconds"] == expected["pods"]["adhoc/notebook-7"]["censored_wait_seconds"]
    for name in ("team-b/job-needs-capacity-e4410", "team-c/job-lost-0c0c0", "team-b/jobset-recover-c01de"):
        assert name not in pending, "deactivated, misconfigured and leaked reservations do not wait"


@pytest.mark.parametrize("by", [(each,) for each in DEMAND] + [DEMAND])
@pytest.mark.parametrize("where", [{}, {"namespace": "team-a"}, {"queue": ""}])
def test_requests_by_group_add_up_to_the_figures(store: Store, by: tuple[str, ...], where: dict[str, str]) -> None:
    told = answer(store, SchedulingSpec(by=by, where=where))
    counted = {
        name: sum(each[name] for each in rows(told, "waits"))
        for name in ("requests", "waiting", "never_fits", "abandoned")
    }
    assert counted == {
        "requests": figure(told, "requests_count"), "waiting": figure(told, "requests_waiting"),
        "never_fits": figure(told, "requests_never_fits"), "abandoned": figure(told, "requests_abandoned"),
    }  # fmt: skip
    assert sum(each["waits"] for each in rows(told, "waits")) == figure(told, "waits_count")
    assert sum(each["not_recoverable"] for each in rows(told, "waits")) == figure(told, "waits_not_recoverable_count")


def test_quota_now_is_the_handed_one(found: Answer, expected: Any) -> None:
    told = expected["kueue"]["gpu_quota"]
    for queue in ("team-a", "team-b"):
        each, own = row(found, "quota_now", kind="cluster_queue", queue=queue), told[queue]
        for column, key in (
            ("nominal", "nominal_gpu"), ("reserved", "reserved_gpu"), ("claimed", "kueue_usage_gpu"), ("used", "pods_used_gpu"),
            ("borrowed", "borrowed_gpu"), ("reserved_not_used", "reserved_not_used_gpu"), ("leaked", "leaked_reservation_gpu"),
        ):  # fmt: skip
            assert each[column] == own[key], (queue, column)
    leaking = row(found, "quota_now", kind="cluster_queue", queue="team-b")
    assert leaking["leaked_since"] == told["team-b"]["leaked_since_utc"]
    assert leaking["leaked_gpu_seconds"] == told["team-b"]["leaked_gpu_seconds"]
    pool, cohort = row(found, "quota_now", kind="pool", queue="research", flavor="h100"), told["cohort_research_h100"]
    for column, key in (
        ("nominal", "nominal_gpu"), ("claimed", "kueue_usage_gpu"), ("used", "backed_by_pods_gpu"), ("borrowed", "borrowed_gpu"),
        ("lent", "lent_gpu"),
    ):  # fmt: skip
        assert pool[column] == cohort[key], column
    assert figure(found, "quota_leaked_gpus") == told["team-b"]["leaked_reservation_gpu"]
    assert figure(found, "quota_borrowed_gpus") == cohort["borrowed_gpu"]


def test_evictions_are_counted_as_the_maker_counts_them(found: Answer, expected: Any) -> None:
    counts: dict[str, int] = {}
    for each in rows(found, "evictions"):
        reason = f"{each['reason']}/{each['cause']}" if each["reason"] == "Deactivated" else each["reason"]
        counts[reason] = counts.get(reason, 0) + each["evictions"]
    assert counts == expected["kueue"]["evictions_count"]
    assert figure(found, "evictions_count") == sum(expected["kueue"]["evictions_count"].values())


def test_evictions_by_workload_are_the_handed_ones(store: Store, expected: Any) -> None:
    counts: dict[str, dict[str, int]] = {}
    for each in rows(answer(store, SchedulingSpec(by=("namespace", "workload"))), "evictions"):
        reason = "/".join(part for part in (each["reason"], each["cause"]) if part)
        counts.setdefault(f"{each['namespace']}/{each['workload'].partition('/')[2]}", {})[reason] = each["evictions"]
    told = expected["kueue"]["evictions_by_workload_count"]
    assert sorted(map(str, counts.values())) == sorted(map(str, told.values()))


def test_rejections_are_the_handed_ones(found: Answer, expected: Any) -> None:
    told = expected["kueue"]["rejections_count"]
    decided = {each["rule"]: each["requests"] for each in rows(found, "decisions") if each["verdict"] != "requeued"}
    assert {rule: decided[rule] for rule in told} == told


def test_outcomes_are_the_handed_ones(found: Answer, expected: Any) -> None:
    told, ends = (
        expected["kueue"]["outcomes"],
        [each for each in rows(found, "outcomes") if each["scheduler"] == "kueue"],
    )
    total = {name: sum(each[name] for each in ends) for name in ("succeeded", "failed", "excluded")}
    assert total == {
        "succeeded": told["succeeded_count"], "failed": told["failed_count"], "excluded": told["excluded_slice_replaced_count"],
    }  # fmt: skip
    assert total["succeeded"] / (total["succeeded"] + total["failed"]) == told["success_ratio"]
    jobs = [each for each in rows(found, "outcomes") if each["scheduler"] == "volcano" and each["queue"] != "default"]
    counts = {
        name: sum(each[name] for each in jobs)
        for name in ("succeeded", "failed", "preempted", "living", "degraded", "pending")
    }
    volcano = expected["volcano"]["outcomes_count"]
    assert counts == {
        **{name: volcano[name] for name in counts if name in volcano},
        "living": volcano["running"],
        "degraded": volcano["running_degraded"],
    }


def test_each_preemption_is_one_row_with_both_sides(found: Answer, expected: Any) -> None:
    preemptions = rows(found, "preemptions")
    by_kueue = {each["victim"] for each in preemptions if each["decided_by"] == "kueue"}
    by_kueue.remove("solo-train")  # a pod whose workload is gone: its own condition tells
    assert len(by_kueue) == expected["kueue"]["unique_preempted_workloads_count"]
    assert figure(found, "preemptions_count") == len(preemptions) == 5
    first, second = (each for each in preemptions if each["victim"] == "jobset-sweep-77c2d")
    assert (first["preemptor"], first["contradiction"]) == (None, None)
    assert (second["preemptor"], second["contradiction"]) == ("job-urgent-eval-0aa11", "preemptor_uid_conflict")
    low = row(found, "preemptions", victim="low-prio-run")
    assert f"{low['preemptor_namespace']}/{low['preemptor']}" == expected["pods"]["adhoc/low-prio-run"]["preemptor"]
    assert (
        row(found, "preemptions", victim="evicted-terminated")["rule"]
        == expected["volcano"]["evicted-terminated"]["cause"]
    )


def test_refusals_stand_once_by_who_asked(found: Answer, expected: Any) -> None:
    told, refusals = expected["audit"], rows(found, "refusals")
    counts = {each["refused_by"]: 0 for each in refusals}
    for each in refusals:
        counts[each["refused_by"]] += 1
    assert counts["quota"] == told["quota_denials_count"]
    assert counts["quota_must_specify"] == told["quota_must_specify_denials_count"]
    assert counts["rbac"] == told["rbac_denials_count"]
    assert counts["webhook"] + counts["queue_closed"] == told["webhook_denials_count"]
    assert counts["disruption_budget"] == told["evictions_blocked_by_pdb_count"]
    denied = row(found, "refusals", refused_by="quota")
    assert (denied["asked"], denied["used"], denied["limit"]) == tuple(
        told["quota_denial"][key] for key in ("requested_gpu", "used_gpu", "limit_gpu")
    )
    assert figure(found, "quota_refused_count") == told["quota_denials_count"]
    assert figure(found, "refusals_count") == len(refusals) - 1, "an eviction that a budget refused is no request"


def test_what_was_read_without_a_listing_is_named_among_the_sources(found: Answer) -> None:
    for kind in ("audit_log audit", "kube_api queues", "queue_metrics metrics"):
        assert [line for line in found.sources if line.startswith(f"{kind} (default): from 2026-09-01T")], kind


def test_a_gang_that_holds_cards_and_does_not_run_is_named(found: Answer, expected: Any) -> None:
    told, gang = expected["volcano"]["half-gang"], row(found, "gangs", name="half-gang")
    assert (gang["running"], gang["least"], gang["gpus_idle"]) == (
        told["gang_running_count"], told["gang_min_available_count"], told["idle_held_gpu"],
    )  # fmt: skip
    assert (figure(found, "gangs_incomplete_count"), figure(found, "gangs_incomplete_idle_gpus")) == (
        1,
        told["idle_held_gpu"],
    )


def test_every_contradiction_that_the_maker_planted_is_listed(found: Answer, expected: Any) -> None:
    listed = {each["code"] for each in rows(found, "contradictions")}
    planted = {each["code"] for each in expected["kueue"]["findings"]} - {"inactive_cluster_queue"}
    assert planted <= listed
    assert {"preemptor_uid_conflict", "event_uid_mismatch", "overlapping_nodes", "podgroup_name_mismatch"} <= listed
    assert figure(found, "contradictions_count") == len(rows(found, "contradictions"))


def test_a_tenant_sees_its_own_requests_only(store: Store) -> None:
    own = answer(store, SchedulingSpec(where={"tenant": "team-a"}, confined=True))
    assert {each["tenant"] for each in rows(own, "pending")} == {"team-a"}
    assert {each["victim_namespace"] for each in rows(own, "preemptions")} == {"team-a"}
    assert all("team-b" not in str(each) for each in rows(own, "contradictions"))
    assert {each.subject.partition(" ")[2].partition("/")[0] for each in own.findings} == {"team-a"}


def test_a_past_window_tells_who_waited_then(store: Store) -> None:
    window = Window(parse_instant("2026-09-01T08:00:00Z"), parse_instant("2026-09-01T08:50:00Z"))
    waiting = {each["name"]: each for each in rows(answer(store, SchedulingSpec(window=window)), "pending")}
    assert waiting["jobset-sweep-77c2d"]["since"] == "2026-09-01T08:41:00Z"
    assert waiting["jobset-sweep-77c2d"]["age_seconds"] * SECOND_US == window.end - parse_instant(
        "2026-09-01T08:41:00Z"
    )
    assert format_instant(window.end) > waiting["jobset-sweep-77c2d"]["since"]


def imported(directory: Path, kind: str | None, *paths: Path) -> None:
    settings = Settings()
    FileImporter(directory, settings, lambda opened: post(opened, settings)).import_paths(
        ImportRequest(paths=list(paths), kind=kind), lambda *_: None
    )


def test_the_openb_trace_waits_as_its_reference_says(shared: Path, tmp_path: Path) -> None:
    imported(tmp_path, "openb", shared / "cases" / "traces" / "alibaba-gpu-v2023" / "openb_pod_list_default.csv")
    with Store.open(tmp_path) as opened:
        trace = answer(opened, SchedulingSpec(by=("tenant",)))
    for suffix, quantiles in (("", (3, 596, 3069)), ("_naive", (2, 241, 889.64)), ("_gpu_only", (3, 667, 3354))):
        told = tuple(float(figure(trace, f"queue_wait_{level}_seconds{suffix}")) for level in ("p50", "p95", "p99"))
        assert told == pytest.approx(quantiles), suffix
    assert figure(trace, "requests_count") == 7_255 + 897
    assert figure(trace, "requests_abandoned") == 897
    (ends,) = rows(trace, "outcomes")
    assert ends["not_told"] + ends["living"] == 8_152, "the trace tells no end's kind"


def test_the_helios_month_waits_mostly_for_quota(shared: Path, tmp_path: Path) -> None:
    folder = shared / "cases" / "traces" / "helios"
    imported(tmp_path, None, folder / "earth_vc_sequence_may2020.csv.gz", folder / "Earth_gpu_number.csv")
    may = Window(parse_instant("2020-05-01T00:00:00Z"), parse_instant("2020-06-01T00:00:00Z"))
    with Store.open(tmp_path) as opened:
        month = answer(opened, SchedulingSpec(window=may))
        (tenant,) = {
            each["queue"] for each in rows(month, "quota") if each["kind"] == "tenant" and each["queue"] == "vcvlY"
        }
        one = answer(opened, SchedulingSpec(window=may, where={"tenant": tenant}))
    for name, percent, digits in (
        ("quota_used_ratio", 66.70, 2), ("pending_time_ratio", 89.263, 3), ("pending_fits_pool_ratio", 98.735, 3),
        ("pending_fits_own_ratio", 10.34, 2),
    ):  # fmt: skip
        assert round(100 * float(figure(month, name)), digits) == percent, name
    assert month.next_actions[0].startswith("mostly quota, not capacity")
    assert [each["queue"] for each in rows(one, "quota")] == [tenant]
    assert float(figure(one, "quota_used_ratio")) == float(rows(one, "quota")[0]["used_ratio"])
