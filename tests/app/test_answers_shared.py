"""The handed cases from file to answer: every figure by the command line, compared with the truth that was derived by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.wiring import ports
from steelyard.surfaces.cli import run


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(ports(), [*arguments, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def figures(document: dict[str, Any]) -> dict[str, Any]:
    return {figure["name"]: figure["value"] for figure in document["figures"]}


def rows(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    table = next(table for table in document["tables"] if table["name"] == name)
    return [dict(zip((column["name"] for column in table["columns"]), row, strict=True)) for row in table["rows"]]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEELYARD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_the_trace_gives_the_reference_gpu_hours(shared: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared / "cases" / "traces" / "alibaba-gpu-v2023"
    reference = json.loads((shared / "cases" / "traces" / "REFERENCE.json").read_text())["alibaba-gpu-v2023"]
    nodes = str(folder / "openb_node_list_all_node.csv")
    asked(capsys, "import", "openb", str(folder / "openb_pod_list_default.csv"), "--nodes", nodes)
    document = asked(capsys, "q2", "--by", "qos")
    assert figures(document)["gpu_hours_granted"] == pytest.approx(reference["gpu_hours_total"]["value"], abs=1e-6)
    assert figures(document)["ledger_residual_gpu_us"] == 0
    assert figures(document)["requests_unserved"] == reference["never_scheduled_pods"]["value"]["total"]
    assert figures(document)["requests_unserved_gpu"] == 861  # counted in the file: num_gpu > 0 and no scheduled_time
    assert figures(document)["gpu_hours_used"] is None
    assert {row["qos"]: row["gpu_hours_granted"] for row in rows(document, "consumption")} == pytest.approx(
        reference["gpu_hours_per_qos"]["value"], abs=1e-6
    )
    week = asked(capsys, "q2", "--from", "1970-05-23T08:09:20Z", "--to", "1970-05-30T08:09:20Z")
    assert figures(week)["gpu_hours_granted"] == pytest.approx(reference["alloc_gpu_hours_last_7d"]["value"], abs=1e-6)
    now = figures(asked(capsys, "q1", "--at", "1970-05-29"))
    assert now["gpus_supply"] == reference["gpus_total"]["value"]
    assert now["ledger_residual_gpu_us"] == 0


@pytest.mark.parametrize(("name", "hours"), [("gpushare40", 42_418.002), ("gpushare100", 15_149.957)])
def test_the_other_traces_too_without_a_node_file(
    name: str, hours: float, shared: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shared / "cases" / "traces" / "alibaba-gpu-v2023"
    asked(capsys, "import", "openb", str(folder / f"openb_pod_list_{name}.csv"))
    document = asked(capsys, "q2", "--by", "qos")
    assert figures(document)["gpu_hours_granted"] == pytest.approx(hours, abs=1e-3)
    assert document["coverage"] is None


def test_the_cards_of_the_hami_case_are_held_as_the_truth_says(
    shared: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shared / "cases" / "hami"
    truth = json.loads((folder / "expected.json").read_text())
    files = [str(folder / name) for name in ("nodes_hami.json", "pods_hami_mixed.json", "volcano_list.json")]
    asked(capsys, "import", *files, "--as-of", truth["snapshot_utc"])
    document = asked(capsys, "q1")
    cards = {row["device_uuid"]: row for row in rows(document, "devices")}
    held = {uuid: round(card["share_held_ratio"] * 1_000_000) for uuid, card in cards.items()}
    assert held == {uuid: card["held_share_ppm"] for uuid, card in truth["gpu_totals_allocated"].items()}
    holders = rows(document, "holders")
    for uuid, card in truth["gpu_totals_allocated"].items():
        of_card = [row for row in holders if row["device_uuid"] == uuid]
        for occupancy, prefix in (("held", "held"), ("reserved", "reserved"), ("in_suspense", "unattributed_claim")):
            memory = sum(row["memory_mib"] for row in of_card if row["occupancy"] == occupancy)
            assert memory == card[f"{prefix}_memory_mib"], (uuid, occupancy)
    expected = {name for name, pod in truth["pods"].items() if pod["state"] == "counts"}
    assert {f"{row['namespace']}/{row['pod']}" for row in holders if row["occupancy"] == "held"} == expected
    starts = {f"{row['namespace']}/{row['pod']}": row["started_at"] for row in holders}
    for name in expected:
        assert starts[name] == truth["pods"][name]["grant_start_utc"], name
    assert figures(document)["ledger_residual_gpu_us"] == 0


def test_a_past_pod_counts_what_it_held(shared: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared / "cases" / "hami"
    truth = json.loads((folder / "expected.json").read_text())
    files = [str(folder / name) for name in ("nodes_hami.json", "pods_hami_mixed.json")]
    asked(capsys, "import", *files, "--as-of", truth["snapshot_utc"])
    values = figures(asked(capsys, "q2", "--pod", "team-a/batch-done"))
    (gpu_us,) = truth["pods"]["team-a/batch-done"]["held_gpu_share_microseconds_by_device"].values()
    names = ("gpu_hours_granted", "gpu_hours_reserved", "gpu_hours_in_suspense", "gpu_hours_overcommitted")
    reserved_us = 500_000  # half a card for the second from the Filter's stamp to the bind
    assert sum(values[name] for name in names) * 3_600_000_000 == pytest.approx(gpu_us + reserved_us, abs=10)
