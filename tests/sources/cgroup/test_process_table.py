"""From pids to owners over a ``/proc`` of files, and over the machine's own where it allows."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steelyard.sources.cgroup.namespaces import INITIAL_CGROUP_NAMESPACE, INITIAL_PID_NAMESPACE, own_namespaces
from steelyard.sources.cgroup.process_table import ProcessTable
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.process_owner import ProcessOwner

UID = "0a1b2c3d-1111-4222-8333-444455556666"
OTHER_UID = "ffffffff-1111-4222-8333-444455556666"
CONTAINER = "5" * 64
POD_LINE = f"0::/kubepods/burstable/pod{UID}/{CONTAINER}\n"
CTX = ReadContext(node="node-1", observed_at=1_000_000)

Process = Callable[..., None]


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return tmp_path / "proc"


@pytest.fixture
def process(proc: Path) -> Process:
    def add(
        pid: int,
        cgroup: str = POD_LINE,
        *,
        comm: str = "python3",
        start: int = 777,
        state: str = "S",
        cmdline: str = "",
    ) -> None:
        folder = proc / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        fields = " ".join(["1"] * 18)
        (folder / "stat").write_text(f"{pid} ({comm}) {state} {fields} {start} 0 0\n", encoding="utf-8")
        (folder / "cgroup").write_text(cgroup, encoding="utf-8")
        (folder / "cmdline").write_text(cmdline, encoding="utf-8")

    return add


def reader_namespaces(proc: Path, pid: int, cgroup: int, pids_seen: str = "7") -> None:
    folder = proc / "self" / "ns"
    folder.mkdir(parents=True)
    (folder / "pid").symlink_to(f"pid:[{pid}]")
    (folder / "cgroup").symlink_to(f"cgroup:[{cgroup}]")
    (proc / "self" / "status").write_text(f"Name:\tagent\nNSpid:\t{pids_seen}\n", encoding="utf-8")


def owner(table: ProcessTable, pid: int) -> ProcessOwner:
    return table.owners_of([pid])[pid]


def codes(table: ProcessTable, ctx: ReadContext = CTX) -> list[str]:
    return [finding.code for finding in table.setup_findings(ctx)]


def test_a_process_of_a_pod_has_its_pod_container_name_and_start(proc: Path, process: Process) -> None:
    process(42, comm="ray::Worker (x) y", start=123_456)
    found = owner(ProcessTable(proc), 42)
    assert (found.kind, found.pod_uid, found.container_id) == ("pod", UID, CONTAINER)
    assert (found.name, found.started_ticks, found.mps_server, found.reason) == (
        "ray::Worker (x) y",
        123_456,
        False,
        None,
    )


def test_a_pid_that_went_to_another_process_has_the_pod_of_that_one(proc: Path, process: Process) -> None:
    table = ProcessTable(proc)
    process(42, start=1)
    assert owner(table, 42).pod_uid == UID
    process(42, POD_LINE.replace(UID, OTHER_UID), start=2)
    assert (owner(table, 42).pod_uid, owner(table, 42).started_ticks) == (OTHER_UID, 2)


def test_the_same_process_is_not_read_twice(proc: Path, process: Process) -> None:
    table = ProcessTable(proc)
    process(42)
    owner(table, 42)
    (proc / "42" / "cgroup").unlink()
    assert owner(table, 42).pod_uid == UID


def test_a_process_on_its_way_into_a_pod_is_read_again(proc: Path, process: Process) -> None:
    table = ProcessTable(proc)
    process(42, "0::/system.slice/containerd.service\n")
    assert owner(table, 42).kind == "host"
    process(42)
    assert owner(table, 42).pod_uid == UID


def test_a_pid_that_changes_hands_while_it_is_read_belongs_to_nobody(
    proc: Path, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(42, start=1)
    table = ProcessTable(proc)
    read = table._read

    def swapping(pid: int, name: str, limit: int) -> str:
        text = read(pid, name, limit)
        if name == "cgroup":
            process(42, start=2)
        return text

    monkeypatch.setattr(table, "_read", swapping)
    found = owner(table, 42)
    assert (found.kind, found.pod_uid) == ("gone", None)


def test_a_process_that_ended_is_gone_and_not_the_hosts(proc: Path, process: Process) -> None:
    process(42)
    table = ProcessTable(proc)
    assert owner(table, 43).kind == "gone"
    assert owner(table, 43).reason


@pytest.mark.parametrize("text", ["", "nonsense", "42 (x) S 1 2", "42 (x) S " + "1 " * 18 + "many"])
def test_a_status_that_cannot_be_read_is_unresolved_with_its_reason(proc: Path, process: Process, text: str) -> None:
    process(42)
    (proc / "42" / "stat").write_text(text, encoding="utf-8")
    found = owner(ProcessTable(proc), 42)
    assert found.kind == "unresolved" and found.reason


def test_a_zombie_keeps_its_pod_and_says_what_it_is(proc: Path, process: Process) -> None:
    process(42, state="Z")
    found = owner(ProcessTable(proc), 42)
    assert found.pod_uid == UID and "zombie" in (found.reason or "")


def test_an_mps_server_is_known_by_its_program_and_not_by_a_cut_name(proc: Path, process: Process) -> None:
    process(7, comm="nvidia-cuda-mps", cmdline="/usr/bin/nvidia-cuda-mps-server\0-force-tegra\0")
    process(8, comm="nvidia-cuda-mps", cmdline="nvidia-cuda-mps-control\0-d\0")
    owners = ProcessTable(proc).owners_of([7, 8])
    assert [(owners[pid].name, owners[pid].mps_server) for pid in (7, 8)] == [
        ("nvidia-cuda-mps-server", True),
        ("nvidia-cuda-mps-control", False),
    ]


def test_a_command_line_that_does_not_begin_with_the_kernels_name_does_not_rename_a_process(
    proc: Path, process: Process
) -> None:
    process(9, comm="python3", cmdline="nvidia-cuda-mps-server\0")
    found = owner(ProcessTable(proc), 9)
    assert (found.name, found.mps_server) == ("python3", False)


def test_in_a_pid_namespace_of_its_own_no_pid_is_resolved_for_it_may_be_somebody_elses(
    proc: Path, process: Process
) -> None:
    process(42)
    reader_namespaces(proc, 4_026_532_999, INITIAL_CGROUP_NAMESPACE)
    table = ProcessTable(proc)
    found = owner(table, 42)
    assert (found.kind, found.pod_uid) == ("unresolved", None)
    assert codes(table) == ["host_pid_missing"]


def test_the_hosts_proc_mounted_into_a_container_has_the_hosts_pids(proc: Path, process: Process) -> None:
    process(42)
    reader_namespaces(proc, 4_026_532_999, INITIAL_CGROUP_NAMESPACE, pids_seen="31337\t7")
    assert owner(ProcessTable(proc), 42).pod_uid == UID


def test_with_host_pid_nothing_is_wrong(proc: Path, process: Process) -> None:
    process(42)
    reader_namespaces(proc, INITIAL_PID_NAMESPACE, INITIAL_CGROUP_NAMESPACE)
    table = ProcessTable(proc)
    assert owner(table, 42).pod_uid == UID
    assert codes(table) == []


def test_where_no_pid_of_the_driver_is_there_host_pid_is_asked_for(proc: Path, process: Process) -> None:
    process(42)
    table = ProcessTable(proc)
    table.owners_of([100, 101, 102])
    assert codes(table) == ["host_pid_missing"]


def test_a_private_cgroup_namespace_is_a_wrong_set_up_and_said_once(proc: Path, process: Process) -> None:
    process(42, "0::/\n")
    reader_namespaces(proc, INITIAL_PID_NAMESPACE, 4_026_532_888)
    table = ProcessTable(proc)
    assert owner(table, 42).kind == "unresolved"
    assert codes(table) == ["cgroup_namespace_private"]
    assert codes(table) == []


def test_a_bare_root_seen_from_the_machines_own_namespace_is_the_hosts(proc: Path, process: Process) -> None:
    process(42, "0::/\n")
    reader_namespaces(proc, INITIAL_PID_NAMESPACE, INITIAL_CGROUP_NAMESPACE)
    assert owner(ProcessTable(proc), 42).kind == "host"


def test_a_link_that_is_no_namespace_tells_nothing(proc: Path) -> None:
    (proc / "self" / "ns").mkdir(parents=True)
    (proc / "self" / "ns" / "pid").symlink_to("pid:[" + "9" * 4_000 + "]")
    assert own_namespaces(proc).host_pids is None


def test_a_process_that_may_not_be_read_is_a_finding(
    proc: Path, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(42)
    table = ProcessTable(proc)

    def denied(pid: int, name: str, limit: int) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(table, "_read", denied)
    assert owner(table, 42).kind == "unresolved"
    assert codes(table) == ["proc_not_readable"]


@pytest.fixture
def real_pod_cgroup() -> Iterator[Path]:
    """A cgroup of this machine that is named like a pod's, made and removed again."""
    roots = [Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]
    made = [f"kubepods-steelyard-{os.getpid()}", f"pod{uuid.UUID(int=os.getpid(), version=4)}", CONTAINER]
    for root in roots:
        if not (root / "cgroup.procs").exists():
            continue
        try:
            (root / made[0] / made[1] / made[2]).mkdir(parents=True)
        except OSError:
            continue
        yield root / made[0] / made[1] / made[2]
        for depth in (3, 2, 1):
            root.joinpath(*made[:depth]).rmdir()
        return
    pytest.skip("this machine lets nobody make a cgroup: no cgroup file system, or no right to it")


def test_a_real_process_in_a_real_cgroup_has_its_pod(real_pod_cgroup: Path) -> None:
    program = "import sys; sys.stdout.write('up\\n'); sys.stdout.flush(); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == b"up\n"
            try:
                (real_pod_cgroup / "cgroup.procs").write_text(str(child.pid), encoding="ascii")
            except OSError as error:
                pytest.skip(f"this machine moves no process into a cgroup: {error}")
            table = ProcessTable(host_pids=True)
            found = owner(table, child.pid)
            assert found.pod_uid == real_pod_cgroup.parent.name.removeprefix("pod")
            assert (found.container_id, found.kind) == (CONTAINER, "pod")
            assert found.started_ticks is not None and found.started_ticks > 0
        finally:
            child.communicate()
    assert owner(table, child.pid).kind == "gone"


def test_this_very_process_is_found_under_its_own_name() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("this machine has no /proc")
    found = owner(ProcessTable(host_pids=True), os.getpid())
    assert found.kind != "gone" and found.name and found.started_ticks
