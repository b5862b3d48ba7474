"""The Helios month through the real import: how much of the quota was used, and whether waiting was quota or capacity."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.quota_balance import SQL, QuotaBalance, quota_balance
from steelyard.answers.reading import Reading
from steelyard.app.importer import FileImporter
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.primitives.instant import parse_instant
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportRequest

MAY = (parse_instant("2020-05-01T00:00:00Z"), parse_instant("2020-06-01T00:00:00Z"))


@pytest.fixture(scope="module")
def month(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuotaBalance]:
    folder, directory = shared / "cases/traces/helios", tmp_path_factory.mktemp("helios")
    settings = Settings()
    paths = [folder / "earth_vc_sequence_may2020.csv.gz", folder / "Earth_gpu_number.csv"]
    request = ImportRequest(paths=paths, kind=None)
    FileImporter(directory, settings, lambda store: post(store, settings)).import_paths(request, lambda *_: None)
    with Store.open(directory) as store:
        yield quota_balance(Reading(store, SQL), *MAY)


def figure(balance: QuotaBalance, name: str) -> float:
    (found,) = (each for each in balance.figures if each.name == name)
    assert found.coverage == 1.0
    return float(found.value)  # type: ignore[arg-type]


def test_two_thirds_of_the_quota_were_used(month: QuotaBalance):
    assert round(100 * figure(month, "quota_used_ratio"), 2) == 66.70


def test_each_tenant_used_its_part(month: QuotaBalance, shared: Path):
    expected = json.loads((shared / "cases/traces/REFERENCE.json").read_text())["helios"]
    (table,) = (each for each in month.tables if each.name == "quota")
    names = [column.name for column in table.columns]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in table.rows]
    tenants = {row["queue"]: row for row in rows if row["kind"] == "tenant"}
    for column, key in (
        ("used", "gpu_hours_running_per_vc"),
        ("nominal", "gpu_hours_quota_per_vc"),
        ("pending", "pending_gpu_hours_per_vc"),
    ):
        told = {name: round(float(row[column]), 6) for name, row in tenants.items() if name in expected[key]["value"]}
        assert told == expected[key]["value"]
    used = {
        name: round(100 * float(row["used_ratio"]), 6)
        for name, row in tenants.items()
        if name in expected["util_pct_per_vc"]["value"]
    }
    assert used == expected["util_pct_per_vc"]["value"]


def test_somebody_waited_in_most_minutes_and_mostly_for_quota(month: QuotaBalance):
    assert round(100 * figure(month, "quota_pending_time_ratio"), 3) == 89.263
    assert round(100 * figure(month, "quota_pending_fits_pool_ratio"), 3) == 98.735
    assert round(100 * figure(month, "quota_pending_fits_own_ratio"), 2) == 10.34
    assert month.cause is not None
    assert month.cause.startswith("mostly quota, not capacity")


@pytest.fixture(scope="module")
def cases(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder, directory = shared / "cases/queues", tmp_path_factory.mktemp("queues")
    settings = Settings()
    paths = sorted(path for path in folder.iterdir() if path.name != "expected.json")
    request = ImportRequest(paths=paths, kind=None, as_of=parse_instant("2026-09-01T12:00:00Z"))
    FileImporter(directory, settings, lambda store: post(store, settings)).import_paths(request, lambda *_: None)
    with Store.open(directory) as store:
        yield store


def expected_of(shared: Path) -> Any:
    return json.loads((shared / "cases/queues/expected.json").read_text())


def now(cases: Store, kind: str, queue: str, flavor: str | None, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    (row,) = cases.records(
        "SELECT * FROM dim.quota_now WHERE queue_kind = $kind AND queue = $queue AND flavor IS NOT DISTINCT FROM $flavor AND resource = $resource",
        {"kind": kind, "queue": queue, "flavor": flavor, "resource": resource},
    )
    return row


GPUS = {
    "nominal_gpu": "nominal",
    "reserved_gpu": "reserved",
    "kueue_usage_gpu": "claimed",
    "pods_used_gpu": "used",
    "backed_by_pods_gpu": "used",
    "borrowed_gpu": "borrowed",
    "lent_gpu": "lent",
    "reserved_not_used_gpu": "reserved_not_used",
    "leaked_reservation_gpu": "leaked",
    "max_capacity_gpu": "max_capacity",
    "borrowing_limit_gpu": "borrowing_limit",
    "lending_limit_gpu": "lending_limit",
}


@pytest.mark.parametrize(
    ("entry", "kind", "queue", "flavor"),
    [
        ("team-a", "cluster_queue", "team-a", "h100"),
        ("team-b", "cluster_queue", "team-b", "h100"),
        ("cohort_research_h100", "pool", "research", "h100"),
        ("legacy", "cluster_queue", "legacy", "a100"),
    ],
)
def test_the_balance_of_a_dump_is_that_of_the_case(
    cases: Store, shared: Path, entry: str, kind: str, queue: str, flavor: str
):
    kueue = expected_of(shared)["kueue"]
    expected = {**kueue["gpu_quota"], **kueue["legacy_v1beta1"]["gpu_quota"]}[entry]
    row = now(cases, kind, queue, flavor)
    told = {key: row[f"{GPUS[key]}_milli"] for key in expected if key in GPUS}
    assert told == {key: None if expected[key] is None else expected[key] * 1000 for key in told}
    assert row["used_basis"] == "holding"
    if "leaked_gpu_seconds" in expected:
        assert row["leaked_milli_us"] == expected["leaked_gpu_seconds"] * 1_000_000_000
        assert f"{row['leaked_since_at']:%Y-%m-%dT%H:%M:%SZ}" == expected["leaked_since_utc"]


def test_a_volcano_queue_is_balanced_by_its_pods_and_its_metric_is_not_believed(cases: Store, shared: Path):
    expected = expected_of(shared)["volcano"]
    prod, research = now(cases, "volcano_queue", "prod", None), now(cases, "volcano_queue", "research", None)
    assert prod["used_milli"] == expected["queue_prod_allocated_gpu"]["true_gpu"] * 1000
    assert research["used_milli"] == expected["queue_research_allocated"]["true_gpu"] * 1000
    assert research["used_basis"] == "claimed"  # two of its tasks run whose pods are in no listing
    assert now(cases, "pool", "root", None)["used_milli"] == 2000  # the root's own row is the sum of its children


def findings(cases: Store, code: str) -> list[tuple[str, dict[str, Any]]]:
    rows = cases.rows(
        "SELECT subject, evidence FROM ledger.finding WHERE code = ? UNION ALL "
        "SELECT subject, evidence FROM fact.finding WHERE code = ? ORDER BY ALL",
        [code, code],
    )
    return [(subject, json.loads(evidence)) for subject, evidence in rows]


@pytest.mark.parametrize(
    "code",
    [
        "leaked_reservation",
        "replica_role_double_count",
        "kueue_wait_metric_wrong",
        "finished_metric_counts_slice_replacement",
    ],
)
def test_what_controllers_say_wrongly_is_one_finding_with_its_numbers(cases: Store, shared: Path, code: str):
    (expected,) = (each for each in expected_of(shared)["kueue"]["findings"] if each["code"] == code)
    ((subject, evidence),) = findings(cases, code)
    assert expected.get("object", expected.get("cluster_queue")) in subject
    told = set(expected) - {"code", "object", "text"}
    assert {key: evidence[key] for key in told} == {key: expected[key] for key in told}


def test_the_sum_of_a_wait_metric_stands_beside_the_true_one(cases: Store, shared: Path):
    expected = expected_of(shared)["kueue"]["metric_cross_check"]["kueue_quota_reserved_wait_time_seconds"]
    ((_, evidence),) = findings(cases, "kueue_wait_metric_wrong")
    assert (evidence["queue"], evidence["priority_class"]) == (expected["cluster_queue"], expected["priority_class"])
    for key in ("count", "sum_seconds", "true_sum_seconds", "difference_seconds"):
        assert evidence[key] == expected[key]


def test_series_of_what_is_gone_are_told(cases: Store, shared: Path):
    expected = expected_of(shared)["volcano"]
    found = dict(findings(cases, "stale_metric_series"))
    (gone,) = expected["stale_metric_series"]
    assert found["job long-gone-job"] == gone
    prod = found["queue prod/nvidia.com/gpu"]
    for key in ("metric_raw_milli_gpu", "metric_gpu", "status_gpu", "true_gpu"):
        assert prod[key] == expected["queue_prod_allocated_gpu"][key]
    assert len(found) == 2
