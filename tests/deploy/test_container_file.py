"""The container file's instructions: what comes in exists, what is installed is locked, and who runs is nobody."""

from __future__ import annotations

import ast
import fnmatch
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from steelyard.surfaces.reports.fonts import SYSTEM_FOLDERS
from tests.conftest import REPOSITORY
from tests.deploy.rendered_chart import CHART, documents, only

FILE = REPOSITORY / "deploy" / "Containerfile"
LOCK = REPOSITORY / "requirements.lock"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCRIPT = REPOSITORY / "deploy" / "runtime_lock.py"


def instructions() -> list[tuple[str, str]]:
    """(instruction, what it is given), comments gone and continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(word.upper(), rest.strip()) for word, _space, rest in (line.partition(" ") for line in lines)]


def given(name: str) -> list[str]:
    return [rest for word, rest in instructions() if word == name]


def last_stage() -> list[tuple[str, str]]:
    found = instructions()
    return found[max(at for at, (word, _rest) in enumerate(found) if word == "FROM") :]


def commands() -> list[list[str]]:
    """The argument lists of RUN, CMD and ENTRYPOINT; fails for one that a shell would read."""
    found = []
    for word, rest in instructions():
        if word in ("RUN", "CMD", "ENTRYPOINT"):
            assert rest.startswith("["), f"{word} {rest}"
            found.append(json.loads(rest))
    return found


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for rest in given("ENV") for pair in rest.split())


def test_only_known_instructions_are_used() -> None:
    assert {word for word, _rest in instructions()} == {
        *("ARG", "FROM", "ENV", "WORKDIR", "RUN", "COPY", "LABEL", "USER", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD")
    }


def test_no_command_goes_through_a_shell() -> None:
    assert len(commands()) >= 8
    assert not any(each[0] in ("sh", "bash", "/bin/sh", "/bin/bash") for each in commands())


def test_everything_that_is_copied_is_there_and_let_in() -> None:
    ignored = [
        line
        for line in Path(f"{FILE}.dockerignore").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    assert ignored[0] == "*"
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    copied = [rest.split()[:-1] for rest in given("COPY") if not rest.startswith("--from=")]
    sources = {source for each in copied for source in each}
    assert {"src", "requirements.lock", "pyproject.toml"} <= sources
    assert [source for source in sources if not (REPOSITORY / source).exists()] == []
    assert sources == let_in
    assert not any(
        fnmatch.fnmatch("src/steelyard/app/main.py", line) for line in ignored[1:] if not line.startswith("!")
    )


def test_nothing_of_the_build_but_the_program_and_its_font_reaches_the_image() -> None:
    copied = [rest for word, rest in last_stage() if word == "COPY"]
    font = SYSTEM_FOLDERS[0]
    assert copied == ["--from=build /opt/steelyard /opt/steelyard", f"--from=build {font} {font}"]


def test_the_image_runs_as_the_same_nobody_as_the_chart_says() -> None:
    (user,) = [rest for word, rest in last_stage() if word == "USER"]
    number, group = (int(part) for part in user.split(":"))
    assert number > 0
    assert group > 0
    security = only(documents(), "StatefulSet")["spec"]["template"]["spec"]["securityContext"]
    assert (security["runAsUser"], security["runAsGroup"]) == (number, group)
    after = [word for word, _rest in last_stage()]
    assert "RUN" not in after[after.index("USER") :]


def test_the_image_and_the_chart_agree_on_port_and_directory() -> None:
    (container,) = only(documents(), "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert given("EXPOSE") == [str(container["ports"][0]["containerPort"])]
    assert environment()["STEELYARD_DATA"] == {e["name"]: e.get("value") for e in container["env"]}["STEELYARD_DATA"]
    assert [json.loads(rest) for rest in given("CMD")] == [container["args"]]
    assert [json.loads(rest) for rest in given("ENTRYPOINT")] == [["/opt/steelyard/bin/steelyard"]]


def test_commands_in_the_pod_find_the_program() -> None:
    assert environment()["PATH"].split(":")[0] == "/opt/steelyard/bin"


def test_both_stages_stand_on_one_pinned_python_for_which_the_lock_was_made() -> None:
    assert given("FROM") == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]
    (image,) = [rest.removeprefix("PYTHON_IMAGE=") for rest in given("ARG")]
    version = re.fullmatch(r"docker\.io/library/python:(\d+\.\d+)\.\d+-slim-[a-z]+", image)
    assert version is not None
    assert f"pip-compile with Python {version.group(1)}" in LOCK.read_text(encoding="utf-8")[:400]


def test_whatever_is_installed_is_locked_by_hash_or_built_here() -> None:
    installs = [each for each in commands() if "pip" in each and {"install", "wheel"} & set(each)]
    assert len(installs) == 4
    fonts = [each for each in commands() if each[0] == "apt-get" and "install" in each]
    assert [each[-1] for each in fonts] == ["fonts-wqy-microhei"]
    for each in installs:
        if "--require-hashes" in each:
            assert each[each.index("--only-binary") + 1] == ":all:"
            assert each[each.index("-r") + 1] in ("runtime.lock", "build.lock")
        else:
            assert {"--no-deps", "--no-index"} <= set(each)


def test_no_instruction_holds_a_secret() -> None:
    assert not re.search(r"token|secret|password|credential", " ".join((*given("ENV"), *given("ARG"))), re.IGNORECASE)


def part(tmp_path: Path, *roots: str) -> str:
    target = tmp_path / "part.lock"
    subprocess.run([sys.executable, SCRIPT, "--to", target, *roots], check=True, timeout=60)
    return target.read_text(encoding="utf-8")


def names(lock: str) -> set[str]:
    return {canonicalize_name(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", lock, flags=re.MULTILINE)}


def needed() -> set[str]:
    """What the installed packages say themselves that the program needs here, by their own metadata and not by the lock's notes."""
    found: set[str] = set()
    extras = PROJECT["optional-dependencies"]
    left = [Requirement(each) for each in (*PROJECT["dependencies"], *extras["agent"], *extras["report"])]
    seen: set[tuple[str, str]] = set()
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            found.add(name)
            more = [Requirement(each) for each in importlib.metadata.requires(requirement.name) or ()]
            left += [each for each in more if each.marker is None or each.marker.evaluate({"extra": extra})]
    return found


def test_the_image_gets_what_the_program_needs_and_no_tool(tmp_path: Path) -> None:
    assert names(part(tmp_path)) == needed()
    assert not names(part(tmp_path)) & {"pytest", "helm-python-sdk", "mypy", "pip-tools", "setuptools", "pip"}


def test_the_part_holds_the_locks_own_lines(tmp_path: Path) -> None:
    lock = LOCK.read_text(encoding="utf-8").splitlines()
    lines = part(tmp_path).splitlines()
    assert set(lines) <= set(lock)
    assert sum("--hash=sha256:" in line for line in lines) > len(names(part(tmp_path)))


def test_the_builder_gets_what_builds_the_program(tmp_path: Path) -> None:
    found = names(part(tmp_path, "setuptools", "wheel"))
    assert {"setuptools", "wheel"} <= found
    assert len(found) <= 3


def test_a_package_that_the_lock_lacks_is_refused_by_name(tmp_path: Path) -> None:
    target = tmp_path / "part.lock"
    answer = subprocess.run(
        [sys.executable, SCRIPT, "--to", target, "no-such-package"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == 2
    assert "not in the lock: no-such-package" in answer.stderr
    assert not target.exists()


def imported() -> Iterator[str]:
    """Every library that the program imports, however late."""
    for path in (REPOSITORY / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (each.name.partition(".")[0] for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield node.module.partition(".")[0]


def test_each_library_that_the_program_imports_is_in_the_image(tmp_path: Path) -> None:
    brought = names(part(tmp_path))
    by_module = importlib.metadata.packages_distributions()
    libraries = {each for each in imported() if each not in sys.stdlib_module_names and each != "steelyard"}
    assert {"duckdb", "fastapi"} <= libraries
    missing = [
        each for each in libraries if not {canonicalize_name(name) for name in by_module.get(each, [])} & brought
    ]
    assert missing == []


def test_the_charts_image_is_the_one_that_is_built() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert values["image"] == {"repository": "steelyard", "tag": "", "digest": "", "pullPolicy": "IfNotPresent"}
    assert 'image.title="steelyard"' in " ".join(given("LABEL"))
