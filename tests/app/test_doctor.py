"""``steelyard doctor`` as a person runs it: on the demo, on nothing, on live sources, on a directory that is served."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from steelyard.answers.registry import ANSWERS
from steelyard.app.backups import back_up, last_backup_at
from steelyard.app.doctor.diagnosing import diagnose
from steelyard.app.doctor.stored import look_at_directory, look_at_store
from steelyard.app.wiring import ports
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.unit import Unit
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import SourceUnsupported
from steelyard.primitives.i18n import speaking
from steelyard.primitives.instant import HOUR_US, parse_instant
from steelyard.store import Store
from steelyard.surfaces.cli import run
from steelyard.surfaces.cli.doctor import exit_code
from steelyard.surfaces.shared.doctor_ports import doctor_of
from steelyard.surfaces.shared.doctor_text import render_doctor, up_to
from tests.app.doctor_surveys import NOTHING, WELL, exporter, job
from tests.app.served_directory import serving
from tests.app.test_doctor_probes import A, card, url
from tests.sources.scrape.wild_server import answer, hangs, says, wild_server

NOW = parse_instant("2026-03-10T12:00:00Z")

TEXTS = {"type": "array", "items": {"type": "string"}}
NUMBERS = {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 10}}
TEXT = {"type": "string"}
LEVEL = {"enum": ["L0", "L1", "L2"]}


def record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def several(**properties: Any) -> dict[str, Any]:
    return {"type": "array", "items": record(**properties)}


WAY = {"remedy": TEXT, "paste_into": TEXT, "lines": TEXTS}
SCHEMA = record(
    checked_at={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT"},
    level={"enum": ["L0", "L1", "L2", None]},
    sources=several(name=TEXT, status={"enum": ["ok", "partial", "failed"]}, message={"type": ["string", "null"]}, seen={"type": "object"}),
    symptoms=several(
        id=TEXT, severity={"enum": ["broken", "warning", "missing", "note"]}, level=LEVEL, subject=TEXT, message=TEXT, **WAY
    ),
    levels=several(
        level=LEVEL,
        reached={"type": "boolean"},
        capabilities=several(
            id=TEXT,
            title=TEXT,
            state={"enum": ["live", "stored", "missing", "not_in_this_version"]},
            required={"type": "boolean"},
            by=TEXTS,
            questions=NUMBERS,
            **WAY,
        ),
    ),
    questions=several(
        number={"type": "integer"},
        title=TEXT,
        state={"enum": ["fully", "partly", "not", "not_in_this_version"]},
        missing=TEXTS,
        reason=TEXT,
    ),
    next_actions=several(id=TEXT, level=LEVEL, questions=NUMBERS, text=TEXT),
    not_tested=TEXTS,
)  # fmt: skip


def examined(capsys: pytest.CaptureFixture[str], data: Path, *more: str) -> tuple[int, dict[str, Any]]:
    code = run(ports(), ["doctor", "--json", "--data", str(data), *more])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMA)
    return code, found


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    assert run(ports(), ["demo", "--gpus", "8", "--days", "1", "--data", str(folder)]) == 0
    return folder


def states(found: dict[str, Any], level: str) -> dict[str, str]:
    (wanted,) = [each for each in found["levels"] if each["level"] == level]
    return {each["id"]: each["state"] for each in wanted["capabilities"]}


def test_on_the_demo_it_names_what_is_missing_at_each_level(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examined(capsys, demo)
    assert (code, found["level"]) == (0, "L0")
    assert [each["reached"] for each in found["levels"]] == [True, False, False]
    assert {name for name, state in states(found, "L0").items() if state != "stored"} == {"container_logs"}
    level_one = states(found, "L1")
    assert (level_one["cluster_watch"], level_one["card_use"], level_one["profiling"]) == (
        "missing",
        "stored",
        "stored",
    )
    level_two = states(found, "L2")
    assert (level_two["audit"], level_two["node_agents"]) == ("missing", "missing")
    assert {each["number"]: each["state"] for each in found["questions"]}[1] == "fully"
    assert found["next_actions"][0]["id"] == "enable/cluster_watch"
    assert any("no live source" in text for text in found["not_tested"])
    for each in found["levels"]:
        for capability in each["capabilities"]:
            assert (capability["state"] == "missing") <= bool(capability["lines"]), capability["id"]


def test_its_json_is_the_same_again_but_for_when_it_looked(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = examined(capsys, demo)[1], examined(capsys, demo)[1]
    for each in (first, second):
        del each["checked_at"]
    assert first == second


def test_a_level_that_is_not_reached_is_exit_one_and_narrows_what_is_said(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert examined(capsys, demo, "--level", "L0")[0] == 0
    code, found = examined(capsys, demo, "--level", "l1")
    assert code == 1
    assert [each["level"] for each in found["levels"]] == ["L0", "L1"]
    assert {each["level"] for each in found["next_actions"]} == {"L1"}


def test_a_word_that_is_no_level_or_no_time_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(ports(), ["doctor", "--level", "L9", "--data", str(tmp_path)]) == 2
    assert run(ports(), ["doctor", "--deadline", "1h", "--data", str(tmp_path)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert "expected L0, L1 or L2, found 'L9'" in errors[0]
    assert "expected 0.1s to 300s" in errors[1]


def test_an_empty_directory_is_told_where_to_begin_and_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "none"
    code, found = examined(capsys, data)
    assert (code, found["level"]) == (0, None)
    assert "nothing_there" in {each["id"] for each in found["symptoms"]}
    assert {each["state"] for each in found["questions"] if each["number"] in (1, 2)} == {"not"}
    assert not data.exists()


def configured(folder: Path, *urls: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = f'[[scrape]]\nname = "dcgm"\nurl = {json.dumps(urls)}\n'
    (folder / "steelyard.toml").write_text(text, encoding="utf-8")
    return folder


def test_a_live_source_that_works_is_exit_zero_and_what_it_lacks_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = card(A, ("DEV_FB_USED", "PROF_GR_ENGINE_ACTIVE")).replace(b'gpu="0"', b'gpu="0",pod="p",namespace="t"')
    with wild_server(says(answer(text))) as port:
        code, found = examined(capsys, configured(tmp_path, url(port)))
    assert code == 0
    (missing,) = [each for each in found["symptoms"] if each["id"] == "field_missing"]
    assert missing["lines"][0].startswith("DCGM_FI_PROF_SM_ACTIVE, gauge, ")
    assert states(found, "L1")["card_use"] == "live"
    assert states(found, "L1")["profiling"] == "missing"


def test_a_source_that_is_down_or_hangs_is_exit_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with wild_server(hangs) as slow, wild_server(says(answer(card(A)))) as good:
        code, found = examined(capsys, configured(tmp_path, url(slow), url(good)), "--deadline", "1s")
    assert code == 3
    (job_report,) = [each for each in found["sources"] if each["name"] == "scrape/dcgm"]
    assert job_report["status"] == "partial"
    assert job_report["seen"]["failed_count"] == 1
    assert found["symptoms"][0]["severity"] == "broken"


def test_settings_that_are_none_are_one_line_and_exit_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "steelyard.toml").write_text("[[scrape]]\nurl = 'x'\n", encoding="utf-8")
    assert run(ports(), ["doctor", "--data", str(tmp_path)]) == 2
    assert "steelyard.toml" in capsys.readouterr().err


def test_on_a_served_directory_the_server_looks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with wild_server(says(answer(card(A)))) as port:
        data = configured(tmp_path / "data", url(port))
        with serving(data) as server:
            code, found = examined(capsys, data)
            assert server.end()[0] == 0
    assert code == 1, "a card at work names no pod, which is a warning"
    assert "pod_labels_missing" in {each["id"] for each in found["symptoms"]}
    assert next(each for each in found["sources"] if each["name"] == "scrape/dcgm")["status"] == "ok"


def test_the_report_comes_back_from_its_json_as_it_was() -> None:
    for survey in (NOTHING, WELL, replace(WELL, unanswered=("scrape/x",)), exporter(fields=frozenset())):
        report = diagnose(survey, ["b", "a"])
        again = doctor_of(json.loads(json.dumps(report.to_json())))
        assert again.to_json() == report.to_json()
    with pytest.raises(SourceUnsupported):
        doctor_of({"checked_at": "2026-03-10T12:00:00Z"})


def test_the_text_shows_every_symptom_with_its_lines_at_any_width() -> None:
    report = diagnose(replace(exporter(fields=frozenset({252})), unanswered=("evil\x1b[2J",)), ["something"])
    for width in (None, 40, 80):
        lines = [line.text for line in render_doctor(report, width)]
        text = "\n".join(lines)
        assert "\x1b" not in text
        assert "DCGM_FI_PROF_SM_ACTIVE, gauge" in text
        assert "level reached: L0" in text
        assert "not tested" in text


def test_what_is_broken_stays_whatever_level_is_asked_for() -> None:
    report = up_to(diagnose(job(error="no token")), "L0")
    assert [each.id for each in report.symptoms] == ["source_unreachable"]
    assert exit_code(report, "L0") == 3
    assert exit_code(diagnose(WELL), None) == 0


def test_a_site_in_good_order_has_no_symptom() -> None:
    assert diagnose(WELL).symptoms == []


def test_the_report_speaks_the_language_of_whoever_asks() -> None:
    with speaking("zh"):
        assert diagnose(NOTHING).questions[0].title == ANSWERS[0].title_zh
    assert diagnose(NOTHING).questions[0].title == ANSWERS[0].title()


def sample(at: int, **more: Any) -> DeviceSample:
    return DeviceSample(source="dcgm", natural_key=A, occurred_at=at, observed_at=at, device_uuid=A, **more)


def test_what_came_lately_by_itself_is_live_and_what_was_imported_is_not() -> None:
    with Store.open_memory() as store:
        store.append([sample(NOW - HOUR_US, sm_active_ratio=0.5)])
        store.append([sample(NOW, gr_active_ratio=0.5)], import_id="file")
        store.append([sample(NOW, power_watts=70.0)])
        found = look_at_store(store, NOW)
    assert ("device_sample", "dcgm") in found.live
    assert found.columns == {"sm_active_ratio", "gr_active_ratio", "power_watts"}
    assert found.live_columns == {"power_watts"}
    assert not found.posted


def test_registers_and_instances_are_counted_as_they_were_seen_last() -> None:
    def device(encoding: str, at: int) -> Device:
        return Device(
            source="hami", natural_key=A, occurred_at=at, observed_at=at, device_uuid=A, node="n1", encoding=encoding
        )

    def unit(gi: int, ci: int, at: int, source: str = "nvidia_smi") -> Unit:
        return Unit(
            source=source, natural_key=f"{A}/{gi}/{ci}/{source}", occurred_at=at, observed_at=at, unit_kind="mig",
            unit_id=f"{A}/gi{gi}/ci{ci}", device_uuid=A, gi=gi, ci=ci,
        )  # fmt: skip

    with Store.open_memory() as store:
        store.append([device("csv7", NOW - HOUR_US), device("json", NOW)])
        store.append([unit(gi, 0, NOW - HOUR_US) for gi in range(7)])
        store.append([unit(1, 0, NOW), unit(1, 1, NOW), unit(2, 0, NOW), unit(9, 0, NOW, "dcgm")])
        found = look_at_store(store, NOW)
    assert dict(found.encodings) == {"json": 1}
    assert dict(found.mig_expected) == {A: 2}


def test_a_backup_leaves_a_note_of_itself(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    assert look_at_directory(data, 14).backup_at is None
    with Store.open(data) as store:
        back_up(store, data, tmp_path / "copy", FixedClock(NOW))
    assert last_backup_at(data) == look_at_directory(data, 14).backup_at == NOW
    for damaged in ("", "[]", '{"created_at": 5}', "{"):
        (data / "last-backup.json").write_text(damaged, encoding="utf-8")
        assert last_backup_at(data) is None
