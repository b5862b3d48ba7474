"""An estate that is scraped and listed in rounds, through the real readers, and asked Q1 and Q2: exporter text and objects in, answers out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard.answers.contract import Answer, FindingNote
from steelyard.answers.q01_holders import HoldersSpec
from steelyard.answers.q01_holders import answer as holders
from steelyard.answers.q02_consumption import ConsumptionSpec
from steelyard.answers.q02_consumption import answer as consumption
from steelyard.answers.q03_utilisation import UtilisationSpec
from steelyard.answers.q03_utilisation import answer as utilisation
from steelyard.app.collectors.rounds import Round
from steelyard.app.importer import FileImporter
from steelyard.app.metric_readers import read_points
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import parse_instant
from steelyard.primitives.unknown import Unknown
from steelyard.sources.exposition import read_exposition
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.round_memory import RoundMemory
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportRequest

UTIL, FB, POWER, TEMPERATURE, XID = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_XID_ERRORS",
)
GR, SM, DRAM = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE"
MINUTE_US = 60_000_000
DAY = "2026-03-01T"


def card(number: int) -> str:
    """The UUID of the n-th card."""
    return f"GPU-c0c0c0c0-0000-4000-8000-{number:012d}"


def line(name: str, value: object, index: int = 0, **labels: str) -> str:
    """One line of an exporter; the labels of card ``index``, then those given (an empty one is printed empty)."""
    named = {
        "gpu": str(index), "UUID": card(index), "pci_bus_id": f"00000000:{0x10 + index:02X}:00.0", "device": f"nvidia{index}",
        "modelName": "NVIDIA A100-SXM4-80GB", "Hostname": "n1", **labels,
    }  # fmt: skip
    return f"{name}{{{','.join(f'{key}={json.dumps(text)}' for key, text in named.items())}}} {value}"


def of(pod: str, **labels: str) -> dict[str, str]:
    """Pod labels as an exporter prints them."""
    return {"pod": pod, "namespace": "team", "container": "main", **labels}


class ScrapedEstate:
    """One cluster. Instants are times of one day (``12:00``); every ``take`` and ``scrape`` is a round of its own; they are
    posted when somebody asks."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.open_memory()
        self._folder = folder
        self._memory = RoundMemory()
        self._files = 0
        self._posted = False

    def take(self, at: str, *contents: object, node: str | None = None) -> None:
        """Import objects (JSON), or text, as of an instant."""
        self._files += 1
        paths = []
        for number, content in enumerate(contents):
            path = self._folder / f"{self._files}-{number}.txt"
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
            paths.append(path)
        as_of = moment(at)
        importer = FileImporter(self._folder, Settings(), lambda store: 0, FixedClock(as_of), opened=self.store)
        report = importer.import_paths(
            ImportRequest(paths=paths, as_of=as_of, node=node), lambda what, done, total: None
        )
        assert [file.status for file in report.files] == ["imported"] * len(paths)
        self._posted = False

    def scrape(
        self, at: str, targets: Mapping[str, Sequence[str]] | Sequence[str], interval_minutes: int = 1, **labels: str
    ) -> None:
        """One round of scrape targets (instance -> lines), as the collector reads them; ``labels`` are the job's."""
        named = targets if isinstance(targets, Mapping) else {"n1:9400": targets}
        ctx = ReadContext(
            file="scrape/dcgm", observed_at=moment(at), expected_interval_us=interval_minutes * MINUTE_US * 3 // 2
        )
        found = Round("scrape/dcgm", ctx.observed_at, memory=self._memory)
        points: list[MetricPoint] = []
        for instance, lines in named.items():
            for each in read_exposition("\n".join(lines) + "\n", ctx):
                if isinstance(each, MetricPoint):
                    way = {**labels, "instance": instance, **each.labels}
                    points.append(MetricPoint(each.name, way, each.value, each.at, each.declared))
                else:
                    found.add([each])
        found.add(read_points(points, ctx, self._memory))
        self.store.append_tables(found.joined())
        self._posted = False

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query over the store."""
        self._post()
        return self.store.rows(sql)

    def q1(self, at: str | None = None, **spec: Any) -> Answer:
        """Who holds what, now or at a time of the day."""
        self._post()
        return holders(self.store, HoldersSpec(at=moment(at) if at else None, **spec))

    def q2(self, **spec: Any) -> Answer:
        """How much, over all known time."""
        self._post()
        return consumption(self.store, ConsumptionSpec(**spec))

    def q3(self, **spec: Any) -> Answer:
        """What the held cards did, over all known time."""
        self._post()
        return utilisation(self.store, UtilisationSpec(**spec))

    def found(self, code: str) -> list[FindingNote]:
        """The findings of one code, as Q2 tells them; Q1 tells the same."""
        told, also = ([note for note in answer.findings if note.code == code] for answer in (self.q2(), self.q1()))
        assert told == also
        return told

    def the(self, code: str) -> FindingNote:
        """The one finding of a code."""
        (note,) = self.found(code)
        return note

    def evidence(self, code: str) -> dict[str, Any]:
        """The evidence of the one finding of a code (the latest, where it is said again)."""
        rows = self.rows(
            f"SELECT evidence FROM (SELECT evidence, occurred_at, code FROM fact.finding UNION ALL "
            f"SELECT evidence, occurred_at, code FROM ledger.finding) AS f WHERE code = '{code}' ORDER BY occurred_at DESC LIMIT 1"
        )
        decoded: dict[str, Any] = json.loads(rows[0][0])
        return decoded

    def _post(self) -> None:
        if not self._posted:
            post(self.store, Settings(), FixedClock(moment("23:00")))
        self._posted = True


def moment(time: str) -> int:
    """The instant of a time of the day."""
    return parse_instant(f"{DAY}{time}:00Z" if len(time) == 5 else f"{DAY}{time}Z")


def figure(answer: Answer, name: str) -> Any:
    """A figure's value: a float where it is a number."""
    value = next(each.value for each in answer.figures if each.name == name)
    return value if value is None or isinstance(value, Unknown | str) else float(value)


def cells(answer: Answer, table: str, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of a table; Unknown as None, fractions as floats."""
    found = next(each for each in answer.tables if each.name == table)
    places = [[column.name for column in found.columns].index(name) for name in names]
    return [tuple(_plain(row[place]) for place in places) for row in found.rows]


def _plain(value: Any) -> Any:
    if isinstance(value, Unknown):
        return None
    return value if value is None or isinstance(value, str | bool | int | float) else float(value)


def pod(
    name: str, *, gpus: int = 1, resource: str = "nvidia.com/gpu", started: str = "12:00", ended: str | None = None
) -> dict[str, Any]:
    """A pod of namespace ``team`` on node ``n1``, created, bound and running from ``started`` on; ended: finished well at that time."""
    since = f"{DAY}{started}:00Z"
    state: dict[str, Any] = {"running": {"startedAt": since}}
    if ended:
        state = {"terminated": {"startedAt": since, "finishedAt": f"{DAY}{ended}:00Z", "exitCode": 0}}
    resources = {"limits": {resource: str(gpus)}} if gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": since},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": resources}]},
        "status": {
            "phase": "Succeeded" if ended else "Running",
            "startTime": since,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": since}],
            "containerStatuses": [{"name": "main", "state": state}],
        },
    }


def node(name: str = "n1", gpus: int = 1, **labels: str) -> dict[str, Any]:
    """A ready node; ``labels``: with ``_`` for ``/`` after ``nvidia.com``."""
    named = {key.replace("nvidia_com_", "nvidia.com/"): text for key, text in labels.items()}
    counts = {"nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": named},
        "status": {
            "capacity": counts,
            "allocatable": counts,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": f"{DAY}00:00:00Z"}],
        },
    }


def listing(*items: Mapping[str, Any]) -> dict[str, Any]:
    """What ``kubectl get`` prints: nodes are of no namespace, so the listing is of the whole cluster."""
    return {"apiVersion": "v1", "kind": "List", "items": [*items, OTHER_POD]}


OTHER_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "dns", "namespace": "kube-system", "uid": "uid-dns", "creationTimestamp": f"{DAY}00:00:00Z"},
    "spec": {"nodeName": "n1", "containers": [{"name": "dns"}]},
    "status": {"phase": "Running"},
}
"""A pod of another namespace, so that a listing is taken as one of the whole cluster."""


def kubelet(
    held: Mapping[str, Sequence[str]], offered: Sequence[str] = (), resource: str = "nvidia.com/gpu"
) -> dict[str, Any]:
    """What the kubelet of ``n1`` says: pod -> device ids, and what it offers (at least what it gave away)."""
    pods = [
        {
            "name": name,
            "namespace": "team",
            "containers": [{"name": "main", "devices": [{"resource_name": resource, "device_ids": list(ids)}]}],
        }
        for name, ids in held.items()
    ]
    everything = list(dict.fromkeys([*offered, *(each for ids in held.values() for each in ids)]))
    return {
        "node": "n1",
        "pod_resources": pods,
        "allocatable": {"devices": [{"resource_name": resource, "device_ids": everything}]},
    }
