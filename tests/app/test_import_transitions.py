"""Changes of conditions and phases come in by files as they do over a watch, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steelyard.store import Store
from tests.app.import_samples import import_files, listing, write


def workload(*conditions: tuple[str, str, str]) -> dict[str, Any]:
    rows = [{"type": kind, "status": value, "lastTransitionTime": stamp} for kind, value, stamp in conditions]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "ns", "uid": "u-w"},
        "status": {"conditions": rows},
    }


def test_two_dumps_of_a_workload_give_the_union_of_its_changes_each_once(tmp_path: Path) -> None:
    reserved = ("QuotaReserved", "True", "2026-03-01T11:00:00Z")
    evicted = ("Evicted", "True", "2026-03-01T12:00:00Z")
    import_files(tmp_path / "d", write(tmp_path / "one.json", listing(workload(reserved))))
    report = import_files(tmp_path / "d", write(tmp_path / "two.json", listing(workload(reserved, evicted))))
    assert not report.findings_by_code
    with Store.open(tmp_path / "d") as store:
        rows = store.rows("SELECT item, value, CAST(occurred_at AS VARCHAR) FROM fact.transition ORDER BY occurred_at")
    assert rows == [("QuotaReserved", "True", "2026-03-01 11:00:00"), ("Evicted", "True", "2026-03-01 12:00:00")]
