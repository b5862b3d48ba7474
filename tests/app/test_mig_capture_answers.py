"""MIG cards as nvidia-smi shows them, from the files to Q1, Q2 and Q3: a real capture under load, and two compute instances of one instance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.q01_holders import HoldersSpec
from steelyard.answers.q01_holders import answer as holders
from steelyard.answers.q02_consumption import ConsumptionSpec
from steelyard.answers.q02_consumption import answer as consumption
from steelyard.answers.q03_utilisation import UtilisationSpec
from steelyard.answers.q03_utilisation import answer as utilisation
from steelyard.app.importer import FileImporter
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import MINUTE_US, Instant, parse_instant
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportRequest

CAPTURED = parse_instant("2026-07-14T09:00:43Z")
CARD = "GPU-aaaaaaaa-1111-4222-8333-444444444444"
PARTS = ("MIG-cccccccc-1111-4222-8333-444444444444", "MIG-dddddddd-1111-4222-8333-444444444444")
LIST = (
    f"GPU 0: NVIDIA H200 (UUID: {CARD})\n  MIG 1c.3g.71gb  Device  0: (UUID: {PARTS[0]})\n"
    f"  MIG 2c.3g.71gb  Device  1: (UUID: {PARTS[1]})\n"
)
TABLE = """Tue Jul 14 09:00:43 2026
| NVIDIA-SMI 590.48.01              Driver Version: 590.48.01      CUDA Version: 13.1     |
|   0  NVIDIA H200                    On  |   00000000:3B:00.0 Off |                   On |
| N/A   52C    P0            432W /  700W |   12345MiB / 143771MiB |     N/A      Default |
|                                         |                        |              Enabled |
| MIG devices:                                                                            |
|  0    1   0   0  |           12000MiB / 71424MiB    | 16      0 |  3   0    3    0    3 |
|  0    1   1   1  |           12000MiB / 71424MiB    | 32      0 |  3   0    3    0    3 |
| Processes:                                                                              |
|    0    1    0            21180      C   train                                   8000MiB |
|    0    1    1            21181      C   serve                                   4000MiB |
"""


def taken(folder: Path, at: Instant, *paths: Path, store: Store | None = None) -> Store:
    store = store or Store.open_memory()
    importer = FileImporter(folder, Settings(), lambda _store: 0, FixedClock(at), opened=store)
    report = importer.import_paths(
        ImportRequest(paths=list(paths), as_of=at, node="n1", expected_interval_us=30 * MINUTE_US), lambda *_: None
    )
    assert {file.status for file in report.files} == {"imported"}
    return store


def q2(store: Store) -> dict[str, Any]:
    return {figure.name: figure.value for figure in consumption(store, ConsumptionSpec()).figures}


def test_a_mig_card_under_load_has_memory_by_instance_and_no_utilisation_of_processes(
    shared: Path, tmp_path: Path
) -> None:
    folder = shared / "cases" / "smi" / "split"
    names = ("list-L", "load.table", "load.compute-apps", "load.query-gpu", "load.pmon")
    store = taken(tmp_path, CAPTURED, *(next(folder.glob(f"h100-mig.{name}.*")) for name in names))
    post(store, Settings(), FixedClock(CAPTURED))
    instances = dict(store.rows("SELECT DISTINCT gi, memory_used_mib FROM fact.device_sample WHERE gi IS NOT NULL"))
    assert instances == {2: 11_091, 3: 17, 9: 9, 10: 9}
    told = store.rows(
        "SELECT DISTINCT pid, gi, sm_ratio, json_extract_string(unknown, '$.sm_ratio') FROM fact.process_sample "
        "WHERE unknown LIKE '%sm_ratio%' ORDER BY pid"
    )
    assert [(pid, sm) for pid, _gi, sm, _ in told] == [(21180, None), (21181, None), (21198, None)]
    assert all(reason for *_, reason in told)
    assert store.rows(
        "SELECT count(*) FROM fact.device_sample WHERE util_gpu_ratio IS NOT NULL OR gr_active_ratio = 0"
    ) == [(0,)]
    assert holders(store, HoldersSpec()).tables and utilisation(store, UtilisationSpec()).tables
    assert not any(
        state.startswith("held_idle") for (state,) in store.rows("SELECT DISTINCT state FROM ledger.gpu_state")
    )


def pods(at: str) -> dict[str, Any]:
    def one(name: str, profile: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": at},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": {"limits": {f"nvidia.com/mig-{profile}": "1"}}}]},
            "status": {"phase": "Running", "startTime": at, "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}],
                       "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": at}}}]},
        }  # fmt: skip

    return {"apiVersion": "v1", "kind": "List", "items": [one("train", "1c.3g.71gb"), one("serve", "2c.3g.71gb")]}


@pytest.fixture
def composed(tmp_path: Path) -> Store:
    """Two compute instances of one GPU instance, each held by a pod, seen each minute of an hour."""
    store = Store.open_memory()
    kubelet = {
        "node": "n1",
        "pod_resources": [
            {
                "name": name,
                "namespace": "team",
                "containers": [
                    {"name": "main", "devices": [{"resource_name": f"nvidia.com/mig-{profile}", "device_ids": [part]}]}
                ],
            }
            for name, profile, part in (("train", "1c.3g.71gb", PARTS[0]), ("serve", "2c.3g.71gb", PARTS[1]))
        ],
        "allocatable": {"devices": []},
    }
    for minute in (0, 30, 60):
        at = CAPTURED + minute * MINUTE_US
        folder = tmp_path / str(minute)
        folder.mkdir()
        texts = {
            "list.txt": LIST,
            "table.txt": TABLE.replace("09:00:43", f"{9 + minute // 60:02d}:{minute % 60:02d}:43"),
            "pods.json": json.dumps(pods("2026-07-14T08:00:00Z")),
            "kubelet.json": json.dumps(kubelet),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        taken(tmp_path, at, *(folder / name for name in texts), store=store)
    post(store, Settings(), FixedClock(CAPTURED + 60 * MINUTE_US))
    return store


def test_two_compute_instances_count_their_shared_memory_once_in_facts_ledger_and_answer(composed: Store) -> None:
    assert (
        composed.rows("SELECT gi, memory_used_mib FROM fact.device_sample WHERE gi IS NOT NULL ORDER BY occurred_at")
        == [(1, 12_000)] * 3
    )
    assert composed.rows(
        "SELECT max(memory_mib) FROM (SELECT occurred_at, sum(memory_used_mib) AS memory_mib FROM fact.process_sample GROUP BY 1)"
    ) == [(12_000,)]
    figures = q2(composed)
    assert float(figures["memory_used_device_mib_hours"]) == 12_345
    told = composed.rows("SELECT count(DISTINCT pod_uid) FROM ledger.holding WHERE gi = 1 OR unit_id LIKE 'MIG-%'")
    assert told == [(2,)]
