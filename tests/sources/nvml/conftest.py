from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources.nvml.stub_library import NoCompiler, StubScenario, compile_stub

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed (extra agent)")


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return compile_stub(tmp_path_factory.mktemp("nvml-stub"))
    except NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture
def scenario(stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubScenario]:
    monkeypatch.setenv("STEELYARD_NVML_SCENARIO", str(tmp_path / "scenario.txt"))
    playing = StubScenario(tmp_path / "scenario.txt", stub)
    yield playing
    playing.release()
