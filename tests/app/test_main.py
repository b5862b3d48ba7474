"""The console script from end to end: real files, real readers, a real store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.posting import posting_parameters
from steelyard.app.settings import Settings
from steelyard.app.wiring import ports
from steelyard.primitives.i18n import choose
from steelyard.store.failures import failures_told
from steelyard.surfaces.cli import run

CARD = "GPU-5e3c1a2b-0000-4000-8000-000000000001"
REGISTER = f"{CARD},10,15360,100,NVIDIA-Tesla T4,0,true:"


def meta(name: str, **annotations: str) -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", "annotations": annotations, "creationTimestamp": "2026-11-30T01:00:00Z"}


def node() -> dict[str, Any]:
    register = {"hami.io/node-nvidia-register": REGISTER, "hami.io/node-handshake": "Reported 2026-11-30 02:00:00"}
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-29T00:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta("gpu-a", **register),
        "status": {"conditions": [condition]},
    }


def pod(namespace: str, name: str, memory_mib: int, started: str) -> dict[str, Any]:
    allocated = f"{CARD},NVIDIA,{memory_mib},25:;"
    annotations = {
        "hami.io/vgpu-devices-allocated": allocated,
        "hami.io/bind-phase": "success",
        "hami.io/vgpu-node": "gpu-a",
    }
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory_mib), "nvidia.com/gpucores": "25"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta(name, **annotations), "namespace": namespace, "labels": {"app": name}},
        "spec": {"nodeName": "gpu-a", "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": started}],
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": started}}}],
        },
    }


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.json"
    items = [
        node(),
        pod("team-a", "infer", 3840, "2026-11-30T01:00:00Z"),
        pod("team-b", "train", 7680, "2026-11-30T01:30:00Z"),
    ]
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})
    )
    return path


def steelyard(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "steelyard.app.main", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "STEELYARD_LANG": "en", "NO_COLOR": "1", **environment},
        check=False,
    )


def figures(text: str) -> dict[str, Any]:
    return {figure["name"]: figure["value"] for figure in json.loads(text)["figures"]}


def test_a_dump_is_read_weighed_and_the_books_close(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_DATA", str(tmp_path / "data"))
    assert run(ports(), ["import", str(dump), "--as-of", "2026-11-30T02:00:00Z"]) == 0
    assert capsys.readouterr().err == ""
    assert run(ports(), ["q1", "--json"]) == 0
    held = figures(capsys.readouterr().out)
    assert (held["holders_count"], held["gpus_held"], held["gpus_free"]) == (2, 0.75, 0.25)
    assert held["ledger_residual_gpu_us"] == 0
    assert run(ports(), ["q2", "--by", "app", "--json"]) == 0
    out = capsys.readouterr().out
    assert figures(out)["gpu_hours_granted"] == 0.5
    assert figures(out)["ledger_residual_gpu_us"] == 0
    assert run(ports(), ["ask", "who", "is", "on", CARD]) == 0
    assert "team-a" in capsys.readouterr().out
    assert run(ports(), ["import", str(dump), "--as-of", "2026-11-30T02:00:00Z", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["files"][0]["status"], again["postings_count"]) == ("unchanged", 0)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["q1", "--data", "nowhere"], 2, "steelyard: no data in nowhere"),
        (["import", "no-such-file.json"], 2, "steelyard: "),
        (["q2", "--at", "2026-11-30"], 2, "steelyard: No such option"),
        (["q1", "--at", "now"], 2, "steelyard: --at: "),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    arguments: list[str], code: int, said: str, tmp_path: Path
) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "steelyard.app.main", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "STEELYARD_DATA"} | {"STEELYARD_LANG": "en"},
        check=False,
    )
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.startswith(said)
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["--help"], ["q1", "--help"], ["import", "--help"], ["version"], ["ask", "sing"]]
)
def test_help_imports_no_engine(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from steelyard.app.wiring import ports\n"
        "from steelyard.surfaces.cli import run\n"
        f"run(ports(), {arguments!r})\n"
        "heavy = {'duckdb', 'pyarrow', 'numpy', 'babel'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_closed_pipe_ends_the_program_quietly(dump: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    assert steelyard("import", str(dump), "--data", data, "--as-of", "2026-11-30T02:00:00Z").returncode == 0
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "steelyard.app.main", "q1", "--data", data, "--json"]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (result.returncode, result.stderr) == (141, "")


def test_settings_reach_the_ledgers() -> None:
    settings = Settings.model_validate(
        {
            "grain_minutes": 15,
            "floor_by_slots": True,
            "history_days_max": 400,
            "tenant_rules": [{"by": "namespace", "match": "team-*", "tenant": "all"}, {"by": "label", "key": "team"}],
            "model_weights": {"*A100*": 1.5},
        }
    )
    parameters = posting_parameters(settings)
    assert parameters.grain_us == 15 * 60 * 1_000_000
    assert parameters.floor_by_slots is True
    assert parameters.history_days_max == 400
    assert [(rule.attribute, rule.key, rule.pattern, rule.tenant) for rule in parameters.tenant_rules] == [
        ("namespace", None, "team-*", "all"),
        ("label", "team", None, None),
    ]
    assert [(weight.model, weight.weight_ppm) for weight in parameters.model_weights] == [("A100", 1_500_000)]
    assert posting_parameters(Settings()).tenant_rules


@pytest.mark.parametrize("command", [["q1"], ["q2"], ["ask", "who", "is", "on", CARD]])
def test_a_mistake_in_the_settings_stops_a_question_too(
    command: list[str], dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_DATA", str(tmp_path / "data"))
    assert run(ports(), ["import", str(dump), "--as-of", "2026-11-30T02:00:00Z"]) == 0
    (tmp_path / "data/steelyard.toml").write_text("grain_minutes = 45\n")
    capsys.readouterr()
    assert run(ports(), command) == 2
    assert "grain_minutes" in capsys.readouterr().err


def test_the_language_of_the_settings_file_is_spoken(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_DATA", str(tmp_path / "data"))
    for variable in ("STEELYARD_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(variable, raising=False)
    assert run(ports(), ["import", str(dump), "--as-of", "2026-11-30T02:00:00Z"]) == 0
    capsys.readouterr()
    assert run(ports(), ["q1"]) == 0
    english = capsys.readouterr().out
    (tmp_path / "data/steelyard.toml").write_text('lang = "zh"\n')
    assert run(ports(), ["q1"]) == 0
    chinese = capsys.readouterr().out
    assert english.isascii() or "\u5361" not in english
    assert any("\u4e00" <= character <= "\u9fff" for character in chinese)
    choose(None)


def test_a_language_that_there_is_not_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_LANG", "xx")
    assert run(ports(), ["version"]) == 2
    assert capsys.readouterr().err == "steelyard: STEELYARD_LANG: expected one of en, zh; found 'xx'\n"


def test_a_command_without_stdout_is_one_line_and_no_traceback() -> None:
    command = f"{sys.executable} -m steelyard.app.main version >&-"
    result = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 3
    assert result.stderr.startswith("steelyard: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("at", [1, 12, 40])
def test_an_interrupted_import_ends_with_130_and_one_line(
    at: int, dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from steelyard.store import Store

    statement, count = Store._run, [0]

    def interrupted(self: Store, sql: str, parameters: Any) -> Any:
        count[0] += 1
        if count[0] == at:
            with failures_told():
                raise RuntimeError("Query interrupted")
        return statement(self, sql, parameters)

    monkeypatch.setattr(Store, "_run", interrupted)
    assert run(ports(), ["import", str(dump), "--data", str(tmp_path / "data")]) == 130
    assert capsys.readouterr().err.count("\n") <= 1
