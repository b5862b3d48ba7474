"""Queue waits of the handed cases, from file to ledger, against the numbers that were derived by hand or by an independent script."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.app.wiring import ports
from steelyard.definitions.kaplan_meier import Ends, kaplan_meier_quantile
from steelyard.definitions.percentile import percentile_linear
from steelyard.primitives.instant import SECOND_US
from steelyard.primitives.unknown import Unknown
from steelyard.store import Store
from steelyard.surfaces.cli import run

_ENDS = """
SELECT
  epoch_us(coalesce(ended_at, known_to_at)) - epoch_us(started_at), count(*) FILTER (WHERE ended_by = 'scheduled'),
  count(*) FILTER (WHERE ended_by = 'abandoned'), count(*) FILTER (WHERE ended_by IS NULL)
FROM ledger.wait
WHERE stage = 'scheduler' AND unknown_reason IS NULL AND gpu_milli >= $milli
GROUP BY 1
"""


def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Store:
    monkeypatch.setenv("STEELYARD_DATA", str(tmp_path / "data"))
    assert run(ports(), ["import", *arguments]) == 0
    return Store.open(tmp_path / "data")


def seconds(us: int | Unknown) -> float | None:
    return None if isinstance(us, Unknown) else us / SECOND_US


def test_the_waits_of_the_trace_are_the_reference_s(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = shared / "cases" / "traces" / "alibaba-gpu-v2023" / "openb_pod_list_default.csv"
    with imported(tmp_path, monkeypatch, "openb", str(pods)) as store:
        everyone = [Ends(*row) for row in store.rows(_ENDS, {"milli": 0})]
        on_gpus = [Ends(*row) for row in store.rows(_ENDS, {"milli": 1})]
    scheduled = [at.time_us for at in everyone for _each in range(at.events)]
    assert len(scheduled) == 7255
    assert sum(at.abandoned for at in everyone) == 897
    naive = [percentile_linear(scheduled, p) for p in (0.5, 0.95, 0.99)]
    assert [value / SECOND_US for value in naive if not isinstance(value, Unknown)] == pytest.approx([2, 241, 889.64])
    assert [seconds(kaplan_meier_quantile(everyone, p)) for p in (0.5, 0.9, 0.95, 0.99)] == [3, 278, 596, 3069]
    assert [seconds(kaplan_meier_quantile(on_gpus, p)) for p in (0.5, 0.95, 0.99)] == [3, 667, 3354]
