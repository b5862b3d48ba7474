from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources.nvml.stub_library import NoCompiler, compile_stub


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver's stub, compiled."""
    try:
        return compile_stub(tmp_path_factory.mktemp("nvml-stub"))
    except NoCompiler as error:
        pytest.skip(str(error))
