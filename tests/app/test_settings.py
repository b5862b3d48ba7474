"""Settings come from one file and the environment, and every mistake in them is one clear line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from steelyard.app.posting import posting_parameters
from steelyard.app.settings import FILE_NAME, ImportLimits, Settings, load_settings
from steelyard.app.wiring import ports
from steelyard.ledgers.dimensions.registry import build_dimensions
from steelyard.primitives.errors import UsageError
from steelyard.sources.shared.context import ReadSettings
from steelyard.store import Store
from steelyard.surfaces.cli import run

FULL = """
cluster = "east-1"
grain_minutes = 15
floor_by_slots = true
smi_timezone = "Asia/Shanghai"
lang = "zh_CN"

[[tenant_rules]]
by = "label"
key = "example.com/team"
match = "ml-*"
tenant = "ml"

[[tenant_rules]]
by = "namespace"

[model_weights]
"*H100*" = 1
"*T4*" = 0.2

[[shared_schemes]]
resource = "example.com/gpu-part"
unit = "percent"

[hami_memory_scaling]
n1 = 1.8

[import_limits]
json_depth_max = 50
"""


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.upper().startswith("STEELYARD_")]:
        monkeypatch.delenv(name)


def test_without_a_file_the_defaults_of_a_stock_installation_hold(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)
    assert settings == Settings()
    assert settings.to_read_settings() == ReadSettings()


def test_the_file_in_the_data_directory_is_read_and_reaches_the_readers(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(FULL)
    settings = load_settings(tmp_path)
    assert (settings.cluster, settings.grain_minutes, settings.floor_by_slots, settings.lang) == (
        "east-1",
        15,
        True,
        "zh_CN",
    )
    assert [(rule.by, rule.key, rule.match, rule.tenant) for rule in settings.tenant_rules] == [
        ("label", "example.com/team", "ml-*", "ml"),
        ("namespace", None, "*", None),
    ]
    assert settings.model_weights == {"*H100*": 1.0, "*T4*": 0.2}
    told = settings.to_read_settings()
    assert [(scheme.resource, scheme.unit) for scheme in told.shared_schemes] == [("example.com/gpu-part", "percent")]
    assert (told.hami_memory_scaling_by_node, told.smi_timezone, told.json_depth_max) == (
        {"n1": 1.8},
        "Asia/Shanghai",
        50,
    )


def test_a_named_file_wins_over_the_variable_and_that_over_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("standard", "variable", "named"):
        (tmp_path / f"{name}.toml").write_text(f'cluster = "{name}"\n')
    (tmp_path / FILE_NAME).write_text('cluster = "standard"\n')
    assert load_settings(tmp_path).cluster == "standard"
    monkeypatch.setenv("STEELYARD_CONFIG", str(tmp_path / "variable.toml"))
    assert load_settings(tmp_path).cluster == "variable"
    assert load_settings(tmp_path, tmp_path / "named.toml").cluster == "named"


def test_a_variable_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE_NAME).write_text(FULL)
    monkeypatch.setenv("STEELYARD_GRAIN_MINUTES", "30")
    monkeypatch.setenv("STEELYARD_IMPORT_LIMITS__LINE_BYTES_MAX", "2048")
    monkeypatch.setenv("STEELYARD_TENANT_RULES", '[{"by": "annotation", "key": "owner"}]')
    monkeypatch.setenv("STEELYARD_DATA", "elsewhere")
    settings = load_settings(tmp_path)
    assert (settings.grain_minutes, settings.cluster) == (30, "east-1")
    assert (settings.import_limits.line_bytes_max, settings.import_limits.json_depth_max) == (2048, 50)
    assert [rule.by for rule in settings.tenant_rules] == ["annotation"]


def test_the_documented_example_is_a_settings_file_that_names_every_setting(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/settings.md").read_text()
    example = page.split("```toml\n")[1].split("```")[0]
    (tmp_path / FILE_NAME).write_text(example)
    assert load_settings(tmp_path).model_fields_set == set(Settings.model_fields)
    assert set(tomllib.loads(example)["import_limits"]) == set(ImportLimits.model_fields)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("grain_minutes = 45", ("grain_minutes", "60, 30 or 15", "45")),
        ("grain_minutes = 60.5", ("grain_minutes", "60.5")),
        ('cluster = ""', ("cluster",)),
        ('cluster = "a b"', ("cluster", "a b")),
        ("colour = 1", ("colour", "not permitted")),
        ('smi_timezone = "Mars/Olympus"', ("smi_timezone", "Asia/Shanghai", "Mars/Olympus")),
        ('smi_timezone = "/etc/passwd"', ("smi_timezone",)),
        ('[[tenant_rules]]\nby = "label"', ("tenant_rules.0", "key", "label")),
        ('[[tenant_rules]]\nby = "namespace"\nkey = "x"', ("tenant_rules.0", "key")),
        ('[[tenant_rules]]\nby = "moon"', ("tenant_rules.0.by", "moon")),
        ('[model_weights]\n"*" = -1', ("model_weights.*", "-1")),
        ('[model_weights]\n"*" = nan', ("model_weights.*",)),
        ('[model_weights]\n"*" = inf', ("model_weights.*",)),
        ("[hami_memory_scaling]\nn = 0", ("hami_memory_scaling.n", "0")),
        ('[[shared_schemes]]\nresource = "x"\nunit = "miles"', ("shared_schemes.0.unit", "miles")),
        ("[import_limits]\njson_depth_max = 1000000", ("import_limits.json_depth_max", "1000000")),
        ("[import_limits]\ndecompressed = 1", ("import_limits.decompressed", "not permitted")),
        ('[[fragmentation.classes]]\nmig = "1g.5gb"\ngpumem_mib = 1', ("fragmentation.classes.0", "mig")),
        ("[[fragmentation.classes]]\ngpu = 0\nshare = 0.5", ("fragmentation.classes.0", "gpu = 0")),
        ("[[fragmentation.classes]]\nweight = 0", ("fragmentation.classes.0.weight", "0")),
        ("cluster = ", ("expected TOML", "line 1")),
        ("x = " + "[" * 100_000, ("expected TOML",)),
    ],
)
def test_a_mistake_in_the_file_is_one_line_with_place_and_value(
    tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    (tmp_path / FILE_NAME).write_text(text + "\n")
    with pytest.raises(UsageError) as caught:
        load_settings(tmp_path)
    assert caught.value.exit_code == 2
    (line,) = str(caught.value).splitlines()
    assert line.startswith(str(tmp_path / FILE_NAME))
    assert all(word in line for word in words), line


def test_several_mistakes_are_as_many_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / FILE_NAME).write_text("grain_minutes = 1\nfloor_by_slots = 7\nlang = '!'\n")
    with pytest.raises(UsageError) as caught:
        load_settings(tmp_path)
    assert [str(caught.value).count("\n"), len(caught.value.others)] == [0, 2]
    assert run(ports(), ["q1", "--data", str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.startswith("steelyard: ") for line in said] == [True] * 3


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("STEELYARD_GRAIN_MINUTES", "soon"),
        ("STEELYARD_TENANT_RULES", "[{"),
        ("STEELYARD_IMPORT_LIMITS__JSON_DEPTH_MAX", "x"),
    ],
)
def test_a_mistake_in_the_environment_is_said_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    (tmp_path / FILE_NAME).write_text(FULL)
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError) as caught:
        load_settings(tmp_path)
    (line,) = str(caught.value).splitlines()
    assert line.startswith("environment: ")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a = 1\n" * 1_000_000], ids=["no text", "6 MB"])
def test_a_file_that_is_no_settings_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_settings(tmp_path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_settings_file_that_is_named_and_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such settings file"):
        load_settings(tmp_path, tmp_path / "absent.toml")


@pytest.mark.parametrize("text", ["xx", "kli", "de_DE"])
def test_a_language_without_a_catalogue_is_one_line_with_those_that_there_are(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(f'lang = "{text}"\n')
    with pytest.raises(UsageError, match="expected one of en, zh") as caught:
        load_settings(tmp_path)
    assert len(str(caught.value).splitlines()) == 1


def test_declared_requests_reach_the_tables_that_answers_read(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(
        '[[fragmentation.classes]]\nweight = 3\ngpu = 8\ncpu = 64\nmodels = ["H200", "H100"]\n'
        "[[fragmentation.classes]]\ngpumem_mib = 16000\ncores_percent = 50\n"
        '[[fragmentation.classes]]\nmig = "2g.20gb"\n[[fragmentation.classes]]\ngpu = 0\ncpu = 0.5'
    )
    with Store.open_memory() as store:
        build_dimensions(store, posting_parameters(load_settings(tmp_path)))
        found = store.rows(
            "SELECT weight, cards_count, share_ppm, cpu_milli, memory_mib, cores_percent, profile, models FROM dim.declared_class ORDER BY position"
        )
    assert found == [
        (3, 8, 1_000_000, 64_000, None, None, None, "H100|H200"),
        (1, 1, None, None, 16_000, 50, None, ""),
        (1, 1, None, None, None, None, "2g.20gb", ""),
        (1, 0, None, 500, None, None, None, ""),
    ]
