"""Small inputs in the sources' formats, and one way to import them."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from steelyard.app.importer import FileImporter
from steelyard.app.settings import Settings
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import Instant, parse_instant
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportReport, ImportRequest

CARD = "GPU-11111111-0000-4000-8000-000000000001"
WRITTEN = parse_instant("2026-03-01T13:00:00Z")


def pod(
    name: str, *, uid: str | None = None, gpus: int = 1, annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A running pod on node ``n1`` that was created at noon and started a minute later."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": uid or f"uid-{name}",
            "creationTimestamp": "2026-03-01T12:00:00Z",
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-03-01T12:00:30Z",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T12:00:20Z"}],
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2026-03-01T12:01:00Z"}}}],
        },
    }


def shared_pod(name: str) -> dict[str, Any]:
    """A pod with 8 GiB and 30 percent of ``CARD`` by HAMi's annotation."""
    return pod(
        name,
        annotations={
            "hami.io/vgpu-devices-allocated": f"{CARD},NVIDIA,8192,30:;",
            "hami.io/vgpu-node": "n1",
            "hami.io/bind-phase": "success",
        },
    )


def node(name: str = "n1") -> dict[str, Any]:
    """A node whose HAMi register names ``CARD``."""
    card = {
        "id": CARD, "index": 0, "count": 10, "devmem": 81920, "devcore": 100, "type": "NVIDIA A100-SXM4-80GB",
        "numa": 0, "mode": "hami-core", "health": True,
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "annotations": {"hami.io/node-nvidia-register": json.dumps([card])},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-02-01T00:00:00Z"}]},
    }


def listing(*items: Mapping[str, Any], kind: str = "List") -> dict[str, Any]:
    """The items as ``kubectl get`` prints them."""
    return {"apiVersion": "v1", "kind": kind, "items": list(items), "metadata": {"resourceVersion": ""}}


def write(path: Path, content: object, *, compress: bool = False, written: int = WRITTEN) -> Path:
    """Write bytes, text or JSON, with the time the file was written set."""
    data = (
        content
        if isinstance(content, bytes)
        else content.encode()
        if isinstance(content, str)
        else json.dumps(content).encode()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if compress else data)
    os.utime(path, ns=(written * 1000, written * 1000))
    return path


def import_files(
    data: Path,
    *paths: Path,
    settings: Settings | None = None,
    post: Callable[[Store], int] | None = None,
    now: Instant = WRITTEN,
    **request: Any,
) -> ImportReport:
    """Import the paths into the data directory. ``now``: what the clock shows; a file that was written long after it dates nothing."""
    importer = FileImporter(data, settings or Settings(), post or (lambda store: 0), FixedClock(now))
    return importer.import_paths(ImportRequest(paths=paths, **request), lambda what, done, total: None)


def rows(data: Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query over the data directory."""
    with Store.open(data, read_only=True) as store:
        return store.rows(sql)


def codes(data: Path) -> list[str]:
    """The codes of all findings, sorted."""
    return [code for (code,) in rows(data, "SELECT code FROM fact.finding ORDER BY code")]
