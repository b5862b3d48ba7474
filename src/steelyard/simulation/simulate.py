"""Simulate an estate and write what its sources would have shown, with the truth beside it.

The directory holds one folder per system, ``manifest.json`` (which file is what, of which node, as of when) and ``truth.json``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from steelyard.simulation.demand import demands
from steelyard.simulation.emission import EmittedFile, Output, file_name
from steelyard.simulation.estate import build_estate
from steelyard.simulation.kubernetes import ClusterView
from steelyard.simulation.life import Life
from steelyard.simulation.money import write_money
from steelyard.simulation.node_agents import NodeView, kernel_log, pod_resources_dump
from steelyard.simulation.queues import workloads
from steelyard.simulation.spec import SimulationSpec
from steelyard.simulation.trouble_estate import LASTS_US, TroubledEstate
from steelyard.simulation.trouble_sources import TRUTH as TROUBLES_TRUTH
from steelyard.simulation.trouble_sources import write_troubles
from steelyard.simulation.truth import HAMI, MIG, WHOLE, GroundTruth

MANIFEST: Final = "manifest.json"
TRUTH: Final = "truth.json"
DEVICE_BASE_MIB: Final = 4
_SAMPLE_OFFSET_SECONDS: Final = 137


def simulate(
    spec: SimulationSpec,
    out_dir: Path,
    progress: Callable[[str, int, int], None] | None = None,
) -> GroundTruth:
    """Runs the estate, writes its sources under ``out_dir`` and gives the truth back. The same spec gives the same bytes."""
    truth = ground_truth(spec)
    out_dir.mkdir(parents=True, exist_ok=True)
    output = Output(out_dir)
    cluster = ClusterView(truth)
    views = [NodeView(truth, node) for node in truth.nodes]
    for number, at in enumerate(truth.snapshots, start=1):
        file = EmittedFile(f"kube/{file_name(at)}.json.gz", "kube", at, None, spec.snapshot_interval_seconds)
        output.write(file, cluster.snapshot(at))
        if progress is not None:
            progress("simulate", number, len(truth.snapshots))
    for at in truth.pod_resources:
        path = f"pod-resources/{file_name(at)}.json.gz"
        file = EmittedFile(path, "pod_resources", at, None, spec.pod_resources_interval_seconds)
        output.write(file, pod_resources_dump(views, at))
    for view in views:
        _write_node(spec, truth, view, output)
    write_money(spec.start_at, output)
    if spec.troubles:
        troubled = TroubledEstate(spec.end_at - LASTS_US, spec.seed).build()
        write_troubles(troubled, output)
        (out_dir / TROUBLES_TRUTH).write_bytes(troubled.to_json())
    (out_dir / MANIFEST).write_bytes(msgspec.json.encode(output.files))
    (out_dir / TRUTH).write_bytes(truth.to_json())
    return truth


def ground_truth(spec: SimulationSpec) -> GroundTruth:
    """The truth alone, without writing anything."""
    nodes = build_estate(spec)
    life = Life(spec, nodes, demands(spec, nodes))
    life.run()
    cards = sum(len(node.devices) for node in nodes if node.kind == WHOLE)
    queued, quotas = workloads(spec, life.requests, cards)
    has_plugins = any(node.kind != HAMI for node in nodes)
    return GroundTruth(
        start_at=spec.start_at,
        end_at=spec.end_at,
        snapshot_interval_seconds=spec.snapshot_interval_seconds,
        sample_interval_seconds=spec.sample_interval_seconds,
        snapshots=spec.grid(spec.snapshot_interval_seconds),
        pod_resources=spec.grid(spec.pod_resources_interval_seconds) if has_plugins else [],
        samples=spec.grid(spec.sample_interval_seconds, _SAMPLE_OFFSET_SECONDS),
        mig_reports=spec.grid(spec.mig_report_interval_seconds, _SAMPLE_OFFSET_SECONDS),
        nodes=nodes,
        pods=life.pods,
        happenings=life.happenings,
        device_base_mib=DEVICE_BASE_MIB,
        workloads=queued,
        quotas=quotas,
    )


def read_manifest(out_dir: Path) -> list[EmittedFile]:
    """The files of a simulation in the order in which they were written."""
    return msgspec.json.decode((out_dir / MANIFEST).read_bytes(), type=list[EmittedFile])


def _write_node(spec: SimulationSpec, truth: GroundTruth, view: NodeView, output: Output) -> None:
    name = view.node.name
    folder, every = f"smi/{name}", spec.sample_interval_seconds
    output.write(EmittedFile(f"{folder}/list.txt", "smi_list", truth.start_at, name), view.list_text().encode())
    query = EmittedFile(f"{folder}/query.csv.gz", "smi_query", None, name, every)
    output.write(query, view.query_csv(truth.samples).encode())
    apps = EmittedFile(f"{folder}/apps.csv.gz", "smi_apps", None, name, every)
    output.write(apps, view.apps_csv(truth.samples).encode())
    for at in truth.mig_reports if view.node.kind == MIG else []:
        if view.is_up(at):
            path = f"{folder}/report-{file_name(at)}.xml.gz"
            report = EmittedFile(path, "smi_xml", None, name, spec.mig_report_interval_seconds)
            output.write(report, view.report_xml(at).encode())
    log = kernel_log(view.node, truth)
    if log is not None:
        output.write(EmittedFile(f"kernel/{name}.log", "kernel", None, name, every), log.encode())
