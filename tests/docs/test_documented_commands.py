"""Every command that README.md and docs/ show is run as it stands there, over a small simulated estate."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
PROGRAM = Path(sys.executable).parent / "steelyard"
MAKE_TARGETS = {"demo", "test"}


def documented_commands() -> Iterator[tuple[str, str]]:
    """(page, command) for each line of a fenced block that calls steelyard, with or without a prompt, its comment cut off."""
    for page in PAGES:
        for block in re.findall(
            r"^```[a-z]*\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
        ):
            for line in block.splitlines():
                match = re.match(r"(?:\$ )?(?:\.venv/bin/)?(steelyard .*?)(?:\s{2,}#.*)?$", line)
                if match:
                    yield str(page.relative_to(REPOSITORY)), match.group(1)


COMMANDS = list(documented_commands())

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "infer-1", "namespace": "team-a", "uid": "u-1", "creationTimestamp": "2026-11-30T01:00:00Z"},
    "spec": {"nodeName": "node-1", "containers": [{"name": "srv", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-30T01:00:02Z"}],
    },
}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"nvidia.com/gpu.count": "8"}}}
SMI = """<?xml version="1.0" ?>
<nvidia_smi_log><timestamp>Mon Nov 30 02:00:00 2026</timestamp><driver_version>580.1</driver_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:3B:00.0"><product_name>NVIDIA L40S</product_name><uuid>GPU-aaaaaaaa-0000-4000-8000-000000000001</uuid>
<minor_number>0</minor_number><fb_memory_usage><total>46068 MiB</total><used>512 MiB</used></fb_memory_usage></gpu></nvidia_smi_log>
"""
PMON = """# gpu         pid   type     fb    ccpm    command
# Idx           #    C/G     MB      MB    name
    0       4242     C    512       0    python3
"""
PODS_CSV = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-0,1000,1024,1,500,,LS,Succeeded,0,7200,3600
"""
NODES_CSV = "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,T4\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the pages name and a data directory with a day of a small simulated estate."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": [POD, NODE]}), encoding="utf-8")
    (folder / "node-1.xml").write_text(SMI, encoding="utf-8")
    (folder / "node-1-pmon.txt").write_text(PMON, encoding="utf-8")
    (folder / "PODS.csv").write_text(PODS_CSV, encoding="utf-8")
    (folder / "NODES.csv").write_text(NODES_CSV, encoding="utf-8")
    assert run("steelyard demo --gpus 8 --days 1 --data demo-data", folder).returncode == 0
    assert run("steelyard import cluster.json", folder).returncode == 0
    assert run("steelyard import --node node-1 node-1.xml", folder).returncode == 0
    return folder


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STEELYARD_")}
    return subprocess.run(
        [PROGRAM, *shlex.split(command)[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_pages_document_commands() -> None:
    assert {"README.md", "docs/answers/q01_holders.md", "docs/answers/q02_consumption.md"} <= {
        page for page, _ in COMMANDS
    }


@pytest.mark.xdist_group("docs")
@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_documented_command_runs(page: str, command: str, site: Path) -> None:
    result = run(command, site)
    assert result.returncode == 0, f"{page}: {command}\n{result.stderr}"
    assert "Traceback" not in result.stderr


def test_the_documented_make_targets_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\$ make (\w+)", readme, flags=re.MULTILINE)) == MAKE_TARGETS
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in MAKE_TARGETS)
