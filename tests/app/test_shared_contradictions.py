"""The handed case of queues: what its files say against each other, whatever order or cut they come in."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.primitives.instant import Instant, parse_instant
from tests.app.compared import Told, compare
from tests.app.import_samples import import_files, rows

GPU = "nvidia.com/gpu"
NEW = ("kueue-workloads-v1beta2.json", "kueue-queues-v1beta2-list.json")
OLD = "kueue-legacy-v1beta1-list.json"


@pytest.fixture(scope="module")
def case(shared: Path) -> Path:
    return shared / "cases/queues"


@pytest.fixture(scope="module")
def expected(case: Path) -> Any:
    return json.loads((case / "expected.json").read_text())


def items(case: Path, *names: str) -> list[dict[str, Any]]:
    return [item for name in names for item in json.loads((case / name).read_text())["items"]]


def test_what_the_inputs_say_against_each_other(case: Path, expected: Any) -> None:
    found = compare(
        *items(case, *NEW, OLD, "events-list.json", "pods.json"), at=parse_instant(expected["snapshot_utc"])
    )
    by_code: dict[str, dict[str, Told]] = defaultdict(dict)
    for fact in found:
        by_code[fact.code][fact.subject.split(" ", 1)[1]] = fact
    truths = {row["code"]: row for row in [*expected["kueue"]["findings"], *expected["input_inconsistencies"]]}
    for code in ("preemptor_uid_conflict", "event_uid_mismatch", "flavor_message_mismatch", "queue_counters_without_objects",
                 "stale_cluster_queue_status", "stale_local_queue_status", "inactive_cluster_queue", "workload_object_missing"):  # fmt: skip
        assert set(by_code[code]) == {truths[code]["object"]}, code
    assert set(by_code["workload_missing_for_kueue_pod"]) == set(truths["workload_missing_for_kueue_pod"]["objects"])
    assert set(by_code["overlapping_nodes"]) == {"gpu-node-03", "gpu-node-04"}
    assert set(by_code["event_host_mismatch"]) == {truths["event_host_mismatch"]["object"]}
    assert len(by_code) == 11

    def evidence(code: str) -> Any:
        (fact,) = by_code[code].values()
        return json.loads(fact.evidence)

    truth = truths["event_uid_mismatch"]
    assert (evidence("event_uid_mismatch")["event_uid"], evidence("event_uid_mismatch")["object_uid"]) == (
        truth["event_uid"],
        truth["object_uid"],
    )
    truth, told = truths["stale_cluster_queue_status"], evidence("stale_cluster_queue_status")
    assert told["deletion_utc"] == truth["deletion_utc"]
    for key in ("pending_workloads_claimed_count", "admitted_workloads_claimed_count"):
        assert told[key] == truth[key]
    assert evidence("queue_counters_without_objects")["workload_objects_count"] == truth["workload_objects_count"]
    truth, told = truths["stale_local_queue_status"], evidence("stale_local_queue_status")
    assert (told["claimed_milli"][GPU], told["true_milli"][GPU]) == (
        truth["claimed_gpu"] * 1_000,
        truth["true_gpu"] * 1_000,
    )
    assert (told["reason"], evidence("inactive_cluster_queue")["reason"]) == (
        truth["reason"],
        truths["inactive_cluster_queue"]["reason"],
    )


def told(data: Path, imports: Sequence[Sequence[Path]], as_of: Instant) -> set[tuple[str, str]]:
    """Every finding after these imports, one after another: code and subject."""
    for files in imports:
        import_files(data, *files, as_of=as_of, now=as_of, post=lambda store: post(store, Settings()))
    return set(rows(data, "SELECT code, subject FROM fact.finding UNION SELECT code, subject FROM ledger.finding"))


def test_the_case_says_the_same_in_one_go_and_file_by_file_in_any_order(
    case: Path, expected: Any, tmp_path: Path
) -> None:
    files = sorted(path for path in case.iterdir() if path.name != "expected.json")
    at = parse_instant(expected["snapshot_utc"])
    whole = told(tmp_path / "whole", [files], at)
    for code in ("overlapping_nodes", "event_host_mismatch", "stale_inqueue_podgroup", "workload_object_missing"):
        assert code in {each for each, _subject in whole}
    by_size = sorted(files, key=lambda path: path.stat().st_size)
    for number, order in enumerate((files, files[::-1], by_size)):
        assert told(tmp_path / str(number), [[path] for path in order], at) == whole


def test_every_inconsistency_of_the_case_is_shown(case: Path, expected: Any, tmp_path: Path) -> None:
    files = [path for path in case.iterdir() if path.name != "expected.json"]
    found = {code for code, _subject in told(tmp_path / "d", [files], parse_instant(expected["snapshot_utc"]))}
    assert {row["code"] for row in (*expected["input_inconsistencies"], *expected["kueue"]["findings"])} <= found
