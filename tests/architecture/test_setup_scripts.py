"""What the set-up scripts promise."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from tests.conftest import REPOSITORY

SCRIPT = REPOSITORY / "scripts" / "system_packages.sh"


def program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def run(table: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run([SCRIPT, table], env=environment, capture_output=True, text=True, timeout=30, check=False)


def test_a_program_that_is_there_is_not_installed(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("# comment\nsh\tdash\tthis test\n", encoding="utf-8")
    program(tmp_path, "apt-get", f"echo called >> {tmp_path}/calls")
    assert run(table, tmp_path).returncode == 0
    assert not (tmp_path / "calls").exists()


def test_a_file_that_is_there_is_not_installed_and_one_that_is_not_is(tmp_path: Path) -> None:
    table = tmp_path / "table"
    (tmp_path / "font").write_bytes(b"")
    table.write_text(f"{tmp_path}/font\tits-font\tthis test\n{tmp_path}/none\tits-other\tthis test\n", encoding="utf-8")
    program(tmp_path, "apt-get", f'echo "$@" >> {tmp_path}/calls')
    program(tmp_path, "id", "echo 0")
    assert run(table, tmp_path).returncode == 0
    calls = (tmp_path / "calls").read_text(encoding="utf-8")
    assert "its-other" in calls
    assert "its-font" not in calls


def test_as_root_a_missing_program_is_installed_by_its_package(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("no-such-program\tits-package\tthis test\n", encoding="utf-8")
    program(tmp_path, "apt-get", f'echo "$@" >> {tmp_path}/calls')
    program(tmp_path, "id", "echo 0")
    assert run(table, tmp_path).returncode == 0
    assert "its-package" in (tmp_path / "calls").read_text(encoding="utf-8")


def test_without_root_the_missing_program_is_named_and_setup_goes_on(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("no-such-program\tits-package\tthis test\n", encoding="utf-8")
    program(tmp_path, "apt-get", f"echo called >> {tmp_path}/calls")
    program(tmp_path, "id", "echo 1000")
    result = run(table, tmp_path)
    assert result.returncode == 0
    assert "its-package" in result.stderr
    assert "this test" in result.stderr
    assert not (tmp_path / "calls").exists()
