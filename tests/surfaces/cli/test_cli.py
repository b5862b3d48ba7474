"""The command line over ports that a test holds in its hand: what is asked of them, what is printed, how it ends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.contract import Answer, Column, Figure, Table
from steelyard.primitives.errors import SourceUnsupported, StoreLocked, UsageError
from steelyard.primitives.instant import Window, parse_instant
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.cli import run
from steelyard.surfaces.cli.invocation import next_command
from steelyard.surfaces.shared.ports import (
    DemoSpec,
    FileReport,
    ImportReport,
    ImportRequest,
    Ports,
    Progress,
    Question,
)

NAMES = Table("holders", (Column("pod"),), [("evil\x1b[2J",)])


@dataclass
class World:
    """Fake ports that remember what they were asked. ``trouble`` is raised by whichever is asked first."""

    statuses: tuple[str, ...] = ("imported",)
    trouble: BaseException | None = None
    imports: list[ImportRequest] = field(default_factory=list)
    questions: list[tuple[int, Question]] = field(default_factory=list)
    demos: list[DemoSpec] = field(default_factory=list)
    directories: list[Path] = field(default_factory=list)

    def import_paths(self, request: ImportRequest, progress: Progress) -> ImportReport:
        self._raise()
        self.imports.append(request)
        progress("reading", 1, 2)
        return self.report()

    def run(self, spec: DemoSpec, progress: Progress) -> ImportReport:
        self.demos.append(spec)
        return self.report()

    def answer(self, number: int, question: Question) -> Answer:
        self._raise()
        self.questions.append((number, question))
        figures = (Figure("gpus_held", Unknown("nobody looked"), "GPU", "m", Unknown("none")),)
        return Answer(f"q{number}", "Title", None, parse_instant("2026-11-30T02:00:00Z"), figures, (NAMES,))

    def report(self) -> ImportReport:
        files = [
            FileReport(f"f{n}\x1b]0;x", "kubernetes", status, 3, 2, int(status == "refused"))
            for n, status in enumerate(self.statuses)
        ]
        return ImportReport(files, parse_instant("2026-11-30T02:00:40Z"), "inferred", {"odd": 2}, 12)

    def ports(self) -> Ports:
        def at(directory: Path) -> Any:
            self.directories.append(directory)
            return self

        return Ports(importer=at, query=at, demo=at, kinds=lambda: {"openb", "kubernetes"})

    def _raise(self) -> None:
        if self.trouble is not None:
            raise self.trouble


def ask(world: World, *arguments: str) -> int:
    return run(world.ports(), list(arguments))


@pytest.fixture(autouse=True)
def plain_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEELYARD_DATA", raising=False)
    monkeypatch.setenv("STEELYARD_LANG", "en")


def test_q1_passes_the_question_on_and_prints_lines(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    arguments = ["q1", "--at", "2026-11-30T02:00:00Z", "--by", "tenant,model", "--by", "app", "--gpu", "GPU-x"]
    assert ask(world, *arguments, "--where", "queue=batch", "--explain") == 0
    assert world.questions == [
        (
            1,
            Question(
                at=parse_instant("2026-11-30T02:00:00Z"),
                by=("tenant", "model", "app"),
                where={"queue": "batch", "gpu": "GPU-x"},
                explain=True,
            ),
        )
    ]
    out = capsys.readouterr().out
    assert "Q1  Title" in out
    assert "gpus_held  unknown, because nobody looked" in out


def test_q2_takes_a_window(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    assert ask(world, "q2", "--from", "2026-11-01", "--to", "2026-12-01", "--tenant", "a", "--json") == 0
    window = Window(parse_instant("2026-11-01T00:00:00Z"), parse_instant("2026-12-01T00:00:00Z"))
    assert world.questions == [(2, Question(window=window, where={"tenant": "a"}))]
    assert json.loads(capsys.readouterr().out)["question"] == "q2"


def test_nothing_from_data_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["q1"], ["q1", "--json"], ["import", "x"], ["import", "x", "--json"], ["demo"]):
        ask(World(), *arguments)
        assert "\x1b" not in capsys.readouterr().out


def test_ask_says_how_it_was_understood(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    assert ask(world, "ask", "who is on", "GPU-5e3c1a2b?") == 0
    assert world.questions == [(1, Question(where={"gpu": "GPU-5e3c1a2b"}))]
    assert capsys.readouterr().out.startswith("understood as: steelyard q1 --where gpu=GPU-5e3c1a2b\n")
    assert ask(world, "ask", "how much did tenant a use", "--json") == 0
    assert json.loads(capsys.readouterr().out)["command"] == "steelyard q2 --where tenant=a"
    assert ask(world, "ask", "sing") == 2


@pytest.mark.parametrize(
    ("words", "kind", "paths"),
    [
        (["pods.json"], None, ["pods.json"]),
        (["openb", "a.csv", "b.csv"], "openb", ["a.csv", "b.csv"]),
        (["openb"], None, ["openb"]),
        (["./openb", "a.csv"], None, ["openb", "a.csv"]),
        (["a.csv", "openb"], None, ["a.csv", "openb"]),
    ],
)
def test_the_first_word_of_an_import_is_a_kind_only_where_it_names_one_and_a_path_follows(
    words: list[str], kind: str | None, paths: list[str]
) -> None:
    world = World()
    assert ask(world, "import", *words) == 0
    assert (world.imports[0].kind, [str(path) for path in world.imports[0].paths]) == (kind, paths)


def test_import_passes_every_option_on(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    options = [
        "--as-of",
        "2026-11-30T02:00:40Z",
        "--cluster",
        "east",
        "--node",
        "n1",
        "--nodes",
        "n.csv",
        "--epoch",
        "2020-01-01",
    ]
    assert ask(world, "import", "x", *options, "--expected-interval", "30s", "--all-namespaces", "--json") == 0
    assert world.imports == [
        ImportRequest(
            paths=[Path("x")],
            as_of=parse_instant("2026-11-30T02:00:40Z"),
            cluster="east",
            node="n1",
            epoch=parse_instant("2020-01-01T00:00:00Z"),
            expected_interval_us=30_000_000,
            companions={"nodes": Path("n.csv")},
            all_namespaces=True,
        )
    ]
    assert json.loads(capsys.readouterr().out) == {
        "files": [
            {
                "path": "f0\x1b]0;x",
                "kind": "kubernetes",
                "status": "imported",
                "facts_count": 3,
                "new_count": 2,
                "refused_count": 0,
                "message": None,
            }
        ],
        "as_of": "2026-11-30T02:00:40Z",
        "as_of_basis": "inferred",
        "findings_by_code": {"odd": 2},
        "postings_count": 12,
        "asks": [],
    }


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (("imported", "unchanged"), 0),
        (("imported", "refused"), 3),
        (("unchanged", "refused"), 3),
        (("refused", "refused"), 2),
        ((), 2),
    ],
)
def test_an_import_ends_with_what_could_be_read(statuses: tuple[str, ...], code: int) -> None:
    assert ask(World(statuses=statuses), "import", "x") == code


def test_demo_imports_and_answers_both_questions(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    assert ask(world, "demo", "--gpus", "8", "--days", "2", "--seed", "3", "--json") == 0
    assert world.demos == [DemoSpec(8, 2, 3)]
    assert [number for number, _question in world.questions] == [1, 2]
    assert set(world.directories) == {Path("demo-data")}
    assert [item["question"] for item in json.loads(capsys.readouterr().out)["answers"]] == ["q1", "q2"]


def test_the_data_directory_comes_from_the_option_the_variable_or_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    ask(world, "q1")
    monkeypatch.setenv("STEELYARD_DATA", "elsewhere")
    ask(world, "q1")
    ask(world, "q1", "--data", "here")
    assert world.directories == [Path("steelyard-data"), Path("elsewhere"), Path("here")]


@pytest.mark.parametrize(
    ("trouble", "code", "line"),
    [
        (UsageError("no such dimension"), 2, "steelyard: no such dimension\n"),
        (StoreLocked("in use by process 7"), 3, "steelyard: in use by process 7\n"),
        (SourceUnsupported("odd \x1b[1m"), 3, "steelyard: odd \\x1b[1m\n"),
        (PermissionError(13, "Permission denied", "/x"), 3, "steelyard: Permission denied: /x\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_trouble_is_one_line_and_an_exit_code(
    trouble: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["q1"], ["import", "x"]):
        assert ask(World(trouble=trouble), *command) == code
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == line


def test_a_mistake_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        ask(World(trouble=ZeroDivisionError()), "q1")


@pytest.mark.parametrize(
    "arguments",
    [
        ["q8"],
        ["q1", "--form", "x"],
        ["q1", "--at", "yesterday"],
        ["q1", "--rows", "many"],
        ["q2", "--from", "2026-11-01"],
        ["import"],
        ["import", "x", "--expected-interval", "soon"],
        ["demo", "--gpus", "0"],
        ["ask"],
    ],
)
def test_a_command_line_that_cannot_be_read_is_one_line_and_exit_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    world = World()
    assert ask(world, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("steelyard: ")
    assert captured.err.count("\n") == 1
    assert (captured.out, world.questions, world.imports) == ("", [], [])


def test_a_reader_that_goes_away_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Closed:
        encoding = "utf-8"

        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None: ...

        def isatty(self) -> bool:
            return False

        def fileno(self) -> int:
            return spare.fileno()

    with Path(os.devnull).open("w") as spare:
        monkeypatch.setattr(sys, "stdout", Closed())
        assert ask(World(), "q1") == 141
    assert capfd.readouterr().err == ""


def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("import", "demo", "q1", "q2", "q6", "ask", "version"):
        assert ask(World(), command, "--help") == 0
        out = capsys.readouterr().out
        assert "Example: steelyard" in out
        assert "--json" in out
    assert ask(World(), "--help") == 0
    assert "Exit codes: 0 done" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(World(), "version", "--json") == 0
    assert set(json.loads(capsys.readouterr().out)) == {"name", "version"}


class Terminal:
    """A stream that says it is a terminal and keeps what is written."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, width: str, act: Callable[[], object]) -> str:
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", terminal)
    act()
    return terminal.text


def test_a_terminal_gets_colours_and_no_color_takes_them_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = on_a_terminal(monkeypatch, "80", lambda: ask(World(), "q1"))
    assert "\x1b[" in coloured
    assert "evil\\x1b[2J" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    plain = on_a_terminal(monkeypatch, "80", lambda: ask(World(), "q1"))
    assert "\x1b" not in plain
    assert "unknown, because nobody looked" in plain


def called_as(monkeypatch: pytest.MonkeyPatch, path: Path | str, on_path: Path | None = None) -> None:
    """As if the console script at ``path`` had been started, with ``on_path`` as the search path."""
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setenv("PATH", str(on_path or "/nowhere"))


def script(folder: Path) -> Path:
    folder.mkdir(parents=True)
    path = folder / "steelyard"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("command", "directory"), [(["import", "x"], "my data"), (["demo"], "demo-data")])
def test_the_last_lines_are_commands_to_paste_on_the_same_directory(
    command: list[str], directory: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called_as(monkeypatch, ".venv/bin/steelyard")
    assert ask(World(), *command, *(["--data", directory] if directory == "my data" else [])) == 0
    last = capsys.readouterr().out.splitlines()[-2:]
    quoted = f"'{directory}'" if " " in directory else directory
    assert last == [
        f"ask: .venv/bin/steelyard q1 --data {quoted}",
        f"ask: .venv/bin/steelyard q2 --by tenant --data {quoted}",
    ]


def test_what_the_search_path_leads_to_is_called_by_its_name_and_the_default_directory_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = script(tmp_path / "bin")
    called_as(monkeypatch, here, here.parent)
    assert next_command("q1", Path("steelyard-data")) == "steelyard q1"
    monkeypatch.setenv("STEELYARD_DATA", "elsewhere")
    assert next_command("q1", Path("elsewhere")) == "steelyard q1"
    assert next_command("q1", Path("steelyard-data")) == "steelyard q1 --data steelyard-data"
    called_as(monkeypatch, script(tmp_path / "other"), here.parent)
    assert next_command("q1", Path("elsewhere")) == f"{tmp_path}/other/steelyard q1"
    called_as(monkeypatch, "/x/app/main.py")
    assert next_command("q1", Path("elsewhere")).endswith(" -m steelyard.app.main q1")


@pytest.mark.parametrize(("words", "shown"), [([], "Commands:"), (["token"], "revoke")])
def test_a_command_without_its_words_prints_its_help_in_lines(
    words: list[str], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(World(), *words) == 2
    found = capsys.readouterr().err
    assert "\\x0a" not in found
    assert any(line.strip().startswith(shown) for line in found.splitlines())
    assert found.startswith("Usage: steelyard")
