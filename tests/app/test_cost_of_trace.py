"""The openb trace with one price for all cards, from file to answer; and what a meter would charge that knows no fractions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.wiring import ports
from steelyard.surfaces.cli import run

FRACTION_BLIND_GPU_HOURS = 59_612.211
COST, CHARGE = 1.5, 2.0
SEVEN = ("A10", "G2", "G3", "P100", "T4", "V100M16", "V100M32")


def one_price() -> str:
    return f"side,currency,price,per\ncost,USD,{COST},hour\ncharge,USD,{CHARGE},hour\n"


def seven_prices() -> str:
    rows = [
        f"{side},{model},USD,{1 + number},hour" for number, model in enumerate(SEVEN) for side in ("cost", "charge")
    ]
    return "\n".join(["side,model,currency,price,per", *rows, ""])


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
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("STEELYARD_DATA", str(tmp_path / "data"))
    yield tmp_path


def priced(data: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = data / "prices.csv"
    path.write_text(text, encoding="utf-8")
    asked(capsys, "prices", "import", str(path))


def test_the_trace_with_one_price_costs_its_gpu_hours_by_qos(
    shared: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shared / "cases" / "traces" / "alibaba-gpu-v2023"
    reference = json.loads((shared / "cases" / "traces" / "REFERENCE.json").read_text())["alibaba-gpu-v2023"]
    priced(data, one_price(), capsys)
    nodes = str(folder / "openb_node_list_all_node.csv")
    asked(capsys, "import", "openb", str(folder / "openb_pod_list_default.csv"), "--nodes", nodes)
    document = asked(capsys, "q9", "--by", "qos")
    found = figures(document)
    hours = reference["gpu_hours_total"]["value"]
    assert found["gpu_hours_granted"] == pytest.approx(hours, abs=1e-6)
    assert found["gpu_hours_charged"] == pytest.approx(hours, abs=1e-6)
    assert found["gpu_hours_whole_cards"] == pytest.approx(FRACTION_BLIND_GPU_HOURS, abs=1e-3)
    assert (found["cost_residual_micro"], found["cost_residual_gpu_us"]) == (0, 0)
    assert (found["gpu_hours_unpriced_cost"], found["currency"]) == (0, "USD")
    by_qos = {row["qos"]: row for row in rows(document, "costs")}
    for qos, value in reference["gpu_hours_per_qos"]["value"].items():
        assert by_qos[qos]["gpu_hours_granted"] == pytest.approx(value, abs=1e-6)
        assert by_qos[qos]["cost_allocated"] == pytest.approx(COST * value, abs=1e-2)
        assert by_qos[qos]["charge"] == pytest.approx(CHARGE * value, abs=1e-2)
    money = [round(row[name] * 1_000_000) for row in by_qos.values() for name in ("cost_allocated", "cost_other")]
    assert sum(money) == round(found["cost_total"] * 1_000_000), "both to the millionth"
    assert found["cost_total"] == pytest.approx(COST * found["gpu_hours_supply"], abs=0.01), (
        "rounded once a node and hour"
    )


def test_the_trace_without_its_nodes_under_seven_models_is_unpriced_since_no_model_is_known(
    shared: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shared / "cases" / "traces" / "alibaba-gpu-v2023"
    priced(data, seven_prices(), capsys)
    asked(capsys, "import", "openb", str(folder / "openb_pod_list_default.csv"))
    document = asked(capsys, "q9")
    assert figures(document)["cost_total"] is None
    assert {(row["side"], row["reason"]) for row in rows(document, "unpriced")} == {
        ("cost", "model unknown"), ("charge", "model unknown"),
    }  # fmt: skip
    charge = next(row for row in rows(document, "unpriced") if row["side"] == "charge")
    assert charge["gpu_hours"] == pytest.approx(figures(document)["gpu_hours_charged"])
