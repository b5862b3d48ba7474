"""``bill --format pdf`` where the site writes its pages in one language and somebody speaks another."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.app.settings import load_settings
from steelyard.app.settlement_desk import OwnSettlement
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import UsageError
from steelyard.surfaces.reports import fonts
from steelyard.surfaces.shared.settlement_ports import Look
from tests.settlement.estate import at, opened


@pytest.mark.parametrize(("spoken", "written"), [("zh", "en"), ("en", "zh")])
def test_the_page_comes_in_the_language_that_the_site_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoken: str, written: str
) -> None:
    try:
        fonts.choose_font()
    except UsageError as error:
        pytest.skip(str(error))
    opened(tmp_path).close()
    (tmp_path / "steelyard.toml").write_text(f'[documents]\nlanguages = ["{written}"]\n', encoding="utf-8")
    monkeypatch.setenv("STEELYARD_LANG", spoken)
    settlement = OwnSettlement(tmp_path, load_settings(tmp_path), FixedClock(at("12-02")))
    ((name, content),) = settlement.documents(Look("statements", "2026-11", "team-a"), "pdf")
    assert name.endswith(f"statement-{written}.pdf")
    assert content.startswith(b"%PDF")
