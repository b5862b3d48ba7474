"""The handed HAMi case, from its files to ``steelyard reconcile``: every finding of its expected.json, and none that it does not name."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.wiring import ports
from steelyard.surfaces.cli import run

FILES = ("nodes_hami.json", "pods_hami_mixed.json", "volcano_list.json")
AS_OF = "2026-11-30T02:00:40Z"

Told = dict[str, list[dict[str, Any]]]
"""Code -> what the answer says of each: ``subject`` and its evidence."""


@pytest.fixture(scope="module")
def case(shared: Path) -> Path:
    return shared / "cases" / "hami"


@pytest.fixture(scope="module")
def reconciled(case: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("hami")
    paths = [str(case / name) for name in FILES] + [str(path) for path in sorted(case.glob("*.prom"))]
    assert run(ports(), ["import", *paths, "--as-of", AS_OF, "--data", str(directory)]) == 0
    output = io.StringIO()
    with redirect_stdout(output):
        assert run(ports(), ["reconcile", "--json", "--data", str(directory)]) == 0
    return json.loads(output.getvalue())


@pytest.fixture(scope="module")
def told(reconciled: Any) -> Told:
    (table,) = [each for each in reconciled["tables"] if each["name"] == "deviations"]
    names = [column["name"] for column in table["columns"]]
    found: Told = {}
    for row in table["rows"]:
        cells = dict(zip(names, row, strict=True))
        found.setdefault(cells["code"], []).append({"subject": cells["subject"], **json.loads(cells["evidence"])})
    return found


@pytest.fixture(scope="module")
def expected(case: Path) -> Mapping[str, Sequence[dict[str, Any]]]:
    found: Mapping[str, Sequence[dict[str, Any]]] = json.loads((case / "expected.json").read_text(encoding="utf-8"))[
        "metric_findings"
    ]
    return found


SAME = {
    "ghost_pod": (
        "device_uuid", "over_reported_memory_mib", "over_reported_cores_percent", "exporter_memory_mib", "truth_memory_mib", "exporter_shared_count",
        "truth_shared_count",
    ),
    "reserved_counted_as_allocated": ("device_uuid", "memory_mib", "cores_percent", "exporter_memory_mib", "truth_held_memory_mib"),
    "missing_slice_after_init": (
        "device_uuid", "exporter_memory_mib", "truth_memory_mib", "exporter_cores_percent", "truth_cores_percent", "exporter_shared_count",
        "truth_shared_count",
    ),
    "quota_used_understated": ("namespace", "quota_name", "exporter_mib", "truth_mib_in_scope", "limit_mib", "exporter_cores_percent"),
    "profile_cores": (
        "device_uuid", "exporter_cores_percent", "truth_held_cores_percent", "exporter_memory_mib", "truth_held_memory_mib", "held_share_ppm",
    ),
    "utilisation_over_100": (
        "device_uuid", "raw_percent", "clamped_percent", "device_utilisation_percent", "sum_over_containers_after_clamp_percent",
    ),
    "series_of_finished_pod": ("device_uuid", "stale_memory_mib", "device_used_memory_mib"),
    "value_above_physical": ("device_uuid", "rejected_samples_count"),
    "residual_memory": ("device_uuid", "device_used_memory_mib", "counted_memory_mib", "residual_memory_mib"),
    "wrong_container": ("device_uuid", "reported_container", "true_container"),
    "mig_without_container_usage": ("device_uuid", "device_used_memory_mib"),
    "type_mismatch": ("device_uuid", "monitor_type", "register_type"),
    "counter_typed_level": ("metric",),
    "series_without_node_label": ("metric",),
}  # fmt: skip
"""Code -> the keys of expected.json that the evidence has under the same name."""

SUBJECT = {"pod": "pod {}", "namespace": "namespace {}", "device_uuid": "device {}", "metric": "metric {}"}

MORE_THAN_NAMED = {
    "duplicate_metric_names", "quota_limit_zero_is_unlimited", "series_without_node_label",
}  # fmt: skip
"""Codes of single files of which the case names one example and its files hold more: other names that stand there twice, other quotas with limit
0, the other rows of the host without a node."""


def subject_of(finding: Mapping[str, Any]) -> str | None:
    return next((words.format(finding[key]) for key, words in SUBJECT.items() if key in finding), None)


def of(told: Told, finding: Mapping[str, Any]) -> dict[str, Any]:
    """The one that the answer tells of the same subject (and card, where a pod has several)."""
    subject = subject_of(finding)
    found = [
        each
        for each in told.get(finding["code"], [])
        if (subject is None or each["subject"] == subject)
        and finding.get("device_uuid") in (None, each.get("device_uuid", finding.get("device_uuid")))
        and finding.get("quota_name") in (None, each.get("quota_name", finding.get("quota_name")))
    ]
    if subject is None and finding["code"] == "duplicate_metric_names":
        found = [each for each in found if sorted(each["names"]) == sorted(finding["names"])]
    if finding["code"] == "series_absent" and "device_uuid" not in finding:
        found = [each for each in found if "device_uuid" not in each]
    assert found, finding
    return found[0]


def test_every_finding_of_the_case_is_told_with_its_figures(
    told: Told, expected: Mapping[str, Sequence[dict[str, Any]]]
) -> None:
    for findings in expected.values():
        for wanted in findings:
            found = of(told, wanted)
            for key in SAME.get(wanted["code"], ()):
                if key == "device_uuid" and key not in found:
                    assert found["subject"] == f"device {wanted[key]}"
                else:
                    assert found[key] == wanted[key], (wanted, key)


def _quota_agrees(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert found["exporter_mib"] == wanted.get("used_mib", wanted.get("exporter_mib"))
    assert found["truth_mib_in_scope"] == wanted.get("truth_mib", wanted.get("truth_mib_in_scope"))
    assert found["limit_mib"] == wanted.get("limit_mib")
    if "scope_nodes" in wanted:
        assert found["scope_nodes"].split(",") == wanted["scope_nodes"]
        assert found["truth_mib_all_nodes"] == wanted["truth_mib_all_nodes_in_case"]


def _quota_understated(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert found["scope_nodes"].split(",") == wanted["scope_nodes"]
    assert found["truth_mib_all_nodes"] == wanted["truth_mib_all_nodes_in_case"]
    assert found["truth_cores_percent_in_scope"] == wanted["truth_cores_percent_in_scope"]
    assert found["truth_cores_percent_all_nodes"] == wanted["truth_cores_percent_all_nodes_in_case"]
    assert found["exceeds_limit_mib"] == wanted["truth_mib_all_nodes_in_case"] - wanted["limit_mib"]


def _zero_is_unlimited(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert (found["quota_name"], found["used"]) == (wanted["quota_name"], wanted["used_percent"])


def _above_physical(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert found["raw"] == wanted["raw_bytes"]
    assert sorted(found["metrics"]) == sorted(wanted["metrics"])


def _absent(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert {key: found.get(key) for key in ("container", "granted_memory_mib")} == {
        key: wanted.get(key) for key in ("container", "granted_memory_mib")
    }


def _mig(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert {key: found[key] for key in wanted["join_key"]} == wanted["join_key"]


def _components(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert found["components_sum_bytes"] == wanted["components_sum_bytes"]
    assert found["used_bytes"] == wanted["used_bytes_by_device"][found["device_uuid"]]
    assert sorted(found["metrics"]) == sorted(wanted["metrics"])


@pytest.mark.parametrize(
    ("code", "check"),
    [
        ("quota_used_agrees", _quota_agrees),
        ("quota_used_understated", _quota_understated),
        ("quota_limit_zero_is_unlimited", _zero_is_unlimited),
        ("value_above_physical", _above_physical),
        ("series_absent", _absent),
        ("mig_without_container_usage", _mig),
        ("components_do_not_add_up", _components),
    ],
)
def test_figures_under_other_names_are_those_of_the_case(
    code: str,
    check: Callable[[Mapping[str, Any], Mapping[str, Any]], None],
    told: Told,
    expected: Mapping[str, Sequence[dict[str, Any]]],
) -> None:
    wanted = [each for findings in expected.values() for each in findings if each["code"] == code]
    assert wanted
    for each in wanted:
        check(of(told, each), each)


def test_no_other_finding_of_these_codes_is_told(told: Told, expected: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    wanted: dict[str, list[dict[str, Any]]] = {}
    for findings in expected.values():
        for each in findings:
            wanted.setdefault(each["code"], []).append(each)
    for code, each in wanted.items():
        if code in MORE_THAN_NAMED:
            continue
        count = len(each[0]["used_bytes_by_device"]) if code == "components_do_not_add_up" else len(each)
        assert len(told[code]) == count, code


def test_nothing_else_is_found_of_the_exporters_in_the_case(
    told: Told, expected: Mapping[str, Sequence[dict[str, Any]]]
) -> None:
    named = {each["code"] for findings in expected.values() for each in findings}
    of_objects = {"grant_larger_than_request", "tampered_grant_impossible", "memory_scaled"}
    assert set(told) - named - of_objects == set()


def table(reconciled: Any, name: str) -> list[dict[str, Any]]:
    (found,) = [each for each in reconciled["tables"] if each["name"] == name]
    names = [column["name"] for column in found["columns"]]
    return [dict(zip(names, row, strict=True)) for row in found["rows"]]


def test_the_five_columns_of_a_pod_stand_side_by_side(reconciled: Any) -> None:
    (row,) = [each for each in table(reconciled, "pods") if each["pod"] == "infer-1"]
    assert [row[f"memory_{name}_mib"] for name in ("requested", "granted", "enforced", "counted")] == [
        8_192,
        8_192,
        8_192,
        6_144,
    ]
    assert set(row["memory_device_mib"]) == {"unknown"}
    assert [row[f"cores_{name}_percent"] for name in ("requested", "granted", "counted")] == [30, 30, 28]
    assert row["verdict"] == "agrees"


def test_a_discarded_count_is_unknown_and_the_ghost_holds_nothing(reconciled: Any) -> None:
    by_pod = {each["pod"]: each for each in table(reconciled, "pods")}
    assert set(by_pod["terminating"]["memory_counted_mib"]) == {"unknown"}
    assert (by_pod["ghost-0"]["verdict"], by_pod["ghost-0"]["memory_scheduler_mib"]) == ("not_held", 4_096)
    assert set(by_pod["ghost-0"]["memory_granted_mib"]) == {"unknown"}
    assert by_pod["tampered"]["verdict"] == "grant_larger_than_request"


def test_granted_per_card_is_what_the_case_calls_held(reconciled: Any, case: Path) -> None:
    totals = json.loads((case / "expected.json").read_text(encoding="utf-8"))["gpu_totals_allocated"]
    cards = {each["device_uuid"]: each for each in table(reconciled, "cards")}
    for uuid, card in cards.items():
        assert card["memory_granted_mib"] == totals[uuid]["held_memory_mib"]
        assert card["cores_granted_percent"] == totals[uuid]["held_cores_percent"]
    assert {uuid for uuid, total in totals.items() if total["held_memory_mib"]} <= set(cards)
