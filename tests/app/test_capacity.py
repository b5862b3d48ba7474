"""Room by the command line: from the files of a trace to the ratio of its empty nodes, and the same answer by a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.wiring import ports
from steelyard.surfaces.cli import run

PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-0,4000,1024,1,500,,LS,Succeeded,0,7200,3600
p-1,4000,1024,1,500,T4,LS,Succeeded,0,7200,3600
p-2,64000,1024,0,0,,LS,Succeeded,0,7200,3600
p-3,4000,1024,4,1000,,LS,Succeeded,20000,21000,20500
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,T4\nn-1,64000,262144,4,P100\n"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    (folder / "pods.csv").write_text(PODS, encoding="utf-8")
    (folder / "nodes.csv").write_text(NODES, encoding="utf-8")
    words = [
        "import",
        "openb",
        str(folder / "pods.csv"),
        "--nodes",
        str(folder / "nodes.csv"),
        "--data",
        str(folder / "data"),
    ]
    assert run(ports(), words) == 0
    return folder / "data"


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(ports(), [*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {figure["name"]: figure["value"] for figure in found["figures"]}


def test_the_ratio_of_the_empty_nodes_follows_from_the_traces_own_requests(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four classes of a quarter each over 6 cards: the half fits everywhere, T4 loses the 4 others, no card is for p-2, four cards lose n-0's 2."""
    found = asked(capsys, "fragmentation", "--days", "30", "--data", str(trace))
    assert found["fragmentation_ratio_empty_paper"] == (0 + 4 + 6 + 2) / (4 * 6)
    assert found["fragmentation_ratio_empty_gpu_classes_only"] == (0 + 4 + 2) / (3 * 6)


def test_between_pods_the_nodes_are_empty_and_while_one_runs_its_place_is_not_known(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    between = asked(capsys, "fragmentation", "--at", "1970-01-01T04:00:00Z", "--data", str(trace))
    assert between["gpus_free"] == 6
    assert between["fragmentation_ratio_paper"] is not None
    during = asked(capsys, "fragmentation", "--at", "1970-01-01T01:30:00Z", "--data", str(trace))
    assert during["gpus_free"] is None
    assert during["gpus_free_unknown"] == 6


def test_what_fits_is_asked_with_the_options_of_a_request(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ("--at", "1970-01-01T04:00:00Z", "--data", str(trace))
    assert asked(capsys, "fits", "--gpu", "2", *at)["nodes_fitting_count"] == 2
    assert asked(capsys, "fits", "--gpu", "2", "--model", "T4", *at)["nodes_fitting_count"] == 1
    assert asked(capsys, "fits", "--gpu", "4", "--cpu", "65", *at)["nodes_fitting_count"] == 0
    assert run(ports(), ["fits", "--gpu", "0", *at]) == 2
    assert run(ports(), ["fits", "--mig", "x", *at]) == 2


def test_a_cell_of_cpu_that_is_none_costs_no_row_its_life(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pods.csv").write_text(PODS.replace("p-0,4000", "p-0,many"), encoding="utf-8")
    assert (
        run(ports(), ["import", "openb", str(tmp_path / "pods.csv"), "--data", str(tmp_path / "data"), "--json"]) == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["findings_by_code"] == {"trace_cpu_unreadable": 1}
