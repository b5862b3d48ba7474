"""What several objects say against each other depends neither on which file each came in nor on the order of the imports."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.app.posting import post
from steelyard.app.settings import Settings
from tests.app.import_samples import import_files, listing, rows, write
from tests.sources.kueue.kueue_objects import (
    SEEN,
    admitted,
    assignment,
    cluster_queue,
    condition,
    event,
    local_queue,
    pod,
    workload,
)
from tests.sources.volcano import volcano_objects

HOST = {"levels": ["kubernetes.io/hostname"], "domains": [{"values": ["n1"], "count": 1}]}
VICTIM = "Preempted to accommodate a workload (UID: {}, JobUID: j) due to prioritization in the ClusterQueue"
AT_GATE = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
PREEMPTED = condition("Preempted", True, "09:00:00", "InClusterQueue", VICTIM.format("u-x"))


def about(name: str, uid: str) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "namespace": "a", "name": name, "uid": uid}


def on_node(name: str, flavor: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    return workload(*admitted(), *conditions, name=name, admission=[assignment(flavor=flavor, topologyAssignment=HOST)])


def kubelet(node: str) -> dict[str, Any]:
    return event("Killing", "x", involvedObject={"kind": "Pod", "namespace": "a", "name": "q", "uid": "u-q"},
                 source={"component": "kubelet", "host": node}, reportingComponent="kubelet")  # fmt: skip


def elsewhere(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "metadata": {**payload["metadata"], "namespace": "b"}}


def old_group() -> dict[str, Any]:
    payload = volcano_objects.pod_group("Inqueue")
    payload["metadata"]["creationTimestamp"] = "2026-03-01T08:00:00Z"
    return payload


FILES = {
    "workloads": [
        on_node("x", "h100"), on_node("y", "a100"), workload(PREEMPTED, name="w"), elsewhere(workload(name="far"))
    ],
    "queues": [cluster_queue(pendingWorkloads=9), cluster_queue(name="empty", pendingWorkloads=3), local_queue()],
    "pods": [
        pod("p", labels={"kueue.x-k8s.io/managed": "true"}, node=None, phase="Pending", spec=AT_GATE),
        pod("q", node="n2"),
        elsewhere(pod("r")),
    ],
    "events": [
        event("Preempted", VICTIM.format("u-nobody")),
        event("Pending", "x", "10:00:00", involvedObject=about("y", "u-other")),
        kubelet("n3"),
    ],
    "volcano": [old_group(), volcano_objects.queue(inqueue=0)],
}  # fmt: skip
TOLD = {
    "event_host_mismatch", "event_uid_mismatch", "overlapping_nodes", "preemptor_uid_conflict", "queue_counters_mismatch",
    "queue_counters_without_objects", "stale_inqueue_podgroup", "volcano_queue_counters_stale", "workload_missing_for_kueue_pod",
    "workload_object_missing",
}  # fmt: skip


def told(imports: list[list[str]]) -> set[tuple[str, str]]:
    with TemporaryDirectory() as folder:
        data = Path(folder) / "d"
        for names in imports:
            paths = [write(Path(folder) / f"{name}.json", listing(*FILES[name])) for name in names]
            import_files(data, *paths, as_of=SEEN, post=lambda store: post(store, Settings()))
        sql = "SELECT code, subject FROM {}.finding"
        return set(rows(data, f"{sql.format('fact')} UNION {sql.format('ledger')}"))


@pytest.fixture(scope="module")
def whole() -> set[tuple[str, str]]:
    found = told([list(FILES)])
    assert {code for code, _subject in found} >= TOLD
    return found


@settings(max_examples=6, deadline=None)
@given(order=st.permutations(list(FILES)), cuts=st.sets(st.integers(1, len(FILES) - 1)))
def test_findings_do_not_depend_on_how_the_files_were_cut_or_ordered(
    whole: set[tuple[str, str]], order: list[str], cuts: set[int]
) -> None:
    edges = [0, *sorted(cuts), len(order)]
    assert told([order[start:end] for start, end in pairwise(edges)]) == whole
