"""The simulated estate: the same seed gives the same bytes, and what is emitted says what the truth says."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US, parse_instant
from steelyard.simulation.arithmetic import memory_used_mib, pod_memory_mib
from steelyard.simulation.simulate import TRUTH, ground_truth, read_manifest, simulate
from steelyard.simulation.spec import SimulationSpec
from steelyard.simulation.truth import HAMI, MIG, TIME_SLICING, WHOLE, GroundTruth, Pod

SPEC = SimulationSpec(gpus=40, days=2, seed=11, snapshot_interval_seconds=7200, mig_report_interval_seconds=43_200)


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, GroundTruth]:
    folder = tmp_path_factory.mktemp("estate")
    return folder, simulate(SPEC, folder)


def content(folder: Path, path: str) -> str:
    payload = (folder / path).read_bytes()
    return (gzip.decompress(payload) if path.endswith(".gz") else payload).decode()


def digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            total.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return total.hexdigest()


def snapshots(folder: Path) -> list[tuple[int, list[dict[str, Any]]]]:
    files = [file for file in read_manifest(folder) if file.system == "kube"]
    return [(file.as_of_at or 0, json.loads(content(folder, file.path))["items"]) for file in files]


def tenants_pods(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in items if item["kind"] == "Pod" and item["metadata"]["namespace"] != "kube-system"]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path: Path):
    small = {"gpus": 12, "days": 1, "snapshot_interval_seconds": 21_600, "pod_resources_interval_seconds": 21_600}
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        simulate(SimulationSpec(**small, seed=seed), tmp_path / name)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert digest(tmp_path / "a") != digest(tmp_path / "c")


def test_the_truth_comes_back_from_its_json(emitted: tuple[Path, GroundTruth]):
    folder, truth = emitted
    assert GroundTruth.from_json((folder / TRUTH).read_bytes()) == truth


@pytest.mark.parametrize("size", [{"gpus": 0}, {"gpus": 100_000}, {"days": 0}, {"days": 4000}])
def test_a_size_that_cannot_be_simulated_is_refused(size: dict[str, int]):
    with pytest.raises(UsageError):
        SimulationSpec(**size)


@pytest.mark.parametrize(("gpus", "kinds"), [(64, 10), (24, 4), (3, 1), (130, 21)])
def test_the_estate_has_as_many_cards_as_asked_for(gpus: int, kinds: int):
    truth = ground_truth(SimulationSpec(gpus=gpus, days=1))
    assert len({device.uuid for device in truth.devices()}) == gpus
    assert len(truth.nodes) == kinds


def test_the_default_estate_has_every_kind_of_node_and_every_fate():
    truth = ground_truth(SimulationSpec())
    assert Counter(node.kind for node in truth.nodes) == {WHOLE: 3, HAMI: 3, MIG: 2, TIME_SLICING: 2}
    assert {node.hami_version for node in truth.nodes} == {None, "v2.7.1", "v2.9.0", "v2.10.0"}
    assert {pod.fate for pod in truth.pods} == {
        "succeeded", "failed", "deleted", "running", "rejected", "never_scheduled", "reserved", "node_lost",
    }  # fmt: skip
    assert {pod.workload_kind for pod in truth.pods} == {"Job", "StatefulSet", "Deployment"}
    assert [event.kind for event in truth.happenings] == ["gpu_lost", "node_not_ready", "node_gone"]


def test_stamps_of_a_life_are_in_order_and_within_the_simulation(emitted: tuple[Path, GroundTruth]):
    _, truth = emitted
    for pod in truth.pods:
        stamps = [pod.created_at, pod.filtered_at, pod.bound_at, pod.running_at, pod.ended_at, pod.removed_at]
        known = [stamp for stamp in stamps if stamp is not None]
        assert known == sorted(known), pod
        assert truth.start_at < known[0]
        assert known[-1] <= truth.end_at


def held_at(pod: Pod, at: int) -> bool:
    start = pod.filtered_at if pod.filtered_at is not None else pod.bound_at
    end = pod.ended_at if pod.ended_at is not None else pod.removed_at
    return pod.fate != "rejected" and start is not None and start <= at and (end is None or at < end)


def test_no_card_is_given_twice(emitted: tuple[Path, GroundTruth]):
    _, truth = emitted
    for at in range(truth.start_at, truth.end_at, HOUR_US):
        memory: Counter[str] = Counter()
        cores: Counter[str] = Counter()
        parts: Counter[str] = Counter()
        for pod in truth.pods:
            for grant in pod.grants if held_at(pod, at) else []:
                if grant.unit_kind == "vgpu":
                    memory[grant.device_uuid] += grant.memory_mib or 0
                    cores[grant.device_uuid] += grant.cores_percent or 0
                else:
                    parts[grant.unit_id or grant.device_uuid] += 1
        size = {device.uuid: device.memory_mib for device in truth.devices()}
        assert all(count == 1 for count in parts.values())
        assert all(used <= size[uuid] for uuid, used in memory.items())
        assert all(used <= 100 for used in cores.values())


def test_processes_never_use_more_memory_than_the_card_has(emitted: tuple[Path, GroundTruth]):
    _, truth = emitted
    size = {device.uuid: device.memory_mib for device in truth.devices()}
    for uuid, samples in memory_used_mib(truth).items():
        assert all(used < size[uuid] for _, used in samples)


def test_a_snapshot_lists_exactly_the_objects_that_were_there(emitted: tuple[Path, GroundTruth]):
    folder, truth = emitted
    assert [at for at, _ in snapshots(folder)] == truth.snapshots
    for at, items in snapshots(folder):
        listed = {item["metadata"]["uid"] for item in tenants_pods(items)}
        there = {pod.uid for pod in truth.pods if pod.created_at <= at and (pod.removed_at or at + 1) > at}
        assert listed == there
        nodes = {item["metadata"]["name"] for item in items if item["kind"] == "Node"}
        assert nodes == {node.name for node in truth.nodes if (node.gone_at or at + 1) > at}


def test_the_stamps_of_a_listed_pod_are_those_of_the_truth(emitted: tuple[Path, GroundTruth]):
    folder, truth = emitted
    by_uid = {pod.uid: pod for pod in truth.pods}
    phases: Counter[str] = Counter()
    for at, items in snapshots(folder):
        for item in tenants_pods(items):
            pod, status = by_uid[item["metadata"]["uid"]], item["status"]
            phases[status["phase"]] += 1
            scheduled = [c["lastTransitionTime"] for c in status["conditions"] if c["status"] == "True"]
            assert [parse_instant(stamp) for stamp in scheduled] == [b for b in [pod.bound_at] if b and b <= at]
            main = [s for s in status.get("containerStatuses", []) if s["name"] == "main"]
            ends = [s["state"]["terminated"]["finishedAt"] for s in main if "terminated" in s["state"]]
            finished = pod.fate in ("succeeded", "failed") and pod.ended_at is not None and pod.ended_at <= at
            assert [parse_instant(stamp) for stamp in ends] == ([pod.ended_at] if finished else [])
            assert item["spec"].get("nodeName") == (pod.node if pod.bound_at and pod.bound_at <= at else None)
    assert phases.keys() == {"Pending", "Running", "Succeeded", "Failed"}


def test_hami_annotations_hold_the_grants_in_the_slots_of_their_version(emitted: tuple[Path, GroundTruth]):
    folder, truth = emitted
    versions = {node.name: node.hami_version for node in truth.nodes}
    by_uid = {pod.uid: pod for pod in truth.pods}
    seen: defaultdict[str | None, set[int]] = defaultdict(set)
    for _, items in snapshots(folder):
        for item in tenants_pods(items):
            text = item["metadata"].get("annotations", {}).get("hami.io/vgpu-devices-allocated")
            if text is None:
                continue
            pod = by_uid[item["metadata"]["uid"]]
            slots = text.split(";")[:-1]
            filled = [slot for slot in slots if slot]
            assert len(filled) == 1
            records = [record.split(",") for record in filled[0].split(":")[:-1]]
            assert records == [
                [grant.device_uuid, "NVIDIA", str(grant.memory_mib), str(grant.cores_percent)] for grant in pod.grants
            ]
            version = versions[pod.node or ""]
            apps, inits = len(item["spec"]["containers"]), len(item["spec"].get("initContainers", []))
            assert len(slots) == {"v2.7.1": apps, "v2.9.0": inits + apps}.get(version or "", 1)
            seen[version].add(len(slots))
    assert len(seen["v2.7.1"]) > 1


def test_registers_and_labels_tell_the_physical_cards(emitted: tuple[Path, GroundTruth]):
    folder, truth = emitted
    nodes = {node.name: node for node in truth.nodes}
    _, items = snapshots(folder)[0]
    for item in items:
        if item["kind"] != "Node":
            continue
        node = nodes[item["metadata"]["name"]]
        register = item["metadata"]["annotations"].get("hami.io/node-nvidia-register")
        if node.kind != HAMI:
            assert item["metadata"]["labels"]["nvidia.com/gpu.count"] == str(len(node.devices))
        elif node.hami_version == "v2.7.1":
            fields = [record.split(",") for record in register.split(":")[:-1]]
            assert {record[0]: int(record[2]) for record in fields} == {d.uuid: d.memory_mib for d in node.devices}
            assert {len(record) for record in fields} == {9}
        else:
            entries = json.loads(register)
            assert {entry["id"]: entry["devmem"] for entry in entries} == {d.uuid: d.memory_mib for d in node.devices}
            assert [entry.get("index", 0) for entry in entries] == [d.index for d in reversed(node.devices)]


def test_kubelet_dumps_name_the_parts_that_the_truth_granted(emitted: tuple[Path, GroundTruth]):
    folder, truth = emitted
    named: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for file in read_manifest(folder):
        if file.system != "pod_resources":
            continue
        for node in json.loads(content(folder, file.path)):
            for listed in node["list"]["pod_resources"]:
                for device in listed["containers"][0].get("devices", []):
                    named[listed["namespace"], listed["name"]].update(device["device_ids"])
    for pod in truth.pods:
        parts = {grant.unit_id or grant.device_uuid for grant in pod.grants}
        found = named.get((pod.namespace, pod.name))
        assert pod.kind != HAMI or found is None
        if found is not None and pod.workload_kind != "StatefulSet":
            assert found == parts
    assert any(part.startswith("MIG-") for parts in named.values() for part in parts)
    assert any("::" in part for parts in named.values() for part in parts)


def test_nvidia_smi_shows_the_truth_on_the_sample_grid(emitted: tuple[Path, GroundTruth]):
    folder, truth = emitted
    shown: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    lost = 0
    for file in read_manifest(folder):
        if file.system == "smi_query":
            for row in csv.DictReader(io.StringIO(content(folder, file.path)), skipinitialspace=True):
                at = parse_instant(row["timestamp"].replace("/", "-").replace(" ", "T") + "Z")
                if row["memory.used [MiB]"] == "[GPU is lost]":
                    lost += 1
                    continue
                shown[row["uuid"]].append((at, int(row["memory.used [MiB]"].removesuffix(" MiB"))))
    assert lost > 0
    assert dict(shown) == {uuid: samples for uuid, samples in memory_used_mib(truth).items() if samples}


def test_processes_add_up_to_the_card_at_every_sample(emitted: tuple[Path, GroundTruth]):
    folder, truth = emitted
    shown: Counter[tuple[str, int]] = Counter()
    for file in read_manifest(folder):
        if file.system == "smi_apps":
            for row in csv.DictReader(io.StringIO(content(folder, file.path)), skipinitialspace=True):
                at = parse_instant(row["timestamp"].replace("/", "-").replace(" ", "T") + "Z")
                shown[row["gpu_uuid"], at] += int(row["used_gpu_memory [MiB]"].removesuffix(" MiB"))
    for uuid, samples in memory_used_mib(truth).items():
        for at, used in samples:
            assert shown[uuid, at] == used - truth.device_base_mib


def test_mig_reports_and_lists_agree_on_instances_and_their_memory(emitted: tuple[Path, GroundTruth]):
    folder, truth = emitted
    (node,) = [node for node in truth.nodes if node.kind == MIG]
    listed = content(folder, f"smi/{node.name}/list.txt")
    reports = [file for file in read_manifest(folder) if file.system == "smi_xml"]
    assert len(reports) == 4
    for device in node.devices:
        assert f"GPU {device.index}: {device.model} (UUID: {device.uuid})" in listed
        assert all(f"(UUID: {unit.uuid})" in listed for unit in device.units)
    root = ElementTree.fromstring(content(folder, reports[2].path))  # noqa: S314 (our own text)
    at = parse_instant(f"{reports[2].path.split('report-')[1][:10]}T00:02:17Z")
    for gpu, device in zip(root.iter("gpu"), node.devices, strict=True):
        assert gpu.findtext("uuid") == device.uuid
        for instance, unit in zip(gpu.iter("mig_device"), device.units, strict=True):
            users = [p for p in truth.pods if any(g.unit_id == unit.uuid for g in p.grants)]
            used = sum(pod_memory_mib(pod, at) for pod in users)
            assert instance.findtext("gpu_instance_id") == str(unit.gi)
            assert instance.findtext("fb_memory_usage/used") == f"{used} MiB"


def test_the_kernel_names_the_card_that_was_lost(emitted: tuple[Path, GroundTruth]):
    folder, truth = emitted
    (event,) = [event for event in truth.happenings if event.kind == "gpu_lost"]
    (file,) = [file for file in read_manifest(folder) if file.system == "kernel"]
    text = content(folder, file.path)
    assert file.node == event.node
    assert event.device_uuid in text
    assert ": 79," in text


def test_a_replacement_of_a_notebook_comes_after_its_predecessor(emitted: tuple[Path, GroundTruth]):
    truth = ground_truth(SimulationSpec())
    by_name: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in truth.pods:
        by_name[pod.namespace, pod.name].append(pod)
    assert max(len(pods) for pods in by_name.values()) > 1
    for pods in by_name.values():
        for earlier, later in pairwise(pods):
            assert earlier.removed_at is not None
            assert earlier.removed_at <= later.created_at
