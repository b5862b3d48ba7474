"""Bench (d): import of 50,000 pods as one ``kubectl get pods -o json`` against the least that any importer must do.

The least: ``orjson.loads`` of the same bytes plus the insert of rows equal to the stored ones into a fresh DuckDB file. Both sides
run on the same data in the same process, each repetition from a collected heap; the ratio is that of the medians. ``cpu_ratio`` is the same of the
processor time of all threads: on a machine that others use too it tells a slower importer from a busy hour.
Run: ``python bench/bench_import.py --pods 50000 --repeat 5``.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from steelyard.app.importer import FileImporter
from steelyard.app.settings import Settings
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import parse_instant
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportRequest

RATIO_MAX = 4.0
_AS_OF = parse_instant("2026-11-30T00:00:00Z")


def pod(number: int, rng: random.Random) -> dict[str, Any]:
    """One pod as the API server prints it, two in three ask for a GPU."""
    identity = hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()
    uid = f"{identity[:8]}-{identity[8:12]}-4{identity[13:16]}-8{identity[17:20]}-{identity[20:32]}"
    team, node = f"team-{rng.randrange(40)}", f"gpu-{rng.randrange(1000):04d}"
    day, hour, minute = 1 + rng.randrange(28), rng.randrange(20), rng.randrange(60)
    created = f"2026-11-{day:02d}T{hour:02d}:{minute:02d}:{rng.randrange(60):02d}Z"
    started = f"2026-11-{day:02d}T{hour + 1:02d}:{minute:02d}:{rng.randrange(60):02d}Z"
    done = rng.random() < 0.3
    ended = f"2026-11-{day:02d}T{hour + 3:02d}:{minute:02d}:{rng.randrange(60):02d}Z"
    style = number % 3
    resources: dict[str, str] = {"cpu": "8", "memory": "64Gi"}
    annotations = {
        "cni.projectcalico.org/containerID": identity * 2,
        "cni.projectcalico.org/podIP": f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}/32",
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "9400",
    }
    if style == 1:
        resources["nvidia.com/gpu"] = str(rng.choice((1, 1, 2, 8)))
    elif style == 2:
        resources |= {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8192", "nvidia.com/gpucores": "30"}
        annotations |= {
            "hami.io/vgpu-node": node,
            "hami.io/vgpu-time": str(_AS_OF // 1_000_000 - 86_400),
            "hami.io/bind-time": str(_AS_OF // 1_000_000 - 86_399),
            "hami.io/bind-phase": "success",
            "hami.io/vgpu-devices-allocated": f"GPU-{uid},NVIDIA,8192,30:;",
            "hami.io/vgpu-devices-to-allocate": ";",
        }
    labels = {
        "app.kubernetes.io/name": f"service-{number % 500}",
        "app.kubernetes.io/instance": f"service-{number % 500}-{team}",
        "app.kubernetes.io/managed-by": "Helm",
        "pod-template-hash": identity[:9],
        "team": team,
    }
    terminated = {"terminated": {"containerID": f"containerd://{identity * 2}", "exitCode": 0, "reason": "Completed",
                                 "startedAt": started, "finishedAt": ended}}  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": annotations,
            "creationTimestamp": created,
            "generateName": f"service-{number % 500}-{identity[:9]}-",
            "labels": labels,
            "name": f"service-{number % 500}-{identity[:9]}-{identity[9:14]}",
            "namespace": team,
            "ownerReferences": [{"apiVersion": "apps/v1", "blockOwnerDeletion": True, "controller": True, "kind": "ReplicaSet",
                                 "name": f"service-{number % 500}-{identity[:9]}", "uid": uid[::-1]}],
            "resourceVersion": str(10_000_000 + number),
            "uid": uid,
        },
        "spec": {
            "containers": [{
                "args": ["--config", "/etc/service/config.yaml", "--port", "8080", "--log-level", "info"],
                "env": [{"name": f"SETTING_{index}", "value": identity[index:]} for index in range(6)]
                + [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
                "image": f"registry.example.com/{team}/service-{number % 500}:v{number % 90}",
                "imagePullPolicy": "IfNotPresent",
                "livenessProbe": {"failureThreshold": 3, "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
                                  "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1},
                "name": "main",
                "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                "resources": {"limits": resources, "requests": resources},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access",
                                  "readOnly": True}],
            }],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "nodeName": node,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Never" if done else "Always",
            "schedulerName": "hami-scheduler" if style == 2 else "default-scheduler",
            "securityContext": {},
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [{"effect": "NoExecute", "key": f"node.kubernetes.io/{key}", "operator": "Exists",
                             "tolerationSeconds": 300} for key in ("not-ready", "unreachable")],
            "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}}]}}],
        },
        "status": {
            "conditions": [{"lastProbeTime": None, "lastTransitionTime": stamp, "status": "True", "type": kind}
                           for kind, stamp in (("Initialized", created), ("Ready", started), ("ContainersReady", started),
                                               ("PodScheduled", created))],
            "containerStatuses": [{
                "containerID": f"containerd://{identity * 2}",
                "image": f"registry.example.com/{team}/service-{number % 500}:v{number % 90}",
                "imageID": f"registry.example.com/{team}/service-{number % 500}@sha256:{identity * 2}",
                "lastState": {}, "name": "main", "ready": not done, "restartCount": 0, "started": not done,
                "state": terminated if done else {"running": {"startedAt": started}},
            }],
            "hostIP": f"10.0.{number % 4}.{number % 250}",
            "phase": "Succeeded" if done else "Running",
            "podIP": f"10.{number % 256}.{number // 256 % 256}.1",
            "qosClass": "Guaranteed",
            "startTime": created,
        },
    }  # fmt: skip


def write_pods(path: Path, pods: int, seed: int = 7) -> int:
    """Write the list as the API server prints it (``kubectl get --raw``), 4.2 kB a pod; returns its size in bytes."""
    rng = random.Random(seed)  # noqa: S311 (a generator of test data)
    with path.open("w") as stream:
        stream.write('{\n    "apiVersion": "v1",\n    "items": [\n')
        for number in range(pods):
            stream.write((",\n" if number else "") + json.dumps(pod(number, rng)))
        stream.write('\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')
    return path.stat().st_size


def measure(pods: int = 50_000, repeat: int = 5) -> dict[str, Any]:
    """Seconds of both sides, each the median of ``repeat``, and their ratios; ``rows`` = facts stored, ``bytes`` = size of the file."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        size = write_pods(root / "pods.json", pods)
        ours, least = [], []
        rows: dict[str, pa.Table] = {}
        for number in range(repeat):
            ours.append(_import_once(root / "pods.json", root / f"data{number}"))
            rows = rows or _stored(root / f"data{number}")
            least.append(_least_once(root / "pods.json", rows, root / f"least{number}.duckdb"))
    (import_seconds, import_cpu), (least_seconds, least_cpu) = (
        [statistics.median(column) for column in zip(*side, strict=True)] for side in (ours, least)
    )
    return {
        "pods": pods,
        "bytes": size,
        "rows": sum(table.num_rows for table in rows.values()),
        "import_seconds": import_seconds,
        "least_seconds": least_seconds,
        "ratio": import_seconds / least_seconds,
        "import_cpu_seconds": import_cpu,
        "least_cpu_seconds": least_cpu,
        "cpu_ratio": import_cpu / least_cpu,
        "ratio_max": RATIO_MAX,
    }


def _import_once(path: Path, directory: Path) -> tuple[float, float]:
    gc.collect()
    importer = FileImporter(directory, Settings(), lambda store: 0, FixedClock(_AS_OF))
    started, cpu_started = time.perf_counter(), time.process_time()
    importer.import_paths(ImportRequest(paths=[path], as_of=_AS_OF), lambda what, done, total: None)
    return time.perf_counter() - started, time.process_time() - cpu_started


def _stored(directory: Path) -> dict[str, pa.Table]:
    with Store.open(directory, read_only=True) as store:
        names = [name for (name,) in store.rows("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'fact'")]
    with duckdb.connect(str(directory / "steelyard.duckdb"), read_only=True) as connection:
        tables = {name: connection.sql(f"SELECT * FROM fact.{name}").to_arrow_table() for name in names}
    return {name: table for name, table in tables.items() if table.num_rows}


def _least_once(path: Path, rows: dict[str, pa.Table], database: Path) -> tuple[float, float]:
    gc.collect()
    gc.disable()  # as the importer does: otherwise the ratio would flatter it
    started, cpu_started = time.perf_counter(), time.process_time()
    parsed = orjson.loads(path.read_bytes())
    with duckdb.connect(str(database)) as connection:
        for name, table in rows.items():
            connection.register("rows", table)
            connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM rows')
    seconds = time.perf_counter() - started, time.process_time() - cpu_started
    gc.enable()
    del parsed
    return seconds


def main(arguments: list[str] | None = None) -> int:
    """Print the figures as one JSON object; exit status 1 where the claim does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args(arguments)
    figures = measure(options.pods, options.repeat)
    print(json.dumps(figures, indent=1))
    return 0 if figures["ratio"] <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
