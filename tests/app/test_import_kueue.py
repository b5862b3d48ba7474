"""Kueue's objects and events come in by files and over a watch: to their readers, and to the comparisons once all was seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from steelyard.app.collectors.watched_objects import WatchedObjects
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.facts.gang import Gang
from steelyard.primitives.instant import HOUR_US
from steelyard.sources.kube_api.watch_round import SeenObject
from steelyard.sources.shared.context import ReadContext
from steelyard.store import Store
from tests.app.import_samples import import_files, listing, rows, write
from tests.sources.kueue.kueue_objects import (
    SEEN,
    V1,
    V2,
    admitted,
    assignment,
    cluster_queue,
    event,
    local_queue,
    pod,
    stamp,
    workload,
)

GATED = pod("p", labels={"kueue.x-k8s.io/managed": "true"}, node=None, phase="Pending",
            spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]})  # fmt: skip
WORD = "workloads.kueue.x-k8s.io"
ELSEWHERE = {**workload(name="far"), "metadata": {"name": "far", "namespace": "b", "uid": "u-far"}}


def test_every_kind_of_kueue_s_is_read_and_none_is_called_unsupported(tmp_path: Path) -> None:
    more = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "uid": f"u-{kind}-{version}"}}
        for kind in ("Cohort", "ResourceFlavor", "AdmissionCheck", "WorkloadPriorityClass", "Topology")
        for version in (V1, V2)
    ]
    held = workload(*admitted(), admission=[assignment()])
    report = import_files(
        tmp_path / "d", write(tmp_path / "x.json", listing(held, cluster_queue(), local_queue(), *more))
    )
    assert "kind_not_supported" not in report.findings_by_code
    kinds = "SELECT queue_kind, count(*) FROM fact.queue GROUP BY 1 ORDER BY 1"
    assert rows(tmp_path / "d", kinds) == [
        ("admission_check", 2),
        ("cluster_queue", 1),
        ("cohort", 2),
        ("flavor", 2),
        ("local_queue", 1),
        ("priority_class", 2),
        ("topology", 2),
    ]
    assert rows(tmp_path / "d", "SELECT object_name, phase FROM fact.gang") == [("w", "admitted")]
    assert rows(tmp_path / "d", "SELECT verdict FROM fact.decision ORDER BY 1") == [("admitted",), ("reserved",)]
    items = "SELECT item FROM fact.transition WHERE object_kind = 'Workload' ORDER BY 1"
    assert rows(tmp_path / "d", items) == [("Admitted",), ("QuotaReserved",)]


def test_kueue_s_events_are_events_and_decisions(tmp_path: Path) -> None:
    import_files(tmp_path / "d", write(tmp_path / "e.json", listing(event("ExceedsMaxQuota", ""))))
    assert rows(tmp_path / "d", "SELECT reason FROM fact.event") == [("ExceedsMaxQuota",)]
    assert rows(tmp_path / "d", "SELECT verdict, evidence FROM fact.decision") == [("never_fits", "event")]


def _posted(store: Store) -> int:
    return post(store, Settings())


def _told(data: Path) -> list[str]:
    return [code for (code,) in rows(data, "SELECT code FROM ledger.finding WHERE source = 'kueue' ORDER BY code")]


def test_objects_and_pods_of_several_files_are_compared(tmp_path: Path) -> None:
    objects = write(tmp_path / "w.json", listing(workload(), ELSEWHERE, kind="WorkloadList"))
    import_files(tmp_path / "d", objects, write(tmp_path / "p.json", listing(GATED)), post=_posted)
    assert _told(tmp_path / "d") == ["workload_missing_for_kueue_pod", "workload_object_missing"]


def test_a_list_of_one_namespace_or_an_incomplete_one_says_nothing_is_missing(tmp_path: Path) -> None:
    pods = write(tmp_path / "p.json", listing(GATED))
    one = write(tmp_path / "one.json", listing(workload(), workload(name="x")))
    import_files(tmp_path / "one", one, pods, post=_posted)
    more = {**listing(workload(), ELSEWHERE), "metadata": {"continue": "token"}}
    import_files(tmp_path / "part", write(tmp_path / "part.json", more), pods, post=_posted)
    lines = "\n".join(json.dumps(each) for each in (workload(), ELSEWHERE))
    import_files(tmp_path / "lines", write(tmp_path / "lines.jsonl", lines), pods, post=_posted)
    assert [_told(tmp_path / name) for name in ("one", "part", "lines")] == [[], [], []]
    import_files(tmp_path / "all", one, pods, all_namespaces=True, post=_posted)
    assert _told(tmp_path / "all") == ["workload_missing_for_kueue_pod", "workload_object_missing"]


def test_the_end_of_a_back_off_is_a_plan_and_dates_no_dump(tmp_path: Path) -> None:
    payload = workload(requeueState={"count": 1, "requeueAt": stamp("11:00:00")})
    import_files(tmp_path / "d", write(tmp_path / "w.json", listing(payload)))
    found = rows(tmp_path / "d", "SELECT CAST(occurred_at AS VARCHAR), CAST(requeue_at AS VARCHAR) FROM fact.gang")
    assert found == [("2026-03-01 08:00:00", "2026-03-01 11:00:00")]


def test_a_second_dump_without_a_workload_says_that_it_was_given_up(tmp_path: Path) -> None:
    first = write(tmp_path / "first.json", listing(workload(), workload(name="x")))
    import_files(tmp_path / "d", first, as_of=SEEN, post=_posted)
    found = "SELECT name, end_kind, CAST(ended_at AS VARCHAR) FROM dim.demand ORDER BY 1"
    assert rows(tmp_path / "d", found) == [("w", None, None), ("x", None, None)]
    second = write(tmp_path / "second.json", listing(workload(name="x")))
    import_files(tmp_path / "d", second, as_of=SEEN + HOUR_US, post=_posted)
    assert rows(tmp_path / "d", found) == [("w", "abandoned", "2026-03-01 12:00:00"), ("x", None, None)]
    waits = "SELECT ended_by, CAST(ended_at AS VARCHAR) FROM ledger.wait ORDER BY demand_id"
    assert rows(tmp_path / "d", waits) == [("abandoned", "2026-03-01 12:00:00"), (None, None)]


def _seen(*payloads: dict[str, Any], seen_at: int = SEEN) -> list[SeenObject]:
    words = {"Workload": WORD, "ClusterQueue": "clusterqueues.kueue.x-k8s.io", "Pod": "pods"}
    return [
        SeenObject(words[each["kind"]], each["kind"], each.get("apiVersion", "v1"), json.dumps(each).encode(), seen_at)
        for each in payloads
    ]


def test_a_watched_workload_is_a_gang_each_time_it_changes() -> None:
    objects = WatchedObjects()
    phases = []
    for conditions in ([], admitted()):
        facts = objects.read(_seen(workload(*conditions)), ReadContext(observed_at=SEEN))
        phases += [fact.phase for fact in facts if isinstance(fact, Gang)]
    assert phases == ["pending", "admitted"]
