"""Every command that README.md and docs/ show is run as it stands there, over a small simulated estate, or stands below with why it is not.

Pages hold together: a link leads somewhere, and every page can be reached from README.md.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
PROGRAM = Path(sys.executable).parent / "steelyard"
MAKE_TARGETS = {"demo", "test"}

NOT_RUN = {
    "make": "its targets are compared with the Makefile",
    "kubectl": "needs a cluster",
    "helm": "needs a cluster; the chart is rendered by tests/deploy",
    "podman": "builds and sends an image",
    "nvidia-smi": "needs a card",
    "curl": "needs a Prometheus",
    "steelyard serve": "runs until it is interrupted; started by tests/app",
}
"""How a shown command begins that no test runs as it stands -> why."""

EXIT_CODES = {"steelyard agent --once": {0, 3}}
"""A machine without a driver has nothing to look at, and says so."""


def shown_commands() -> Iterator[tuple[str, str]]:
    """(page, command) for each line of a fenced block that is a command: all with a prompt, and those of steelyard without one."""
    for page in PAGES:
        for block in re.findall(
            r"^```[a-z]*\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
        ):
            for line in block.splitlines():
                match = re.match(r"(?:\$ (?:\.venv/bin/)?|(?=steelyard |curl ))(\S.*?)(?:\s{2,}#.*)?$", line)
                if match:
                    yield str(page.relative_to(REPOSITORY)), match.group(1)


def not_run(command: str) -> str | None:
    """The entry of NOT_RUN that a command begins with."""
    return next((start for start in NOT_RUN if f"{command} ".startswith(f"{start} ")), None)


SHOWN = list(shown_commands())
COMMANDS = [(page, command) for page, command in SHOWN if not_run(command) is None]

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
AUDIT_EVENT = {
    "kind": "Event",
    "apiVersion": "audit.k8s.io/v1",
    "level": "Request",
    "auditID": "a-1",
    "verb": "delete",
    "requestURI": "/api/v1/namespaces/team-a/pods/infer-0",
    "user": {"username": "ann"},
    "objectRef": {"resource": "pods", "namespace": "team-a", "name": "infer-0", "apiVersion": "v1"},
    "requestReceivedTimestamp": "2026-11-30T01:30:00.000000Z",
    "stageTimestamp": "2026-11-30T01:30:00.010000Z",
}
PODS_CSV = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-0,1000,1024,1,500,,LS,Succeeded,0,7200,3600
"""
SEQUENCE_CSV = """time,vc,total_gpu_num,running_gpu_num,pending_gpu_num,idle_gpu_num
2020-05-01 00:00:00,vcA,64,59,3,5
"""
NODES_CSV = "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,T4\n"

GATEWAY_ROWS = [
    {
        "request_id": number,
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "startTime": 1795000000,
        "endTime": 1795000001,
        "api_base": base,
    }
    for number, base in (("r-1", "http://llama.serving.svc:8000"), ("r-2", "https://elsewhere.example.com"))
]
DECLARED = {
    "prices.csv": "side,model,currency,price,per\ncharge,L40S,USD,1.20,hour\ncost,L40S,USD,610.00,month\n",
    "prices.toml": '[[prices]]\nside = "charge"\nmodel = "H100"\ncurrency = "USD"\nprice = 3.40\nper = "hour"\n',
    "tree.csv": "by,match,department,valid_from\nnamespace,team-a,research,2026-01-01\n",
    "rates.csv": "base_currency,quote_currency,rate,valid_from\nUSD,CNY,7.1025,2026-11-01\n",
    "service-use.csv": "service,started_at,ended_at,prompt_tokens,completion_tokens\n"
    "serving/llama,2026-11-30T01:00:00Z,2026-11-30T02:00:00Z,100,50\n",
    "gateway.jsonl": "".join(f"{json.dumps(row)}\n" for row in GATEWAY_ROWS),
    "bill.csv": "BillingCurrency,BilledCost,ChargeCategory,ChargePeriodStart,ChargePeriodEnd\n"
    "USD,1.5,Usage,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z\n",
}


@pytest.fixture
def site(furnished: Path, tmp_path: Path) -> Path:
    """A copy of the furnished folder of a page's own: what a page shows leans on nothing that another page did, in whatever order they run."""
    return Path(shutil.copytree(furnished, tmp_path / "site"))


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the pages name and a data directory with a day of a small simulated estate."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": [POD, NODE]}), encoding="utf-8")
    (folder / "node-1.xml").write_text(SMI, encoding="utf-8")
    (folder / "node-1-pmon.txt").write_text(PMON, encoding="utf-8")
    (folder / "PODS.csv").write_text(PODS_CSV, encoding="utf-8")
    (folder / "NODES.csv").write_text(NODES_CSV, encoding="utf-8")
    (folder / "SEQUENCE.csv").write_text(SEQUENCE_CSV, encoding="utf-8")
    for name, text in DECLARED.items():
        (folder / name).write_text(text, encoding="utf-8")
    log = folder / "audit.log"
    stages = ("RequestReceived", "ResponseComplete")
    log.write_text("".join(json.dumps({**AUDIT_EVENT, "stage": stage}) + "\n" for stage in stages), encoding="utf-8")
    settings = f'[[audit_log]]\nname = "audit"\npath = "{log}"\n'
    (folder / "steelyard-data").mkdir()
    (folder / "steelyard-data/steelyard.toml").write_text(settings, encoding="utf-8")
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


def test_a_shown_command_is_run_or_the_reason_why_not_is_given() -> None:
    assert [f"{page}: {command}" for page, command in COMMANDS if not command.startswith("steelyard ")] == []
    assert {not_run(command) for _page, command in SHOWN} - {None} == NOT_RUN.keys()


@pytest.mark.parametrize("page", dict.fromkeys(page for page, _ in COMMANDS))
def test_the_commands_of_a_page_run_one_after_another(page: str, site: Path) -> None:
    for command in (command for where, command in COMMANDS if where == page):
        result = run(command, site)
        assert result.returncode in EXIT_CODES.get(command, {0}), f"{page}: {command}\n{result.stderr}"
        assert "Traceback" not in result.stderr, f"{page}: {command}"


def test_the_documented_make_targets_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\$ make (\w+)", readme, flags=re.MULTILINE)) == MAKE_TARGETS
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in MAKE_TARGETS)


def linked_pages(page: Path) -> list[tuple[str, Path, str]]:
    """(link, file, fragment) for each link of a page that leads to a file."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", link):
            name, _, fragment = link.partition("#")
            found.append((link, (page.parent / name).resolve() if name else page, fragment))
    return found


def fragments(page: Path) -> set[str]:
    """What a link to a heading of a page may name."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading_that_is_there() -> None:
    pages = (*PAGES, *REPOSITORY.glob("*.md"))
    links = [(page, *each) for page in pages for each in linked_pages(page)]
    broken = [
        f"{page.relative_to(REPOSITORY)}: {link}"
        for page, link, file, fragment in links
        if not file.exists() or (fragment and fragment not in fragments(file))
    ]
    assert links
    assert broken == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    ahead = [REPOSITORY / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            ahead += [file for _link, file, _fragment in linked_pages(page) if file.exists()]
    assert [str(page.relative_to(REPOSITORY)) for page in PAGES if page not in reached] == []


def test_the_readme_names_every_command(tmp_path: Path) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `steelyard ([a-z0-9-]+)` \|", readme, flags=re.MULTILINE)
    helped = run("steelyard --help", tmp_path).stdout.partition("Commands:")[2]
    commands = set(re.findall(r"^  ([a-z][a-z0-9-]*)(?:  |$)", helped, flags=re.MULTILINE))
    assert {"import", "q1"} < commands
    assert sorted(named) == sorted(commands)
